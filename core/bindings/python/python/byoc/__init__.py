"""Compile ONNX models with plugin backends into one artifact in which every weight is stored once, and run it.

    import byoc

    report = byoc.compile("model.onnx", "model.byoc", backends=["acme", "cpu"])
    session = byoc.Session("model.byoc")
    outputs = session.run({"x": array})

Errors are `byoc.Error`, with a code, a message and a hint. Names of backends, of options and of shapes are those of the command
line, which is installed with this module.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Union

# What a program that only runs artifacts does not need is imported where it is.
if TYPE_CHECKING:
    from pathlib import Path

    import numpy
    from typing_extensions import Self

from . import _native
from ._errors import Error, Notice
from ._native import DeviceArray, __version__
from ._types import Comparison, LedgerRow, Node, PassedOver, Port, Refusal, Report, Step, Variant

__all__ = ["Comparison", "DeviceArray", "Error", "LedgerRow", "Node", "Notice", "PassedOver", "Port", "Refusal", "Report", "Session", "Step", "Variant", "__version__", "c_library", "compile", "empty", "explain", "inspect", "verify"]

PathLike = Union[str, "os.PathLike[str]"]
Models = Union[PathLike, bytes, Mapping[str, Union[PathLike, bytes]]]
Progress = Callable[[str, int, int, str], object]

_BYTES = (bytes, bytearray, memoryview)
_ALIGNMENT = 64


class Session(_native.Session):
    """A loaded entry of an artifact, or of a model, which is compiled into memory first.

    The file is mapped: constants are not copied, and sessions of one file share its pages. A session runs one call at a time; threads
    that run the same entry at once open a session each. The interpreter's lock is free during a run.

    Args:
        path: An artifact, or an ONNX model.
        entry: The entry to run, where the file has several.
        variant: The variant to load, of a file that has some; else the best one that can be loaded here.
        threads: Most threads to use; 0: one for each core.
        devices: Devices such as ``cuda:0``, one of each kind; else the first of each kind that the artifact needs.
        options: Options of backends as ``{"acme.key": value}``; of an artifact those about the machine that runs it.
        backends: For a model: backends, the most wanted first; ``cpu`` is the embedded one for the host.
        shapes: For a model: shapes of inputs.
        dims: For a model: sizes of dimensions that it has names for.
        plugins: Plugin files.
        plugin_dirs: Folders of plugins.
        constants_from: The folder of the files that the artifact takes constants from.
        max_iterations: Most iterations of loops in a run.
        profile: Take the time of each step of a run, for `profile()`. On devices every region is then queued by itself.
        isolate: Run regions of plugins in processes of the program ``byoc``, which is installed with this module: a crash is an error of that
            run, and this process goes on. Not for regions on devices, with texts, or with sizes that only a run tells.

    Attributes:
        inputs: What a run takes, as a list of `Port`.
        outputs: What a run gives.
        variant: The variant that was loaded; ``None`` where the file has no variants.
        passed_over: Better variants that cannot be loaded here, as a list of `PassedOver`.
    """

    def __new__(
        cls,
        path: PathLike,
        *,
        entry: str | None = None,
        variant: str | None = None,
        threads: int = 0,
        devices: Sequence[str] = (),
        options: Mapping[str, Any] | None = None,
        backends: Sequence[str] = (),
        shapes: Mapping[str, Sequence[int]] | None = None,
        dims: Mapping[str, int] | None = None,
        plugins: Sequence[PathLike] = (),
        plugin_dirs: Sequence[PathLike] = (),
        constants_from: PathLike | None = None,
        max_iterations: int | None = None,
        profile: bool = False,
        isolate: bool = False,
    ) -> Self:
        models = _models([(None, path)], backends, options, shapes, dims)
        loading = {
            "entry": entry,
            "variant": variant,
            "threads": threads,
            "devices": _list("devices", devices),
            "constants_from": constants_from,
            "max_iterations": max_iterations,
            "profile": profile,
        }
        return super().__new__(cls, path, models, _places(plugins, plugin_dirs, isolate), loading)

    def __call__(self, *inputs: Any) -> list[Any]:
        """The outputs in their order, for inputs in theirs."""
        return list(self.run(inputs).values())

    def profile(self) -> list[Step]:
        """Where the time of the last run went, step by step in the order of the run. The session was opened with ``profile=True``."""
        import json

        return [step for region in json.loads(self.times()) for step in _steps(region)]


def compile(
    model: Models,
    output: PathLike,
    *,
    backends: Sequence[str] = (),
    variants: Mapping[str, Sequence[str]] | None = None,
    share: bool = False,
    options: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    dataset: PathLike | None = None,
    mean: Sequence[float] = (),
    std: Sequence[float] = (),
    plugins: Sequence[PathLike] = (),
    plugin_dirs: Sequence[PathLike] = (),
    require: Sequence[tuple[str, str]] = (),
    no_fallback: bool = False,
    max_host_nodes: int | None = None,
    external_constants: bool = False,
    allow_duplicates: bool = False,
    fallback_on_crash: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Compiles a model into an artifact. On an error nothing is written, and an existing file stays.

    Args:
        model: The path of an ONNX model, its bytes, or several as ``{entry: model}``, which share constants.
        output: The artifact to write.
        backends: Backends, the most wanted first; ``cpu``, the embedded one for the host, where none is named.
        variants: Several variants of the model in one file, the most wanted first, as ``{"npu": ["acme", "cpu"], "cpu": ["cpu"]}``, in place of
            ``backends``. What they have in common is in the file once; where it is loaded, the first that can be is taken.
        share: Asks backends that pack a constant to give way where another variant has it in another form.
        options: Options of backends, as ``{"acme.key": value}``; of one variant as ``{"npu:acme.key": value}``.
        shapes: Shapes of inputs, as ``{"x": (1, 3, 224, 224)}``.
        dims: Sizes of dimensions that the model has names for, as ``{"batch": 4}``.
        dataset: Samples of the inputs, for backends that choose number ranges from them: a folder or an ``.npz`` file.
        mean: What is subtracted from each pixel of an image of the data set: one number, or one for each channel.
        std: What each pixel is divided by after that.
        plugins: Plugin files.
        plugin_dirs: Folders of plugins.
        require: Nodes of an operator that must go to a backend, as ``[("acme", "Conv*")]``.
        no_fallback: No node may go to a host backend.
        max_host_nodes: Most nodes that may go to host backends.
        external_constants: Refer to constants in the model's files in place of copying them.
        allow_duplicates: Store a constant although a backend's code holds its bytes too.
        fallback_on_crash: Give the nodes of a region in which a backend crashes to the next backend.
        progress: Called as ``progress(stage, done, total, next)``.

    Raises:
        Error: Where the model, the backends or the policy do not allow it.
    """
    if variants is not None and not variants:
        raise ValueError("variants names no variant: leave it out, or name some")
    if external_constants and any(isinstance(one, _BYTES) for one in (model.values() if isinstance(model, Mapping) else [model])):
        raise ValueError("external_constants refers to the model's file, and the model is given as bytes: write it into a file first")
    wishes = {
        "variants": [(name, _list(f"variant {name!r}", listed)) for name, listed in (variants or {}).items()],
        "share": share,
        "dataset": dataset,
        "mean": _list("mean", mean),
        "std": _list("std", std),
        "external_constants": external_constants,
        "allow_duplicates": allow_duplicates,
        "fallback_on_crash": fallback_on_crash,
        "require": list(require),
        "no_fallback": no_fallback,
        "max_host_nodes": max_host_nodes,
    }
    import json
    from pathlib import Path

    start = time.perf_counter()
    with _Files(model) as files:
        models = _models(files, backends, options, shapes, dims)
        made = json.loads(_native.compile(models, wishes, _places(plugins, plugin_dirs), output, progress))
    seconds = time.perf_counter() - start
    nodes, ledger = tuple(map(_node, made["nodes"])), tuple(map(_ledger_row, made["ledger"]))
    each = tuple(Variant(row["variant"], tuple(map(_node, row["nodes"])), tuple(map(_ledger_row, row["ledger"]))) for row in made["variants"])
    return Report(Path(output), made["bytes"], seconds, nodes, ledger, tuple(made["warnings"]), each)


