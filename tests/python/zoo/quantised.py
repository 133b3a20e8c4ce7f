"""Models that onnxruntime's own tool quantised: static, in QDQ form with a scale for each channel, of 8 and of 7 bits, and dynamic.

What is expected of them is what onnxruntime computes node by node: its optimised graphs round elsewhere.
"""

import logging
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import version_converter
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_dynamic, quantize_static
from onnxruntime.quantization.shape_inference import quant_pre_process

from zoo import bert, mobilenet, runner, seeded
from zoo.store import Arrays, Task, write_case

OPSET, IR_VERSION = 17, 8
SOURCES: dict[str, Callable[[Path], None]] = {
    "mobilenet_v2": mobilenet.fill,
    "resnet50": partial(seeded.fill, "resnet50"),
    "bert_base": bert.fill,
}


def tasks() -> list[Task]:
    """Gives three tasks for each model."""
    return [
        Task(f"quantised/{name}_{kind}", partial(fill, name, quantise))
        for name in SOURCES
        for kind, quantise in (("qdq", static), ("qdq_7_bits", partial(static, reduce_range=True)), ("dynamic", dynamic))
    ]


def fill(name: str, quantise: Callable[[Path, Path, Arrays], None], folder: Path) -> None:
    """Writes the quantised model with an input and what onnxruntime makes of it."""
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as scratch:
        plain, prepared, quantised = (Path(scratch) / part for part in ("plain", "prepared.onnx", "quantised.onnx"))
        plain.mkdir()
        SOURCES[name](plain)
        modernise(plain / "model.onnx")
        # Folds normalisation into convolutions, as the tool asks for.
        quant_pre_process(plain / "model.onnx", prepared, skip_symbolic_shape=True)
        with np.load(plain / "inputs.npz") as arrays:
            inputs = dict(arrays)
        quantise(prepared, quantised, inputs)
        write_case(folder, onnx.load(quantised), inputs, expected(quantised, inputs))


def modernise(path: Path) -> None:
    """Brings a model to an operator set that has a scale for each channel, with initializers that are no inputs."""
    model = onnx.load(path)
    if model.opset_import[0].version < OPSET:
        model = version_converter.convert_version(model, OPSET)
        model.ir_version = IR_VERSION
    stored = {tensor.name for tensor in model.graph.initializer}
    free = [value for value in model.graph.input if value.name not in stored]
    del model.graph.input[:]
    model.graph.input.extend(free)
    onnx.save(model, path)


class Sample(CalibrationDataReader):
    """One sample to choose ranges from."""

    def __init__(self, inputs: Arrays) -> None:
        """Takes the sample."""
        self.left = [dict(inputs)]

    def get_next(self) -> dict[str, np.ndarray] | None:
        """Gives the sample once."""
        return self.left.pop() if self.left else None


def static(source: Path, target: Path, inputs: Arrays, *, reduce_range: bool = False) -> None:
    """Quantises activations by the ranges of the sample, and weights by channel: to 7 bits where the range is reduced."""
    quantize_static(
        source,
        target,
        Sample(inputs),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        reduce_range=reduce_range,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )


def dynamic(source: Path, target: Path, _: Arrays) -> None:
    """Quantises weights; activations are quantised when the model runs."""
    quantize_dynamic(source, target, per_channel=True, weight_type=QuantType.QInt8)


def expected(path: Path, inputs: Arrays) -> dict[str, np.ndarray]:
    """Runs a model node by node."""
    return runner.run(node_by_node(path), inputs)


def node_by_node(path: Path) -> onnxruntime.InferenceSession:
    """Opens a model that is run as it is."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = runner.ERROR
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
