"""`Gradient` of ONNX's preview of training, which onnxruntime lacks: what is expected is what autograd derives."""

from pathlib import Path

import autograd.numpy as anp
import numpy as np
from autograd import grad
from onnx import TensorProto, helper

from zoo import seeds
from zoo.store import Task, write_case, write_npz

WIDTH = 3


def tasks() -> list[Task]:
    """Gives the one task of this module."""
    return [Task("free/gradients", fill)]


def value(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> np.ndarray:
    """Computes what the model derives, in the same steps."""
    product = a * b
    bounded = anp.tanh(product) + 1 / (1 + anp.exp(-a))
    size = anp.sqrt(anp.exp(c) + b * b)
    return anp.sum((bounded - anp.maximum(c, 0)) / size - -anp.log(size))


def fill(folder: Path) -> None:
    """Writes a model whose inputs are broadcast to each other, with a batch that is free, and one input that `y` does not depend on."""
    steps = (
        ("Mul", "a b", "product"),
        ("Tanh", "product", "bent"),
        ("Sigmoid", "a", "gate"),
        ("Add", "bent gate", "bounded"),
        ("Exp", "c", "grown"),
        ("Mul", "b b", "square"),
        ("Add", "grown square", "area"),
        ("Sqrt", "area", "size"),
        ("Relu", "c", "above"),
        ("Sub", "bounded above", "rest"),
        ("Div", "rest size", "ratio"),
        ("Log", "size", "small"),
        ("Neg", "small", "negative"),
        ("Sub", "ratio negative", "difference"),
        ("Identity", "difference", "y"),
        ("Mul", "y y", "behind"),
    )
    nodes = [helper.make_node(op, inputs.split(), [output]) for op, inputs, output in steps]
    names = ("a", "b", "c", "unused")
    outputs = tuple(f"by_{name}" for name in names)
    nodes.append(helper.make_node("Gradient", names, outputs, domain="ai.onnx.preview.training", xs=names, y="y"))
    shapes = {"a": ("n", WIDTH), "b": (WIDTH,), "c": ("n", 1), "unused": (2,)}
    of = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()}
    by = [helper.make_tensor_value_info(output, TensorProto.FLOAT, shapes[name]) for name, output in zip(names, outputs, strict=True)]
    graph = helper.make_graph(nodes, "gradients", list(of.values()), by)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.preview.training", 1)]
    write_case(folder, helper.make_model(graph, opset_imports=opsets, ir_version=8), {})
    for suffix, count in (("", 4), ("_one", 1), ("_more", 7)):
        draw = seeds.generator("gradients", suffix).standard_normal
        given = {name: draw(tuple(count if size == "n" else size for size in shape)).astype(np.float32) for name, shape in shapes.items()}
        exact = [given[name].astype(np.float64) for name in names[:3]]
        found = [np.float32(grad(value, index)(*exact)) for index in range(3)] + [np.zeros(2, np.float32)]
        write_npz(folder / f"inputs{suffix}.npz", given)
        write_npz(folder / f"outputs{suffix}.npz", dict(zip(outputs, found, strict=True)))
