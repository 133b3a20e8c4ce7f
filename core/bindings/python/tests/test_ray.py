"""The batch job `docs/examples/ray_batch.py` on a Ray of its own: what it computes, what its replicas have in memory, and what becomes
of it when one of them is killed."""

from __future__ import annotations

import importlib.util
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

# Ray reads these when it is imported.
os.environ |= {
    "RAY_USAGE_STATS_ENABLED": "0",
    # The only way to have it listen on 127.0.0.1 alone: it takes that address of a node for the machine's other one.
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # Without it Ray writes a token to the user's folder.
    "RAY_AUTH_MODE": "token",
    "RAY_AUTH_TOKEN": secrets.token_hex(32),
}

import numpy as np
import onnx
import pyarrow as pa
import pyarrow.parquet as pq
import ray
from onnx import TensorProto, helper, numpy_helper

import byoc

EXAMPLE = Path(__file__).parents[4] / "docs/examples/ray_batch.py"
SPEC = importlib.util.spec_from_file_location("ray_batch", EXAMPLE)
ray_batch = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(ray_batch)

WIDTHS = (256, 2048, 2048, 1792, 16)
"""Of the layers of the model, which has 32 MiB of weights."""
ROWS = 25_600
"""So many that a fast machine is not through with them before the second replica has begun."""
BATCH, BLOCK = 32, 484
"""A block ends with a batch of 4 rows, for which byoc has another kernel than for 32: their sums differ in the last bits."""
FILES = 3
REPLICAS = 2
ATTEMPTS = 4
"""How many jobs may be through before what is tested of them."""
SHARED = 1.05
"""The most memory that the replicas may have of the artifact together, in sizes of the file."""
DEADLINE = 240
"""Seconds after which something is wrong, on the slowest machine."""
HOLD = 60
"""Seconds from the start of a job for which the replica that came first is held."""
T = TypeVar("T")


