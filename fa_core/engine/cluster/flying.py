"""The jobs that Ray has, and when there is room for more."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from fa_core.engine.jobs import Job

BACKLOG = 2
"""Batches of jobs per place that the cluster has: no place waits for us, and the queue can still be rearranged."""

LEAST_BACKLOG = 4
"""Also where there is no place yet: Ray starts machines for work that it has."""


class Flying:
    """Thread-safe record of what was handed over.

    Args:
        most: how many batches at a time; None = as `BACKLOG` says.
    """

    def __init__(self, most: int | None) -> None:
        self._changed = threading.Condition()
        self._most, self._slots = most, 0
        self._jobs: dict[str, Job] = {}
        self._batch_of: dict[str, int] = {}
        self._batches = 0
        self._dropped: set[str] = set()

    def wait_for_room(self) -> None:
        """Until another batch may be handed over."""
        with self._changed:
            self._changed.wait_for(lambda: len(set(self._batch_of.values())) < self._room())

    def resize(self, slots: int) -> None:
        """The cluster has this many places now."""
        with self._changed:
            self._slots = slots
            self._changed.notify_all()

    def take(self, jobs: Sequence[Job]) -> None:
        """A batch is about to be handed over."""
        with self._changed:
            self._batches += 1
            self._jobs.update((job.id, job) for job in jobs)
            self._batch_of.update(dict.fromkeys((job.id for job in jobs), self._batches))
            self._dropped.difference_update(job.id for job in jobs)

    def among(self, job_ids: Sequence[str]) -> list[str]:
        """Those of these that are flying."""
        with self._changed:
            return [job_id for job_id in job_ids if job_id in self._jobs]

    def all(self) -> list[str]:
        """Every job that is flying."""
        with self._changed:
            return list(self._jobs)

    def land(self, job_id: str) -> Job | None:
        """A job is over; the job, if nobody said so before."""
        with self._changed:
            self._batch_of.pop(job_id, None)
            self._changed.notify_all()
            return self._jobs.pop(job_id, None)

    def drop(self, job_id: str) -> Job | None:
        """Land a job that nobody wants any more."""
        with self._changed:
            job = self.land(job_id)
            if job is not None:
                self._dropped.add(job_id)
            return job

    def is_dropped(self, job_id: str) -> bool:
        """Whether a job was dropped since it was taken."""
        with self._changed:
            return job_id in self._dropped

    def land_all(self) -> list[Job]:
        """Every job, over with one blow."""
        with self._changed:
            jobs = list(self._jobs.values())
            self._jobs.clear()
            self._batch_of.clear()
            self._changed.notify_all()
            return jobs

    def _room(self) -> int:
        return self._most if self._most is not None else max(LEAST_BACKLOG, BACKLOG * self._slots)
