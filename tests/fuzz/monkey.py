"""Random keys, resizes, mouse events and pastes for the explorer, as bytes that a terminal would send.

    python -m tests.fuzz.monkey [--events 20000] [--seed 1]

The explorer runs on a copy of sample runs and on checkpoints that fake workers measure. It writes
its frames as to a terminal, which answers where its cursor is. The same seed sends the same bytes;
how much of them is handled before the next ones come depends on the machine.

After `LIFE` events the explorer is closed, whatever it is doing, and opened again on the same files.
What counts as an error: an exception, also one that something logs and goes on; a job that fails
otherwise than it was told to; leaving with a status that is not 0; keys that wait for a minute; a
screen that Escape and q do not leave; a file that is not as it was.
"""

from __future__ import annotations

import argparse
import asyncio
import faulthandler
import gc
import hashlib
import io
import logging
import os
import random
import shutil
import sys
import tempfile
import threading
import time
import traceback
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

from rich.console import Console
from rich.traceback import Traceback
from textual import Logger, LogGroup, events
from textual._xterm_parser import XTermParser
from textual.drivers.headless_driver import HeadlessDriver
from textual.geometry import Size

import fa_tui
from fa_core.audit.devices import Execution
from fa_core.audit.worker import MEASURE
from fa_core.formats import scan
from fa_core.report.manifest import AUDIT
from fa_tui.app import ExplorerApp
from fa_tui.explorer import ExplorerScreen
from fa_tui.jobs.measuring import Setup
from fa_tui.screens.questions import SureScreen
from fa_tui.session import Session
from fa_tui.terminal.abilities import Terminal
from fa_tui.terminal.painting import ASK
from tests.fuzz.fake_measure import EMPTY

