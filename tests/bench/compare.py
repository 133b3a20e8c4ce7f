"""Times byoc beside onnxruntime and tract: one process a measurement, the engines in turn, medians over the rounds.

    python tests/bench/compare.py DATA --byoc target/release/byoc [--tract tests/bench/target/release/byoc-bench]

DATA is a folder made by `tests/python/prepare.py`, and a model is a folder of it (those without another are in "seeded"); run this
in an environment with tests/python/requirements.txt.
Prints one Markdown row a model and thread count. A row's ratio is the median over the rounds of byoc's time over
onnxruntime's of the same round, so that a machine whose speed drifts does not decide it.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

MODELS = ["mobilenet_v2", "resnet50", "vgg19", "bert_base", "gpt2_small", "mlp_4x4096", "mlp_4x4096_b64", "tiny_mlp"]
ORT_BENCH = Path(__file__).resolve().parent.parent / "python" / "ort_bench.py"


def output(command: list[str]) -> dict | None:
    """Runs a command that prints one JSON object, and adds its peak resident memory; None where it fails."""
    with tempfile.TemporaryFile() as printed:
        child = subprocess.Popen(command, stdout=printed)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode != 0:
            print(f"{command[0]} failed with {child.returncode}", file=sys.stderr)
            return None
        printed.seek(0)
        return json.load(printed) | {"peak_mb": usage.ru_maxrss / 1024}


def byoc(program: str, artifact: Path, inputs: Path, threads: int, seconds: float) -> dict | None:
    """One run of `byoc bench`."""
    report = output(
        [program, "bench", str(artifact), "-i", str(inputs), "--threads", str(threads), "--duration", str(seconds), "--json"]
    )
    if report is None:
        return None
    load, median = report["load_seconds"] * 1e3, report["seconds"]["median"] * 1e3
    return {"load_ms": load, "median_ms": median, "peak_mb": report["peak_mb"]}


def measure(arguments: argparse.Namespace, model: str, threads: int, artifact: Path) -> dict[str, list[dict]]:
    """All rounds of one model, by engine."""
    given = folder(arguments.data, model)
    source, inputs = str(given / "model.onnx"), given / "inputs.npz"
    seconds = arguments.duration
    rounds: dict[str, list[dict]] = {"byoc": [], "ort": [], "tract": []}
    for _ in range(arguments.rounds):
        runs = {
            "byoc": byoc(arguments.byoc, artifact, inputs, threads, seconds),
            "ort": output(
                [sys.executable, str(ORT_BENCH), source, str(inputs), "--threads", str(threads), "--duration", str(seconds)]
            ),
        }
        if arguments.tract and threads == 1:
            runs["tract"] = output([arguments.tract, source, str(inputs), "--duration", str(seconds)])
        for engine, run in runs.items():
            if run is not None:
                rounds[engine].append(run)
    return rounds


def row(model: str, threads: int, rounds: dict[str, list[dict]]) -> str:
    """One line of the table."""

    def median(engine: str, key: str) -> str:
        values = [run[key] for run in rounds[engine]]
        return f"{statistics.median(values):.3g}" if values else "-"

    pairs = zip(rounds["byoc"], rounds["ort"])
    ratios = [ours["median_ms"] / theirs["median_ms"] for ours, theirs in pairs]
    ratio = f"{statistics.median(ratios):.2f}" if ratios else "-"
    times = " | ".join(median(engine, "median_ms") for engine in ("byoc", "ort", "tract"))
    loads = " | ".join(median(engine, "load_ms") for engine in ("byoc", "ort", "tract"))
    peaks = " | ".join(median(engine, "peak_mb") for engine in ("byoc", "ort", "tract"))
    return f"| {model} | {threads} | {times} | **{ratio}** | {loads} | {peaks} |"


def folder(data: str, model: str) -> Path:
    """Where a model and its inputs are."""
    return Path(data) / (model if "/" in model else f"seeded/{model}")


def main() -> None:
    """Compiles each model once, then measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--byoc", default="target/release/byoc")
    parser.add_argument("--tract")
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--duration", type=float, default=2.0)
    arguments = parser.parse_args()
    print("| model | threads | byoc ms | onnxruntime ms | tract ms | byoc / ort | load ms: byoc | ort | tract | peak MB: byoc | ort | tract |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as temporary:
        for model in arguments.models:
            artifact = Path(temporary) / "model.byoc"
            source = folder(arguments.data, model) / "model.onnx"
            subprocess.run([arguments.byoc, "compile", str(source), "-o", str(artifact)], check=True, capture_output=True)
            for threads in arguments.threads:
                print(row(model, threads, measure(arguments, model, threads, artifact)), flush=True)
            artifact.unlink()


if __name__ == "__main__":
    main()
