"""Cases of the operators of `com.microsoft`, each with what onnxruntime makes of it, or of an equal model where it has no kernel."""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from zoo import runner, seeds
from zoo.store import Arrays, Task, write_case, write_npz

DOMAIN = "com.microsoft"
OPSET, IR_VERSION = 21, 10
TYPES = (np.float32, np.float16)
B, S, H = 2, 5, 8
"""Samples, tokens and hidden size."""


@dataclass(frozen=True)
class Case:
    """A model, its inputs, and the model that onnxruntime runs."""

    name: str
    model: onnx.ModelProto
    inputs: Arrays
    same: onnx.ModelProto


def tasks() -> list[Task]:
    """Gives the task for all cases."""
    return [Task("microsoft", fill)]


def fill(folder: Path) -> None:
    """Writes a folder for each case."""
    from zoo import microsoft_attention, microsoft_grouped

    families = (norms(), embeddings(), activations(), products(), convolutions(), renamed(), rotary())
    for made in itertools.chain(*families, microsoft_attention.cases(), microsoft_grouped.cases()):
        write(folder / made.name, made)


def write(folder: Path, made: Case) -> None:
    """Writes a case with onnxruntime's outputs."""
    if folder.exists():
        raise ValueError(f"two cases are called {folder.name}")
    write_case(folder, made.model, made.inputs)
    onnx.save(made.same, folder / "same.onnx")
    session = runner.open_session(folder / "same.onnx")
    names = [output.name for output in session.get_outputs()]
    outputs = dict(zip(names, session.run(names, {name: made.inputs[name] for name in (given.name for given in session.get_inputs())}), strict=True))
    for name, values in outputs.items():
        if values.dtype.kind == "f" and not np.isfinite(values).all():
            raise ValueError(f"{folder.name}: output {name} is not finite")
    write_npz(folder / "outputs.npz", outputs)
    (folder / "same.onnx").unlink()


def case(
    name: str,
    op: str,
    inputs: dict[str, np.ndarray | None],
    outputs: tuple[str, ...] = ("y",),
    *,
    stored: tuple[str, ...] = (),
    free: dict[str, tuple[str | None, ...]] | None = None,
    domain: str = DOMAIN,
    same: list[onnx.NodeProto] | None = None,
    after: list[onnx.NodeProto] | None = None,
    more: Arrays | None = None,
    opset: int = OPSET,
    **attributes: object,
) -> Case:
    """Gives a case of one node.

    An input that is None is left out. Those in `stored` are constants; `free` has symbols for sizes of inputs. `same` are nodes that mean the same,
    `after` come behind, and read inputs of `more`.
    """
    given = {name: array for name, array in inputs.items() if array is not None} | dict(more or {})
    node = helper.make_node(op, [name if array is not None else "" for name, array in inputs.items()], outputs, domain=domain, **attributes)

    def model(nodes: list[onnx.NodeProto]) -> onnx.ModelProto:
        made = {output for node in nodes for output in node.output if output}
        read = {value for node in nodes for value in node.input}
        results = [value for node in nodes for value in node.output if value and value not in read]
        values = [declared(name, array, (free or {}).get(name, ())) for name, array in given.items() if name not in stored and name in read - made]
        initializers = [numpy_helper.from_array(given[name], name) for name in stored if name in given]
        graph = helper.make_graph(nodes, "case", values, [result(name) for name in results], initializers)
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)

    behind = after or []
    made = model([node, *behind])
    same_model = model([*same, *behind]) if same else made
    return Case(name, made, {name: array for name, array in given.items() if name not in stored}, same_model)


def declared(name: str, array: np.ndarray, symbols: tuple[str | None, ...]) -> onnx.ValueInfoProto:
    """Declares an input, with symbols for some sizes."""
    sizes = itertools.zip_longest(array.shape, symbols[: array.ndim])
    return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), [symbol or size for size, symbol in sizes])


def result(name: str) -> onnx.ValueInfoProto:
    """Declares an output: only the scores of attention need a type."""
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, None) if name == "qk" else onnx.ValueInfoProto(name=name)


