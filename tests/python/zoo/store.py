"""Writes the test data: npz files, folders that appear only when complete, the manifest."""

import io
import json
import os
import shutil
import zipfile
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx

Arrays = Mapping[str, np.ndarray]
NPY_VERSION = (1, 0)
# Of 8 bits and less, an element a byte.
SMALL = frozenset(
    np.dtype(getattr(ml_dtypes, name))
    for name in (
        "float8_e4m3fn",
        "float8_e4m3fnuz",
        "float8_e5m2",
        "float8_e5m2fnuz",
        "float8_e8m0fnu",
        "float4_e2m1fn",
        "int4",
        "uint4",
        "int2",
        "uint2",
    )
)


@dataclass(frozen=True)
class Task:
    """One folder of the test data and the function that fills it."""

    name: str
    fill: Callable[[Path], None]

    def matches(self, wanted: str) -> bool:
        """Tells whether a `--only` word names this task: whole name, family, or last part."""
        family, _, leaf = self.name.partition("/")
        return wanted in (self.name, family, leaf)


def make_folder(root: Path, task: Task) -> bool:
    """Fills the task's folder unless it is there; a half-filled one never has its final name."""
    target = root / task.name
    if target.exists():
        return False
    target.parent.mkdir(parents=True, exist_ok=True)
    scratch = target.with_name(f".{target.name}.{os.getpid()}.tmp")
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    try:
        task.fill(scratch)
        scratch.rename(target)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        if target.exists():  # another process finished first
            return False
        raise
    return True


def flat(values: Mapping[str, object]) -> Arrays:
    """Gives each array a name: those of a sequence `x` are called `x.0`, `x.1` and so on; an optional that holds nothing has none."""
    arrays = {}
    for name, value in values.items():
        if isinstance(value, list):
            arrays |= {f"{name}.{index}": np.asarray(element) for index, element in enumerate(value)}
        elif value is not None:
            arrays[name] = np.asarray(value)
    return arrays


def write_npz(path: Path, arrays: Arrays) -> None:
    """Writes an uncompressed npz with the same bytes for the same arrays, whatever their names.

    `numpy.savez` cannot be used: it refuses some names and stamps the current time.
    """
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, as_numpy_knows(array), NPY_VERSION, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), buffer.getbuffer())


def as_numpy_knows(array: np.ndarray) -> np.ndarray:
    """Gives the array in C order, bf16 (which the npy format lacks) as its raw u16 bits, smaller types as u8, objects as texts."""
    plain = np.asarray(array, order="C")
    if plain.dtype == np.object_:
        return plain.astype(np.str_)
    if plain.dtype == ml_dtypes.bfloat16:
        return plain.view(np.uint16)
    return plain.view(np.uint8) if plain.dtype in SMALL else plain


def write_case(folder: Path, model: onnx.ModelProto, inputs: Arrays, outputs: Arrays | None = None) -> None:
    """Writes model.onnx, inputs.npz and, where given, outputs.npz."""
    folder.mkdir(exist_ok=True)
    onnx.save(model, folder / "model.onnx")
    write_npz(folder / "inputs.npz", inputs)
    if outputs is not None:
        write_npz(folder / "outputs.npz", outputs)


def write_manifest(root: Path, tasks: Iterable[Task]) -> None:
    """Writes manifest.json: each folder that has a model, with the size of each of its files."""
    models = (model for task in tasks for model in (root / task.name).rglob("model.onnx"))
    folders = sorted(model.parent for model in models)
    entries = {folder.relative_to(root).as_posix(): file_sizes(folder) for folder in folders}
    scratch = root / f".manifest.{os.getpid()}.tmp"
    scratch.write_text(json.dumps(entries, indent=1) + "\n")
    scratch.replace(root / "manifest.json")


def file_sizes(folder: Path) -> dict[str, int]:
    """Gives the bytes of each file in a folder."""
    return {path.name: path.stat().st_size for path in sorted(folder.iterdir()) if path.is_file()}
