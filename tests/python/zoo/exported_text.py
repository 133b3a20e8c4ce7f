"""Transformers in the exporters' styles with free batch and lengths: encoder and decoder as in Whisper and in T5, and a decoder as in
LLaMA with a cache, as two models of the same weights."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto

from zoo import runner, seeds
from zoo.exported import Dynamo, attend, causal_bias, gelu, heads, layer_norm, linear, positions, rms_norm, silu, sizes
from zoo.graph import GraphBuilder
from zoo.runner import write_with_outputs
from zoo.store import Arrays, Task, write_npz

WIDTH, HEADS, LAYERS, VOCABULARY = 64, 4, 2, 500
HEAD = WIDTH // HEADS
BANDS, FRAMES = 32, 64
BUCKETS, FAR = 16, 40
GROUPS, LONGEST, STEPS = 2, 128, 64
"""Heads of keys, positions, and words that are decoded."""
LEAST_LEAD = 1e-4
"""How far the best word is before the next one, so that rounding does not choose."""


def tasks() -> list[Task]:
    """Gives a task for each model, and one for the two models with a cache."""
    return [
        Task("exported/whisper_encoder", fill_whisper_encoder),
        Task("exported/whisper_decoder", fill_whisper_decoder),
        Task("exported/t5", fill_t5),
        Task("generation/llama", fill_llama),
    ]


def words(name: str, batch: int, length: int) -> np.ndarray:
    """Draws words."""
    return seeds.generator(name, f"{batch}x{length}").integers(0, VOCABULARY, (batch, length), np.int64)


def rows(name: str, *shape: int) -> np.ndarray:
    """Draws numbers."""
    return seeds.normal(seeds.generator(name, f"{shape}"), shape, 1.0)


def feed_forward(g: GraphBuilder, name: str, value: str) -> str:
    """Adds the two layers behind attention."""
    return linear(g, f"{name}.fc2", gelu(g, linear(g, f"{name}.fc1", value, WIDTH, 4 * WIDTH)), 4 * WIDTH, WIDTH)


def split(g: GraphBuilder, name: str, value: str, *, bias: bool = True, count: int = HEADS) -> str:
    """Adds a projection to heads."""
    return heads(g, linear(g, name, value, WIDTH, count * HEAD, bias=bias), count, HEAD)


def fill_whisper_encoder(folder: Path) -> None:
    """Writes convolutions over frames, of which the second halves their number, and layers of attention."""
    g = GraphBuilder("whisper_encoder")
    value = g.input("features", TensorProto.FLOAT, ("batch", BANDS, "frames"))
    for number, (before, stride) in enumerate(((BANDS, 1), (WIDTH, 2))):
        weight = g.random(f"conv{number}.weight", (WIDTH, before, 3), (2 / (before * 3)) ** 0.5)
        bias = g.random(f"conv{number}.bias", (WIDTH,), 0.1)
        value = gelu(g, g.op("Conv", value, weight, bias, kernel_shape=(3,), pads=(1, 1), strides=(stride,)))
    value = g.op("Transpose", value, perm=(0, 2, 1))
    length = g.as_vector(g.dimension(value, 1))
    table = g.random("positions.weight", (FRAMES, WIDTH), 0.5)
    value = g.op("Add", value, g.op("Slice", table, g.constant([0]), length, g.constant([0])))
    for layer in range(LAYERS):
        name = f"layers.{layer}"
        normal = layer_norm(g, f"{name}.norm", value, WIDTH)
        query, key, content = (split(g, f"{name}.{part}", normal) for part in ("q", "k", "v"))
        mixed = attend(g, query, key, content, None, HEAD**-0.5)
        value = g.op("Add", value, linear(g, f"{name}.out", mixed, WIDTH, WIDTH))
        value = g.op("Add", value, feed_forward(g, name, layer_norm(g, f"{name}.final", value, WIDTH)))
    g.output(layer_norm(g, "norm", value, WIDTH), "states", ("batch", "length", WIDTH))
    (_, first), *others = ((f"_{batch}x{frames}", {"features": rows("frames", batch, BANDS, frames)}) for batch, frames in ((1, 20), (2, 33), (1, 128)))
    write_with_outputs(folder, g.model(), ("", first), *others)


def fill_whisper_decoder(folder: Path) -> None:
    """Writes layers that see the words so far, of which a cache holds keys and values, and the encoder's states."""
    g = GraphBuilder("whisper_decoder")
    tokens = g.input("tokens", TensorProto.INT64, ("batch", "length"))
    states = g.input("states", TensorProto.FLOAT, ("batch", "frames", WIDTH))
    shape = ("batch", HEADS, "past", HEAD)
    past = [g.input(f"past.{layer}.{part}", TensorProto.FLOAT, shape) for layer in range(LAYERS) for part in ("key", "value")]
    table = g.random("words.weight", (VOCABULARY, WIDTH), 0.5)
    start = g.dimension(past[0], 2)
    queries = positions(g, g.dimension(tokens, 1), start)
    bias = causal_bias(g, queries, positions(g, g.op("Add", start, g.dimension(tokens, 1))))
    places = g.op("Gather", g.random("positions.weight", (LONGEST, WIDTH), 0.5), queries)
    value = g.op("Add", g.op("Gather", table, tokens), places)
    present = []
    for layer in range(LAYERS):
        name = f"layers.{layer}"
        normal = layer_norm(g, f"{name}.self_norm", value, WIDTH)
        both = [g.op("Concat", past[2 * layer + part], split(g, f"{name}.{'kv'[part]}", normal), axis=2) for part in (0, 1)]
        present += both
        mixed = attend(g, split(g, f"{name}.q", normal), *both, bias, HEAD**-0.5)
        value = g.op("Add", value, linear(g, f"{name}.out", mixed, WIDTH, WIDTH))
        normal = layer_norm(g, f"{name}.cross_norm", value, WIDTH)
        key, content = (split(g, f"{name}.cross.{part}", states) for part in "kv")
        mixed = attend(g, split(g, f"{name}.cross.q", normal), key, content, None, HEAD**-0.5)
        value = g.op("Add", value, linear(g, f"{name}.cross.out", mixed, WIDTH, WIDTH))
        value = g.op("Add", value, feed_forward(g, name, layer_norm(g, f"{name}.final", value, WIDTH)))
    logits = g.op("MatMul", layer_norm(g, "norm", value, WIDTH), g.op("Transpose", table, perm=(1, 0)))
    g.output(logits, "logits", ("batch", "length", VOCABULARY))
    for number, side in enumerate(present):
        g.output(side, f"present.{number}", ("batch", HEADS, "all", HEAD))

    def given(batch: int, length: int, before: int, frames: int) -> Arrays:
        cache = {name: rows(name, batch, HEADS, before, HEAD) for name in past}
        return {"tokens": words(g.name, batch, length), "states": rows("states", batch, frames, WIDTH)} | cache

    sets = {"_first": (2, 4, 0, 10), "_next": (2, 1, 5, 10), "_long": (1, 1, 90, 64)}
    (_, first), *others = ((suffix, given(*size)) for suffix, size in sets.items())
    write_with_outputs(folder, g.model(), ("", first), *others)