def draw(name: str, *shape: int, dtype: type = np.float32, deviation: float = 1.0) -> np.ndarray:
    """Draws numbers."""
    return seeds.normal(seeds.generator("microsoft", name), shape, deviation).astype(dtype)


def kind(dtype: type) -> str:
    """Gives the name of a type."""
    return np.dtype(dtype).name


TOKENS = ("batch", "sequence", None)


def norms() -> Iterator[Case]:
    """Gives cases of normalisations."""
    for dtype, beta, bias, together in itertools.product(TYPES, (True, False), (True, False), (True, False)):
        vectors = {name: draw(name, H, dtype=dtype) for name in ("gamma", "beta", "bias")}
        inputs = {"x": draw("x", B, S, H, dtype=dtype), "skip": draw("skip", B, S, H, dtype=dtype), "gamma": vectors["gamma"]}
        outputs = ("y", "", "", "sum") if together else ("y",)
        optional = {"beta": vectors["beta"] if beta else None, "bias": vectors["bias"] if bias else None}
        name = f"{kind(dtype)}_{beta}_{bias}_{together}"
        free = {"x": TOKENS, "skip": TOKENS} if bias else {}
        yield case(f"skip_layer_{name}", "SkipLayerNormalization", inputs | optional, outputs, stored=tuple(vectors), free=free, epsilon=1e-5)
        if beta:
            optional = {"bias": optional["bias"]}
            yield case(f"skip_rms_{name}", "SkipSimplifiedLayerNormalization", inputs | optional, outputs, stored=tuple(vectors), free=free, epsilon=1e-6)
    vectors = {name: draw(name, H) for name in ("gamma", "beta")}
    for shape in ((1, S, H), (S, H)):
        inputs = {"x": draw("x", B, S, H), "skip": draw("skip", *shape)}
        yield case(f"skip_layer_broadcast_{len(shape)}", "SkipLayerNormalization", inputs | vectors, ("y", "", "", "sum"), free={"x": ("batch",)})
        yield case(f"skip_rms_broadcast_{len(shape)}", "SkipSimplifiedLayerNormalization", inputs | {"gamma": vectors["gamma"]}, ("y", "", "", "sum"))
    inputs = {"x": draw("x", S, H), "skip": draw("skip", S, H), "gamma": vectors["gamma"]}
    yield case("skip_rms_of_tokens", "SkipSimplifiedLayerNormalization", inputs, ("y", "", "", "sum"), free={"x": ("tokens",), "skip": ("tokens",)})
    for dtype, axis in itertools.product((*TYPES, np.float64), (-1, 1, 2)):
        shape = (S, H) if axis == 1 else (H,)
        inputs = {"x": draw("x", B, S, H, dtype=dtype), "scale": draw("scale", *shape, dtype=dtype)}
        yield case(f"rms_{kind(dtype)}_{axis}", "SimplifiedLayerNormalization", inputs, stored=("scale",), free={"x": ("batch",)}, domain="", axis=axis, epsilon=1e-6)
    yield case("rms_plain", "SimplifiedLayerNormalization", {"x": draw("x", B, S, H), "scale": draw("scale", H)}, domain="", stash_type=1)
    vectors = {name: draw(name, H) for name in ("scale", "bias")}
    # onnxruntime had it before operator set 17, and its optimisers write it.
    yield case("layer_before_17", "LayerNormalization", {"x": draw("x", B, S, H)} | vectors, stored=tuple(vectors), free={"x": TOKENS}, domain="", opset=11, epsilon=1e-6)
    yield from group_norms()


