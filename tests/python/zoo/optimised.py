"""Whole models as onnxruntime's tools leave them: a language model of its builder, and a BERT of its optimiser."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from zoo import runner, seeds
from zoo.store import Arrays, Task, write_case, write_npz

DECODER, ENCODER = "decoder", "encoder"
LAYERS, HIDDEN, WIDE, WORDS = 2, 64, 96, 200
HEADS, KEY_HEADS, SIZE = 4, 2, 16
PLACES, BLOCK = 48, 32
STEPS = 8
PROMPTS = ((1, 6), (2, 5))
"""Samples and tokens of the prompts."""
MICROSOFT = "com.microsoft"


def tasks() -> list[Task]:
    """Gives a task for each model."""
    return [Task(f"optimised/{DECODER}", fill_decoder), Task(f"optimised/{ENCODER}", fill_encoder)]


class Graph:
    """A graph that grows, with constants that are drawn by their names."""

    def __init__(self, name: str) -> None:
        """Starts an empty graph."""
        self.name = name
        self.nodes: list[onnx.NodeProto] = []
        self.stored: dict[str, np.ndarray] = {}

    def constant(self, name: str, values: np.ndarray) -> str:
        """Stores a constant."""
        self.stored[name] = values
        return name

    def weight(self, name: str, *shape: int, deviation: float | None = None) -> str:
        """Stores random numbers, which keep the scale of what is multiplied by them."""
        return self.constant(name, seeds.normal(seeds.generator(self.name, name), shape, deviation or shape[0] ** -0.5))

    def near_one(self, name: str) -> str:
        """Stores the scale of a normalisation."""
        return self.constant(name, seeds.uniform(seeds.generator(self.name, name), (HIDDEN,), 0.7, 1.3))

    def node(self, op: str, inputs: list[str], outputs: list[str], domain: str = MICROSOFT, **attributes: object) -> str:
        """Adds a node and gives its first output."""
        self.nodes.append(helper.make_node(op, inputs, outputs, name=f"/{outputs[0]}", domain=domain, **attributes))
        return outputs[0]

    def model(self, inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto], opset: int) -> onnx.ModelProto:
        """Gives the model."""
        tensors = [numpy_helper.from_array(values, name) for name, values in self.stored.items()]
        graph = helper.make_graph(self.nodes, self.name, inputs, outputs, tensors)
        sets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=sets, ir_version=9)


def fill_decoder(folder: Path) -> None:
    """Writes the decoder, and for each prompt the tokens that onnxruntime draws from it, and the last logits."""
    model = decoder()
    for samples, tokens in PROMPTS:
        words = seeds.generator(DECODER, f"prompt {samples}").integers(0, WORDS, (samples, tokens), np.int64)
        suffix = "" if samples == 1 else f"_{samples}"
        inputs = first_inputs(words)
        if not suffix:
            write_case(folder, model, inputs)
        write_npz(folder / f"inputs{suffix}.npz", inputs)
        write_npz(folder / f"outputs{suffix}.npz", generated(folder / "model.onnx", inputs))


def first_inputs(words: np.ndarray) -> Arrays:
    """Gives the inputs for a prompt, with an empty past."""
    empty = np.zeros((len(words), KEY_HEADS, 0, SIZE), np.float32)
    past = {f"past_key_values.{layer}.{what}": empty for layer in range(LAYERS) for what in ("key", "value")}
    return {"input_ids": words, "attention_mask": np.ones_like(words)} | past


def generated(path: Path, inputs: Arrays) -> Arrays:
    """Gives the most likely tokens one after the other, and the logits behind the last one."""
    session = runner.open_session(path)
    names = [output.name for output in session.get_outputs()]
    feed, drawn = dict(inputs), []
    for _ in range(STEPS):
        outputs = dict(zip(names, session.run(names, feed), strict=True))
        drawn.append(outputs["logits"][:, -1:].argmax(-1))
        mask = feed["attention_mask"]
        feed = {"input_ids": drawn[-1], "attention_mask": np.concatenate([mask, mask[:, :1]], 1)}
        feed |= {name.replace("present", "past_key_values"): outputs[name] for name in names if name.startswith("present")}
    return {"tokens": np.concatenate(drawn, 1), "logits": outputs["logits"], "present.0.key": outputs["present.0.key"]}


def decoder() -> onnx.ModelProto:
    """Gives the language model: weights of 4 bits, queries that share keys, and a cache."""
    g = Graph(DECODER)
    words, mask = ("input_ids", "attention_mask")
    counts = g.node("ReduceSum", [mask, g.constant("one_axis", np.array([1]))], ["counts"], "", keepdims=0)
    g.node("Sub", [counts, g.constant("one", np.array([1]))], ["before_last"], "")
    last = g.node("Cast", ["before_last"], ["seqlens_k"], "", to=TensorProto.INT32)
    g.node("Shape", [mask], ["mask_shape"], "")
    g.node("Gather", ["mask_shape", g.constant("index", np.array(1))], ["total"], "", axis=0)
    longest = g.node("Cast", ["total"], ["total_sequence_length"], "", to=TensorProto.INT32)
    angles = np.arange(PLACES)[:, None] / 10000 ** (np.arange(0, SIZE, 2) / SIZE)
    caches = [g.constant("cos_cache", np.cos(angles).astype(np.float32)), g.constant("sin_cache", np.sin(angles).astype(np.float32))]
    residual = g.node("Gather", [g.weight("embed_tokens", WORDS, HIDDEN, deviation=1.0), words], ["embedded"], "")
    common = {"epsilon": 1e-5, "axis": -1, "stash_type": 1}
    value = g.node("SimplifiedLayerNormalization", [residual, g.near_one("norm.0")], ["normal"], "", **common)
    for layer in range(LAYERS):
        value, residual = decoder_layer(g, layer, value, residual, [last, longest, *caches])
    product(g, "lm_head", value, HIDDEN, WORDS, "logits")
    cache = ["batch_size", KEY_HEADS, "past_sequence_length", SIZE]
    present = ["batch_size", KEY_HEADS, "total_sequence_length", SIZE]
    places = [f"{layer}.{what}" for layer in range(LAYERS) for what in ("key", "value")]
    inputs = [
        helper.make_tensor_value_info(words, TensorProto.INT64, ["batch_size", "sequence_length"]),
        helper.make_tensor_value_info(mask, TensorProto.INT64, ["batch_size", "total_sequence_length"]),
        *(helper.make_tensor_value_info(f"past_key_values.{place}", TensorProto.FLOAT, cache) for place in places),
    ]
    outputs = [
        helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch_size", "sequence_length", WORDS]),
        *(helper.make_tensor_value_info(f"present.{place}", TensorProto.FLOAT, present) for place in places),
    ]
    return g.model(inputs, outputs, 14)


def product(g: Graph, name: str, x: str, fan_in: int, fan_out: int, output: str) -> str:
    """Adds a product with weights of 4 bits."""
    rng = seeds.generator(DECODER, name)
    blocks = -(-fan_in // BLOCK)
    packed = g.constant(f"{name}.weight", rng.integers(0, 256, (fan_out, blocks, BLOCK // 2), np.uint8))
    scales = rng.uniform(0.5, 1.5, fan_out * blocks) / (4.6 * np.sqrt(fan_in))
    inputs = [x, packed, g.constant(f"{name}.scales", scales.astype(np.float32))]
    return g.node("MatMulNBits", inputs, [output], K=fan_in, N=fan_out, bits=4, block_size=BLOCK, accuracy_level=0)


def decoder_layer(g: Graph, layer: int, x: str, residual: str, rest: list[str]) -> tuple[str, str]:
    """Adds a layer; gives what the next one reads and what it adds to."""
    name = f"layers.{layer}"
    joined = product(g, f"{name}.qkv", x, HIDDEN, (HEADS + 2 * KEY_HEADS) * SIZE, f"{name}.joined")
    past = [f"past_key_values.{layer}.{what}" for what in ("key", "value")]
    present = [f"present.{layer}.{what}" for what in ("key", "value")]
    settings = {"num_heads": HEADS, "kv_num_heads": KEY_HEADS, "scale": SIZE**-0.5, "do_rotary": 1, "rotary_interleaved": 0}
    settings |= {"local_window_size": -1, "softcap": 0.0}
    attended = g.node("GroupQueryAttention", [joined, "", "", *past, *rest, "", ""], [f"{name}.attended", *present], **settings)
    projected = product(g, f"{name}.o", attended, HIDDEN, HIDDEN, f"{name}.projected")
    outputs = [f"{name}.normal", "", "", f"{name}.sum"]
    value = g.node("SkipSimplifiedLayerNormalization", [residual, projected, g.near_one(f"{name}.norm")], outputs, epsilon=1e-5)
    gate = product(g, f"{name}.gate", value, HIDDEN, WIDE, f"{name}.gated")
    up = product(g, f"{name}.up", value, HIDDEN, WIDE, f"{name}.raised")
    g.node("Sigmoid", [gate], [f"{name}.sigmoid"], "")
    g.node("Mul", [gate, f"{name}.sigmoid"], [f"{name}.silu"], "")
    g.node("Mul", [f"{name}.silu", up], [f"{name}.wide"], "")
    down = product(g, f"{name}.down", f"{name}.wide", WIDE, HIDDEN, f"{name}.lowered")
    outputs = [f"{name}.next", "", "", f"{name}.next_sum"]
    value = g.node("SkipSimplifiedLayerNormalization", [f"{name}.sum", down, g.near_one(f"{name}.next_norm")], outputs, epsilon=1e-5)
    return value, f"{name}.next_sum"


def fill_encoder(folder: Path) -> None:
    """Writes the encoder, with inputs of two sizes and onnxruntime's outputs."""
    model = encoder()
    onnx.save(model, folder / "model.onnx")
    session = runner.open_session(folder / "model.onnx")
    for suffix, samples, tokens in (("", 2, 7), ("_3x4", 3, 4)):
        rng = seeds.generator(ENCODER, f"{samples}x{tokens}")
        lengths = rng.integers(2, tokens + 1, samples)
        inputs = {
            "input_ids": rng.integers(0, WORDS, (samples, tokens)).astype(np.int32),
            "token_type_ids": rng.integers(0, 2, (samples, tokens)).astype(np.int32),
            "attention_mask": (np.arange(tokens) < lengths[:, None]).astype(np.int32),
        }
        write_npz(folder / f"inputs{suffix}.npz", inputs)
        write_npz(folder / f"outputs{suffix}.npz", runner.run(session, inputs))


