"""Times models whose products are of bf16: `bf16.py DATA MODEL... --byoc target/release/byoc [--threads 1 2] [--rounds N] [--duration S]`.

A model is a folder of DATA, as in `compare.py`. byoc compiles it by `json.math=bf16`, without and with `json.weights=bf16`; OpenVINO runs it
as it does by default, which is in bf16 where the processor multiplies such numbers. Prints one Markdown row a model and thread count: medians
over the rounds of byoc's time in f32, in bf16 and with weights of bf16, and of OpenVINO's, then the ratios (each the median over the rounds) of
byoc's time in bf16 to its own in f32 and of the faster of byoc's two in bf16 to OpenVINO's; how far the outputs are off those of
onnxruntime in f32, in proportion to the largest, by byoc's two and by OpenVINO.
"""

import argparse
import statistics
import subprocess
import sys
from pathlib import Path

import numpy as np
import openvino
from compare import OPENVINO_BENCH, byoc, folder, output
from openvino_bench import compiled
from tables import error, print_rows, results

COLUMNS = ["model", "threads", "byoc, f32: ms", "bf16", "weights of bf16 too", "OpenVINO", "bf16 / f32", "faster / OpenVINO"]
COLUMNS += ["error: bf16", "weights of bf16 too", "OpenVINO"]
WAYS = {"f32": [], "bf16": ["json.math=bf16"], "weights": ["json.math=bf16", "json.weights=bf16"]}


def openvino_results(model: Path, inputs: dict[str, np.ndarray]) -> list[np.ndarray]:
    """What OpenVINO computes by default."""
    found = compiled(model, 1, None)({name: openvino.Tensor(value) for name, value in inputs.items()})
    return [found[port] for port in found]


def rows(arguments: argparse.Namespace, model: str, temporary: Path) -> None:
    """The rows of one model."""
    given = folder(arguments.data, model)
    inputs = given / "inputs.npz"
    artifacts = {way: temporary / f"{way}.byoc" for way in WAYS}
    exact = results(given / "model.onnx", dict(np.load(inputs)))
    errors = []
    for way, options in WAYS.items():
        settings = [word for option in options for word in ("--backend-opt", option)]
        command = [arguments.byoc, "compile", str(given / "model.onnx"), "-o", str(artifacts[way]), *settings]
        subprocess.run(command, check=True, capture_output=True)
        found = temporary / "found.npz"
        subprocess.run([arguments.byoc, "run", str(artifacts[way]), "-i", str(inputs), "-o", str(found)], check=True, capture_output=True)
        errors.append(error(list(np.load(found).values()), exact))
    errors.append(error(openvino_results(given / "model.onnx", dict(np.load(inputs))), exact))
    for threads in arguments.threads:
        rounds = []
        for _ in range(arguments.rounds):
            runs = {way: byoc(arguments.byoc, artifact, inputs, threads, arguments.duration) for way, artifact in artifacts.items()}
            how = ["--threads", str(threads), "--duration", str(arguments.duration)]
            runs["openvino"] = output([sys.executable, str(OPENVINO_BENCH), str(given / "model.onnx"), str(inputs), *how])
            rounds.append({way: run["median_ms"] for way, run in runs.items()})
        times = [statistics.median(run[way] for run in rounds) for way in (*WAYS, "openvino")]
        to_f32 = statistics.median(run["bf16"] / run["f32"] for run in rounds)
        to_other = statistics.median(min(run["bf16"], run["weights"]) / run["openvino"] for run in rounds)
        cells = [f"{time:.3g}" for time in times] + [f"**{ratio:.2f}**" for ratio in (to_f32, to_other)]
        print("| " + " | ".join([model, str(threads), *cells, *(f"{off:.1e}" for off in errors[1:])]) + " |", flush=True)


if __name__ == "__main__":
    print_rows(__doc__, COLUMNS, rows)
