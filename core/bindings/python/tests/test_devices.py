"""Outputs that stay on a device, and inputs that are there. `BYOC_DEVICE_PLUGIN` is a plugin file of the backend `BYOC_DEVICE_BACKEND`, which computes
products on the device `BYOC_DEVICE`, of DLPack's type `BYOC_DEVICE_TYPE`. Where sessions reach each other's memory there, `BYOC_DEVICE_SHARED` is 1: the
memory is that of the host in truth, since no machine that runs the tests has another."""

from __future__ import annotations

import ctypes
import gc
import os
import tempfile
import threading
import unittest
import weakref
from pathlib import Path

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import byoc

PLUGINS = [os.environ["BYOC_DEVICE_PLUGIN"]]
BACKEND = os.environ["BYOC_DEVICE_BACKEND"]
DEVICE = os.environ["BYOC_DEVICE"]
TYPE = int(os.environ["BYOC_DEVICE_TYPE"])
SHARED = os.environ["BYOC_DEVICE_SHARED"] == "1"

WEIGHT = np.array([[1, 2], [-1, 0.5]], np.float32)
X = np.array([[1, 2], [3, 4], [0.5, -1]], np.float32)


class Tensor(ctypes.Structure):
    """DLPack's DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Versioned(ctypes.Structure):
    """DLPack's DLManagedTensorVersioned."""

    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p), ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64), ("tensor", Tensor)]


pointer = ctypes.pythonapi.PyCapsule_GetPointer
pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
rename = ctypes.pythonapi.PyCapsule_SetName
rename.restype, rename.argtypes = ctypes.c_int, [ctypes.py_object, ctypes.c_char_p]


