"""Trained models that published packages carry, as they are, with what onnxruntime computes at two sizes of the inputs each.

Where a model leaves no size free, both inputs have the same size.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import onnx
from PIL import Image, ImageDraw

from zoo import runner, seeds
from zoo.packages import Package, fetch
from zoo.store import Arrays, Task, write_npz

Given = tuple[int, ...] | int
"""The shape of an input, or the number that it is."""

BASIC_PITCH = Package("basic-pitch", "0.4.0", "738adb503aae7fdfc7d1e1511aa0ce35052315f260a19531ef4c356708425db0")
DDDDOCR = Package("ddddocr", "1.6.1", "c7c70f4ae2d0335440ae8b272eea48c9f6888ecef46785fe2311f0c97a133935")
DESKEW = Package("occular-deskew", "0.5.0", "8abc7ea3838f6483f7104f7358de462802e1e86a0539062106a9b6d7cac91d5f")
MAGIKA = Package("magika", "1.0.3", "3e9b49134e8116ee40b431664dcbed9e199413efddcce1a173c734b4e0521529", "manylinux_2_28_x86_64")
NUDENET = Package("nudenet", "3.4.2", "5937dbd84e5d8e5de038f08ffea5a1bb50a08475776bf2b4795914ce0eaf0331")
RAPIDOCR = Package("rapidocr-onnxruntime", "1.4.4", "971d7d5f223a7a808662229df1ef69893809d8457d834e6373d3854bc1782cbf")
SILERO = Package("silero-vad", "6.2.3", "7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8")
SPEECHMOS = Package("speechmos", "0.0.1.1", "31c4c9d3234f6ee10102edff74333014c50006a3f389daf7ecacae34e68ebbf7")
SWIFT_F0 = Package("swift-f0", "0.3.0", "d7240c7c94b1d3e8f0e0cd2701b79be89a0f23a19cd5f944895a6518ecad72f3")

RATE = 16000
PICTURES = ("x", "images", "input1")
"""Inputs that are pictures."""


@dataclass(frozen=True)
class Trained:
    """A model in a package, the exporter that it names, and its inputs at each of two sizes."""

    package: Package
    path: str
    exporter: str
    sizes: tuple[Mapping[str, Given], Mapping[str, Given]]


def vad(samples: int, *, rate: bool, batches: tuple[int, int] = (1, 3)) -> tuple[dict[str, Given], dict[str, Given]]:
    """Gives the inputs of a voice activity detector: samples, the state before them and perhaps the sampling rate."""
    first, second = ({"input": (batch, samples), "state": (2, batch, 128)} | ({"sr": RATE} if rate else {}) for batch in batches)
    return first, second


def batches(name: str, *rest: int) -> tuple[dict[str, Given], dict[str, Given]]:
    """Gives one input for one sample and for three."""
    return {name: (1, *rest)}, {name: (3, *rest)}


def echo(width: int) -> tuple[dict[str, Given], dict[str, Given]]:
    """Gives the inputs of a judge of echo cancellation, of two lengths."""
    first, second = ({"input": (1, 3, frames, 160), "h0": (4, 1, width)} for frames in (200, 333))
    return first, second


WAVE = 144160
MODELS = {
    "basic_pitch": Trained(BASIC_PITCH, "basic_pitch/saved_models/icassp_2022/nmp.onnx", "tf2onnx", batches("serving_default_input_2:0", 43844, 1)),
    "ddddocr_common": Trained(DDDDOCR, "ddddocr/common.onnx", "pytorch", ({"input1": (1, 1, 64, 96)}, {"input1": (1, 1, 64, 200)})),
    "ddddocr_det": Trained(DDDDOCR, "ddddocr/common_det.onnx", "pytorch", ({"images": (1, 3, 416, 416)}, {"images": (1, 3, 416, 416)})),
    "magika": Trained(MAGIKA, "magika/models/standard_v3_3/model.onnx", "tf2onnx", batches("bytes", 2048)),
    "nudenet": Trained(NUDENET, "nudenet/320n.onnx", "pytorch", ({"images": (1, 3, 320, 320)}, {"images": (2, 3, 192, 256)})),
    "orinet": Trained(DESKEW, "occular_deskew/weights/orientation_orinet_fp32.onnx", "pytorch", batches("x", 3, 320, 320)),
    "rapidocr_cls": Trained(
        RAPIDOCR,
        "rapidocr_onnxruntime/models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
        "PaddlePaddle",
        ({"x": (1, 3, 48, 192)}, {"x": (2, 3, 64, 128)}),
    ),
    "rapidocr_det": Trained(
        RAPIDOCR, "rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", "", ({"x": (1, 3, 320, 320)}, {"x": (2, 3, 192, 256)})
    ),
    "rapidocr_rec": Trained(
        RAPIDOCR, "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", "", ({"x": (1, 3, 48, 160)}, {"x": (2, 3, 48, 320)})
    ),
    "silero_vad": Trained(SILERO, "silero_vad/data/silero_vad.onnx", "spox", vad(576, rate=True)),
    "silero_vad_16k_op15": Trained(SILERO, "silero_vad/data/silero_vad_16k_op15.onnx", "pytorch", vad(576, rate=True)),
    "silero_vad_half": Trained(SILERO, "silero_vad/data/silero_vad_half.onnx", "pytorch", vad(576, rate=False)),
    "silero_vad_ifless": Trained(SILERO, "silero_vad/data/silero_vad_op18_ifless.onnx", "pytorch", vad(576, rate=True)),
    "silero_vad_openvino": Trained(SILERO, "silero_vad/data/silero_vad_openvino_16k.onnx", "spox", vad(576, rate=False, batches=(1, 1))),
    "silero_vad_sequence": Trained(
        SILERO,
        "silero_vad/data/silero_vad_16k_sequence.onnx",
        "pytorch",
        ({"input": (4, 576), "h": (1, 1, 128), "c": (1, 1, 128)}, {"input": (31, 576), "h": (1, 1, 128), "c": (1, 1, 128)}),
    ),
    "aecmos_1": Trained(SPEECHMOS, "speechmos/aecmos_models/Run_1663829550_Stage_0.onnx", "pytorch", echo(64)),
    "aecmos_2": Trained(SPEECHMOS, "speechmos/aecmos_models/Run_1663915512_Stage_0.onnx", "pytorch", echo(64)),
    "aecmos_3": Trained(SPEECHMOS, "speechmos/aecmos_models/Run_1668423760_Stage_0.onnx", "pytorch", echo(96)),
    "dnsmos_p808": Trained(SPEECHMOS, "speechmos/dnsmos_models/model_v8.onnx", "keras2onnx", batches("input_1", 900, 120)),
    "pdnsmos": Trained(SPEECHMOS, "speechmos/pdnsmos_models/sig_bak_ovr.onnx", "keras2onnx", ({"input_1": (1, WAVE)}, {"input_1": (2, WAVE)})),
    "plcmos": Trained(
        SPEECHMOS,
        "speechmos/plcmos_models/plcmos_v2.onnx",
        "pytorch",
        ({"degraded_audio": (1, 1, 150, 257), "rater_embed": (1, 64)}, {"degraded_audio": (1, 1, 410, 257), "rater_embed": (1, 64)}),
    ),
    "swift_f0": Trained(
        SWIFT_F0,
        "swift_f0/model.onnx",
        "",
        ({"audio": (1, RATE), "fmin": 50, "fmax": 1000}, {"audio": (1, 4321), "fmin": 80, "fmax": 500}),
    ),
}


def tasks() -> list[Task]:
    """Gives one task for each model."""
    return [Task(f"trained/{name}", partial(fill, name)) for name in MODELS]


def fill(name: str, folder: Path) -> None:
    """Writes a model as published, `exporter.txt`, and inputs and outputs at both sizes."""
    trained = MODELS[name]
    with fetch(trained.package) as archive:
        content = archive.read(trained.path)
    model = onnx.load_from_string(content)
    if model.producer_name != trained.exporter:
        raise ValueError(f"{name} was exported by '{model.producer_name}'")
    (folder / "model.onnx").write_bytes(content)
    (folder / "exporter.txt").write_text(trained.exporter)
    session = runner.open_session(folder / "model.onnx")
    for suffix, size in zip(("", "_second"), trained.sizes, strict=True):
        inputs = {value.name: drawn(f"{name}{suffix}", value, size[value.name]) for value in session.get_inputs()}
        write_npz(folder / f"inputs{suffix}.npz", inputs)
        write_npz(folder / f"outputs{suffix}.npz", outputs(session, inputs))


def drawn(model: str, value: object, given: Given) -> np.ndarray:
    """Draws an input: noise over a wave, as in sounds and in pictures, around zero; bytes where the model takes integers."""
    kinds = {"tensor(float)": np.float32, "tensor(int32)": np.int32, "tensor(int64)": np.int64}
    if isinstance(given, int):
        return np.asarray(given, kinds[value.type])
    rng = seeds.generator(model, value.name)
    if value.type != "tensor(float)":
        return rng.integers(0, 256, given).astype(kinds[value.type])
    if value.name in PICTURES:
        return picture(rng, given)
    wave = np.sin(np.arange(given[-1], dtype=np.float32) * np.float32(0.1))
    return seeds.normal(rng, given, 0.3) + wave * np.float32(0.4)


def picture(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Draws lines of text on a white ground, with a little noise: a detector of text finds nothing in noise."""
    *_, height, width = shape
    image = Image.new("L", (width, height), "white")
    draw = ImageDraw.Draw(image)
    for top in range(6, height, 28):
        draw.text((8, top), "".join(rng.choice(list("abdegkmprsxABDEGKMRS2456"), 40)), fill="black", font_size=20)
    levels = np.asarray(image, np.float32) / np.float32(127.5) - 1
    return levels + seeds.normal(rng, shape, 0.02)


def outputs(session: object, inputs: Arrays) -> Arrays:
    """Runs a session; stops where an output is not finite or all of it is zero."""
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(names, dict(inputs)), strict=True))
    for name, values in found.items():
        if values.size == 0 or not np.isfinite(values).all() or not values.any():
            raise ValueError(f"output {name} tests nothing")
    return {name: np.asarray(values) for name, values in found.items()}
