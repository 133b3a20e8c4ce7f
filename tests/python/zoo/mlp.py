"""Small and wide perceptrons: fixed batch, two fixed batches over the same weights, symbolic batch."""

from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from onnx import TensorProto

from zoo import seeds
from zoo.graph import GraphBuilder
from zoo.runner import write_with_outputs
from zoo.store import Task

WIDE = (4096,) * 5
ROWS, COLUMNS = 8, 16


def tasks() -> list[Task]:
    """Gives one task for each perceptron."""
    return [
        Task("seeded/tiny_mlp", partial(fill_fixed, "tiny_mlp", (16, 32, 10), 1)),
        Task("seeded/dynamic_mlp", fill_dynamic),
        Task("seeded/mlp_4x4096", partial(fill_fixed, "mlp_4x4096", WIDE, 1)),
        Task("seeded/mlp_4x4096_b64", partial(fill_fixed, "mlp_4x4096", WIDE, 64)),
    ]


def fill_fixed(name: str, widths: tuple[int, ...], batch: int, folder: Path) -> None:
    """Writes a perceptron with a fixed batch."""
    g = GraphBuilder(name)
    value = g.input("input", TensorProto.FLOAT, (batch, widths[0]))
    g.output(layers(g, value, widths), "output", (batch, widths[-1]))
    write_with_outputs(folder, g.model(), ("", {"input": seeds.image(name, (batch, widths[0]))}))


def fill_dynamic(folder: Path) -> None:
    """Writes a perceptron with a symbolic batch, with data for batch 3 and, under `_b5`, batch 5."""
    g = GraphBuilder("dynamic_mlp")
    value = g.input("input", TensorProto.FLOAT, ("batch", ROWS, COLUMNS))
    flat = reshape_batch(g, value, [-1])
    hidden = layers(g, flat, (ROWS * COLUMNS, 64, ROWS * COLUMNS))
    result = reshape_batch(g, hidden, [ROWS, COLUMNS])
    g.output(result, "output", ("batch", ROWS, COLUMNS))
    write_with_outputs(folder, g.model(), ("", dynamic_input(3)), ("_b5", dynamic_input(5)))


def dynamic_input(batch: int) -> dict[str, np.ndarray]:
    """Draws an input of the given batch."""
    return {"input": seeds.image(f"dynamic_mlp_b{batch}", (batch, ROWS, COLUMNS))}


def reshape_batch(g: GraphBuilder, value: str, rest: list[int]) -> str:
    """Reshapes all but the batch, by the Shape, Gather, Concat and Reshape that PyTorch writes."""
    batch = g.as_vector(g.dimension(value, 0))
    return g.op("Reshape", value, g.op("Concat", batch, g.constant(rest), axis=0))


def layers(g: GraphBuilder, value: str, widths: tuple[int, ...]) -> str:
    """Adds Gemm layers (weights as [out, in]) with a Relu between each two."""
    for index, (fan_in, fan_out) in enumerate(pairwise(widths)):
        value = g.op("Relu", value) if index else value
        weight = g.random(f"layers.{index}.weight", (fan_out, fan_in), (2 / fan_in) ** 0.5)
        bias = g.random(f"layers.{index}.bias", (fan_out,), 0.1)
        value = g.op("Gemm", value, weight, bias, transB=1)
    return value