def explain(
    model: Models,
    *,
    backends: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    plugins: Sequence[PathLike] = (),
    plugin_dirs: Sequence[PathLike] = (),
) -> list[Node]:
    """Tells for each node of a model which backend takes it, and why others do not. The arguments are those of `compile`."""
    import json

    with _Files(model) as files:
        models = _models(files, backends, options, shapes, dims)
        return list(map(_node, json.loads(_native.explain(models, _places(plugins, plugin_dirs)))))


def empty(shape: int | Sequence[int], dtype: Any = "float32") -> numpy.ndarray[Any, Any]:
    """An array with elements of any value, as `numpy.empty`, whose memory begins at a multiple of 64 bytes: given to `Session.run` as
    ``out``, a region on the host writes right into it."""
    import numpy

    dtype = numpy.dtype(dtype)
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    length = dtype.itemsize
    for size in sizes:
        length *= size
    block = numpy.empty(length + _ALIGNMENT, numpy.uint8)
    start = -block.ctypes.data % _ALIGNMENT
    array: numpy.ndarray[Any, Any] = block[start : start + length].view(dtype).reshape(sizes)
    return array


def c_library() -> Path:
    """The folder of the C library that is installed with this module: ``include/byoc.h``, ``lib/libbyoc.so``, and files for pkg-config
    (``lib/pkgconfig``) and CMake (``lib/cmake``)."""
    from pathlib import Path

    folder = Path(__file__).parent / "c"
    if not folder.is_dir():
        raise FileNotFoundError(f"this module was installed without the C library: there is no {folder}")
    return folder


