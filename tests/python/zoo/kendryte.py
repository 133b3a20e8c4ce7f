"""Models at the limits of the K210, with seeded weights and seeded smooth pictures to calibrate with."""

from pathlib import Path

import numpy as np
from onnx import TensorProto

from zoo import mobilenet, seeds
from zoo.graph import GraphBuilder
from zoo.runner import write_with_outputs
from zoo.store import Task, write_npz

PICTURES = 8
GRID = 7
"""Cells a side of the random grid that a smooth picture is interpolated from."""

# MobileNetV1 of width 0.75: the channels of each separable block, and whether it halves the map.
BLOCKS = (
    (48, False),
    (96, True),
    (96, False),
    (192, True),
    (192, False),
    (384, True),
    *((384, False),) * 5,
    (768, True),
    (768, False),
)
STEM = 24
# An f32 matrix of the usual 1,000 classes would take half of the K210's memory.
CLASSES = 100
LOGIT_SCALE = 2.0
WIDE = 512


def tasks() -> list[Task]:
    """Gives one task for each model."""
    return [Task("kendryte/wide", fill_wide), Task("kendryte/mobilenet", fill_mobilenet)]


def fill_wide(folder: Path) -> None:
    """Writes a net whose 3x3 convolution of 512 to 512 channels takes more weight loads than the KPU can count."""
    g = GraphBuilder("kendryte_wide")
    value = g.input("input", TensorProto.FLOAT, (1, 3, 16, 16))
    value = g.op("Relu", mobilenet.conv_bn(g, "stem", value, 3, WIDE, kernel=3, stride=2))
    value = g.op("Relu", mobilenet.conv_bn(g, "wide", value, WIDE, WIDE, kernel=3))
    g.output(classifier(g, value, WIDE, 10), "output", (1, 10))
    write(folder, g, 16)


def fill_mobilenet(folder: Path) -> None:
    """Writes MobileNetV1-0.75 as a K210 can run it.

    The 1x1 convolutions have the strides, for the KPU has no depthwise ones; ONNX's pads are the same on all sides.
    """
    g = GraphBuilder("kendryte_mobilenet")
    value = g.input("input", TensorProto.FLOAT, (1, 3, 224, 224))
    value = mobilenet.relu6(g, mobilenet.conv_bn(g, "stem", value, 3, STEM, kernel=3, stride=2))
    channels = STEM
    for number, (width, halve) in enumerate(BLOCKS):
        block = f"blocks.{number}"
        value = mobilenet.conv_bn(g, f"{block}.depthwise", value, channels, channels, kernel=3, groups=channels)
        value = mobilenet.conv_bn(g, f"{block}.point", mobilenet.relu6(g, value), channels, width, stride=1 + halve)
        value, channels = mobilenet.relu6(g, value), width
    g.output(g.op("Softmax", classifier(g, value, channels, CLASSES), axis=1), "output", (1, CLASSES))
    write(folder, g, 224)


def classifier(g: GraphBuilder, value: str, channels: int, classes: int) -> str:
    """Adds the pooling and the last layer."""
    pooled = g.op("Flatten", g.op("GlobalAveragePool", value), axis=1)
    weight = g.random("classifier.weight", (classes, channels), LOGIT_SCALE * (2 / channels) ** 0.5)
    return g.op("Gemm", pooled, weight, g.random("classifier.bias", (classes,), 0.1), transB=1)


def write(folder: Path, g: GraphBuilder, size: int) -> None:
    """Writes a model, `dataset.npz` and, for one more picture, inputs and outputs."""
    pictures = smooth_pictures(g.name, PICTURES + 1, size)
    write_npz(folder / "dataset.npz", {"input": pictures[1:]})
    write_with_outputs(folder, g.model(), ("", {"input": pictures[:1]}))


def smooth_pictures(model: str, count: int, size: int) -> np.ndarray:
    """Draws pictures [n, 3, size, size] in [0, 1] that change slowly, as photographs do."""
    grid = seeds.uniform(seeds.generator(model, "pictures"), (count, 3, GRID, GRID), 0.0, 1.0)
    at = np.linspace(0, GRID - 1, size)
    enlarge = np.maximum(0, 1 - np.abs(at[:, np.newaxis] - np.arange(GRID))).astype(np.float32)
    return enlarge @ grid @ enlarge.T
