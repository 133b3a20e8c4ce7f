"""Handwritten digits: scikit-learn's data, a convolutional net trained on them, and a net that ends in attention.

A picture is one of the 1,797 of 8 x 8 cells, brought to 32 x 32 by bilinear interpolation and to 8 bits; the models take
it as f32 in [0, 1], shape [1, 1, 32, 32] (mean 0, deviation 1). A seeded shuffle gives 1,200 to train with and 597 to
test with. Training gives the same on every machine with AVX2 (`prepare.py` sees to it).

`model.onnx` has eight convolutions of kinds that a K210 runs, and its small end (pooling, Gemm, Softmax). `mixed.onnx`
has the same trunk, frozen, and a trained end of operators that a K210 lacks: LayerNormalization and self-attention.
`qdq.onnx` is `model.onnx` as onnxruntime's tool quantises it, and its probabilities are what onnxruntime computes node by node.
"""

import json
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto
from PIL import Image
from sklearn.datasets import load_digits

from zoo import kendryte_qdq, quantised, runner, seeds
from zoo.graph import GraphBuilder
from zoo.network import AsNodes, OnArrays, Plan, Statistics, Weights, train
from zoo.store import Task, write_npz

NAME, MIXED = "digits", "digits_mixed"
SIZE, CLASSES, ATTENTION = 32, 10, 32
INPUT = (1, 1, SIZE, SIZE)
TRAINING, CALIBRATION, PICTURES = 1200, 200, 20
WHOLE_PLAN, HEAD_PLAN = Plan(epochs=10, batch=40, rate=4e-3), Plan(epochs=40, batch=40, rate=2e-3)
LEAST_ACCURACY = 0.95

Value = np.ndarray | str


def tasks() -> list[Task]:
    """Gives the one task of this module."""
    return [Task(NAME, fill)]


def fill(folder: Path) -> None:
    """Trains both models and writes them, with what to calibrate and to test with."""
    pixels, labels = data()
    inputs = (pixels.astype(np.float32) / np.float32(255))[:, np.newaxis]
    known, known_labels = inputs[:TRAINING], labels[:TRAINING]
    weights = train(classifier, NAME, known, known_labels, WHOLE_PLAN)
    batch = OnArrays(NAME, weights)
    trunk(batch, known)
    statistics = batch.noted
    seen = trunk(OnArrays(NAME, weights, statistics), known)
    weights |= train(attention_head, MIXED, seen, known_labels, HEAD_PLAN)

    write_npz(folder / "calibration.npz", {"input": known[:CALIBRATION]})
    write_npz(folder / "test.npz", {"input": inputs[TRAINING:]})
    np.save(folder / "labels.npy", labels[TRAINING:])
    write_pictures(folder / "images", pixels[:PICTURES])
    accuracy = {
        file: write_model(folder, file, network, weights, statistics)
        for file, network in (("model", classifier), ("mixed", mixed))
    }
    write_quantised(folder, known[:CALIBRATION])
    (folder / "accuracy.json").write_text(json.dumps(accuracy, indent=1) + "\n")


def data() -> tuple[np.ndarray, np.ndarray]:
    """Gives all pictures as u8 [n, 32, 32] and their labels, shuffled."""
    digits = load_digits()
    enlarge = interpolation(digits.images.shape[1])
    pixels = np.rint(enlarge @ digits.images @ enlarge.T * (255 / digits.images.max())).astype(np.uint8)
    order = seeds.generator(NAME, "order").permutation(len(pixels))
    return pixels[order], digits.target[order].astype(np.int64)


def interpolation(cells: int) -> np.ndarray:
    """Gives the matrix that enlarges a line of cells to `SIZE` by bilinear interpolation about their middles."""
    at = np.clip((np.arange(SIZE) + 0.5) * cells / SIZE - 0.5, 0, cells - 1)
    return np.maximum(0, 1 - np.abs(at[:, np.newaxis] - np.arange(cells)))


