"""Times single operators beside onnxruntime: models of one node, at sizes that networks have.

    python tests/bench/operators.py --byoc target/release/byoc [--only LSTM Softmax]

Run it in an environment with tests/python/requirements.txt. Prints one Markdown row an operator; its ratio is the median
over the rounds of byoc's time over onnxruntime's of the same round, on one thread.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from compare import ORT_BENCH, byoc, output

RANDOM = np.random.default_rng(7)


def noise(*shape: int) -> np.ndarray:
    """Numbers like those of weights: small."""
    return (RANDOM.standard_normal(shape) * 0.1).astype(np.float32)


def recurrent(op: str, gates: int, batch: int, directions: int = 1, **attributes) -> tuple:
    """128 steps of 256 elements into 256."""
    direction = "bidirectional" if directions == 2 else "forward"
    weights = [noise(directions, gates * 256, 256), noise(directions, gates * 256, 256), noise(directions, 2 * gates * 256)]
    return op, [noise(128, batch, 256)], weights, {"hidden_size": 256, "direction": direction, **attributes}


def cases() -> dict[str, tuple]:
    """For each name: operator, inputs, constants, attributes."""
    grid = RANDOM.uniform(-1, 1, (1, 64, 64, 2)).astype(np.float32)
    sizes = [np.empty(0, np.float32), np.array([1, 1, 2, 2], np.float32)]
    return {
        "LSTM, batch 1": recurrent("LSTM", 4, 1),
        "LSTM, batch 8": recurrent("LSTM", 4, 8),
        "LSTM, both directions": recurrent("LSTM", 4, 1, 2),
        "GRU, batch 1": recurrent("GRU", 3, 1),
        "GRU, linear before reset": recurrent("GRU", 3, 1, linear_before_reset=1),
        "ConvTranspose, 64 to 32, 4x4 by 2": (
            "ConvTranspose", [noise(1, 64, 64, 64)], [noise(64, 32, 4, 4), noise(32)], {"strides": [2, 2], "pads": [1, 1, 1, 1]}),
        "ConvTranspose, 128 to 64, 2x2 by 2": (
            "ConvTranspose", [noise(1, 128, 64, 64)], [noise(128, 64, 2, 2), noise(64)], {"strides": [2, 2]}),
        "ConvTranspose of one dimension, 16 by 8": (
            "ConvTranspose", [noise(1, 128, 200)], [noise(128, 64, 16), noise(64)], {"strides": [8], "pads": [4, 4]}),
        "Softmax, axis 1 of 21x128x128": ("Softmax", [noise(1, 21, 128, 128)], [], {"axis": 1}),
        "LogSoftmax, last of 256x1024": ("LogSoftmax", [noise(256, 1024)], [], {"axis": -1}),
        "Conv of one dimension, 256 to 256, 3": (
            "Conv", [noise(1, 256, 400)], [noise(256, 256, 3), noise(256)], {"pads": [1, 1]}),
        "Conv of one dimension, 256 channels, 31": (
            "Conv", [noise(1, 256, 400)], [noise(256, 1, 31), noise(256)], {"pads": [15, 15], "group": 256}),
        "TopK, 100 of 672000": ("TopK", [noise(1, 672_000)], [np.array([100], np.int64)], {}),
        "TopK, 5 of each of 8400x80": ("TopK", [noise(8400, 80)], [np.array([5], np.int64)], {}),
        "Resize, linear, twice 64x80x80": (
            "Resize", [noise(1, 64, 80, 80)], sizes, {"mode": "linear", "coordinate_transformation_mode": "half_pixel"}),
        "Resize, nearest, twice 64x80x80": (
            "Resize", [noise(1, 64, 80, 80)], sizes,
            {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}),
        "GridSample, linear, 32x64x64": ("GridSample", [noise(1, 32, 64, 64), grid], [], {"mode": "linear"}),
        "GroupQueryAttention, a token behind 1023": one_token(),
        "MatMulNBits, one row": few_bits(0),
        "MatMulNBits, one row, accuracy_level 4": few_bits(4),
    }


def few_bits(level: int) -> tuple:
    """One row times 2048 x 32000 weights of 4 bits in blocks of 32, as the last product of a language model."""
    packed = RANDOM.integers(0, 256, (32_000, 2048 // 32, 16), dtype=np.uint8)
    attributes = {"K": 2048, "N": 32_000, "bits": 4, "block_size": 32, "accuracy_level": level}
    return "MatMulNBits", [noise(1, 2048)], [packed, noise(32_000 * 64)], {"domain": "com.microsoft", **attributes}

def one_token() -> tuple:
    """A step of a language model: 32 heads of 128 elements, 8 of keys, and a cache for 2048 tokens."""
    cache = noise(1, 8, 2048, 128)
    inputs = [noise(1, 1, 4096), noise(1, 1, 1024), noise(1, 1, 1024), cache, cache, np.array([1023], np.int32)]
    constants = [np.array(1024, np.int32), np.cos(noise(4096, 64)), np.sin(noise(4096, 64))]
    heads = {"num_heads": 32, "kv_num_heads": 8, "do_rotary": 1}
    return "GroupQueryAttention", inputs, constants, {"domain": "com.microsoft", **heads}


OUTPUTS = {"TopK": ["y", "indices"], "GroupQueryAttention": ["y", "keys", "values"]}
"""Those of operators that have several."""


def write(folder: Path, op: str, inputs: list, constants: list, attributes: dict) -> tuple[Path, Path]:
    """A model of one node, and its inputs."""
    names = [f"x{i}" for i in range(len(inputs))]
    values = {f"c{i}": constant for i, constant in enumerate(constants)}
    outputs = OUTPUTS.get(op, ["y"])
    node = helper.make_node(op, [*names, *values], outputs, **attributes)
    types = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(x.dtype), x.shape) for name, x in zip(names, inputs)
    ]
    results = [
        helper.make_tensor_value_info(name, TensorProto.INT64 if name == "indices" else TensorProto.FLOAT, None)
        for name in outputs
    ]
    weights = [numpy_helper.from_array(value, name) for name, value in values.items()]
    model = helper.make_model(
        helper.make_graph([node], "one", types, results, weights),
        opset_imports=[helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)],
        ir_version=10,
    )
    onnx.save(model, folder / "model.onnx")
    np.savez(folder / "inputs.npz", **dict(zip(names, inputs)))
    return folder / "model.onnx", folder / "inputs.npz"


def row(arguments: argparse.Namespace, name: str, case: tuple) -> str:
    """One line of the table."""
    with tempfile.TemporaryDirectory() as temporary:
        model, inputs = write(Path(temporary), *case)
        artifact = Path(temporary) / "model.byoc"
        options = [item for option in arguments.backend_opt for item in ("--backend-opt", option)]
        subprocess.run([arguments.byoc, "compile", str(model), "-o", str(artifact), *options], check=True, capture_output=True)
        pairs = []
        for _ in range(arguments.rounds):
            ours = byoc(arguments.byoc, artifact, inputs, 1, arguments.duration)
            command = [sys.executable, str(ORT_BENCH), str(model), str(inputs), "--threads", "1"]
            theirs = output([*command, "--duration", str(arguments.duration)])
            if ours and theirs:
                pairs.append((ours["median_ms"], theirs["median_ms"]))
    ours, theirs = (f"{statistics.median(times):.3g}" for times in zip(*pairs))
    ratio = statistics.median(a / b for a, b in pairs)
    return f"| {name} | {ours} | {theirs} | **{ratio:.2f}** |"


def main() -> None:
    """Measures the operators that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--byoc", default="target/release/byoc")
    parser.add_argument("--only", nargs="*", default=[""], help="those whose name begins so")
    parser.add_argument("--backend-opt", action="append", default=[], help="as of `byoc compile`")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--duration", type=float, default=1.0)
    arguments = parser.parse_args()
    print("| operator | byoc ms | onnxruntime ms | byoc / ort |")
    print("|---|---|---|---|")
    for name, case in cases().items():
        if name.startswith(tuple(arguments.only)):
            print(row(arguments, name, case), flush=True)


if __name__ == "__main__":
    main()
