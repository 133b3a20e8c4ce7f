"""Measures the path of the constants through byoc beside `cp`: time, memory and file size for models of several GB.

    python tests/bench/constants.py --byoc target/release/byoc [--sizes 0.5 3 10] [--rounds 3] [--folder DIR]

Makes each model on the spot (a chain of MatMul with 64 MiB of different random weights each, as external data), copies,
compiles and runs it, and deletes everything. Needs free disk of twice the largest size in the folder, and numpy and onnx.
Prints one Markdown row a size. Linux only.

In each round, cold and then warm, the copy comes first and then the compile, so that both see the same disk:
- cold: the page cache holds nothing of the source; warm: all of it, where memory has room for it
- cp: `cp` and `sync` of the copy, for `byoc compile` flushes its file to disk as well
- times are medians over the rounds; a ratio is the median of the rounds' own ratios
- anonymous peak: the highest RssAnon in /proc/PID/status, looked at every 2 ms (VmHWM counts mapped files as well)
- load: from the path to a session that can run
- growth: the highest RssAnon + RssFile of a process that loads and runs the model once, less that of a model of as many
  layers without weights to speak of, over the weights, which that run reads all
"""

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper

WIDTH = 4096
LAYER_BYTES = WIDTH * WIDTH * 4
ALIGNMENT = 4096
"""Where external data starts in its file, as exporters write it."""
SAMPLE_SECONDS = 0.002
MIB = 1024 * 1024


