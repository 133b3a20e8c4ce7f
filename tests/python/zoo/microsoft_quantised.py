"""Cases of the quantised operators of onnxruntime's domain `com.microsoft`, each with what onnxruntime makes of it."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from zoo import runner, seeds
from zoo.store import Arrays, Task, write_case, write_npz

DOMAIN = "com.microsoft"
BYTES = (np.uint8, np.int8)
FLOATS = (np.dtype(np.float32), np.dtype(np.float16))


@dataclass(frozen=True)
class Case:
    """A node with its inputs: None where one is left out. `free` are sizes that only a run tells: input, axis, name."""

    name: str
    op: str
    inputs: Sequence[np.ndarray | None]
    constant: frozenset[int] = frozenset()
    outputs: Sequence[str] = ("y",)
    free: Sequence[tuple[int, int, str]] = ()
    attributes: Mapping[str, object] = field(default_factory=dict)
    # Where onnxruntime has no kernel.
    expected: Callable[[], Arrays] | None = None
    # What onnxruntime is given in place of the inputs, where it does not load a node that leaves one out.
    instead: Sequence[np.ndarray | None] | None = None


def tasks() -> list[Task]:
    """Gives the task."""
    return [Task("microsoft_quantised", fill)]


def fill(folder: Path) -> None:
    """Writes a folder for each case."""
    for case in cases():
        model, inputs = model_of(case), {f"x{at}": array for at, array in given(case)}
        write_case(folder / case.name, model, inputs)
        write_npz(folder / case.name / "outputs.npz", case.expected() if case.expected else run(case, model, inputs))


def run(case: Case, model: onnx.ModelProto, inputs: Arrays) -> Arrays:
    """Runs a model node by node, by one thread: an LSTM quantises the states of as many sequences at once as a thread has."""
    if case.instead:
        full = replace(case, inputs=case.instead, instead=None, constant=case.constant | set(range(len(case.instead))) - set(dict(given(case))))
        model = model_of(full)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = runner.ERROR
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(inputs)), strict=True))


def given(case: Case) -> list[tuple[int, np.ndarray]]:
    """Gives the inputs that a run is given."""
    return [(at, array) for at, array in enumerate(case.inputs) if array is not None and at not in case.constant]


def model_of(case: Case) -> onnx.ModelProto:
    """Gives a model of one node."""
    def declared(at: int, array: np.ndarray) -> onnx.ValueInfoProto:
        free = {axis: name for index, axis, name in case.free if index == at}
        shape = [free.get(axis, size) for axis, size in enumerate(array.shape)]
        return helper.make_tensor_value_info(f"x{at}", helper.np_dtype_to_tensor_dtype(array.dtype), shape)

    names = ["" if array is None else f"x{at}" for at, array in enumerate(case.inputs)]
    node = helper.make_node(case.op, names, list(case.outputs), domain=DOMAIN)
    # Of a list without elements, the kind has to be said.
    kinds = {name: onnx.AttributeProto.INTS if isinstance(value, list) and not value else None for name, value in case.attributes.items()}
    node.attribute.extend(helper.make_attribute(name, value, attr_type=kinds[name]) for name, value in case.attributes.items())
    stored = [numpy_helper.from_array(case.inputs[at], f"x{at}") for at in sorted(case.constant) if case.inputs[at] is not None]
    ports = [declared(at, array) for at, array in given(case)]
    outputs = [onnx.ValueInfoProto(name=name) for name in case.outputs if name]
    graph = helper.make_graph([node], "case", ports, outputs, stored)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def cases() -> Iterator[Case]:
    """Gives all cases."""
    families = (binary, unary, softmax, global_pools, pools, concat, means, where, gemm, dynamic, to_float, attention, embedding, linear, max_pool, conv, conv_transpose, lstm)
    return itertools.chain.from_iterable(family() for family in families)


def drawn(name: str, shape: Sequence[int], dtype: type = np.uint8) -> np.ndarray:
    """Draws elements over the whole range of a type, or floats around 0."""
    rng = seeds.generator("microsoft_quantised", name)
    if np.dtype(dtype) in FLOATS:
        return seeds.normal(rng, tuple(shape), 1.0).astype(dtype)
    bounds = np.iinfo(dtype)
    return rng.integers(bounds.min, bounds.max + 1, tuple(shape)).astype(dtype)


def weights(name: str, shape: Sequence[int], dtype: type) -> np.ndarray:
    """Draws weights; of i8 half the range, since without VNNI onnxruntime adds pairs of products of u8 and i8 in 16 bits, which saturate."""
    array = drawn(name, shape, dtype)
    return array // 2 if dtype == np.int8 else array


def scale(value: float | Sequence[float]) -> np.ndarray:
    """Gives a scale."""
    return np.array(value, np.float32)


def zero(dtype: type, value: int | Sequence[int]) -> np.ndarray:
    """Gives a zero point, as a number of u8; of i8 it is 128 less."""
    shift = 0 if dtype == np.uint8 else 128
    return np.asarray(np.array(value, np.int64) - shift).astype(dtype)


def name_of(*parts: object) -> str:
    """Gives a name of a case."""
    def text(part: object) -> str:
        if isinstance(part, type):
            return np.dtype(part).name
        return str(part).replace(" ", "").replace(",", "_").strip("()[]").replace("-", "m").replace(".", "p")

    return "_".join(text(part) for part in parts)


def binary() -> Iterator[Case]:
    """Gives sums and products, with and without broadcasting."""
    shapes = [((2, 3, 7), (2, 3, 7)), ((2, 3, 7), (7,)), ((3, 1), (1, 9)), ((2, 5), ()), ((1, 4, 3, 3), (1, 4, 1, 1))]
    for op, dtype, (number, (a, b)), zeros in itertools.product(("QLinearAdd", "QLinearMul"), BYTES, enumerate(shapes), (True, False)):
        name = name_of(op, dtype, number, "zeros" if zeros else "none")
        out = 0.03 if op == "QLinearAdd" else 0.011
        points = [zero(dtype, value) if zeros else None for value in (130, 121, 110)]
        left = [drawn(f"{name} a", a, dtype), scale(0.017), points[0]]
        right = [drawn(f"{name} b", b, dtype), scale(0.013), points[1]]
        # A free size, a constant factor, and parameters that a run is given.
        constant = {0: {1, 2, 4, 5, 6, 7}, 1: {1, 2, 3, 4, 5, 6, 7}, 2: set()}.get(number, {1, 2, 4, 5, 6, 7})
        free = [(0, 0, "n"), (3, 0, "n")] if number == 0 else [(0, 1, "n")] if number == 1 else []
        inputs = [*left, *right, scale(out), points[2]]
        full = None if zeros else [np.array(0, dtype) if array is None else array for array in inputs]
        yield Case(name, op, inputs, frozenset(constant), free=free, instead=full)


def unary() -> Iterator[Case]:
    """Gives functions of one tensor."""
    kinds = [("QLinearSigmoid", {}, 1 / 256), ("QLinearLeakyRelu", {}, 0.02), ("QLinearLeakyRelu", {"alpha": 0.3}, 0.05), ("QLinearLeakyRelu", {"alpha": 0.0}, 0.02)]
    for (number, (op, attributes, out)), dtype, zeros, fixed in itertools.product(enumerate(kinds), BYTES, (True, False), (True, False)):
        name = name_of(op, number, dtype, "zeros" if zeros else "none", "fixed" if fixed else "given")
        points = [zero(dtype, value) if zeros else None for value in (140, 20)]
        inputs = [drawn(name, (3, 50), dtype), scale(0.04), points[0], scale(out), points[1]]
        yield Case(name, op, inputs, frozenset({1, 2, 3, 4} if fixed else {}), free=[(0, 0, "n")], attributes=attributes)


def softmax() -> Iterator[Case]:
    """Gives `QLinearSoftmax`, flattened and along an axis; with a scale that is no reciprocal, too."""
    for dtype, opset, axis, out in itertools.product(BYTES, (12, 13), (-1, 1, 0), (1 / 256, 0.007)):
        name = name_of("softmax", dtype, opset, axis, out)
        inputs = [drawn(name, (3, 5, 6), dtype), scale(0.02), zero(dtype, 90), scale(out), zero(dtype, 0)]
        free = [(0, 0, "n")] if axis == -1 else []
        yield Case(name, "QLinearSoftmax", inputs, frozenset({1, 2, 3, 4}), free=free, attributes={"axis": axis, "opset": opset})
    inputs = [drawn("softmax plain", (4, 9)), scale(0.05), None, scale(1 / 256), zero(np.uint8, 0)]
    yield Case("softmax_plain", "QLinearSoftmax", inputs, attributes={"opset": 13})


def global_pools() -> Iterator[Case]:
    """Gives `QLinearGlobalAveragePool`."""
    for dtype, last, space in itertools.product(BYTES, (0, 1), ((7,), (5, 6), (2, 3, 4))):
        name = name_of("global_pool", dtype, last, len(space))
        shape = (2, *space, 3) if last else (2, 3, *space)
        inputs = [drawn(name, shape, dtype), scale(0.02), zero(dtype, 100), scale(0.004), zero(dtype, 140)]
        yield Case(name, "QLinearGlobalAveragePool", inputs, frozenset({1, 2, 3, 4}), free=[(0, 0, "n")], attributes={"channels_last": last})


POOLS: list[dict[str, object]] = [
    {"kernel_shape": [3]},
    {"kernel_shape": [2, 2], "strides": [2, 2]},
    {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "strides": [2, 1], "count_include_pad": 1},
    {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    {"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": "SAME_LOWER"},
    {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "VALID"},
    {"kernel_shape": [2, 2], "strides": [3, 3], "ceil_mode": 1},
    {"kernel_shape": [2, 2, 2], "strides": [2, 1, 1]},
]


def pools() -> Iterator[Case]:
    """Gives `QLinearAveragePool`."""
    for dtype, last, (number, attributes) in itertools.product(BYTES, (0, 1), enumerate(POOLS)):
        name = name_of("pool", dtype, last, number)
        space = (8, 7, 6)[: len(attributes["kernel_shape"])]
        shape = (2, *space, 3) if last else (2, 3, *space)
        inputs = [drawn(name, shape, dtype), scale(0.02), zero(dtype, 100), scale(0.0137), zero(dtype, 140)]
        yield Case(name, "QLinearAveragePool", inputs, frozenset({1, 2, 3, 4}), free=[(0, 0, "n")], attributes={**attributes, "channels_last": last})
    inputs = [drawn("pool plain", (1, 2, 4, 4)), scale(0.02), None, scale(0.03), None]
    full = [np.array(0, np.uint8) if array is None else array for array in inputs]
    yield Case("pool_plain", "QLinearAveragePool", inputs, attributes={"kernel_shape": [2, 2]}, instead=full)


def concat() -> Iterator[Case]:
    """Gives `QLinearConcat`."""
    for dtype, axis, count in itertools.product(BYTES, (0, 1, -1), (1, 2, 3)):
        name = name_of("concat", dtype, axis, count)
        parts = [[drawn(f"{name} {at}", (3, 3), dtype), scale(0.01 * (at + 1)), zero(dtype, 100 + 20 * at)] for at in range(count)]
        inputs = [scale(0.02), zero(dtype, 120), *itertools.chain(*parts)]
        constant = {0, 1, *(at for at in range(2, len(inputs)) if (at - 2) % 3)}
        free = [(2 + 3 * at, 0 if axis else 1, "n") for at in range(count)] if axis != -1 else []
        yield Case(name, "QLinearConcat", inputs, frozenset(constant), free=free, attributes={"axis": axis})


def means() -> Iterator[Case]:
    """Gives `QLinearReduceMean`, for which onnxruntime has no kernel: expected is what it documents."""
    for dtype, axes, keep, zeros in itertools.product(BYTES, ([1], [-1, 0], [], [2]), (0, 1), (True, False)):
        name = name_of("mean", dtype, axes, keep, "zeros" if zeros else "none")
        x = drawn(name, (2, 5, 7), dtype)
        points = [zero(dtype, 120) if zeros else None, zero(dtype, 130) if zeros else None]

        def expected(x: np.ndarray = x, axes: Sequence[int] = axes, keep: int = keep, points: list = points, dtype: type = dtype) -> Arrays:
            offset = [0 if point is None else int(point) for point in points]
            mean = (x.astype(np.float64) - offset[0]).mean(axis=tuple(axes) or None, keepdims=bool(keep)) * np.float32(0.02)
            bounds = np.iinfo(dtype)
            return {"y": np.clip(np.round(mean / np.float32(0.003)) + offset[1], bounds.min, bounds.max).astype(dtype)}

        inputs = [x, scale(0.02), points[0], scale(0.003), points[1]]
        yield Case(name, "QLinearReduceMean", inputs, frozenset({1, 2, 3, 4}), attributes={"axes": axes, "keepdims": keep}, expected=expected)


def where() -> Iterator[Case]:
    """Gives `QLinearWhere`."""
    shapes = [((3, 4), (3, 4), (3, 4)), ((3, 1), (1, 5), (3, 5)), ((4,), (2, 4), ())]
    for dtype, (number, (condition, x, y)) in itertools.product(BYTES, enumerate(shapes)):
        name = name_of("where", dtype, number)
        picked = seeds.generator("microsoft_quantised", name).random(condition) < 0.5
        first, second = ([drawn(f"{name} {part}", shape, dtype), scale(step), zero(dtype, point)] for part, shape, step, point in (("x", x, 0.02, 120), ("y", y, 0.03, 90)))
        inputs = [picked, *first, *second, scale(0.025), zero(dtype, 100)]
        free = [(at, 0, "n") for at in (0, 1, 4)] if number == 0 else []
        yield Case(name, "QLinearWhere", inputs, frozenset({2, 3, 5, 6, 7, 8}), free=free)


PAIRS = ((np.uint8, np.uint8), (np.uint8, np.int8), (np.int8, np.int8))


def gemm() -> Iterator[Case]:
    """Gives `QGemm`."""
    rows, depth, columns = 4, 9, 6
    shapes = [None, (columns,), (rows, columns), (1, columns), (rows, 1), ()]
    for (first, second), (number, bias), each, out in itertools.product(PAIRS, enumerate(shapes), (False, True), (True, False)):
        name = name_of("gemm", first, second, number, "columns" if each else "whole", "bytes" if out else "floats")
        turned = number % 2, number // 2 % 2
        a = drawn(f"{name} a", (depth, rows) if turned[0] else (rows, depth), first)
        b = weights(f"{name} b", (columns, depth) if turned[1] else (depth, columns), second)
        steps = [0.01 + 0.002 * at for at in range(columns)] if each else 0.013
        points = [120 + at for at in range(columns)] if each else 125
        c = None if bias is None else (drawn(f"{name} c", bias, np.float32) * 3000).astype(np.int32)
        inputs = [a, scale(0.02), zero(first, 110), b, scale(steps), zero(second, points), c]
        inputs += [scale(0.09), zero(first, 128)] if out else []
        constant = frozenset({1, 2, 3, 4, 5, 6, 7, 8} if number != 3 else {1, 4}) & frozenset(range(len(inputs)))
        free = [] if turned[0] or number == 2 or number == 4 else [(0, 0, "n")]
        attributes = {"transA": turned[0], "transB": turned[1], "alpha": (1.0, 0.7)[number % 2]}
        yield Case(name, "QGemm", inputs, constant, free=free, attributes=attributes)


def dynamic() -> Iterator[Case]:
    """Gives `DynamicQuantizeMatMul`."""
    for dtype, shape, each, zeros, bias in itertools.product(BYTES, ((5, 12), (2, 3, 12)), (False, True), (True, False), (True, False)):
        name = name_of("dynamic", dtype, len(shape), "columns" if each else "whole", "zeros" if zeros else "none", "bias" if bias else "plain")
        columns = 7
        steps = [0.01 + 0.002 * at for at in range(columns)] if each else 0.013
        points = [120 + at for at in range(columns)] if each else 125
        inputs = [
            drawn(f"{name} a", shape, np.float32),
            weights(f"{name} b", (12, columns), dtype),
            scale(steps),
            zero(dtype, points) if zeros else None,
            drawn(f"{name} bias", (columns,), np.float32) if bias else None,
        ]
        yield Case(name, "DynamicQuantizeMatMul", inputs, frozenset({1, 2, 3, 4}), free=[(0, 0, "n")])


def to_float() -> Iterator[Case]:
    """Gives `MatMulIntegerToFloat`."""
    for (first, second), each, zeros, bias in itertools.product(PAIRS, (False, True), (True, False), (True, False)):
        name = name_of("to_float", first, second, "columns" if each else "whole", "zeros" if zeros else "none", "bias" if bias else "plain")
        columns = 7
        steps = [0.01 + 0.002 * at for at in range(columns)] if each else [0.013]
        points = [120 + at for at in range(columns)] if each else [125]
        inputs = [
            drawn(f"{name} a", (2, 3, 12), first),
            weights(f"{name} b", (12, columns), second),
            scale(0.02),
            scale(steps),
            zero(first, 117) if zeros else None,
            zero(second, points) if zeros else None,
            drawn(f"{name} bias", (columns,), np.float32) if bias else None,
        ]
        constant = frozenset({1, 2, 3, 4, 5, 6} if not bias else {1, 3, 5, 6})
        yield Case(name, "MatMulIntegerToFloat", inputs, constant, free=[(0, 0, "n")])
    # A scale and a zero point for each row, which onnxruntime documents and does not compute.
    a, b = drawn("to_float rows a", (4, 12)), weights("to_float rows b", (12, 7), np.int8)
    steps, points = scale([0.01, 0.02, 0.03, 0.04]), np.array([110, 120, 130, 140], np.uint8)

    def expected() -> Arrays:
        sums = (a.astype(np.int64) - points[:, np.newaxis]) @ b.astype(np.int64)
        return {"y": (sums * (steps[:, np.newaxis] * scale(0.013))).astype(np.float32)}

    yield Case("to_float_rows", "MatMulIntegerToFloat", [a, b, steps, scale(0.013), points], frozenset({1, 2, 3, 4}), expected=expected)


def masks(batch: int, queries: int, keys: int) -> list[np.ndarray | None]:
    """Gives masks of all forms that onnxruntime has on the host."""
    rng = seeds.generator("microsoft_quantised", f"mask {keys}")
    table = (rng.random((batch, keys)) < 0.7).astype(np.int32)
    table[:, 0] = 1
    pairs = (rng.random((batch, queries, keys)) < 0.7).astype(np.int32)
    pairs[:, :, 0] = 1
    ends, starts = np.array([keys, keys - 2], np.int32), np.array([1, 0], np.int32)
    return [None, ends, np.concatenate([ends, starts]), table, pairs, np.array([[1]], np.int32)]


def attention() -> Iterator[Case]:
    """Gives `QAttention`."""
    batch, length, heads, size, width = 2, 5, 2, 4, 6
    columns = 3 * heads * size
    for dtype, (number, causal), before in itertools.product(BYTES, itertools.product(range(6), (0, 1)), (0, 3)):
        each = number % 2 == 0
        name = name_of("attention", dtype, number, causal, before)
        mask = masks(batch, length, length + before)[number]
        steps = [0.01 + 0.0005 * at for at in range(columns)] if each else 0.013
        points = ([128] * columns if dtype == np.int8 else [120 + at % 5 for at in range(columns)]) if each else 128
        inputs = [
            drawn(f"{name} x", (batch, length, width)),
            weights(f"{name} w", (width, columns), dtype),
            drawn(f"{name} b", (columns,), np.float32),
            scale(0.02),
            scale(steps),
            mask,
            zero(np.uint8, 120),
            None if number == 5 else zero(dtype, points),
            drawn(f"{name} past", (2, batch, heads, before, size), np.float32) if before else None,
        ]
        attributes = {"num_heads": heads, "unidirectional": causal, **({"scale": 0.3} if number == 1 else {}), **({"mask_filter_value": -7.0} if number == 3 else {})}
        free = [(0, 1, "s")] if before == 0 and number in (0, 1, 2) else []
        yield Case(name, "QAttention", inputs, frozenset({1, 2, 3, 4, 6, 7}), ("y", "present"), free, attributes)
        if number == 4 and not causal:
            # Of a square of all there may be, the rows of the queries and the columns of the keys. onnxruntime refuses them on the host.
            square = np.zeros((batch, 1, 10, 10), np.int32)
            square[:, 0, before : before + length, : before + length] = mask
            full, inputs = inputs, [square if at == 5 else array for at, array in enumerate(inputs)]
            yield Case(f"{name}_square", "QAttention", inputs, frozenset({1, 2, 3, 4, 5, 6, 7}), ("y", "present"), free, attributes, instead=full)


def embedding() -> Iterator[Case]:
    """Gives `QEmbedLayerNormalization`."""
    width = 8
    for dtype, segments, masked in itertools.product(BYTES, (True, False), (True, False)):
        name = name_of("embedding", dtype, "segments" if segments else "plain", "masked" if masked else "whole")
        rng = seeds.generator("microsoft_quantised", name)
        tables = [drawn(f"{name} {part}", shape, dtype) for part, shape in (("word", (11, width)), ("place", (9, width)), ("segment", (2, width)), ("gamma", (width,)), ("beta", (width,)))]
        steps = [scale(0.01 * (at + 1)) for at in range(5)]
        points = [zero(dtype, 120 + at) for at in range(5)]
        if not segments:
            tables[2] = steps[2] = points[2] = None
        inputs = [
            rng.integers(0, 11, (2, 5)).astype(np.int32),
            rng.integers(0, 2, (2, 5)).astype(np.int32) if segments else None,
            *tables,
            (rng.random((2, 5)) < 0.6).astype(np.int32) if masked else None,
            *steps,
            *points,
        ]
        attributes = {"epsilon": 0.01} if masked else {}
        constant = frozenset(range(2, 18)) - {7}
        yield Case(name, "QEmbedLayerNormalization", inputs, constant, ("y", "mask_index"), [(0, 0, "n"), *([(1, 0, "n")] if segments else []), *([(7, 0, "n")] if masked else [])], attributes)


def linear() -> Iterator[Case]:
    """Gives `QuantizeLinear` and `DequantizeLinear` of the domain."""
    types = (np.uint8, np.int8, np.uint16, np.int16)
    for dtype, axis, real in itertools.product(types, (None, 0, 1, -1), (np.float32, np.float16)):
        if real == np.float16 and axis is not None:
            continue
        name = name_of(dtype, axis, real)
        count = {None: 1, 0: 3, 1: 4, -1: 5}[axis]
        wide = np.dtype(dtype).itemsize == 2
        steps = (0.02 + 0.003 * np.arange(count)) / (200 if wide else 1)
        points = (np.arange(count) * 3 + 5).astype(dtype)
        steps, points = (steps, points) if axis is not None else (steps[0], points[0])
        attributes = {} if axis is None else {"axis": axis}
        constant = frozenset({1, 2} if axis != 1 else {})
        x = drawn(f"{name} x", (3, 4, 5), real)
        yield Case(f"quantize_{name}", "QuantizeLinear", [x, np.array(steps, real), np.array(points, dtype)], constant, attributes=attributes)
        x = drawn(f"{name} q", (3, 4, 5), dtype)
        yield Case(f"dequantize_{name}", "DequantizeLinear", [x, np.array(steps, real), np.array(points, dtype)], constant, attributes=attributes)
    yield Case("quantize_plain", "QuantizeLinear", [drawn("quantize plain", (3, 4), np.float32), scale(0.01)], free=[(0, 0, "n")])
    yield Case("dequantize_plain", "DequantizeLinear", [drawn("dequantize plain", (3, 4), np.int8), scale(0.01)], free=[(0, 0, "n")])
    yield Case("dequantize_int32", "DequantizeLinear", [drawn("dequantize wide", (6,), np.int16).astype(np.int32), scale(0.01)])


def max_pool() -> Iterator[Case]:
    """Gives `NhwcMaxPool`."""
    kinds: list[dict[str, object]] = [
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
        {"kernel_shape": [2, 2], "dilations": [2, 2]},
        {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
        {"kernel_shape": [2, 2], "strides": [3, 3], "ceil_mode": 1},
        {"kernel_shape": [3]},
    ]
    for dtype, (number, attributes) in itertools.product(BYTES, enumerate(kinds)):
        name = name_of("max_pool", dtype, number)
        space = (8, 7)[: len(attributes["kernel_shape"])]
        yield Case(name, "NhwcMaxPool", [drawn(name, (2, *space, 3), dtype)], free=[(0, 0, "n")], attributes=attributes)


def conv() -> Iterator[Case]:
    """Gives `QLinearConv` of the domain."""
    kinds: list[dict[str, object]] = [
        {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]},
        {"strides": [2, 2]},
        {"kernel_shape": [3, 3], "group": 4},
        {"kernel_shape": [3, 3], "auto_pad": "SAME_UPPER", "strides": [2, 2]},
        {"dilations": [2, 2]},
        {"kernel_shape": [3]},
    ]
    for (first, second), last, (number, attributes) in itertools.product(PAIRS, (0, 1), enumerate(kinds)):
        name = name_of("conv", first, second, last, number)
        flat = number == 5
        space, kernel = ((8,), (3,)) if flat else ((8, 7), (3, 3))
        each = number in (0, 2)
        steps = [0.01 + 0.001 * at for at in range(8)] if each else 0.013
        points = ([128] * 8 if second == np.int8 else [125] * 8) if each else 125
        inputs = [
            drawn(f"{name} x", (2, *space, 4) if last else (2, 4, *space), first),
            scale(0.02),
            zero(first, 120),
            weights(f"{name} w", (8, 4 // attributes.get("group", 1), *kernel), second),
            scale(steps),
            zero(second, points),
            scale(0.07),
            zero(first, 130),
            (drawn(f"{name} b", (8,), np.float32) * 5000).astype(np.int32) if number % 2 else None,
        ]
        yield Case(name, "QLinearConv", inputs, frozenset(range(1, 9)), free=[(0, 0, "n")], attributes={**attributes, "channels_last": last})


def conv_transpose() -> Iterator[Case]:
    """Gives `ConvTransposeWithDynamicPads`, whose padding is a constant or given."""
    for fixed, bias in itertools.product((True, False), (True, False)):
        name = name_of("conv_transpose", "fixed" if fixed else "given", "bias" if bias else "plain")
        inputs = [
            drawn(f"{name} x", (1, 3, 5, 4), np.float32),
            drawn(f"{name} w", (3, 2, 3, 3), np.float32),
            np.array([1, 0, 2, 1], np.int64),
            drawn(f"{name} b", (2,), np.float32) if bias else None,
        ]
        attributes = {"strides": [2, 2], **({"output_padding": [1, 0]} if bias else {})}
        yield Case(name, "ConvTransposeWithDynamicPads", inputs, frozenset({1, 2, 3} if fixed else {1, 3}), attributes=attributes)


LSTMS: list[dict[str, object]] = [
    {},
    {"bias": True, "whole": False},
    {"bias": True, "starts": True},
    {"bias": True, "starts": True, "lengths": True},
    {"peepholes": True, "bias": True},
    {"input_forget": 1, "bias": True},
    {"clip": 0.5, "bias": True},
    {"activations": ["HardSigmoid", "softsign", "Tanh"], "activation_alpha": [0.3], "activation_beta": [0.4]},
    {"bias": True, "outputs": ("", "y_h", "y_c")},
    {"bias": True, "outputs": ("y", "", "y_c"), "whole": False},
    {"bias": True, "lengths": True, "outputs": ("", "y_h")},
]


def lstm() -> Iterator[Case]:
    """Gives `DynamicQuantizeLSTM`."""
    steps, batch, width, hidden = 6, 3, 10, 8
    for direction, dtype, (number, options) in itertools.product(("forward", "reverse", "bidirectional"), BYTES, enumerate(LSTMS)):
        name = name_of("lstm", direction, dtype, number)
        sides = 2 if direction == "bidirectional" else 1
        whole = options.get("whole", True)
        points = np.full((sides,) if whole else (sides, 4 * hidden), 128)
        rng = seeds.generator("microsoft_quantised", f"{name} scales")
        w_scale, r_scale = (seeds.uniform(rng, points.shape, 0.002, 0.008) for _ in range(2))

        def part(key: str, shape: Sequence[int], size: float = 0.5, name: str = name, options: Mapping[str, object] = options) -> np.ndarray | None:
            return (drawn(f"{name} {key} {len(shape)}", shape, np.float32) * np.float32(size)) if options.get(key) else None

        inputs = [
            drawn(f"{name} x", (steps, batch, width), np.float32),
            weights(f"{name} w", (sides, width, 4 * hidden), dtype),
            weights(f"{name} r", (sides, hidden, 4 * hidden), dtype),
            part("bias", (sides, 8 * hidden)),
            np.array([6, 2, 4], np.int32) if options.get("lengths") else None,
            part("starts", (sides, batch, hidden)),
            part("starts", (sides, batch, hidden), 0.7),
            part("peepholes", (sides, 3 * hidden)),
            w_scale,
            zero(dtype, points),
            r_scale,
            zero(dtype, points),
        ]
        attributes = {key: value for key, value in options.items() if key in ("input_forget", "clip", "activations", "activation_alpha", "activation_beta")}
        for key in ("activations", "activation_alpha", "activation_beta"):
            if key in attributes:
                attributes[key] = attributes[key] * sides
        attributes |= {"direction": direction, "hidden_size": hidden}
        outputs = options.get("outputs", ("y", "y_h", "y_c"))
        free = [(0, 0, "steps")] if number < 2 else []
        yield Case(name, "DynamicQuantizeLSTM", inputs, frozenset({1, 2, 3, 7, 8, 9, 10, 11}), outputs, free, attributes)
