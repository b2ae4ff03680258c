"""The explorer's budgets, on the real program in a real pseudo-terminal of 120×40.

    python -m tests.bench.bench_explorer [--starts 7]

Times run from a key to the last byte that it caused. Starts of the explorer and of its floor take turns.
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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.figures import Figure, amount, ratio_within, report, within
from tests.e2e.synthetic import PUBLISHED, SAMPLE_RUNS, audit_table
from tests.e2e.terminal import PseudoTerminal

REPOSITORY = Path(__file__).parents[2]
MARK = b"walk"
EXPLORER = [sys.executable, "-m", "fa_tui"]
BARE = [sys.executable, "-m", "tests.bench.bare_app"]
THERE_AND_BACK = ["left"] * 20 + ["right"] * 20
SLOW_LINE = 3000
RELAY = 2000
"""Bytes per second of a line on which a screen must come and go in reasonable time."""


@dataclass(frozen=True)
class Keys:
    """Medians over several keys: bytes, and milliseconds from key to last byte; processor milliseconds on average."""

    size: float
    milliseconds: float
    processor: float


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--starts", type=int, default=7)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        many = audit_table(Path(folder) / "runs.json", 10_000)
        figures = [
            *starts(options.starts),
            *steps(many),
            *screens(),
            *relayed(),
            *scrolls(many),
            *lags(many),
            resizes(),
            *memory(),
        ]
    report("Explorer", figures)


def starts(pairs: int) -> Iterator[Figure]:
    """First useful paint over a bare app's."""
    for name, paths in (("sample runs", []), ("15 runs", [str(PUBLISHED)])):
        runs = [(first_paint(BARE)[0], first_paint([*EXPLORER, *paths])[0]) for _ in range(pairs)]
        bare, ours = (statistics.median(column) for column in zip(*runs, strict=True))
        ratio = statistics.median(one / floor for floor, one in runs)
        against = f"bare Textual app {amount(bare, 's')}"
        yield ratio_within(f"first paint, {name}", ratio, 1.5, amount(ours, "s"), against)


