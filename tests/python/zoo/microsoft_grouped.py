"""Cases of `GroupQueryAttention`."""

import itertools
from collections.abc import Iterator

import numpy as np
import onnx
from onnx import helper

from zoo.microsoft import TYPES, Case, S, case, draw, kind

SIZE = 16
"""The size of a head; onnxruntime's kernel turns multiples of 16."""
CACHES = ("cos", "sin")
CACHE = ("batch", None, "past", None)
FREE = {"query": ("batch", "sequence"), "key": ("batch", "sequence"), "value": ("batch", "sequence"), "past_key": CACHE, "past_value": CACHE, "last": ("batch",)}
OUTPUTS = ("y", "present_key", "present_value")


def cases() -> Iterator[Case]:
    """Gives all of them."""
    yield from prompts()
    yield from steps()
    yield from settings()
    yield from normalised()


def inputs(
    length: int, past: int | None, totals: list[int], heads: tuple[int, int], *, packed: bool = False, dtype: type = np.float32, total: int | None = None, size: int = SIZE
) -> dict[str, np.ndarray | None]:
    """Gives the inputs up to the caches of rotary embedding, for samples with so many keys when the new ones are among them."""
    (queries, keys), batch = heads, len(totals)
    if packed:
        new = {"query": draw("query", batch, length, (queries + 2 * keys) * size, dtype=dtype), "key": None, "value": None}
    else:
        new = {name: draw(name, batch, length, count * size, dtype=dtype) for name, count in (("query", queries), ("key", keys), ("value", keys))}
    for name in ("past_key", "past_value"):
        new[name] = None if past is None else draw(name, batch, keys, past, size, dtype=dtype)
    new["last"] = np.array(totals, np.int32) - 1
    new["longest"] = np.array(total or max(totals), np.int32)
    return new | {name: draw(name, 32, SIZE // 2, dtype=dtype) for name in CACHES}


def grouped(name: str, given: dict[str, np.ndarray | None], heads: tuple[int, int], *, rotary: bool = True, free: bool = False, outputs: tuple[str, ...] = OUTPUTS, **attributes: object) -> Case:
    """Gives a case. Rows of the result that are padding are not compared: they depend on what onnxruntime finds in memory."""
    given = dict(given)
    if not rotary:
        given |= dict.fromkeys(CACHES)
    length, totals = given["query"].shape[1], given["last"] + 1
    seen = (np.arange(length) < totals[:, None])[..., None]
    padded = not seen.all() and length > 1
    node_outputs = tuple("rows" if padded and output == "y" else output for output in outputs)
    after: list[onnx.NodeProto] = [helper.make_node("Where", ["seen", "rows", "nought"], ["y"])] if padded else []
    more = {"seen": seen, "nought": np.array(0, given["query"].dtype)} if padded else {}
    # The total is a constant unless sizes are free, where the mask of the model tells it.
    stored = (*CACHES, "nought", "sink") if free else (*CACHES, "nought", "sink", "longest")
    return case(
        f"grouped_{name}", "GroupQueryAttention", given, node_outputs, stored=stored, free=FREE if free else None, after=after, more=more,
        num_heads=heads[0], kv_num_heads=heads[1], do_rotary=int(rotary), **attributes,
    )


def prompts() -> Iterator[Case]:
    """Gives cases of first tokens."""
    for heads, rotary, packed, past in itertools.product(((4, 2), (2, 2), (3, 1)), (True, False), (True, False), (None, 0, 9)):
        for totals in ([S, S], [S - 2, S]):
            name = f"prompt_{heads[0]}_{heads[1]}_{rotary}_{packed}_{past}_{totals[0]}"
            yield grouped(name, inputs(S, past, totals, heads, packed=packed), heads, rotary=rotary, free=past is None)
    for dtype, interleaved in itertools.product(TYPES, (0, 1)):
        yield grouped(f"prompt_{kind(dtype)}_{interleaved}", inputs(S, 0, [S, S], (4, 2), dtype=dtype), (4, 2), rotary_interleaved=interleaved)
        yield grouped(f"prompt_part_{kind(dtype)}_{interleaved}", inputs(S, 0, [S, S], (4, 2), dtype=dtype, size=2 * SIZE), (4, 2), rotary_interleaved=interleaved)


def steps() -> Iterator[Case]:
    """Gives cases of later tokens."""
    for heads, packed, (past, totals, total) in itertools.product(((4, 2), (2, 1)), (True, False), ((4, [5, 5], 5), (4, [3, 5], 5), (9, [5, 5], 5), (9, [4, 7], 7), (9, [9, 10], 10))):
        name = f"step_{heads[0]}_{heads[1]}_{packed}_{past}_{totals[0]}_{total}"
        yield grouped(name, inputs(1, past, totals, heads, packed=packed, total=total), heads)
    for past, total in ((4, 4 + S), (12, 4 + S)):
        yield grouped(f"chunk_{past}", inputs(S, past, [total], (4, 2)), (4, 2))
        yield grouped(f"chunk_packed_{past}", inputs(S, past, [total], (4, 2), packed=True), (4, 2), rotary=False)
    shared = inputs(S, 6, [6], (2, 1))
    shared |= {name: shared[name][:, :0].copy() for name in ("key", "value")}
    yield grouped("shared_keys", shared, (2, 1), rotary=False)


def settings() -> Iterator[Case]:
    """Gives cases of windows, soft caps, sinks, biases and scores, for a prompt and for a step."""
    for label, length, past, totals in (("prompt", S, 0, [S, S]), ("step", 1, 7, [6, 8]), ("room", 1, 9, [4, 7])):
        common = inputs(length, past, totals, (4, 2))
        total = max(totals)
        for window in (1, 3, 40):
            yield grouped(f"window_{label}_{window}", common, (4, 2), local_window_size=window)
        yield grouped(f"cap_{label}", common, (4, 2), softcap=1.5, scale=0.4)
        yield grouped(f"smooth_{label}", common, (4, 2), smooth_softmax=1, softcap=2.0)
        places = (np.arange(length) + np.array(totals)[:, None] - length).astype(np.int64)
        rest = {"positions": None, "added": None, "sink": draw("sink", 4)}
        yield grouped(f"sink_{label}", common | rest, (4, 2), local_window_size=4)
        yield grouped(f"positions_{label}", common | {"positions": places + 3}, (4, 2))
        for batch, heads in itertools.product((1, 2), (1, 4)):
            added = {"positions": None, "added": draw("added", batch, heads, length, total)}
            yield grouped(f"added_{label}_{batch}_{heads}", common | added, (4, 2), softcap=3.0)
            yield grouped(f"added_sink_{label}_{batch}_{heads}", common | added | {"sink": draw("sink", 4)}, (4, 2), smooth_softmax=1)
        if label == "prompt":
            yield grouped("all_seen", common, (4, 2), causal=0)
            for mode, cap in itertools.product((1, 2), (0.0, 2.0)):
                yield grouped(f"scores_{mode}_{cap}", common, (4, 2), outputs=(*OUTPUTS, "scores"), qk_output=mode, softcap=cap)
                added = {"positions": None, "added": draw("added", 1, 1, length, total)}
                yield grouped(f"scores_added_{mode}_{cap}", common | added, (4, 2), outputs=(*OUTPUTS, "scores"), qk_output=mode, softcap=cap)


def normalised() -> Iterator[Case]:
    """Gives cases with a norm of each head, beside nodes that mean the same."""
    heads = (4, 2)
    given = inputs(S, 0, [S, S], heads)
    norms = dict.fromkeys(("positions", "added", "sink", "k_scale", "v_scale")) | {"q_norm": draw("q_norm", SIZE), "k_norm": draw("k_norm", SIZE)}
    more = {"apart": np.array([0, 0, -1, SIZE]), "flat": np.array([0, 0, -1])}
    same = []
    for name, weight in (("query", "q_norm"), ("key", "k_norm")):
        same += [
            helper.make_node("Reshape", [name, "apart"], [f"{name}_apart"]),
            helper.make_node("SimplifiedLayerNormalization", [f"{name}_apart", weight], [f"{name}_normal"], epsilon=1e-5, axis=-1),
            helper.make_node("Reshape", [f"{name}_normal", "flat"], [f"{name}_flat"]),
        ]
    attributes = {"num_heads": heads[0], "kv_num_heads": heads[1], "do_rotary": 1}
    order = ["query_flat", "key_flat", "value", "past_key", "past_value", "last", "longest", *CACHES]
    same += [helper.make_node("GroupQueryAttention", order, OUTPUTS, domain="com.microsoft", **attributes)]
    yield case("grouped_normalised", "GroupQueryAttention", given | norms, OUTPUTS, same=same, more=more, stored=(*CACHES, "apart", "flat", "longest", "q_norm", "k_norm"), qk_norm_epsilon=1e-5, **attributes)
