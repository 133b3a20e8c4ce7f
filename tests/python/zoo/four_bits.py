"""A network of two products with weights of 4 bits, as onnxruntime's `MatMulNBits` has them."""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from zoo import runner, seeds
from zoo.store import Task, write_case

NAME = "mlp_4_bits"
BATCH, WIDTH, BLOCK = 3, 1024, 32
BLOCKS = WIDTH // BLOCK


def tasks() -> list[Task]:
    """Gives the one task of this module."""
    return [Task(f"quantised/{NAME}", fill)]


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