def group_norms() -> Iterator[Case]:
    """Gives cases of group normalisation, beside nodes that mean the same."""
    shape = (2, 3, 4, 8)
    vectors = {"gamma": draw("gamma", 8), "beta": draw("beta", 8)}
    for last, activation in itertools.product((1, 0), (0, 1)):
        x = draw("x", *shape) if last else draw("x", *shape).transpose(0, 3, 1, 2).copy()
        same = [
            helper.make_node("Transpose" if last else "Identity", ["sum"], ["nchw"], **({"perm": [0, 3, 1, 2]} if last else {})),
            helper.make_node("GroupNormalization", ["nchw", "gamma", "beta"], ["n"], num_groups=4, epsilon=1e-3),
            helper.make_node("Sigmoid", ["n"], ["sigmoid"]),
            helper.make_node(*(("Mul", ["n", "sigmoid"], ["act"]) if activation else ("Identity", ["n"], ["act"]))),
            helper.make_node("Transpose" if last else "Identity", ["act"], ["y"], **({"perm": [0, 2, 3, 1]} if last else {})),
        ]
        same = same if activation else [same[0], same[1], same[3], same[4]]
        common = {"groups": 4, "epsilon": 1e-3, "activation": activation, "channels_last": last}
        start = [helper.make_node("Identity", ["x"], ["sum"])]
        yield case(f"group_{last}_{activation}", "GroupNorm", {"x": x} | vectors, same=start + same, stored=("gamma", "beta"), free={"x": ("batch",)}, **common)
        for flat, bias in itertools.product((True, False), (True, False)):
            wide = (2, 1, 1, 8) if last else (2, 8, 1, 1)
            inputs = {"x": x} | vectors | {"skip": draw("skip", *((2, 8) if flat else x.shape)), "bias": draw("bias", 8) if bias else None}
            added = [helper.make_node("Reshape", ["skip", "wide"], ["s"])] if flat else [helper.make_node("Identity", ["skip"], ["s"])]
            added += [helper.make_node("Add", ["x", "s"], ["sum" if not bias else "most"])]
            if bias:
                added += [helper.make_node("Reshape", ["bias", "row"], ["b"]), helper.make_node("Add", ["most", "b"], ["sum"])]
            row = np.array([1, 1, 1, 8] if last else [1, 8, 1, 1])
            more = {"wide": np.array(wide), "row": row}
            yield case(f"skip_group_{last}_{activation}_{flat}_{bias}", "SkipGroupNorm", inputs, ("y",), same=added + same, stored=("gamma", "beta", "bias", "wide", "row"), more=more, **common)


def embeddings() -> Iterator[Case]:
    """Gives cases of embeddings."""
    rng = seeds.generator("microsoft", "embeddings")
    ids, segments = rng.integers(0, 20, (B, S)).astype(np.int32), rng.integers(0, 2, (B, S)).astype(np.int32)
    mask = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)
    places = rng.integers(0, 9, (B, S)).astype(np.int32)
    stored = ("words", "places", "kinds", "gamma", "beta")
    free = {name: ("batch", "sequence") for name in ("ids", "segments", "mask", "positions")}
    for dtype, segmented, masked, placed in itertools.product(TYPES, (True, False), (True, False), (None, places, places[:1])):
        inputs = {
            "ids": ids,
            "segments": segments if segmented else None,
            "words": draw("words", 20, H, dtype=dtype),
            "places": draw("places", 9, H, dtype=dtype),
            "kinds": draw("kinds", 2, H, dtype=dtype) if segmented else None,
            "gamma": draw("gamma", H, dtype=dtype),
            "beta": draw("beta", H, dtype=dtype),
            "mask": mask if masked else None,
            "positions": placed,
        }
        outputs = ("y", "left", "sum") if masked or segmented else ("y", "left")
        shape = "none" if placed is None else len(placed)
        free_here = free | ({"positions": (None, "sequence")} if shape == 1 else {})
        yield case(f"embed_{kind(dtype)}_{segmented}_{masked}_{shape}", "EmbedLayerNormalization", inputs, outputs, stored=stored, free=free_here, epsilon=1e-6)


