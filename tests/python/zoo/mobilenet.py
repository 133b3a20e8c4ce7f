"""MobileNetV2 (width 1.0, 224 x 224) with Conv, BatchNormalization and Clip kept apart."""

from pathlib import Path

from onnx import TensorProto

from zoo import seeds
from zoo.graph import GraphBuilder
from zoo.runner import write_with_outputs
from zoo.store import Task

NAME = "mobilenet_v2"
# expansion, channels, repeats, stride of the first repeat
STAGES = (
    (1, 16, 1, 1),
    (6, 24, 2, 2),
    (6, 32, 3, 2),
    (6, 64, 4, 2),
    (6, 96, 3, 1),
    (6, 160, 3, 2),
    (6, 320, 1, 1),
)
STEM, HEAD, CLASSES = 32, 1280, 1000
INPUT = (1, 3, 224, 224)
USUAL_SCALE, RESIDUAL_SCALE = (0.6, 1.4), (0.2, 0.4)


def tasks() -> list[Task]:
    """Gives the one task of this module."""
    return [Task(f"seeded/{NAME}", fill)]


def fill(folder: Path) -> None:
    """Writes the model, a random picture and onnxruntime's logits."""
    g = GraphBuilder(NAME)
    value = g.input("input", TensorProto.FLOAT, INPUT)
    value = relu6(g, conv_bn(g, "stem", value, INPUT[1], STEM, kernel=3, stride=2))
    channels = STEM
    for stage, (expansion, width, repeats, stride) in enumerate(STAGES):
        for repeat in range(repeats):
            block = f"features.{stage}.{repeat}"
            step = stride if repeat == 0 else 1
            value = inverted_residual(g, block, value, channels, width, expansion, step)
            channels = width
    value = relu6(g, conv_bn(g, "head", value, channels, HEAD))
    g.output(classifier(g, value), "output", (1, CLASSES))
    write_with_outputs(folder, g.model(), ("", {"input": seeds.image(NAME, INPUT)}))


def inverted_residual(
    g: GraphBuilder, block: str, value: str, channels: int, width: int, expansion: int, stride: int
) -> str:
    """Adds one block: expand, depthwise, project, and the sum where the shapes allow it."""
    residual = stride == 1 and channels == width
    hidden = channels * expansion
    inner = value
    if expansion != 1:
        inner = relu6(g, conv_bn(g, f"{block}.expand", inner, channels, hidden))
    inner = relu6(
        g, conv_bn(g, f"{block}.depthwise", inner, hidden, hidden, kernel=3, stride=stride, groups=hidden)
    )
    scale = RESIDUAL_SCALE if residual else USUAL_SCALE
    inner = conv_bn(g, f"{block}.project", inner, hidden, width, scale=scale)
    return g.op("Add", value, inner) if residual else inner


def conv_bn(
    g: GraphBuilder,
    layer: str,
    value: str,
    channels: int,
    width: int,
    *,
    kernel: int = 1,
    stride: int = 1,
    groups: int = 1,
    scale: tuple[float, float] = USUAL_SCALE,
) -> str:
    """Adds a convolution without bias and its batch normalisation."""
    fan_in = channels // groups * kernel * kernel
    weight = g.random(
        f"{layer}.conv.weight", (width, channels // groups, kernel, kernel), (2 / fan_in) ** 0.5
    )
    convolved = g.op(
        "Conv",
        value,
        weight,
        dilations=[1, 1],
        group=groups,
        kernel_shape=[kernel, kernel],
        pads=[kernel // 2] * 4,
        strides=[stride, stride],
    )
    return g.op(
        "BatchNormalization",
        convolved,
        g.between(f"{layer}.bn.weight", (width,), *scale),
        g.random(f"{layer}.bn.bias", (width,), 0.1),
        g.random(f"{layer}.bn.running_mean", (width,), 0.1),
        g.between(f"{layer}.bn.running_var", (width,), 0.5, 1.5),
        epsilon=1e-5,
    )


def relu6(g: GraphBuilder, value: str) -> str:
    """Clips to [0, 6], the bounds as constants like PyTorch writes them."""
    return g.op("Clip", value, g.constant(0.0), g.constant(6.0))


def classifier(g: GraphBuilder, value: str) -> str:
    """Adds the pooling and the last layer."""
    pooled = g.op("Flatten", g.op("GlobalAveragePool", value), axis=1)
    weight = g.random("classifier.weight", (CLASSES, HEAD), (2 / HEAD) ** 0.5)
    return g.op("Gemm", pooled, weight, g.random("classifier.bias", (CLASSES,), 0.1), transB=1)
