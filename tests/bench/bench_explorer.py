"""The explorer's budgets on the real app in a real pseudo-terminal of 120×40.

    python -m tests.bench.bench_explorer [--starts 7] [--big 10000]

start     first paint over a bare Textual app's, both from the process's start, --starts of each in turns
step      bytes, key to last byte, and the program's own processor time per key on slider (a)
resident  memory after the steps
"""

from __future__ import annotations

import argparse
import fcntl
import os
import pty
import select
import statistics
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.synthetic import audit_table
from tests.e2e.terminal import PseudoTerminal

REPOSITORY = Path(__file__).parents[2]
PUBLISHED = REPOSITORY / "sample_runs" / "audit_table_s42_s123_s456.json"
MARK = b"walk"
EXPLORER = [sys.executable, "-m", "fa_tui.cli"]
BARE = [sys.executable, "-m", "tests.bench.bare_app"]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--starts", type=int, default=7)
    parser.add_argument("--big", type=int, default=10_000)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        big = audit_table(Path(folder) / "big.json", options.big)
        print(f"{'':28}{'':>8}{'budget':>10}")
        for name, paths in (("sample runs", [REPOSITORY / "sample_runs"]), ("15 runs", [PUBLISHED])):
            wall, processor = start_ratio(paths, options.starts)
            print(f"{'start, ' + name:28}{wall:>7.2f}×{'1.25×':>10}   processor {processor:.2f}×")
        for name, path, milliseconds in (("15 runs", PUBLISHED, 8), (f"{options.big:,} runs", big, 25)):
            report_steps(name, path, milliseconds)


def start_ratio(paths: Sequence[Path], starts: int) -> tuple[float, float]:
    """First paint of the explorer over a bare app's, taken in turns: medians of time, minima of processor time."""
    ours, bare = [], []
    for _ in range(starts):
        bare.append(first_paint(BARE))
        ours.append(first_paint([*EXPLORER, *map(str, paths)]))
    (wall, processor), (bare_wall, bare_processor) = (list(zip(*runs, strict=True)) for runs in (ours, bare))
    return statistics.median(wall) / statistics.median(bare_wall), min(processor) / min(bare_processor)


def first_paint(program: Sequence[str]) -> tuple[float, float]:
    """Seconds, and processor seconds, from a program's start to the first frame that holds `MARK`.

    The bytes are searched as they come: a terminal emulator would cost more than the program.
    """
    master, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    begun = time.perf_counter()
    process = subprocess.Popen(program, stdin=child, stdout=child, stderr=child, env=environment, cwd=REPOSITORY)
    os.close(child)
    seen = b""
    while MARK not in seen and select.select([master], [], [], 30)[0]:
        seen += os.read(master, 1 << 16)
    taken = time.perf_counter() - begun
    process.kill()
    _, _, usage = os.wait4(process.pid, 0)
    process.returncode = -9
    os.close(master)
    return taken, usage.ru_utime + usage.ru_stime


def report_steps(name: str, path: Path, budget_ms: float) -> None:
    """One line each for steps, cursor moves and pages, and for memory."""
    with PseudoTerminal([*EXPLORER, str(path)]) as terminal:
        terminal.wait_for("walk back", limit=60)
        terminal.read(quiet=1.0)
        terminal.press("a")
        _line(f"step, {name}", terminal, ["left"] * 20 + ["right"] * 20, f"{budget_ms} ms")
        _line(f"jump to flips, {name}", terminal, ["["] * 6 + ["]"] * 6, "")
        terminal.press("escape")
        _line(f"cursor, {name}", terminal, ["down", "down", "right", "up", "up", "left"] * 3, "")
        _line(f"page, {name}", terminal, ["pagedown"] * 4 + ["pageup"] * 4, "")
        status = Path(f"/proc/{terminal.process.pid}/status").read_text()
        resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024
        print(f"{'resident, ' + name:28}{resident:>5.0f} MB{'100 MB' if len(name) < 8 else '':>10}")


def _line(name: str, terminal: PseudoTerminal, keys: Sequence[str], budget: str) -> None:
    before = terminal.cpu_seconds()
    bursts = [terminal.press(key, quiet=0.1) for key in keys]
    cpu = 1000 * (terminal.cpu_seconds() - before) / len(keys)
    sizes = [len(burst) for burst in bursts]
    times = [1000 * burst.last for burst in bursts if burst.data]
    print(
        f"{name:28}{statistics.median(sizes):>6.0f} B{budget:>10}   median {statistics.median(times or [0]):.1f} ms, "
        f"best {min(times or [0]):.1f} ms, processor {cpu:.1f} ms, largest {max(sizes)} B"
    )


if __name__ == "__main__":
    main()
