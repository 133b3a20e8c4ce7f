"""Models with control flow, each with inputs for which it takes other paths: branches, loops that grow or stop by themselves, nested
ones, scans, a transducer's search and a greedy decoder."""

from pathlib import Path

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from zoo import seeds
from zoo.runner import write_with_outputs
from zoo.store import Arrays, Task

FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
WIDTH, WORDS = 16, 24


def tasks() -> list[Task]:
    """Gives a task for each model."""
    fills = (fill_branches, fill_growing, fill_nested, fill_scan, fill_scan_axes, fill_transducer, fill_decoder)
    return [Task(f"control/{fill.__name__.removeprefix('fill_')}", fill) for fill in fills]


def value(name: str, kind: int = FLOAT, shape: tuple[int | str, ...] | None = None) -> ValueInfoProto:
    """Names a value; without a shape any will do."""
    return helper.make_tensor_value_info(name, kind, shape)


def node(op: str, inputs: str, outputs: str, **attributes: object) -> NodeProto:
    """Makes a node of names that are apart by a space; `-` is an input that is left out."""
    names = ["" if name == "-" else name for name in inputs.split()]
    return helper.make_node(op, names, outputs.split(), name=f"{op}_{outputs.split()[0]}", **attributes)


def graph(
    nodes: list[NodeProto], inputs: list[ValueInfoProto], outputs: list[ValueInfoProto], **constants: np.ndarray
) -> GraphProto:
    """Makes a graph, a body or a whole model's."""
    initializers = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    return helper.make_graph(nodes, "body", inputs, outputs, initializers)


