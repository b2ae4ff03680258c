"""Cost of watching: one measurement per epoch over an epoch of the published recipe's size.

50,000 samples of 3,072 values in batches of 128, ResMLP d=256 L=4, AdamW: 390 steps, and one
`ProtocolMonitor` measurement of ten batches of 128. Steps and measurements alternate, so that a busy
machine hits both; the medians are scaled to the epoch.

    python -m tests.bench.bench_monitor [--rounds 12 --method bp --device cpu]
"""

from __future__ import annotations

import argparse
import statistics

import torch

from fa_core.methods import make_method
from fa_core.models import build
from fa_core.monitor import ProtocolMonitor
from tests.bench.bench_passes import clock_for
from tests.bench.figures import report, within

SAMPLES, BATCH, K = 50_000, 128, 10
BUDGET = 0.02


def share(method_name: str, rounds: int, device: str) -> float:
    """Seconds of one measurement over seconds of one epoch."""
    torch.manual_seed(0)
    net = build("resmlp", seed=0).to(device)
    method = make_method(method_name, net, 0)
    optimizer = torch.optim.AdamW(method.trained_parameters(net))
    batches = [
        (torch.randn(BATCH, 3072, device=device), torch.randint(10, (BATCH,), device=device))
        for _ in range(K)
    ]
    monitor = ProtocolMonitor(net, batches)

    def ten_steps() -> None:
        for x, y in batches:
            loss, info = method.loss(net, x, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            method.extra_step(net, info)

    ten_steps(), monitor.measure()
    clock = clock_for(device)
    pairs = [(clock.seconds(ten_steps), clock.seconds(monitor.measure)) for _ in range(rounds)]
    epoch = statistics.median(steps for steps, _ in pairs) / K * (SAMPLES // BATCH)
    return statistics.median(measured for _, measured in pairs) / epoch


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost of one audit per epoch.")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--method", default="bp")
    parser.add_argument("--device", default="cpu")
    args = parser.parse_args()
    found = share(args.method, args.rounds, args.device)
    figure = within(
        "one audit per epoch of 50,000 samples",
        100 * found,
        "%",
        100 * BUDGET,
        "the epoch's training",
    )
    report("Monitor", [figure])


if __name__ == "__main__":
    main()
