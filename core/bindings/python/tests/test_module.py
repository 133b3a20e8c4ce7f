"""What the module does, on models that are made here. `BYOC_PROGRAM` is the program, `BYOC_PLUGIN` a plugin file of the backend `template`,
and `BYOC_DEVICE_PLUGIN` one of `simdev`, which has a device."""

from __future__ import annotations

import array
import gc
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings
from pathlib import Path
from unittest import mock

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import byoc

WEIGHT = np.arange(12, dtype=np.float32).reshape(3, 4) / 8 - 0.5


def model(nodes, inputs, outputs, weights=None, opset=21):
    """The bytes of a model."""
    initializers = [numpy_helper.from_array(array, name) for name, array in (weights or {}).items()]
    graph = helper.make_graph(nodes, "main", inputs, outputs, initializers)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)
    return made.SerializeToString()


def tensor(name, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def product(rows="batch"):
    """y = relu(x w) with rows that are open."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["p"], name="product"), helper.make_node("Relu", ["p"], ["y"], name="relu")]
    return model(nodes, [tensor("x", [rows, 3])], [tensor("y", [rows, 4])], {"w": WEIGHT})


def expected(x):
    return np.maximum(x @ WEIGHT, 0)


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def compiled(self, made=None, **wishes):
        path = self.folder / "model.byoc"
        report = byoc.compile(made or product(), path, **wishes)
        return path, report

    def fails(self, code, call, *arguments, **wishes):
        with self.assertRaises(byoc.Error) as caught:
            call(*arguments, **wishes)
        self.assertEqual(caught.exception.code, code, caught.exception)
        return caught.exception


class Compiling(Case):
    def test_a_report_says_what_went_where(self):
        stages = []
        path, report = self.compiled(progress=lambda stage, done, total, step: stages.append(stage))
        self.assertEqual((report.path, report.bytes), (path, path.stat().st_size))
        self.assertEqual([(node.name, node.op, node.backend) for node in report.nodes], [("product", "MatMul", "json"), ("relu", "Relu", "json")])
        self.assertEqual(report.backends(), {"json": 2})
        self.assertEqual([(row.names, row.shape, row.fate, row.owner) for row in report.ledger], [(("w",), (3, 4), "stored", "byoc")])
        self.assertEqual(list(dict.fromkeys(stages)), ["onnx", "passes", "partition", "codegen", "ownership", "artifact"])
        about = byoc.inspect(path)
        self.assertEqual(about["bytes"], report.bytes)
        self.assertEqual([entry["name"] for entry in about["entries"]], ["main"])

    def test_the_program_makes_the_same_file(self):
        (self.folder / "model.onnx").write_bytes(product())
        path, _ = self.compiled(self.folder / "model.onnx")
        program = [os.environ["BYOC_PROGRAM"], "compile", "model.onnx", "-o", "other.byoc"]
        subprocess.run(program, cwd=self.folder, check=True, capture_output=True)
        self.assertEqual(path.read_bytes(), (self.folder / "other.byoc").read_bytes())

    def test_several_models_share_their_weights(self):
        path, report = self.compiled({"small": product(1), "large": product(64)})
        self.assertEqual(len(report.ledger), 1)
        x = np.ones((1, 3), np.float32)
        for entry, rows in [("small", 1), ("large", 64)]:
            session = byoc.Session(path, entry=entry)
            self.assertEqual(session.run({"x": np.repeat(x, rows, 0)})["y"].shape, (rows, 4))
        self.assertEqual(self.fails("B702", byoc.Session, path, entry="medium").hint, "The file has small, large")

    def test_variants_are_in_one_file(self):
        (self.folder / "model.onnx").write_bytes(product())
        with self.assertWarnsRegex(byoc.Notice, "variant 'npu': backend 'template' takes no node of the model"):
            path, report = self.compiled(
                self.folder / "model.onnx",
                variants={"npu": ["template", "cpu"], "cpu": ["cpu"]},
                plugins=[os.environ["BYOC_PLUGIN"]],
                options={"cpu.pack": False, "npu:cpu.pack": True},
            )
        self.assertEqual([variant.name for variant in report.variants], ["npu", "cpu"])
        self.assertEqual((report.nodes, report.ledger), ((), ()))
        self.assertEqual([len(variant.nodes) for variant in report.variants], [2, 2])
        self.assertEqual([variant.ledger[0].names for variant in report.variants], [("w",), ("w",)])
        x = np.ones((2, 3), np.float32)
        best = byoc.Session(path)
        self.assertEqual((best.variant, best.passed_over), ("npu", []))
        np.testing.assert_allclose(best.run({"x": x})["y"], expected(x), rtol=1e-6)
        self.assertEqual(byoc.Session(path, variant="cpu").variant, "cpu")
        self.assertEqual(sorted(byoc.inspect(path)["variants"]), ["cpu", "npu"])
        options = [byoc.inspect(path, variant=name)["regions"][0]["options"]["pack"] for name in ("npu", "cpu")]
        self.assertEqual(options, ["true", "false"])
        [found] = byoc.verify(path, self.folder / "model.onnx", variant="cpu", dims={"batch": 2})
        self.assertTrue(found.holds)
        self.assertEqual(str(self.fails("B702", byoc.Session, path, variant="gpu")), f"[B702] '{path}' has no variant 'gpu'. Did you mean 'cpu'?")
        self.fails("B901", self.compiled, variants={"cpu": ["cpu"]}, backends=["cpu"])
        self.fails("B901", self.compiled, variants={"a b": ["cpu"]})
        self.fails("B901", self.compiled, share=True)
        self.fails("B901", byoc.Session, self.folder / "model.onnx", variant="cpu")
        with self.assertRaisesRegex(ValueError, "variants names no variant"):
            self.compiled(variants={})
        with self.assertRaisesRegex(TypeError, "variant 'cpu' is a list"):
            self.compiled(variants={"cpu": "cpu"})

    def test_the_next_variant_is_taken_where_a_plugin_is_missing(self):
        nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
        made = model(nodes, [tensor("x", [3, 4])], [tensor("y", [3, 4])], {"w": WEIGHT})
        path, _ = self.compiled(made, variants={"npu": ["template", "cpu"], "cpu": ["cpu"]}, plugins=[os.environ["BYOC_PLUGIN"]])
        session = byoc.Session(path)
        reason = "region byoc_main_template_0 needs the backend 'template': there is no backend 'template'"
        self.assertEqual((session.variant, session.passed_over), ("cpu", [byoc.PassedOver("npu", "B604", reason)]))
        np.testing.assert_array_equal(session.run({"x": WEIGHT})["y"], WEIGHT + WEIGHT)
        self.assertEqual(byoc.Session(path, plugins=[os.environ["BYOC_PLUGIN"]]).variant, "npu")

    def test_nodes_are_explained(self):
        nodes = byoc.explain(product(2), backends=["kendryte", "cpu"])
        self.assertEqual([node.backend for node in nodes], ["json", "json"])
        unknown = model([helper.make_node("Relu", ["x"], ["a"]), helper.make_node("Swirl", ["a"], ["y"])], [tensor("x", [2])], [tensor("y", [2])])
        with self.assertWarnsRegex(byoc.Notice, r"^\[B102\]"):
            self.assertEqual([node.backend for node in byoc.explain(unknown)], ["json", None])
        refusal = nodes[1].refused[0]
        self.assertEqual((refusal.backend, refusal.code), ("kendryte", "region_start"))

    def test_warnings_are_pythons(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            _, report = self.compiled(backends=["kendryte", "cpu"])
        texts = [str(warning.message) for warning in caught if warning.category is byoc.Notice]
        self.assertEqual(texts, ["[B403] backend 'kendryte' takes no node of the model. See byoc explain for the reasons"])
        self.assertEqual(list(report.warnings), texts)

    def test_errors_leave_no_file_and_say_what_helps(self):
        error = self.fails("B101", byoc.compile, b"no model", self.folder / "x.byoc")
        self.assertRegex(str(error), r"^\[B101\] '.*\.onnx' is not an ONNX model: it is a text file\. Is the file complete")
        error = self.fails("B303", byoc.compile, product(), self.folder / "x.byoc", backends=["jsn"])
        self.assertEqual((error.message, error.hint), ("there is no backend 'jsn'", "Did you mean 'json'?"))
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((type(again), again.code, again.hint), (byoc.Error, "B303", error.hint))
        self.fails("B402", byoc.compile, product(), self.folder / "x.byoc", require=[("cpu", "Conv*")])
        for name in ("backends", "plugins", "plugin_dirs"):
            with self.assertRaisesRegex(TypeError, rf"{name} is a list, such as \['cpu'\]"):
                byoc.compile(product(), self.folder / "x.byoc", **{name: "cpu"})
        with self.assertRaisesRegex(ValueError, "external_constants refers to the model's file"):
            byoc.compile(product(), self.folder / "x.byoc", external_constants=True)
        self.fails("B901", byoc.compile, product(), self.folder / "x.byoc", mean=[0.5])
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_what_a_callback_raises_is_raised(self):
        def stop(*_):
            raise KeyError("stop")

        with self.assertRaisesRegex(KeyError, "stop"):
            self.compiled(progress=stop)
        self.assertEqual(list(self.folder.iterdir()), [])

    def test_nothing_that_is_read_is_written_over(self):
        model = self.folder / "model.onnx"
        model.write_bytes(product())
        plugin = self.folder / "libbyoc_own.so"
        plugin.write_bytes(b"\x01plugin")
        notes = self.folder / "notes.txt"
        notes.write_text("notes")
        for output, wishes in [(model, {}), (plugin, {"plugins": [plugin]}), (plugin, {"plugin_dirs": [self.folder]}), (notes, {})]:
            before = output.read_bytes()
            self.fails("B901", byoc.compile, model, output, **wishes)
            self.assertEqual(output.read_bytes(), before)

    def test_plugins_compile_in_processes_of_their_own(self):
        with mock.patch("byoc._program", return_value=Path(os.environ["BYOC_PROGRAM"])):
            for plugins in [[os.environ["BYOC_PLUGIN"]], []]:
                wishes = {"plugins": plugins, "plugin_dirs": [] if plugins else [Path(os.environ["BYOC_PLUGIN"]).parent]}
                nodes = [helper.make_node("Add", ["x", "x"], ["y"])]
                made = model(nodes, [tensor("x", [2])], [tensor("y", [2])])
                path, report = self.compiled(made, backends=["template", "cpu"], **wishes)
                self.assertEqual(report.backends(), {"template": 1})
                session = byoc.Session(path, plugins=plugins, plugin_dirs=wishes["plugin_dirs"])
                np.testing.assert_array_equal(session.run([np.float32([1, 2])])["y"], np.float32([2, 4]))
        self.fails("B604", byoc.Session, path)

    def test_regions_of_plugins_run_in_processes_of_their_own(self):
        plugins = [os.environ["BYOC_PLUGIN"]]
        made = model([helper.make_node("Add", ["x", "x"], ["y"])], [tensor("x", [2])], [tensor("y", [2])])
        path, _ = self.compiled(made, backends=["template", "cpu"], plugins=plugins)
        error = self.fails("B901", byoc.Session, path, plugins=plugins, isolate=True)
        self.assertEqual(error.message, "plugins are to run in processes of the program `byoc`, and none is given")
        x, y = np.float32([1, 2]), np.float32([2, 4])
        with mock.patch("byoc._program", return_value=Path(os.environ["BYOC_PROGRAM"])):
            session = byoc.Session(path, plugins=plugins, isolate=True)
        for _ in range(3):
            np.testing.assert_array_equal(session.run([x])["y"], y)
            (worker,) = workers()
            os.kill(worker, signal.SIGKILL)
            self.assertIn("crashed (signal 9)", self.fails("B307", session.run, [x]).message)
        del session
        gc.collect()
        self.assertEqual(workers(), [])


def workers():
    """The processes that this one has started, and that run."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        found += [int(child) for child in (task / "children").read_text().split()]
    return [child for child in found if "Z" not in Path(f"/proc/{child}/stat").read_text().split(")")[1][:3]]


class Running(Case):
    def test_outputs_are_right_for_any_size(self):
        session = byoc.Session(self.compiled()[0])
        self.assertEqual(session.inputs, [byoc.Port("x", "f32", ("batch", 3))])
        self.assertEqual(session.outputs, [byoc.Port("y", "f32", ("batch", 4))])
        for rows in (1, 7, 2, 0):
            x = np.random.default_rng(rows).normal(size=(rows, 3)).astype(np.float32)
            for found in (session.run({"x": x})["y"], session.run([x])["y"], session(x)[0]):
                self.assertEqual((found.dtype, found.flags.writeable), (np.float32, True))
                np.testing.assert_allclose(found, expected(x), rtol=1e-5, atol=1e-6)

    def test_a_model_is_compiled_into_memory(self):
        path = self.folder / "model.onnx"
        path.write_bytes(product())
        session = byoc.Session(path, dims={"batch": 2}, options={"cpu.kernels": "reference"})
        self.assertEqual(session.inputs[0].shape, (2, 3))
        x = np.ones((2, 3), np.float32)
        np.testing.assert_allclose(session.run({"x": x})["y"], expected(x), rtol=1e-6)
        self.assertEqual(list(self.folder.iterdir()), [path])

    def test_arrays_of_any_layout_lists_and_other_libraries(self):
        session = byoc.Session(self.compiled()[0])
        x = np.arange(6, dtype=np.float32).reshape(2, 3)

        class Foreign:
            dtype = x.dtype
            shape = x.shape

            def __array__(self, dtype=None, copy=None):
                return x

        for value in (np.asfortranarray(x), x[::-1][::-1], x.T.copy().T, x.astype(">f4"), x.tolist(), Foreign(), memoryview(x)):
            np.testing.assert_allclose(session.run({"x": value})["y"], expected(x), rtol=1e-6)

    def test_mistakes_name_the_input(self):
        path, _ = self.compiled()
        session = byoc.Session(path)
        error = self.fails("B701", session.run, {"x": np.ones((1, 3))})
        self.assertEqual((error.message, error.hint), ("input 'x' is float64, the entry takes f32", "Convert it with NumPy's astype('float32')"))
        self.assertEqual(self.fails("B701", session.run, {}).message, "input 'x' is not given")
        error = self.fails("B701", session.run, {"x": np.ones((1, 3), np.float32), "z": 1})
        self.assertEqual((error.message, error.hint), ("there is no input 'z'", "The inputs are: x"))
        self.assertEqual(self.fails("B701", session.run, []).message, "0 inputs are given, the entry takes 1")
        self.fails("B701", session.run, {"x": np.ones((1, 4), np.float32)})
        with self.assertRaisesRegex(TypeError, "takes a dict"):
            session.run(np.ones((1, 3), np.float32))
        self.fails("B602", byoc.Session, self.damaged(path))
        self.fails("B601", byoc.Session, self.folder / "nothing.byoc")
        self.fails("B901", byoc.Session, path, devices=["cuda:x"])
        self.fails("B901", byoc.Session, path, backends=["cpu"])
        self.fails("B901", byoc.Session, path, dims={"batch": 2})

    def damaged(self, path):
        damaged = self.folder / "damaged.byoc"
        damaged.write_bytes(path.read_bytes()[:-50])
        return damaged

    def test_outputs_may_be_lent(self):
        session = byoc.Session(self.compiled()[0])
        x = np.ones((2, 3), np.float32)
        lent = session.run({"x": x}, copy=False)["y"]
        np.testing.assert_allclose(lent, expected(x), rtol=1e-6)
        self.assertFalse(lent.flags.writeable or lent.flags.owndata)
        error = self.fails("B701", session.run, {"x": x})
        self.assertEqual(error.message, "arrays of the run before refer to the memory of the session")
        part = lent[1:]
        del lent
        self.fails("B701", session.run, {"x": x})
        del part
        address = session.run({"x": x}, copy=False)["y"].__array_interface__["data"][0]
        self.assertEqual(session.run({"x": x}, copy=False)["y"].__array_interface__["data"][0], address)
        # What is lent outlives the session's name.
        lent = session.run({"x": x}, copy=False)["y"]
        del session
        gc.collect()
        np.testing.assert_allclose(lent, expected(x), rtol=1e-6)

    def test_outputs_may_be_written_to_memory_of_the_caller(self):
        session = byoc.Session(self.compiled()[0])
        x = np.ones((2, 3), np.float32)
        out = byoc.empty((2, 4))
        self.assertEqual(out.ctypes.data % 64, 0)
        self.assertIs(session.run({"x": x}, out={"y": out})["y"], out)
        np.testing.assert_allclose(out, expected(x), rtol=1e-6)
        # At any alignment, of which most need a copy.
        block = np.zeros(8 + 16, np.float32)
        for first in range(16):
            place = block[first : first + 8].reshape(2, 4)
            session.run([x * first], out=[place])
            np.testing.assert_allclose(place, expected(x * first), rtol=1e-6)
            self.assertFalse(block[:first].any() or block[first + 8 :].any())
            block[:] = 0
        self.assertIsNot(session.run([x], out=[None])["y"], out)

    def test_memory_for_outputs_that_does_not_fit_is_refused(self):
        session = byoc.Session(self.compiled()[0])
        x = np.ones((2, 3), np.float32)

        def message(out, given=x):
            return self.fails("B701", session.run, {"x": given}, out=out).message

        self.assertEqual(message({"y": byoc.empty((4, 2))}), "output 'y' is f32[2, 4], and the memory for it is f32[4, 2]")
        self.assertEqual(message({"y": byoc.empty((2, 4), np.int32)}), "the memory for output 'y' is int32, the output is f32")
        self.assertEqual(message({"z": byoc.empty((2, 4))}), "there is no output 'z'")
        self.assertEqual(message([]), "arrays for 0 outputs are given, the entry has 1")
        self.assertEqual(message([[0.0] * 8]), "the memory for output 'y' is not an array of NumPy")
        for wrong in (np.zeros((4, 2), np.float32).T, np.broadcast_to(np.float32(0), (2, 4)), np.zeros((2, 4), ">f4")):
            self.assertEqual(message([wrong]), "the memory for output 'y' is not a writeable array in the order of C and of the machine's bytes")
        block = np.ones(16, np.float32)
        given, out = block[:6].reshape(2, 3), block[5:13].reshape(2, 4)
        self.assertEqual(message([out], given), "the memory for output 'y' shares bytes with input 'x'")
        np.testing.assert_array_equal(block, 1)
        twice = model([helper.make_node("Relu", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["z"])], [tensor("x", [2])], [tensor("y", [2]), tensor("z", [2])])
        session = byoc.Session(self.compiled(twice)[0])
        out = byoc.empty(3)
        self.assertEqual(message([out[:2], out[1:]], [1, 2]), "the memory for output 'z' shares bytes with that for output 'y'")
        session.run([[-1, 2]], out={"z": out[1:]})
        np.testing.assert_array_equal(out[1:], [1, -2])
        with self.assertRaisesRegex(TypeError, "out is a dict of arrays by name"):
            session.run([[1, 2]], out=out)

    def test_constants_inputs_and_late_sizes_are_written_out_too(self):
        nodes = [helper.make_node("Identity", ["w"], ["c"]), helper.make_node("Identity", ["x"], ["i"]), helper.make_node("NonZero", ["x"], ["n"])]
        outputs = [tensor("c", [3, 4]), tensor("i", [3]), tensor("n", [1, "found"], TensorProto.INT64)]
        session = byoc.Session(self.compiled(model(nodes, [tensor("x", [3])], outputs, {"w": WEIGHT}))[0])
        out = [byoc.empty((3, 4)), byoc.empty(3), byoc.empty((1, 2), np.int64)]
        session.run([[0, 5, 7]], out=out)
        np.testing.assert_array_equal(out[0], WEIGHT)
        np.testing.assert_array_equal(out[1], [0, 5, 7])
        np.testing.assert_array_equal(out[2], [[1, 2]])
        error = self.fails("B701", session.run, [[1, 5, 7]], out=out)
        self.assertEqual(error.message, "output 'n' is i64[1, 3], and the memory for it is i64[1, 2]")

    def test_outputs_of_a_device_are_written_out(self):
        plugins = [os.environ["BYOC_DEVICE_PLUGIN"]]
        path, report = self.compiled(product(2), backends=["simdev", "cpu"], plugins=plugins)
        self.assertIn("simdev", report.backends())
        session = byoc.Session(path, plugins=plugins, devices=["sim:0"])
        out = byoc.empty((2, 4))
        for factor in (1, 2):
            x = np.full((2, 3), factor, np.float32)
            session.run([x], out=[out])
            np.testing.assert_allclose(out, expected(x), rtol=1e-6)

    def test_options_of_the_embedded_backend_have_its_name(self):
        path, _ = self.compiled(options={"cpu.pack": False})
        for options in ({"cpu.pack": True}, {"json.pack": True}):
            error = self.fails("B304", byoc.Session, path, options=options)
            self.assertEqual(error.message, "option 'json.pack' is not an option of running")

    def test_steps_of_a_run_are_timed(self):
        path, _ = self.compiled()
        session = byoc.Session(path, profile=True)
        session.run([np.ones((2, 3), np.float32)])
        steps = session.profile()
        self.assertEqual({(step.backend, step.region) for step in steps}, {("json", "byoc_main_json_0")})
        self.assertEqual({node for step in steps for node in step.nodes}, {"product"})
        self.assertTrue(all(0 < step.seconds < 1 for step in steps), steps)
        error = self.fails("B901", byoc.Session(path).profile)
        self.assertEqual((error.message, error.hint), ("the session takes no times", "Open it with profile=True"))

    def test_every_type_of_numbers(self):
        types = {
            TensorProto.FLOAT: np.float32, TensorProto.DOUBLE: np.float64, TensorProto.FLOAT16: np.float16, TensorProto.BFLOAT16: ml_dtypes.bfloat16,
            TensorProto.INT8: np.int8, TensorProto.INT16: np.int16, TensorProto.INT32: np.int32, TensorProto.INT64: np.int64,
            TensorProto.UINT8: np.uint8, TensorProto.UINT16: np.uint16, TensorProto.UINT32: np.uint32, TensorProto.UINT64: np.uint64,
            TensorProto.BOOL: np.bool_, TensorProto.FLOAT8E4M3FN: ml_dtypes.float8_e4m3fn, TensorProto.FLOAT8E5M2: ml_dtypes.float8_e5m2,
            TensorProto.INT4: ml_dtypes.int4, TensorProto.UINT4: ml_dtypes.uint4,
        }
        for code, dtype in types.items():
            with self.subTest(dtype=dtype):
                made = model([helper.make_node("Transpose", ["x"], ["y"], perm=[1, 0])], [tensor("x", [3, 1], code)], [tensor("y", [1, 3], code)])
                session = byoc.Session(self.compiled(made)[0])
                x = np.array([[1], [0], [1]]).astype(dtype)
                found = session.run({"x": x})["y"]
                self.assertEqual(found.dtype, x.dtype)
                np.testing.assert_array_equal(found.astype(np.float64), x.T.astype(np.float64))

    def test_texts_sequences_and_optionals(self):
        text = model([helper.make_node("StringConcat", ["a", "b"], ["y"])], [tensor("a", [2], TensorProto.STRING), tensor("b", [], TensorProto.STRING)], [tensor("y", [2], TensorProto.STRING)])
        session = byoc.Session(self.compiled(text)[0])
        found = session.run({"a": np.array(["x", "ü"]), "b": "!"})["y"]
        self.assertEqual((found.tolist(), found.dtype.kind), (["x!", "ü!"], "O"))
        for wrong in ([1, 2], ["a", 1], np.float32([1, 2])):
            self.assertEqual(self.fails("B701", session.run, {"a": wrong, "b": "!"}).message, "input 'a' takes texts, and something else is given")
        self.assertEqual(session.run({"a": ["x\0", "y"], "b": "\0"})["y"].tolist(), ["x\0\0", "y\0"])
        sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, [2])
        made = model([helper.make_node("SequenceInsert", ["s", "x"], ["t"]), helper.make_node("SequenceLength", ["t"], ["n"])], [sequence, tensor("x", [2])], [helper.make_tensor_sequence_value_info("t", TensorProto.FLOAT, [2]), tensor("n", [], TensorProto.INT64)])
        session = byoc.Session(self.compiled(made)[0])
        outputs = session.run({"s": [np.float32([1, 2]), [3, 4]], "x": [5, 6]})
        self.assertEqual((int(outputs["n"]), [array.tolist() for array in outputs["t"]]), (3, [[1, 2], [3, 4], [5, 6]]))
        optional = helper.make_value_info("o", helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2])))
        made = model([helper.make_node("OptionalHasElement", ["o"], ["y"])], [optional], [tensor("y", [], TensorProto.BOOL)])
        session = byoc.Session(self.compiled(made)[0])
        self.assertEqual([bool(session.run(given)["y"]) for given in ({"o": None}, {}, {"o": [1.0, 2.0]})], [False, False, True])

    def test_what_a_list_would_lose_is_refused(self):
        def session(code):
            made = model([helper.make_node("Identity", ["x"], ["y"])], [tensor("x", ["n"], code)], [tensor("y", ["n"], code)])
            return byoc.Session(self.compiled(made)[0])

        takes = {
            TensorProto.FLOAT: [[1, 2.5], []], TensorProto.INT64: [[1, -2], [2**40], []], TensorProto.UINT8: [[0, 255]],
            TensorProto.BOOL: [[True, False]], TensorProto.COMPLEX64: [[1, 2.5, 1j]], TensorProto.BFLOAT16: [[0.5, 2]], TensorProto.INT4: [[-8, 7]],
        }
        for code, values in takes.items():
            for value in values:
                with self.subTest(code=code, value=value):
                    self.assertEqual(session(code).run([value])["y"].tolist(), value)
        refuses = {
            TensorProto.FLOAT: [[None], ["1.5"], [1j], [1e300]], TensorProto.FLOAT16: [[70000]], TensorProto.INT64: [[1.5], [2.0], [True], np.float64([1])], TensorProto.UINT8: [[256], [-1]],
            TensorProto.BOOL: [[1], [0.5]], TensorProto.COMPLEX64: [np.zeros(4, np.uint8)], TensorProto.INT4: [[8]],
            TensorProto.INT32: [array.array("d", [1.0]), memoryview(np.float64([1]))],
        }
        for code, values in refuses.items():
            for value in values:
                with self.subTest(code=code, value=value):
                    self.fails("B701", session(code).run, [value])
        codes = np.uint16([0x3F80])
        self.assertEqual(session(TensorProto.BFLOAT16).run([codes])["y"].tolist(), [1.0])

    def test_numbers_alone(self):
        made = model([helper.make_node("Mul", ["a", "b"], ["y"])], [tensor("a", []), tensor("b", [2])], [tensor("y", [2])])
        session = byoc.Session(self.compiled(made)[0])
        for number in (3, 3.0, np.float32(3), np.array(3, np.float32)):
            np.testing.assert_array_equal(session.run({"a": number, "b": [1, 2]})["y"], [3, 6])


