"""Times OpenVINO on one model: `openvino_bench.py MODEL INPUTS.npz --threads N --duration S [--precision f32]`."""

from pathlib import Path

import openvino
import openvino.properties as properties
import openvino.properties.hint as hint

from timed_runs import arguments_of, report


def compiled(model: Path, threads: int, precision: str | None) -> openvino.CompiledModel:
    """Reads and compiles the model for one request at a time."""
    options = {properties.inference_num_threads(): threads, hint.performance_mode(): hint.PerformanceMode.LATENCY}
    if precision is not None:
        options[hint.inference_precision()] = precision
    return openvino.Core().compile_model(model, "CPU", options)


def main() -> None:
    """Prints the measurement of one model."""
    parser = arguments_of(__doc__)
    parser.add_argument("--precision", choices=["f32", "bf16", "f16"], help="of the sums; OpenVINO's own choice where it is not given")
    arguments = parser.parse_args()

    def load(inputs):
        model = compiled(arguments.model, arguments.threads, arguments.precision)
        request = model.create_infer_request()
        for port in model.inputs:
            request.set_tensor(port, openvino.Tensor(inputs[port.any_name]))
        return request.infer

    report(arguments, load)


if __name__ == "__main__":
    main()
