"""Times PyTorch's compiled mode on the encoder of BERT in f16: others.py [--after FILE] [--mode MODE] LAYERSxWIDTHxHEADSxSEQUENCExBATCH...

Prints a line for each: name, sizes, milliseconds. The median of runs whose input and output stay on the device, the wait for
the device included, as byoc's are taken. With --after, everything is compiled first and then waits until FILE is there, so
that nothing else is timed meanwhile.
"""

import argparse
import statistics
import time
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

WARM_UP, RUNS = 10, 100


class Layer(nn.Module):
    """One layer: attention, two products with GELU between them, and a sum and a normalisation after each."""

    def __init__(self, width: int, heads: int) -> None:
        """Makes random weights."""
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Computes the layer."""
        batch, sequence, width = x.shape
        q, k, v = (
            part(x).view(batch, sequence, self.heads, width // self.heads).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        y = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, sequence, width)
        x = self.first(x + self.out(y))
        return self.second(x + self.down(functional.gelu(self.up(x))))


def median_ms(run) -> float:
    """Gives the median time of a run, the wait for the device included."""
    times = []
    for index in range(WARM_UP + RUNS):
        start = time.perf_counter()
        run()
        torch.cuda.synchronize()
        if index >= WARM_UP:
            times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def main() -> None:
    """Compiles all, waits, and times all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--after", type=Path)
    parser.add_argument("--mode", default="reduce-overhead")
    parser.add_argument("sizes", nargs="+")
    arguments = parser.parse_args()
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch._dynamo.config.recompile_limit = 64
    encoders, runs = {}, []
    with torch.inference_mode():
        for sizes in arguments.sizes:
            layers, width, heads, sequence, batch = map(int, sizes.split("x"))
            kind = (layers, width, heads)
            if kind not in encoders:
                encoders[kind] = nn.Sequential(*(Layer(width, heads) for _ in range(layers))).half().cuda().eval()
            value = torch.rand((batch, sequence, width), dtype=torch.float16, device="cuda") * 2 - 1
            compiled = torch.compile(encoders[kind], mode=arguments.mode, dynamic=False)
            start = time.perf_counter()
            for _ in range(3):
                compiled(value)
            torch.cuda.synchronize()
            print(f"compiled {sizes} {time.perf_counter() - start:.1f} s", flush=True)
            if arguments.after is None:
                print(f"torch.compile {arguments.mode} {sizes} {median_ms(lambda: compiled(value)):.4f}", flush=True)
            else:
                runs.append((sizes, compiled, value))
        while arguments.after is not None and not arguments.after.exists():
            time.sleep(0.2)
        for sizes, compiled, value in runs:
            print(f"torch.compile {arguments.mode} {sizes} {median_ms(lambda: compiled(value)):.4f}", flush=True)


main()
