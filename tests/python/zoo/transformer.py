"""The parts that BERT and GPT-2 share: normalisation, heads, attention, the value that masks."""

import numpy as np

from zoo.graph import GraphBuilder

HIDDEN, HEADS, LAYERS, SEQUENCE = 768, 12, 12, 128
HEAD_WIDTH = HIDDEN // HEADS
FEED_FORWARD = 4 * HIDDEN
MASKED = float(np.finfo(np.float32).min)


def layer_norm(g: GraphBuilder, name: str, value: str, epsilon: float) -> str:
    """Adds a layer normalisation over the last axis."""
    weight = g.between(f"{name}.weight", (HIDDEN,), 0.8, 1.2)
    bias = g.random(f"{name}.bias", (HIDDEN,), 0.1)
    return g.op("LayerNormalization", value, weight, bias, axis=-1, epsilon=epsilon)


def split_heads(g: GraphBuilder, value: str, order: tuple[int, int, int, int]) -> str:
    """Makes [1, sequence, hidden] into heads, their axes in the given order."""
    return g.op("Transpose", g.reshape(value, 1, SEQUENCE, HEADS, HEAD_WIDTH), perm=order)


def attention_scores(g: GraphBuilder, query: str, key: str) -> str:
    """Adds the scaled product of all queries with all keys."""
    by_head = split_heads(g, query, (0, 2, 1, 3))
    transposed = split_heads(g, key, (0, 2, 3, 1))
    return g.op("Div", g.op("MatMul", by_head, transposed), g.constant(float(HEAD_WIDTH**0.5)))


def attend(g: GraphBuilder, scores: str, value: str) -> str:
    """Weights the values by the softmax of the scores and joins the heads."""
    weighted = g.op("MatMul", g.op("Softmax", scores, axis=-1), split_heads(g, value, (0, 2, 1, 3)))
    return g.reshape(g.op("Transpose", weighted, perm=(0, 2, 1, 3)), 1, SEQUENCE, HIDDEN)
