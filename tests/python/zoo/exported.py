"""Parts that models are built of as PyTorch's two exporters write them, for models with free sizes.

The TorchScript exporter writes constants as nodes and reads a size by Shape and Gather; the dynamo exporter stores constants, reads a
size by Shape with bounds, and writes a linear layer of a matrix as Gemm.
"""

import numpy as np

from zoo.graph import GraphBuilder

EPSILON = 1e-5
LOWEST = float(np.finfo(np.float32).min)


class Dynamo(GraphBuilder):
    """A graph as the dynamo exporter writes it."""

    opset, ir_version = 20, 10

    def constant(self, values: float | list[int] | np.ndarray) -> str:
        """Stores a constant: a float as f32, a list as i64, an array as it is."""
        dtype = {float: np.float32, list: np.int64}.get(type(values))
        return self.stored(f"val_{len(self.nodes)}_{len(self.initializers)}", np.asarray(values, dtype))

    def dimension(self, value: str, axis: int) -> str:
        """Reads one dimension as a scalar."""
        return self.op("Squeeze", self.op("Shape", value, start=axis, end=axis + 1))


def linear(g: GraphBuilder, name: str, value: str, width: int, out: int, *, bias: bool = True) -> str:
    """Adds a linear layer over the last axis of a value with three axes or more."""
    product = g.op("MatMul", value, g.random(f"{name}.weight", (width, out), (1 / width) ** 0.5))
    return g.op("Add", g.random(f"{name}.bias", (out,), 0.1), product) if bias else product


def layer_norm(g: GraphBuilder, name: str, value: str, width: int) -> str:
    """Adds a normalisation of the last axis."""
    weight, bias = g.between(f"{name}.weight", (width,), 0.8, 1.2), g.random(f"{name}.bias", (width,), 0.1)
    return g.op("LayerNormalization", value, weight, bias, axis=-1, epsilon=EPSILON)


def rms_norm(g: GraphBuilder, name: str, value: str, width: int) -> str:
    """Adds a normalisation by the root of the mean square, written out."""
    square = g.op("Pow", value, g.constant(2.0))
    # The axes were an attribute up to operator set 17.
    mean = g.op("ReduceMean", square, g.constant([-1])) if g.opset > 17 else g.op("ReduceMean", square, axes=[-1])
    scale = g.op("Reciprocal", g.op("Sqrt", g.op("Add", mean, g.constant(EPSILON))))
    return g.op("Mul", g.between(f"{name}.weight", (width,), 0.8, 1.2), g.op("Mul", value, scale))


def gelu(g: GraphBuilder, value: str) -> str:
    """Adds GELU, which is an operator from operator set 20 on."""
    if g.opset >= 20:
        return g.op("Gelu", value)
    erf = g.op("Erf", g.op("Div", value, g.constant(2.0**0.5)))
    return g.op("Mul", g.op("Mul", value, g.op("Add", erf, g.constant(1.0))), g.constant(0.5))


def silu(g: GraphBuilder, value: str) -> str:
    """Adds x * sigmoid(x)."""
    return g.op("Mul", value, g.op("Sigmoid", value))


def sizes(g: GraphBuilder, value: str, *parts: int | str) -> str:
    """Makes a shape of numbers and of sizes: a text such as `0` names an axis of the value."""
    vectors = [g.as_vector(g.dimension(value, int(part))) if isinstance(part, str) else g.constant([part]) for part in parts]
    return g.op("Concat", *vectors, axis=0)


def heads(g: GraphBuilder, value: str, count: int, width: int) -> str:
    """Makes [batch, length, count * width] into [batch, count, length, width]."""
    return g.op("Transpose", g.op("Reshape", value, sizes(g, value, "0", "1", count, width)), perm=(0, 2, 1, 3))


def attend(g: GraphBuilder, query: str, key: str, content: str, bias: str | None, scale: float) -> str:
    """Adds attention by heads, whose results it joins."""
    scores = g.op("MatMul", query, g.op("Transpose", key, perm=(0, 1, 3, 2)))
    if scale != 1:
        scores = g.op("Mul", scores, g.constant(scale))
    if bias is not None:
        scores = g.op("Add", scores, bias)
    mixed = g.op("Transpose", g.op("MatMul", g.op("Softmax", scores, axis=-1), content), perm=(0, 2, 1, 3))
    return g.op("Reshape", mixed, sizes(g, mixed, "0", "1", -1))


def positions(g: GraphBuilder, count: str, start: str | None = None) -> str:
    """Gives the positions from `start` on, or from 0, as a list."""
    first = g.constant(np.asarray(0)) if start is None else start
    limit = count if start is None else g.op("Add", start, count)
    return g.op("Range", first, limit, g.constant(np.asarray(1)))


def causal_bias(g: GraphBuilder, queries: str, keys: str) -> str:
    """Gives what hides from each position those behind it, of lists of positions: 0 or the lowest number."""
    later = g.op("Greater", g.op("Unsqueeze", keys, g.constant([0])), g.op("Unsqueeze", queries, g.constant([1])))
    return g.op("Where", later, g.constant(LOWEST), g.constant(0.0))
