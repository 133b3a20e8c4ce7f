"""Gives the names that LLVM makes for what one object of a static library uses of another numbers of our own.

    python3 cli/number_names.py LIBRARY.a

Thin link-time optimisation ends such names in a hash of a module, ".llvm.<number>", which is another one in each build; everything else
is the same. Names of symbols and of sections are numbered in the order in which they come. It needs nm, objdump and objcopy.
"""

import re
import subprocess
import sys
import tempfile


def printed(*command: str) -> str:
    """What a program prints."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main(library: str) -> None:
    """Rewrites the library in its place."""
    numbers: dict[str, int] = {}

    def numbered(name: str) -> str:
        start, _, number = name.rpartition(".llvm.")
        return f"{start}.llvm.{numbers.setdefault(number, len(numbers))}"

    symbols = re.findall(r"(\S+\.llvm\.\d+)$", printed("nm", library), re.MULTILINE)
    sections = re.findall(r"^\s*\d+ (\S+\.llvm\.\d+) ", printed("objdump", "--section-headers", "--wide", library), re.MULTILINE)
    # A name once, in order.
    options = [f"--redefine-sym {name}={numbered(name)}" for name in dict.fromkeys(symbols)]
    options += [f"--rename-section {name}={numbered(name)}" for name in dict.fromkeys(sections)]
    with tempfile.NamedTemporaryFile("w") as file:
        file.write("\n".join(options))
        file.flush()
        subprocess.run(["objcopy", "--enable-deterministic-archives", f"@{file.name}", library], check=True)


if __name__ == "__main__":
    main(sys.argv[1])
