"""Prints how many bytes a model's distinct initializers hold: `unique_bytes.py MODEL`.

Two initializers are the same where type, shape and content are. This is the least that an artifact which
stores each weight once needs.
"""

import argparse
from pathlib import Path

import onnx
from onnx import TensorProto, numpy_helper

# In arrays an element of these has a byte of its own, in models several share one.
BITS = {TensorProto.INT4: 4, TensorProto.UINT4: 4, TensorProto.FLOAT4E2M1: 4, TensorProto.INT2: 2, TensorProto.UINT2: 2}


def unique_bytes(model: onnx.ModelProto) -> int:
    """Sums the sizes of the distinct initializers."""
    tensors = ((tensor.data_type, numpy_helper.to_array(tensor)) for tensor in model.graph.initializer)
    distinct = {(kind, array.shape, array.tobytes()) for kind, array in tensors}
    return sum(-(-len(content) * BITS.get(kind, 8) // 8) for kind, _, content in distinct)


def main() -> None:
    """Prints the number for one model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    print(unique_bytes(onnx.load(parser.parse_args().model)))


if __name__ == "__main__":
    main()
