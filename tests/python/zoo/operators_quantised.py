"""Two models that onnxruntime's tool quantised into its own operators: a convolutional net into operators on integers, and an LSTM."""

import logging
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantFormat, QuantType, quantize_dynamic, quantize_static

from zoo import quantised, runner, seeds
from zoo.store import Arrays, Task, write_case

NET, RECURRENT = "net_operators", "lstm_dynamic"
PICTURE, CHANNELS, CLASSES = (1, 3, 32, 32), 256, 16
STEPS, WIDTH, HIDDEN = 12, 256, 512
# What the tool must have made.
OF_NET = {"QLinearAdd", "QLinearMul", "QLinearAveragePool", "QLinearConcat", "QLinearConv", "QLinearGlobalAveragePool", "QLinearLeakyRelu", "QLinearSigmoid", "QLinearSoftmax", "QGemm"}
OF_RECURRENT = {"DynamicQuantizeLSTM", "MatMulInteger"}


def tasks() -> list[Task]:
    """Gives a task for each model."""
    return [
        Task(f"quantised/{NET}", partial(fill, net, static, OF_NET)),
        Task(f"quantised/{RECURRENT}", partial(fill, recurrent, dynamic, OF_RECURRENT)),
    ]


def fill(build: Callable[[], tuple[onnx.ModelProto, Arrays]], quantise: Callable[[Path, Path, Arrays], None], wanted: set[str], folder: Path) -> None:
    """Writes the quantised model with an input and what onnxruntime makes of it."""
    logging.disable(logging.WARNING)
    model, inputs = build()
    with tempfile.TemporaryDirectory() as scratch:
        plain, target = Path(scratch) / "plain.onnx", Path(scratch) / "quantised.onnx"
        onnx.save(model, plain)
        quantise(plain, target, inputs)
        made = onnx.load(target)
        missing = wanted - {node.op_type for node in made.graph.node}
        if missing:
            raise ValueError(f"the tool did not make {missing}")
        write_case(folder, made, inputs, runner.run(quantised.node_by_node(target), inputs))


def static(source: Path, target: Path, inputs: Arrays) -> None:
    """Quantises into operators on integers; of weights 7 bits, since without VNNI onnxruntime adds products in 16 bits."""
    quantize_static(source, target, quantised.Sample(inputs), quant_format=QuantFormat.QOperator, per_channel=True, reduce_range=True, activation_type=QuantType.QUInt8, weight_type=QuantType.QInt8)


def dynamic(source: Path, target: Path, _: Arrays) -> None:
    """Quantises weights, of 7 bits as above; what they are multiplied with is quantised when the model runs."""
    quantize_dynamic(source, target, reduce_range=True, weight_type=QuantType.QInt8)


class Graph:
    """Nodes and weights of a model that is being written."""

    def __init__(self, name: str) -> None:
        """Starts an empty graph."""
        self.name = name
        self.nodes: list[onnx.NodeProto] = []
        self.stored: list[onnx.TensorProto] = []

    def weight(self, name: str, shape: tuple[int, ...], deviation: float) -> str:
        """Adds a weight."""
        self.stored.append(numpy_helper.from_array(seeds.normal(seeds.generator(self.name, name), shape, deviation), name))
        return name

    def node(self, op: str, inputs: list[str], output: str, **attributes: object) -> str:
        """Adds a node."""
        self.nodes.append(helper.make_node(op, inputs, [output], output, **attributes))
        return output

    def conv(self, source: str, target: str, channels: int, size: int = 3, **attributes: object) -> str:
        """Adds a convolution that keeps the size."""
        weight = self.weight(f"{target}.weight", (CHANNELS, channels, size, size), (2 / (channels * size * size)) ** 0.5)
        return self.node("Conv", [source, weight, self.weight(f"{target}.bias", (CHANNELS,), 0.1)], target, pads=[size // 2] * 4, **attributes)

    def model(self, source: tuple[str, tuple[int | str, ...]], target: tuple[str, tuple[int | str, ...]]) -> onnx.ModelProto:
        """Gives the model."""
        ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (source, target)]
        graph = helper.make_graph(self.nodes, self.name, ports[:1], ports[1:], self.stored)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def net() -> tuple[onnx.ModelProto, Arrays]:
    """Gives a small net with most of what the tool has operators for."""
    g = Graph(NET)
    stem = g.node("LeakyRelu", [g.conv("x", "stem", 3, strides=[2, 2])], "stem.active", alpha=0.1)
    first = g.node("Relu", [g.conv(stem, "first", CHANNELS)], "first.active")
    total = g.node("Add", [g.conv(first, "second", CHANNELS), stem], "total")
    pooled = g.node("AveragePool", [total], "pooled", kernel_shape=[2, 2], strides=[2, 2])
    gate = g.node("Sigmoid", [g.conv(pooled, "gate", CHANNELS, 1)], "gate.open")
    gated = g.node("Mul", [g.conv(pooled, "third", CHANNELS), gate], "gated")
    both = g.node("Concat", [gated, pooled], "both", axis=1)
    last = g.conv(both, "last", 2 * CHANNELS)
    flat = g.node("Flatten", [g.node("GlobalAveragePool", [last], "mean")], "flat")
    scores = g.node("Gemm", [flat, g.weight("head.weight", (CLASSES, CHANNELS), 0.1), g.weight("head.bias", (CLASSES,), 0.1)], "scores", transB=1)
    g.node("Softmax", [scores], "y", axis=1)
    return g.model(("x", PICTURE), ("y", (1, CLASSES))), {"x": seeds.image(NET, PICTURE)}


def recurrent() -> tuple[onnx.ModelProto, Arrays]:
    """Gives an LSTM of both directions with a product behind it."""
    g = Graph(RECURRENT)
    bound = HIDDEN**-0.5
    weights = [g.weight("w", (2, 4 * HIDDEN, WIDTH), bound), g.weight("r", (2, 4 * HIDDEN, HIDDEN), bound), g.weight("b", (2, 8 * HIDDEN), bound)]
    states = g.node("LSTM", ["x", *weights], "states", direction="bidirectional", hidden_size=HIDDEN)
    rows = g.node("Transpose", [states], "rows", perm=[0, 2, 1, 3])
    g.stored.append(numpy_helper.from_array(np.array([0, 0, -1]), "shape"))
    flat = g.node("Reshape", [rows, "shape"], "flat")
    g.node("MatMul", [flat, g.weight("head", (2 * HIDDEN, WIDTH), bound)], "y")
    x = seeds.normal(seeds.generator(RECURRENT, "x"), (STEPS, 1, WIDTH), 1.0)
    return g.model(("x", ("steps", 1, WIDTH)), ("y", ("steps", 1, WIDTH))), {"x": x}
