"""Cost of `diagnose` on a network whose backward pass is its own, over the same network with plain layers.

The first batch takes the trace; what a batch costs after it is the difference between two numbers of batches.

    python -m tests.bench.bench_own_backward [--width 256 --depth 4 --pairs 9 --device cpu]
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

import torch
from torch import Tensor, nn

from fa_core import diagnose
from tests.bench.bench_diagnose import ResMLP
from tests.bench.bench_passes import clock_for
from tests.bench.figures import amount, ratio_within, report

BUDGET = 1.5
FEW, MANY = 10, 40


class Aligned(torch.autograd.Function):
    """x·Wᵀ + b forward, a fixed matrix backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, feedback: Tensor) -> Tensor:
        ctx.save_for_backward(feedback)
        return nn.functional.linear(x, weight, bias)

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Any:
        return g @ ctx.saved_tensors[0], None, None, None


class AlignedLinear(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = Aligned.apply(x, self.weight, self.bias, self.feedback)
        return out


def aligned(net: ResMLP) -> ResMLP:
    """The network with its blocks' linear layers trained by feedback alignment."""
    for block in net.blocks:
        for layer in block.modules():
            if isinstance(layer, nn.Linear):
                layer.__class__ = AlignedLinear
                # kept with the layer, as BioTorch does
                layer.register_buffer("feedback", layer.weight.detach().roll(1, 0))
    return net


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    clock = clock_for(given.device)
    plain, own = ResMLP(given.width, given.depth), aligned(ResMLP(given.width, given.depth))
    samples = [(torch.randn(128, 3072), torch.randint(10, (128,))) for _ in range(MANY)]
    batches = [(x.to(given.device), y.to(given.device)) for x, y in samples]

    def seconds(net: nn.Module, k: int) -> float:
        return clock.seconds(
            lambda: diagnose(net.to(given.device), batches[:k], taps=["embed", "blocks.*"])
        )

    cases = [(net, k) for net in (plain, own) for k in (FEW, MANY)]
    rounds = [[seconds(net, k) for net, k in cases] for _ in range(given.pairs + 1)][1:]
    later = [((b - a) / (MANY - FEW), (d - c) / (MANY - FEW)) for a, b, c, d in rounds]
    bare, ours = (statistics.median(column) for column in zip(*later, strict=True))
    ratio = statistics.median(one / least for least, one in later)
    few, first = (
        statistics.median(column) for column in zip(*((a, c) for a, _, c, _ in rounds), strict=True)
    )
    figures = [
        ratio_within(
            "a batch after the trace",
            ratio,
            BUDGET,
            amount(1000 * ours, "ms"),
            f"plain layers {amount(1000 * bare, 'ms')}",
        ),
        ratio_within(
            f"{FEW} batches, the trace with them",
            first / few,
            None,
            amount(1000 * first, "ms"),
            f"plain layers {amount(1000 * few, 'ms')}",
        ),
    ]
    report(f"a backward pass of its own: d={given.width}, L={given.depth}, batches of 128", figures)


if __name__ == "__main__":
    main()
