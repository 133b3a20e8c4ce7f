"""Reads a byoc artifact with the `safetensors` package: `verify_safetensors.py FILE`.

Prints JSON {name: {dtype, shape, sha256}} for the stored constants, which shows that a reader that knows
nothing of byoc sees the same bytes.
"""

import argparse
import hashlib
import json
from pathlib import Path

import ml_dtypes  # noqa: F401  (teaches numpy the name bfloat16)
from safetensors import safe_open

CONSTANTS = "const/"


def constants(path: Path) -> dict[str, dict[str, object]]:
    """Describes each entry that holds a constant."""
    with safe_open(path, framework="numpy") as artifact:
        return {
            name: describe(artifact, name) for name in sorted(artifact.keys()) if name.startswith(CONSTANTS)
        }


def describe(artifact: safe_open, name: str) -> dict[str, object]:
    """Gives the type and shape as the file declares them, and the digest of the bytes."""
    entry = artifact.get_slice(name)
    return {
        "dtype": entry.get_dtype(),
        "shape": entry.get_shape(),
        "sha256": hashlib.sha256(artifact.get_tensor(name).tobytes()).hexdigest(),
    }


def main() -> None:
    """Prints the description of one artifact."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    print(json.dumps(constants(parser.parse_args().file), indent=1))


if __name__ == "__main__":
    main()
