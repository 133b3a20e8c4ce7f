"""What measurements of engines in Python have in common: arguments, warm-up, the loop of timed runs, the report.

Prints JSON {load_ms, first_ms, median_ms, least_ms, p10, p90, runs}; one process measures one model, so that its peak memory is that model's.
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

Inputs = dict[str, np.ndarray]
WARM_UP_RUNS = 1


def milliseconds_per_run(run: Callable[[], object], duration: float) -> list[float]:
    """Runs until the duration is over, at least once, and gives the time of each run."""
    for _ in range(WARM_UP_RUNS):
        run()
    times: list[float] = []
    end = time.perf_counter() + duration
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        run()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def arguments_of(description: str | None) -> argparse.ArgumentParser:
    """The arguments that every engine has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("model", type=Path)
    parser.add_argument("inputs", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--duration", type=float, default=3.0, help="seconds of timed runs")
    return parser


def report(arguments: argparse.Namespace, load: Callable[[Inputs], Callable[[], object]]) -> None:
    """Loads the model, which gives what runs it on these inputs, and prints the measurement."""
    with np.load(arguments.inputs) as archive:
        inputs = {name: np.require(archive[name], requirements="C") for name in archive}
    start = time.perf_counter()
    run = load(inputs)
    load_ms = (time.perf_counter() - start) * 1e3
    start = time.perf_counter()
    run()
    first_ms = (time.perf_counter() - start) * 1e3
    times = milliseconds_per_run(run, arguments.duration)
    least, p10, median, p90 = np.percentile(times, (0, 10, 50, 90)).tolist()
    of_runs = {"median_ms": median, "least_ms": least, "p10": p10, "p90": p90, "runs": len(times)}
    print(json.dumps({"load_ms": load_ms, "first_ms": first_ms} | of_runs))