class Verifying(Case):
    def test_outputs_are_compared_with_the_reference(self):
        (self.folder / "model.onnx").write_bytes(product())
        path, _ = self.compiled(self.folder / "model.onnx")
        [found] = byoc.verify(path, self.folder / "model.onnx", dims={"batch": 5})
        self.assertEqual((found.name, found.dtype, found.shape, found.holds, found.problem), ("y", "f32", (5, 4), True, None))
        self.assertGreater(found.snr_db, 100)
        inputs = {"x": np.float32([[1, 2, 3]])}
        [found] = byoc.verify(path, self.folder / "model.onnx", inputs=inputs, atol=0, rtol=1e-6)
        self.assertEqual((found.shape, found.holds), ((1, 4), True))
        (self.folder / "other.onnx").write_bytes(model([helper.make_node("Sigmoid", ["x"], ["y"])], [tensor("x", [1, 3])], [tensor("y", [1, 3])]))
        [found] = byoc.verify(path, self.folder / "other.onnx", inputs=inputs)
        self.assertFalse(found.holds)
        (self.folder / "third.onnx").write_bytes(product(2))
        self.assertEqual(self.fails("B701", byoc.verify, path, self.folder / "third.onnx", inputs=inputs).hint, "Is it the model that the artifact was compiled from?")


