"""What every rule reaches in short runs, and its Γ: ``python -m tests.bench.compare_methods [METHOD,…]``.

First a small ResMLP on the synthetic task, then a small ResNet on patterns at random places of noise: the two tables of
docs/protocol.md §5. All rules take about five minutes on one core.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from fa_core.data import load_data
from fa_core.measure.null_gamma import method_gamma
from fa_core.methods import METHODS, make_method
from fa_core.models import StreamNet, build

Samples = tuple[Tensor, Tensor]


def patterns(count: int = 8000, strength: float = 0.7) -> Samples:
    """One of ten smooth 3×8×8 patterns at a random place of a 3×16×16 image of noise; its number is the label."""
    generator = torch.Generator().manual_seed(0)
    shown = strength * 3 * F.avg_pool2d(torch.randn(10, 3, 10, 10, generator=generator), 3, 1)
    x = torch.randn(count, 3, 16, 16, generator=generator)
    y = torch.randint(0, 10, (count,), generator=generator)
    for image, label, (top, left) in zip(
        x, y, torch.randint(0, 9, (count, 2), generator=generator), strict=True
    ):
        image[:, top : top + 8, left : left + 8] += shown[label]
    return x, y


def reached(
    name: str,
    net: StreamNet,
    train: Samples,
    test: Samples,
    rows: Callable[[int], Tensor],
    steps: int,
    cosine: bool,
) -> str:
    """Accuracy and Γ_0..Γ_L of one run, as a line."""
    method = make_method(name, net)
    optimizer = torch.optim.AdamW(method.trained_parameters(net), lr=3e-3)
    before = method_gamma(net, method, test[0][:128], test[1][:128])
    for step in range(steps):
        if cosine:
            optimizer.param_groups[0]["lr"] = 1.5e-3 * (1 + math.cos(math.pi * step / steps))
        chosen = rows(step)
        loss, info = method.loss(net, train[0][chosen], train[1][chosen])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        method.extra_step(net, info)
    after = method_gamma(net, method, test[0][:128], test[1][:128])
    accuracy = float((net.eval()(test[0]).argmax(1) == test[1]).float().mean())
    gammas = (
        " ".join("  N/A" if value is None else f"{value:5.2f}" for value in found)
        for found in (before, after)
    )
    return f"{name:14} {accuracy:.3f}   {'   '.join(gammas)}"


def main(names: list[str]) -> None:
    data = load_data("synthetic:input=16,train=6400,test=1000")
    for name in names:
        torch.manual_seed(0)
        net = build("resmlp", input_dim=16, d=32, L=3, seed=0)
        train, test = (data.train_x, data.train_y), (data.test_x, data.test_y)
        print(
            reached(
                name,
                net,
                train,
                test,
                lambda step: torch.arange(64) + 64 * (step % 100),
                300,
                False,
            )
        )
    x, y = patterns()
    for name in names:
        torch.manual_seed(0)
        net = build("small_resnet", image=16, width=8, seed=0)
        train, test = (x[:7000], y[:7000]), (x[7000:], y[7000:])
        print(reached(name, net, train, test, lambda _: torch.randint(0, 7000, (64,)), 400, True))


if __name__ == "__main__":
    every = [name for name in METHODS if name not in ("random_init", "shallow", "random_targets")]
    main(sys.argv[1].split(",") if len(sys.argv) > 1 else every)
