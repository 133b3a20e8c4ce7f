"""Writes models in QDQ form, as onnxruntime's tool quantises them: `quantise.py DATA MODEL...`.

A model is a folder of DATA, as in `compare.py`. Its quantised form goes to DATA/qdq/MODEL, for `compare.py`: activations in u8 by the ranges of
its one input, weights in i8 with a scale for each channel. Runs where tests/python/requirements.txt is installed.
"""

import argparse
import logging
import shutil
import sys
import tempfile
from pathlib import Path

import numpy as np
import onnx
from compare import folder
from onnxruntime.quantization.shape_inference import quant_pre_process

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "python"))

from zoo import quantised


def write(given: Path, target: Path) -> None:
    """Writes the quantised form of a model, with its input."""
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch, np.load(given / "inputs.npz") as inputs:
        plain, prepared = (Path(scratch) / part for part in ("plain.onnx", "prepared.onnx"))
        model = onnx.load(given / "model.onnx")
        onnx.save(model, plain)
        if model.opset_import[0].version < quantised.OPSET:
            quantised.modernise(plain)
        quant_pre_process(plain, prepared, skip_symbolic_shape=True)
        quantised.static(prepared, target / "model.onnx", dict(inputs))
    shutil.copy(given / "inputs.npz", target)


def main() -> None:
    """Writes the models that are named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("models", nargs="+")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    for model in arguments.models:
        write(folder(arguments.data, model), arguments.data / "qdq" / Path(model).name)
        print(model, flush=True)


if __name__ == "__main__":
    main()
