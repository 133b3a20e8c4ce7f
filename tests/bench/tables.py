"""What tables of ways to compute a model have in common: arguments, a row for each model, how far outputs are off."""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime


def print_rows(description: str | None, columns: list[str], rows: Callable[[argparse.Namespace, str, Path], None]) -> None:
    """Parses the arguments, and has `rows` print those of each model, with a folder for what it writes."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("models", nargs="+")
    parser.add_argument("--byoc", default="target/release/byoc")
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--duration", type=float, default=0.25)
    arguments = parser.parse_args()
    print("| " + " | ".join(columns) + " |\n" + "|---" * len(columns) + "|")
    with tempfile.TemporaryDirectory() as temporary:
        for model in arguments.models:
            rows(arguments, model, Path(temporary))


def results(model: Path, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What onnxruntime computes."""
    return onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, inputs)


def error(found: list[np.ndarray], expected: list[np.ndarray]) -> float:
    """The largest difference of an output of floats, in proportion to its largest number."""
    pairs = [(a.astype(np.float64), b.astype(np.float64)) for a, b in zip(found, expected) if b.dtype.kind == "f"]
    return max(np.abs(a - b).max() / max(np.abs(b).max(), np.finfo(np.float32).tiny) for a, b in pairs)
