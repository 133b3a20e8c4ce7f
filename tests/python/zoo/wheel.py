"""Finds and reads the test cases that the onnx wheel carries."""

from pathlib import Path

import numpy as np
import onnx
from onnx import numpy_helper

DATA = Path(onnx.__file__).parent / "backend" / "test" / "data"


def read_tensor(path: Path) -> onnx.TensorProto:
    """Reads one `input_k.pb` or `output_k.pb`."""
    tensor = onnx.TensorProto()
    tensor.ParseFromString(path.read_bytes())
    return tensor


def read_array(path: Path) -> np.ndarray:
    """Reads one tensor file as an array."""
    return numpy_helper.to_array(read_tensor(path))


def free_inputs(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Gives the inputs that have no initializer (IR 3 lists every initializer as an input)."""
    constant = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in constant]


def static_shape(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    """Gives the declared shape of a value whose dimensions are all known."""
    return tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
