"""Writes models as PyTorch's two exporters write them, at the sizes they are published with, with seeded weights.

    python -m venv torch
    torch/bin/pip install torch==2.15.0 torchvision==0.29.2 onnx==1.23.2 onnxscript==0.7.2
    torch/bin/python tests/bench/exporters.py DATA [--only vit_b_16 ...]

Makes DATA/exporters/NAME_script and NAME_dynamo, each a model.onnx and an inputs.npz, for `compare.py`.
"""

import argparse
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
import torchvision
from torch import nn
from torch.nn import functional

Example = tuple[torch.Tensor, ...]


def pixels(*shape: int) -> torch.Tensor:
    """An image of random numbers."""
    return torch.randn(*shape)


def vision(name: str) -> Callable[[], tuple[nn.Module, Example]]:
    """A model of torchvision at 224 by 224."""
    return lambda: (torchvision.models.get_model(name), (pixels(1, 3, 224, 224),))


class Attention(nn.Module):
    """Attention by heads, of one sequence to itself or to another."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x: torch.Tensor, other: torch.Tensor, causal: bool) -> torch.Tensor:
        """Reads `other` from `x`."""

        def split(y: torch.Tensor) -> torch.Tensor:
            return y.view(y.shape[0], y.shape[1], self.heads, -1).transpose(1, 2)

        mixed = functional.scaled_dot_product_attention(
            split(self.query(x)), split(self.key(other)), split(self.value(other)), is_causal=causal
        )
        return self.out(mixed.transpose(1, 2).flatten(2))


class Block(nn.Module):
    """A layer of a transformer, normalised before each part; with attention to another sequence if `crossed`."""

    def __init__(self, width: int, heads: int, crossed: bool = False):
        super().__init__()
        self.own, self.own_norm = Attention(width, heads), nn.LayerNorm(width)
        self.cross = Attention(width, heads) if crossed else None
        self.cross_norm = nn.LayerNorm(width) if crossed else None
        self.norm = nn.LayerNorm(width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor, other: torch.Tensor | None = None) -> torch.Tensor:
        """One layer."""
        y = self.own_norm(x)
        x = x + self.own(y, y, self.cross is not None)
        if self.cross is not None:
            x = x + self.cross(self.cross_norm(x), other, False)
        return x + self.feed(self.norm(x))


class WhisperEncoder(nn.Module):
    """The encoder of Whisper "base": 80 channels of 3000 frames."""

    def __init__(self, width: int = 512, heads: int = 8, layers: int = 6):
        super().__init__()
        self.first = nn.Conv1d(80, width, 3, padding=1)
        self.second = nn.Conv1d(width, width, 3, stride=2, padding=1)
        self.position = nn.Parameter(0.02 * torch.randn(1500, width))
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, mel: torch.Tensor) -> torch.Tensor:
        """From frames to a sequence of half their number."""
        x = functional.gelu(self.second(functional.gelu(self.first(mel))))
        x = x.transpose(1, 2) + self.position[: x.shape[2]]
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class WhisperDecoder(nn.Module):
    """The decoder of Whisper "base", for all tokens so far at once; its output layer is the embedding."""

    def __init__(self, width: int = 512, heads: int = 8, layers: int = 6, tokens: int = 51865):
        super().__init__()
        self.embedding = nn.Embedding(tokens, width)
        self.position = nn.Parameter(0.02 * torch.randn(448, width))
        self.blocks = nn.ModuleList(Block(width, heads, crossed=True) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: torch.Tensor, audio: torch.Tensor) -> torch.Tensor:
        """The next token's scores at each position."""
        x = self.embedding(tokens) + self.position[: tokens.shape[1]]
        for block in self.blocks:
            x = block(x, audio)
        return self.norm(x) @ self.embedding.weight.T


class Gpt2Step(nn.Module):
    """GPT-2 "small" for one token behind a cache of keys and values."""

    def __init__(self, width: int = 768, heads: int = 12, layers: int = 12, tokens: int = 50257):
        super().__init__()
        self.heads = heads
        self.embedding = nn.Embedding(tokens, width)
        self.position = nn.Embedding(1024, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers + 1))
        self.projections = nn.ModuleList(nn.Linear(width, 3 * width) for _ in range(layers))
        self.outs = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.ups = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(layers))
        self.downs = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(layers))

    def forward(self, token: torch.Tensor, past: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Scores of the next token, and the cache with this one."""
        x = self.embedding(token) + self.position(torch.full_like(token, past.shape[4]))
        caches = []
        for i, projection in enumerate(self.projections):
            q, k, v = projection(self.norms[2 * i](x)).chunk(3, dim=-1)
            q, k, v = (y.view(1, 1, self.heads, -1).transpose(1, 2) for y in (q, k, v))
            k, v = torch.cat([past[i, 0], k], dim=2), torch.cat([past[i, 1], v], dim=2)
            caches.append(torch.stack([k, v]))
            mixed = functional.scaled_dot_product_attention(q, k, v)
            x = x + self.outs[i](mixed.transpose(1, 2).flatten(2))
            up = functional.gelu(self.ups[i](self.norms[2 * i + 1](x)), approximate="tanh")
            x = x + self.downs[i](up)
        return self.norms[-1](x) @ self.embedding.weight.T, torch.stack(caches)


def convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Sequential:
    """A convolution, normalised, and SiLU."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, size // 2, bias=False), nn.BatchNorm2d(outputs), nn.SiLU()
    )


