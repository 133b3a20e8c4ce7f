"""BERT base (12 layers, hidden 768, sequence 128) as PyTorch exports it at opset 17."""

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

NAME = "bert_base"
VOCABULARY, POSITIONS, TOKEN_TYPES = 30522, 512, 2
EPSILON = 1e-12
WORDS = 100
"""How many of the positions hold words; the rest is padding."""


def tasks() -> list[Task]:
    """Gives the one task of this module."""
    return [Task(f"seeded/{NAME}", fill)]


def fill(folder: Path) -> None:
    """Writes the model, a random sentence with padding and onnxruntime's outputs."""
    g = GraphBuilder(NAME)
    words, mask, token_types = (
        g.input(name, TensorProto.INT64, (1, SEQUENCE))
        for name in ("input_ids", "attention_mask", "token_type_ids")
    )
    bias = mask_bias(g, mask)
    value = embeddings(g, words, token_types)
    for layer in range(LAYERS):
        value = encoder_layer(g, f"encoder.layer.{layer}", value, bias)
    g.output(value, "last_hidden_state", (1, SEQUENCE, HIDDEN))
    g.output(pooler(g, value), "pooler_output", (1, HIDDEN))
    write_with_outputs(folder, g.model(), ("", sentence()))


def sentence() -> dict[str, np.ndarray]:
    """Draws the inputs: words in two segments, then padding."""
    rng = seeds.generator(NAME, "input_ids")
    positions = np.arange(SEQUENCE)[None]
    words = rng.integers(1, VOCABULARY, (1, SEQUENCE), np.int64)
    return {
        "input_ids": np.where(positions < WORDS, words, 0),
        "attention_mask": (positions < WORDS).astype(np.int64),
        "token_type_ids": ((positions >= WORDS // 2) & (positions < WORDS)).astype(np.int64),
    }


def mask_bias(g: GraphBuilder, mask: str) -> str:
    """Makes the mask into what is added to the scores: zero, or the lowest f32."""
    spread = g.op("Unsqueeze", g.op("Unsqueeze", mask, g.constant([1])), g.constant([2]))
    hidden = g.op("Sub", g.constant(1.0), g.op("Cast", spread, to=TensorProto.FLOAT))
    return g.op("Mul", hidden, g.constant(MASKED))


def embeddings(g: GraphBuilder, words: str, token_types: str) -> str:
    """Adds the three embeddings and their normalisation."""
    word_table = g.random("embeddings.word_embeddings.weight", (VOCABULARY, HIDDEN), 0.5)
    type_table = g.random("embeddings.token_type_embeddings.weight", (TOKEN_TYPES, HIDDEN), 0.3)
    position_table = g.random("embeddings.position_embeddings.weight", (POSITIONS, HIDDEN), 0.3)
    positions = g.constant(np.arange(SEQUENCE, dtype=np.int64)[None])
    value = g.op("Add", g.op("Gather", word_table, words), g.op("Gather", type_table, token_types))
    value = g.op("Add", value, g.op("Gather", position_table, positions))
    return layer_norm(g, "embeddings.LayerNorm", value, EPSILON)


def encoder_layer(g: GraphBuilder, layer: str, value: str, bias: str) -> str:
    """Adds one post-normalised layer."""
    attended = attention(g, f"{layer}.attention", value, bias)
    value = layer_norm(g, f"{layer}.attention.output.LayerNorm", g.op("Add", attended, value), EPSILON)
    wide = erf_gelu(g, linear(g, f"{layer}.intermediate.dense", value, HIDDEN, FEED_FORWARD))
    narrow = linear(g, f"{layer}.output.dense", wide, FEED_FORWARD, HIDDEN)
    return layer_norm(g, f"{layer}.output.LayerNorm", g.op("Add", narrow, value), EPSILON)


def attention(g: GraphBuilder, layer: str, value: str, bias: str) -> str:
    """Adds self-attention as plain products."""
    query, key, content = (
        linear(g, f"{layer}.self.{part}", value, HIDDEN, HIDDEN) for part in ("query", "key", "value")
    )
    scores = g.op("Add", attention_scores(g, query, key), bias)
    return linear(g, f"{layer}.output.dense", attend(g, scores, content), HIDDEN, HIDDEN)


def linear(g: GraphBuilder, layer: str, value: str, fan_in: int, fan_out: int) -> str:
    """Adds a layer as the exporter does for 3-D input: MatMul by an [in, out] weight, bias first in Add."""
    weight = g.random(f"{layer}.weight", (fan_in, fan_out), (1 / fan_in) ** 0.5)
    return g.op("Add", g.random(f"{layer}.bias", (fan_out,), 0.1), g.op("MatMul", value, weight))


def erf_gelu(g: GraphBuilder, value: str) -> str:
    """Adds x * (1 + erf(x / sqrt 2)) / 2."""
    erf = g.op("Erf", g.op("Div", value, g.constant(2.0**0.5)))
    return g.op("Mul", g.op("Mul", value, g.op("Add", erf, g.constant(1.0))), g.constant(0.5))


def pooler(g: GraphBuilder, value: str) -> str:
    """Adds the layer over the first position."""
    first = g.op("Gather", value, g.constant(np.asarray(0)), axis=1)
    weight = g.random("pooler.dense.weight", (HIDDEN, HIDDEN), (1 / HIDDEN) ** 0.5)
    bias = g.random("pooler.dense.bias", (HIDDEN,), 0.1)
    return g.op("Tanh", g.op("Gemm", first, weight, bias, transB=1))