def inspect(path: PathLike, *, variant: str | None = None) -> dict[str, Any]:
    """Tells what is in an artifact: entries, regions, constants, the ledger. The fields are those of its `graph` section, which
    docs/artifact-format.md describes, and ``bytes``, the size of the file. Of a file with variants it is the one that is named; without
    a name ``variants`` has what there is of each, by name."""
    import json

    contents: dict[str, Any] = json.loads(_native.inspect(path, variant))
    return contents


def verify(
    path: PathLike,
    model: PathLike,
    *,
    inputs: Mapping[str, Any] | PathLike | None = None,
    seed: int = 0,
    atol: float | None = None,
    rtol: float | None = None,
    snr: float | None = None,
    min_cosine: float | None = None,
    entry: str | None = None,
    variant: str | None = None,
    threads: int = 0,
    devices: Sequence[str] = (),
    options: Mapping[str, Any] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    dims: Mapping[str, int] | None = None,
    plugins: Sequence[PathLike] = (),
    plugin_dirs: Sequence[PathLike] = (),
) -> list[Comparison]:
    """Compares the outputs of an artifact with what its model computes by byoc's reference kernels, which are plain and slow.

    Args:
        path: The artifact, or a model to compile.
        model: The model that it was compiled from.
        inputs: Arrays by name, or a file or folder as ``byoc run --input`` takes it; what is not given is random.
        seed: Of random inputs.
        atol: Absolute tolerance; by default as much as the type's rounding explains. The same of ``rtol``, which is relative.
        rtol: See ``atol``.
        snr: The signal-to-noise ratio in dB that each output of floats must have, in place of the tolerances.
        min_cosine: The cosine that each output of floats must have with what is expected, in place of the tolerances.

    The others are those of `Session`; `shapes` and `dims` give sizes that the artifact leaves open. Of a file with variants it is the one that a
    session would load, or the one that is named.
    """
    import json

    loading = {"entry": entry, "variant": variant, "threads": threads, "devices": _list("devices", devices), "constants_from": None, "max_iterations": None, "profile": False}
    models = _models([(None, path)], (), options, shapes, dims)
    comparing = {"model": model, "seed": seed, "atol": atol, "rtol": rtol, "snr": snr, "min_cosine": min_cosine}
    with _Arrays(inputs) as files:
        found = _native.verify(path, models, _places(plugins, plugin_dirs), loading, {**comparing, "inputs": files})
    return [_comparison(row) for row in json.loads(found)]


def _comparison(row: Mapping[str, Any]) -> Comparison:
    fields: dict[str, Any] = {name: row.get(name) for name in Comparison._fields}
    # Of what is the same there is no noise, and JSON has no infinity.
    if "snr_db" in row and row["snr_db"] is None:
        fields["snr_db"] = float("inf")
    fields["shape"] = tuple(row["shape"])
    return Comparison(**fields)


