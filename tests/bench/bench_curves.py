"""How the cost grows: checkpoints, depth, width, batch size, reports.

    python -m tests.bench.bench_curves [--rounds 3 --device cpu]

Each way takes its turn in every round; ratios are medians of paired rounds; on a CPU it is the processor time of one
thread. Four passes: the protocol as four scripts would run it, one checkpoint at a time. The bare pass: forward and
activation gradients, no number taken from them.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from multiprocessing import get_context
from pathlib import Path

import torch

from fa_core.models import StreamNet, build
from tests.bench.bench_passes import (
    Clock,
    K,
    Samples,
    bare,
    clock_for,
    drawn,
    four_passes,
    fused,
)
from tests.bench.bench_read import FLOOR, TABLE, measured, table_of
from tests.bench.figures import amount, table

BASE = {"input_dim": 256, "d": 64, "L": 4}
HEAD = ("bare pass", "four passes", "ours", "ours / bare", "four passes / ours")
Row = tuple[str, ...]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    given = parser.parse_args()
    torch.manual_seed(0)
    clock = clock_for(given.device)
    table(
        ("checkpoints", *HEAD),
        checkpoints(clock, given.rounds),
        "Milliseconds per checkpoint over checkpoints",
    )
    for name, key, values in (
        ("depth L", "L", (1, 2, 4, 8, 16)),
        ("width d", "d", (32, 64, 128, 256, 512)),
    ):
        rows = [
            sweep(
                str(value),
                [network(given.device, **{key: value})],
                samples(given.device),
                clock,
                given.rounds,
            )
            for value in values
        ]
        table((name, *HEAD), rows, f"Milliseconds per checkpoint over {name}")
    rows = [
        sweep(
            str(size),
            [network(given.device)],
            samples(given.device, batch=size),
            clock,
            given.rounds,
        )
        for size in (8, 32, 128, 512)
    ]
    table(("batch size", *HEAD), rows, "Milliseconds per checkpoint over batch size (10 batches)")
    reading = ("reports", "file", "json.load", "load_audits", "ratio")
    table(reading, reports(given.rounds), "Reading an audit table, processor time")


def checkpoints(clock: Clock, rounds: int) -> Iterator[Row]:
    """1 to 64 networks, one by one."""
    for count in (1, 4, 16, 64):
        nets = [network(clock.device, seed=seed) for seed in range(count)]
        yield sweep(str(count), nets, samples(clock.device), clock, rounds)


def network(device: str, seed: int = 0, **size: int) -> StreamNet:
    """A network of this field's small kind."""
    return build("resmlp", seed=seed, **{**BASE, **size}).to(device)


def samples(device: str, batch: int = 32) -> Samples:
    """1,000 test samples, or as many as ten batches need."""
    return drawn(BASE["input_dim"], device, max(1000, K * batch), batch)


def sweep(at: str, nets: Sequence[StreamNet], given: Samples, clock: Clock, rounds: int) -> Row:
    """One row: every way on these networks."""
    ways: tuple[Callable[[], object], ...] = (
        lambda: [bare(net, given) for net in nets],
        lambda: [four_passes(net, given) for net in nets],
        lambda: [fused(net, given) for net in nets],
    )
    if len(nets) > 16:
        rounds = 1
    else:
        for way in ways:  # warms up
            way()
    taken = [[clock.seconds(way) for way in ways] for _ in range(rounds)]
    milliseconds = [
        1000 * statistics.median(column) / len(nets) for column in zip(*taken, strict=True)
    ]
    over = statistics.median(mine / floor for floor, _, mine in taken)
    gain = statistics.median(peer / mine for _, peer, mine in taken)
    return (at, *(f"{value:.2f}" for value in milliseconds), f"{over:.2f}×", f"{gain:.2f}×")


def reports(rounds: int) -> Iterator[Row]:
    """`json.load` and `load_audits` of 100 to 100,000 reports, each in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        for count in (100, 1_000, 10_000, 100_000):
            path = Path(folder) / f"{count}.json"
            # in a process of its own: peak memory is inherited
            writing = get_context("spawn").Process(target=table_of, args=(count, path))
            writing.start()
            writing.join()
            runs = [[measured(code, path)["cpu"] for code in (FLOOR, TABLE)] for _ in range(rounds)]
            floor, ours = (1000 * statistics.median(column) for column in zip(*runs, strict=True))
            ratio = statistics.median(one / least for least, one in runs)
            size = amount(path.stat().st_size / 1e6, "MB")
            yield f"{count:,}", size, amount(floor, "ms"), amount(ours, "ms"), f"{ratio:.2f}×"


if __name__ == "__main__":
    main()
