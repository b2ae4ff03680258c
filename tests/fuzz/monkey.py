"""Random keys, resizes, mouse events and pastes for the explorer, as bytes that a terminal would send.

    python -m tests.fuzz.monkey [--events 20000] [--seeds 1,2,3]

The explorer runs on a copy of sample runs and on checkpoints that fake workers measure. It writes its frames as to a
terminal, which answers where its cursor is. The same seed sends the same bytes; how much of them is handled before the
next ones come depends on the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import random
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

from textual import events
from textual.drivers.headless_driver import HeadlessDriver
from textual.geometry import Size
from textual.pilot import Pilot

import fa_tui
from fa_core.engine.devices import Placement
from fa_core.formats import scan
from fa_tui.app import ExplorerApp
from fa_tui.jobs.measuring import Setup
from fa_tui.screens import dialogs
from fa_tui.session import Session
from fa_tui.sharing.clipboard import Copied
from fa_tui.terminal.abilities import Terminal
from fa_tui.terminal.painting import ASK
from fa_tui.terminal.typed import Parser

SAMPLES = Path(__file__).parents[2] / "sample_runs"
SIZES = ((80, 24), (120, 40), (200, 60), (40, 10), (20, 5), (61, 17), (1, 1), (300, 90))
LETTERS = "abcdefghijklmnoprstuvwxyzABCDFGHIJKLMPRSTUVWXYZ0123456789 /?<>[]{}.,;:+-=_*&'\"\\()|~@"
"""Printable keys; without q, which leaves (see `KEYS`)."""
ESCAPE = "\x1b[27u"
"""As a terminal with the keyboard protocol sends it: the byte alone may begin another key."""
KEYS = (
    *("\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D", "\x1b[H", "\x1b[F", "\x1b[5~", "\x1b[6~"),
    *("\x1b[1;2A", "\x1b[1;2B", "\x1b[1;2C", "\x1b[1;2D", "\x1b[1;5C", "\x1b[1;5D", "\x1b[3~", "\x1bOP"),
    *("\r", "\r", "\t", "\x1b[Z", "\x7f", "\x1b", " ", "q", "\x03", "\x11"),
    *("\x10", "\x0f", "\x12", "\x01", "\x05", "\x0b", "\x15", "\x17", "\x08", "\x1a"),
)
WORDS = (
    *("m", "M", "x", "X", " m", "C", "T", "A", "J", "P", "t", "v", "e", "y", "pu"),
    *("w0.3\r", "/dfa\r", "/growth>5\r"),
)
"""Keys that begin much, more often than chance would."""
PASTES = (
    *("dfa", "0.349", "1e-9", "method:dfa flag:b", "a\nb\nc", "é漢字\u200d👩\u200d🔬", "\x1b[31m", "x" * 3000),
    *("\x00\x07", ""),
)
PRESS, DRAG, MOVE, RELEASE = 0, 32, 35, 0
WHEEL = (64, 65, 66, 67, 68)


@dataclass
class Ran:
    """What became of some events.

    Attributes:
        events: how many were sent.
        errors: the explorer's own errors, with what was sent just before.
        asked_to_leave: how often it would have left.
        screens: how many events each kind of screen got.
        slowest: the longest that a burst took, in seconds.
    """

    events: int = 0
    errors: list[str] = field(default_factory=list)
    asked_to_leave: int = 0
    screens: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0


class Wire(HeadlessDriver):
    """The line to a terminal that shows nothing and answers where its cursor is."""

    is_headless = False

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.parser = Parser()
        self.bytes_out = 0

    def write(self, data: str) -> None:
        self.bytes_out += len(data)
        for _ in range(data.count(ASK)):
            self.feed("\x1b[1;1R")

    def feed(self, data: str) -> None:
        """Take what the terminal sends."""
        for message in (*self.parser.feed(data), *self.parser.tick()):
            self.process_message(message)

    def resize(self, size: tuple[int, int]) -> None:
        """Have another size from now on."""
        self._size = size
        self._app.post_message(events.Resize(Size(*size), Size(*size)))


class Cage(ExplorerApp):
    """An explorer that stays when it is left, and is never suspended."""

    CSS_PATH = Path(fa_tui.__file__).with_name("explorer.tcss")
    ran: Ran

    def exit(self, *given: Any, **more: Any) -> None:
        self.ran.asked_to_leave += 1

    def action_suspend_process(self) -> None:
        """A stopped process would stop the test."""


def cage_on(folder: Path, terminal: Terminal) -> Cage:
    """A caged explorer on a folder; measurements of bare checkpoints go beside it."""
    found = scan([folder])
    setup = Setup(Placement(device="cpu"), out=folder.parent / "results.json", measure="fake_measure:measured")
    session = Session(found.rows, problems=found.problems, traces=found.traces)
    app = Cage(session, title="monkey", paths=[folder], since=time.time(), terminal=terminal, setup=setup)
    app.driver_class = Wire
    app.ran = Ran()
    return app


def fill(folder: Path) -> None:
    """Put runs with audits, runs without, checkpoints and a broken file there."""
    for name in ("bp_s42", "bp_s123", "dfa_s42", "dfa_s123", "dfa_s456"):
        shutil.copytree(SAMPLES / "main" / name, folder / "runs" / name)
    (folder / "runs" / "dfa_s456" / "audit.json").unlink(missing_ok=True)
    shutil.copy(SAMPLES / "audit_table_s42_s123_s456.json", folder)
    for number in range(12):
        (folder / f"fa_s{number}.pt").write_bytes(b"a checkpoint")
    (folder / "cut.json").write_text('{"results": {')


def hashes(folder: Path) -> dict[Path, str]:
    """What each file holds."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def lost(before: dict[Path, str], now: dict[Path, str]) -> list[Path]:
    """The files whose content is neither there nor beside it under a numbered name (a replaced audit's)."""
    kept = {(path.parent, content) for path, content in now.items()}
    return [path for path, content in before.items() if (path.parent, content) not in kept]


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """In a folder of its own, with settings and a clipboard of its own."""
    here = Path.cwd()
    environment = {name: str(folder / name) for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}
    environment["PYTHONPATH"] = str(Path(__file__).parent)
    os.chdir(folder)
    try:
        with (
            mock.patch.dict(os.environ, environment),
            mock.patch.object(dialogs, "copy", lambda text, send: Copied("the clipboard")),
        ):
            yield
    finally:
        os.chdir(here)


