"""Models whose sizes are free: a BERT of two layers with any batch and length, and a detector that finds as many boxes as there are."""

from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

from zoo import seeds
from zoo.bert import EPSILON, TOKEN_TYPES, VOCABULARY, erf_gelu, linear, mask_bias, pooler
from zoo.graph import GraphBuilder
from zoo.runner import write_with_outputs
from zoo.store import Task, write_case, write_npz
from zoo.transformer import FEED_FORWARD, HEAD_WIDTH, HEADS, HIDDEN, layer_norm

POSITIONS, LAYERS = 512, 2
SIZES = ((1, 1), (2, 7), (1, 64), (3, 128), (1, 300))
"""Batch and length."""
IMAGE, CLASSES, CELLS = 64, 5, 256
SLOPES = (0.5, -0.25, 2.0, 0.125, 1.5)


def tasks() -> list[Task]:
    """Gives a task for each model."""
    return [Task("free/bert_2_layers", fill_bert), Task("free/detector", fill_detector), Task("free/slopes", fill_slopes)]


def fill_bert(folder: Path) -> None:
    """Writes the transformer with a sentence of each size; shapes are computed as PyTorch's exporter does."""
    g = GraphBuilder("bert_2_layers")
    names = ("input_ids", "attention_mask", "token_type_ids")
    words, mask, kinds = (g.input(name, TensorProto.INT64, ("batch", "length")) for name in names)
    batch, length = (g.as_vector(g.dimension(words, axis)) for axis in (0, 1))
    bias = mask_bias(g, mask)
    value = layer_norm(g, "embeddings.LayerNorm", embeddings(g, words, kinds, length), EPSILON)
    for number in range(LAYERS):
        value = layer(g, f"encoder.layer.{number}", value, bias, (batch, length))
    g.output(value, "last_hidden_state", ("batch", "length", HIDDEN))
    g.output(pooler(g, value), "pooler_output", ("batch", HIDDEN))
    first, *others = SIZES
    more = ((f"_{batch}x{length}", sentence(batch, length)) for batch, length in others)
    write_with_outputs(folder, g.model(), ("", sentence(*first)), *more)


def sentence(batch: int, length: int) -> dict[str, np.ndarray]:
    """Draws words, of which the last of each sentence but the first are padding."""
    rng = seeds.generator("bert_2_layers", f"{batch}x{length}")
    ends = np.maximum(length - 2 * np.arange(batch), 1)[:, None]
    mask = (np.arange(length)[None] < ends).astype(np.int64)
    return {
        "input_ids": rng.integers(1, VOCABULARY, (batch, length), np.int64) * mask,
        "attention_mask": mask,
        "token_type_ids": rng.integers(0, TOKEN_TYPES, (batch, length), np.int64),
    }


def embeddings(g: GraphBuilder, words: str, kinds: str, length: str) -> str:
    """Adds the three embeddings; positions are as many as there are words."""
    table = g.random("embeddings.word_embeddings.weight", (VOCABULARY, HIDDEN), 0.5)
    kind_table = g.random("embeddings.token_type_embeddings.weight", (TOKEN_TYPES, HIDDEN), 0.3)
    position_table = g.random("embeddings.position_embeddings.weight", (POSITIONS, HIDDEN), 0.3)
    all_positions = g.constant(np.arange(POSITIONS, dtype=np.int64)[None])
    positions = g.op("Slice", all_positions, g.constant([0]), length, g.constant([1]))
    value = g.op("Add", g.op("Gather", table, words), g.op("Gather", kind_table, kinds))
    return g.op("Add", value, g.op("Gather", position_table, positions))


def layer(g: GraphBuilder, name: str, value: str, bias: str, sizes: tuple[str, str]) -> str:
    """Adds one post-normalised layer."""
    parts = ("query", "key", "value")
    query, key, content = (linear(g, f"{name}.attention.self.{part}", value, HIDDEN, HIDDEN) for part in parts)
    heads = g.op("Concat", *sizes, g.constant([HEADS, HEAD_WIDTH]), axis=0)
    joined = g.op("Concat", *sizes, g.constant([HIDDEN]), axis=0)

    def split(part: str, order: tuple[int, ...]) -> str:
        return g.op("Transpose", g.op("Reshape", part, heads), perm=order)

    product = g.op("MatMul", split(query, (0, 2, 1, 3)), split(key, (0, 2, 3, 1)))
    scores = g.op("Add", g.op("Div", product, g.constant(float(HEAD_WIDTH**0.5))), bias)
    weighted = g.op("MatMul", g.op("Softmax", scores, axis=-1), split(content, (0, 2, 1, 3)))
    attended = g.op("Reshape", g.op("Transpose", weighted, perm=(0, 2, 1, 3)), joined)
    attended = linear(g, f"{name}.attention.output.dense", attended, HIDDEN, HIDDEN)
    value = layer_norm(g, f"{name}.attention.output.LayerNorm", g.op("Add", attended, value), EPSILON)
    wide = erf_gelu(g, linear(g, f"{name}.intermediate.dense", value, HIDDEN, FEED_FORWARD))
    narrow = linear(g, f"{name}.output.dense", wide, FEED_FORWARD, HIDDEN)
    return layer_norm(g, f"{name}.output.LayerNorm", g.op("Add", narrow, value), EPSILON)


