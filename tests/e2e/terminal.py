"""A program in a real pseudo-terminal: press keys, count what it sends, look at its screen.

Times and byte counts are for benchmarks to print; tests assert on screens and, where a budget says so,
on bytes. Nothing here asserts on time.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from dataclasses import dataclass
from pathlib import Path

import pyte

_NAMES = (
    "left right up down home end shift+left shift+right pageup pagedown shift+tab "
    "enter escape tab backspace ctrl+c ctrl+q ctrl+r"
)
_SENT = (
    "\x1b[D \x1b[C \x1b[A \x1b[B \x1b[H \x1b[F \x1b[1;2D \x1b[1;2C \x1b[5~ \x1b[6~ \x1b[Z "
    "\r \x1b \t \x7f \x03 \x11 \x12"
)
KEYS = {**dict(zip(_NAMES.split(), _SENT.split(" "), strict=True)), "space": " "}
"""What a terminal sends for a named key; any other key is sent as it is written."""

_UNKNOWN_TO_PYTE = re.compile(
    rb"\x1b\[[<>=][0-9;]*[A-Za-z]"  # keyboard protocols
    rb"|\x1b\[\?[0-9;]*\$p"  # mode queries
    rb"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles, clipboard
    rb"|\x1bP[^\x1b]*\x1b\\"
)
_UNFINISHED = re.compile(rb"\x1b(?:\[[0-9;?<>=$ ]*|[\]P][^\x07\x1b]*\x1b?)?$")
_CURSOR_QUERY = b"\x1b[6n"
_LINE_TICK = 0.02
_PATIENCE = 1.0
"""Most keys paint something: on a busy machine it is not there at once."""
_REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Burst:
    """What a program sent until it fell silent.

    Attributes:
        data: the bytes.
        first: seconds from the question to the first byte (0 if there was none).
        last: seconds to the last byte.
    """

    data: bytes
    first: float
    last: float

    def __len__(self):
        return len(self.data)


@dataclass(frozen=True)
class Held:
    """What a program sent while keys were held down and after the last one.

    Attributes:
        during: bytes that came before the last key was let go.
        after: what came then; its times count from the last key.
    """

    during: int
    after: Burst


class PseudoTerminal:
    """A program whose stdin, stdout and stderr are one pseudo-terminal.

    Args:
        argv: the program; ``python -m`` of this interpreter is spelt ``[sys.executable, "-m", ...]``.
        columns, lines: the size.
        env: added to a clean environment (None as a value removes a name).
        answers: answer where the cursor is, as every terminal does; without, a test has one that is silent.
    """

    def __init__(
        self,
        argv,
        *,
        columns=120,
        lines=40,
        env=None,
        answers=True,
    ):
        self.screen = pyte.Screen(columns, lines)
        self._stream = pyte.ByteStream(self.screen)
        self._replies = {_CURSOR_QUERY: b"\x1b[1;1R"} if answers else {}
        self._rate = 0
        self._held = b""
        self.sent = bytearray()
        self._fd, child = pty.openpty()
        self.resize(columns, lines)
        self.started = time.perf_counter()
        self.process = subprocess.Popen(
            list(argv), stdin=child, stdout=child, stderr=child, env=_environment(env or {}), cwd=_REPOSITORY,
            start_new_session=True, close_fds=True, preexec_fn=_take_terminal,
        )  # fmt: skip
        os.close(child)

    def __enter__(self):
        return self

    def __exit__(
        self,
        kind,
        error,
        where,
    ):
        self.close()

    def resize(self, columns, lines):
        """Change the size, as a dragged window does."""
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        if (self.screen.columns, self.screen.lines) != (columns, lines):
            self.screen.resize(lines, columns)

    def read(
        self,
        quiet=0.15,
        limit=20.0,
        since=None,
        patience=0.0,
    ):
        """Everything sent until nothing has come for `quiet` seconds (or `limit` is over).

        A program that would run and gets no processor is not silent: on a busy machine it is waited for.

        Args:
            quiet: how long silence must last.
            limit: when to stop all the same.
            since: what times count from (default: now).
            patience: how long to wait for the first byte, if that is longer than `quiet`.
        """
        start = time.perf_counter() if since is None else since
        deadline = time.perf_counter() + limit
        chunks = []
        first = last = start
        while (now := time.perf_counter()) < deadline:
            silence = quiet if chunks else max(quiet, patience)
            ready, _, _ = select.select([self._fd], [], [], min(silence, deadline - now))
            if not ready:
                # asked in this order: what got its turn after the silence has written by the second look
                if self._waits_for_a_processor() or select.select([self._fd], [], [], 0)[0]:
                    continue
                break
            try:
                chunk = os.read(
                    self._fd, max(1, int(self._rate * _LINE_TICK)) if self._rate else 1 << 16
                )
            except OSError:  # the program has gone
                break
            last = time.perf_counter()
            first = first if chunks else last
            chunks.append(chunk)
            self._feed(chunk)
            if self._rate:
                time.sleep(len(chunk) / self._rate)
        return Burst(b"".join(chunks), first - start, last - start)

    def wait_for(self, text, limit=20.0):
        """Read until the screen shows a text.

        Raises:
            AssertionError: it never did; the message holds the screen.
        """
        deadline = time.perf_counter() + limit
        start, chunks, last = time.perf_counter(), [], 0.0
        while time.perf_counter() < deadline:
            burst = self.read(quiet=0.05, limit=max(0.05, deadline - time.perf_counter()))
            chunks.append(burst.data)
            last = time.perf_counter() - start
            if text in self.text():
                return Burst(b"".join(chunks), 0.0, last)
            if self.process.poll() is not None:
                break
        raise AssertionError(f"never saw {text!r} in {limit:g} s; the screen:\n{self.text()}")

    def wait_until(self, happened, limit=60.0):
        """Read until something else has come about.

        Raises:
            AssertionError: it never did; the message holds the screen.
        """
        deadline = time.perf_counter() + limit
        while not happened():
            assert time.perf_counter() < deadline, f"it never happened; the screen:\n{self.text()}"
            if self._fd >= 0:
                self.read(quiet=0.05, limit=0.2)
            else:
                time.sleep(0.05)

    def press(self, *keys, quiet=0.15, limit=20.0):
        """Press keys (named as in `KEYS`, or text) and read what comes of it."""
        start = time.perf_counter()
        os.write(self._fd, "".join(KEYS.get(key, key) for key in keys).encode())
        return self.read(quiet, limit, start, _PATIENCE)

    def hold(
        self,
        keys,
        per_second=60,
        quiet=1.0,
        until=lambda: True,
    ):
        """Press keys at the rate of a key held down, reading all the while, then until something holds and silence."""
        begun, during = time.perf_counter(), 0
        for count, key in enumerate(keys, 1):
            os.write(self._fd, KEYS.get(key, key).encode())
            while (left := begun + count / per_second - time.perf_counter()) > 0:
                during += len(self.read(quiet=left, limit=left))
        let_go, already = time.perf_counter(), len(self.sent)
        self.wait_until(until)
        first = len(self.sent) - already
        rest = self.read(quiet, 60.0, since=let_go)
        return Held(
            during, Burst(bytes(self.sent[already:]), 0.0 if first else rest.first, rest.last)
        )

    def hang_up(self):
        """Close the line under the program, as a dropped connection does."""
        os.close(self._fd)
        self._fd = -1

    def slow_down(self, bytes_per_second):
        """From now on read no faster than a line of that speed would."""
        self._rate = bytes_per_second

    def _waits_for_a_processor(self):
        """Whether one of the program's threads runs, or is kept from running by others (Linux)."""
        for state in Path(f"/proc/{self.process.pid}/task").glob("*/stat"):
            with contextlib.suppress(OSError):
                if state.read_text().rpartition(")")[2].split()[0] in "RD":
                    return True
        return False

    def text(self):
        """The screen as lines without trailing blanks."""
        return "\n".join(line.rstrip() for line in self.screen.display)

    def close(self):
        """End the program; its exit status."""
        if self._fd < 0:
            self.process.kill()
        elif self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self._drain_until_exit(3.0)
            except subprocess.TimeoutExpired:
                self.process.kill()
        status = self.process.wait()
        with contextlib.suppress(OSError):
            os.close(self._fd)
        return status

    def _drain_until_exit(self, limit):
        """A program that still writes cannot end while its terminal is full."""
        deadline = time.perf_counter() + limit
        while self.process.poll() is None:
            self.read(quiet=0.05, limit=0.2)
            if time.perf_counter() > deadline:
                raise subprocess.TimeoutExpired(self.process.args, limit)

    def _feed(self, chunk):
        self.sent += chunk
        data = self._held + chunk
        for query, reply in self._replies.items():
            for _ in range(data.count(query)):
                os.write(self._fd, reply)
        unfinished = _UNFINISHED.search(data)
        self._held = data[unfinished.start() :] if unfinished else b""
        self._stream.feed(
            _UNKNOWN_TO_PYTE.sub(b"", data[: unfinished.start()] if unfinished else data)
        )


def _environment(changes):
    found = {name: os.environ.get(name) for name in ("PATH", "HOME", "VIRTUAL_ENV", "TMPDIR")}
    found |= {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
    # the settings of whoever runs the tests stay out of them
    found |= {"XDG_CONFIG_HOME": os.devnull, "PYTHONPATH": str(_REPOSITORY), **changes}
    return {name: value for name, value in found.items() if value is not None}


def _take_terminal():
    """In the child: the pseudo-terminal on stdin becomes the controlling one, so that resizes are signalled."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
