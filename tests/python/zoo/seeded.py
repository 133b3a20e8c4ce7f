"""The nine `light` topologies with seeded random weights in place of their constant ones.

The wheel's models hold every weight as a `ConstantOfShape`, so all numbers of a tensor are equal and a
wrong layout can pass unseen. Here each becomes a stored initializer, listed as an input too, as IR 3 wants.
"""

import math
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from zoo import light, seeds, wheel
from zoo.runner import write_with_outputs
from zoo.store import Task

LAYER_OPS = ("Conv", "Gemm")
RESHAPING_OPS = ("Reshape", "Unsqueeze")
RESIDUAL_SCALE = (0.2, 0.4)
BATCH_NORM_SCALE = (0.6, 1.4)
AFFINE_SCALE = (0.8, 1.2)
VARIANCE = (0.5, 1.5)
SHIFT_DEVIATION = 0.1
# Measured once: what brings the last layer's deviation to about 1, so that no class takes all of a Softmax.
LAST_LAYER_SCALE = {
    "bvlc_alexnet": 0.2,
    "densenet121": 0.2,
    "inception_v1": 0.15,
    "inception_v2": 0.06,
    "resnet50": 1.4,
    "shufflenet": 0.016,
    "squeezenet": 0.2,
    "vgg19": 0.2,
    "zfnet512": 0.6,
}

Use = tuple[onnx.NodeProto, int]


def tasks() -> list[Task]:
    """Gives one task for each topology."""
    return [Task(f"seeded/{name}", partial(fill, name)) for name in light.NAMES]


def fill(name: str, folder: Path) -> None:
    """Writes one topology with random weights, a random input and onnxruntime's output."""
    model = light.load(name)
    inputs = {v.name: seeds.image(name, wheel.static_shape(v)) for v in wheel.free_inputs(model.graph)}
    replace_weights(name, model.graph)
    write_with_outputs(folder, model, ("", inputs))


def replace_weights(name: str, graph: onnx.GraphProto) -> None:
    """Gives every float constant of the graph random values."""
    shapes = float_initializers(graph) | filled_constants(graph)
    remove_constants(graph, set(shapes))
    uses = uses_by_value(graph)
    last = last_layer(graph)
    listed = {value.name for value in graph.input}
    for tensor, shape in shapes.items():
        use = effective_use(tensor, uses)
        values = random_weight(seeds.generator(name, tensor), shape, use, uses)
        if use and use[1] == 1 and use[0].output[0] == last:
            values *= np.float32(LAST_LAYER_SCALE[name])
        graph.initializer.append(numpy_helper.from_array(values, tensor))
        if tensor not in listed:
            graph.input.append(helper.make_tensor_value_info(tensor, TensorProto.FLOAT, shape))


def last_layer(graph: onnx.GraphProto) -> str:
    """Gives the output of the last layer that has a weight matrix."""
    return [node.output[0] for node in graph.node if node.op_type in LAYER_OPS][-1]


def float_initializers(graph: onnx.GraphProto) -> dict[str, seeds.Shape]:
    """Gives the stored f32 constants."""
    return {t.name: tuple(t.dims) for t in graph.initializer if t.data_type == TensorProto.FLOAT}


def filled_constants(graph: onnx.GraphProto) -> dict[str, seeds.Shape]:
    """Gives the constants that are written as `ConstantOfShape(stored shape)`."""
    stored = {tensor.name: tensor for tensor in graph.initializer}
    return {
        node.output[0]: tuple(numpy_helper.to_array(stored[node.input[0]]).tolist())
        for node in graph.node
        if node.op_type == "ConstantOfShape"
    }


def remove_constants(graph: onnx.GraphProto, names: set[str]) -> None:
    """Removes the named constants, and the stored shapes that nothing reads any more."""
    keep_nodes = [node for node in graph.node if node.output[0] not in names]
    read = {name for node in keep_nodes for name in node.input}
    stored = {tensor.name for tensor in graph.initializer}
    keep_tensors = [t for t in graph.initializer if t.name in read and t.name not in names]
    keep_inputs = [v for v in graph.input if v.name in read or v.name not in stored]
    for field, kept in (
        (graph.node, keep_nodes),
        (graph.initializer, keep_tensors),
        (graph.input, keep_inputs),
    ):
        del field[:]
        field.extend(kept)


def uses_by_value(graph: onnx.GraphProto) -> dict[str, list[Use]]:
    """Gives, for each value, the nodes that read it and at which input."""
    uses: dict[str, list[Use]] = {}
    for node in graph.node:
        for index, name in enumerate(node.input):
            uses.setdefault(name, []).append((node, index))
    return uses


def effective_use(tensor: str, uses: dict[str, list[Use]]) -> Use | None:
    """Gives the node that decides a constant's role, past the nodes that only reshape it."""
    if tensor not in uses:
        return None
    node, index = uses[tensor][0]
    return effective_use(node.output[0], uses) if node.op_type in RESHAPING_OPS else (node, index)


def random_weight(
    rng: np.random.Generator, shape: seeds.Shape, use: Use | None, uses: dict[str, list[Use]]
) -> np.ndarray:
    """Draws a constant at the scale that suits its role."""
    match (use[0].op_type, use[1]) if use else None:
        case ("Conv", 1):
            return seeds.he(rng, shape, fan_in=math.prod(shape[1:]))
        case ("Gemm", 1):
            return seeds.he(rng, shape, fan_in=shape[-1])
        case ("BatchNormalization", 1):
            return seeds.uniform(rng, shape, *batch_norm_scale(use[0], uses))
        case ("BatchNormalization", 4):
            return seeds.uniform(rng, shape, *VARIANCE)
        case ("Mul", _):
            return seeds.uniform(rng, shape, *AFFINE_SCALE)
        case _:
            return seeds.normal(rng, shape, SHIFT_DEVIATION)


def batch_norm_scale(node: onnx.NodeProto, uses: dict[str, list[Use]]) -> tuple[float, float]:
    """Gives a small scale at the end of a residual branch, so that their sum does not explode."""
    readers = [reader.op_type for reader, _ in uses.get(node.output[0], [])]
    return RESIDUAL_SCALE if readers == ["Sum"] else BATCH_NORM_SCALE