def fill_t5(folder: Path) -> None:
    """Writes encoder and decoder; what the distance of two places adds to their score is looked up in buckets that grow with it."""
    g = Dynamo("t5")
    source, target = (g.input(name, TensorProto.INT64, ("batch", f"{name}_length")) for name in ("source", "target"))
    table = g.random("shared.weight", (VOCABULARY, WIDTH), 1.0)
    encoded = stack(g, "encoder", g.op("Gather", table, source), source, None)
    decoded = stack(g, "decoder", g.op("Gather", table, target), target, encoded)
    scaled = g.op("Mul", decoded, g.constant(WIDTH**-0.5))
    g.output(g.op("MatMul", scaled, g.op("Transpose", table, perm=(1, 0))), "logits", ("batch", "target_length", VOCABULARY))
    g.output(encoded, "states", ("batch", "source_length", WIDTH))
    (_, first), *others = (
        (f"_{batch}x{before}x{after}", {"source": words("source", batch, before), "target": words("target", batch, after)})
        for batch, before, after in ((1, 9, 4), (2, 31, 7), (1, 60, 50))
    )
    write_with_outputs(folder, g.model(), ("", first), *others)


def stack(g: GraphBuilder, name: str, value: str, tokens: str, encoded: str | None) -> str:
    """Adds the layers of the encoder, or those of the decoder, which also see what was encoded."""
    places = positions(g, g.dimension(tokens, 1))
    bias = relative_bias(g, name, places, both_ways=encoded is None)
    if encoded is not None:
        bias = g.op("Add", bias, causal_bias(g, places, places))
    for number in range(LAYERS):
        layer = f"{name}.block.{number}"
        normal = rms_norm(g, f"{layer}.0.norm", value, WIDTH)
        query, key, content = (split(g, f"{layer}.0.{part}", normal, bias=False) for part in "qkv")
        value = g.op("Add", value, linear(g, f"{layer}.0.o", attend(g, query, key, content, bias, 1), WIDTH, WIDTH, bias=False))
        if encoded is not None:
            query = split(g, f"{layer}.1.q", rms_norm(g, f"{layer}.1.norm", value, WIDTH), bias=False)
            key, content = (split(g, f"{layer}.1.{part}", encoded, bias=False) for part in "kv")
            value = g.op("Add", value, linear(g, f"{layer}.1.o", attend(g, query, key, content, None, 1), WIDTH, WIDTH, bias=False))
        wide = g.op("Relu", linear(g, f"{layer}.2.wi", rms_norm(g, f"{layer}.2.norm", value, WIDTH), WIDTH, 4 * WIDTH, bias=False))
        value = g.op("Add", value, linear(g, f"{layer}.2.wo", wide, 4 * WIDTH, WIDTH, bias=False))
    return rms_norm(g, f"{name}.norm", value, WIDTH)


