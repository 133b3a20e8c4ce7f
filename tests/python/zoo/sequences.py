"""Models with sequences and optionals that only a run knows, each with inputs for which it takes other paths: sequences that loops fill and
empty, bodies that run for each element, parts of computed sizes, and sequences and optionals as inputs and outputs."""

from pathlib import Path

import numpy as np
from onnx import ValueInfoProto, helper

from zoo.control_flow import BOOL, FLOAT, INT, graph, model, node, rows, value, weights
from zoo.runner import write_with_outputs
from zoo.store import Task

WIDTH = 8


def tasks() -> list[Task]:
    """Gives a task for each model."""
    fills = (fill_collected, fill_mapped, fill_parts, fill_optional, fill_nested)
    return [Task(f"sequences/{fill.__name__.removeprefix('fill_')}", fill) for fill in fills]


def sequence(name: str, kind: int = FLOAT, shape: tuple[int | str, ...] = ("k", WIDTH)) -> ValueInfoProto:
    """Names a sequence of tensors; sizes that are names may differ in them."""
    tensor = helper.make_tensor_type_proto(kind, shape)
    return helper.make_value_info(name, helper.make_sequence_type_proto(tensor))


def optional(name: str, kind: int = FLOAT, shape: tuple[int | str, ...] = (3, WIDTH)) -> ValueInfoProto:
    """Names an optional that may hold a sequence of tensors."""
    inner = helper.make_sequence_type_proto(helper.make_tensor_type_proto(kind, shape))
    return helper.make_value_info(name, helper.make_optional_type_proto(inner))


def fill_collected(folder: Path) -> None:
    """Writes a loop that puts a tensor of another size into a sequence in each iteration, and stops when the sum is large."""
    body = graph(
        [
            node("Reshape", "step one", "last"),
            node("Slice", "x zero last", "head"),
            node("MatMul", "head shared", "made"),
            node("SequenceInsert", "before made", "after"),
            node("ReduceMax", "made", "largest", keepdims=0),
            node("Less", "largest limit", "goes_on"),
        ],
        [value("step", INT, ()), value("going", BOOL, ()), sequence("before")],
        [value("goes_on", BOOL), sequence("after")],
        one=np.array([1]),
        zero=np.array([0]),
    )
    nodes = [
        node("SequenceEmpty", "", "none"),
        node("Loop", "count - none", "all", body=body),
        node("ConcatFromSequence", "all", "joined", axis=0),
        node("SequenceLength", "all", "length"),
        node("MatMul", "joined shared", "y"),
    ]
    whole = graph(
        nodes,
        [value("x", FLOAT, ("n", WIDTH)), value("count", INT, ())],
        [value("y", FLOAT, ("r", WIDTH)), value("length", INT, ()), sequence("all")],
        shared=weights("collected", WIDTH, WIDTH),
        limit=np.float32(2.5),
    )
    first = {"x": rows("collected", 6, WIDTH), "count": np.array(6)}
    others = [
        ("_2", {"x": rows("collected2", 9, WIDTH), "count": np.array(4)}),
        ("_3", {"x": rows("collected3", 2, WIDTH) / 4, "count": np.array(7)}),
    ]
    write_with_outputs(folder, model(whole), ("", first), *others)


def fill_mapped(folder: Path) -> None:
    """Writes a body that runs for each pair of elements of two sequences, and reads a tensor and a weight beside them."""
    body = graph(
        [
            node("MatMul", "a shared", "product"),
            node("Add", "product bias", "moved"),
            node("Concat", "moved b", "joined", axis=0),
            node("Shape", "joined", "size"),
        ],
        [value("a", FLOAT, ("k", WIDTH)), value("b", FLOAT, ("m", WIDTH)), value("bias", FLOAT, (WIDTH,))],
        [value("joined", FLOAT, ("s", WIDTH)), value("size", INT, (2,))],
    )
    nodes = [
        node("SequenceMap", "first second offset", "rows sizes", body=body),
        node("ConcatFromSequence", "rows", "flat", axis=0),
        node("ConcatFromSequence", "sizes", "table", axis=0, new_axis=1),
        node("MatMul", "flat shared", "y"),
    ]
    whole = graph(
        nodes,
        [sequence("first"), sequence("second", FLOAT, ("m", WIDTH)), value("offset", FLOAT, (WIDTH,))],
        [value("y", FLOAT, ("r", WIDTH)), value("table", INT, ("e", 2)), sequence("rows")],
        shared=weights("mapped", WIDTH, WIDTH),
    )

    def inputs(name: str, *sizes: tuple[int, int]) -> dict:
        """Draws a tensor of each size for both sequences."""
        return {
            "first": [rows(f"{name}.a{i}", a, WIDTH) for i, (a, _) in enumerate(sizes)],
            "second": [rows(f"{name}.b{i}", b, WIDTH) for i, (_, b) in enumerate(sizes)],
            "offset": rows(name, WIDTH),
        }

    first = inputs("mapped", (3, 2), (1, 5), (4, 4))
    others = [("_2", inputs("mapped2", (2, 1))), ("_3", inputs("mapped3", (1, 1), (7, 2), (2, 3), (5, 5)))]
    write_with_outputs(folder, model(whole), ("", first), *others)


