"""Gives expected outputs from onnxruntime on the CPU, and refuses outputs that would test nothing."""

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import onnx
import onnxruntime

from zoo.store import Arrays, flat, write_case, write_npz

ERROR = 3
"""onnxruntime's number for the log level."""
LEAST_VARIATION, MOST_VARIATION = 0.05, 5.0
"""The bounds for an output's deviation, relative to its mean magnitude."""


def write_with_outputs(folder: Path, model: onnx.ModelProto, *input_sets: tuple[str, Mapping[str, object]]) -> None:
    """Writes a model and, for each (suffix, inputs), inputs and onnxruntime's outputs for them."""
    (first_suffix, first_inputs), *others = input_sets
    if first_suffix:
        raise ValueError("the first input set has no suffix")
    write_case(folder, model, flat(first_inputs))
    onnx.checker.check_model(folder / "model.onnx", full_check=True)
    session = open_session(folder / "model.onnx")
    write_npz(folder / "outputs.npz", run(session, first_inputs))
    for suffix, inputs in others:
        write_npz(folder / f"inputs{suffix}.npz", flat(inputs))
        write_npz(folder / f"outputs{suffix}.npz", run(session, inputs))


def open_session(path: Path) -> onnxruntime.InferenceSession:
    """Opens a model with the default optimisations; tells of errors only."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = ERROR
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def run(session: onnxruntime.InferenceSession, inputs: Mapping[str, object]) -> Arrays:
    """Runs a session and gives its outputs by name, those of sequences with a number behind it."""
    names = [output.name for output in session.get_outputs()]
    outputs = flat(dict(zip(names, session.run(names, dict(inputs)), strict=True)))
    for name, values in outputs.items():
        require_informative(name, values)
    return outputs


def require_informative(name: str, values: np.ndarray) -> None:
    """Stops at an output in which a wrong weight could go unseen: not finite, flat, or one number ruling.

    An output without elements tests nothing but its shape, and one of a single integer or truth has nothing to vary.
    """
    if values.size == 0 or (values.size == 1 and values.dtype.kind in "iub"):
        return
    if not np.isfinite(values).all():
        raise ValueError(f"output {name} is not finite")
    variation = values.std() / np.abs(values).mean()
    if not LEAST_VARIATION < variation < MOST_VARIATION:
        raise ValueError(f"output {name} varies too little or too much: {variation} of its mean magnitude")
