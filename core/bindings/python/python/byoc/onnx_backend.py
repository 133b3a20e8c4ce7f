"""byoc behind ONNX's own interface for backends, so that ONNX's test runner and other programs of its kind can use it.

    import byoc.onnx_backend as backend

    outputs = backend.run_model(model, inputs)
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from typing import Any

import numpy
import onnx
import onnx.shape_inference
from onnx import helper
from onnx.backend.base import Backend, BackendRep

from . import Session


class Prepared(BackendRep):
    """A model that is ready to run."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """The outputs in their order."""
        given = inputs if isinstance(inputs, (list, tuple, dict)) else [inputs]
        return tuple(self._session.run(given).values())


class Byoc(Backend):
    """byoc with its embedded host backend, or with those that are named as `backends`."""

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> Prepared:
        """Compiles a model; further arguments are those of `byoc.Session`."""
        super().prepare(model, device)
        handle, path = tempfile.mkstemp(suffix=".onnx")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(model.SerializeToString())
            return Prepared(Session(path, **kwargs))
        finally:
            os.unlink(path)

    @classmethod
    def run_node(cls, node: onnx.NodeProto, inputs: Any, device: str = "CPU", outputs_info: Sequence[Any] | None = None, **kwargs: Any) -> tuple[Any, ...] | None:
        """The outputs of a model of that node, whose inputs have the types of these arrays."""
        values = dict(zip(node.input, inputs)) if isinstance(inputs, (list, tuple)) else dict(inputs)
        arrays = {name: numpy.asarray(value) for name, value in values.items() if name}
        ports = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape) for name, array in arrays.items()]
        version = onnx.defs.onnx_opset_version()
        schema = onnx.defs.get_schema(node.op_type, version, node.domain)
        types = onnx.shape_inference.infer_node_outputs(schema, node, {port.name: port.type for port in ports})
        outputs = [helper.make_value_info(name, types[name]) for name in node.output if name]
        model = helper.make_model(helper.make_graph([node], "node", ports, outputs))
        return cls.prepare(model, device, **kwargs).run(arrays)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Host memory; devices of backends are chosen by `devices`."""
        return device == "CPU"


prepare = Byoc.prepare
run_node = Byoc.run_node
run_model = Byoc.run_model
supports_device = Byoc.supports_device
