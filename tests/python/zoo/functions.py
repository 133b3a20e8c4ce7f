"""A model of operators that ONNX defines as functions of others, whose sizes are free."""

from pathlib import Path

import numpy as np
from onnx import TensorProto

from zoo import seeds
from zoo.graph import GraphBuilder
from zoo.runner import write_with_outputs
from zoo.store import Arrays, Task

OPSET, IR_VERSION = 21, 10
CHANNELS = 4
SIZES = ((1, 4, 6), (2, 8, 4), (3, 6, 10))
"""Batch, height and width."""


def tasks() -> list[Task]:
    """Gives the one task."""
    return [Task("free/functions", fill)]


def fill(folder: Path) -> None:
    """Writes the model, with an image and the classes of its pixels for each size."""
    g = GraphBuilder("functions")
    sizes = ("batch", "height", "width")
    x = g.input("x", TensorProto.FLOAT, (sizes[0], CHANNELS, *sizes[1:]))
    classes = g.input("classes", TensorProto.INT64, sizes)
    activations(g, x)
    rearrangements(g, x)
    losses(g, x, classes)
    model = g.model()
    model.opset_import[0].version, model.ir_version = OPSET, IR_VERSION
    first, *others = SIZES
    more = ((f"_{batch}x{height}x{width}", image(batch, height, width)) for batch, height, width in others)
    write_with_outputs(folder, model, ("", image(*first)), *more)


def image(batch: int, height: int, width: int) -> Arrays:
    """Draws the inputs of one size."""
    rng = seeds.generator("functions", f"{batch}x{height}x{width}")
    x = seeds.normal(rng, (batch, CHANNELS, height, width), 1.5)
    return {"x": x, "classes": rng.integers(0, CHANNELS, (batch, height, width), np.int64)}


def activations(g: GraphBuilder, x: str) -> None:
    """Adds what keeps the shape."""
    shape = ("batch", CHANNELS, "height", "width")
    slope = g.random("slope", (CHANNELS, 1, 1), 0.3)
    scale, bias = (g.between(name, (CHANNELS,), 0.5, 1.5) for name in ("scale", "bias"))
    results = {
        "celu": g.op("Celu", x, alpha=0.7),
        "prelu": g.op("PRelu", x, slope),
        "selu": g.op("Selu", x),
        "shrink": g.op("Shrink", x, lambd=0.6, bias=0.2),
        "softsign": g.op("Softsign", x),
        "thresholded": g.op("ThresholdedRelu", x, alpha=0.4),
        "group": g.op("GroupNormalization", x, scale, bias, num_groups=2),
        "mean_variance": g.op("MeanVarianceNormalization", x, axes=[0, 2, 3]),
    }
    for name, value in results.items():
        g.output(value, name, shape)


def rearrangements(g: GraphBuilder, x: str) -> None:
    """Adds what moves elements, and a grid and windows that have the sizes of the image."""
    results = {
        "depth_to_space": g.op("DepthToSpace", x, blocksize=2),
        "depth_to_space_crd": g.op("DepthToSpace", x, blocksize=2, mode="CRD"),
        "space_to_depth": g.op("SpaceToDepth", x, blocksize=2),
        "center": g.op("CenterCropPad", x, g.constant([5, 7]), axes=[2, 3]),
    }
    for name, value in results.items():
        g.output(value, name, ("batch", f"{name}_channels", f"{name}_height", f"{name}_width"))
    theta = g.op("Slice", g.op("Softsign", x), g.constant([0, 0]), g.constant([2, 3]), g.constant([2, 3]))
    theta = g.op("ReduceMax", theta, g.constant([1]), keepdims=0)
    for name, aligned in (("grid", 0), ("aligned_grid", 1)):
        g.output(g.op("AffineGrid", theta, g.op("Shape", x), align_corners=aligned), name, ("batch", "height", "width", 2))
    width = g.dimension(x, 3)
    for name, kind in (("blackman", "BlackmanWindow"), ("hamming", "HammingWindow"), ("hann", "HannWindow")):
        g.output(g.op(kind, width), name, ("width",))


def losses(g: GraphBuilder, x: str, classes: str) -> None:
    """Adds losses of the classes of pixels."""
    weight = g.between("weight", (CHANNELS,), 0.5, 1.5)
    loss, logarithms = g.op_many("SoftmaxCrossEntropyLoss", 2, x, classes, weight, reduction="none", ignore_index=1)
    g.output(loss, "cross_entropy", ("batch", "height", "width"))
    g.output(logarithms, "logarithms", ("batch", CHANNELS, "height", "width"))
    likelihood = g.op("NegativeLogLikelihoodLoss", logarithms, classes, weight, reduction="mean")
    g.output(g.op("Mul", likelihood, g.op("Sigmoid", x)), "likelihood", ("batch", CHANNELS, "height", "width"))
