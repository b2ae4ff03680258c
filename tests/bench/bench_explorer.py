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


@dataclass(frozen=True)
class Keys:
    """Medians over several keys: bytes, and milliseconds from key to last byte."""

    size: float
    milliseconds: float


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--starts", type=int, default=7)
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as folder:
        many = audit_table(Path(folder) / "many.json", 10_000)
        figures = [*starts(options.starts), *steps(many), *screens(), *lists(many)]
    report("Explorer", figures)


def starts(pairs: int) -> Iterator[Figure]:
    """First useful paint over a bare app's."""
    for name, paths in (("sample runs", []), ("15 runs", [str(PUBLISHED)])):
        runs = [(first_paint(BARE), first_paint([*EXPLORER, *paths])) for _ in range(pairs)]
        bare, ours = (statistics.median(column) for column in zip(*runs, strict=True))
        ratio = statistics.median(one / floor for floor, one in runs)
        against = f"bare Textual app {amount(bare, 's')}"
        yield ratio_within(f"first paint, {name}", ratio, 1.5, amount(ours, "s"), against)


def first_paint(program: Sequence[str]) -> float:
    """Seconds from a program's start to the first frame that holds `MARK`.

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
    process.wait()
    os.close(master)
    return taken


def opened(*paths: Path, mark: str = "walk-back") -> PseudoTerminal:
    """The explorer, painted and at rest."""
    terminal = PseudoTerminal([*EXPLORER, *map(str, paths)])
    terminal.wait_for(mark, limit=120)
    terminal.read(quiet=1.0)
    return terminal


def pressed(terminal: PseudoTerminal, keys: Sequence[str]) -> Keys:
    """Press keys one after the other, each after the last one's paint."""
    bursts = [terminal.press(key, quiet=0.1, limit=20) for key in keys]
    sent = [burst for burst in bursts if burst.data]
    size = statistics.median(len(burst) for burst in sent)
    return Keys(size, statistics.median(1000 * burst.last for burst in sent))


def steps(many: Path) -> Iterator[Figure]:
    """A step of slider (a)."""
    for name, path, budget in (("15 runs", PUBLISHED, 8), ("10,000 runs", many, 15)):
        with opened(path) as terminal:
            terminal.press("a", quiet=0.5)
            step = pressed(terminal, THERE_AND_BACK)
        yield within(f"slider step, {name}", step.size, "B", 400)
        yield within(f"slider step, {name}, key to last byte", step.milliseconds, "ms", budget)


SCREENS = {
    "help": "?",
    "compare": "C",
    "analysis": "A",
    "timeline": "T",
    "jobs": "J",
    "palette": "\x10",
}
"""What covers the matrix, and the key that opens it."""


def screens() -> Iterator[Figure]:
    """Bytes that a screen takes to open by a key, and to close."""
    with opened(SAMPLE_RUNS) as terminal:
        for name, key in SCREENS.items():
            for does, pressed_key in (("open", key), ("close", "escape")):
                size = len(terminal.press(pressed_key, quiet=1.0))
                yield within(f"{does} {name}", size / 1000, "KB", 15)


LISTED = {
    "filter": ("/", *"growth>100", "enter"),
    "sort": ("s",),
    "page": ("pagedown",),
    "undo": ("u",),
}


def lists(many: Path) -> Iterator[Figure]:
    """The long view of 10,000 runs: scrolled by a line, then narrowed, sorted, paged and put back."""
    with opened(many) as terminal:
        terminal.press("a", "left", "escape", "t", quiet=0.5)
        terminal.press(*["down"] * 40, quiet=0.5)
        line = pressed(terminal, ["down"] * 20)
        yield within("long view scrolls a line, 10,000 runs", line.size / 1000, "KB", 4)
        for name, keys in LISTED.items():
            slowest = max(terminal.press(key, quiet=0.15, limit=5).last for key in keys)
            yield within(f"{name}, 10,000 runs, the slowest key", slowest, "s", 0.2)


if __name__ == "__main__":
    main()