def fill_parts(folder: Path) -> None:
    """Writes a split into parts of computed sizes, of which one is taken out, one put elsewhere, and the others stacked."""
    nodes = [
        node("SplitToSequence", "x sizes", "parts", axis=1),
        node("SequenceAt", "parts at", "one"),
        node("SequenceErase", "parts at", "less"),
        node("SequenceInsert", "less one to", "moved"),
        node("ConcatFromSequence", "moved", "y", axis=1),
        node("SplitToSequence", "x size", "equal", axis=0),
        node("SequenceErase", "equal", "whole"),
        node("ConcatFromSequence", "whole", "stacked", axis=-1, new_axis=1),
        node("SequenceLength", "moved", "count"),
    ]
    whole = graph(
        nodes,
        [
            value("x", FLOAT, ("n", WIDTH)),
            value("sizes", INT, ("p",)),
            value("size", INT, ()),
            value("at", INT, ()),
            value("to", INT, ()),
        ],
        [value("y", FLOAT, ("n", "w")), value("one", FLOAT, ("n", "o")), value("stacked", FLOAT, ("c", WIDTH, "e")), value("count", INT, ()), sequence("moved", FLOAT, ("a", "b")), sequence("equal", FLOAT, ("c", WIDTH))],
    )

    def inputs(name: str, count: int, sizes: list[int], size: int, at: int, to: int) -> dict:
        """Gives the numbers their types."""
        numbers = {"size": np.array(size), "at": np.array(at), "to": np.array(to)}
        return {"x": rows(name, count, WIDTH), "sizes": np.array(sizes), **numbers}

    first = inputs("parts", 7, [1, 3, 4], 3, 1, 0)
    others = [
        ("_2", inputs("parts2", 5, [2, 2, 2, 2], 2, -1, -3)),
        ("_3", inputs("parts3", 9, [5, 3], 4, 0, 1)),
    ]
    write_with_outputs(folder, model(whole), ("", first), *others)


def fill_optional(folder: Path) -> None:
    """Writes a state that is there or is not: a sequence that a first run begins and later ones go on with."""
    begun = graph([node("SequenceConstruct", "x", "fresh")], [], [sequence("fresh")])
    kept = graph(
        [node("OptionalGetElement", "state", "held"), node("SequenceInsert", "held x zero", "longer")], [], [sequence("longer")]
    )
    nodes = [
        node("OptionalHasElement", "state", "there"),
        node("Cast", "there", "was_there", to=INT),
        node("If", "there", "next", then_branch=kept, else_branch=begun),
        node("ConcatFromSequence", "next", "joined", axis=0, new_axis=1),
        node("ReduceMean", "joined axes", "mean", keepdims=0),
        node("MatMul", "mean shared", "y"),
    ]
    whole = graph(
        nodes,
        [optional("state"), value("x", FLOAT, (3, WIDTH))],
        [value("y", FLOAT, (3, WIDTH)), sequence("next"), value("was_there", INT, ())],
        shared=weights("optional", WIDTH, WIDTH),
        axes=np.array([0]),
        zero=np.array(0),
    )
    first = {"state": [rows(f"state{i}", 3, WIDTH) for i in range(2)], "x": rows("optional", 3, WIDTH)}
    others = [
        ("_2", {"state": None, "x": rows("optional2", 3, WIDTH)}),
        ("_3", {"state": [rows("state3", 3, WIDTH)], "x": rows("optional3", 3, WIDTH)}),
    ]
    write_with_outputs(folder, model(whole), ("", first), *others)


def fill_nested(folder: Path) -> None:
    """Writes a loop within a loop: the outer one hands a sequence on that the inner one fills, a branch empties, and both read."""
    inner = graph(
        [
            node("Add", "small one", "above"),
            node("Cast", "above", "factor", to=FLOAT),
            node("Mul", "row factor", "scaled"),
            node("Tanh", "scaled", "bent"),
            node("SequenceInsert", "filled bent", "fuller"),
            node("Identity", "inner_going", "inner_on"),
        ],
        [value("small", INT, ()), value("inner_going", BOOL, ()), sequence("filled", FLOAT, (WIDTH,))],
        [value("inner_on", BOOL), sequence("fuller", FLOAT, (WIDTH,))],
        one=np.array(1),
    )
    shorter = graph([node("SequenceErase", "grown zero", "cut")], [], [sequence("cut", FLOAT, (WIDTH,))], zero=np.array(0))
    same = graph([node("Identity", "grown", "kept")], [], [sequence("kept", FLOAT, (WIDTH,))])
    outer = graph(
        [
            node("Gather", "x step", "row", axis=0),
            node("Loop", "step - before", "grown", body=inner),
            node("SequenceLength", "grown", "held"),
            node("Greater", "held most", "full"),
            node("If", "full", "after", then_branch=shorter, else_branch=same),
            node("Identity", "going", "on"),
            node("SequenceLength", "after", "count"),
        ],
        [value("step", INT, ()), value("going", BOOL, ()), sequence("before", FLOAT, (WIDTH,))],
        [value("on", BOOL), sequence("after", FLOAT, (WIDTH,)), value("count", INT, ())],
    )
    nodes = [
        node("SequenceConstruct", "start", "begin"),
        node("Loop", "steps - begin", "end counts", body=outer),
        node("ConcatFromSequence", "end", "y", axis=0, new_axis=1),
    ]
    whole = graph(
        nodes,
        [value("x", FLOAT, ("n", WIDTH)), value("steps", INT, ())],
        [value("y", FLOAT, ("e", WIDTH)), value("counts", INT, ("t",)), sequence("end", FLOAT, (WIDTH,))],
        start=rows("start", WIDTH),
        most=np.array(5),
    )
    first = {"x": rows("nested", 6, WIDTH), "steps": np.array(6)}
    others = [
        ("_2", {"x": rows("nested2", 4, WIDTH), "steps": np.array(3)}),
        ("_3", {"x": rows("nested3", 9, WIDTH), "steps": np.array(9)}),
    ]
    write_with_outputs(folder, model(whole), ("", first), *others)
