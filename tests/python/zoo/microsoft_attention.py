"""Cases of `Attention` and `MultiHeadAttention` of `com.microsoft`."""

import itertools
from collections.abc import Iterator

import numpy as np
from onnx import helper

from zoo.microsoft import TOKENS, TYPES, B, Case, S, case, draw, kind

N, SIZE = 2, 4
"""Heads, and the size of one."""
HIDDEN = N * SIZE
KEYS = 6
"""Keys of cross attention."""
PAST = 3
ORDER = ("query", "key", "value", "bias", "padding", "added", "past_key", "past_value")
STORED = ("bias", "weights")


def cases() -> Iterator[Case]:
    """Gives all of them."""
    yield from projected()
    yield from multi_head()
    yield from multi_head_past()
    yield from packed()


def masks(keys: int, queries: int) -> dict[str, np.ndarray]:
    """Gives masks of each form, without samples in which nothing is seen."""
    ends = np.array([keys - 2, keys], np.int32)
    rows = (np.arange(keys) < ends[:, None]).astype(np.int32)
    left = np.ascontiguousarray(rows[:, ::-1])
    each = np.tril(np.ones((queries, keys), np.int32), keys - queries)
    starts = np.array([1, 0], np.int32)
    return {
        "ends": ends,
        "starts": np.concatenate([ends, starts]),
        "packed": np.concatenate([ends, [0, queries, 2 * queries], [0, keys, 2 * keys]]).astype(np.int32),
        "rows": rows,
        "left": left,
        "each": rows[:, None] * each[None],
    }


def projected() -> Iterator[Case]:
    """Gives cases of `Attention`."""
    x, weights, bias = draw("x", B, S, 6), draw("weights", 6, 3 * HIDDEN), draw("bias", 3 * HIDDEN)
    forms = masks(S, S)
    free = {"x": TOKENS, "mask": ("batch", "sequence")}
    for (form, mask), causal, filtered in itertools.product([("none", None), *forms.items(), ("one", np.ones((B, 1), np.int32))], (0, 1), (True, False)):
        inputs = {"x": x, "weights": weights, "bias": bias} | ({} if mask is None else {"mask": mask})
        given = {"mask_filter_value": -50.0} if filtered else {}
        here = free if form in ("none", "rows", "left") else {"x": (None, "sequence")} if form in ("ends", "starts") else {}
        yield case(f"attention_{form}_{causal}_{filtered}", "Attention", inputs, ("y",), stored=STORED, free=here, num_heads=N, unidirectional=causal, **given)
    wide = {"x": x, "weights": draw("weights", 6, 2 * HIDDEN + 12), "bias": draw("bias", 2 * HIDDEN + 12)}
    yield case("attention_sizes", "Attention", wide, stored=STORED, free={"x": TOKENS}, num_heads=N, qkv_hidden_sizes=[HIDDEN, HIDDEN, 12])
    inputs = {"x": x, "weights": weights, "bias": bias}
    yield case("attention_scale", "Attention", inputs, num_heads=N, scale=0.3, unidirectional=1)
    half = {name: array.astype(np.float16) for name, array in inputs.items()}
    yield case("attention_f16", "Attention", half | {"mask": forms["rows"]}, ("y", "present"), stored=STORED, num_heads=N)
    for batch, heads in itertools.product((1, B), (1, N)):
        added = {"mask": None, "past": None, "added": draw("added", batch, heads, S, S)}
        yield case(f"attention_added_{batch}_{heads}", "Attention", inputs | added, num_heads=N)
        yield case(f"attention_added_masked_{batch}_{heads}", "Attention", inputs | added | {"mask": forms["rows"]}, num_heads=N, unidirectional=1)
    yield case("attention_present", "Attention", inputs, ("y", "present"), free={"x": TOKENS}, num_heads=N)
    past = draw("past", 2, B, N, PAST, SIZE)
    free = {"x": TOKENS, "past": (None, "batch", None, "past"), "mask": ("batch", "total")}
    for (form, mask), causal, length in itertools.product([("none", None), ("rows", 0), ("left", 0), ("ends", 0), ("each", 0)], (0, 1), (1, S)):
        mask = None if mask is None else masks(PAST + length, length)[form]
        inputs = {"x": x[:, :length].copy(), "weights": weights, "bias": bias, "mask": mask, "past": past}
        here = {name: sizes for name, sizes in free.items() if name != "mask"} if form == "none" else {}
        yield case(f"attention_past_{form}_{causal}_{length}", "Attention", inputs, ("y", "present"), stored=STORED, free=here, num_heads=N, unidirectional=causal)


