"""The cases that versions of the onnx package publish, as published: those in its wheel, or that it generates.

`cases.json` tells for each suite and each group of it where a case is run: in a folder of its own here, or in that of a case
with the same model, inputs and outputs, byte for byte.
"""

import hashlib
import io
import json
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath

import onnx
from onnx import TensorProto, numpy_helper

from zoo import light, node_cases, packages, wheel
from zoo.node_cases import Case
from zoo.packages import Package
from zoo.store import Task, write_case, write_npz

DATA = "onnx/backend/test/data"
GROUPS = ("node", "pytorch-converted", "pytorch-operator", "simple")
EXPANDED = "_expanded"
WHEELS = (
    Package("onnx", "1.22.0", "955e02e1f6d385b53d52f9cd7b9cdf5caf417c300bcfe3c64c6d542be763845b", "manylinux_2_28_x86_64"),
    Package("onnx", "1.17.0", "4f3fb5cc4e2898ac5312a7dc03a65133dd2abf9a5e520e69afb880a7251ec97a", "manylinux2014_x86_64"),
)


def tasks() -> list[Task]:
    """Gives the one task that writes all suites, since a case stands once in all of them."""
    return [Task("suites", fill)]


def fill(folder: Path) -> None:
    """Writes the cases and `cases.json`."""
    known: dict[str, str] = {}
    index = {f"onnx-{onnx.__version__}": generated(folder, known)}
    for package in WHEELS:
        with packages.fetch(package) as archive:
            index[f"onnx-{package.version}"] = published(folder, f"onnx-{package.version}", archive, known)
    (folder / "cases.json").write_text(json.dumps(index, indent=1) + "\n")


def generated(folder: Path, known: dict[str, str]) -> dict[str, dict[str, str]]:
    """Gives the cases that the installed package generates: those that the folder `node` has are run there."""
    suite: dict[str, dict[str, str]] = {}
    for generated_case in node_cases.all_cases():
        case = node_cases.read_case(generated_case)
        group = group_of("node", case.name)
        plain = group == "node" and node_cases.reason_to_skip(case.model) is None
        place = f"node/{case.name}" if plain else f"suites/onnx-{onnx.__version__}/{group}/{case.name}"
        suite.setdefault(group, {})[case.name] = place_of(folder, place, case, known)
    return suite


def published(folder: Path, suite: str, archive: zipfile.ZipFile, known: dict[str, str]) -> dict[str, dict[str, str]]:
    """Gives the cases of a wheel."""
    files = files_of_cases(archive)
    found: dict[str, dict[str, str]] = {}
    for group in GROUPS:
        for name in sorted(files[group]):
            case = read_case(name, files[group][name])
            part = group_of(group, name)
            found.setdefault(part, {})[name] = place_of(folder, f"suites/{suite}/{part}/{name}", case, known)
    found["real"] = {name: real(archive, files["real"][name]) for name in sorted(files["real"])}
    return found


def files_of_cases(archive: zipfile.ZipFile) -> dict[str, dict[str, dict[str, bytes]]]:
    """Gives by group, name of the case and path in its folder what stands in a file."""
    files: dict[str, dict[str, dict[str, bytes]]] = {}
    for path in archive.namelist():
        match path.removeprefix(f"{DATA}/").split("/", 2):
            case [group, name, file] if path.startswith(f"{DATA}/") and file and not file.endswith("/"):
                files.setdefault(group, {}).setdefault(name, {})[file] = archive.read(path)
    return files


def group_of(group: str, name: str) -> str:
    """Sets apart the node cases whose operator is expanded by its function."""
    return f"{group}{EXPANDED}" if EXPANDED in name else group


def read_case(name: str, files: dict[str, bytes]) -> Case:
    """Reads a case, which has one data set."""
    sets = {path.split("/")[0] for path in files if "/" in path}
    if len(sets) != 1:
        raise ValueError(f"{name} has {len(sets)} data sets")
    root = sets.pop()
    model = onnx.load_from_string(files["model.onnx"])

    def read(kind: str, values: Iterable[onnx.ValueInfoProto]) -> dict[str, TensorProto]:
        pairs = (read_value(value, files[f"{root}/{kind}_{index}.pb"]) for index, value in enumerate(values))
        return {name: tensor for tensors in pairs for name, tensor in tensors}

    return Case(name, model, read("input", wheel.free_inputs(model.graph)), read("output", model.graph.output))


def read_value(value: onnx.ValueInfoProto, content: bytes) -> Iterator[tuple[str, TensorProto]]:
    """Reads the tensors of a value, each with its name."""
    kinds = {"sequence_type": onnx.SequenceProto, "optional_type": onnx.OptionalProto}
    proto = kinds.get(value.type.WhichOneof("value"), TensorProto)()
    proto.ParseFromString(content)
    return node_cases.named(value.name, proto)


def place_of(folder: Path, place: str, case: Case, known: dict[str, str]) -> str:
    """Writes a case unless one like it is there; says where it is."""
    inputs, outputs = ({name: numpy_helper.to_array(tensor) for name, tensor in side.items()} for side in (case.inputs, case.outputs))
    content = io.BytesIO(case.model.SerializeToString())
    content.seek(0, io.SEEK_END)
    for side in (inputs, outputs):
        write_npz(content, side)
    digest = hashlib.sha256(content.getvalue()).hexdigest()
    if digest in known:
        return known[digest]
    known[digest] = place
    if not place.startswith("node/"):
        target = folder.joinpath(*PurePosixPath(place).parts[1:])
        target.mkdir(parents=True)
        write_case(target, case.model, inputs, outputs)
    return place


def real(archive: zipfile.ZipFile, files: dict[str, bytes]) -> str:
    """Gives the folder of a case that is one of the installed package's `light` models; stops if it is another model."""
    model = json.loads(files["data.json"])["model_name"]
    if model not in light.NAMES:
        raise ValueError(f"a case is of the model {model}")
    for file in (f"light_{model}.onnx", f"light_{model}_output_0.pb"):
        if archive.read(f"{DATA}/light/{file}") != (wheel.DATA / "light" / file).read_bytes():
            raise ValueError(f"{file} is another one in the installed package")
    return f"light/{model}"
