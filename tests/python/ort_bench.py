"""Times onnxruntime on one model: `ort_bench.py MODEL INPUTS.npz --threads N --duration S`.

Prints JSON {load_ms, median_ms, p10, p90, runs, peak_mb}; one process measures one model, so that the peak
memory is that model's.
"""

import argparse
import json
import resource
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime

ERROR = 3
"""onnxruntime's number for the log level."""
WARM_UP_RUNS = 2
PEAK_UNITS_PER_MB = 1_000_000 if sys.platform == "darwin" else 1_000_000 / 1024
"""`ru_maxrss` counts bytes on macOS and KiB elsewhere."""


def open_session(model: Path, threads: int) -> onnxruntime.InferenceSession:
    """Opens the model with default optimisations and one operator at a time."""
    options = onnxruntime.SessionOptions()
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = ERROR
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def milliseconds_per_run(
    session: onnxruntime.InferenceSession, inputs: dict[str, np.ndarray], duration: float
) -> list[float]:
    """Runs until the duration is over, at least once, and gives the time of each run."""
    for _ in range(WARM_UP_RUNS):
        session.run(None, inputs)
    times: list[float] = []
    end = time.perf_counter() + duration
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        session.run(None, inputs)
        times.append((time.perf_counter() - start) * 1e3)
    return times


def measure(model: Path, inputs: dict[str, np.ndarray], threads: int, duration: float) -> dict[str, float]:
    """Loads and runs the model."""
    start = time.perf_counter()
    session = open_session(model, threads)
    load_ms = (time.perf_counter() - start) * 1e3
    times = milliseconds_per_run(session, inputs, duration)
    p10, median, p90 = np.percentile(times, (10, 50, 90)).tolist()
    return {
        "load_ms": load_ms,
        "median_ms": median,
        "p10": p10,
        "p90": p90,
        "runs": len(times),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / PEAK_UNITS_PER_MB,
    }


def main() -> None:
    """Prints the measurement of one model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("inputs", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--duration", type=float, default=3.0, help="seconds of timed runs")
    arguments = parser.parse_args()
    with np.load(arguments.inputs) as archive:
        inputs = dict(archive)
    print(json.dumps(measure(arguments.model, inputs, arguments.threads, arguments.duration)))


if __name__ == "__main__":
    main()