SAMPLES = Path(__file__).parents[2] / "sample_runs"
LIFE = 2000
"""Events after which the explorer is closed and opened again."""
MOST_BEHIND = 200
"""Keys that may wait when more are sent: what is far behind would be sent to a screen of long ago."""
HANG_SECONDS = 60.0
STUCK_SECONDS = 7200.0
SIZES = ((80, 24), (120, 40), (200, 60), (40, 10), (20, 5), (61, 17), (1, 1), (300, 90))
LETTERS = "abcdefghijklmnprstuvwxyzABCDFGHIJKLMPRSTUVWXYZ0123456789 /?<>[]{}.,;:+-=_*&'\"\\()|~@"
"""Printable keys; without q, which leaves (see `KEYS`), and o, which opens any folder."""
ESCAPE = "\x1b[27u"
"""As a terminal with the keyboard protocol sends it: the byte alone may begin another key."""
KEYS = (
    *[
        "\x1b[A",
        "\x1b[B",
        "\x1b[C",
        "\x1b[D",
        "\x1b[H",
        "\x1b[F",
        "\x1b[5~",
        "\x1b[6~",
        "\x1b[3~",
        "\x1bOP",
        "\x1b",
    ],
    *["\x1b[1;2A", "\x1b[1;2B", "\x1b[1;2C", "\x1b[1;2D", "\x1b[1;5C", "\x1b[1;5D", "\x1b[Z"],
    *"\r\r\t\x7f q\x03\x11\x10\x0f\x12\x01\x05\x0b\x15\x17\x08\x1a",
)
WORDS = [
    "m",
    "x",
    "C",
    "T",
    "A",
    "J",
    "P",
    "t",
    "v",
    "e",
    "y",
    "pu",
    "mJ",
    "mq",
    "S",
    "?",
    "\x10",
    "w0.3\r",
    "/dfa\r",
    "/growth>5\r",
]
WORDS += [" m", *(f"/{sign * 40}\r" for sign in "-(['\"")]
"""Keys that begin much, more often than chance would."""
PASTES = (
    *("dfa", "0.349", "1e-9", "method:dfa flag:b", "a\nb\nc", "é漢字\u200d👩\u200d🔬", "\x1b[31m"),
    *("x" * 3000, "\x00\x07", ""),
    *(sign * 1000 for sign in "-([{'\"=:.,9"),
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
    """

    events: int = 0
    errors: list[str] = field(default_factory=list)
    asked_to_leave: int = 0


class Wire(HeadlessDriver):
    """The line to a terminal that shows nothing and answers where its cursor is."""

    is_headless = False

    def __init__(self, *given, **more):
        super().__init__(*given, **more)
        self.parser = XTermParser()

    def write(self, data):
        for _ in range(data.count(ASK)):
            self.feed("\x1b[1;1R")

    def feed(self, data):
        """Take what the terminal sends."""
        for message in (*self.parser.feed(data), *self.parser.tick()):
            self.process_message(message)

    def resize(self, size):
        """Have another size from now on."""
        self._size = size
        self._app.post_message(events.Resize(Size(*size), Size(*size)))


class Cage(ExplorerApp):
    """An explorer that stays when it is left, and is never suspended."""

    CSS_PATH = Path(fa_tui.__file__).with_name("explorer.tcss")
    ran: Ran

    def exit(self, result=None, *given, **more):
        self.ran.asked_to_leave += 1
        if result:
            self.ran.errors.append(f"it would have left with {result}")

    def action_suspend_process(self):
        """A stopped process would stop the test."""

    def say(self, text, tone=""):
        if "not saved" in text:
            self.ran.errors.append(text)
        super().say(text, tone)


def cage_on(folder, terminal, ran):
    """A caged explorer on a folder; measurements of bare checkpoints go into it."""
    found = scan([folder])
    setup = Setup(Execution(device="cpu"))
    session = Session(found.rows, problems=found.problems, traces=found.traces)
    began = time.time()
    app = Cage(session, title="monkey", paths=[folder], since=began, terminal=terminal, setup=setup)
    app.driver_class = Wire
    app.ran = ran
    return app


class Complaints(logging.Handler):
    """Errors that something logs and goes on: asyncio, a future's callbacks, a thread, Textual.

    Args:
        errors: gets them.
    """

    def __init__(self, errors):
        super().__init__(logging.ERROR)
        self._errors = errors
        self.setFormatter(logging.Formatter("logged by %(name)s: %(message)s"))

    def emit(self, record):
        self._errors.append(self.format(record))

    def raised(self, given):
        """Take what `threading.excepthook` or `sys.unraisablehook` gets."""
        text = "".join(traceback.format_exception(given.exc_value))
        self._errors.append(f"in a thread, or where nothing can be raised\n{text}")

    def textual(self, logger, *what, **more):
        """Take what Textual logs: an error, or the traceback of one that it swallows."""
        wrong = logger._group is LogGroup.ERROR
        if wrong or any(isinstance(each, Traceback) for each in what):
            text = io.StringIO()
            Console(file=text, width=100).print(*what)
            self._errors.append(f"logged by Textual: {text.getvalue()}")

    @contextmanager
    def listening(self):
        """Hear everything meanwhile."""
        root = logging.getLogger()
        root.addHandler(self)
        try:
            with (
                mock.patch.object(threading, "excepthook", self.raised),
                mock.patch.object(sys, "unraisablehook", self.raised),
                mock.patch.object(
                    Logger, "__call__", lambda *given, **more: self.textual(*given, **more)
                ),
            ):
                yield
        finally:
            root.removeHandler(self)


def fill(folder):
    """Put runs with audits, runs without, checkpoints and a broken file there."""
    for name in ("bp_s42", "bp_s123", "dfa_s42", "dfa_s123", "dfa_s456"):
        shutil.copytree(SAMPLES / "main" / name, folder / "runs" / name)
    (folder / "runs" / "dfa_s456" / "audit.json").unlink(missing_ok=True)
    shutil.copy(SAMPLES / "audit_table_s42_s123_s456.json", folder)
    for number in range(12):
        (folder / f"fa_s{number}.pt").write_bytes(b"a checkpoint")
    (folder / "cut.json").write_text('{"results": {')


def hashes(folder):
    """What each file holds."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def lost(before, now):
    """The files that are not as they were; of a replaced audit, the old one is kept beside it."""
    kept = {(path.parent, content) for path, content in now.items() if path.name.startswith(AUDIT)}
    changed = [path for path, content in before.items() if now.get(path) != content]
    return [path for path in changed if (path.parent, before[path]) not in kept]


@contextmanager
def alone(folder):
    """In a folder of its own, with settings and a clipboard of its own."""
    here = Path.cwd()
    environment = {
        name: str(folder / name) for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")
    }
    environment["PYTHONPATH"] = str(Path(__file__).parent)
    environment[MEASURE] = "fake_measure:measured"
    os.chdir(folder)
    try:
        with (
            mock.patch.dict(os.environ, environment),
            mock.patch.object(ExplorerApp, "copy_to_clipboard", lambda app, text: None),
        ):
            yield
    finally:
        os.chdir(here)


def mouse(chance, size):
    """A click, a drag, a move or a turn of the wheel, somewhere on the screen or just beside it."""

    def reported(button, end="M"):
        return (
            f"\x1b[<{button};{chance.randint(1, size[0] + 2)};{chance.randint(1, size[1] + 2)}{end}"
        )

    kind = chance.choice(("click", "drag", "move", "wheel"))
    if kind == "wheel":
        return reported(chance.choice(WHEEL))
    if kind == "move":
        return reported(MOVE)
    drags = chance.randrange(1, 4) if kind == "drag" else 0
    return reported(PRESS) + "".join(reported(DRAG) for _ in range(drags)) + reported(RELEASE, "m")


def one_event(chance, size):
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


async def play(app, count, seed):
    """Send a running explorer so many events, in bursts of a few."""
    chance, ran, size = random.Random(seed), app.ran, (120, 40)
    wire = app._driver
    last = []
    end = ran.events + count
    while ran.events < end and app._exception is None:
        known = len(ran.errors)
        if chance.random() < 0.03:
            size = chance.choice(SIZES)
            if chance.random() < 0.5:
                size = (chance.randint(1, 220), chance.randint(1, 70))
            wire.resize(size)
            last.append(f"size {size}")
        for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
            sent = one_event(chance, size)
            last.append(sent)
            ran.events += 1
            wire.feed(sent)
        await settle(app, chance.choice((0.0, 0.0, 0.02, 0.2)))
        if len(app.keys._typed_ahead) > MOST_BEHIND and not await settle(app, HANG_SECONDS):
            ran.errors.append(f"it hangs in {app.screen}")
        del last[:-40]
        ran.errors[known:] = [f"{error}\nafter {last!r}" for error in ran.errors[known:]]
    if app._exception is not None:
        error = app._exception
        ran.errors.append("".join(traceback.format_exception(error)) + f"\nafter {last!r}")


async def settle(app, most):
    """Let the explorer handle what it got, for so many seconds at most; whether it has."""
    end = time.perf_counter() + most
    await asyncio.sleep(0)
    while is_behind(app):
        if time.perf_counter() >= end:
            return False
        await asyncio.sleep(0.001)
    return True


def is_behind(app):
    """Whether a key or a message waits to be handled."""
    if app._exception is not None or not app.screen_stack:
        return False
    if app.keys._typed_ahead:
        return True
    pumps = (app, *app.screen.walk_children(with_self=True))
    return any(pump.message_queue_size for pump in pumps)


async def leave(app):
    """Leave as a person does, with Escape and q; what does not let go is an error."""
    ran, wire = app.ran, app._driver
    before, end = ran.asked_to_leave, time.perf_counter() + HANG_SECONDS
    wire.resize((120, 40))
    while ran.asked_to_leave == before and app._exception is None:
        if time.perf_counter() > end:
            ran.errors.append(f"Escape and q do not leave {app.screen_stack}")
            return
        at_home = isinstance(app.screen, ExplorerScreen) and app.explorer.takes_keys
        answer = "y" if isinstance(app.screen, SureScreen) else ESCAPE
        wire.feed("\x1b[27uq" if at_home else answer)
        await settle(app, 5.0)
        await asyncio.sleep(0.01)


async def close(app):
    """Have it end as it does when it is left, in the midst of what it is doing."""
    end = time.perf_counter() + HANG_SECONDS
    ExplorerApp.exit(app, 0)
    while app.is_running and time.perf_counter() < end:
        await asyncio.sleep(0.01)
    if app.is_running or app.return_code:
        app.ran.errors.append(f"it should have left with 0: {app.return_code}")


async def live(folder, count, seed, terminal, ran):
    """Open an explorer, let a monkey at it for so many events, and close it."""
    app = cage_on(folder, terminal, ran)
    try:
        async with app.run_test(
            headless=False, size=(120, 40), notifications=True, tooltips=True
        ) as pilot:
            while app.explorer.sliders is None or not app.explorer.sliders.is_mounted:
                await pilot.pause(0.005)
            await play(app, count, seed)
            if app._exception is None and random.Random(seed).random() < 0.5:
                await leave(app)
            if app._exception is None:
                await close(app)
            app._exception = None  # told already
    except Exception as error:
        ran.errors.append("while closing\n" + "".join(traceback.format_exception(error)))
    finally:
        jobs = app.jobs.measuring.listed()
        app.jobs.close()
    for job in jobs:
        if job.state == "failed" and EMPTY not in job.error:
            ran.errors.append(f"job {job.name}: {job.error}")


def run(count, seed, life=LIFE):
    """One monkey in a folder of its own: what became of it, and the files that it changed or lost."""
    terminals = (
        Terminal("xterm-256color", True, 1 << 24),
        Terminal("vt100", False, 0),
        Terminal("xterm", True, 16),
    )
    ran = Ran()
    heard = Complaints(ran.errors)
    gc.collect()  # what went wrong before in this process is told before
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "opened"
        folder.mkdir()
        fill(folder)
        before = hashes(folder)
        with alone(Path(place)), heard.listening():
            number = 0
            while ran.events < count and not ran.errors:
                events_now = min(life, count - ran.events)
                terminal = terminals[(seed + number) % len(terminals)]
                asyncio.run(live(folder, events_now, f"{seed}.{number}", terminal, ran))
                number += 1
            gc.collect()  # a task whose exception nobody took is told when it goes
        return ran, lost(before, hashes(folder))


def main():
    """Run a monkey and print what it found; 1 where it found something."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--events", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    # what never comes back from one key is shown and ended
    faulthandler.dump_traceback_later(STUCK_SECONDS, exit=True, file=sys.__stderr__)
    ran, gone = run(given.events, given.seed)
    print(f"{ran.events} events, {len(ran.errors)} errors, {len(gone)} files changed")
    print(*ran.errors, *gone, sep="\n", flush=True)
    return bool(ran.errors or gone)


if __name__ == "__main__":
    sys.exit(main())
