"""Files, load, first result and memory of byoc beside the ways in which onnxruntime can be given its weights.

    python tests/bench/ort_ways.py DATA --byoc target/release/byoc [--models resnet50 ...] [--rounds 3]

"default" is the model as it is; "unpacked" has its weights in a file beside it, which is mapped, and packs none; "saved" is what
onnxruntime saved after its optimisations, with packed weights in a file beside it. One process a measurement, the ways in turn, one
thread, medians over the rounds; files are in the page cache. "first result" is load and first run together, from a process that
has read its inputs.
"""

import argparse
import multiprocessing
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from compare import MODELS, ORT_BENCH, byoc, folder, output

SMALLEST = 1024
"""Bytes of a weight from which on it goes into the file beside the model."""


def external(source: Path, target: Path) -> None:
    """Writes the model with its weights in a file beside it."""
    import onnx

    settings = {"all_tensors_to_one_file": True, "location": "weights.bin", "size_threshold": SMALLEST}
    onnx.save_model(onnx.load(source), target, save_as_external_data=True, **settings)


def saved(source: Path, target: Path) -> None:
    """Has onnxruntime write its optimised model with packed weights in a file beside it."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(target)
    for key, value in {
        "optimized_model_external_initializers_file_name": "weights.bin",
        "optimized_model_external_initializers_min_size_in_bytes": str(SMALLEST),
        "save_external_prepacked_constant_initializers": "1",
    }.items():
        options.add_session_config_entry(f"session.{key}", value)
    onnxruntime.InferenceSession(source, options, providers=["CPUExecutionProvider"])


def prepared(program: str, source: Path, place: Path) -> dict[str, Path]:
    """The file to open of each way."""
    files = {"byoc": place / "byoc" / "model.byoc"}
    files |= {way: place / way / "model.onnx" for way in ("default", "unpacked", "saved")}
    for file in files.values():
        file.parent.mkdir()
    subprocess.run([program, "compile", str(source), "-o", str(files["byoc"])], check=True, capture_output=True)
    shutil.copy(source, files["default"])
    external(source, files["unpacked"])
    saved(source, files["saved"])
    return files


def measured(arguments: argparse.Namespace, way: str, file: Path, inputs: Path) -> dict:
    """One run of a way."""
    if way == "byoc":
        run = byoc(arguments.byoc, file, inputs, 1, arguments.duration)
    else:
        how = ["--threads", "1", "--duration", str(arguments.duration), "--way", way]
        run = output([sys.executable, str(ORT_BENCH), str(file), str(inputs), *how])
    return run or sys.exit(f"{file} cannot be measured")


def main() -> None:
    """Prints a Markdown row a model and way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data")
    parser.add_argument("--byoc", default="target/release/byoc")
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--duration", type=float, default=1.0)
    arguments = parser.parse_args()
    columns = ["model", "way", "files MB", "load ms", "first run ms", "first result ms", "steady ms", "first result / steady", "peak MB"]
    print("| " + " | ".join(columns) + " |")
    print("|---" * len(columns) + "|")
    for model in arguments.models:
        given = folder(arguments.data, model)
        with tempfile.TemporaryDirectory() as temporary:
            # In a process of its own, which alone imports onnx and onnxruntime: the peak memory of a process begins with that of the
            # one that starts it.
            with multiprocessing.get_context("spawn").Pool(1) as other:
                files = other.apply(prepared, (arguments.byoc, given / "model.onnx", Path(temporary)))
            runs = [{way: measured(arguments, way, file, given / "inputs.npz") for way, file in files.items()} for _ in range(arguments.rounds)]
            for way, file in files.items():
                size = sum(part.stat().st_size for part in file.parent.iterdir()) / 1e6
                of_way = [round_of[way] for round_of in runs]
                load, first, steady, peak = (statistics.median(run[key] for run in of_way) for key in ("load_ms", "first_ms", "median_ms", "peak_mb"))
                result = statistics.median(run["load_ms"] + run["first_ms"] for run in of_way)
                ratio = statistics.median((run["load_ms"] + run["first_ms"]) / run["median_ms"] for run in of_way)
                cells = [model, way, *(f"{cell:.3g}" for cell in (size, load, first, result, steady, ratio, peak))]
                print("| " + " | ".join(cells) + " |", flush=True)


if __name__ == "__main__":
    main()
