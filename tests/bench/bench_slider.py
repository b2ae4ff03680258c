"""Bytes and milliseconds of a slider step in a real pseudo-terminal of 120×40.

    python -m tests.bench.bench_slider [--runs N]

`ms` is key to last byte, `cpu ms` the program's own processor time per key.
Budgets: median ≤ 0.8 KB per step; key to last byte ≤ 8 ms with 15 runs, ≤ 25 ms with 10,000.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence

from tests.e2e.terminal import Burst, PseudoTerminal

_QUIET = 0.08
_GESTURES: Sequence[tuple[str, Sequence[str]]] = (
    ("step, verdicts unchanged", ["right", "left"] * 10),
    ("step across flips", ["["] + ["left"] * 20 + ["]"] * 2 + ["right"] * 20),
    ("jump from flip to flip", ["]"] * 12 + ["["] * 12),
    ("stride", ["home"] + ["shift+right", "shift+left"] * 6),
)


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    runs = parser.parse_args(argv).runs
    program = [sys.executable, "-m", "tests.bench.mock_explorer", "--runs", str(runs)]
    print(f"{runs} runs, 120×40")
    print(f"{'':26}{'bytes':>7}{'worst':>7}{'ms':>7}{'best':>7}{'cpu ms':>8}")
    with PseudoTerminal(program) as terminal:
        terminal.wait_for("need walk-back")
        terminal.read(quiet=0.5)
        for name, keys in _GESTURES:
            cpu = terminal.cpu_seconds()
            bursts = [terminal.press(key, quiet=_QUIET) for key in keys]
            _report(name, bursts, terminal.cpu_seconds() - cpu)
        terminal.press("home")
        cpu = terminal.cpu_seconds()
        held = terminal.press(*["right"] * 61, quiet=0.3)
        _report("61 keys at once", [held], terminal.cpu_seconds() - cpu)


def _report(name: str, bursts: Sequence[Burst], cpu: float) -> None:
    sent = [burst for burst in bursts if len(burst)]
    sizes, times = [len(burst) for burst in sent], [1000 * burst.last for burst in sent]
    print(
        f"{name:26}{statistics.median(sizes):>7.0f}{max(sizes):>7}"
        f"{statistics.median(times):>7.1f}{min(times):>7.1f}{1000 * cpu / len(bursts):>8.1f}"
    )


if __name__ == "__main__":
    main()