def fill_detector(folder: Path) -> None:
    """Writes a detector: boxes and scores of a grid, suppressed by each other, the best ten of those that are left."""
    g = GraphBuilder("detector")
    image = g.input("image", TensorProto.FLOAT, (1, 3, IMAGE, IMAGE))
    features = g.op("Relu", convolution(g, "stem", image, (16, 3), 4))
    boxes = g.op("Sigmoid", convolution(g, "boxes", features, (4, 16), 1))
    boxes = g.op("Transpose", g.reshape(boxes, 1, 4, CELLS), perm=(0, 2, 1))
    scores = g.reshape(convolution(g, "scores", features, (CLASSES, 16), 1), 1, CLASSES, CELLS)
    limits = (g.constant([20]), g.constant(0.5), g.constant(0.6))
    chosen = g.op("NonMaxSuppression", boxes, scores, *limits, center_point_box=1)
    kinds, cells = (g.op("Gather", chosen, g.constant(np.asarray(column)), axis=1) for column in (1, 2))
    found = g.op("GatherND", scores, chosen)
    most = g.op("Min", g.op("Shape", found), g.constant([10]))
    best, order = g.op_many("TopK", 2, found, most, axis=0)
    g.output(best, "scores", ("found",))
    cells = g.op("Gather", cells, order)
    g.output(g.op("Gather", g.op("Squeeze", boxes, g.constant([0])), cells), "boxes", ("found", 4))
    g.output(g.op("Cast", g.op("Gather", kinds, order), to=TensorProto.FLOAT), "classes", ("found",))
    shape = (1, 3, IMAGE, IMAGE)
    first, second = ({"image": seeds.image(f"detector.{name}", shape)} for name in ("first", "second"))
    nothing = {"image": np.zeros(shape, np.float32)}
    write_with_outputs(folder, g.model(), ("", first), ("_second", second), ("_nothing", nothing))


def convolution(g: GraphBuilder, name: str, value: str, channels: tuple[int, int], stride: int) -> str:
    """Adds a convolution of 4x4 in steps of 4, or of 1x1."""
    weight = g.random(f"{name}.weight", (*channels, stride, stride), (1 / (channels[1] * stride)) ** 0.5)
    return g.op("Conv", value, weight, g.random(f"{name}.bias", channels[:1], 0.1), strides=(stride, stride))


def fill_slopes(folder: Path) -> None:
    """Writes PRelu of operator set 6, whose slopes are one for each channel or one for all; onnxruntime does not know it any more."""
    shape = ("batch", len(SLOPES), "height", "width")
    x, y, z = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xyz")
    nodes = [helper.make_node("PRelu", ("x", "slopes"), ("y",)), helper.make_node("PRelu", ("y", "slope"), ("z",))]
    slopes = [numpy_helper.from_array(np.asarray(numbers, np.float32), name) for name, numbers in (("slopes", SLOPES), ("slope", SLOPES[:1]))]
    listed = [helper.make_tensor_value_info(tensor.name, TensorProto.FLOAT, tensor.dims) for tensor in slopes]
    graph = helper.make_graph(nodes, "slopes", [x, *listed], [y, z], slopes)
    write_case(folder, helper.make_model(graph, opset_imports=[helper.make_opsetid("", 6)], ir_version=3), {})
    for suffix, size in (("", (1, 3, 4)), ("_second", (2, 5, 1)), ("_third", (3, 1, 7))):
        batch, *rest = size
        given = seeds.image(f"slopes{suffix}", (batch, len(SLOPES), *rest))
        once = np.where(given < 0, given * np.asarray(SLOPES, np.float32)[:, None, None], given)
        twice = np.where(once < 0, once * np.float32(SLOPES[0]), once)
        write_npz(folder / f"inputs{suffix}.npz", {"x": given})
        write_npz(folder / f"outputs{suffix}.npz", {"y": once, "z": twice})
