"""Variants of the node cases in which some graph inputs become initializers.

A variant has its own model and inputs; its outputs are those of the case of the same name in `node`.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import onnx
from onnx import TensorProto, numpy_helper

from zoo.node_cases import Case, accepted
from zoo.store import Task, write_case

FIRST_IR_WITH_FREE_INITIALIZERS = 4

# Per operator, the inputs whose values decide a shape, an axis or an index range.
SHAPE_INPUTS: dict[str, tuple[int, ...]] = {
    "ConstantOfShape": (0,),
    "CumSum": (1,),
    "Expand": (1,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "ReduceMax": (1,),
    "ReduceMean": (1,),
    "ReduceSum": (1,),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
}


def tasks() -> list[Task]:
    """Gives one task for each variant of the whole case set."""
    return [
        Task("node_const_shape", partial(fill, shape_inputs)),
        Task("node_const_tail", partial(fill, tail_inputs)),
        Task("node_const_all", partial(fill, all_inputs)),
    ]


def fill(choose: Callable[[Case], set[str]], folder: Path) -> None:
    """Writes the variant of every case in which there is an input to make constant."""
    for case in accepted():
        tensors = {value.name for value in case.model.graph.input if value.type.HasField("tensor_type")}
        chosen = choose(case) & tensors
        if chosen:
            write_variant(folder / case.name, case, chosen)


def shape_inputs(case: Case) -> set[str]:
    """Chooses the graph inputs that a node reads as a shape, axes or bounds."""
    read = {
        node.input[index]
        for node in case.model.graph.node
        for index in SHAPE_INPUTS.get(node.op_type, ())
        if index < len(node.input)
    }
    return read & case.inputs.keys()


def tail_inputs(case: Case) -> set[str]:
    """Chooses every graph input but the first."""
    return set(list(case.inputs)[1:])


def all_inputs(case: Case) -> set[str]:
    """Chooses every graph input."""
    return set(case.inputs)


def write_variant(folder: Path, case: Case, constant: set[str]) -> None:
    """Writes one case with the named inputs as initializers."""
    inputs = {n: numpy_helper.to_array(t) for n, t in case.inputs.items() if n not in constant}
    write_case(folder, with_initializers(case, constant), inputs)


def with_initializers(case: Case, constant: set[str]) -> onnx.ModelProto:
    """Gives the model with the named inputs as initializers; old IRs keep them listed as inputs."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    model.graph.initializer.extend(
        renamed(tensor, name) for name, tensor in case.inputs.items() if name in constant
    )
    if model.ir_version >= FIRST_IR_WITH_FREE_INITIALIZERS:
        kept = [value for value in model.graph.input if value.name not in constant]
        del model.graph.input[:]
        model.graph.input.extend(kept)
    return model


def renamed(tensor: TensorProto, name: str) -> TensorProto:
    """Gives a copy of a tensor under another name."""
    copy = TensorProto()
    copy.CopyFrom(tensor)
    copy.name = name
    return copy
