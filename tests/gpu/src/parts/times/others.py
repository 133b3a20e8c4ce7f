"""Times others on the encoder of BERT in f16: MODEL.onnx LAYERS WIDTH HEADS SEQUENCE BATCH.

Prints a line for each that is there and has the device: onnxruntime with CUDA on the model itself, PyTorch's compiled
mode on the same layers with random weights. The median of runs whose input and output stay on the device.
"""

import statistics
import sys
import time

WARM_UP, RUNS = 10, 50


def median_ms(run, wait) -> float:
    """Gives the median time of a run, the wait for the device included."""
    times = []
    for index in range(WARM_UP + RUNS):
        start = time.perf_counter()
        run()
        wait()
        if index >= WARM_UP:
            times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def onnxruntime_ms(model: str, shape: tuple[int, int, int]) -> float | None:
    """Times the model with its input and output bound to the device."""
    import numpy as np
    import onnxruntime

    if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        return None
    session = onnxruntime.InferenceSession(model, providers=["CUDAExecutionProvider"])
    value = onnxruntime.OrtValue.ortvalue_from_numpy(np.random.uniform(-1, 1, shape).astype(np.float16), "cuda", 0)
    binding = session.io_binding()
    binding.bind_ortvalue_input(session.get_inputs()[0].name, value)
    binding.bind_output(session.get_outputs()[0].name, "cuda")
    return median_ms(lambda: session.run_with_iobinding(binding), binding.synchronize_outputs)


def torch_ms(layers: int, width: int, heads: int, shape: tuple[int, int, int]) -> float | None:
    """Times the same layers, compiled with PyTorch's most thorough search."""
    import torch

    if not torch.cuda.is_available():
        return None
    layer = torch.nn.TransformerEncoderLayer(width, heads, 4 * width, 0.0, "gelu", batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False).half().cuda().eval()
    value = torch.rand(shape, dtype=torch.float16, device="cuda") * 2 - 1
    with torch.inference_mode():
        compiled = torch.compile(encoder, mode="max-autotune")
        return median_ms(lambda: compiled(value), torch.cuda.synchronize)


def main() -> None:
    """Asks each in turn; one that is not installed says nothing, one that fails says why."""
    model, (layers, width, heads, sequence, batch) = sys.argv[1], map(int, sys.argv[2:7])
    shape = (batch, sequence, width)
    others = {
        "onnxruntime": lambda: onnxruntime_ms(model, shape),
        "torch.compile": lambda: torch_ms(layers, width, heads, shape),
    }
    for name, ask in others.items():
        try:
            found = ask()
        except ImportError:
            continue
        except Exception as error:  # noqa: BLE001: whatever it is, the other one is asked too
            print(f"{name}: {str(error).splitlines()[0] if str(error) else type(error).__name__}")
            continue
        if found is not None:
            print(f"{name} {found:.4f}")


main()