def trunk(net: OnArrays | AsNodes, x: Value) -> Value:
    """Adds the convolutions: [n, 1, 32, 32] -> [n, 64, 4, 4]."""
    x = net.relu(net.batch_norm("stem.norm", net.conv("stem", x, 8, 3)))
    x = net.relu6(net.batch_norm("wide.norm", net.conv("wide.depthwise", x, 8, 3, groups=8)))
    x = net.max_pool(net.leaky_relu(net.conv("wide.point", x, 24, 1, bias=True)))
    x = net.relu(net.batch_norm("half.norm", net.conv("half", x, 32, 3, stride=2)))
    inner = net.relu6(net.batch_norm("residual.norm", net.conv("residual.depthwise", x, 32, 3, groups=32)))
    x = net.add(x, net.batch_norm("residual.point_norm", net.conv("residual.point", inner, 32, 1)))
    x = net.leaky_relu(net.batch_norm("quarter.norm", net.conv("quarter", x, 48, 3, stride=2)))
    return net.relu(net.conv("last", x, 64, 1, bias=True))


def classifier(net: OnArrays | AsNodes, x: Value) -> Value:
    """Adds the model that a K210 can run whole, up to the logits."""
    return net.gemm("classifier", net.mean_of_map(trunk(net, x)), CLASSES)


def attention_head(net: OnArrays | AsNodes, x: Value) -> Value:
    """Adds what makes logits of the trunk's map in the mixed model."""
    x = net.layer_norm("head.norm", net.tokens(x))
    queries, keys, values = (net.project(f"head.{part}", x, ATTENTION) for part in ("query", "key", "value"))
    return net.gemm("head.classifier", net.mean_of_tokens(net.attend(queries, keys, values, ATTENTION)), CLASSES)


def mixed(net: OnArrays | AsNodes, x: Value) -> Value:
    """Adds the model that a K210 can run the first part of, up to the logits."""
    return attention_head(net, trunk(net, x))


def write_model(folder: Path, file: str, network: object, weights: Weights, statistics: Statistics) -> dict[str, object]:
    """Writes a model and onnxruntime's probabilities for the test pictures; gives its size and accuracy."""
    g = GraphBuilder(f"digits_{file}")
    logits = network(AsNodes(g, weights, statistics), g.input("input", TensorProto.FLOAT, INPUT))
    g.output(g.op("Softmax", logits, axis=1), "probabilities", (1, CLASSES))
    path = folder / f"{file}.onnx"
    onnx.save(g.model(), path)
    onnx.checker.check_model(path, full_check=True)
    session = runner.open_session(path)
    pictures = np.load(folder / "test.npz")["input"]
    probabilities = np.concatenate([session.run(None, {"input": picture[np.newaxis]})[0] for picture in pictures])
    prefix = "" if file == "model" else f"{file}_"
    np.save(folder / f"{prefix}float_probabilities.npy", probabilities)
    accuracy = float(np.mean(probabilities.argmax(axis=1) == np.load(folder / "labels.npy")))
    if accuracy < LEAST_ACCURACY:
        raise ValueError(f"{file}.onnx is right for {accuracy:.4f} of the test pictures: fewer than {LEAST_ACCURACY}")
    return {"accuracy": accuracy, "parameters": sum(int(np.prod(tensor.dims)) for tensor in g.initializers)}


def write_quantised(folder: Path, samples: np.ndarray) -> None:
    """Writes `qdq.onnx`, with ranges from the samples, and its probabilities for the test pictures."""
    path = folder / "qdq.onnx"
    pictures = [{"input": picture[np.newaxis]} for picture in samples]
    kendryte_qdq.static(onnx.load(folder / "model.onnx"), path, pictures, "u8_s8_channels")
    session = quantised.node_by_node(path)
    tests = np.load(folder / "test.npz")["input"]
    probabilities = [session.run(None, {"input": picture[np.newaxis]})[0] for picture in tests]
    np.save(folder / "qdq_probabilities.npy", np.concatenate(probabilities))


def write_pictures(folder: Path, pixels: np.ndarray) -> None:
    """Writes grey PNG files of 8 bits."""
    folder.mkdir()
    for number, picture in enumerate(pixels):
        Image.fromarray(picture).save(folder / f"digit-{number:02}.png")
