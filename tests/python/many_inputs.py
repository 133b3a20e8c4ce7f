"""Writes more inputs for a model and what onnxruntime makes of them, node by node: `many_inputs.py MODEL INPUTS.npz COUNT FOLDER`.

Each is the given one with its elements in another order, which keeps the range of values that a quantised model was made for.
"""

import argparse
from pathlib import Path

import numpy as np

from zoo import quantised, runner


def main() -> None:
    """Writes `inputsN.npz` and `outputsN.npz`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("inputs", type=Path)
    parser.add_argument("count", type=int)
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    session = quantised.node_by_node(arguments.model)
    with np.load(arguments.inputs) as archive:
        given = dict(archive)
    for index in range(arguments.count):
        order = np.random.default_rng(index)
        inputs = {name: order.permuted(array.reshape(-1)).reshape(array.shape) for name, array in given.items()}
        np.savez(arguments.folder / f"inputs{index}.npz", **inputs)
        np.savez(arguments.folder / f"outputs{index}.npz", **runner.run(session, inputs))


if __name__ == "__main__":
    main()