class _Arrays:
    """Inputs as files."""

    def __init__(self, inputs: Mapping[str, Any] | PathLike | None) -> None:
        self._temporary: Any = None
        self._files = [] if inputs is None else [inputs]
        if isinstance(inputs, Mapping):
            import tempfile
            import zipfile

            import numpy

            self._temporary = tempfile.NamedTemporaryFile(suffix=".npz")
            # As `numpy.savez` does it, which takes some names for arguments of its own.
            with zipfile.ZipFile(self._temporary, "w") as archive:
                for name, value in inputs.items():
                    with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                        numpy.lib.format.write_array(member, numpy.asarray(value), allow_pickle=False)
            self._temporary.flush()
            self._files = [self._temporary.name]

    def __enter__(self) -> list[Any]:
        return self._files

    def __exit__(self, *_: object) -> None:
        if self._temporary:
            self._temporary.close()


def _models(
    files: Sequence[tuple[str | None, PathLike]],
    backends: Sequence[str],
    options: Mapping[str, Any] | None,
    shapes: Mapping[str, Sequence[int]] | None,
    dims: Mapping[str, int] | None,
) -> dict[str, Any]:
    return {
        "models": list(files),
        "backends": _list("backends", backends),
        "options": [(key, _setting(value)) for key, value in (options or {}).items()],
        "shapes": [(name, list(shape)) for name, shape in (shapes or {}).items()],
        "dims": list((dims or {}).items()),
    }


def _list(name: str, values: Sequence[Any]) -> list[Any]:
    """The values, which are not one text by mistake."""
    if isinstance(values, (str, bytes, os.PathLike)):
        raise TypeError(f"{name} is a list, such as [{values!r}]")
    return list(values)


def _setting(value: Any) -> str:
    """An option's value as the command line has it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _places(plugins: Sequence[PathLike], plugin_dirs: Sequence[PathLike], isolate: bool = False) -> dict[str, Any]:
    return {
        "plugins": _list("plugins", plugins),
        "plugin_dirs": _list("plugin_dirs", plugin_dirs),
        "program": _program(),
        "isolate": isolate,
    }


def _program() -> Path | None:
    """The program `byoc` that is installed with this module; plugins compile in processes of it."""
    import sysconfig
    from pathlib import Path

    # A program that embeds Python may have no interpreter.
    beside = str(Path(sys.executable).parent) if sys.executable else None
    programs = (Path(folder) / "byoc" for folder in (sysconfig.get_path("scripts"), beside) if folder)
    return next((program for program in programs if program.is_file()), None)


class _Files:
    """Each model as a file, with the name of its entry."""

    def __init__(self, model: Models) -> None:
        named = list(model.items()) if isinstance(model, Mapping) else [(None, model)]
        self._temporary: list[Any] = []
        self._files = [(name, self._file(one)) for name, one in named]

    def _file(self, model: PathLike | bytes) -> PathLike:
        if not isinstance(model, _BYTES):
            return model
        import tempfile

        file = tempfile.NamedTemporaryFile(suffix=".onnx")
        self._temporary.append(file)
        file.write(model)
        file.flush()
        return file.name

    def __enter__(self) -> list[tuple[str | None, PathLike]]:
        return self._files

    def __exit__(self, *_: object) -> None:
        for file in self._temporary:
            file.close()


def _node(row: Mapping[str, Any]) -> Node:
    refused = tuple(Refusal(**refusal) for refusal in row["refused"])
    return Node(row["entry"], row["node"], row["op"], row["backend"], row["region"], refused, row["expanded"])


def _ledger_row(row: Mapping[str, Any]) -> LedgerRow:
    # What is empty is not there.
    fields: dict[str, Any] = {name: row.get(name) for name in LedgerRow._fields}
    for name in ("names", "transposed", "shape", "readers", "compiled_in"):
        fields[name] = tuple(row.get(name, ()))
    return LedgerRow(**fields)


def _steps(region: Mapping[str, Any]) -> list[Step]:
    name, backend = region["region"], region["backend"]
    whole = {"kernel": name, "operator": name, "seconds": region["seconds"]}
    parts = region.get("steps") or [whole]
    return [
        Step(
            name,
            backend,
            part["kernel"],
            part["operator"],
            tuple(part.get("nodes", ())),
            part["seconds"],
            part.get("operations", 0),
            part.get("bytes", 0),
        )
        for part in parts
    ]