class Foreign:
    """An array of somebody else's on a device, by DLPack's protocol."""

    def __init__(self, array, change=None):
        self.array, self.change, self.stream = array, change, None

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()

    def __dlpack__(self, stream=None):
        self.stream = stream
        capsule = self.array.__dlpack__()
        if self.change:
            self.change(Tensor.from_address(pointer(capsule, b"dltensor")))
        return capsule


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "model.byoc"
        nodes = [helper.make_node("MatMul", ["x", "w"], ["y"]), helper.make_node("Tanh", ["z"], ["curved"])]
        ports = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, ["rows", 2]) for name in ("x", "y", "z", "curved")}
        graph = helper.make_graph(nodes, "main", [ports["x"], ports["z"]], [ports["y"], ports["curved"]], [numpy_helper.from_array(WEIGHT, "w")])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        report = byoc.compile(model.SerializeToString(), self.path, backends=[BACKEND, "cpu"], plugins=PLUGINS)
        self.assertEqual([node.backend for node in report.nodes], [BACKEND, "json"])
        byoc.compile(model.SerializeToString(), self.path.with_name("host.byoc"))

    def session(self):
        return byoc.Session(self.path, plugins=PLUGINS, devices=[DEVICE])

    def fails(self, code, call, *arguments, **wishes):
        with self.assertRaises(byoc.Error) as caught:
            call(*arguments, **wishes)
        self.assertEqual(caught.exception.code, code, caught.exception)
        return str(caught.exception.message)

    def test_outputs_stay_where_they_were_computed(self):
        session = self.session()
        outputs = session.run({"x": X, "z": X}, on_device=True)
        y, curved = outputs["y"], outputs["curved"]
        np.testing.assert_allclose(curved, np.tanh(X), rtol=1e-6)
        self.assertIsInstance(y, byoc.DeviceArray)
        self.assertEqual((y.shape, y.dtype, y.device, y.__dlpack_device__()), ((3, 2), "f32", DEVICE, (TYPE, 0)))
        self.assertEqual(repr(y), f"<byoc.DeviceArray f32[3,2] on {DEVICE}>")
        for host in (y.numpy(), np.asarray(y), np.asarray(y, np.float64), np.from_dlpack(y, device="cpu")):
            np.testing.assert_allclose(host, X @ WEIGHT, rtol=1e-6)
        self.assertEqual(np.asarray(y, np.float64).dtype, np.float64)
        with self.assertRaises(ValueError):
            np.asarray(y, copy=False)
        np.testing.assert_allclose(session.run([X, X])["y"], X @ WEIGHT, rtol=1e-6)

    def test_what_stays_is_an_input_of_the_next_run(self):
        session = self.session()
        expected = X
        for rows in (3, 3, 3, 2):
            x = expected[:rows]
            y = session.run([x, x], on_device=True)["y"]
            for _ in range(3):
                expected = x @ WEIGHT
                np.testing.assert_allclose(y.numpy(), expected, rtol=1e-5)
                before, x = y, expected
                # Also for an input that the host reads.
                outputs = session.run({"x": y, "z": y}, on_device=True)
                y = outputs["y"]
                np.testing.assert_allclose(outputs["curved"], np.tanh(expected), rtol=1e-5)
            np.testing.assert_allclose(session.run([y, x])["y"], x @ WEIGHT @ WEIGHT, rtol=1e-5)
            for use in (before.numpy, lambda: np.asarray(before), before.__dlpack__, lambda: session.run([before, x])):
                self.assertEqual(self.fails("B703", use), "the array is gone: its session has run again")

    def test_a_capsule_keeps_the_session_from_running(self):
        session = self.session()
        y = session.run([X, X], on_device=True)["y"]
        for version in (None, (1, 0), (1, 3), (0, 8)):
            capsule = y.__dlpack__(max_version=version) if version else y.__dlpack__()
            versioned = version is not None and version[0] > 0
            name = b"dltensor_versioned" if versioned else b"dltensor"
            tensor = Tensor.from_address(pointer(capsule, name))
            if versioned:
                managed = Versioned.from_address(pointer(capsule, name))
                self.assertEqual((managed.major, managed.flags), (1, 0))
                tensor = managed.tensor
            self.assertEqual((tensor.device_type, tensor.device_id, tensor.byte_offset), (TYPE, 0, 0))
            self.assertEqual((tensor.code, tensor.bits, tensor.lanes), (2, 32, 1))
            self.assertEqual((tensor.shape[: tensor.ndim], tensor.strides[: tensor.ndim]), ([3, 2], [2, 1]))
            if SHARED:
                found = (ctypes.c_float * 6).from_address(tensor.data)
                np.testing.assert_allclose(np.ctypeslib.as_array(found).reshape(3, 2), X @ WEIGHT, rtol=1e-6)
            message = "arrays of the run before refer to the memory of the session"
            self.assertEqual(self.fails("B701", session.run, [X, X]), message)
            self.assertEqual(self.fails("B701", session.run, [y, X], on_device=True), message)
            del capsule, tensor
            if versioned:
                del managed
            gc.collect()
        y = session.run([X, X], on_device=True)["y"]
        # Who takes the tensor gives the capsule another name, and ends the tensor by its deleter, from any thread.
        capsule = y.__dlpack__()
        managed = pointer(capsule, b"dltensor")
        self.assertEqual(rename(capsule, b"used_dltensor"), 0)
        del capsule
        self.fails("B701", session.run, [X, X])
        deleter = ctypes.c_void_p.from_address(managed + ctypes.sizeof(Tensor) + 8).value
        thread = threading.Thread(target=lambda: ctypes.CFUNCTYPE(None, ctypes.c_void_p)(deleter)(managed))
        thread.start()
        thread.join()
        session.run([X, X])
        # The memory lives as long as who has it.
        capsule = session.run([X, X], on_device=True)["y"].__dlpack__()
        del session, y
        gc.collect()
        if SHARED:
            data = Tensor.from_address(pointer(capsule, b"dltensor")).data
            self.assertEqual((ctypes.c_float * 6).from_address(data)[0], (X @ WEIGHT)[0, 0])

    def test_a_session_that_keeps_its_own_output_is_collected(self):
        session = self.session()
        session.last = session.run([X, X], on_device=True)["y"]
        gone = weakref.ref(session)
        del session
        gc.collect()
        self.assertIsNone(gone())

    def test_what_cannot_be_is_refused(self):
        session = self.session()
        y = session.run([X, X], on_device=True)["y"]
        with self.assertRaisesRegex(BufferError, "byoc does not copy within a device"):
            y.__dlpack__(copy=True)
        with self.assertRaisesRegex(BufferError, "the array is on another device"):
            y.__dlpack__(dl_device=(TYPE, 7))
        for wishes in ({"on_device": True}, {}):
            with self.assertRaisesRegex(TypeError, "out is for runs on the host"):
                session.run([y if not wishes else X, X], out=[None, None], **wishes)
        self.assertEqual(self.fails("B701", session.run, [y.numpy()[:, :1].copy(), y]), "input 'x' has shape [3,1], the entry takes [rows,2]")
        y = session.run([X, X], on_device=True)["y"]
        if not SHARED:
            return

        def changed(name, value):
            return Foreign(y, lambda tensor: setattr(tensor, name, value))

        message = self.fails("B701", session.run, [changed("device_id", 1), X])
        self.assertEqual(message, "input 'x' says that it is on another device than its tensor")
        self.assertEqual(self.fails("B701", session.run, [changed("code", 9), X]), "input 'x' has elements of DLPack's type 9 with 32 bits")
        strides = (ctypes.c_int64 * 2)(1, 3)
        turned = changed("strides", ctypes.cast(strides, ctypes.POINTER(ctypes.c_int64)))
        self.assertEqual(self.fails("B701", session.run, [turned, X]), "input 'x' is not in the order of C")

        class Elsewhere(Foreign):
            def __dlpack_device__(self):
                return (TYPE, 5)

        elsewhere = Elsewhere(y, lambda tensor: setattr(tensor, "device_id", 5))
        message = self.fails("B701", self.session().run, [elsewhere, X])
        self.assertEqual(message, "input 'x' is object, the entry takes f32")

    def test_arrays_of_others_are_inputs(self):
        first, second = self.session(), self.session()
        y = first.run([X, X], on_device=True)["y"]
        twice = X @ WEIGHT @ WEIGHT
        # Where sessions do not reach each other's memory, by a copy on the host.
        np.testing.assert_allclose(second.run([y, X])["y"], twice, rtol=1e-6)
        # Of a device that the session does not use, by what makes an array of NumPy of it.
        host = byoc.Session(self.path.with_name("host.byoc"))
        np.testing.assert_allclose(host.run([y, X])["y"], twice, rtol=1e-6)
        if not SHARED:
            return
        foreign = Foreign(y)
        found = second.run([foreign, foreign])
        np.testing.assert_allclose(found["y"], twice, rtol=1e-6)
        np.testing.assert_allclose(found["curved"], np.tanh(X @ WEIGHT), rtol=1e-6)
        # The queue of the session, for which what is queued elsewhere has to be done.
        self.assertIsInstance(foreign.stream, int)
        self.assertGreater(foreign.stream, 2)
        first.run([X, X])


if __name__ == "__main__":
    unittest.main()
