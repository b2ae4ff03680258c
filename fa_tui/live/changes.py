"""What is new in folders that are open: which places to read again, and when.

A file is read when it is whole: one that cannot be read is tried again until it has stood still for a
while, and only then called broken. Places are named as `fa_core.formats.scan` names them.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec

from fa_core.errors import UnreadableInput
from fa_core.formats import Scan, Trace, scan_again
from fa_core.formats.run_folder import sniff
from fa_core.formats.scan import NOTHING_HERE, Walk
from fa_core.rows import AuditRow, Problem
from fa_core.runs import CREDIT, MANIFEST, RUN_FILES, run_place

STILL_SECONDS = 2.0
"""A file that cannot be read and has not changed for so long is broken, not being written."""

_CHUNK = 16
"""After so many files the screen's thread is let in: thousands may appear at once."""

_Stamp: TypeAlias = "tuple[int, int] | None"


class Reading(msgspec.Struct, frozen=True):
    """What a file or run folder holds now.

    Attributes:
        place: its path, as `scan` names it.
        rows, traces, problems: what is in it.
        gone: it is no longer there.
    """

    place: str
    rows: Sequence[AuditRow] = []
    traces: list[Trace] = []
    problems: list[Problem] = []
    gone: bool = False

    def owns(self, path: str) -> bool:
        """Whether what was read from a path was read from this place."""
        return self.place in (path, run_place(path))

    def settles(self, problem: Problem) -> bool:
        """Whether what this place holds reports a problem again, or ends it.

        Also that of a folder in which there was nothing, when this place in it holds something.
        """
        if self.owns(problem.path):
            return True
        found = self.rows or self.traces or self.problems
        return bool(found) and NOTHING_HERE in problem.message and Path(problem.path) in Path(self.place).parents


class Follower:
    """Decides what has to be read again. Lives in one thread; tests bring their own clock.

    Args:
        known: sources that were read already; run folders and files.
        read: what a place holds now.
        clock: seconds.
        pause: called now and then while there is much to read.
    """

    def __init__(
        self,
        known: Iterable[str],
        *,
        read: Callable[[str], Scan] = scan_again,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[], object] = lambda: None,
    ) -> None:
        self._read, self._clock, self._pause = read, clock, pause
        self._known: dict[str, None] = {}
        self._inside: dict[str, set[str]] = {}
        self._due: dict[str, None] = {}
        self._waiting: dict[str, tuple[object, float]] = {}
        for place in known:
            self._learn(place)

    def note(self, path: str) -> None:
        """A file or folder appeared, changed or went away."""
        at = Path(path)
        if at.is_dir():
            self._due.update(dict.fromkeys(_places(path)))
        elif at.name in RUN_FILES and (str(at.parent) in self._known or sniff(at.parent)):
            self._due[str(at.parent)] = None
        elif at.name != CREDIT:
            self._due[path] = None
        if str(at) in self._inside and not at.exists():
            self._due.update(dict.fromkeys(self._inside[str(at)]))

    def note_known(self) -> None:
        """Everything that was read may have changed or gone."""
        self._due.update(self._known)

    def take(self) -> list[Reading]:
        """What is new: every place that was noted and is whole, or broken for good, or gone."""
        due = {**self._due, **dict.fromkeys(self._waiting)}
        self._due.clear()
        readings = []
        for number, place in enumerate(due, 1):
            reading = self._reading(place)
            if reading is not None:
                readings.append(reading)
            if number % _CHUNK == 0:
                self._pause()
        return readings

    def _reading(self, place: str) -> Reading | None:
        state = _state(Path(place))
        if state is None:
            self._waiting.pop(place, None)
            return Reading(place, gone=True) if place in self._known else None
        found = self._read(place)
        if found.problems and not self._is_still(place, state):
            return None
        self._waiting.pop(place, None)
        if not (found.rows or found.traces or found.problems or place in self._known):
            return None
        self._learn(place)
        return Reading(place, found.rows, found.traces, found.problems)

    def _is_still(self, place: str, state: object) -> bool:
        before, since = self._waiting.get(place, (None, 0.0))
        if state != before:
            self._waiting[place] = (state, self._clock())
            return False
        return self._clock() - since >= STILL_SECONDS

    def _learn(self, place: str) -> None:
        if place in self._known:
            return
        self._known[place] = None
        folder = str(Path(place))
        while os.sep in folder:
            folder = folder.rpartition(os.sep)[0]
            self._inside.setdefault(folder, set()).add(place)


def _places(folder: str) -> Iterator[str]:
    """The run folders and files in a folder that appeared."""
    walk = Walk(folder, set())
    with contextlib.suppress(UnreadableInput):
        for place in walk:
            if not place.is_folder:
                yield place.path
            elif sniff(Path(place.path)):
                walk.skip = RUN_FILES
                yield str(Path(place.path))
            else:
                walk.skip = frozenset({CREDIT})


def _state(place: Path) -> tuple[_Stamp, ...] | None:
    """Size and time of a file, or of a run folder's own files; None if it is not there (any more)."""
    if place.is_dir():
        stamps = {name: _stamp(place / name) for name in sorted(RUN_FILES)}
        return None if stamps[MANIFEST] is None else tuple(stamps.values())
    stamp = _stamp(place)
    return None if stamp is None else (stamp,)


def _stamp(path: Path) -> _Stamp:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_size, status.st_mtime_ns
