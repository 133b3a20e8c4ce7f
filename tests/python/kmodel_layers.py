"""Lists the layers of a kmodel file as netron's reader, which knows nothing of byoc, finds them: `kmodel_layers.py FILE`.

Prints JSON {format, layers: [{type, inputs, outputs, attributes, chain}]}. Inputs and outputs have, by argument, their
values: {address, shape (width, height, channels), bytes (of a stored constant, in hexadecimal)}, as far as netron gives
them. Attributes are the fields as they stand in the file: the registers of a K210_CONV hold most sizes less one. The
chain of a K210_CONV has its BATCH_NORM and ACTIVATION.

netron 9.3 has no layout for ADD, QUANTIZED_ADD, AVERAGE_POOL2D, L2_NORMALIZATION, CHANNELWISE_DEQUANTIZE and LOGISTIC,
and stops at a file that has one. Registers of more than 32 bits (`x_start`, `arg_add`) are right only where they hold
0 to 2**31 - 1.

The reader is JavaScript in the netron package and runs under `node`.
"""

import argparse
import importlib.util
import shutil
import subprocess
import tempfile
from pathlib import Path

READER = ("base.js", "kmodel.js")
SCRIPT = Path(__file__).with_suffix(".mjs")


def layers(file: Path) -> str:
    """Gives the JSON for one file."""
    # Not imported: netron starts by loading its server.
    package = Path(importlib.util.find_spec("netron").origin).parent
    with tempfile.TemporaryDirectory() as folder:
        # The package does not say that its files are modules; node asks for that.
        (Path(folder) / "package.json").write_text('{"type": "module"}')
        for name in READER:
            shutil.copy(package / name, folder)
        command = ["node", SCRIPT, folder, file]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        complaints = [line for line in result.stderr.splitlines() if "Error" in line]
        raise SystemExit(f"{file.name}: {(complaints or ['node failed'])[0]}")
    return result.stdout


def main() -> None:
    """Prints the layers of one file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    print(layers(parser.parse_args().file), end="")


if __name__ == "__main__":
    main()
