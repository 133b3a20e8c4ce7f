"""Times byoc beside other engines: one process a measurement, the engines in turn, medians over the rounds.

    python tests/bench/compare.py DATA --byoc target/release/byoc [--openvino] [--tract tests/bench/tract/target/release/byoc-bench-tract]

DATA is a folder made by `tests/python/prepare.py`, and a model is a folder of it (those without another are in "seeded"); run this
in an environment with tests/python/requirements.txt, and with openvino where it is asked for, whose sums are then f32.
Prints one Markdown row a model and thread count. With `--ceilings`, a row has the least time that the machine needs for the
multiplications and additions of direct formulas, or for reading the file once, whichever is longer. A row's ratio is the median over the rounds of byoc's time over the fastest
other engine's of the same round, so that a machine whose speed drifts does not decide it. "by least times" is the ratio of the least times of
all rounds: what others take from the machine only makes runs longer.
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
HERE = Path(__file__).resolve().parent
ORT_BENCH = HERE / "ort_bench.py"
OPENVINO_BENCH = HERE / "openvino_bench.py"


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
    seconds = {"load_ms": report["load_seconds"], "first_ms": report["first_run_seconds"]}
    seconds |= {"median_ms": report["seconds"]["median"], "least_ms": report["seconds"]["min"]}
    return {name: value * 1e3 for name, value in seconds.items()} | {"peak_mb": report["peak_mb"]}


def floor_ms(arguments: argparse.Namespace, artifact: Path, inputs: Path, threads: int) -> float:
    """The least time of a run, from what its steps tell of their work."""
    command = [arguments.byoc, "bench", str(artifact), "-i", str(inputs), "--threads", "1", "--repeat", "1", "--profile", "--json"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    operations = sum(operator.get("operations", 0) for operator in report["operators"])
    rate, bandwidth = (1e6 * threads * ceiling for ceiling in arguments.ceilings)
    return max(operations / rate, artifact.stat().st_size / bandwidth)


def peers(arguments: argparse.Namespace, model: str, threads: int) -> dict[str, list[str]]:
    """The commands that measure the other engines, by their names."""
    given = folder(arguments.data, model)
    what = [str(given / "model.onnx"), str(given / "inputs.npz")]
    how = ["--threads", str(threads), "--duration", str(arguments.duration)]
    commands = {"onnxruntime": [sys.executable, str(ORT_BENCH), *what, *how]}
    if arguments.openvino:
        commands["openvino"] = [sys.executable, str(OPENVINO_BENCH), *what, *how, "--precision", "f32"]
    if arguments.tract and threads == 1:
        commands["tract"] = [arguments.tract, *what, "--duration", str(arguments.duration)]
    return commands


def measure(arguments: argparse.Namespace, model: str, threads: int, artifact: Path) -> list[dict[str, dict]]:
    """The runs of each round, by engine."""
    inputs = folder(arguments.data, model) / "inputs.npz"
    rounds = []
    for _ in range(arguments.rounds):
        runs = {"byoc": byoc(arguments.byoc, artifact, inputs, threads, arguments.duration)}
        runs |= {engine: output(command) for engine, command in peers(arguments, model, threads).items()}
        rounds.append({engine: run for engine, run in runs.items() if run is not None})
    return rounds


def row(model: str, threads: int, rounds: list[dict[str, dict]], engines: list[str], floor: float | None) -> str:
    """One line of the table."""

    def medians(key: str) -> str:
        values = [[runs[engine][key] for runs in rounds if engine in runs] for engine in engines]
        return " | ".join(f"{statistics.median(of_one):.3g}" if of_one else "-" for of_one in values)

    def ratio(runs: dict[str, dict]) -> float | None:
        others = [run["median_ms"] for engine, run in runs.items() if engine != "byoc"]
        return runs["byoc"]["median_ms"] / min(others) if others and "byoc" in runs else None

    ratios = [ratio(runs) for runs in rounds if ratio(runs) is not None]
    ratio_of_all = f"{statistics.median(ratios):.2f}" if ratios else "-"
    runs_of = {engine: [runs[engine] for runs in rounds if engine in runs] for engine in engines}
    least = {engine: min(run["least_ms"] for run in of_one) for engine, of_one in runs_of.items() if of_one}
    ours, others = least.pop("byoc", None), least.values()
    ratio_of_least = f"{ours / min(others):.2f}" if ours is not None and others else "-"
    times, loads, peaks = (medians(key) for key in ("median_ms", "load_ms", "peak_mb"))
    floors = "" if floor is None else f" {floor:.3g} |"
    return f"| {model} | {threads} | {times} | **{ratio_of_all}** | {ratio_of_least} | {loads} | {peaks} |{floors}"


def folder(data: str, model: str) -> Path:
    """Where a model and its inputs are."""
    return Path(data) / (model if "/" in model else f"seeded/{model}")


def main() -> None:
    """Compiles each model once, then measures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--byoc", default="target/release/byoc")
    parser.add_argument("--openvino", action="store_true")
    parser.add_argument("--tract")
    parser.add_argument("--ceilings", nargs=2, type=float, metavar=("GFLOP/S", "GB/S"), help="what one core can do; threads do as often as much")
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--threads", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--duration", type=float, default=2.0)
    arguments = parser.parse_args()
    engines = ["byoc", "onnxruntime"] + ["openvino"] * arguments.openvino + ["tract"] * bool(arguments.tract)
    columns = ["model", "threads", *(f"{engine} ms" for engine in engines), "byoc / fastest other", "by least times"]
    columns += [f"{what}: {engine}" for what in ("load ms", "peak MB") for engine in engines]
    columns += ["floor ms"] * bool(arguments.ceilings)
    print("| " + " | ".join(columns) + " |")
    print("|---" * len(columns) + "|")
    with tempfile.TemporaryDirectory() as temporary:
        for model in arguments.models:
            artifact = Path(temporary) / "model.byoc"
            source = folder(arguments.data, model) / "model.onnx"
            subprocess.run([arguments.byoc, "compile", str(source), "-o", str(artifact)], check=True, capture_output=True)
            for threads in arguments.threads:
                inputs = folder(arguments.data, model) / "inputs.npz"
                floor = floor_ms(arguments, artifact, inputs, threads) if arguments.ceilings else None
                rounds = measure(arguments, model, threads, artifact)
                print(row(model, threads, rounds, engines, floor), flush=True)
            artifact.unlink()


if __name__ == "__main__":
    main()