def relative_bias(g: GraphBuilder, name: str, places: str, *, both_ways: bool) -> str:
    """Looks up what each distance adds: half of the buckets are of one distance each, the others grow by its logarithm."""
    distance = g.op("Sub", g.op("Unsqueeze", places, g.constant([0])), g.op("Unsqueeze", places, g.constant([1])))
    count, side = BUCKETS, None
    if both_ways:
        count //= 2
        ahead = g.op("Cast", g.op("Greater", distance, g.constant(np.asarray(0))), to=TensorProto.INT64)
        side, distance = g.op("Mul", ahead, g.constant(np.asarray(count))), g.op("Abs", distance)
    else:
        distance = g.op("Neg", g.op("Min", distance, g.constant(np.asarray(0))))
    exact = count // 2
    is_near = g.op("Less", distance, g.constant(np.asarray(exact)))
    ratio = g.op("Log", g.op("Div", g.op("Cast", distance, to=TensorProto.FLOAT), g.constant(float(exact))))
    # Just beside the borders of buckets, so that the rounding of a logarithm does not choose.
    grown = g.op("Mul", ratio, g.constant(float((count - exact) / np.log(FAR / exact) * 1.0003)))
    bucket = g.op("Add", g.op("Cast", g.op("Max", grown, g.constant(0.0)), to=TensorProto.INT64), g.constant(np.asarray(exact)))
    bucket = g.op("Where", is_near, distance, g.op("Min", bucket, g.constant(np.asarray(count - 1))))
    if side is not None:
        bucket = g.op("Add", bucket, side)
    found = g.op("Gather", g.random(f"{name}.relative_bias.weight", (BUCKETS, HEADS), 1.0), bucket)
    return g.op("Unsqueeze", g.op("Transpose", found, perm=(2, 0, 1)), g.constant([0]))


def fill_llama(folder: Path) -> None:
    """Writes `prefill.onnx`, which has no cache to read, and `decode.onnx` with the same weights; prompts, and the words that onnxruntime
    decodes, each the best by far enough that rounding does not choose."""
    for name, cached in (("prefill", False), ("decode", True)):
        onnx.save(llama(cached=cached), folder / f"{name}.onnx")
        onnx.checker.check_model(folder / f"{name}.onnx", full_check=True)
    prefill, decode = (runner.open_session(folder / f"{name}.onnx") for name in ("prefill", "decode"))
    for batch, length in ((1, 7), (3, 20)):
        prompt = words("llama", batch, length)
        logits, *cache = prefill.run(None, {"tokens": prompt, "places": np.arange(length)})
        chosen = [best(logits)]
        for step in range(1, STEPS):
            given = {"tokens": chosen[-1], "places": np.asarray([length + step - 1])}
            given |= dict(zip((f"past.{number}" for number in range(len(cache))), cache, strict=True))
            logits, *cache = decode.run(None, given)
            chosen.append(best(logits))
        write_npz(folder / f"batch_{batch}.npz", {"prompt": prompt, "chosen": np.concatenate(chosen, axis=1), "logits": logits})


