"""Runs an artifact over a Parquet data set with Ray Data: `ray_batch.py MODEL.byoc INPUT --output FOLDER`.

INPUT is a Parquet file or a folder of them. It has a column for each input of the model, under its name, whose rows are lists of a
fixed size (or numbers, where a row is one), and a column that tells rows apart. FOLDER gets Parquet files with that column and one
for each output, in any order of rows. On a cluster, every machine needs the artifact at the same path, and storage that all of them see.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Sequence

import byoc
import numpy as np
import pyarrow as pa
import ray
import ray.data


class Replica:
    """A session in a process of its own: replicas on one machine map one file and share its pages."""

    def __init__(self, model: str, key: str, batch: int, threads: int) -> None:
        self.session = byoc.Session(model, threads=threads)
        self.key, self.batch = key, batch

    def __call__(self, rows: pa.Table) -> pa.Table:
        count = rows.num_rows
        inputs = [self.full(array(rows, port)) for port in self.session.inputs]
        columns = {self.key: rows.column(self.key)}
        for port, values in zip(self.session.outputs, self.session(*inputs), strict=True):
            columns[port.name] = column(values[:count])
        return pa.table(columns)

    def full(self, values: np.ndarray) -> np.ndarray:
        """The rows, and the last of them again up to a full batch."""
        # Kernels may sum in another order for a few rows than for many: the result of a row must not depend on how Ray splits them.
        return np.pad(values, [(0, self.batch - len(values))] + [(0, 0)] * (values.ndim - 1), mode="edge")


def array(rows: pa.Table, port: byoc.Port) -> np.ndarray:
    """The column of an input, in the shape of the input."""
    values = rows.column(port.name).combine_chunks()
    shape = (len(values), *port.shape[1:])
    elements = values.flatten() if pa.types.is_fixed_size_list(values.type) else values
    if values.null_count or elements.null_count:
        raise ValueError(f"column '{port.name}' has rows without a value")
    if len(elements) != math.prod(shape):
        raise ValueError(f"a row of column '{port.name}' is a {values.type}, and the input takes the shape {shape[1:]}")
    return elements.to_numpy(zero_copy_only=False).reshape(shape)


def column(values: np.ndarray) -> pa.Array:
    """An output as a column, of lists where a row has more than one element."""
    flat = pa.array(values.reshape(-1))
    return flat if values.ndim == 1 else pa.FixedSizeListArray.from_arrays(flat, math.prod(values.shape[1:]))


def checked_inputs(model: str, batch: int) -> list[str]:
    """The names of the inputs of an artifact that can run batches of that many rows."""
    session = byoc.Session(model)
    for port in (*session.inputs, *session.outputs):
        if not port.shape or not (isinstance(port.shape[0], str) or port.shape[0] == batch):
            raise SystemExit(f"'{port.name}' has the shape {port.shape}, and --batch is {batch}: the first dimension must be that, or symbolic")
    for port in session.inputs:
        if any(isinstance(size, str) for size in port.shape[1:]):
            raise SystemExit(f"'{port.name}' has the shape {port.shape}: only the first dimension may be symbolic")
    return [port.name for port in session.inputs]


def absolute(path: str) -> str:
    """A path for processes that run elsewhere; `s3://...` and the like stay."""
    return path if "://" in path else os.path.abspath(path)


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=absolute, help="the artifact")
    parser.add_argument("input", type=absolute, help="a Parquet file, or a folder of them")
    parser.add_argument("--output", type=absolute, required=True, help="a folder, which must not exist")
    parser.add_argument("--key", default="id", help="the column that tells rows apart (default: %(default)s)")
    parser.add_argument("--replicas", type=int, default=1, help="processes that run the model (default: %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="threads of each (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=32, help="rows in a run (default: %(default)s)")
    parser.add_argument("--block", type=int, default=1024, help="rows that are moved, retried and written at once (default: %(default)s)")
    options = parser.parse_args(words)
    inputs = checked_inputs(options.model, options.batch)

    ray.init()
    cpus, reserved = int(ray.cluster_resources().get("CPU", 0)), options.replicas * options.threads
    if reserved >= cpus:
        # Replicas keep their CPUs to the end, so that a job without another one would wait forever.
        raise SystemExit(f"{options.replicas} replicas reserve {reserved} of {cpus} CPUs, and reading and writing need one")
    rows = ray.data.read_parquet(options.input)
    missing = {options.key, *inputs} - set(rows.schema().names)
    if missing:
        raise SystemExit(f"{options.input} has no column {', '.join(sorted(missing))}")
    # Ray Data starts a replica that ends anew and gives it its blocks again, without a limit.
    rows.select_columns([options.key, *inputs]).repartition(target_num_rows_per_block=options.block).map_batches(
        Replica,
        fn_constructor_kwargs={"model": options.model, "key": options.key, "batch": options.batch, "threads": options.threads},
        batch_format="pyarrow",
        batch_size=options.batch,
        compute=ray.data.ActorPoolStrategy(size=options.replicas),
        num_cpus=options.threads,
    ).write_parquet(options.output, mode="error")


if __name__ == "__main__":
    main()
