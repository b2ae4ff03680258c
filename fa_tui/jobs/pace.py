"""How long a job still takes and took, and how far a command is: it writes that to a file that the explorer reads."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

import msgspec


class Pace:
    """How fast a job goes, and how long it took the last time.

    Args:
        clock: seconds (tests bring their own).
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._first: tuple[float, float] | None = None
        self._last = (0.0, 0.0)
        self._began: float | None = None
        self.took: float | None = None

    def turn(self, *, running: bool) -> None:
        """It runs now, or does not; `took` is None while it runs and where it never ran."""
        if running and (self._began is None or self.took is not None):
            self._began, self.took = self._clock(), None
        elif not running and self._began is not None and self.took is None:
            self.took = self._clock() - self._began

    def note(self, done: float) -> None:
        """So many steps are done now, with a part of the next one; fewer than before means that it began again."""
        if self._first is None or done < self._last[0]:
            self._first = self._last = (done, self._clock())
        elif done > self._last[0]:
            self._last = (done, self._clock())

    def seconds_left(self, total: int) -> float | None:
        """Seconds until all steps are done; None before two different counts were noted.

        The time before the first count (loading data, starting torch) does not enter the rate.
        """
        if self._first is None or self._last[0] <= self._first[0]:
            return None
        (first, began), (last, at) = self._first, self._last
        per_step = (at - began) / (last - first)
        return max(0.0, (total - last) * per_step - (self._clock() - at))


def time_words(seconds: float) -> str:
    """A time as short text.

    >>> [time_words(seconds) for seconds in (0.2, 42, 200, 7500, 200_000)]
    ['<1 s', '42 s', '3 min', '2 h 05', '2 d 7 h']
    """
    if seconds < 1:
        return "<1 s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02}"
    return f"{hours // 24} d {hours % 24} h"


PROGRESS_FILE = "FA_TUI_PROGRESS"
"""Environment variable that names the file to a command."""

_SECONDS = 0.2
"""The file is written at most so often: batches may take a millisecond."""


class Reached(msgspec.Struct, frozen=True):
    """How far a command is.

    Attributes:
        done: epochs of training, with the part of the next one, or audited runs.
        total: how many there are.
        words: the same as text, and what it said last.
    """

    done: float
    total: int
    words: str


class ProgressFile:
    """Writes how far a command is to the path the parent process passed, if any.

    Args:
        path: the file; None: the one that the environment names.
        clock: seconds (tests bring their own).
    """

    def __init__(self, path: Path | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        named = os.environ.get(PROGRESS_FILE)
        self._path = path or (Path(named) if named else None)
        self._clock = clock
        self._next = clock()

    def note(self, reached: Reached, *, at_once: bool = False) -> None:
        """Write how far the command is; a file that cannot be written must not stop it."""
        if self._path is None or (self._clock() < self._next and not at_once):
            return
        self._next = self._clock() + _SECONDS
        with contextlib.suppress(OSError):
            new = self._path.with_name(f"{self._path.name}.new")
            new.write_bytes(msgspec.json.encode(reached))
            new.replace(self._path)


def read_progress(path: Path) -> Reached | None:
    """What the file says; None where there is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Reached)
    except (OSError, msgspec.DecodeError):
        return None
