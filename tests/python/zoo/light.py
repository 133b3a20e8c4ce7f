"""The nine `light` models of the onnx wheel, with the wheel's own input rule and outputs."""

from functools import partial
from pathlib import Path

import numpy as np
import onnx

from zoo import wheel
from zoo.store import Task, write_case

NAMES = (
    "bvlc_alexnet",
    "densenet121",
    "inception_v1",
    "inception_v2",
    "resnet50",
    "shufflenet",
    "squeezenet",
    "vgg19",
    "zfnet512",
)


def tasks() -> list[Task]:
    """Gives one task for each light model."""
    return [Task(f"light/{name}", partial(fill, name)) for name in NAMES]


def load(name: str) -> onnx.ModelProto:
    """Loads a light model as the wheel has it."""
    return onnx.load(wheel.DATA / "light" / f"light_{name}.onnx")


def fill(name: str, folder: Path) -> None:
    """Writes one light model with the inputs and outputs that the wheel's runner uses."""
    model = load(name)
    inputs = {value.name: ramp(wheel.static_shape(value)) for value in wheel.free_inputs(model.graph)}
    outputs = {
        value.name: wheel.read_array(wheel.DATA / "light" / f"light_{name}_output_{index}.pb")
        for index, value in enumerate(model.graph.output)
    }
    write_case(folder, model, inputs, outputs)


def ramp(shape: tuple[int, ...]) -> np.ndarray:
    """Gives the input of onnx's runner for these models: 0, 1/n, 2/n, ..."""
    count = int(np.prod(shape))
    return (np.arange(count).reshape(shape) / count).astype(np.float32)