def first_paint(program: Sequence[str]) -> tuple[float, float]:
    """Seconds, and processor seconds, from a program's start to the first frame that holds `MARK`.

    The bytes are searched as they come: a terminal emulator would cost more than the program.
    """
    master, child = pty.openpty()
    fcntl.ioctl(child, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    begun = time.perf_counter()
    process = subprocess.Popen(
        program, stdin=child, stdout=child, stderr=child, env=environment, cwd=REPOSITORY
    )
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


def opened(*paths: Path, answers: bool = True, mark: str = "walk-back") -> PseudoTerminal:
    """The explorer, painted and at rest."""
    terminal = PseudoTerminal([*EXPLORER, *map(str, paths)], answers=answers)
    terminal.wait_for(mark, limit=120)
    terminal.read(quiet=1.0)
    return terminal


def pressed(terminal: PseudoTerminal, keys: Sequence[str], limit: float = 20) -> Keys:
    """Press keys one after the other, each after the last one's paint."""
    used = terminal.cpu_seconds()
    bursts = [terminal.press(key, quiet=0.1, limit=limit) for key in keys]
    processor = 1000 * (terminal.cpu_seconds() - used) / len(keys)
    sent = [burst for burst in bursts if burst.data]
    size = statistics.median(len(burst) for burst in sent)
    return Keys(size, statistics.median(1000 * burst.last for burst in sent), processor)


def steps(many: Path) -> Iterator[Figure]:
    """A step of slider (a)."""
    for name, path, budget in (
        ("15 runs", PUBLISHED, 8),
        ("10,000 runs", many, 15),
    ):
        with opened(path) as terminal:
            terminal.press("a", quiet=0.5)
            step = pressed(terminal, THERE_AND_BACK)
            jump = pressed(terminal, ["["] * 6 + ["]"] * 6)
        limit = 400 if path is PUBLISHED else None
        yield within(
            f"slider step, {name}",
            step.size,
            "B",
            limit,
            "changed cell of a DataTable 8,800 B",
            8800,
        )
        yield within(f"slider step, {name}, key to last byte", step.milliseconds, "ms", budget)
        yield within(f"slider step, {name}, processor time", step.processor, "ms", None)
        yield within(f"jump to the next flip, {name}", jump.size, "B", None)


SCREENS = (
    ("help", "?"), ("list of columns", "x"), ("compare", "C"), ("analysis", "A"), ("timeline", "T"), ("jobs", "J"),
    ("palette", "\x10"),
)  # fmt: skip
"""What covers the matrix, and the key that opens it."""


def screens() -> Iterator[Figure]:
    """Opening and closing what covers the matrix."""
    with opened(PUBLISHED) as terminal:
        for name, key in SCREENS:
            if name != "timeline":
                yield from toggled(terminal, name, key)
    # the published table has no epochs
    with opened(SAMPLE_RUNS) as terminal:
        yield from toggled(terminal, "timeline, sample runs", "T")


def toggled(terminal: PseudoTerminal, name: str, key: str) -> Iterator[Figure]:
    """Bytes that a screen takes to open by a key, and to close."""
    for does, pressed_key in (("open", key), ("close", "escape")):
        size = len(terminal.press(pressed_key, quiet=1.0))
        yield within(f"{does} {name}", size / 1000, "KB", 6)


def relayed() -> Iterator[Figure]:
    """The same of the sample runs through a relay of 2 KB/s: seconds from the key to the last byte."""
    with opened(SAMPLE_RUNS) as terminal:
        terminal.slow_down(RELAY)
        for name, key in SCREENS:
            for does, pressed_key in (("open", key), ("close", "escape")):
                burst = terminal.press(
                    pressed_key, quiet=0.45, limit=30
                )  # a cursor blinks every 0.5 s
                yield within(f"{does} {name} at 2 KB/s", burst.last, "s", 6000 / RELAY + 0.5)


def scrolls(many: Path) -> Iterator[Figure]:
    """The long view of 10,000 runs, moved by a line and by a page."""
    with opened(many) as terminal:
        terminal.press("t", quiet=0.5)
        terminal.press(*["down"] * 40, quiet=0.5)
        line = pressed(terminal, ["down"] * 20)
        page = pressed(terminal, ["pagedown"] * 8)
        terminal.slow_down(SLOW_LINE)
        held = terminal.hold(["down"] * 150, per_second=30, quiet=1.6)
    for name, keys in (("a line", line), ("a page", page)):
        yield within(f"long view scrolls {name}, 10,000 runs", keys.size, "B", None)
        yield within(
            f"long view scrolls {name}, 10,000 runs, key to last byte",
            keys.milliseconds,
            "ms",
            None,
        )
        yield within(
            f"long view scrolls {name}, 10,000 runs, processor time", keys.processor, "ms", None
        )
    yield within(
        "long view, arrow held 5 s at 3 KB/s, after the last key",
        1000 * held.after.last,
        "ms",
        None,
    )


def lags(many: Path) -> Iterator[Figure]:
    """What is left to come when a held key is let go."""
    for name, path in (("15 runs", PUBLISHED), ("10,000 runs", many)):
        with opened(path) as terminal:
            terminal.press("a", quiet=0.5)
            held = terminal.hold(THERE_AND_BACK * 7 + ["left"] * 20, per_second=60)
        yield within(
            f"slider held 5 s, {name}, after the last key", 1000 * held.after.last, "ms", None
        )
    for answers in (True, False):
        with opened(many, answers=answers) as terminal:
            terminal.press("a", quiet=1.2)
            terminal.slow_down(SLOW_LINE)
            held = terminal.hold(THERE_AND_BACK * 3, per_second=60, quiet=1.6)
        kind = "answers" if answers else "is silent"
        yield within(
            f"held 2 s at 3 KB/s, terminal {kind}, after the last key",
            1000 * held.after.last,
            "ms",
            None,
        )


def resizes() -> Figure:
    """Bytes of a window dragged through 60 sizes in half a second."""
    with opened(PUBLISHED) as terminal:
        terminal.resize(100, 30)
        one = len(terminal.read(quiet=0.5))
        before = len(terminal.sent)
        for step in range(60):
            terminal.resize(100 + step % 40, 30 + step % 20)
            terminal.read(quiet=0.008, limit=0.008)
        terminal.read(quiet=0.7)
        total = len(terminal.sent) - before
    return within(
        "60 resizes in 0.5 s",
        total / 1000,
        "KB",
        None,
        f"one resize {one / 1000:.1f} KB",
        one / 1000,
    )


def memory() -> Iterator[Figure]:
    """Resident memory on the sample runs, as the explorer shows them without arguments."""
    with PseudoTerminal(BARE) as terminal:
        terminal.wait_for("walk-back")
        bare = resident(terminal)
    with opened() as terminal:
        terminal.press("a", "left", "right")
        ours = resident(terminal)
    yield within("resident, sample runs", ours, "MB", 100, f"bare Textual app {bare:.0f} MB", bare)


def resident(terminal: PseudoTerminal) -> float:
    """Megabytes that a program has in memory."""
    status = Path(f"/proc/{terminal.process.pid}/status").read_text()
    return (
        next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
        / 1024
    )


if __name__ == "__main__":
    main()
