"""What the jobs screen lists: runs that are measured here, and commands that run beside. No terminal code.

How far the jobs are, in one line.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Protocol

import msgspec

from fa_tui.jobs.pace import time_words

OVER = ("done", "failed", "cancelled")
"""States that do not change by themselves any more."""


class Listed(msgspec.Struct, frozen=True, kw_only=True):
    """A job as it stands now.

    Attributes:
        id: unique in its explorer.
        name: the run, or the command.
        state: ``queued``, ``running``, ``done``, ``failed`` or ``cancelled``.
        device: where it runs or ran (``""`` = nowhere yet).
        done: steps done so far.
        total: steps there are (0 = not known yet).
        part: share [0, 1] of the next step that is done, where that is told.
        unit: what a step is: ``batch`` or ``epoch`` or ``run``.
        left: seconds until it is done, where there is a rate to tell from.
        took: seconds it ran, once it is over.
        words: the last thing it had to say.
        error: why it failed, in one line.
        log: its log file.
        line: the command line that runs, where it is a command.
    """

    id: str
    name: str
    state: str
    device: str = ""
    done: int = 0
    total: int = 0
    part: float = 0.0
    unit: str = "batch"
    left: float | None = None
    took: float | None = None
    words: str = ""
    error: str = ""
    log: str = ""
    line: str = ""

    @property
    def over(self) -> bool:
        """Whether it is final until it is retried."""
        return self.state in OVER

    @property
    def can_retry(self) -> bool:
        """Whether it failed or was cancelled."""
        return self.state in ("failed", "cancelled")


class Source(Protocol):
    """Somebody who has jobs."""

    def listed(self) -> Sequence[Listed]:
        """All of them, in order."""

    def cancel(self, job_id: str) -> bool:
        """Cancel one; False if it is over or not here."""

    def retry(self, job_id: str) -> None:
        """Begin one again that failed or was cancelled."""

    def move(self, job_id: str, step: int) -> bool:
        """Put a queued one some places later in the queue; False if it stays where it is."""

    def pids(self) -> Collection[int]:
        """The processes that work for it."""


class Jobs:
    """The jobs of several sources as one list.

    Args:
        sources: who has jobs.
    """

    def __init__(self, *sources: Source) -> None:
        self._sources = sources

    def listed(self) -> list[Listed]:
        """Every job, source after source."""
        return [job for source in self._sources for job in source.listed()]

    def active(self) -> int:
        """How many jobs are not over."""
        return sum(not job.over for job in self.listed())

    def cancel(self, job_id: str) -> bool:
        """Cancel a job; False if it is over."""
        return any(source.cancel(job_id) for source in self._sources)

    def retry(self, job_id: str) -> None:
        """Begin a job again that failed or was cancelled."""
        for source in self._sources:
            if any(job.id == job_id and job.can_retry for job in source.listed()):
                source.retry(job_id)

    def move(self, job_id: str, step: int) -> bool:
        """Put a queued job some places later in its queue; False if it stays where it is."""
        return any(source.move(job_id, step) for source in self._sources)

    def pids(self) -> list[int]:
        """Every process that works."""
        return [pid for source in self._sources for pid in source.pids()]


def progress_line(jobs: Sequence[Listed]) -> list[tuple[str, str]]:
    """How far the jobs are, as pieces of one line; nothing once all are done and none failed."""
    states = Counter(job.state for job in jobs)
    pieces: list[tuple[str, str]] = []
    running = [job for job in jobs if job.state == "running"]
    if not running:
        # between two jobs: the next one is about to start, and the line keeps its shape
        running = [job for job in jobs if job.state == "queued"][:1]
    queued = states["queued"] - sum(job.state == "queued" for job in running)
    if running:
        first = running[0]
        doing = "measuring " if first.unit == "batch" else ""
        done = f"{first.done}/{first.total}" if first.total else "starting"
        pieces.append((f"{doing}{first.name} {done}", "accent"))
        if first.left is not None:
            pieces.append((f" {time_words(first.left)} left", "dim"))
        if len(running) > 1:
            pieces.append((f" and {len(running) - 1} more", "accent"))
    if queued:
        pieces.append((f", {queued} queued", "dim"))
    if pieces and states["done"]:
        pieces.append((f", {states['done']} done", "dim"))
    if states["failed"]:
        pieces.append((f"{', ' if pieces else ''}{states['failed']} failed (J)", "bad"))
    return pieces
