"""Ten thousand runs in the explorer and in a stock DataTable, and the explorer's slider while it measures.

python -m tests.bench.bench_many [--starts 3 --checkpoints 256]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.bench.bench_explorer import EXPLORER, first_paint, opened, pressed, resident
from tests.bench.figures import Figure, amount, ratio_within, report, within
from tests.e2e.synthetic import audit_table, unmeasured_runs
from tests.e2e.terminal import PseudoTerminal

STOCK = [sys.executable, "-m", "tests.bench.stock_table"]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--starts", type=int, default=3)
    parser.add_argument("--checkpoints", type=int, default=256)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        many = audit_table(Path(folder) / "many.json", 10_000)
        report("10,000 runs", [*opening(many, options.starts), *moving(many)])
        runs = unmeasured_runs(Path(folder) / "runs", options.checkpoints)
        report("The explorer while it measures", measuring(runs, options.checkpoints))


def opening(many: Path, pairs: int) -> Iterator[Figure]:
    """First paint, in turns."""
    runs = [
        [first_paint([*program, str(many)])[0] for program in (STOCK, EXPLORER)]
        for _ in range(pairs)
    ]
    stock, ours = (statistics.median(column) for column in zip(*runs, strict=True))
    ratio = statistics.median(one / peer for peer, one in runs)
    yield ratio_within("opened", ratio, None, amount(ours, "s"), f"DataTable {amount(stock, 's')}")


def moving(many: Path) -> Iterator[Figure]:
    """Scrolling both tables; filtering ours."""
    with PseudoTerminal([*STOCK, str(many)]) as stock:
        stock.wait_for("walk-back", limit=60)
        stock.read(quiet=1.0)
        peers = {"row": pressed(stock, ["down"] * 20), "page": pressed(stock, ["pagedown"] * 8)}
        stock_size = resident(stock)
    with opened(many) as terminal:
        terminal.press("t", quiet=1.0)
        ours = {
            "row": pressed(terminal, ["down"] * 20),
            "page": pressed(terminal, ["pagedown"] * 8),
        }
        size = resident(terminal)
        terminal.press("home")
        terminal.press("/", limit=1)
        typed = [1000 * terminal.press(key, quiet=0.1, limit=0.4).last for key in "growth>100"]
        terminal.press("enter")
        terminal.wait_for("runs: growth>100")
    for name, peer in peers.items():
        own, times = ours[name], f"DataTable {amount(peer.milliseconds, 'ms')}"
        yield within(
            f"{name} down", own.size, "B", None, f"DataTable {amount(peer.size, 'B')}", peer.size
        )
        yield within(
            f"{name} down, key to last byte", own.milliseconds, "ms", None, times, peer.milliseconds
        )
    yield within("filter, key to last byte", statistics.median(typed), "ms", None)
    yield within("resident", size, "MB", None, f"DataTable {stock_size:.0f} MB", stock_size)


def measuring(runs: Path, checkpoints: int) -> Iterator[Figure]:
    """A slider step at rest and while every checkpoint of a folder is measured."""
    keys = ["left"] * 10 + ["right"] * 10
    with opened(runs, mark="not measured") as terminal:
        terminal.press("a", quiet=0.5)
        rest = pressed(terminal, keys)
        terminal.press("escape")
        terminal.press("*")
        begun = time.perf_counter()
        terminal.press("m", limit=1)
        terminal.wait_until(lambda: any(runs.rglob("audit.json")), limit=300)
        terminal.press("a", limit=1)
        bursts = []
        while "measuring" in terminal.text() and len(bursts) < 10 * len(keys):
            bursts.append(terminal.press(keys[len(bursts) % len(keys)], quiet=0.02, limit=0.1))
        terminal.wait_until(lambda: len(list(runs.rglob("audit.json"))) == checkpoints, limit=600)
        took = time.perf_counter() - begun
    busy = statistics.median(len(burst) for burst in bursts if burst.data)
    lag = statistics.median(1000 * burst.first for burst in bursts if burst.data)
    per_second = f"{checkpoints / took:.1f} per second"
    yield Figure(f"{checkpoints} checkpoints from start to file", amount(took, "s"), per_second)
    yield within("slider step meanwhile", busy, "B", 400, f"at rest {rest.size:.0f} B", rest.size)
    resting = f"at rest {rest.milliseconds:.1f} ms to the last byte"
    yield within(
        "slider step meanwhile, key to first byte", lag, "ms", 25, resting, rest.milliseconds
    )


if __name__ == "__main__":
    main()