def best(logits: np.ndarray) -> np.ndarray:
    """Gives the best word behind the last place."""
    ranked = np.sort(logits[:, -1], axis=-1)
    if (ranked[:, -1] - ranked[:, -2]).min() < LEAST_LEAD:
        raise ValueError("two words are as good")
    return logits[:, -1:].argmax(axis=-1)


def llama(*, cached: bool) -> onnx.ModelProto:
    """Gives one of the two models: they differ in the cache that is read, and that the other has many places in a run."""
    g = Dynamo("llama")
    tokens = g.input("tokens", TensorProto.INT64, ("batch", 1 if cached else "length"))
    places = g.input("places", TensorProto.INT64, (1 if cached else "length",))
    shape = ("batch", GROUPS, "past", HEAD)
    past = [g.input(f"past.{number}", TensorProto.FLOAT, shape) for number in range(2 * LAYERS if cached else 0)]
    bias = None if cached else causal_bias(g, places, places)
    angles = np.arange(LONGEST)[:, None] / 10000 ** (np.arange(HEAD // 2) / (HEAD // 2))
    turns = [
        g.op("Gather", g.stored(f"rotary.{part.__name__}", np.tile(part(angles), 2).astype(np.float32)), places)
        for part in (np.cos, np.sin)
    ]
    table = g.random("model.embed_tokens.weight", (VOCABULARY, WIDTH), 1.0)
    value = g.op("Gather", table, tokens)
    present = []
    for layer in range(LAYERS):
        name = f"model.layers.{layer}"
        normal = rms_norm(g, f"{name}.input_norm", value, WIDTH)
        query, key, content = (
            split(g, f"{name}.{part}_proj", normal, bias=False, count=count) for part, count in (("q", HEADS), ("k", GROUPS), ("v", GROUPS))
        )
        query, both = turned(g, query, turns), [turned(g, key, turns), content]
        if cached:
            both = [g.op("Concat", past[2 * layer + part], new, axis=2) for part, new in enumerate(both)]
        present += both
        mixed = attend(g, query, *(repeated(g, side) for side in both), bias, HEAD**-0.5)
        value = g.op("Add", value, linear(g, f"{name}.o_proj", mixed, WIDTH, WIDTH, bias=False))
        normal = rms_norm(g, f"{name}.post_norm", value, WIDTH)
        gate, up = (linear(g, f"{name}.{part}_proj", normal, WIDTH, 3 * WIDTH, bias=False) for part in ("gate", "up"))
        value = g.op("Add", value, linear(g, f"{name}.down_proj", g.op("Mul", silu(g, gate), up), 3 * WIDTH, WIDTH, bias=False))
    logits = linear(g, "lm_head", rms_norm(g, "model.norm", value, WIDTH), WIDTH, VOCABULARY, bias=False)
    g.output(logits, "logits", ("batch", "queries", VOCABULARY))
    for number, side in enumerate(present):
        g.output(side, f"present.{number}", ("batch", GROUPS, "all", HEAD))
    return g.model()


def turned(g: GraphBuilder, value: str, turns: list[str]) -> str:
    """Turns pairs of a head's numbers by the angles of their places."""
    first, second = g.op_many("Split", 2, value, axis=-1, num_outputs=2)
    other = g.op("Concat", g.op("Neg", second), first, axis=-1)
    cosine, sine = turns
    return g.op("Add", g.op("Mul", value, cosine), g.op("Mul", other, sine))


def repeated(g: GraphBuilder, value: str) -> str:
    """Gives each head of keys to as many heads of queries."""
    wide = g.op("Expand", g.op("Unsqueeze", value, g.constant([2])), sizes(g, value, "0", GROUPS, HEADS // GROUPS, "2", HEAD))
    return g.op("Reshape", wide, sizes(g, value, "0", HEADS, "2", HEAD))
