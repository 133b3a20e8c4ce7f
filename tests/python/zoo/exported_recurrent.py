"""Recurrent models in the exporters' styles, with free batch and length: an LSTM tagger, a GRU, and a selective scan as in Mamba."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from zoo import seeds
from zoo.exported import Dynamo, linear, rms_norm, silu, sizes
from zoo.graph import GraphBuilder
from zoo.runner import write_with_outputs
from zoo.store import Arrays, Task

SIZES = ((1, 5), (3, 12), (2, 33))
"""Batch and length."""
WORDS, WIDTH, HIDDEN, TAGS = 2000, 48, 64, 9
FEATURES, LAYERS = 40, 2
INNER, STATE, WINDOW = 96, 8, 4


def tasks() -> list[Task]:
    """Gives a task for each model."""
    return [
        Task("exported/lstm_tagger", fill_tagger),
        Task("exported/gru", fill_gru),
        Task("exported/selective_scan", fill_scan),
    ]


def write(folder: Path, g: GraphBuilder, given: Callable[[int, int], Arrays]) -> None:
    """Writes a model with inputs of each size."""
    first, *others = SIZES
    more = ((f"_{batch}x{length}", given(batch, length)) for batch, length in others)
    write_with_outputs(folder, g.model(), ("", given(*first)), *more)


def words(model: str, batch: int, length: int) -> np.ndarray:
    """Draws words."""
    return seeds.generator(model, f"{batch}x{length}").integers(0, WORDS, (batch, length), np.int64)


def features(model: str, batch: int, length: int) -> np.ndarray:
    """Draws a row of numbers for each place."""
    return seeds.normal(seeds.generator(model, f"{batch}x{length}"), (batch, length, FEATURES), 1.0)


def fill_tagger(folder: Path) -> None:
    """Writes the tagger as TorchScript exports it: the first states are made of the batch's size."""
    g = GraphBuilder("lstm_tagger")
    tokens = g.input("tokens", TensorProto.INT64, ("batch", "length"))
    value = g.op("Gather", g.random("embedding.weight", (WORDS, WIDTH), 1.0), tokens)
    start = g.op("ConstantOfShape", sizes(g, tokens, 2, "0", HIDDEN), value=zero())
    value = g.op("Transpose", value, perm=(1, 0, 2))
    weights = [
        g.random("lstm.W", (2, 4 * HIDDEN, WIDTH), (1 / WIDTH) ** 0.5),
        g.random("lstm.R", (2, 4 * HIDDEN, HIDDEN), (1 / HIDDEN) ** 0.5),
        g.random("lstm.B", (2, 8 * HIDDEN), 0.1),
    ]
    value, last, _ = g.op_many("LSTM", 3, value, *weights, "", start, start, direction="bidirectional", hidden_size=HIDDEN)
    value = g.reshape(g.op("Transpose", value, perm=(0, 2, 1, 3)), 0, 0, -1)
    value = g.op("Transpose", value, perm=(1, 0, 2))
    g.output(linear(g, "tags", value, 2 * HIDDEN, TAGS), "scores", ("batch", "length", TAGS))
    g.output(last, "last", (2, "batch", HIDDEN))
    write(folder, g, lambda batch, length: {"tokens": words("lstm_tagger", batch, length)})


def zero() -> TensorProto:
    """Gives the element of a tensor of zeros."""
    return helper.make_tensor("zero", TensorProto.FLOAT, (1,), (0.0,))


def fill_gru(folder: Path) -> None:
    """Writes two layers of PyTorch's GRU, which resets behind the product; the states come from outside and go back there."""
    g = GraphBuilder("gru")
    value = g.op("Transpose", g.input("features", TensorProto.FLOAT, ("batch", "length", FEATURES)), perm=(1, 0, 2))
    states = g.input("states", TensorProto.FLOAT, (LAYERS, "batch", HIDDEN))
    last = []
    for layer in range(LAYERS):
        width = HIDDEN if layer else FEATURES
        weights = [
            g.random(f"gru.{layer}.W", (1, 3 * HIDDEN, width), (1 / width) ** 0.5),
            g.random(f"gru.{layer}.R", (1, 3 * HIDDEN, HIDDEN), (1 / HIDDEN) ** 0.5),
            g.random(f"gru.{layer}.B", (1, 6 * HIDDEN), 0.3),
        ]
        state = g.op("Slice", states, g.constant([layer]), g.constant([layer + 1]), g.constant([0]))
        value, end = g.op_many("GRU", 2, value, *weights, "", state, hidden_size=HIDDEN, linear_before_reset=1)
        value = g.op("Squeeze", value, g.constant([1]))
        last.append(end)
    g.output(g.op("Transpose", value, perm=(1, 0, 2)), "found", ("batch", "length", HIDDEN))
    g.output(g.op("Concat", *last, axis=0), "last", (LAYERS, "batch", HIDDEN))

    def given(batch: int, length: int) -> Arrays:
        rng = seeds.generator("gru", f"states{batch}")
        return {"features": features("gru", batch, length), "states": seeds.normal(rng, (LAYERS, batch, HIDDEN), 0.5)}

    write(folder, g, given)


