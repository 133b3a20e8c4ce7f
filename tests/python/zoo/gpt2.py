"""GPT-2 small (12 layers, hidden 768, prefill of 128 tokens) as exported from its common implementation.

The word embedding is tied: the last layer reads a `Transpose` of the same initializer.
"""

from pathlib import Path

import numpy as np
from onnx import TensorProto

from zoo import seeds
from zoo.graph import GraphBuilder
from zoo.runner import write_with_outputs
from zoo.store import Task
from zoo.transformer import (
    FEED_FORWARD,
    HIDDEN,
    LAYERS,
    MASKED,
    SEQUENCE,
    attend,
    attention_scores,
    layer_norm,
)

NAME = "gpt2_small"
VOCABULARY, POSITIONS = 50257, 1024
EPSILON = 1e-5


def tasks() -> list[Task]:
    """Gives the one task of this module."""
    return [Task(f"seeded/{NAME}", fill)]


def fill(folder: Path) -> None:
    """Writes the model, random tokens and onnxruntime's logits."""
    g = GraphBuilder(NAME)
    tokens = g.input("input_ids", TensorProto.INT64, (1, SEQUENCE))
    table = g.random("transformer.wte.weight", (VOCABULARY, HIDDEN), 0.05)
    length = g.dimension(tokens, 1)
    visible = causal_mask(g, length)
    value = g.op("Add", g.op("Gather", table, tokens), position_embedding(g, length))
    for layer in range(LAYERS):
        value = decoder_layer(g, f"transformer.h.{layer}", value, visible)
    value = layer_norm(g, "transformer.ln_f", value, EPSILON)
    logits = g.op("MatMul", value, g.op("Transpose", table, perm=(1, 0)))
    g.output(logits, "logits", (1, SEQUENCE, VOCABULARY))
    prompt = seeds.generator(NAME, "input_ids").integers(0, VOCABULARY, (1, SEQUENCE), np.int64)
    write_with_outputs(folder, g.model(), ("", {"input_ids": prompt}))


def causal_mask(g: GraphBuilder, length: str) -> str:
    """Computes which positions each position may see, from the length found in the input's shape."""
    square = g.op("Concat", g.as_vector(length), g.as_vector(length), axis=0)
    ones = g.op("Expand", g.constant(1.0), square)
    return g.op("Cast", g.op("Trilu", ones, upper=0), to=TensorProto.BOOL)


def position_embedding(g: GraphBuilder, length: str) -> str:
    """Looks up the positions 0 to length."""
    positions = g.op("Range", g.constant(np.asarray(0)), length, g.constant(np.asarray(1)))
    table = g.random("transformer.wpe.weight", (POSITIONS, HIDDEN), 0.05)
    return g.op("Gather", table, g.as_vector(positions))


def decoder_layer(g: GraphBuilder, layer: str, value: str, visible: str) -> str:
    """Adds one pre-normalised layer."""
    attended = attention(g, f"{layer}.attn", layer_norm(g, f"{layer}.ln_1", value, EPSILON), visible)
    value = g.op("Add", attended, value)
    normal = layer_norm(g, f"{layer}.ln_2", value, EPSILON)
    wide = tanh_gelu(g, projection(g, f"{layer}.mlp.c_fc", normal, HIDDEN, FEED_FORWARD))
    return g.op("Add", value, projection(g, f"{layer}.mlp.c_proj", wide, FEED_FORWARD, HIDDEN))


def attention(g: GraphBuilder, layer: str, value: str, visible: str) -> str:
    """Adds masked self-attention; one projection gives query, key and value."""
    joined = projection(g, f"{layer}.c_attn", value, HIDDEN, 3 * HIDDEN)
    query, key, content = g.op_many("Split", 3, joined, g.constant([HIDDEN] * 3), axis=2)
    scores = g.op("Where", visible, attention_scores(g, query, key), g.constant(MASKED))
    return projection(g, f"{layer}.c_proj", attend(g, scores, content), HIDDEN, HIDDEN)


def projection(g: GraphBuilder, layer: str, value: str, fan_in: int, fan_out: int) -> str:
    """Adds GPT-2's `Conv1D`: a Gemm over rows with an [in, out] weight."""
    weight = g.random(f"{layer}.weight", (fan_in, fan_out), (1 / fan_in) ** 0.5)
    bias = g.random(f"{layer}.bias", (fan_out,), 0.1)
    rows = g.op("Gemm", g.reshape(value, -1, fan_in), weight, bias)
    return g.reshape(rows, 1, SEQUENCE, fan_out)


def tanh_gelu(g: GraphBuilder, value: str) -> str:
    """Adds the tanh form of GELU, written out."""
    cubic = g.op("Mul", g.op("Pow", value, g.constant(3.0)), g.constant(0.044715))
    inner = g.op("Mul", g.op("Add", value, cubic), g.constant((2 / np.pi) ** 0.5))
    gate = g.op("Add", g.op("Tanh", inner), g.constant(1.0))
    return g.op("Mul", g.op("Mul", value, g.constant(0.5)), gate)
