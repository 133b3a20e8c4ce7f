"""Compiles the digits net for the K210 with nncase 1.9 and measures what its simulator makes of it.

    python3.10 -m venv env && env/bin/pip install nncase==1.9.0.20230322 onnx==1.14.1 'numpy<2'
    env/bin/python tests/bench/nncase_k210.py DATA/digits [--methods no_clip l2]

DATA/digits is made by `tests/python/prepare.py`. nncase 1.x has wheels for Python 3.10 at most, so this needs an
environment of its own; onnxruntime must not be imported beside it. Prints one Markdown row for each calibration method.
"""

import argparse
import multiprocessing
import os
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

METHODS = ["no_clip", "l2", "cdf", "kld_m0", "kld_m1", "kld_m2"]


def compiled(model: bytes, calibration: np.ndarray, method: str) -> bytes:
    """Compiles a model for the K210, its ranges by one of nncase's methods."""
    import nncase

    with tempfile.TemporaryDirectory() as scratch:
        options = nncase.CompileOptions()
        options.target, options.input_type, options.dump_dir = "k210", "float32", scratch
        options.quant_type, options.w_quant_type = "uint8", "uint8"
        compiler = nncase.Compiler(options)
        compiler.import_onnx(model, nncase.ImportOptions())
        ranges = nncase.PTQTensorOptions()
        ranges.calibrate_method, ranges.samples_count = method, len(calibration)
        ranges.set_tensor_data(calibration.tobytes())
        compiler.use_ptq(ranges)
        compiler.compile()
        return compiler.gencode_tobytes()


def simulated(kmodel: bytes, inputs: np.ndarray) -> np.ndarray:
    """Runs a kmodel on each input."""
    import nncase

    simulator = nncase.Simulator()
    simulator.load_model(kmodel)
    outputs = []
    for values in inputs:
        simulator.set_input_tensor(0, nncase.RuntimeTensor.from_numpy(values[np.newaxis]))
        simulator.run()
        outputs.append(simulator.get_output_tensor(0).to_numpy().reshape(-1))
    return np.stack(outputs)


def inferred(path: Path) -> bytes:
    """Gives a model with the shapes of all its values, which nncase wants."""
    import onnx

    return onnx.shape_inference.infer_shapes(onnx.load(path)).SerializeToString()


def row(folder: Path, method: str) -> str:
    """Measures one method."""
    calibration, inputs = (np.load(folder / f"{name}.npz")["input"] for name in ("calibration", "test"))
    labels, expected = np.load(folder / "labels.npy"), np.load(folder / "float_probabilities.npy")
    model = inferred(folder / "model.onnx")
    start = time.perf_counter()
    kmodel = compiled(model, calibration, method)
    seconds = time.perf_counter() - start
    outputs = simulated(kmodel, inputs)
    chosen = outputs.argmax(axis=1)
    accuracy, agreement = np.mean(chosen == labels), np.mean(chosen == expected.argmax(axis=1))
    error = np.abs(outputs - expected).mean()
    return f"| nncase 1.9 {method} | {accuracy:.4f} | {agreement:.4f} | {error:.5f} | {len(kmodel):,} | {seconds:.1f} |"


def main() -> None:
    """Prints the table; each method has a process of its own, for nncase ends the process where it fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--methods", nargs="+", default=METHODS)
    arguments = parser.parse_args()
    print("| compiler | accuracy | same class as float | mean abs. error of a probability | kmodel bytes | compile s |")
    print("|---|---|---|---|---|---|")
    for method in arguments.methods:
        # What nncase itself says goes to the error output.
        spawned = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, spawned, initializer=os.dup2, initargs=(2, 1)) as pool:
            print(pool.submit(row, arguments.folder, method).result(), flush=True)


if __name__ == "__main__":
    main()
