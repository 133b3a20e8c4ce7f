"""Models that onnxruntime's tool quantised (QDQ), of layers that a K210 has.

What is expected of them is what onnxruntime computes node by node.
"""

import logging
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from zoo import kendryte, mobilenet, quantised
from zoo.graph import GraphBuilder
from zoo.store import Arrays, Task, write_case, write_npz

SIZE, PICTURES = 32, 8
UNSIGNED, SIGNED = QuantType.QUInt8, QuantType.QInt8
FORMS = {
    # Types of activations and of weights, and whether each channel has a scale of its own.
    "u8_s8": (UNSIGNED, SIGNED, False),
    "u8_s8_channels": (UNSIGNED, SIGNED, True),
    "u8_u8": (UNSIGNED, UNSIGNED, False),
    "s8_s8_channels": (SIGNED, SIGNED, True),
}
"""What is quantised how, in the name of a case."""


def tasks() -> list[Task]:
    """Gives a task for each form of the nets, and one for MobileNet."""
    nets: dict[str, Callable[[GraphBuilder], None]] = {"chain": chain, "layers": layers}
    return [
        *(
            Task(f"kendryte_qdq/{name}_{form}", lambda folder, name=name, net=net, form=form: fill(folder, name, net, form))
            for name, net in nets.items()
            for form in FORMS
        ),
        Task("kendryte_qdq/mobilenet", fill_mobilenet),
    ]


def fill(folder: Path, name: str, net: Callable[[GraphBuilder], None], form: str) -> None:
    """Writes a net of seeded weights in one form."""
    g = GraphBuilder(f"kendryte_qdq_{name}")
    net(g)
    write(folder, g.model(), kendryte.smooth_pictures(g.name, PICTURES + 1, SIZE), form)


def fill_mobilenet(folder: Path) -> None:
    """Writes MobileNetV1-0.75 with a scale for each channel of the weights."""
    with tempfile.TemporaryDirectory() as scratch:
        plain = Path(scratch)
        kendryte.fill_mobilenet(plain)
        with np.load(plain / "inputs.npz") as one, np.load(plain / "dataset.npz") as more:
            pictures = np.concatenate([one["input"], more["input"]])
        write(folder, onnx.load(plain / "model.onnx"), pictures, "u8_s8_channels")


def write(folder: Path, model: onnx.ModelProto, pictures: np.ndarray, form: str) -> None:
    """Quantises a model by all pictures but the first, and writes what onnxruntime makes of that one."""
    with tempfile.TemporaryDirectory() as scratch:
        target = Path(scratch) / "quantised.onnx"
        static(model, target, [{"input": picture[np.newaxis]} for picture in pictures[1:]], form)
        inputs = {"input": pictures[:1]}
        write_case(folder, onnx.load(target), inputs, quantised.expected(target, inputs))
    write_npz(folder / "dataset.npz", {"input": pictures[1:]})


def static(model: onnx.ModelProto, target: Path, samples: list[Arrays], form: str) -> None:
    """Writes the model quantised, with the normalisation folded into the convolutions."""
    logging.disable(logging.WARNING)
    activation_type, weight_type, per_channel = FORMS[form]
    with tempfile.TemporaryDirectory() as scratch:
        plain, prepared = Path(scratch) / "plain.onnx", Path(scratch) / "prepared.onnx"
        onnx.save(model, plain)
        quant_pre_process(plain, prepared, skip_symbolic_shape=True)
        quantize_static(
            prepared,
            target,
            Samples(samples),
            quant_format=QuantFormat.QDQ,
            per_channel=per_channel,
            activation_type=activation_type,
            weight_type=weight_type,
        )


class Samples(CalibrationDataReader):
    """Samples to choose ranges from."""

    def __init__(self, samples: list[Arrays]) -> None:
        """Takes the samples."""
        self.left = [dict(sample) for sample in reversed(samples)]

    def get_next(self) -> dict[str, np.ndarray] | None:
        """Gives one after another."""
        return self.left.pop() if self.left else None


def chain(g: GraphBuilder) -> None:
    """Adds convolutions with biases and what follows them at once."""
    value = g.input("input", TensorProto.FLOAT, (1, 3, SIZE, SIZE))
    value = g.op("Relu", conv(g, "first", value, 3, 16))
    value = g.op("Relu", conv(g, "half", value, 16, 24, stride=2))
    value = mobilenet.relu6(g, conv(g, "depthwise", value, 24, 24, groups=24))
    g.output(conv(g, "last", value, 24, 8, kernel=1), "output", (1, 8, SIZE // 2, SIZE // 2))


def layers(g: GraphBuilder) -> None:
    """Adds one of each kind of layer."""
    value = g.input("input", TensorProto.FLOAT, (1, 3, SIZE, SIZE))
    value = g.op("LeakyRelu", conv(g, "stem", value, 3, 16), alpha=0.1)
    value = g.op("MaxPool", value, kernel_shape=[2, 2], strides=[2, 2])
    inner = g.op("Relu", conv(g, "inner", value, 16, 16))
    value = g.op("Relu", g.op("Add", value, conv(g, "outer", inner, 16, 16, kernel=1)))
    left = g.op("Sigmoid", conv(g, "left", value, 16, 8, kernel=1))
    right = g.op("AveragePool", conv(g, "right", value, 16, 8), kernel_shape=[2, 2], strides=[2, 2])
    scales = g.stored("scales", np.asarray([1, 1, 2, 2], np.float32))
    nearest = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    value = g.op("Concat", left, g.op("Resize", right, "", scales, **nearest), axis=1)
    value = g.op("MaxPool", conv(g, "joined", value, 16, 32, kernel=1), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    g.output(g.op("Softmax", kendryte.classifier(g, value, 32, 10), axis=1), "output", (1, 10))


def conv(
    g: GraphBuilder, name: str, value: str, inputs: int, outputs: int, *, kernel: int = 3, stride: int = 1, groups: int = 1
) -> str:
    """Adds a convolution with a bias."""
    deviation = (2 / (inputs // groups * kernel**2)) ** 0.5
    weight = g.random(f"{name}.weight", (outputs, inputs // groups, kernel, kernel), deviation)
    bias = g.random(f"{name}.bias", (outputs,), 0.2)
    return g.op("Conv", value, weight, bias, pads=[kernel // 2] * 4, strides=[stride] * 2, group=groups)
