# %% [markdown]
# # Look inside a compiled model
# Three pictures: which backend takes which node, where the bytes of the weights are, and what takes the time of a run. It needs `onnx` and
# `matplotlib` beside `byoc`. VS Code and Jupyter (with jupytext) open this file as a notebook. As a program it takes a model of yours, too:
# `python look_inside.py --model model.onnx`.

# %%
from __future__ import annotations

import argparse
import json
import sys
import textwrap
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import byoc
import matplotlib.pyplot as plt
import numpy as np
import onnx
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from onnx import TensorProto, helper, numpy_helper
from PIL import Image

parser = argparse.ArgumentParser(description="Draws which backend takes which node, where the weights are, and what takes the time.")
parser.add_argument("--model", type=Path, help="an ONNX model (default: a small network, made here)")
parser.add_argument("--dim", action="append", default=[], metavar="NAME=SIZE", help="the size of a symbolic dimension (default: 1)")
parser.add_argument("--backends", nargs="+", default=["kendryte", "cpu"], help="the most wanted first (default: kendryte cpu)")
parser.add_argument("--output", type=Path, default=Path("look_inside"), help="a folder for the pictures (default: %(default)s)")
# In a notebook the arguments of the program are Jupyter's own.
options = parser.parse_args([] if "ipykernel" in sys.modules else None)
options.output.mkdir(parents=True, exist_ok=True)

# The palette of Okabe and Ito, which is made for every kind of colour vision.
GREY, GREEN, OTHERS = "#d0d0d0", "#009e73", ["#56b4e9", "#e69f00", "#cc79a7", "#d55e00", "#0072b2", "#f0e442"]
NOTE: dict[str, Any] = {"va": "center", "fontsize": 8, "color": "#404040"}
plt.rcParams |= {"font.size": 9, "axes.titlesize": 11, "axes.titlelocation": "left", "legend.frameon": False}
plt.rcParams |= {"axes.spines.top": False, "axes.spines.right": False, "ytick.major.size": 0, "savefig.dpi": 150}


def bars(axes: Axes, labels: Sequence[str], rows: Sequence[Mapping[str, float]], notes: Sequence[str], behind: Sequence[float] = ()) -> None:
    """Horizontal bars from the top down, each with a part for each owner, a note at its end, and another bar behind it."""
    axes.set_yticks(range(len(rows)), [label if len(label) <= 40 else f"…{label[-39:]}" for label in labels])
    axes.set_ylim(len(rows) - 0.4, -0.6)
    if behind:
        axes.barh(range(len(rows)), behind, 0.8, color=GREY, label="in the model")
    ends = np.zeros(len(rows))
    for owner, colour in COLOURS.items():
        widths = np.array([parts.get(owner, 0) for parts in rows])
        if widths.any():
            label = f"in the file, owned by {owner}" if behind else owner
            axes.barh(range(len(rows)), widths, 0.4 if behind else 0.7, ends, color=colour, label=label)
        ends += widths
    for y, (end, note) in enumerate(zip(np.maximum(ends, behind or 0), notes, strict=True)):
        axes.annotate(note, (end, y), (4, 0), "data", "offset points", **NOTE)


