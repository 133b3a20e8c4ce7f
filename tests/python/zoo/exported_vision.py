"""Models of pictures in the exporters' styles: a U-Net for pictures of any size, a detector that suppresses boxes over a free batch,
and blocks of a Swin transformer."""

from pathlib import Path

import numpy as np
from onnx import TensorProto

from zoo import seeds
from zoo.exported import LOWEST, Dynamo, gelu, layer_norm, linear, positions, silu
from zoo.graph import GraphBuilder
from zoo.runner import write_with_outputs
from zoo.store import Task

SIZES = ((1, 32, 48), (2, 64, 64), (1, 96, 32))
"""Batch, height and width."""
CHANNELS = (16, 32, 48)
CLASSES, STRIDES, REACH = 5, (8, 16), 24
SIDE, WINDOW, WIDTH, HEADS = 16, 4, 32, 4
BATCHES = (1, 2, 5)


def tasks() -> list[Task]:
    """Gives a task for each model."""
    return [
        Task("exported/unet", fill_unet),
        Task("exported/detector", fill_detector),
        Task("exported/swin", fill_swin),
    ]


def write(folder: Path, g: GraphBuilder, name: str, channels: int, shapes: tuple[tuple[int, int, int], ...]) -> None:
    """Writes a model with a picture of each size."""

    def given(batch: int, height: int, width: int) -> dict[str, np.ndarray]:
        rng = seeds.generator(g.name, f"{name}{batch}x{height}x{width}")
        return {name: seeds.normal(rng, (batch, channels, height, width), 1.0)}

    first, *others = shapes
    more = ((f"_{batch}x{height}x{width}", given(batch, height, width)) for batch, height, width in others)
    write_with_outputs(folder, g.model(), ("", given(*first)), *more)