class CrossStage(nn.Module):
    """Half of the channels go through residual blocks, all halves are joined: YOLOv8's C2f."""

    def __init__(self, inputs: int, outputs: int, depth: int, residual: bool):
        super().__init__()
        self.half, self.residual = outputs // 2, residual
        self.first = convolution(inputs, outputs, 1)
        self.last = convolution((2 + depth) * self.half, outputs, 1)
        pair = lambda: nn.Sequential(convolution(self.half, self.half, 3), convolution(self.half, self.half, 3))
        self.blocks = nn.ModuleList(pair() for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """All halves side by side."""
        parts = list(self.first(x).chunk(2, 1))
        for block in self.blocks:
            y = block(parts[-1])
            parts.append(parts[-1] + y if self.residual else y)
        return self.last(torch.cat(parts, 1))


class Yolo(nn.Module):
    """A detector of the size of YOLOv8 "nano" at 320 by 320: three scales, boxes and 80 classes."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(convolution(3, 16, 3, 2), convolution(16, 32, 3, 2), CrossStage(32, 32, 1, True))
        self.third = nn.Sequential(convolution(32, 64, 3, 2), CrossStage(64, 64, 2, True))
        self.fourth = nn.Sequential(convolution(64, 128, 3, 2), CrossStage(128, 128, 2, True))
        self.fifth = nn.Sequential(convolution(128, 256, 3, 2), CrossStage(256, 256, 1, True))
        self.before, self.after = convolution(256, 128, 1), convolution(512, 256, 1)
        self.up4, self.up3 = CrossStage(384, 128, 1, False), CrossStage(192, 64, 1, False)
        self.down3, self.down4 = convolution(64, 64, 3, 2), convolution(128, 128, 3, 2)
        self.out4, self.out5 = CrossStage(192, 128, 1, False), CrossStage(384, 256, 1, False)
        head = lambda width, outputs: nn.Sequential(
            convolution(width, outputs, 3), convolution(outputs, outputs, 3), nn.Conv2d(outputs, outputs, 1)
        )
        self.boxes = nn.ModuleList(head(width, 64) for width in (64, 128, 256))
        self.classes = nn.ModuleList(head(width, 80) for width in (64, 128, 256))

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        """Box and scores of each place."""
        third = self.third(self.stem(image))
        fourth = self.fourth(third)
        y = self.before(self.fifth(fourth))
        pooled = [y]
        for _ in range(3):
            pooled.append(functional.max_pool2d(pooled[-1], 5, 1, 2))
        fifth = self.after(torch.cat(pooled, 1))
        double = lambda x: functional.interpolate(x, scale_factor=2, mode="nearest")
        four = self.up4(torch.cat([double(fifth), fourth], 1))
        three = self.up3(torch.cat([double(four), third], 1))
        four = self.out4(torch.cat([self.down3(three), four], 1))
        five = self.out5(torch.cat([self.down4(four), fifth], 1))
        found = []
        for scale, boxes, classes in zip((three, four, five), self.boxes, self.classes):
            sides = boxes(scale).flatten(2).view(1, 4, 16, -1).softmax(2)
            weights = torch.arange(16.0).view(1, 1, 16, 1)
            found.append(torch.cat([(sides * weights).sum(2), classes(scale).flatten(2).sigmoid()], 1))
        return torch.cat(found, 2)


class Tagger(nn.Module):
    """A tagger of words: embedding, two LSTM in both directions, a linear layer."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(20000, 256)
        self.layers = nn.LSTM(256, 256, num_layers=2, bidirectional=True, batch_first=True)
        self.out = nn.Linear(512, 50)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        """Scores of each word's tags."""
        return self.out(self.layers(self.embedding(words))[0])


MODELS: dict[str, Callable[[], tuple[nn.Module, Example]]] = {
    name: vision(name)
    for name in (
        "mobilenet_v3_large", "efficientnet_b0", "densenet121", "squeezenet1_1", "shufflenet_v2_x1_0", "convnext_tiny", "swin_t",
        "vit_b_16",
    )
} | {
    "whisper_encoder": lambda: (WhisperEncoder(), (pixels(1, 80, 3000),)),
    "whisper_decoder": lambda: (WhisperDecoder(), (torch.randint(0, 50000, (1, 16)), pixels(1, 1500, 512))),
    "yolo": lambda: (Yolo(), (pixels(1, 3, 320, 320),)),
    "lstm_tagger": lambda: (Tagger(), (torch.randint(0, 20000, (1, 64)),)),
    "gpt2_step": lambda: (Gpt2Step(), (torch.randint(0, 50000, (1, 1)), pixels(12, 2, 1, 12, 127, 64))),
}


def settle(model: nn.Module) -> None:
    """Gives the statistics of normalisations and the scales of layers what training might."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            nn.init.uniform_(module.running_mean, -0.1, 0.1)
            nn.init.uniform_(module.running_var, 0.9, 1.1)
        if hasattr(module, "layer_scale"):
            nn.init.uniform_(module.layer_scale, 0.05, 0.15)


def write(folder: Path, model: nn.Module, example: Example, dynamo: bool) -> None:
    """Exports one model, and its inputs beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"input_{i}" for i in range(len(example))]
    options = {} if dynamo else {"opset_version": 17}
    torch.onnx.export(
        model, example, str(folder / "model.onnx"), input_names=names, dynamo=dynamo, external_data=False, **options
    )
    np.savez(folder / "inputs.npz", **{name: value.numpy() for name, value in zip(names, example)})


def main() -> None:
    """Writes the models that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--only", nargs="*", choices=MODELS, default=list(MODELS))
    arguments = parser.parse_args()
    for name in arguments.only:
        torch.manual_seed(sum(name.encode()))
        model, example = MODELS[name]()
        settle(model)
        for exporter in ("script", "dynamo"):
            write(arguments.data / "exporters" / f"{name}_{exporter}", model.eval(), example, exporter == "dynamo")


if __name__ == "__main__":
    main()
