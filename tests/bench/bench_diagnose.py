"""Cost of `diagnose` over its floor: a bare forward + activation-gradient pass of the same batches.

Prints the median ratio of paired runs (the two alternate, so that a busy machine hits both). The floor takes
every g_l of every batch. `diagnose` as it is called by default goes back to layer L//2 only in the batches that
serve drift alone, hence ratios below 1; "all batches for norms" asks for as many gradients as the floor.

    python -m tests.bench.bench_diagnose [--width 256 --depth 4 --pairs 15 --device cpu]
"""

import argparse
import statistics

import torch
import torch.nn.functional as F
from torch import Tensor

from fa_core import diagnose
from fa_core.zoo.models import build
from tests.bench.clock import clock_for
from tests.bench.figures import amount, ratio_within, report

Batches = list[tuple[Tensor, Tensor]]
BUDGET = 1.3


def floor(net, batches):
    """Nothing but the passes: every g_l of every batch, no number taken from them."""
    for x, y in batches:
        x = x.detach().requires_grad_()
        logits, hidden = net(x, return_hidden=True)
        torch.autograd.grad(F.cross_entropy(logits, y), hidden)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--depth", type=int, default=4)
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--device", default="cpu")
    given = parser.parse_args()
    clock = clock_for(given.device)
    net = build("resmlp", d=given.width, L=given.depth, seed=0).to(given.device).eval()
    batches = [
        (
            torch.randn(128, 3072, device=given.device),
            torch.randint(10, (128,), device=given.device),
        )
        for _ in range(given.batches)
    ]
    ways = {
        "own stream": lambda: diagnose(net, batches),
        "all batches for norms": lambda: diagnose(net, batches, norm_batches=given.batches),
        "module taps": lambda: diagnose(net, batches, taps=["blocks.*:in", "out_ln:in"]),
    }
    figures = []
    for name, way in ways.items():
        clock.seconds(way), clock.seconds(lambda: floor(net, batches))
        pairs = [
            (clock.seconds(lambda: floor(net, batches)), clock.seconds(way))
            for _ in range(given.pairs)
        ]
        bare, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
        ratio = statistics.median(one / least for least, one in pairs)
        against = f"bare passes {amount(1000 * bare, 'ms')}"
        figures.append(
            ratio_within(f"diagnose, {name}", ratio, BUDGET, amount(1000 * ours, "ms"), against)
        )
    report(f"diagnose: d={given.width}, L={given.depth}, {given.batches} batches of 128", figures)


if __name__ == "__main__":
    main()