def multi_head() -> Iterator[Case]:
    """Gives cases of `MultiHeadAttention` without a past."""
    free = {"query": TOKENS, "key": ("batch", "keys", None), "value": ("batch", "keys", None), "padding": ("batch", "keys")}
    for dtype, wide, biased, causal in itertools.product(TYPES, (HIDDEN, 12), (True, False), (0, 1)):
        # Of a causal one, onnxruntime lets the last query see everything: that it has as many queries as keys is taken for granted.
        keys = S if causal else KEYS
        inputs = {
            "query": draw("query", B, S, HIDDEN, dtype=dtype),
            "key": draw("key", B, keys, HIDDEN, dtype=dtype),
            "value": draw("value", B, keys, wide, dtype=dtype),
            "bias": draw("bias", 2 * HIDDEN + wide, dtype=dtype) if biased else None,
        }
        yield case(f"heads_{kind(dtype)}_{wide}_{biased}_{causal}", "MultiHeadAttention", inputs, stored=STORED, free=free, num_heads=N, unidirectional=causal)
    inputs = {"query": draw("query", B, S, HIDDEN), "key": draw("key", B, KEYS, HIDDEN), "value": draw("value", B, KEYS, HIDDEN), "bias": None}
    forms = masks(KEYS, S)
    for form, causal, scores in itertools.product(("ends", "packed", "rows", "left", "each"), (0, 1), (True, False)):
        outputs = ("y", "", "", "qk") if scores else ("y",)
        here = free if form in ("rows", "left") else {}
        padding = masks(S, S)[form] if causal else forms[form]
        given = {name: array[:, :S].copy() for name, array in inputs.items() if array is not None} if causal else inputs
        # With the default, scores of queries that see nothing have lost their digits.
        common = {"num_heads": N, "unidirectional": causal, "mask_filter_value": -100.0}
        yield case(f"heads_mask_{form}_{causal}_{scores}", "MultiHeadAttention", given | {"bias": None, "padding": padding}, outputs, free=here, **common)
    yield case("heads_mask_default", "MultiHeadAttention", inputs | {"padding": forms["rows"]}, free=free, num_heads=N)
    hidden = {"padding": np.zeros((B, KEYS), np.int32)}
    yield case("heads_mask_hides_all", "MultiHeadAttention", inputs | hidden, num_heads=N, mask_filter_value=-100.0)
    for batch, heads, masked in itertools.product((1, B), (1, N), (True, False)):
        added = {"padding": forms["rows"] if masked else None, "added": draw("added", batch, heads, S, KEYS)}
        yield case(f"heads_added_{batch}_{heads}_{masked}", "MultiHeadAttention", inputs | added, num_heads=N, scale=0.4)
    yield case("heads_scale_0", "MultiHeadAttention", inputs, num_heads=N, scale=0.0)
    yield case("heads_present", "MultiHeadAttention", inputs, ("y", "present_key", "present_value"), free=free, num_heads=N)
    for biased, masked in itertools.product((True, False), (True, False)):
        cache = {
            "query": inputs["query"],
            "key": draw("key", B, N, KEYS, SIZE),
            "value": draw("value", B, N, KEYS, SIZE),
            "bias": draw("bias", 3 * HIDDEN) if biased else None,
            "padding": forms["rows"] if masked else None,
        }
        free = {"query": TOKENS, "key": ("batch", None, "keys"), "value": ("batch", None, "keys"), "padding": ("batch", "keys")}
        yield case(f"heads_cache_{biased}_{masked}", "MultiHeadAttention", cache, stored=STORED, free=free, num_heads=N)


def multi_head_past() -> Iterator[Case]:
    """Gives cases of `MultiHeadAttention` with a past."""
    cache = ("batch", None, "past", None)
    free = {"query": TOKENS, "key": TOKENS, "value": TOKENS, "past_key": cache, "past_value": cache}
    for length, biased, causal, form in itertools.product((1, S), (True, False), (0, 1), ("none", "rows", "left", "each", "ends")):
        inputs = {name: draw(name, B, length, HIDDEN) for name in ORDER[:3]}
        inputs["bias"] = draw("bias", 3 * HIDDEN) if biased else None
        inputs["padding"] = None if form == "none" else masks(PAST + length, length)[form]
        inputs["added"] = draw("added", 1, N, length, PAST + length) if biased else None
        inputs |= {name: draw(name, B, N, PAST, SIZE) for name in ORDER[6:]}
        here = free if form == "none" and not biased else {}
        outputs = ("y", "present_key", "present_value") + (("qk",) if causal and biased else ())
        yield case(f"heads_past_{length}_{biased}_{causal}_{form}", "MultiHeadAttention", inputs, outputs, stored=STORED, free=here, num_heads=N, unidirectional=causal)


def packed() -> Iterator[Case]:
    """Gives cases with keys and values in one tensor, beside nodes that mean the same."""
    flat = np.array([0, 0, -1])
    for parts in (3, 2):
        names = ["q", "k", "v"][3 - parts :]
        whole = draw("packed", B, S, N, parts, SIZE)
        inputs = {"query": whole} if parts == 3 else {"query": draw("query", B, S, HIDDEN), "key": whole}
        same = [helper.make_node("Split", ["query" if parts == 3 else "key"], [f"{name}5" for name in names], axis=3, num_outputs=parts)]
        same += [helper.make_node("Reshape", [f"{name}5", "flat"], [name]) for name in names]
        given = names if parts == 3 else ["query", *names]
        same += [helper.make_node("MultiHeadAttention", given, ["y"], domain="com.microsoft", num_heads=N)]
        free = {"query": ("batch", "sequence"), "key": ("batch", "sequence")}
        yield case(f"heads_packed_{parts}", "MultiHeadAttention", inputs, same=same, more={"flat": flat}, stored=("flat",), free=free, num_heads=N)
