"""Prints the initializers of a model whose bytes stand in a file: `verbatim.py MODEL.onnx FILE`, a JSON list of names.

Only those of 16 bytes and more: shorter ones occur by chance.
"""

import argparse
import json
from pathlib import Path

import onnx
from onnx import numpy_helper

LEAST_BYTES = 16


def main() -> None:
    """Prints the list."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("file", type=Path)
    arguments = parser.parse_args()
    file = arguments.file.read_bytes()
    found = []
    for initializer in onnx.load(arguments.model).graph.initializer:
        raw = numpy_helper.to_array(initializer).tobytes()
        if len(raw) >= LEAST_BYTES and any(raw) and raw in file:
            found.append(initializer.name)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
