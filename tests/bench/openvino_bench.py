"""Times OpenVINO on one model: `openvino_bench.py MODEL INPUTS.npz --threads N --duration S [--precision f32]`.

Prints JSON {load_ms, median_ms, runs, precision}; one process measures one model, so that the peak memory is that model's.
"""

import argparse
import json
import statistics
import time
from pathlib import Path

import numpy as np
import openvino
import openvino.properties as properties
import openvino.properties.hint as hint

WARM_UP_RUNS = 2


def compiled(model: Path, threads: int, precision: str | None) -> openvino.CompiledModel:
    """Reads and compiles the model for one request at a time."""
    options = {properties.inference_num_threads(): threads, hint.performance_mode(): hint.PerformanceMode.LATENCY}
    if precision is not None:
        options[hint.inference_precision()] = precision
    return openvino.Core().compile_model(model, "CPU", options)


def milliseconds_per_run(compiled_model: openvino.CompiledModel, inputs: dict[str, np.ndarray], duration: float) -> list[float]:
    """Runs until the duration is over, at least once, and gives the time of each run."""
    request = compiled_model.create_infer_request()
    for port in compiled_model.inputs:
        request.set_tensor(port, openvino.Tensor(inputs[port.any_name]))
    for _ in range(WARM_UP_RUNS):
        request.infer()
    times: list[float] = []
    end = time.perf_counter() + duration
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        request.infer()
        times.append((time.perf_counter() - start) * 1e3)
    return times


def main() -> None:
    """Prints the measurement of one model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("inputs", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--duration", type=float, default=3.0, help="seconds of timed runs")
    parser.add_argument("--precision", choices=["f32", "bf16", "f16"], help="of the sums; OpenVINO's own choice where it is not given")
    arguments = parser.parse_args()
    with np.load(arguments.inputs) as archive:
        inputs = {name: np.require(archive[name], requirements="C") for name in archive}
    start = time.perf_counter()
    model = compiled(arguments.model, arguments.threads, arguments.precision)
    load_ms = (time.perf_counter() - start) * 1e3
    times = milliseconds_per_run(model, inputs, arguments.duration)
    precision = model.get_property(hint.inference_precision()).to_string()
    print(json.dumps({"load_ms": load_ms, "median_ms": statistics.median(times), "runs": len(times), "precision": precision}))


if __name__ == "__main__":
    main()
