"""Times models with weights of 8 bits: `int8.py DATA MODEL... --byoc target/release/byoc [--threads 1 2] [--rounds N] [--duration S]`.

A model is a folder of DATA, as in `compare.py`. onnxruntime's `quantize_dynamic` (a scale for each channel of a weight) writes it to
`DATA/int8/MODEL`; byoc compiles the model of f32 by `json.weights=int8`. Prints one Markdown row a model and thread count: medians over the
rounds of byoc's time in f32, with the option and of the quantised model, and of onnxruntime's of the quantised model, then the ratios (each
the median over the rounds) of byoc's time with the option to its own in f32 and to onnxruntime's; sizes of the files; and how far the outputs
are off those of f32, in proportion to the largest, by byoc and by onnxruntime.
"""

import argparse
import logging
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
from compare import ORT_BENCH, byoc, folder, output
from onnxruntime.quantization import QuantType, quantize_dynamic
from tables import error, print_rows, results

COLUMNS = ["model", "threads", "byoc, f32: ms", "int8", "of the quantised model", "onnxruntime of it", "int8 / f32", "int8 / onnxruntime"]
COLUMNS += ["MB: model", "int8", "quantised model", "error: byoc", "onnxruntime"]


def quantised(given: Path, target: Path) -> Path:
    """The model as onnxruntime quantises it."""
    target.mkdir(parents=True, exist_ok=True)
    model = target / "model.onnx"
    if not model.exists():
        quantize_dynamic(given / "model.onnx", model, weight_type=QuantType.QInt8, per_channel=True, op_types_to_quantize=["MatMul", "Gemm", "Conv"])
    return model


def rows(arguments: argparse.Namespace, model: str, temporary: Path) -> None:
    """The rows of one model."""
    given = folder(arguments.data, model)
    other = quantised(given, Path(arguments.data) / "int8" / Path(model).name)
    inputs = given / "inputs.npz"
    ways = {"f32": (given / "model.onnx", "model"), "int8": (given / "model.onnx", "int8"), "quantised": (other, "model")}
    artifacts = {way: temporary / f"{way}.byoc" for way in ways}
    for way, (source, weights) in ways.items():
        command = [arguments.byoc, "compile", str(source), "-o", str(artifacts[way]), "--backend-opt", f"json.weights={weights}"]
        subprocess.run(command, check=True, capture_output=True)
    found = temporary / "found.npz"
    subprocess.run([arguments.byoc, "run", str(artifacts["int8"]), "-i", str(inputs), "-o", str(found)], check=True, capture_output=True)
    exact = results(given / "model.onnx", dict(np.load(inputs)))
    errors = [error(list(np.load(found).values()), exact), error(results(other, dict(np.load(inputs))), exact)]
    sizes = [path.stat().st_size / 1e6 for path in (given / "model.onnx", artifacts["int8"], other)]
    for threads in arguments.threads:
        rounds = []
        for _ in range(arguments.rounds):
            runs = {way: byoc(arguments.byoc, artifact, inputs, threads, arguments.duration) for way, artifact in artifacts.items()}
            how = ["--threads", str(threads), "--duration", str(arguments.duration)]
            runs["onnxruntime"] = output([sys.executable, str(ORT_BENCH), str(other), str(inputs), *how])
            rounds.append({way: run["median_ms"] for way, run in runs.items()})
        times = [statistics.median(run[way] for run in rounds) for way in ("f32", "int8", "quantised", "onnxruntime")]
        ratios = [statistics.median(run["int8"] / run[way] for run in rounds) for way in ("f32", "onnxruntime")]
        cells = [f"{time:.3g}" for time in times] + [f"**{ratio:.2f}**" for ratio in ratios] + [f"{size:.1f}" for size in sizes]
        print("| " + " | ".join([model, str(threads), *cells, *(f"{off:.1e}" for off in errors)]) + " |", flush=True)


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    print_rows(__doc__, COLUMNS, rows)