def convolution(g: GraphBuilder, name: str, value: str, channels: tuple[int, int], side: int = 3, stride: int = 1) -> str:
    """Adds a convolution that keeps the size but for its stride; channels are those that come and go."""
    before, after = channels
    weight = g.random(f"{name}.weight", (after, before, side, side), (2 / (before * side * side)) ** 0.5)
    bias, pads = g.random(f"{name}.bias", (after,), 0.1), (side // 2,) * 4
    shape = {"kernel_shape": (side, side), "strides": (stride, stride), "pads": pads, "dilations": (1, 1), "group": 1}
    return g.op("Conv", value, weight, bias, **shape)


def double(g: GraphBuilder, name: str, value: str, before: int, after: int) -> str:
    """Adds two convolutions with activations."""
    value = g.op("Relu", convolution(g, f"{name}.0", value, (before, after)))
    return g.op("Relu", convolution(g, f"{name}.2", value, (after, after)))


def fill_unet(folder: Path) -> None:
    """Writes a U-Net as TorchScript exports it: one way up is a transposed convolution, the other is interpolated to the size of the map
    that it is joined with."""
    g = GraphBuilder("unet")
    value = g.input("image", TensorProto.FLOAT, ("batch", 3, "height", "width"))
    first = double(g, "down.0", value, 3, CHANNELS[0])
    second = double(g, "down.1", half(g, first), CHANNELS[0], CHANNELS[1])
    value = double(g, "down.2", half(g, second), CHANNELS[1], CHANNELS[2])
    weight = g.random("up.1.weight", (CHANNELS[2], CHANNELS[1], 2, 2), 0.15)
    value = g.op("ConvTranspose", value, weight, g.random("up.1.bias", (CHANNELS[1],), 0.1), kernel_shape=(2, 2), strides=(2, 2))
    value = double(g, "mix.1", g.op("Concat", second, value, axis=1), 2 * CHANNELS[1], CHANNELS[1])
    batch_and_channels = g.op("Slice", g.op("Shape", value), g.constant([0]), g.constant([2]), g.constant([0]))
    size = g.op("Slice", g.op("Shape", first), g.constant([2]), g.constant([4]), g.constant([0]))
    shape = g.op("Concat", batch_and_channels, size, axis=0)
    way = {"coordinate_transformation_mode": "half_pixel", "mode": "linear"}
    value = g.op("Resize", value, "", "", shape, **way)
    value = double(g, "mix.0", g.op("Concat", first, value, axis=1), CHANNELS[0] + CHANNELS[1], CHANNELS[0])
    g.output(convolution(g, "last", value, (CHANNELS[0], 2), 1), "mask", ("batch", 2, "height", "width"))
    write(folder, g, "image", 3, SIZES)


def half(g: GraphBuilder, value: str) -> str:
    """Adds a maximum over squares of two."""
    return g.op("MaxPool", value, kernel_shape=(2, 2), strides=(2, 2))


def fill_detector(folder: Path) -> None:
    """Writes a detector of two scales: boxes about cells of grids that follow the picture's size, then suppression of each class in each
    picture, and for each box that is left its picture, class, corners and score."""
    g = GraphBuilder("detector_of_any_size")
    value = g.input("image", TensorProto.FLOAT, ("batch", 3, "height", "width"))
    for number, after in enumerate((12, 16, 24)):
        value = silu(g, convolution(g, f"stem.{number}", value, ((3, 12, 16)[number], after), 3, 2))
    near = value
    far = silu(g, convolution(g, "far", near, (24, 24), 3, 2))
    parts = [scale(g, f"head.{stride}", maps, stride) for maps, stride in zip((near, far), STRIDES, strict=True)]
    boxes, scores = (g.op("Concat", *side, axis=axis) for side, axis in zip(zip(*parts, strict=True), (1, 2), strict=True))
    limits = (g.constant([12]), g.constant(0.45), g.constant(0.5))
    chosen = g.op("NonMaxSuppression", boxes, scores, *limits)
    picture, kind, cell = (g.op("Gather", chosen, g.constant(np.asarray(column)), axis=1) for column in range(3))
    by_cell = g.op("Concat", *(g.op("Unsqueeze", part, g.constant([1])) for part in (picture, cell)), axis=1)
    g.output(g.op("GatherND", boxes, by_cell), "boxes", ("found", 4))
    g.output(g.op("GatherND", scores, chosen), "scores", ("found",))
    labels = g.op("Concat", *(g.op("Unsqueeze", part, g.constant([1])) for part in (picture, kind)), axis=1)
    g.output(g.op("Add", g.op("Cast", labels, to=TensorProto.FLOAT), g.constant(1.0)), "labels", ("found", 2))
    write(folder, g, "image", 3, SIZES)


def scale(g: GraphBuilder, name: str, value: str, stride: int) -> tuple[str, str]:
    """Adds the heads of one scale: boxes [batch, cells, 4] and scores [batch, classes, cells]."""
    rows, columns = (positions(g, g.dimension(value, axis)) for axis in (2, 3))
    shape = g.op("Concat", *(g.as_vector(g.dimension(value, axis)) for axis in (2, 3)), axis=0)
    down = g.op("Expand", g.op("Unsqueeze", rows, g.constant([1])), shape)
    across = g.op("Expand", g.op("Unsqueeze", columns, g.constant([0])), shape)
    corners = [g.op("Unsqueeze", g.op("Cast", axis, to=TensorProto.FLOAT), g.constant([2])) for axis in (down, across)]
    centres = g.op("Mul", g.op("Add", g.reshape(g.op("Concat", *corners, axis=2), 1, -1, 2), g.constant(0.5)), g.constant(float(stride)))
    sides = g.op("Sigmoid", convolution(g, f"{name}.sides", value, (24, 4), 1))
    sides = g.op("Mul", g.op("Transpose", g.reshape(sides, 0, 4, -1), perm=(0, 2, 1)), g.constant(float(REACH)))
    before, behind = g.op_many("Split", 2, sides, axis=2)
    boxes = g.op("Concat", g.op("Sub", centres, before), g.op("Add", centres, behind), axis=2)
    return boxes, g.reshape(g.op("Sigmoid", convolution(g, f"{name}.kinds", value, (24, CLASSES), 1)), 0, CLASSES, -1)


def fill_swin(folder: Path) -> None:
    """Writes two blocks, the second with shifted windows, as the dynamo exporter does; the batch is free."""
    g = Dynamo("swin")
    value = g.input("map", TensorProto.FLOAT, ("batch", WIDTH, SIDE, SIDE))
    value = g.op("Transpose", value, perm=(0, 2, 3, 1))
    for number, shift in enumerate((0, WINDOW // 2)):
        name = f"blocks.{number}"
        moved = layer_norm(g, f"{name}.norm1", value, WIDTH)
        for axis in (1, 2):
            moved = roll(g, moved, -shift, axis)
        moved = windows(g, name, moved, shift)
        for axis in (1, 2):
            moved = roll(g, moved, shift, axis)
        value = g.op("Add", value, moved)
        wide = gelu(g, linear(g, f"{name}.mlp.0", layer_norm(g, f"{name}.norm2", value, WIDTH), WIDTH, 4 * WIDTH))
        value = g.op("Add", value, linear(g, f"{name}.mlp.2", wide, 4 * WIDTH, WIDTH))
    g.output(layer_norm(g, "norm", value, WIDTH), "tokens", ("batch", SIDE, SIDE, WIDTH))
    write(folder, g, "map", WIDTH, tuple((batch, SIDE, SIDE) for batch in BATCHES))


def roll(g: GraphBuilder, value: str, by: int, axis: int) -> str:
    """Moves a value along an axis; what leaves it at one end comes back at the other."""
    if by == 0:
        return value
    ends = (g.constant([np.iinfo(np.int64).max]), g.constant([axis]), g.constant([1]))
    behind = g.op("Slice", value, g.constant([-by]), *ends)
    before = g.op("Slice", value, g.constant([0]), g.constant([-by]), *ends[1:])
    return g.op("Concat", behind, before, axis=axis)


def windows(g: GraphBuilder, name: str, value: str, shift: int) -> str:
    """Adds attention within windows, with a bias by the distance of two places; where windows are shifted, those that were not
    neighbours do not see each other."""
    count, area, width = SIDE // WINDOW, WINDOW**2, WIDTH // HEADS
    value = g.op("Transpose", g.reshape(value, -1, count, WINDOW, count, WINDOW, WIDTH), perm=(0, 1, 3, 2, 4, 5))
    value = linear(g, f"{name}.qkv", g.reshape(value, -1, area, WIDTH), WIDTH, 3 * WIDTH)
    value = g.op("Transpose", g.reshape(value, -1, area, 3, HEADS, width), perm=(2, 0, 3, 1, 4))
    query, key, content = (g.op("Gather", value, g.constant(np.asarray(part)), axis=0) for part in range(3))
    query = g.op("Mul", query, g.constant(width**-0.5))
    scores = g.op("MatMul", query, g.op("Transpose", key, perm=(0, 1, 3, 2)))
    table = g.random(f"{name}.bias_table", ((2 * WINDOW - 1) ** 2, HEADS), 0.5)
    bias = g.reshape(g.op("Gather", table, g.constant(distances().reshape(-1))), area, area, HEADS)
    scores = g.op("Add", scores, g.op("Unsqueeze", g.op("Transpose", bias, perm=(2, 0, 1)), g.constant([0])))
    if shift:
        scores = g.reshape(scores, -1, count**2, HEADS, area, area)
        scores = g.reshape(g.op("Add", scores, g.constant(mask(shift))), -1, HEADS, area, area)
    mixed = g.op("Transpose", g.op("MatMul", g.op("Softmax", scores, axis=-1), content), perm=(0, 2, 1, 3))
    value = linear(g, f"{name}.proj", g.reshape(mixed, -1, area, WIDTH), WIDTH, WIDTH)
    value = g.op("Transpose", g.reshape(value, -1, count, count, WINDOW, WINDOW, WIDTH), perm=(0, 1, 3, 2, 4, 5))
    return g.reshape(value, -1, SIDE, SIDE, WIDTH)


def distances() -> np.ndarray:
    """Gives for two places of a window the row of the table of biases."""
    places = np.stack(np.meshgrid(np.arange(WINDOW), np.arange(WINDOW), indexing="ij")).reshape(2, -1)
    apart = places[:, :, None] - places[:, None, :] + WINDOW - 1
    return apart[0] * (2 * WINDOW - 1) + apart[1]


def mask(shift: int) -> np.ndarray:
    """Gives what hides places of other regions of the map from each other, for each window."""
    part = np.digitize(np.arange(SIDE), (SIDE - WINDOW, SIDE - shift))
    regions = part[:, None] * 3 + part[None, :]
    count = SIDE // WINDOW
    rows = regions.reshape(count, WINDOW, count, WINDOW).transpose(0, 2, 1, 3).reshape(count**2, -1)
    hidden = rows[:, :, None] != rows[:, None, :]
    return np.where(hidden, np.float32(LOWEST), np.float32(0))[None, :, None]
