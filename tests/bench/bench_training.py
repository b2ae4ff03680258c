"""Training against a bare loop of the same steps, on an idle machine and on one where every core is busy.

BP on a d = 64 network, 20,000 samples in batches of 128: an epoch is the difference of two runs of `fa-tui train`, so that the
start is not counted; it holds the epoch's trace. The bare loop runs on one thread.

    python -m tests.bench.bench_training [--rounds 3]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.bench.figures import amount, ratio_within, report

SHORT, LONG = 2, 8
DATA = "synthetic:input=16,train=20000,test=2000"
BUDGET = 1.3

BARE = """
import json, sys, time, torch
from fa_core.zoo.data import load_data
from fa_core.zoo.models import build
torch.set_num_threads(1)
data, net = load_data(sys.argv[1]), build("resmlp", seed=1, input_dim=16, d=64, L=4)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0.01)
wall, cpu = time.perf_counter(), time.process_time()
for _ in range(int(sys.argv[2])):
    for rows in torch.randperm(len(data.train_y)).split(128):
        loss = torch.nn.functional.cross_entropy(net(data.train_x[rows]), data.train_y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu]))
"""


class Epoch(NamedTuple):
    """Seconds of one epoch."""

    wall: float
    processor: float


def bare():
    """An epoch of the bare loop."""
    count = LONG - SHORT
    done = subprocess.run(
        [sys.executable, "-c", BARE, DATA, str(count)], check=True, capture_output=True
    )
    wall, processor = json.loads(done.stdout)
    return Epoch(wall / count, processor / count)


def trained():
    """An epoch of `fa-tui train`."""
    short, long = _run(SHORT), _run(LONG)
    count = LONG - SHORT
    return Epoch((long.wall - short.wall) / count, (long.processor - short.processor) / count)


def _run(epochs):
    with tempfile.TemporaryDirectory() as out:
        sizes = ["--d", "64", "--L", "4", "--seeds", "1", "--epochs", str(epochs)]
        command = [sys.executable, "-m", "fa_tui", "train", "--method", "bp", "--data", DATA]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        begun = time.perf_counter()
        subprocess.run(
            [*command, *sizes, "--out", str(Path(out) / "runs")], check=True, capture_output=True
        )
        wall = time.perf_counter() - begun
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Epoch(wall, used)


@contextmanager
def busy_cores():
    """Every core has another program on it inside."""
    loops = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(os.cpu_count() or 1)
    ]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def compared(state, rounds):
    pairs = [(bare(), trained()) for _ in range(rounds)]
    for name in Epoch._fields:
        floor = statistics.median(getattr(one, name) for one, _ in pairs)
        ours = statistics.median(getattr(one, name) for _, one in pairs)
        ratio = statistics.median(getattr(b, name) / getattr(a, name) for a, b in pairs)
        yield ratio_within(
            f"an epoch of training, {name} time, {state}",
            ratio,
            BUDGET,
            amount(ours, "s"),
            f"bare loop {amount(floor, 's')}",
        )


def main():
    parser = argparse.ArgumentParser(description="Training against a bare loop.")
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    figures = [*compared("idle", rounds)]
    with busy_cores():
        figures += compared("every core busy", rounds)
    report("Training", figures)


if __name__ == "__main__":
    main()
