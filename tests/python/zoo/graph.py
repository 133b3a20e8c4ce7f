"""Builds an ONNX model node by node, in the style of an exporter: names are made up, weights are stored."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from zoo import seeds

OPSET = 17
IR_VERSION = 8


class GraphBuilder:
    """A graph that grows; every method that adds something gives the name of the value added."""

    opset, ir_version = OPSET, IR_VERSION

    def __init__(self, name: str) -> None:
        """Starts an empty graph; the name also seeds its weights."""
        self.name = name
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: list[TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, element: int, shape: tuple[int | str, ...]) -> str:
        """Declares a graph input."""
        self.inputs.append(helper.make_tensor_value_info(name, element, shape))
        return name

    def output(self, value: str, name: str, shape: tuple[int | str, ...]) -> None:
        """Declares an f32 graph output that carries a value."""
        self.nodes.append(helper.make_node("Identity", [value], [name], name=f"/{name}"))
        self.outputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))

    def stored(self, name: str, values: np.ndarray) -> str:
        """Stores an initializer."""
        self.initializers.append(numpy_helper.from_array(values, name))
        return name

    def random(self, name: str, shape: tuple[int, ...], deviation: float) -> str:
        """Stores normal random numbers around zero."""
        return self.stored(name, seeds.normal(seeds.generator(self.name, name), shape, deviation))

    def between(self, name: str, shape: tuple[int, ...], low: float, high: float) -> str:
        """Stores random numbers between two bounds."""
        return self.stored(name, seeds.uniform(seeds.generator(self.name, name), shape, low, high))

    def constant(self, values: float | list[int] | np.ndarray) -> str:
        """Adds a `Constant` node: a float as f32, a list as i64, an array as it is."""
        dtype = {float: np.float32, list: np.int64}.get(type(values))
        return self.op("Constant", value=numpy_helper.from_array(np.asarray(values, dtype)))

    def op(self, op_type: str, *inputs: str, **attributes: object) -> str:
        """Adds a node with one output."""
        return self.op_many(op_type, 1, *inputs, **attributes)[0]

    def op_many(self, op_type: str, count: int, *inputs: str, **attributes: object) -> list[str]:
        """Adds a node with several outputs."""
        label = f"/{op_type}_{len(self.nodes)}"
        outputs = [f"{label}_output_{index}" for index in range(count)]
        self.nodes.append(helper.make_node(op_type, inputs, outputs, name=label, **attributes))
        return outputs

    def reshape(self, value: str, *shape: int) -> str:
        """Reshapes to a constant shape."""
        return self.op("Reshape", value, self.constant(list(shape)))

    def dimension(self, value: str, axis: int) -> str:
        """Reads one dimension as a scalar, by the Shape and Gather that PyTorch writes."""
        return self.op("Gather", self.op("Shape", value), self.constant(np.asarray(axis)), axis=0)

    def as_vector(self, scalar: str) -> str:
        """Makes a one-element vector of a scalar."""
        return self.op("Unsqueeze", scalar, self.constant([0]))

    def model(self) -> onnx.ModelProto:
        """Gives the finished model."""
        graph = helper.make_graph(self.nodes, self.name, self.inputs, self.outputs, self.initializers)
        return helper.make_model(
            graph,
            producer_name="byoc-tests",
            ir_version=self.ir_version,
            opset_imports=[helper.make_opsetid("", self.opset)],
        )
