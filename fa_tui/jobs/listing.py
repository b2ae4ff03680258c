"""Progress and remaining time of jobs. No terminal code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from time import monotonic

import msgspec


class Pace:
    """The pace of a job, from which its remaining time follows."""

    def __init__(self) -> None:
        self._first: tuple[float, float] | None = None
        self._last = (0.0, 0.0)

    def note(self, done: float) -> None:
        """Note the steps done, with a fraction of the next one; fewer than before means a
        restart."""
        if self._first is None or done < self._last[0]:
            self._first = self._last = (done, monotonic())
        elif done > self._last[0]:
            self._last = (done, monotonic())

    def seconds_left(self, total: int) -> float | None:
        """Remaining seconds; None before two different counts, and once they are over though
        nothing more was done.

        The rate excludes the time before the first count (loading data, starting torch).
        """
        if self._first is None or self._last[0] <= self._first[0]:
            return None
        (first, began), (last, at) = self._first, self._last
        left = (total - last) * (at - began) / (last - first) - (monotonic() - at)
        return None if left < 0 else left


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


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A job's current state.

    Attributes:
        id: unique in its explorer.
        name: name of the run.
        doing: what is done: ``measuring`` or ``writing``.
        state: ``queued``, ``running``, ``done``, ``failed`` or ``cancelled``.
        device: its device (``""`` = none yet).
        done: steps done so far.
        total: all steps (0 = not known yet).
        left: remaining seconds, if known.
        pid: process of its worker on this machine.
        words: its last note.
        error: its one-line error.
        log: its log file.
        elsewhere: whether another process works on the run, which this explorer did not start.
    """

    id: str
    name: str
    state: str
    doing: str = "measuring"
    device: str = ""
    done: int = 0
    total: int = 0
    left: float | None = None
    pid: int = 0
    words: str = ""
    error: str = ""
    log: str = ""
    elsewhere: bool = False

    @property
    def over(self) -> bool:
        """Whether it is final."""
        return self.state in ("done", "failed", "cancelled")

    @property
    def can_retry(self) -> bool:
        """Whether it is a measurement of this explorer that failed or was cancelled."""
        mine = self.doing == "measuring" and not self.elsewhere
        return mine and self.state in ("failed", "cancelled")


def progress_line(jobs: Sequence[Listed]) -> list[tuple[str, str]]:
    """How far the jobs are, as pieces of one line; nothing once all are done and none failed."""
    jobs = [job for job in jobs if not job.elsewhere]
    states = Counter(job.state for job in jobs)
    pieces: list[tuple[str, str]] = []
    running = [job for job in jobs if job.state == "running"]
    queued = [job for job in jobs if job.state == "queued"]
    if not running:
        # between two jobs the line keeps its shape
        running, queued = queued[:1], queued[1:]
    if running:
        first = running[0]
        text = f"{first.doing} {first.name}"
        if first.total:
            text += f" {first.done}/{first.total}"
        pieces.append((text, "accent"))
        if first.left is not None:
            pieces.append((f" {time_words(first.left)} left", "dim"))
        if len(running) > 1:
            pieces.append((f" and {len(running) - 1} more", "accent"))
    if queued:
        pieces.append((f", {len(queued)} queued", "dim"))
    if pieces and states["done"]:
        pieces.append((f", {states['done']} done", "dim"))
    if states["failed"]:
        pieces.append((f"{', ' if pieces else ''}{states['failed']} failed (J)", "bad"))
    return pieces
