"""Times onnxruntime on one model: `ort_bench.py MODEL INPUTS.npz --threads N --duration S`."""

from pathlib import Path

import onnxruntime

from timed_runs import arguments_of, report

ERROR = 3
"""onnxruntime's number for the log level."""


def open_session(model: Path, threads: int, way: str = "default") -> onnxruntime.InferenceSession:
    """Opens the model with one operator at a time, and with default optimisations unless it was saved with them."""
    options = onnxruntime.SessionOptions()
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = ERROR
    if way == "unpacked":
        options.add_session_config_entry("session.disable_prepacking", "1")
    if way == "saved":
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def main() -> None:
    """Prints the measurement of one model."""
    parser = arguments_of(__doc__)
    parser.add_argument("--way", choices=["default", "unpacked", "saved"], default="default", help="how weights are prepared; see ort_ways.py")
    arguments = parser.parse_args()

    def load(inputs):
        session = open_session(arguments.model, arguments.threads, arguments.way)
        return lambda: session.run(None, inputs)

    report(arguments, load)


if __name__ == "__main__":
    main()
