#!/usr/bin/env python3
"""How the time and the memory of a compile and of a load grow with the number of nodes.

    python3 tests/bench/growth.py target/release/byoc [--plugin libbyoc_simdev.so] [--sizes 1000 5000 ...]

`chain` is one Relu behind another; `blocks` are residual blocks of four nodes. With `--plugin` of the tests' backend
`simdev`, every other node of `alternating` is a region of its own there, and the rest of the chain stays on the host.

Seconds are those of processors, of the workers too, for they hold on a machine that does other things as well, the least
of three; the time of a load is that of a clock, the least of five. MB are the peak of the larger process.
"""

import argparse
import json
import os
import subprocess
import tempfile


def varint(number):
    out = b""
    while number > 0x7F:
        out += bytes([number & 0x7F | 0x80])
        number >>= 7
    return out + bytes([number])


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def integer(number, value):
    return varint(number << 3) + varint(value)


def node(op, inputs, output):
    inputs = b"".join(field(1, name.encode()) for name in inputs)
    return inputs + field(2, output.encode()) + field(4, op.encode())


def value(name):
    shape = field(2, field(1, integer(1, 1) + field(2, field(1, integer(1, 4)))))
    return field(1, name.encode()) + shape


def model(nodes, last):
    graph = b"".join(field(1, node) for node in nodes) + field(2, b"growth")
    graph += field(11, value("x")) + field(12, value(last))
    return integer(1, 8) + field(7, graph) + field(8, integer(2, 17))


def chain(count, ops=("Relu",)):
    names = ["x"] + [f"v{index}" for index in range(count)]
    return model([node(ops[index % len(ops)], [names[index]], names[index + 1]) for index in range(count)], names[-1])


def blocks(count):
    nodes, last = [], "x"
    for index in range(count // 4):
        a, b, c, d = (f"{part}{index}" for part in "abcd")
        nodes += [node("Exp", [last], a), node("Relu", [a], b), node("Mul", [a, last], c), node("Add", [b, c], d)]
        last = d
    return model(nodes, last)


def measure(command):
    """Processor seconds, and the peak of resident memory in MB, each the least of three runs."""
    runs = []
    for _ in range(3):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, process.returncode, used = os.wait4(process.pid, 0)
        if process.returncode:
            raise SystemExit(f"{' '.join(command)} failed")
        runs.append((used.ru_utime + used.ru_stime, used.ru_maxrss / 1024))
    return tuple(min(column) for column in zip(*runs))


def load(command):
    """Milliseconds from an artifact's path to a session that can run."""
    reports = [json.loads(subprocess.run(command, capture_output=True, check=True).stdout) for _ in range(5)]
    return min(report["load_seconds"] for report in reports) * 1000


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("byoc")
    parser.add_argument("--plugin")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 5000, 20000, 50000, 200000])
    arguments = parser.parse_args()
    kinds = {"chain": (chain, []), "blocks": (blocks, [])}
    if arguments.plugin:
        backends = ["--backend", "simdev,json", "--plugin", arguments.plugin, "--backend-opt", "simdev.takes=Relu"]
        kinds["alternating"] = (lambda count: chain(count, ("Relu", "Exp")), backends)
    print("| graph | nodes | to partition s | compile s | MB | load ms | run s | MB |\n|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        source, artifact = os.path.join(folder, "m.onnx"), os.path.join(folder, "m.byoc")
        for kind, (make, backends) in kinds.items():
            for size in arguments.sizes:
                with open(source, "wb") as file:
                    file.write(make(size))
                partition, _ = measure([arguments.byoc, "compile", source, "--stop-after", "partition", *backends])
                compiled, memory = measure([arguments.byoc, "compile", source, "-o", artifact, *backends])
                plugin = ["--plugin", arguments.plugin] if backends else []
                ran, resident = measure([arguments.byoc, "run", artifact, "--fill", "random", *plugin])
                loaded = load([arguments.byoc, "bench", artifact, "--duration", "0.05", "--json", *plugin])
                times = f"{partition:.2f} | {compiled:.2f} | {memory:.0f} | {loaded:.1f} | {ran:.2f} | {resident:.0f}"
                print(f"| {kind} | {size:,} | {times} |", flush=True)


if __name__ == "__main__":
    main()