def model(body: GraphProto) -> onnx.ModelProto:
    """Makes a model of its main graph."""
    return helper.make_model(body, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def weights(name: str, *shape: int) -> np.ndarray:
    """Draws weights."""
    return seeds.generator("control_flow", name).normal(0, shape[0] ** -0.5, shape).astype(np.float32)


def rows(name: str, *shape: int) -> np.ndarray:
    """Draws inputs."""
    return seeds.generator("control_flow.inputs", name).normal(0, 1, shape).astype(np.float32)


def fill_branches(folder: Path) -> None:
    """Writes a model that takes one of two layers, which share a weight, and gives results of different sizes."""
    one = graph(
        [node("MatMul", "x shared", "one_a"), node("Concat", "one_a x", "one_y", axis=0)], [], [value("one_y")]
    )
    other = graph(
        [node("MatMul", "x own", "other_a"), node("MatMul", "other_a shared", "other_b"), node("Tanh", "other_b", "other_y")],
        [],
        [value("other_y")],
        own=weights("own", WIDTH, WIDTH),
    )
    nodes = [
        node("ReduceSum", "x", "sum", keepdims=0),
        node("Greater", "sum zero", "positive"),
        node("If", "positive", "chosen", then_branch=one, else_branch=other),
        node("MatMul", "chosen shared", "y"),
    ]
    whole = graph(
        nodes,
        [value("x", FLOAT, ("n", WIDTH))],
        [value("y", FLOAT, ("m", WIDTH))],
        shared=weights("shared", WIDTH, WIDTH),
        zero=np.float32(0),
    )
    x = np.abs(rows("branches", 5, WIDTH))
    write_with_outputs(folder, model(whole), ("", {"x": x}), ("_other", {"x": -x[:3]}), ("_one", {"x": x[:1]}))


def fill_growing(folder: Path) -> None:
    """Writes a loop that runs as often as it is told, keeps every row that it has made, and gives a number each time."""
    nodes = [
        node("Identity", "going", "going_on"),
        node("MatMul", "state w", "product"),
        node("Tanh", "product", "next"),
        node("Concat", "history next", "longer", axis=0),
        node("ReduceMean", "next", "mean", keepdims=0),
    ]
    inputs = [value("i", INT, ()), value("going", BOOL, ()), value("state"), value("history")]
    outputs = [value("going_on", BOOL, ()), value("next"), value("longer"), value("mean")]
    loop = node("Loop", "count - x x", "last all means", body=graph(nodes, inputs, outputs))
    whole = graph(
        [loop, node("Relu", "all", "rectified")],
        [value("x", FLOAT, ("n", WIDTH)), value("count", INT, ())],
        [value("last", FLOAT, ("n", WIDTH)), value("rectified", FLOAT, ("m", WIDTH)), value("means", FLOAT, ("c",))],
        w=weights("growing", WIDTH, WIDTH),
    )

    def given(rows_of_x: int, count: int) -> Arrays:
        return {"x": rows(f"growing{count}", rows_of_x, WIDTH), "count": np.asarray(count, np.int64)}

    sets = (("_more", given(1, 9)), ("_none", given(3, 0)), ("_other", given(2, 3)))
    write_with_outputs(folder, model(whole), ("", given(2, 3)), *sets)


def fill_nested(folder: Path) -> None:
    """Writes a loop that doubles a vector while it is small and adds to it while it is smaller still, with an inner loop."""
    small = graph([node("Add", "v x", "sum")], [], [value("sum")])
    inner = graph(
        [node("Add", "u x", "v_next"), node("Identity", "on", "still")],
        [value("j", INT, ()), value("on", BOOL, ()), value("u")],
        [value("still", BOOL, ()), value("v_next")],
    )
    large = graph([node("Loop", "two - v", "twice", body=inner)], [], [value("twice")], two=np.int64(2))
    nodes = [
        node("ReduceSum", "v", "total", keepdims=0),
        node("Less", "total limit", "going_on"),
        node("Greater", "total half", "is_large"),
        node("If", "is_large", "next", then_branch=large, else_branch=small),
    ]
    body = graph(
        nodes,
        [value("i", INT, ()), value("going", BOOL, ()), value("v")],
        [value("going_on", BOOL, ()), value("next")],
        half=np.float32(20),
    )
    whole = graph(
        [node("Loop", "- always x", "y", body=body)],
        [value("x", FLOAT, (4,))],
        [value("y", FLOAT, (4,))],
        limit=np.float32(100),
        always=np.asarray(True),  # noqa: FBT003
    )
    sets = [{"x": np.asarray(x, np.float32)} for x in ([1, 2, 3, 4], [10, 2, 3, 1], [90, 20, 30, 60])]
    write_with_outputs(folder, model(whole), ("", sets[0]), ("_more", sets[1]), ("_once", sets[2]))


def scan(folder: Path, name: str, shape: tuple[int | str, ...], steps: tuple[int, ...], **axes: list[int]) -> None:
    """Writes a recurrent layer as a scan."""
    nodes = [
        node("MatMul", "state w", "product"),
        node("Add", "product row", "sum"),
        node("Tanh", "sum", "next"),
        node("Mul", "next scale", "given"),
    ]
    body = graph(nodes, [value("state"), value("row")], [value("next"), value("given")], scale=np.float32(3))
    given = tuple(size if isinstance(size, int) else "t" for size in shape)
    whole = graph(
        [node("Scan", "first x", "last all", body=body, num_scan_inputs=1, **axes)],
        [value("first", FLOAT, (WIDTH,)), value("x", FLOAT, shape)],
        [value("last", FLOAT, (WIDTH,)), value("all", FLOAT, given)],
        w=weights(name, WIDTH, WIDTH),
    )

    def inputs(count: int) -> Arrays:
        sizes = [size if isinstance(size, int) else count for size in shape]
        return {"first": rows(f"{name}.first", WIDTH), "x": rows(f"{name}{count}", *sizes)}

    first, *others = steps
    more = ((f"_{count}", inputs(count)) for count in others)
    write_with_outputs(folder, model(whole), ("", inputs(first)), *more)


def fill_scan(folder: Path) -> None:
    """Writes a scan over rows."""
    scan(folder, "scan", ("t", WIDTH), (5, 1, 12))


def fill_scan_axes(folder: Path) -> None:
    """Writes a scan over columns, from the last to the first, whose results are columns in that order."""
    reversed_columns = {
        "scan_input_axes": [1],
        "scan_input_directions": [1],
        "scan_output_axes": [-1],
        "scan_output_directions": [1],
    }
    scan(folder, "scan_axes", (WIDTH, "t"), (4, 1, 7), **reversed_columns)


def fill_transducer(folder: Path) -> None:
    """Writes a transducer's search over frames: a frame gives a word or nothing, and only a word changes the predictor."""
    keep = graph([node("Identity", "state", "kept")], [], [value("kept")])
    step = graph(
        [
            node("Gather", "table best", "word"),
            node("MatMul", "state recurrent", "moved"),
            node("Add", "moved word", "sum"),
            node("Tanh", "sum", "stepped"),
        ],
        [],
        [value("stepped")],
        table=weights("table", WORDS, WIDTH) * 4,
        recurrent=weights("recurrent", WIDTH, WIDTH),
    )
    nodes = [
        node("Gather", "frames i", "frame", axis=0),
        node("Add", "frame state", "joint"),
        node("Tanh", "joint", "active"),
        node("MatMul", "active out", "scores"),
        node("ArgMax", "scores", "best", axis=0, keepdims=0),
        node("Equal", "best blank", "is_blank"),
        node("If", "is_blank", "next", then_branch=keep, else_branch=step),
        node("Cast", "best", "best_number", to=FLOAT),
        node("Identity", "going", "going_on"),
    ]
    body = graph(
        nodes,
        [value("i", INT, ()), value("going", BOOL, ()), value("state", FLOAT, (WIDTH,))],
        [value("going_on", BOOL, ()), value("next"), value("best_number"), value("scores")],
        out=weights("out", WIDTH, WORDS),
        blank=np.int64(0),
    )
    main = [
        node("MatMul", "x encoder", "frames"),
        node("Shape", "frames", "shape"),
        node("Gather", "shape zero", "count"),
        node("Loop", "count - start", "last all_best all_scores", body=body),
    ]
    whole = graph(
        main,
        [value("x", FLOAT, ("t", WIDTH))],
        [value("last", FLOAT, (WIDTH,)), value("all_best", FLOAT, ("t",)), value("all_scores", FLOAT, ("t", WORDS))],
        encoder=weights("encoder", WIDTH, WIDTH) * 2,
        start=rows("start", WIDTH),
        zero=np.int64(0),
    )
    first, *others = (6, 17, 40)
    more = ((f"_{count}", {"x": rows(f"transducer{count}", count, WIDTH)}) for count in others)
    write_with_outputs(folder, model(whole), ("", {"x": rows("transducer", first, WIDTH)}), *more)


def fill_decoder(folder: Path) -> None:
    """Writes a greedy decoder: attention over all words so far, which are one more in each iteration, up to the word that ends it."""
    nodes = [
        node("Gather", "embedding words", "rows"),
        node("MatMul", "rows wq", "q"),
        node("MatMul", "rows wk", "k"),
        node("MatMul", "rows wv", "v"),
        node("Transpose", "k", "kt", perm=[1, 0]),
        node("MatMul", "q kt", "raw"),
        node("Softmax", "raw", "attention", axis=-1),
        node("MatMul", "attention v", "mixed"),
        node("Add", "mixed rows", "hidden"),
        node("Gather", "hidden last", "final", axis=0),
        node("MatMul", "final out", "scores"),
        node("ArgMax", "scores", "next", axis=1, keepdims=0),
        node("Concat", "words next", "longer", axis=0),
        node("Equal", "next end", "ended"),
        node("Not", "ended", "open"),
        node("Squeeze", "open", "going_on"),
        node("ReduceMax", "scores", "best", keepdims=0),
    ]
    body = graph(
        nodes,
        [value("i", INT, ()), value("going", BOOL, ()), value("words", INT, ("n",))],
        [value("going_on", BOOL, ()), value("longer", INT, ("m",)), value("best")],
        wk=weights("k", WIDTH, WIDTH),
        wv=weights("v", WIDTH, WIDTH),
        out=weights("words", WIDTH, WORDS),
        last=np.asarray([-1], np.int64),
        end=np.asarray([1], np.int64),
    )
    whole = graph(
        [node("Loop", "most - start", "all_words bests", body=body), node("Cast", "all_words", "numbers", to=FLOAT)],
        [value("start", INT, ("s",)), value("most", INT, ())],
        [value("numbers", FLOAT, ("l",)), value("bests", FLOAT, ("c",))],
        embedding=weights("embedding", WORDS, WIDTH) * 8,
        wq=weights("q", WIDTH, WIDTH),
    )

    def given(start: list[int], most: int) -> Arrays:
        return {"start": np.asarray(start, np.int64), "most": np.asarray(most, np.int64)}

    sets = (("_longer", given([7, 3, 9], 20)), ("_short", given([4, 11], 3)))
    write_with_outputs(folder, model(whole), ("", given([2, 5], 12)), *sets)
