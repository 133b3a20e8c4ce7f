"""Prints as JSON what ml_dtypes has for types of 8 bits and less.

For each type the number of every code, and the code of many numbers; what is not finite is a text.
"""

import json
import math

import ml_dtypes
import numpy as np

TYPES = {
    "f8e4m3fn": "float8_e4m3fn",
    "f8e4m3fnuz": "float8_e4m3fnuz",
    "f8e5m2": "float8_e5m2",
    "f8e5m2fnuz": "float8_e5m2fnuz",
    "f8e8m0": "float8_e8m0fnu",
    "f4e2m1": "float4_e2m1fn",
    "i4": "int4",
    "u4": "uint4",
    "i2": "int2",
    "u2": "uint2",
}
BITS = {"f4e2m1": 4, "i4": 4, "u4": 4, "i2": 2, "u2": 2}
# Powers of two are rounded as an attribute says, and integers are cut off; both are other rules than those of ml_dtypes.
ROUNDED = ("f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f4e2m1")


def plain(number: float) -> float | str:
    """Gives a number as JSON has it."""
    return number if math.isfinite(number) else str(number)


def main() -> None:
    """Prints both lists for each type."""
    rng = np.random.default_rng(7)
    sizes = np.concatenate([np.exp2(rng.uniform(-20, 18, 2000)), np.arange(0, 33) / 8, [np.inf]])
    numbers = np.concatenate([sizes, -sizes]).astype(np.float32)
    found = {}
    for ours, theirs in TYPES.items():
        dtype = getattr(ml_dtypes, theirs)
        codes = np.arange(1 << BITS.get(ours, 8), dtype=np.uint8)
        mask = np.uint8(len(codes) - 1)
        encoded = numbers.astype(dtype).view(np.uint8) & mask
        pairs = zip(numbers.tolist(), encoded.tolist(), strict=True)
        found[ours] = {
            "numbers": [plain(float(number)) for number in codes.view(dtype)],
            "codes": [[plain(number), code] for number, code in pairs] if ours in ROUNDED else [],
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