def fill_scan(folder: Path) -> None:
    """Writes two layers of a selective scan, as the dynamo exporter does with a scan over time."""
    g = Dynamo("selective_scan")
    tokens = g.input("tokens", TensorProto.INT64, ("batch", "length"))
    value = g.op("Gather", g.random("embedding.weight", (WORDS, WIDTH), 1.0), tokens)
    for layer in range(LAYERS):
        name = f"layers.{layer}"
        value = g.op("Add", value, mixer(g, name, rms_norm(g, f"{name}.norm", value, WIDTH)))
    value = rms_norm(g, "norm", value, WIDTH)
    g.output(linear(g, "head", value, WIDTH, TAGS, bias=False), "scores", ("batch", "length", TAGS))
    write(folder, g, lambda batch, length: {"tokens": words("selective_scan", batch, length)})


def mixer(g: GraphBuilder, name: str, value: str) -> str:
    """Adds a layer: a causal convolution by channel, the scan with steps that the input chooses, and a gate."""
    value, gate = g.op_many("Split", 2, linear(g, f"{name}.in", value, WIDTH, 2 * INNER, bias=False), axis=-1, num_outputs=2)
    columns = g.op("Transpose", value, perm=(0, 2, 1))
    weight, bias = g.random(f"{name}.conv.weight", (INNER, 1, WINDOW), 0.5), g.random(f"{name}.conv.bias", (INNER,), 0.1)
    columns = g.op("Conv", columns, weight, bias, group=INNER, pads=(WINDOW - 1, 0), kernel_shape=(WINDOW,))
    value = silu(g, g.op("Transpose", columns, perm=(0, 2, 1)))
    projected = linear(g, f"{name}.x", value, INNER, 2 * STATE, bias=False)
    write_by, read_by = g.op_many("Split", 2, projected, axis=-1, num_outputs=2)
    step = g.op("Softplus", linear(g, f"{name}.dt", value, INNER, INNER))
    decay = g.op("Neg", g.op("Exp", g.between(f"{name}.A_log", (INNER, STATE), 0.0, 2.0)))
    wide = g.op("Unsqueeze", step, g.constant([-1]))
    kept = g.op("Exp", g.op("Mul", wide, decay))
    row = g.op("Unsqueeze", write_by, g.constant([2]))
    added = g.op("Mul", g.op("Mul", wide, row), g.op("Unsqueeze", value, g.constant([-1])))
    found = scan(g, kept, added, read_by)
    found = g.op("Add", found, g.op("Mul", g.between(f"{name}.D", (INNER,), 0.5, 1.5), value))
    return linear(g, f"{name}.out", g.op("Mul", found, silu(g, gate)), INNER, WIDTH, bias=False)


def scan(g: GraphBuilder, kept: str, added: str, read_by: str) -> str:
    """Adds `state = kept * state + added` over the second axis, and what is read of the state at each place."""
    start = g.op("ConstantOfShape", sizes(g, kept, "0", INNER, STATE), value=zero())
    attributes = {"num_scan_inputs": 3, "scan_input_axes": (1, 1, 1), "scan_output_axes": (1,)}
    return g.op_many("Scan", 2, start, kept, added, read_by, body=step_of_scan(g), **attributes)[1]


def step_of_scan(g: GraphBuilder) -> onnx.GraphProto:
    """Gives the body: the next state, and the sum of it over what reads it."""
    nodes = [
        helper.make_node("Mul", ("kept", "state"), ("left",)),
        helper.make_node("Add", ("left", "added"), ("next",)),
        helper.make_node("Unsqueeze", ("read_by", "one"), ("row",)),
        helper.make_node("Mul", ("next", "row"), ("products",)),
        helper.make_node("ReduceSum", ("products", "last"), ("found",), keepdims=0),
    ]
    state, found = ("batch", INNER, STATE), ("batch", INNER)
    inputs = [("state", state), ("kept", state), ("added", state), ("read_by", ("batch", STATE))]
    values = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in side] for side in (inputs, [("next", state), ("found", found)])]
    axes = [helper.make_tensor(name, TensorProto.INT64, (1,), (axis,)) for name, axis in (("one", 1), ("last", -1))]
    return helper.make_graph(nodes, f"{g.name}_step", *values, axes)