def make_model(folder: Path, layers: int, width: int) -> Path:
    """Writes the model, one layer in memory at a time; the weights keep the outputs in range."""
    random = np.random.default_rng(7)
    initializers, nodes, value = [], [], "x"
    scale = np.float32(2 * (3 / width) ** 0.5)
    with open(folder / "weights.bin", "wb") as data:
        for layer in range(layers):
            weight = random.random((width, width), dtype=np.float32)
            weight -= np.float32(0.5)
            weight *= scale
            data.seek(-data.tell() % ALIGNMENT, os.SEEK_CUR)
            tensor = TensorProto(name=f"layer{layer}.weight", data_type=TensorProto.FLOAT, dims=[width, width])
            tensor.data_location = TensorProto.EXTERNAL
            for key, entry in (("location", "weights.bin"), ("offset", data.tell()), ("length", weight.nbytes)):
                tensor.external_data.add(key=key, value=str(entry))
            weight.tofile(data)
            initializers.append(tensor)
            nodes.append(helper.make_node("MatMul", [value, tensor.name], [f"y{layer}"], name=f"layer{layer}"))
            value = f"y{layer}"
        data.flush()
        os.fsync(data.fileno())
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, width]) for name in ("x", value)]
    graph = helper.make_graph(nodes, "chain", ports[:1], ports[1:], initializer=initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    path = folder / "model.onnx"
    path.write_bytes(model.SerializeToString())
    return path


def warm(path: Path) -> None:
    """Brings a file into the page cache."""
    with open(path, "rb", buffering=0) as file:
        piece = bytearray(8 * MIB)
        while file.readinto(piece):
            pass


def cool(path: Path) -> None:
    """Takes a file out of the page cache."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@dataclass
class Child:
    """What a command that went well took, and what it printed."""

    seconds: float
    anonymous: int
    resident: int
    printed: str


def watch(command: list[str]) -> Child:
    """Runs a command and looks at its memory until it ends; stops the program where it fails."""
    with tempfile.TemporaryFile("w+") as printed:
        start = time.perf_counter()
        child = subprocess.Popen(command, stdout=printed)
        anonymous = resident = 0
        with open(f"/proc/{child.pid}/status", encoding="ascii") as status:
            while child.poll() is None:
                memory = resident_bytes(status)
                anonymous = max(anonymous, memory.get("RssAnon", 0))
                resident = max(resident, memory.get("RssAnon", 0) + memory.get("RssFile", 0))
                time.sleep(SAMPLE_SECONDS)
        seconds = time.perf_counter() - start
        if child.returncode != 0:
            sys.exit(f"{' '.join(command)} failed with {child.returncode}")
        printed.seek(0)
        return Child(seconds, anonymous, resident, printed.read())


def resident_bytes(status) -> dict[str, int]:
    """The resident memory of a process by kind; nothing once it has ended."""
    try:
        status.seek(0)
        lines = status.read().splitlines()
    except ProcessLookupError:
        return {}
    pairs = (line.split(":", 1) for line in lines if line.startswith("Rss"))
    return {name: int(value.removesuffix("kB")) * 1024 for name, value in pairs}


def timed(command: str) -> float:
    """The seconds that a shell command takes."""
    start = time.perf_counter()
    subprocess.run(["sh", "-ec", command], check=True)
    return time.perf_counter() - start


def bench(byoc: str, artifact: Path, repeat: int = 1) -> Child:
    """Loads an artifact and runs it."""
    return watch([byoc, "bench", str(artifact), "--warmup", "0", "--repeat", str(repeat), "--threads", "2", "--json"])


def without_weights(byoc: str, folder: Path, layers: int) -> int:
    """The resident memory of a run of as many layers that are 16 wide."""
    artifact = folder / "model.byoc"
    watch([byoc, "compile", str(make_model(folder, layers, 16)), "-o", str(artifact)])
    # So many runs take long enough to be looked at.
    return bench(byoc, artifact, 10000).resident


@dataclass
class Round:
    """What one round measured with the source in one state of the page cache."""

    copy: float
    compile: Child
    loads: list[float] = field(default_factory=list)


@dataclass
class Size:
    """All that was measured of one model."""

    weights: int
    file: int = 0
    rounds: dict[str, list[Round]] = field(default_factory=lambda: {"cold": [], "warm": []})
    first_runs: list[float] = field(default_factory=list)
    growths: list[float] = field(default_factory=list)
    external: Child | None = None
    external_file: int = 0


def measure(arguments: argparse.Namespace, folder: Path, layers: int) -> Size:
    """All rounds of one model, which is made in `folder`."""
    weights, artifact = folder / "weights.bin", folder / "model.byoc"
    idle = without_weights(arguments.byoc, folder, layers)
    model = make_model(folder, layers, WIDTH)
    size = Size(weights.stat().st_size)
    compile_command = [arguments.byoc, "compile", str(model), "-o", str(artifact)]
    states = {"cold": cool, "warm": warm}
    for _ in range(arguments.rounds):
        for state, prepare in states.items():
            os.sync()
            prepare(weights)
            copy = timed(f"cp --reflink=never '{weights}' '{folder}/copy' && sync '{folder}/copy'")
            (folder / "copy").unlink()
            os.sync()
            prepare(weights)
            found = Round(copy, watch(compile_command))
            size.file = artifact.stat().st_size
            states[state](artifact)
            run = bench(arguments.byoc, artifact)
            report = json.loads(run.printed)
            found.loads.append(report["load_seconds"])
            size.rounds[state].append(found)
            size.growths.append((run.resident - idle) / size.weights)
            if state == "warm":
                size.first_runs.append(report["first_run_seconds"])
            artifact.unlink()
    if arguments.external:
        warm(weights)
        size.external = watch([*compile_command, "--external-constants", "--backend-opt", "cpu.pack=false"])
        size.external_file = artifact.stat().st_size
        artifact.unlink()
    return size


def row(size: Size) -> str:
    """One line of the table."""

    def median(state: str, value) -> float:
        return statistics.median(value(found) for found in size.rounds[state])

    def both(value, form: str) -> str:
        return " | ".join(form.format(median(state, value)) for state in ("cold", "warm"))

    every = [found for rounds in size.rounds.values() for found in rounds]
    external = "-"
    if size.external:
        external = f"{size.external.seconds:.2f} s, {size.external_file:,} bytes"
    cells = [
        f"{size.weights / 1e9:.2f}",
        both(lambda found: found.copy, "{:.2f}"),
        both(lambda found: found.compile.seconds, "{:.2f}"),
        both(lambda found: found.compile.seconds / found.copy, "**{:.2f}**"),
        f"{max(found.compile.anonymous for found in every) / MIB:.1f}",
        f"{size.file / size.weights:.4f}",
        both(lambda found: found.loads[0] * 1e3, "{:.2f}"),
        f"{statistics.median(size.first_runs):.2f}",
        f"{max(size.growths):.3f}",
        external,
    ]
    return "| " + " | ".join(cells) + " |"


COLUMNS = [
    "weights GB", "cp s: cold", "warm", "compile s: cold", "warm", "compile / cp: cold", "warm", "anonymous peak MiB",
    "file / weights", "load ms: cold", "warm", "first run s", "growth / weights", "with --external-constants, as they are",
]  # fmt: skip


def parse_arguments() -> argparse.Namespace:
    """Reads the command line and asks the program what it can do."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--byoc", default="target/release/byoc", help="the program, a release build")
    parser.add_argument("--sizes", nargs="+", type=float, default=[0.5, 3, 10], metavar="GB", help="10^9 bytes each")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", help="where the models are made; the system's folder for temporary files if not given")
    arguments = parser.parse_args()
    usage = subprocess.run([arguments.byoc, "compile", "--help"], check=True, capture_output=True, text=True).stdout
    arguments.external = "--external-constants" in usage
    return arguments


def main() -> None:
    """Measures size after size, each in a folder of its own."""
    arguments = parse_arguments()
    print("| " + " | ".join(COLUMNS) + " |")
    print("|---" * len(COLUMNS) + "|")
    for wanted in arguments.sizes:
        layers = math.ceil(wanted * 1e9 / LAYER_BYTES)
        with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
            needed, free = 2.05 * layers * LAYER_BYTES, shutil.disk_usage(folder).free
            if free < needed:
                sys.exit(f"{wanted} GB: {folder} has {free / 1e9:.1f} GB free, and {needed / 1e9:.1f} GB are needed")
            print(row(measure(arguments, Path(folder), layers)), flush=True)


if __name__ == "__main__":
    main()