def encoder() -> onnx.ModelProto:
    """Gives the BERT: the first layer with one product for queries, keys and values, the others with three."""
    g = Graph(ENCODER)
    tables = [g.weight(name, rows, HIDDEN, deviation=1.0) for name, rows in (("words", WORDS), ("positions", PLACES), ("segments", 2))]
    inputs = ["input_ids", "token_type_ids", *tables, g.near_one("norm.scale"), g.weight("norm.bias", HIDDEN), "attention_mask"]
    value = g.node("EmbedLayerNormalization", inputs, ["embedded", "mask_index"], epsilon=1e-12)
    for layer in range(LAYERS):
        name = f"layer.{layer}"
        if layer == 0:
            joined = [g.weight(f"{name}.qkv", HIDDEN, 3 * HIDDEN), g.weight(f"{name}.qkv_bias", 3 * HIDDEN)]
            attended = g.node("Attention", [value, *joined, "mask_index"], [f"{name}.attended"], num_heads=HEADS)
        else:
            parts = [g.node("MatMul", [value, g.weight(f"{name}.{part}", HIDDEN, HIDDEN)], [f"{name}.{part}_out"], "") for part in ("q", "k", "v")]
            inputs = [*parts, g.weight(f"{name}.qkv_bias", 3 * HIDDEN), "attention_mask"]
            attended = g.node("MultiHeadAttention", inputs, [f"{name}.attended"], num_heads=HEADS)
        projected = g.node("MatMul", [attended, g.weight(f"{name}.o", HIDDEN, HIDDEN)], [f"{name}.projected"], "")
        value = skipped(g, f"{name}.first", projected, value)
        wide = g.node("MatMul", [value, g.weight(f"{name}.wide", HIDDEN, WIDE)], [f"{name}.widened"], "")
        activation = "BiasGelu" if layer == 0 else "FastGelu"
        active = g.node(activation, [wide, g.weight(f"{name}.wide_bias", WIDE)], [f"{name}.active"])
        lowered = g.node("MatMul", [active, g.weight(f"{name}.narrow", WIDE, HIDDEN)], [f"{name}.lowered"], "")
        value = skipped(g, f"{name}.second", lowered, value)
    g.node("Identity", [value], ["last_hidden_state"], "")
    sizes = ["batch_size", "sequence_length"]
    given = [helper.make_tensor_value_info(name, TensorProto.INT32, sizes) for name in ("input_ids", "token_type_ids", "attention_mask")]
    return g.model(given, [helper.make_tensor_value_info("last_hidden_state", TensorProto.FLOAT, [*sizes, HIDDEN])], 11)


def skipped(g: Graph, name: str, x: str, residual: str) -> str:
    """Adds the normalised sum of a value, what it was made of, and a bias."""
    vectors = [g.near_one(f"{name}.scale"), g.weight(f"{name}.shift", HIDDEN), g.weight(f"{name}.bias", HIDDEN)]
    return g.node("SkipLayerNormalization", [x, residual, *vectors], [f"{name}.normal"], epsilon=1e-12)
