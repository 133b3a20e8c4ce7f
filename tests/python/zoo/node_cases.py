"""The onnx node cases of the operators that byoc knows (`docs/operators.md`), with a reason for each other."""

import functools
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper
from onnx.backend.test.case.test_case import TestCase
from onnx.backend.test.loader import load_model_tests

from zoo.store import Task, flat, write_case

OPERATORS = Path(__file__).parents[3] / "docs" / "operators.md"
# `Constant` nodes become constants, so that they are not in the table.
# Scatter and Upsample became ScatterElements and Resize.
RENAMED = ("Scatter", "Upsample")
OPS = frozenset({"Constant", *RENAMED, *re.findall(r"^\| ([\w.]+) \| \d+ \|", OPERATORS.read_text(), re.MULTILINE)})
TYPES = frozenset(
    {
        TensorProto.FLOAT,
        TensorProto.DOUBLE,
        TensorProto.FLOAT16,
        TensorProto.BFLOAT16,
        TensorProto.BOOL,
        TensorProto.INT8,
        TensorProto.INT16,
        TensorProto.INT32,
        TensorProto.INT64,
        TensorProto.UINT8,
        TensorProto.UINT16,
        TensorProto.UINT32,
        TensorProto.UINT64,
        TensorProto.FLOAT8E4M3FN,
        TensorProto.FLOAT8E4M3FNUZ,
        TensorProto.FLOAT8E5M2,
        TensorProto.FLOAT8E5M2FNUZ,
        TensorProto.FLOAT8E8M0,
        TensorProto.FLOAT4E2M1,
        TensorProto.INT4,
        TensorProto.UINT4,
        TensorProto.INT2,
        TensorProto.UINT2,
        TensorProto.STRING,
        TensorProto.COMPLEX64,
        TensorProto.COMPLEX128,
    }
)


@dataclass(frozen=True)
class Case:
    """One node case: its model and the tensors of its only data set, in graph order. Those of a sequence `x` are called `x.0`, `x.1` and
    so on; an optional that holds nothing is left out."""

    name: str
    model: onnx.ModelProto
    inputs: dict[str, TensorProto]
    outputs: dict[str, TensorProto]


def tasks() -> list[Task]:
    """Gives the one task that writes all cases."""
    return [Task("node", fill)]


def fill(folder: Path) -> None:
    """Writes a folder for each accepted case, and skipped.json with the reason for each other."""
    skipped: dict[str, str] = {}
    for case in plain_cases():
        reason = reason_to_skip(case.model)
        if reason is None:
            write_base(folder, read_case(case))
        else:
            skipped[case.name] = reason
    (folder / "skipped.json").write_text(json.dumps(skipped, indent=1) + "\n")


def accepted() -> Iterator[Case]:
    """Gives every case that `fill` writes."""
    return (read_case(case) for case in plain_cases() if reason_to_skip(case.model) is None)


def plain_cases() -> list[TestCase]:
    """Gives the cases that use an operator itself and not its expanded body."""
    return [case for case in all_cases() if "_expanded" not in case.name]


@functools.cache
def all_cases() -> list[TestCase]:
    """Gives all cases that the package generates."""
    return sorted(load_model_tests(kind="node"), key=lambda case: case.name)


def read_case(case: TestCase) -> Case:
    """Reads a case."""
    inputs, outputs = case.data_sets[0]
    graph = case.model.graph
    return Case(case.name, case.model, tensors(graph.input, inputs), tensors(graph.output, outputs))


def tensors(values: Iterable[onnx.ValueInfoProto], arrays: Iterable[object]) -> dict[str, TensorProto]:
    """Gives each value its tensor, whether the case has an array or a tensor for it."""
    pairs = zip(values, arrays, strict=True)
    return {name: tensor for value, array in pairs for name, tensor in named(value.name, array)}


def named(name: str, array: object) -> Iterator[tuple[str, TensorProto]]:
    """Gives the tensors of a value, each with its name."""
    if isinstance(array, onnx.SequenceProto):
        array = numpy_helper.to_list(array)
    if isinstance(array, onnx.OptionalProto):
        array = numpy_helper.to_optional(array)
    if isinstance(array, TensorProto):
        yield name, array
        return
    yield from ((name, numpy_helper.from_array(element)) for name, element in flat({name: array}).items())


def write_base(folder: Path, case: Case) -> None:
    """Writes a case as the package has it."""
    inputs = {name: numpy_helper.to_array(tensor) for name, tensor in case.inputs.items()}
    outputs = {name: numpy_helper.to_array(tensor) for name, tensor in case.outputs.items()}
    write_case(folder / case.name, case.model, inputs, outputs)


def reason_to_skip(model: onnx.ModelProto) -> str | None:
    """Says why a case is left out, or None where it is taken."""
    for node in nodes(model.graph):
        operator = qualified(node)
        if operator not in OPS:
            return f"operator {operator}"
    other = sorted(element_types(model) - TYPES)
    return f"type {TensorProto.DataType.Name(other[0]).lower()}" if other else None


def qualified(node: onnx.NodeProto) -> str:
    """Gives the operator of a node with its domain, where that is not ONNX's own."""
    return node.op_type if node.domain in ("", "ai.onnx") else f"{node.domain}.{node.op_type}"


def nodes(graph: onnx.GraphProto) -> Iterator[onnx.NodeProto]:
    """Gives the nodes of a graph and those of the bodies that they run."""
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.type == onnx.AttributeProto.GRAPH:
                yield from nodes(attribute.g)


def element_type(kind: onnx.TypeProto) -> int:
    """Gives the element type of a tensor, or of those in a sequence or an optional."""
    match kind.WhichOneof("value"):
        case "sequence_type":
            return element_type(kind.sequence_type.elem_type)
        case "optional_type":
            return element_type(kind.optional_type.elem_type)
        case _:
            return kind.tensor_type.elem_type


def element_types(model: onnx.ModelProto) -> set[int]:
    """Gives the element type of every value and constant that a model declares."""
    graph = model.graph
    values = (*graph.input, *graph.output, *graph.value_info)
    attributes = (attribute for node in graph.node for attribute in node.attribute)
    return (
        {element_type(value.type) for value in values}
        | {tensor.data_type for tensor in graph.initializer}
        | {a.t.data_type for a in attributes if a.type == onnx.AttributeProto.TENSOR}
    )