def model(rows: int | str = "batch") -> onnx.ModelProto:
    """A multi-layer perceptron."""
    rng = np.random.default_rng(7)
    nodes, weights, value = [], [], "x"
    for layer, (before, after) in enumerate(zip(WIDTHS, WIDTHS[1:])):
        weight = (rng.standard_normal((before, after)) / np.sqrt(before)).astype(np.float32)
        weights.append(numpy_helper.from_array(weight, f"w{layer}"))
        nodes.append(helper.make_node("MatMul", [value, f"w{layer}"], [f"p{layer}"]))
        value = "y" if after == WIDTHS[-1] else f"h{layer}"
        nodes.append(helper.make_node("Tanh", [f"p{layer}"], [value]))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, width]) for name, width in (("x", WIDTHS[0]), ("y", WIDTHS[-1])))
    graph = helper.make_graph(nodes, "main", [x], [y], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


class Mapping(NamedTuple):
    """What a process has in memory of a mapped file, in bytes."""

    resident: int
    proportional: int
    """Each page divided by the number of processes that have it."""


def mapping(pid: int, path: Path) -> Mapping:
    """What `/proc` says of all mappings of the file in the process."""
    found, ours = {"Rss:": 0, "Pss:": 0}, False
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        first, *rest = line.split(maxsplit=5)
        if not first.endswith(":"):
            ours = rest[-1:] == [str(path)]
        elif ours and first in found:
            found[first] += int(rest[0]) * 1024
    return Mapping(found["Rss:"], found["Pss:"])


def processes(path: Path) -> set[int]:
    """Those that map the file."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                maps = (entry / "maps").read_text()
            except OSError:
                # It has ended, or is another user's.
                continue
            if f" {path}\n" in maps:
                found.add(int(entry.name))
    return found


@contextmanager
def stopped(pids: set[int]) -> Iterator[None]:
    """Holds processes, so that what is read of one fits what is read of another."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)


class Ended(AssertionError):
    """The job was through before what was waited for: a machine with little to spare starts replicas one after another."""


class Job:
    """The program, as a process that runs on the test's Ray."""

    def __init__(self, model: Path, data: Path, folder: Path) -> None:
        self.model, self.output, self.log = model, folder / "output", folder / "log"
        self.held: set[int] = set()
        self.hold_until = time.monotonic() + HOLD
        settings = ["--replicas", str(REPLICAS), "--batch", str(BATCH), "--block", str(BLOCK)]
        with self.log.open("wb") as log:
            # Ray runs in another folder than the one that these are relative to.
            command = [sys.executable, EXAMPLE, os.path.relpath(model, folder), os.path.relpath(data, folder), "--output", "output", *settings]
            self.process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        self.process.kill()
        self.process.wait()

    def fail(self, what: str, kind: type[AssertionError] = AssertionError) -> None:
        raise kind(f"{what}; the job says:\n{self.log.read_text(errors='replace')[-6000:]}")

    def replicas(self) -> set[int]:
        return processes(self.model) - {self.process.pid}

    def wait_for(self, what: str, look: Callable[[], T]) -> T:
        """What `look` finds, once it finds something while the job runs."""
        end = time.monotonic() + DEADLINE
        while not (found := look()):
            if self.process.poll() is not None:
                self.fail(f"the job ended with {self.process.returncode} before {what}", AssertionError if self.process.returncode else Ended)
            if time.monotonic() > end:
                self.fail(f"not in {DEADLINE} seconds: {what}")
            time.sleep(0.02)
        return found

    def finish(self) -> None:
        try:
            code = self.process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            self.fail(f"the job has not ended in {DEADLINE} seconds")
        if code:
            self.fail(f"the job ended with {code}")

    def all_loaded(self) -> set[int]:
        """The replicas, once each has read nearly all of the file. Until then those that have are held: one alone may be through with the
        job before Ray has started another."""
        loaded = set()
        for pid in self.replicas():
            with suppress(OSError):
                if mapping(pid, self.model).resident >= 0.95 * self.model.stat().st_size:
                    loaded.add(pid)
        if len(loaded) == REPLICAS:
            self.release()
            return loaded
        if time.monotonic() > self.hold_until:
            # There is nothing left for another one.
            self.release()
            return set()
        for pid in loaded - self.held:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
                self.held.add(pid)
        return set()

    def release(self) -> None:
        for pid in self.held:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        self.held.clear()

    def rows_written(self) -> int:
        """Of files that are complete."""
        rows = 0
        for file in self.output.glob("*.parquet"):
            try:
                rows += pq.read_metadata(file).num_rows
            except pa.ArrowInvalid:
                continue
        return rows


class Replica(unittest.TestCase):
    """The parts of the program that need no Ray."""

    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = Path(folder.name) / "model.byoc"

    def compile(self, x: list[int | str], y: list[int | str]) -> None:
        """A model that sums pairs of each row."""
        ports = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x), helper.make_tensor_value_info("y", TensorProto.FLOAT, y)]
        axes = numpy_helper.from_array(np.array([2]), "axes")
        graph = helper.make_graph([helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)], "main", ports[:1], ports[1:], [axes])
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
        byoc.compile(made.SerializeToString(), self.path)

    def rows(self, count: int, size: int = 6) -> pa.Table:
        lists = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(count * size, dtype=np.float32)), size)
        return pa.table({"name": [f"row {number}" for number in range(count)], "x": lists})

    def test_batches_of_fewer_rows_are_filled_up(self) -> None:
        for first in (4, "batch"):
            self.compile([first, 3, 2], [first, 3])
            self.assertEqual(ray_batch.checked_inputs(str(self.path), 4), ["x"])
            replica = ray_batch.Replica(str(self.path), "name", 4, 1)
            for count in (4, 1):
                # A slice begins in the middle of its column's memory.
                found = replica(self.rows(7).slice(2, count)).to_pydict()
                sums = [[12 * row + 4 * pair + 1 for pair in range(3)] for row in range(2, 2 + count)]
                self.assertEqual(found, {"name": [f"row {row}" for row in range(2, 2 + count)], "y": sums})

    def test_what_cannot_run_in_batches_is_an_error(self) -> None:
        self.compile([4, 3, 2], [4, 3])
        with self.assertRaisesRegex(SystemExit, r"'x' has the shape \(4, 3, 2\), and --batch is 8: the first dimension must be that, or symbolic"):
            ray_batch.checked_inputs(str(self.path), 8)
        replica = ray_batch.Replica(str(self.path), "name", 4, 1)
        with self.assertRaisesRegex(ValueError, r"a row of column 'x' is a fixed_size_list<.*>\[5\], and the input takes the shape \(3, 2\)"):
            replica(self.rows(4, 5))
        with self.assertRaisesRegex(ValueError, "column 'x' has rows without a value"):
            replica(pa.table({"name": ["a"], "x": pa.array([None], pa.list_(pa.float32(), 6))}))
        self.compile(["batch", "width", 2], ["batch", "width"])
        with self.assertRaisesRegex(SystemExit, "only the first dimension may be symbolic"):
            ray_batch.checked_inputs(str(self.path), 4)


