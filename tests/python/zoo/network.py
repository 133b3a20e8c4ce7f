"""A small network's layers in two forms with the same methods: on arrays, to train it, and as ONNX nodes.

So a network is one function of a form and a value, and the model that is written is the network that was trained.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import autograd.numpy as np
from autograd import grad
from autograd.extend import defvjp, primitive

from zoo import mobilenet, seeds
from zoo.graph import GraphBuilder

EPSILON = 1e-5
LEAK = 0.1
Weights = dict[str, np.ndarray]
Statistics = dict[str, tuple[np.ndarray, np.ndarray]]
Network = Callable
"""A function of `OnArrays` and an array, or of `AsNodes` and the name of a value."""


@dataclass(frozen=True)
class Plan:
    """How long and how fast to train."""

    epochs: int
    batch: int
    rate: float


@primitive
def windows(x: np.ndarray, kernel: int, stride: int) -> np.ndarray:
    """Gives what each place of a convolution sees, zeros outside: [n, c, h, w] -> [n, c, kernel, kernel, h', w']."""
    (count, channels, height, width), pad = x.shape, kernel // 2
    padded = np.pad(x, ((0, 0), (0, 0), (pad, pad), (pad, pad)))
    seen = np.empty((count, channels, kernel, kernel, height // stride, width // stride), np.float32)
    for row in range(kernel):
        for column in range(kernel):
            seen[:, :, row, column] = padded[:, :, row : row + height : stride, column : column + width : stride]
    return seen


def windows_gradient(_: np.ndarray, x: np.ndarray, kernel: int, stride: int) -> object:
    """Adds up, for each element of the input, the gradients of all the windows that see it."""

    def pull(gradient: np.ndarray) -> np.ndarray:
        height, width = x.shape[2:]
        sum_ = np.zeros((*x.shape[:2], height + kernel - 1, width + kernel - 1), np.float32)
        for row in range(kernel):
            for column in range(kernel):
                sum_[:, :, row : row + height : stride, column : column + width : stride] += gradient[:, :, row, column]
        pad = kernel // 2
        return sum_[:, :, pad : pad + height, pad : pad + width]

    return pull


defvjp(windows, windows_gradient, argnums=[0])


class OnArrays:
    """Layers on f32 arrays that autograd can follow.

    A weight that is not there yet is drawn, seeded by the model's and its own name. A batch normalisation without
    statistics takes those of its batch, and notes them.
    """

    def __init__(self, model: str, weights: Weights, statistics: Statistics | None = None) -> None:
        """Takes what is known of the model so far."""
        self.model, self.weights, self.statistics = model, weights, statistics or {}
        self.noted: Statistics = {}

    def weight(self, name: str, shape: tuple[int, ...], fan_in: int) -> np.ndarray:
        """Gives a weight."""
        if name not in self.weights:
            self.weights[name] = seeds.he(seeds.generator(self.model, name), shape, fan_in)
        return self.weights[name]

    def filled(self, name: str, count: int, value: float) -> np.ndarray:
        """Gives a weight that starts with one number throughout."""
        if name not in self.weights:
            self.weights[name] = np.full(count, value, np.float32)
        return self.weights[name]

    def conv(
        self, name: str, x: np.ndarray, width: int, kernel: int, *, stride: int = 1, groups: int = 1, bias: bool = False
    ) -> np.ndarray:
        """Convolves, padded so that stride 1 keeps the size."""
        channels = x.shape[1] // groups
        fan_in = channels * kernel * kernel
        weight = self.weight(f"{name}.weight", (width, channels, kernel, kernel), fan_in)
        seen = windows(x, kernel, stride) if kernel > 1 else x
        rows, columns = seen.shape[-2:]
        y = np.matmul(
            weight.reshape(groups, width // groups, fan_in), seen.reshape(len(x), groups, fan_in, rows * columns)
        ).reshape(len(x), width, rows, columns)
        return y + self.filled(f"{name}.bias", width, 0.0).reshape(-1, 1, 1) if bias else y

    def batch_norm(self, name: str, x: np.ndarray) -> np.ndarray:
        """Normalises each channel."""
        if name in self.statistics:
            mean, variance = self.statistics[name]
        else:
            mean = np.mean(self.mean_of_map(x), axis=0)
            centred = x - mean.reshape(-1, 1, 1)
            variance = np.mean(self.mean_of_map(centred * centred), axis=0)
            self.noted[name] = (mean, variance)
        scale = self.filled(f"{name}.weight", x.shape[1], 1.0) / np.sqrt(variance + np.float32(EPSILON))
        shift = self.filled(f"{name}.bias", x.shape[1], 0.0) - mean * scale
        return x * scale.reshape(-1, 1, 1) + shift.reshape(-1, 1, 1)

    def relu(self, x: np.ndarray) -> np.ndarray:
        """Keeps what is above zero."""
        return x * (x > 0)

    def relu6(self, x: np.ndarray) -> np.ndarray:
        """Clips to [0, 6]."""
        return np.clip(x, np.float32(0), np.float32(6))

    def leaky_relu(self, x: np.ndarray) -> np.ndarray:
        """Scales down what is below zero."""
        return x * np.where(x > 0, np.float32(1), np.float32(LEAK))

    def max_pool(self, x: np.ndarray) -> np.ndarray:
        """Halves height and width."""
        count, channels, height, width = x.shape
        rows = np.max(x.reshape(count, channels, height // 2, 2, width), axis=3)
        return np.max(rows.reshape(count, channels, height // 2, width // 2, 2), axis=4)

    def add(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """Adds."""
        return a + b

    def mean_of_map(self, x: np.ndarray) -> np.ndarray:
        """Averages each channel: [n, c, h, w] -> [n, c]."""
        return np.mean(x, axis=(2, 3))

    def gemm(self, name: str, x: np.ndarray, width: int) -> np.ndarray:
        """Applies a matrix, stored as [out, in], and a bias to [n, in]."""
        weight = self.weight(f"{name}.weight", (width, x.shape[1]), x.shape[1])
        return np.matmul(x, weight.T) + self.filled(f"{name}.bias", width, 0.0)

    def tokens(self, x: np.ndarray) -> np.ndarray:
        """Makes a token of each place of a map: [n, c, h, w] -> [n, h * w, c]."""
        return np.swapaxes(x.reshape(len(x), x.shape[1], -1), 1, 2)

    def layer_norm(self, name: str, x: np.ndarray) -> np.ndarray:
        """Normalises each token."""
        centred = x - np.mean(x, axis=2, keepdims=True)
        deviation = np.sqrt(np.mean(centred**2, axis=2, keepdims=True) + np.float32(EPSILON))
        scale = self.filled(f"{name}.weight", x.shape[2], 1.0)
        return centred / deviation * scale + self.filled(f"{name}.bias", x.shape[2], 0.0)

    def project(self, name: str, x: np.ndarray, width: int) -> np.ndarray:
        """Applies a matrix, stored as [in, out], to each token."""
        return np.matmul(x, self.weight(f"{name}.weight", (x.shape[2], width), x.shape[2]))

    def attend(self, queries: np.ndarray, keys: np.ndarray, values: np.ndarray, width: int) -> np.ndarray:
        """Gives each token the mean of the values, weighted by how its query of that width meets the keys."""
        scores = np.matmul(queries, np.swapaxes(keys, 1, 2)) * np.float32(width**-0.5)
        return np.matmul(np.exp(log_softmax(scores)), values)

    def mean_of_tokens(self, x: np.ndarray) -> np.ndarray:
        """Averages the tokens: [n, tokens, c] -> [n, c]."""
        return np.mean(x, axis=1)


class AsNodes:
    """The same layers as ONNX nodes, for one sample; normalisations are kept apart from what they follow."""

    def __init__(self, g: GraphBuilder, weights: Weights, statistics: Statistics) -> None:
        """Takes the graph to add to and the trained model."""
        self.g, self.weights, self.statistics = g, weights, statistics

    def weight(self, name: str) -> str:
        """Stores a weight."""
        return self.g.stored(name, self.weights[name])

    def conv(
        self, name: str, x: str, width: int, kernel: int, *, stride: int = 1, groups: int = 1, bias: bool = False
    ) -> str:
        """Adds a Conv."""
        stored = [self.weight(f"{name}.{part}") for part in ("weight", "bias")[: 1 + bias]]
        geometry = {"kernel_shape": [kernel] * 2, "pads": [kernel // 2] * 4, "strides": [stride] * 2, "group": groups}
        return self.g.op("Conv", x, *stored, **geometry)

    def batch_norm(self, name: str, x: str) -> str:
        """Adds a BatchNormalization."""
        statistics = zip(("running_mean", "running_var"), self.statistics[name], strict=True)
        stored = [self.weight(f"{name}.{part}") for part in ("weight", "bias")]
        stored += [self.g.stored(f"{name}.{part}", values) for part, values in statistics]
        return self.g.op("BatchNormalization", x, *stored, epsilon=EPSILON)

    def relu(self, x: str) -> str:
        """Adds a Relu."""
        return self.g.op("Relu", x)

    def relu6(self, x: str) -> str:
        """Adds a Clip to [0, 6]."""
        return mobilenet.relu6(self.g, x)

    def leaky_relu(self, x: str) -> str:
        """Adds a LeakyRelu."""
        return self.g.op("LeakyRelu", x, alpha=LEAK)

    def max_pool(self, x: str) -> str:
        """Adds a MaxPool."""
        return self.g.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])

    def add(self, a: str, b: str) -> str:
        """Adds an Add."""
        return self.g.op("Add", a, b)

    def mean_of_map(self, x: str) -> str:
        """Adds GlobalAveragePool and Flatten."""
        return self.g.op("Flatten", self.g.op("GlobalAveragePool", x), axis=1)

    def gemm(self, name: str, x: str, width: int) -> str:
        """Adds a Gemm."""
        return self.g.op("Gemm", x, self.weight(f"{name}.weight"), self.weight(f"{name}.bias"), transB=1)

    def tokens(self, x: str) -> str:
        """Adds Reshape and Transpose."""
        return self.g.op("Transpose", self.g.reshape(x, 0, 0, -1), perm=[0, 2, 1])

    def layer_norm(self, name: str, x: str) -> str:
        """Adds a LayerNormalization."""
        stored = self.weight(f"{name}.weight"), self.weight(f"{name}.bias")
        return self.g.op("LayerNormalization", x, *stored, axis=-1, epsilon=EPSILON)

    def project(self, name: str, x: str, width: int) -> str:
        """Adds a MatMul."""
        return self.g.op("MatMul", x, self.weight(f"{name}.weight"))

    def attend(self, queries: str, keys: str, values: str, width: int) -> str:
        """Adds Transpose, MatMul, Mul, Softmax and MatMul."""
        scores = self.g.op("MatMul", queries, self.g.op("Transpose", keys, perm=[0, 2, 1]))
        scaled = self.g.op("Mul", scores, self.g.constant(width**-0.5))
        return self.g.op("MatMul", self.g.op("Softmax", scaled, axis=-1), values)

    def mean_of_tokens(self, x: str) -> str:
        """Adds a ReduceMean."""
        return self.g.op("ReduceMean", x, axes=[1], keepdims=0)


def log_softmax(x: np.ndarray) -> np.ndarray:
    """Gives the logarithm of the softmax over the last axis."""
    shifted = x - np.max(x, axis=-1, keepdims=True)
    return shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))


def train(network: Network, model: str, inputs: np.ndarray, labels: np.ndarray, plan: Plan) -> Weights:
    """Fits a network that gives logits to labels: Adam on the cross-entropy, the rate falling along a cosine."""
    weights: Weights = {}
    network(OnArrays(model, weights), inputs[:2])  # draws every weight

    def loss(weights: Weights, inputs: np.ndarray, labels: np.ndarray) -> float:
        logits = network(OnArrays(model, weights), inputs)
        return -np.mean(log_softmax(logits)[np.arange(len(labels)), labels])

    gradients_of, order = grad(loss), seeds.generator(model, "order")
    batches = len(inputs) // plan.batch
    chosen = [part for _ in range(plan.epochs) for part in np.array_split(order.permutation(len(inputs)), batches)]
    moments = {name: (np.zeros_like(weight),) * 2 for name, weight in weights.items()}
    for step, rows in enumerate(chosen, 1):
        rate = plan.rate * (1 + math.cos(math.pi * step / len(chosen))) / 2
        for name, gradient in gradients_of(weights, inputs[rows], labels[rows]).items():
            first, second = moments[name]
            moments[name] = first, second = first * 0.9 + gradient * 0.1, second * 0.99 + gradient**2 * 0.01
            change = first / (1 - 0.9**step) / (np.sqrt(second / (1 - 0.99**step)) + 1e-8)
            weights[name] = (weights[name] - rate * change).astype(np.float32)
    return weights
