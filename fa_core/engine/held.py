"""The jobs that one worker holds, and what has become of them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from enum import Enum

from fa_core.engine.jobs import Job


class Dropped(Enum):
    """How a job leaves that the person cancelled."""

    NOT_HERE = "it is not held"
    AT_ONCE = "it waits for its turn, or others are measured with it and go on"
    WHEN_STOPPED = "the worker is measuring it alone and has to stop"


class Held:
    """Thread-safe record of one `Run`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, Job] = {}
        self._in_worker: set[str] = set()
        self._begun: set[str] = set()
        self._dropped: set[str] = set()

    def take(self, jobs: Sequence[Job]) -> None:
        """Begin a record."""
        with self._lock:
            self._open = {job.id: job for job in jobs}
            self._in_worker = set(self._open)
            self._begun, self._dropped = set(), set()

    def open(self, job_ids: Iterable[str] | None = None) -> list[Job]:
        """Those (of these) that have no outcome yet."""
        with self._lock:
            return list(self._open.values()) if job_ids is None else [j for i in job_ids if (j := self._open.get(i))]

    def begin(self, job_ids: Iterable[str]) -> None:
        """The worker works on these now."""
        with self._lock:
            self._begun.update(job_ids)

    def drop(self, job_id: str) -> Dropped:
        """The person cancels a job; one that leaves at once is not open any more."""
        with self._lock:
            if job_id not in self._open:
                return Dropped.NOT_HERE
            self._dropped.add(job_id)
            beside = (self._begun & self._open.keys()) - self._dropped
            if job_id in self._begun and not beside:
                return Dropped.WHEN_STOPPED
            del self._open[job_id]
            return Dropped.AT_ONCE

    def over(self, job_id: str) -> Job | None:
        """The worker is done with a job; the job, if it was still open."""
        with self._lock:
            self._in_worker.discard(job_id)
            return self._open.pop(job_id, None)

    def is_dropped(self, job_id: str) -> bool:
        """Whether the person cancelled it."""
        with self._lock:
            return job_id in self._dropped

    def end(self) -> tuple[list[Job], list[Job], bool]:
        """The worker is gone: what was open and is wanted, what was cancelled, and whether it held but one job."""
        with self._lock:
            left = list(self._open.values())
            single = len(self._in_worker) == 1
            self._open, self._in_worker = {}, set()
            wanted = [job for job in left if job.id not in self._dropped]
            return wanted, [job for job in left if job.id in self._dropped], single
