"""Prints how many bytes a model's distinct initializers hold: `unique_bytes.py MODEL`.

Two initializers are the same where type, shape and content are. This is the least that an artifact which
stores each weight once needs.
"""

import argparse
from pathlib import Path

import onnx
from onnx import numpy_helper


def unique_bytes(model: onnx.ModelProto) -> int:
    """Sums the sizes of the distinct initializers."""
    arrays = (numpy_helper.to_array(tensor) for tensor in model.graph.initializer)
    distinct = {(str(array.dtype), array.shape, array.tobytes()) for array in arrays}
    return sum(len(content) for _, _, content in distinct)


def main() -> None:
    """Prints the number for one model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    print(unique_bytes(onnx.load(parser.parse_args().model)))


if __name__ == "__main__":
    main()
