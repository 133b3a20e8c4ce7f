"""Networks with weights of 4 bits: as onnxruntime's `MatMulNBits` has them, and dequantised in blocks as ONNX has them."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from zoo import runner, seeds
from zoo.store import Task, write_case

NAME = "mlp_4_bits"
BLOCKS_NAME = "mlp_blocks"
BATCH, WIDTH, BLOCK = 3, 1024, 32
BLOCKS = WIDTH // BLOCK


def tasks() -> list[Task]:
    """Gives the two tasks of this module."""
    return [Task(f"quantised/{NAME}", fill), Task(f"quantised/{BLOCKS_NAME}", fill_blocks)]


def fill(folder: Path) -> None:
    """Writes the model, an input and onnxruntime's output."""
    tensors: list[onnx.TensorProto] = []
    attributes = {"K": WIDTH, "N": WIDTH, "bits": 4, "block_size": BLOCK}
    nodes = []
    for layer, (source, target) in enumerate((("x", "hidden"), ("active", "y"))):
        rng = seeds.generator(NAME, f"layer.{layer}")
        names = [f"{part}.{layer}" for part in ("weight", "scales", "zero_points")]
        arrays = [
            rng.integers(0, 256, (WIDTH, BLOCKS, BLOCK // 2), np.uint8),
            (rng.uniform(0.5, 1.5, WIDTH * BLOCKS) / (4.6 * np.sqrt(WIDTH))).astype(np.float32),
            rng.integers(0, 256, WIDTH * BLOCKS // 2, np.uint8),
        ]
        # The zero points of the second layer are left out: all are 8.
        pairs = list(zip(names, arrays, strict=True))[: 3 - layer]
        tensors += [numpy_helper.from_array(array, name) for name, array in pairs]
        inputs = [source, *(name for name, _ in pairs)]
        nodes.append(helper.make_node("MatMulNBits", inputs, [target], domain="com.microsoft", **attributes))
    nodes.insert(1, helper.make_node("Relu", ["hidden"], ["active"]))
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", WIDTH]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, NAME, ports[:1], ports[1:], tensors)
    sets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=8)
    inputs = {"x": seeds.normal(seeds.generator(NAME, "x"), (BATCH, WIDTH), 1.0)}
    write_case(folder, model, inputs)
    outputs = runner.run(runner.open_session(folder / "model.onnx"), inputs)
    write_case(folder, model, inputs, outputs)


def fill_blocks(folder: Path) -> None:
    """Writes a model of `DequantizeLinear` and products, an input and onnxruntime's output.

    Weights: of i4 in blocks without zero points, of u4 in blocks with them, of a float of 8 bits with a scale a column. The
    first one is read twice.
    """
    rng = seeds.generator(BLOCKS_NAME, "weights")
    bound = np.sqrt(WIDTH)

    def scales(name: str, *shape: int, largest: float) -> onnx.TensorProto:
        values = rng.uniform(0.5, 1.5, shape) / (largest * bound)
        return numpy_helper.from_array(values.astype(np.float32), name)

    def packed(name: str, kind: int, *shape: int) -> onnx.TensorProto:
        raw = rng.integers(0, 256, int(np.prod(shape)) // 2, np.uint8)
        return helper.make_tensor(name, kind, shape, raw.tobytes(), raw=True)

    eighths = rng.integers(0, 0x78, (WIDTH, WIDTH), np.uint8) | rng.integers(0, 2, (WIDTH, WIDTH), np.uint8) << 7
    tensors = [
        packed("tied.weight", TensorProto.INT4, WIDTH, WIDTH),
        scales("tied.scales", BLOCKS, WIDTH, largest=4.6),
        packed("middle.weight", TensorProto.UINT4, WIDTH, WIDTH),
        scales("middle.scales", WIDTH, BLOCKS, largest=4.6),
        packed("middle.zeros", TensorProto.UINT4, WIDTH, BLOCKS),
        helper.make_tensor("last.weight", TensorProto.FLOAT8E4M3FN, (WIDTH, WIDTH), eighths.tobytes(), raw=True),
        scales("last.scales", WIDTH, largest=80.0),
    ]
    rows, columns = {"axis": 0, "block_size": BLOCK}, {"axis": 1, "block_size": BLOCK}
    nodes = [
        helper.make_node("DequantizeLinear", ["tied.weight", "tied.scales"], ["first"], **rows),
        helper.make_node("DequantizeLinear", ["tied.weight", "tied.scales"], ["second"], **rows),
        helper.make_node("DequantizeLinear", ["middle.weight", "middle.scales", "middle.zeros"], ["third"], **columns),
        helper.make_node("DequantizeLinear", ["last.weight", "last.scales"], ["fourth"], axis=1),
    ]
    source = "x"
    for weight in ("first", "second", "third", "fourth"):
        nodes.append(helper.make_node("MatMul", [source, weight], [f"{weight}.product"]))
        nodes.append(helper.make_node("Tanh", [f"{weight}.product"], [source := f"{weight}.active"]))
    nodes.append(helper.make_node("Identity", [source], ["y"]))
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", WIDTH]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, BLOCKS_NAME, ports[:1], ports[1:], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    inputs = {"x": seeds.normal(seeds.generator(BLOCKS_NAME, "x"), (BATCH, WIDTH), 1.0)}
    write_case(folder, model, inputs)
    outputs = runner.run(runner.open_session(folder / "model.onnx"), inputs)
    write_case(folder, model, inputs, outputs)
