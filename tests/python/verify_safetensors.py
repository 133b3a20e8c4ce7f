"""Reads a byoc artifact with the `safetensors` package: `verify_safetensors.py FILE MODEL LEDGER`.

LEDGER is what `byoc inspect FILE --constants --json` prints. Holds every stored constant of the file against the
initializers of MODEL that the ledger says it is, and stops at the first that is something else. So a reader that knows
nothing of byoc sees the weights of the model. Prints JSON {entry: {fate, dtype, shape, names}}.
"""

import argparse
import json
from pathlib import Path

import ml_dtypes  # noqa: F401  (teaches numpy the name bfloat16)
import numpy as np
import onnx
from onnx import numpy_helper
from safetensors import safe_open

CONSTANTS = "const/"


def verify(artifact: safe_open, weights: dict[str, np.ndarray], ledger: list[dict]) -> dict[str, dict[str, object]]:
    """Checks every entry that holds a constant, and describes it."""
    described = {}
    for entry in sorted(name for name in artifact.keys() if name.startswith(CONSTANTS)):
        number = int(entry.removeprefix(CONSTANTS))
        rows = [row for row in ledger if row.get("stored") == number and row["fate"] != "viewed"]
        require(len(rows) == 1 and len(rows[0]["names"]) > 0, f"{entry}: {len(rows)} rows of the ledger")
        row = rows[0]
        tensor, declared = artifact.get_tensor(entry), artifact.get_slice(entry)
        for name in row["names"]:
            transposed = name in row.get("transposed", [])
            what = f"{entry}, '{name}'"
            compare(what, row, tensor, weights[name].T if transposed else weights[name])
        described[entry] = {
            "fate": row["fate"],
            "dtype": declared.get_dtype(),
            "shape": declared.get_shape(),
            "names": row["names"],
        }
    return described


def compare(what: str, row: dict, tensor: np.ndarray, weight: np.ndarray) -> None:
    """Holds what the file has against one initializer."""
    require(tensor.dtype == weight.dtype, f"{what}: {tensor.dtype} in the file, {weight.dtype} in the model")
    if row["fate"] == "packed":
        # In what order the elements stand is the backend's business.
        require(sorted_bytes(tensor) == sorted_bytes(weight), f"{what}: other elements")
        return
    require(row["fate"] == "stored", f"{what}: it is {row['fate']} and stands in the file")
    require(list(tensor.shape) == row["shape"], f"{what}: {tensor.shape} in the file, {row['shape']} in the ledger")
    if tensor.size == 1:
        # Of a constant whose elements are all equal the file has one.
        weight = np.unique(weight)
    require(tensor.tobytes() == weight.tobytes(), f"{what}: other bytes")


def sorted_bytes(array: np.ndarray) -> bytes:
    """Gives the elements of an array in an order that depends on nothing but them."""
    return np.sort(array, axis=None).tobytes()


def require(condition: bool, complaint: str) -> None:
    """Stops the program where a check fails."""
    if not condition:
        raise SystemExit(complaint)


def main() -> None:
    """Verifies one artifact."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("file", "model", "ledger"):
        parser.add_argument(name, type=Path)
    arguments = parser.parse_args()
    initializers = onnx.load(arguments.model).graph.initializer
    weights = {tensor.name: numpy_helper.to_array(tensor) for tensor in initializers}
    ledger = json.loads(arguments.ledger.read_text())["constants"]
    with safe_open(arguments.file, framework="numpy") as artifact:
        print(json.dumps(verify(artifact, weights, ledger), indent=1))


if __name__ == "__main__":
    main()