def save(figure: Figure, name: str) -> None:
    legend = {label: handle for axes in figure.axes for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    figure.legend(list(legend.values()), list(legend), loc="outside lower center", ncols=4)
    figure.savefig(options.output / name)
    # A palette of 64 colours makes the file a third as large, and nobody sees it.
    Image.open(options.output / name).convert("RGB").quantize(64).save(options.output / name, optimize=True)


def size(count: float) -> str:
    power = 0 if count < 2**10 else 1 if count < 2**20 else 2
    return f"{count / 1024**power:.1f}".removesuffix(".0") + (" B", " KiB", " MiB")[power]


# %% [markdown]
# ## A network
# An image classifier with three residual blocks. Two things are in it to be seen: a convolution of 5x5, for which the accelerator has no
# code, and a weight that two layers share, one of them transposed, so that the model's file has it twice.


# %%
def make_network(path: Path) -> Path:
    nodes: list[onnx.NodeProto] = []
    weights: dict[str, np.ndarray] = {}
    random = np.random.default_rng(0)

    def weight(name: str, *shape: int) -> str:
        weights[name] = (random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        return name

    def node(op: str, name: str, *inputs: str, **attributes: Any) -> str:
        nodes.append(helper.make_node(op, inputs, [name], name, **attributes))
        return name

    def conv(name: str, x: str, inputs: int, outputs: int, size: int = 3, group: int = 1) -> str:
        made = weight(f"{name}.weight", outputs, inputs // group, size, size), weight(f"{name}.bias", outputs)
        return node("Relu", f"{name}.relu", node("Conv", name, x, *made, pads=[size // 2] * 4, group=group))

    x, channels = "image", 3
    for stage, wider in enumerate((32, 64, 128), 1):
        x = node("MaxPool", f"pool{stage}", conv(f"widen{stage}", x, channels, wider), kernel_shape=[2, 2], strides=[2, 2])
        inner = conv(f"block{stage}.b", conv(f"block{stage}.a", x, wider, wider), wider, wider)
        x, channels = node("Add", f"block{stage}.add", inner, x), wider
    x = conv("mix", conv("context", x, channels, channels, size=5, group=4), channels, channels, size=1)
    x = node("Flatten", "features", node("GlobalAveragePool", "mean", x))
    x = node("LayerNormalization", "norm", x, weight("norm.scale", channels))
    hidden = node("Gelu", "gelu", node("MatMul", "expand", x, weight("expand.weight", channels, 4 * channels)))
    weights["reduce.weight"] = weights["expand.weight"].T.copy()
    x = node("Add", "head.add", node("MatMul", "reduce", hidden, "reduce.weight"), x)
    node("Softmax", "classes", node("MatMul", "logits", x, weight("classes.weight", channels, 100)))
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("image", (1, 3, 64, 64)), ("classes", (1, 100)))]
    graph = helper.make_graph(nodes, "network", ports[:1], ports[1:], [numpy_helper.from_array(array, name) for name, array in weights.items()])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    return path


model = options.model or make_network(options.output / "network.onnx")

# %% [markdown]
# ## Who takes what
# The report of `byoc.compile` says where each node went, and why backends that were wanted more did not take it. Kendryte computes in 8 bits
# and chooses its ranges of numbers from samples: random ones will do to look around, real ones are needed for real results.

# %%
graph, sizes = onnx.load(model, load_external_data=False).graph, dict(pair.split("=") for pair in options.dim)
samples: dict[str, Any] = {}
for port in graph.input:
    if port.name not in {weight.name for weight in graph.initializer}:
        shape = [4, *(size.dim_value or int(sizes.get(size.dim_param, 1)) for size in port.type.tensor_type.shape.dim)]
        dtype = helper.tensor_dtype_to_np_dtype(port.type.tensor_type.elem_type)
        # Integers may be indices, of which 0 always exists.
        samples[port.name] = (np.random.default_rng(1).random(shape) if dtype.kind == "f" else np.zeros(shape)).astype(dtype)
artifact, dataset, shapes = options.output / "model.byoc", options.output / "samples.npz", {name: array.shape[1:] for name, array in samples.items()}
np.savez(dataset, **samples)
report = byoc.compile(model, artifact, backends=options.backends, shapes=shapes, dataset=dataset if "kendryte" in options.backends else None)
print("placement:", ", ".join(f"{backend} {count}" for backend, count in report.backends().items()))

COLOURS = {**dict(zip(map(str, report.backends()), OTHERS, strict=False)), "byoc": GREEN}
placed: dict[str, Counter[str]] = defaultdict(Counter)
refusals: dict[str, Counter[str]] = defaultdict(Counter)
for node in report.nodes:
    placed[node.op][str(node.backend)] += 1
    refusals[node.op].update(f"{refusal.backend}: {refusal.reason}" for refusal in node.refused)
operators = sorted(placed, key=lambda op: -placed[op].total())[:20]
figure, axes = plt.subplots(figsize=(9, 1.4 + 0.33 * len(operators)), layout="constrained")
bars(axes, operators, [placed[op] for op in operators], [str(placed[op].total()) for op in operators])
for y, op in enumerate(operators):
    for reason, count in refusals[op].most_common(1):
        axes.text(1.04, y, textwrap.fill(f"{count} by {reason}", 60, max_lines=2), NOTE, transform=axes.get_yaxis_transform())
axes.text(1.04, 1.02, "refused, most often because" if any(refusals.values()) else "", transform=axes.transAxes)
axes.set(xlabel="nodes", title="Which backend takes which node")
save(figure, "placement.png")

# %% [markdown]
# ## Where the bytes are
# The ledger says of each constant whether the file has it as it is in the model (`stored`), in a layout of a backend's own (`packed`) or in a
# backend's code (`embedded`). An artifact is a safetensors file: its header has the size of each section.

# %%
with artifact.open("rb") as file:
    header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
sections = {name: part["data_offsets"][1] - part["data_offsets"][0] for name, part in header.items() if name != "__metadata__"}
contents = byoc.inspect(artifact)
# Label, bytes in the model, bytes in the file by owner, what became of it.
lines: list[tuple[str, int, Counter[str], str]] = []
for row in sorted(report.ledger, key=lambda row: -row.model_bytes):
    # What is viewed has its bytes in another row.
    kept = 0 if row.stored is None or row.fate == "viewed" else sections[contents["constants"][row.stored]["section"]]
    note = f"{row.fate} in {row.readers[0]}" if row.fate == "embedded" else f"{size(kept)} {row.fate}" if kept else row.fate
    label = " = ".join(name + "ᵀ" * (name in row.transposed) for name in row.names[:2])
    lines.append((label, row.model_bytes, Counter({str(row.owner): kept}), note))
if rest := lines[12:]:
    parts = sum((parts for _, _, parts, _ in rest), Counter[str]())
    lines[12:] = [(f"{len(rest)} smaller ones", sum(total for _, total, _, _ in rest), parts, size(parts.total()))]
# The largest codes: what is embedded is in there.
for region in sorted(contents["regions"], key=lambda region: -sections[region["code"]])[:6]:
    length, inside = sections[region["code"]], sum(constant["claim"] == "embedded" for constant in region["constants"])
    note = f"{size(length)}, {inside} of the constants" if inside else size(length)
    lines.append((f"code of {region['symbol']}", 0, Counter({region["backend"]: length}), note))

in_model = sum({row.id: row.model_bytes for row in report.ledger}.values())
unique = sum({row.id: row.bytes for row in report.ledger if row.fate not in ("folded", "dropped")}.values())
print(f"ledger: {len({row.id for row in report.ledger})} constants, {in_model} bytes in the model, {unique} without repetitions")
print(f"file: {report.bytes} bytes")
names, totals, owned, notes = zip(*lines, strict=True)
figure, axes = plt.subplots(figsize=(9, 1.4 + 0.26 * len(lines)), layout="constrained")
bars(axes, names, [{owner: count / 1024 for owner, count in parts.items()} for parts in owned], notes, [total / 1024 for total in totals])
axes.set(xlabel="KiB", title=f"Weights: {size(in_model)} in the model, {size(unique)} without repetitions. The file: {size(report.bytes)}")
save(figure, "ledger.png")

# %% [markdown]
# ## What takes the time
# A session that is opened with `profile=True` takes the time of each step of a run. The median of several runs leaves out what other programs
# disturbed. Kendryte's steps run in a simulator here: how long they take on the chip is another matter.

# %%
session = byoc.Session(artifact, profile=True)
runs: list[list[byoc.Step]] = []
for _ in range(21):
    session.run({name: array[0] for name, array in samples.items()})
    runs.append(session.profile())
steps, times = runs[0], 1000 * np.median([[step.seconds for step in run] for run in runs[1:]], axis=0)
sums: dict[str, Counter[str]] = defaultdict(Counter)
for step, time in zip(steps, times, strict=True):
    sums[step.operator][step.backend] += time
longest, operators, digits = np.argsort(-times)[:15], sorted(sums, key=lambda op: -sums[op].total())[:8], 2 if times.max() >= 1 else 4
print(f"steps: {len(steps)} in {len({step.region for step in steps})} regions")

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4.8), layout="constrained")
labels = [f"{steps[i].kernel}, {', '.join(steps[i].nodes) or f'step {i + 1}'}" for i in longest]
bars(left, labels, [{steps[i].backend: times[i]} for i in longest], [f"{times[i]:.{digits}f}" for i in longest])
bars(right, operators, [sums[op] for op in operators], [f"{sums[op].total():.{digits}f}" for op in operators])
left.set(xlabel="ms (median of 20 runs)", title=f"The {len(longest)} longest of {len(steps)} steps")
right.set(xlabel="ms (kendryte: of its simulator)" if "kendryte" in COLOURS else "ms", title=f"By operator; {times.sum():.{digits}f} ms in all")
save(figure, "steps.png")