def mouse(chance: random.Random, size: tuple[int, int]) -> str:
    """A click, a drag, a move or a turn of the wheel, somewhere on the screen or just beside it."""
    x, y = chance.randint(1, size[0] + 2), chance.randint(1, size[1] + 2)
    kind = chance.choice(("click", "drag", "move", "wheel"))
    if kind == "click":
        return reported(PRESS, x, y) + reported(RELEASE, x, y, "m")
    if kind == "move":
        return reported(MOVE, x, y)
    if kind == "wheel":
        return reported(chance.choice(WHEEL), x, y)
    to_x, to_y = chance.randint(1, size[0]), chance.randint(1, size[1])
    on_the_way = reported(DRAG, (x + to_x) // 2, (y + to_y) // 2) * chance.randrange(3)
    return reported(PRESS, x, y) + on_the_way + reported(DRAG, to_x, to_y) + reported(RELEASE, to_x, to_y, "m")


def reported(button: int, x: int, y: int, end: str = "M") -> str:
    """A mouse event as a terminal reports it."""
    return f"\x1b[<{button};{x};{y}{end}"


def one_event(chance: random.Random, size: tuple[int, int]) -> str:
    """What a terminal sends for one random thing that a person does."""
    kind = chance.random()
    if kind < 0.15:
        return ESCAPE
    if kind < 0.40:
        return chance.choice(LETTERS)
    if kind < 0.62:
        return chance.choice(KEYS)
    if kind < 0.77:
        return chance.choice(WORDS)
    if kind < 0.95:
        return mouse(chance, size)
    if kind < 0.98:
        return f"\x1b[200~{chance.choice(PASTES)}\x1b[201~"
    return "".join(chance.choices(LETTERS, k=200))


async def play(app: Cage, count: int, seed: int, say: Callable[[str], None] = lambda text: None) -> Ran:
    """Send a running explorer so many events, in bursts of a few."""
    chance, ran, size = random.Random(seed), app.ran, (120, 40)
    wire = app._driver
    assert isinstance(wire, Wire)
    last: list[str] = []
    while ran.events < count and app._exception is None:
        began = time.perf_counter()
        if chance.random() < 0.03:
            size = chance.choice(SIZES) if chance.random() < 0.5 else (chance.randint(1, 220), chance.randint(1, 70))
            wire.resize(size)
            last.append(f"size {size}")
        for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
            sent = one_event(chance, size)
            last.append(sent)
            ran.events += 1
            ran.screens[type(app.screen).__name__ if app.screen_stack else ""] += 1
            wire.feed(sent)
        await settle(app, chance.choice((0.0, 0.0, 0.02, 0.2)))
        ran.slowest = max(ran.slowest, time.perf_counter() - began)
        del last[:-40]
        if ran.events % 1000 < 8:
            say(f"seed {seed}: {ran.events} events, {dict(ran.screens.most_common(4))}")
    if app._exception is not None:
        error = app._exception
        ran.errors.append("".join(traceback.format_exception(error)) + f"\nafter {last!r}")
    return ran


async def settle(app: Cage, most: float) -> None:
    """Let the explorer handle what it got, for so many seconds at most."""
    end = time.perf_counter() + most
    await asyncio.sleep(0)
    while time.perf_counter() < end and app._exception is None:
        pumps = (app, *app.screen.walk_children(with_self=True)) if app.screen_stack else (app,)
        if not any(pump.message_queue_size for pump in pumps):
            break
        await asyncio.sleep(0.001)


async def monkey(folder: Path, count: int, seed: int, say: Callable[[str], None] = lambda text: None) -> Ran:
    """Let a monkey at an explorer; what became of it."""
    terminals = (Terminal("xterm-256color", True, 1 << 24), Terminal("vt100", False, 0), Terminal("xterm", True, 16))
    app = cage_on(folder, terminals[seed % len(terminals)])
    try:
        async with app.run_test(headless=False, size=(120, 40), notifications=True, tooltips=True) as pilot:
            await ready(pilot, app)
            await play(app, count, seed, say)
            app._exception = None  # told already
    except Exception as error:
        app.ran.errors.append("while closing\n" + "".join(traceback.format_exception(error)))
    finally:
        app.close_jobs()
    return app.ran


async def ready(pilot: Pilot[Any], app: Cage) -> None:
    """Wait until everything that the first screen shows is there."""
    while app.explorer.sliders is None or not app.explorer.sliders.is_mounted:
        await pilot.pause(0.005)


def run(count: int, seed: int, say: Callable[[str], None] = lambda text: None) -> tuple[Ran, list[Path]]:
    """One monkey in a folder of its own: what became of it, and the files that it lost."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "opened"
        folder.mkdir()
        fill(folder)
        before = hashes(folder)
        with alone(Path(place)):
            ran = asyncio.run(monkey(folder, count, seed, say))
        return ran, lost(before, hashes(folder))


def main() -> int:
    """Run a monkey for every seed and print what became of it; 1 where one found something."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--seeds", default="1,2,3")
    given = parser.parse_args()
    found = 0
    for seed in map(int, given.seeds.split(",")):
        began = time.perf_counter()
        ran, gone = run(given.events, seed, lambda text: print(text, file=sys.__stderr__, flush=True))
        found += len(ran.errors) + len(gone)
        print(f"seed {seed}: {ran.events} events in {time.perf_counter() - began:.0f} s, {len(ran.errors)} errors,")
        print(f"  {len(gone)} files lost, slowest burst {ran.slowest:.2f} s, left {ran.asked_to_leave} times")
        print(f"  {dict(ran.screens.most_common())}", flush=True)
        print(*ran.errors, *gone, sep="\n", end="", flush=True)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