def activations() -> Iterator[Case]:
    """Gives cases of activations."""
    for dtype in TYPES:
        x, bias = draw("x", B, S, H, dtype=dtype, deviation=2.0), draw("bias", H, dtype=dtype)
        free = {"x": TOKENS}
        yield case(f"bias_gelu_{kind(dtype)}", "BiasGelu", {"x": x, "bias": bias}, stored=("bias",), free=free)
        yield case(f"fast_gelu_{kind(dtype)}", "FastGelu", {"x": x}, free=free)
        yield case(f"fast_gelu_bias_{kind(dtype)}", "FastGelu", {"x": x, "bias": bias}, stored=("bias",), free=free)
        yield case(f"gelu_{kind(dtype)}", "Gelu", {"x": x}, free=free)
        for alpha in (None, 1.0, 1.702, -0.5):
            given = {} if alpha is None else {"alpha": alpha}
            yield case(f"quick_gelu_{kind(dtype)}_{alpha}", "QuickGelu", {"x": x}, free=free, **given)
    x, bias = draw("x", B, S, H), draw("bias", H)
    added = helper.make_node("Add", ["x", "bias"], ["sum"])
    same = [
        added,
        helper.make_node("Split", ["sum"], ["a", "b"], axis=-1, num_outputs=2),
        helper.make_node("Gelu", ["b"], ["g"]),
        helper.make_node("Mul", ["a", "g"], ["y"]),
    ]
    yield case("bias_split_gelu", "BiasSplitGelu", {"x": x, "bias": bias}, same=same, free={"x": TOKENS})
    same = [added, helper.make_node("Add", ["sum", "skip"], ["y"])]
    yield case("bias_add", "BiasAdd", {"x": x, "bias": bias, "skip": draw("skip", B, S, H)}, same=same, free={"x": TOKENS, "skip": TOKENS})
    for biased in (True, False):
        same = [helper.make_node("MatMul", ["x", "w"], ["p"]), helper.make_node("Add" if biased else "Identity", ["p", "b"] if biased else ["p"], ["q"])]
        same += [helper.make_node("Gelu", ["q"], ["y"], approximate="tanh")]
        inputs = {"x": x, "w": draw("w", H, 6)} | ({"b": draw("b", 6)} if biased else {})
        yield case(f"gemm_fast_gelu_{biased}", "GemmFastGelu", inputs, same=same, stored=("w", "b"), free={"x": TOKENS})


def products() -> Iterator[Case]:
    """Gives cases of products."""
    for trans_a, trans_b, alpha in itertools.product((0, 1), (0, 1), (1.0, 0.125)):
        for rank in (2, 3, 4, 5):
            batch = (2, 3, 2)[: rank - 2]
            a = draw("a", *batch, *((4, 3) if trans_a else (3, 4)))
            b = draw("b", *batch, *((6, 4) if trans_b else (4, 6)))
            common = {"transA": trans_a, "transB": trans_b, "alpha": alpha}
            name = f"{trans_a}_{trans_b}_{alpha}_{rank}"
            free = {"a": ("batch",), "b": ("batch",)} if rank > 2 else {"a": (None, "rows") if trans_a else ("rows",)}
            yield case(f"fused_matmul_{name}", "FusedMatMul", {"a": a, "b": b}, free=free, **common)
            if rank == 3:
                weight = draw("b", *((6, 4) if trans_b else (4, 6)))
                free = {"a": ("batch", *((None, "rows") if trans_a else ("rows", None)))}
                yield case(f"fused_matmul_weight_{name}", "FusedMatMul", {"a": a, "b": weight}, stored=("b",), free=free, **common)
                yield case(f"transpose_matmul_{name}", "TransposeMatMul", {"a": a, "b": b}, **common)
                yield case(f"fused_matmul_f16_{name}", "FusedMatMul", {"a": a.astype(np.float16), "b": b.astype(np.float16)}, **common)
    for trans_a, trans_b, first_a, first_b in itertools.product((0, 1), repeat=4):
        if first_a or first_b:
            a, b = draw("a", 2, 3, *((5, 4) if trans_a else (4, 5))), draw("b", 2, 3, *((6, 5) if trans_b else (5, 6)))
            a = a.transpose(2, 0, 1, 3).copy() if first_a else a
            b = b.transpose(2, 0, 1, 3).copy() if first_b else b
            common = {"transA": trans_a, "transB": trans_b, "transBatchA": first_a, "transBatchB": first_b}
            yield case(f"fused_matmul_batch_{trans_a}_{trans_b}_{first_a}_{first_b}", "FusedMatMul", {"a": a, "b": b}, **common)
    for trans in (0, 1):
        yield case(f"fused_matmul_vector_{trans}", "FusedMatMul", {"a": draw("a", 4), "b": draw("b", 2, 4, 3)}, transA=trans)
    parameters = {"LeakyRelu": (0.1,), "Elu": (0.7,), "Celu": (0.7,), "ThresholdedRelu": (0.4,), "HardSigmoid": (0.3, 0.4), "Relu": (), "Sigmoid": (), "Tanh": (), "Softplus": (), "Softsign": ()}
    gemm = {"a": draw("a", 3, 4), "b": draw("b", 4, 5), "c": draw("c", 5)}
    for name, values in parameters.items():
        given = {f"activation_{which}": value for which, value in zip(("alpha", "beta"), values, strict=False)}
        yield case(f"fused_gemm_{name}", "FusedGemm", gemm, stored=("b", "c"), free={"a": ("rows",)}, activation=name, **given)
    yield case("fused_gemm_Selu", "FusedGemm", gemm, activation="Selu", activation_alpha=1.5, activation_gamma=1.1)
    for trans_a, trans_b, added in itertools.product((0, 1), (0, 1), (True, False)):
        inputs = {"a": draw("a", *((4, 3) if trans_a else (3, 4))), "b": draw("b", *((5, 4) if trans_b else (4, 5)))} | ({"c": draw("c", 3, 1)} if added else {})
        yield case(f"fused_gemm_{trans_a}_{trans_b}_{added}", "FusedGemm", inputs, transA=trans_a, transB=trans_b, alpha=0.5, beta=2.0, activation="Relu")


