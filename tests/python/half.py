"""Writes a model with every f32 as f16: `half.py MODEL OUTPUT`.

Weights, constants, inputs, outputs and casts; numbers beyond f16's range become its largest ones.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

LARGEST = float(np.finfo(np.float16).max)
SINGLE, HALF = TensorProto.FLOAT, TensorProto.FLOAT16


def half(tensor: TensorProto) -> None:
    """Rounds a tensor of f32 in place."""
    if tensor.data_type == SINGLE:
        values = np.clip(numpy_helper.to_array(tensor), -LARGEST, LARGEST).astype(np.float16)
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def attributes(graph: onnx.GraphProto) -> Iterator[tuple[onnx.NodeProto, onnx.AttributeProto]]:
    """Gives every attribute with its node."""
    return ((node, attribute) for node in graph.node for attribute in node.attribute)


def convert(graph: onnx.GraphProto) -> None:
    """Makes every f32 of a graph f16."""
    for tensor in graph.initializer:
        half(tensor)
    for node, attribute in attributes(graph):
        if attribute.type == onnx.AttributeProto.TENSOR:
            half(attribute.t)
        if node.op_type == "Cast" and attribute.name == "to" and attribute.i == SINGLE:
            attribute.i = HALF
    for value in (*graph.input, *graph.output, *graph.value_info):
        if value.type.tensor_type.elem_type == SINGLE:
            value.type.tensor_type.elem_type = HALF


def main() -> None:
    """Reads, converts and writes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("output", type=Path)
    arguments = parser.parse_args()
    model = onnx.load(arguments.model)
    convert(model.graph)
    onnx.save(model, arguments.output)


if __name__ == "__main__":
    main()
