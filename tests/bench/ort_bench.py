"""Times onnxruntime on one model: `ort_bench.py MODEL INPUTS.npz --threads N --duration S`."""

from pathlib import Path

import onnxruntime

from timed_runs import arguments_of, report

ERROR = 3
"""onnxruntime's number for the log level."""


def open_session(model: Path, threads: int) -> onnxruntime.InferenceSession:
    """Opens the model with default optimisations and one operator at a time."""
    options = onnxruntime.SessionOptions()
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = ERROR
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def main() -> None:
    """Prints the measurement of one model."""
    arguments = arguments_of(__doc__).parse_args()

    def load(inputs):
        session = open_session(arguments.model, arguments.threads)
        return lambda: session.run(None, inputs)

    report(arguments, load)


if __name__ == "__main__":
    main()