class Batch(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        # Ray's sockets are in it, and the path of a socket has 107 bytes at most.
        cls.folder = Path(tempfile.mkdtemp(prefix="byoc", dir="/tmp"))
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.model = cls.folder / "model.byoc"
        byoc.compile(model().SerializeToString(), cls.model)
        rng = np.random.default_rng(8)
        cls.ids = rng.permutation(ROWS)
        cls.x = rng.standard_normal((ROWS, WIDTHS[0])).astype(np.float32)
        cls.data = cls.folder / "data"
        cls.data.mkdir()
        for number, part in enumerate(np.array_split(np.arange(ROWS), FILES)):
            lists = pa.FixedSizeListArray.from_arrays(pa.array(cls.x[part].reshape(-1)), WIDTHS[0])
            pq.write_table(pa.table({"id": cls.ids[part], "x": lists, "more": part}), cls.data / f"{number}.parquet")
        session = byoc.Session(cls.model)
        cls.expected = np.concatenate([session.run({"x": cls.x[first : first + BATCH]})["y"] for first in range(0, ROWS, BATCH)])
        # A third process that maps the file would make the shares of the replicas smaller.
        del session

        cls.addClassCleanup(ray.shutdown)
        # Ray needs a CPU to read and write beside those of the replicas.
        small = {"num_cpus": REPLICAS + 1, "object_store_memory": 128 << 20, "include_dashboard": False}
        ray.init("local", _temp_dir=str(cls.folder / "ray"), log_to_driver=False, **small)
        os.environ["RAY_ADDRESS"] = ray.get_runtime_context().gcs_address
        cls.addClassCleanup(os.environ.pop, "RAY_ADDRESS")

    def job(self) -> Job:
        return Job(self.model, self.data, Path(tempfile.mkdtemp(dir=self.folder)))

    def check(self, job: Job) -> None:
        """Whether the output has every row once, to the bit as the session of one process computed it."""
        table = pq.read_table(job.output)
        self.assertEqual(table.column_names, ["id", "y"])
        ids = table.column("id").to_numpy()
        self.assertEqual(len(ids), ROWS)
        self.assertTrue(np.array_equal(np.sort(ids), np.arange(ROWS)), "ids")
        found = table.column("y").combine_chunks().flatten().to_numpy().reshape(ROWS, WIDTHS[-1])
        places = np.argsort(self.ids)[ids]
        different = np.flatnonzero((found.view(np.uint32) != self.expected[places].view(np.uint32)).any(axis=1))
        self.assertEqual(different.tolist(), [], "rows that differ")

    def several_times(self, test: Callable[[Job], None]) -> None:
        """The test of a job; of another one where the first was through too early for it."""
        for attempt in range(ATTEMPTS):
            try:
                with self.job() as job:
                    test(job)
                return
            except Ended:
                if attempt + 1 == ATTEMPTS:
                    raise

    def test_replicas_share_the_file_and_compute_what_one_process_does(self) -> None:
        self.several_times(self.replicas_share_the_file)

    def replicas_share_the_file(self, job: Job) -> None:
        size = self.model.stat().st_size
        pids = job.wait_for(f"{REPLICAS} replicas had loaded the model", job.all_loaded)
        with stopped(pids):
            mappings = [mapping(pid, self.model) for pid in pids]
        job.finish()
        ratio = sum(mapping.proportional for mapping in mappings) / size
        print(f"{REPLICAS} replicas have {ratio:.3f} of the file in memory: {mappings}, of {size} bytes")
        self.assertLessEqual(ratio, SHARED, mappings)
        self.check(job)

    def test_a_killed_replica_loses_no_rows(self) -> None:
        self.several_times(self.no_row_is_lost)

    def no_row_is_lost(self, job: Job) -> None:
        pids = job.wait_for(f"{REPLICAS} replicas had loaded the model", job.all_loaded)
        job.wait_for("a third of the rows were written", lambda: job.rows_written() >= ROWS // 3)
        if not pids <= job.replicas():
            raise Ended("a replica had nothing left to do")
        with stopped(pids):
            written = job.rows_written()
            killed = min(pids)
            os.kill(killed, signal.SIGKILL)
        if written == ROWS:
            raise Ended("the job was not half-way")
        again = job.wait_for("another process took the place of the killed one", lambda: job.replicas() - pids)
        job.finish()
        print(f"killed {killed} after {written} of {ROWS} rows; {again} took its place")
        self.check(job)


if __name__ == "__main__":
    unittest.main()