class Threads(Case):
    def test_sessions_run_at_once_and_one_takes_turns(self):
        path, _ = self.compiled()
        shared = byoc.Session(path)
        wrong = []

        def work(own, seed):
            session = byoc.Session(path) if own else shared
            for step in range(200):
                x = np.full((1 + (seed + step) % 5, 3), seed - step, np.float32)
                if not np.allclose(session.run({"x": x})["y"], expected(x), rtol=1e-5):
                    wrong.append((own, seed, step))

        threads = [threading.Thread(target=work, args=(own, seed)) for own in (True, False) for seed in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_memory_stays_flat(self):
        session = byoc.Session(self.compiled()[0])
        x = np.ones((64, 3), np.float32)

        def resident():
            return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

        texts = model([helper.make_node("Identity", ["x"], ["y"])], [tensor("x", [2], TensorProto.STRING)], [tensor("y", [2], TensorProto.STRING)])
        path = self.folder / "texts.byoc"
        byoc.compile(texts, path)
        of_texts, long = byoc.Session(path), ["x" * 500] * 2
        for _ in range(500):
            session.run({"x": x})
            of_texts.run([long])
        before = resident()
        for _ in range(10_000):
            session.run({"x": x})
            session.run({"x": x}, copy=False)
            of_texts.run([long])
        self.assertLess(resident() - before, 4 << 20)


class Importing(unittest.TestCase):
    def test_little_is_imported_before_it_is_needed(self):
        code = "import sys; before = set(sys.modules); import byoc; print(*(set(sys.modules) - before))"
        found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
        imported = set(found.stdout.split())
        self.assertEqual(imported & {"numpy", "json", "tempfile", "inspect", "pathlib"}, set())
        self.assertIn("byoc._native", imported)


class OnnxBackend(unittest.TestCase):
    def test_a_node(self):
        import byoc.onnx_backend as backend

        x = np.float32([-1, 2])
        [found] = backend.run_node(helper.make_node("Relu", ["x"], ["y"]), [x])
        np.testing.assert_array_equal(found, np.float32([0, 2]))
        self.assertTrue(backend.supports_device("CPU"))
        self.assertFalse(backend.supports_device("CUDA"))


if __name__ == "__main__":
    unittest.main()
