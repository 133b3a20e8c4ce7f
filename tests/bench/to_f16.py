"""Writes models in f16, as onnxruntime's converter makes them: `to_f16.py DATA MODEL...`.

For each MODEL a folder of DATA, as `prepare.py` writes them, `DATA/f16/MODEL` with the model and its inputs in f16.
"""

import sys
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.transformers.float16 import convert_float_to_float16


def main(data: Path, names: list[str]) -> None:
    for name in names:
        source, target = data / name, data / "f16" / name
        target.mkdir(parents=True, exist_ok=True)
        model = convert_float_to_float16(onnx.load(source / "model.onnx"), keep_io_types=False)
        onnx.save(model, target / "model.onnx")
        inputs = np.load(source / "inputs.npz")
        np.savez(target / "inputs.npz", **{key: narrow(inputs[key]) for key in inputs})


def narrow(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float16) if values.dtype == np.float32 else values


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