def convolutions() -> Iterator[Case]:
    """Gives cases of convolutions."""
    image = {"x": draw("image", 2, 4, 7, 6), "w": draw("filters", 6, 4, 3, 3, deviation=0.2), "b": draw("b", 6)}
    parameters = {"": (), "Relu": (), "Sigmoid": (), "Tanh": (), "HardSwish": (), "LeakyRelu": (0.1,), "Clip": (-0.5, 0.7), "HardSigmoid": (0.2, 0.5)}
    for (name, values), added in itertools.product(parameters.items(), (True, False)):
        given = ({"activation": name} if name else {}) | ({"activation_params": list(values)} if values else {})
        inputs = image | ({"z": draw("z", 2, 6, 7, 6)} if added else {})
        free = {"x": ("batch",), "z": ("batch",)}
        yield case(f"fused_conv_{name}_{added}", "FusedConv", inputs, stored=("w", "b"), free=free, pads=[1, 1, 1, 1], kernel_shape=[3, 3], **given)
    yield case("fused_conv_plain", "FusedConv", {"x": image["x"], "w": image["w"], "b": None, "z": draw("z", 2, 6, 5, 4)}, activation="Relu")
    yield case("fused_conv_strided", "FusedConv", image, activation="Relu", strides=[2, 1], auto_pad="SAME_UPPER")
    yield case("fused_conv_dilated", "FusedConv", image, activation="Relu", strides=[1, 2], dilations=[2, 1])
    grouped = {"x": image["x"], "w": draw("filters", 8, 1, 3, 3), "b": draw("b", 8)}
    yield case("fused_conv_grouped", "FusedConv", grouped, activation="Tanh", group=4, pads=[1, 0, 0, 1])
    yield case("fused_conv_1d", "FusedConv", {"x": draw("signal", 2, 3, 9), "w": draw("filters", 4, 3, 3)}, activation="Relu", pads=[1, 1])
    for biased, group in itertools.product((True, False), (1, 2)):
        inputs = {"x": draw("image", 2, 7, 6, 4), "w": draw("filters", 6, 3, 3, 4 // group)} | ({"b": draw("b", 6)} if biased else {})
        options = {"pads": [1, 1, 1, 1], "strides": [2, 2], "group": group, "dilations": [1, 1], "kernel_shape": [3, 3]}
        same = [
            helper.make_node("Transpose", ["x"], ["image"], perm=[0, 3, 1, 2]),
            helper.make_node("Transpose", ["w"], ["filters"], perm=[0, 3, 1, 2]),
            helper.make_node("Conv", ["image", "filters"] + (["b"] if biased else []), ["maps"], **options),
            helper.make_node("Transpose", ["maps"], ["y"], perm=[0, 2, 3, 1]),
        ]
        yield case(f"nhwc_conv_{biased}_{group}", "NhwcConv", inputs, same=same, stored=("w", "b"), free={"x": ("batch",)}, **options)


def renamed() -> Iterator[Case]:
    """Gives cases of operators that ONNX has too."""
    x = draw("x", 3, 4, 5)
    for upper, k in itertools.product((0, 1), (None, -1, 2)):
        yield case(f"trilu_{upper}_{k}", "Trilu", {"x": x} | ({} if k is None else {"k": np.array(k)}), upper=upper)
    for dtype in (np.int32, np.int64):
        yield case(f"gather_nd_{kind(dtype)}", "GatherND", {"x": x, "i": np.array([[0, 1], [2, 3]], dtype)})
    for axis in (0, 1, -1, 3):
        yield case(f"expand_dims_{axis}", "ExpandDims", {"x": x, "axis": np.array(axis, np.int32)}, stored=("axis",), free={"x": ("batch",)})
    pads = np.array([1, 0, 2, 0, 1, 1])
    for mode, amounts in itertools.product(("constant", "reflect", "edge"), (pads, pads[None], -np.abs(pads))):
        if mode == "constant" or amounts.min() >= 0:
            yield case(f"pad_{mode}_{amounts.ndim}_{amounts.min()}", "Pad", {"x": x, "pads": amounts}, stored=("pads",), mode=mode)
    yield case("pad_value", "Pad", {"x": x, "pads": pads, "value": np.array([2.5], np.float32)}, stored=("pads", "value"))
    for dtype in (np.float32, np.int32, np.int64):
        bounds = {"start": np.array([2], dtype), "limit": np.array(11, dtype)}
        yield case(f"range_{kind(dtype)}", "Range", bounds, stored=("start", "limit"))
        yield case(f"range_step_{kind(dtype)}", "Range", bounds | {"step": np.array([3], dtype)}, stored=("start", "limit", "step"))


def rotary() -> Iterator[Case]:
    """Gives cases of rotary position embedding."""
    rng = seeds.generator("microsoft", "rotary")
    for dtype, interleaved, one, heads in itertools.product(TYPES, (0, 1), (True, False), (0, 3)):
        caches = {"cos": draw("cos", 12, 4, dtype=dtype), "sin": draw("sin", 12, 4, dtype=dtype)}
        positions = np.array([3]) if one else rng.integers(0, 12, (B, S))
        given = {"num_heads": heads} if heads else {}
        for shape, free in (((B, S, 24), TOKENS), ((B, 3, S, 8), ("batch", None, "sequence"))):
            inputs = {"x": draw("x", *shape, dtype=dtype), "positions": positions} | caches
            free = {"x": free} | ({} if one else {"positions": ("batch", "sequence")})
            yield case(f"rotary_{kind(dtype)}_{interleaved}_{one}_{heads}_{len(shape)}", "RotaryEmbedding", inputs, stored=("cos", "sin"), free=free, interleaved=interleaved, **given)
    for interleaved, shape in itertools.product((0, 1), ((B, S, 24), (B, 3, S, 8))):
        caches = {"cos": draw("cos", 12, 2), "sin": draw("sin", 12, 2)}
        inputs = {"x": draw("x", *shape), "positions": rng.integers(0, 12, (B, S))} | caches
        yield case(f"rotary_part_{interleaved}_{len(shape)}", "RotaryEmbedding", inputs, interleaved=interleaved, num_heads=3, rotary_embedding_dim=4, is_packed_batching=1)
