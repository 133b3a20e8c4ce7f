"""What the Python module costs: a run beside the program's, outputs of 64 MiB, two threads beside one, the import.

    env/bin/pip install target/wheels/byoc-*.whl onnx
    env/bin/python tests/bench/python_module.py MODEL.onnx

MODEL takes one input whose sizes are fixed, and is run by two threads; a model of one Relu of eight elements is made for the rest.
"""

import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

import byoc

RUNS = 20_000
ROUNDS = 7


def small(folder: Path) -> Path:
    """A model of as little work as there can be."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "main", ports[:1], ports[1:])
    path = folder / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


def seconds_a_run(run) -> float:
    """The median over rounds."""
    rounds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(RUNS):
            run()
        rounds.append((time.perf_counter() - start) / RUNS)
    return statistics.median(rounds)


def overhead(folder: Path) -> None:
    """A run from Python and one in the program."""
    path = small(folder)
    session = byoc.Session(path, threads=1)
    inputs = {"x": np.ones(8, np.float32)}
    copied, lent = seconds_a_run(lambda: session.run(inputs)), seconds_a_run(lambda: session.run(inputs, copy=False))
    bench = [byoc._program(), "bench", path, "--threads", "1", "--duration", "1", "--json"]
    own = json.loads(subprocess.run(bench, check=True, capture_output=True).stdout)["seconds"]["median"]
    out = {"y": byoc.empty(8)}
    given = seconds_a_run(lambda: session.run(inputs, out=out))
    print(f"a run: {copied * 1e6:.2f} us from Python, {lent * 1e6:.2f} us with copy=False, {given * 1e6:.2f} us with out, {own * 1e6:.2f} us in the program")


def outputs(folder: Path) -> None:
    """A run whose output is large, by the place that the output gets."""
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [64 << 18]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "main", ports[:1], ports[1:])
    path = folder / "large.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    session = byoc.Session(path, threads=1)
    inputs = {"x": np.ones(64 << 18, np.float32)}
    aligned = byoc.empty(64 << 18)
    others = byoc.empty((64 << 18) + 4)[4:]
    ways = {"new arrays": {}, "copy=False": {"copy": False}, "out": {"out": {"y": aligned}}, "out at 16 bytes": {"out": {"y": others}}}
    times: dict[str, list[float]] = {way: [] for way in ways}
    for _ in range(ROUNDS * 3):
        for way, wishes in ways.items():
            start = time.perf_counter()
            session.run(inputs, **wishes)
            times[way].append(time.perf_counter() - start)
    print("an output of 64 MiB:", ", ".join(f"{way} {statistics.median(found) * 1e3:.1f} ms" for way, found in times.items()))


def threads(model: str, folder: Path) -> None:
    """Two threads with a session each over one."""
    artifact = folder / "model.byoc"
    byoc.compile(model, artifact)
    sessions = [byoc.Session(artifact, threads=1) for _ in range(2)]
    [port] = sessions[0].inputs
    inputs = {port.name: np.random.default_rng(0).random(port.shape, dtype=np.float32)}
    start = time.perf_counter()
    [session.run(inputs) for session in sessions]
    count = max(5, round(1.0 / (time.perf_counter() - start)))

    def rate(used) -> float:
        workers = [threading.Thread(target=lambda session=session: [session.run(inputs) for _ in range(count)]) for session in used]
        start = time.perf_counter()
        [worker.start() for worker in workers]
        [worker.join() for worker in workers]
        return count * len(used) / (time.perf_counter() - start)

    print(f"two threads over one: {statistics.median(rate(sessions) / rate(sessions[:1]) for _ in range(ROUNDS)):.2f}")


def importing() -> None:
    """The time of the import in a new interpreter."""
    code = "import time; start = time.perf_counter(); import byoc; print(time.perf_counter() - start)"
    found = [float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout) for _ in range(ROUNDS)]
    print(f"import: {statistics.median(found) * 1e3:.0f} ms")


def main() -> None:
    """Measures all of it."""
    with tempfile.TemporaryDirectory() as folder:
        overhead(Path(folder))
        outputs(Path(folder))
        threads(sys.argv[1], Path(folder))
    importing()


if __name__ == "__main__":
    main()
