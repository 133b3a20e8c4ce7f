"""Runs models in onnxruntime for somebody who writes to its standard input and reads its standard output.

A request is a model, then how many runs, then for each run how many inputs and each of them: name, ONNX's number of its
element type, sizes, elements. The answer is 0 and for each run the outputs in the model's order (type, sizes, elements),
or 1 and why there are none. Numbers have eight bytes, little-endian; texts and elements come behind their length. The elements of
a tensor of texts are a block: how many there are and where each ends, in numbers of four bytes, and then all of them.
"""

import itertools
import struct
import sys
from collections.abc import Iterator

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

# What onnxruntime itself says of models that it refuses is part of the answer.
FATAL = 4


def main() -> None:
    """Answers until the input ends."""
    onnxruntime.set_default_logger_severity(FATAL)
    while (model := read_bytes()) is not None:
        runs = list(read_runs())
        try:
            answer = [number(0), *answers(model, runs)]
        except Exception as error:  # noqa: BLE001 - onnxruntime's errors share no other class
            answer = [number(1), counted(str(error).encode())]
        sys.stdout.buffer.write(b"".join(answer))
        sys.stdout.buffer.flush()


def answers(model: bytes, runs: list[dict[str, np.ndarray]]) -> Iterator[bytes]:
    """Runs the model as it is written, without optimisation."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = FATAL
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    # What nobody reads may be left in a model whose outputs became few.
    known = {value.name for value in session.get_inputs()}
    for inputs in runs:
        given = {name: array for name, array in inputs.items() if name in known}
        for array in session.run(None, given):
            yield tensor(np.asarray(array))


def tensor(array: np.ndarray) -> bytes:
    """Gives an output as it is sent."""
    sizes = [number(array.ndim), *map(number, array.shape)]
    if array.dtype == object:
        return b"".join([number(TensorProto.STRING), *sizes, counted(block(array))])
    elements = np.ascontiguousarray(array).tobytes()
    return b"".join([number(helper.np_dtype_to_tensor_dtype(array.dtype)), *sizes, counted(elements)])


def read_runs() -> Iterator[dict[str, np.ndarray]]:
    """Reads the inputs of each run."""
    for _ in range(read_number()):
        yield dict(read_input() for _ in range(read_number()))


def read_input() -> tuple[str, np.ndarray]:
    """Reads one input."""
    name = read_bytes().decode()
    kind = read_number()
    shape = [read_number() for _ in range(read_number())]
    elements = read_bytes()
    if kind == TensorProto.STRING:
        return name, np.array(texts(elements), object).reshape(shape)
    return name, np.frombuffer(elements, helper.tensor_dtype_to_np_dtype(kind)).reshape(shape)


def block(array: np.ndarray) -> bytes:
    """Gives texts as they are sent."""
    encoded = [text.encode() for text in array.ravel()]
    ends = itertools.accumulate(map(len, encoded))
    return struct.pack(f"<{len(encoded) + 1}I", len(encoded), *ends) + b"".join(encoded)


def texts(content: bytes) -> list[str]:
    """Reads texts."""
    count, *_ = struct.unpack_from("<I", content)
    ends = [0, *struct.unpack_from(f"<{count}I", content, 4)]
    whole = content[4 * (count + 1) :]
    return [whole[start:end].decode() for start, end in itertools.pairwise(ends)]


def read_number() -> int:
    """Reads a number."""
    return struct.unpack("<Q", sys.stdin.buffer.read(8))[0]


def read_bytes() -> bytes | None:
    """Reads what comes behind its length; nothing where the input ends."""
    length = sys.stdin.buffer.read(8)
    return sys.stdin.buffer.read(struct.unpack("<Q", length)[0]) if length else None


def number(value: int) -> bytes:
    """Gives a number as it is sent."""
    return struct.pack("<Q", value)


def counted(content: bytes) -> bytes:
    """Gives bytes behind their length."""
    return number(len(content)) + content


if __name__ == "__main__":
    main()
