"""The queue and the state of every job, behind the one lock that a pool's threads share."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from concurrent.futures import CancelledError, Future
from itertools import islice, takewhile
from typing import Any

from msgspec.structs import replace

from fa_core.engine.jobs import Job, JobState, JobView, group_key
from fa_core.errors import FaError, InvalidReport, MeasureError
from fa_core.report import DiagnosticReport

HORIZON = 1024
"""How far into the queue jobs are looked for that go together."""

MOST_TOGETHER = 64
"""Jobs that a GPU's worker is given at most: it splits them by its memory."""

LEAST_TOGETHER = 8
"""Jobs that are worth a group: a smaller share of the queue is not made smaller still."""


def most_together(device: str, group: int | None) -> int:
    """How many jobs a worker of this device takes at a time: ``group`` if given, else 1 except on CUDA.

    On a CPU one network after the other is faster than several at once, and takes less memory.

    >>> most_together("cpu", None), most_together("cuda:0", None), most_together("cpu", 16)
    (1, 64, 16)
    """
    if group is not None:
        return group
    return MOST_TOGETHER if device.startswith("cuda") else 1


def share(queued: int, takers: int, most: int) -> int:
    """How many of the queued jobs the next taker gets.

    A single taker gets as many as it takes; one of several gets half of a fair share, so that shares shrink towards
    the end and work moves when one device is slow.

    >>> [share(queued, 2, 64) for queued in (400, 256, 100, 20, 15, 3, 1)]
    [64, 64, 25, 8, 8, 2, 1]
    """
    if takers < 2:
        return most
    fair = -(-queued // takers)
    return min(most, max(-(-fair // 2), min(LEAST_TOGETHER, fair)))


class JobQueue:
    """Ids of jobs in order; its owner does the locking.

    Attributes:
        ids: the jobs, as keys, in order.
        keys: what each job may be grouped by (see `group_key`), None = measured alone; missing = not looked up.
    """

    def __init__(self) -> None:
        self.ids: dict[str, None] = {}
        self._by_hand = False
        self.keys: dict[str, Hashable | None] = {}

    def append(self, job_id: str) -> None:
        """Put a job at the end."""
        self.ids[job_id] = None

    def put_first(self, job_ids: Iterable[str], alone: bool) -> None:
        """Put jobs back in front of all others; ``alone``: each is given out by itself."""
        ids = list(job_ids)
        self.ids = {**dict.fromkeys(ids), **self.ids}
        if alone:
            self.keys.update(dict.fromkeys(ids))

    def remove(self, job_id: str) -> None:
        """Take a job out."""
        del self.ids[job_id]
        self.keys.pop(job_id, None)
        if not self.ids:
            self._by_hand = False

    def move(self, job_id: str, position: int) -> None:
        """Put a job at this place; from now on the order is the user's, until the queue is empty."""
        ids = [other for other in self.ids if other != job_id]
        ids.insert(max(0, position), job_id)
        self.ids = dict.fromkeys(ids)
        self._by_hand = True

    def unknown(self) -> list[str]:
        """Jobs within the horizon whose key was not looked up."""
        return [job_id for job_id in self._nearest() if job_id not in self.keys]

    def take(self, most: int, takers: int) -> list[str]:
        """The jobs that a taker gets now, which leave the queue.

        The most numerous of a key go first; where the user has moved a job, the order is theirs and only
        neighbours go together.

        Args:
            most: how many jobs it takes at a time.
            takers: how many takers there are.
        """
        taken = self._choose(share(len(self.ids), takers, most))
        for job_id in taken:
            self.remove(job_id)
        return taken

    def _choose(self, size: int) -> list[str]:
        nearest = self._nearest()
        first = nearest[:1]
        if size < 2 or not first or self.keys.get(first[0], "") is None:
            return first
        if self._by_hand:
            key = self.keys.get(first[0])
            nearest = list(takewhile(lambda job_id: self.keys.get(job_id) == key, nearest))
        else:
            key = Counter(map(self.keys.get, nearest)).most_common(1)[0][0]
        return first if key is None else [job_id for job_id in nearest if self.keys.get(job_id) == key][:size]

    def _nearest(self) -> list[str]:
        return list(islice(self.ids, HORIZON))


OnEvent = Callable[[JobView], None]


class JobFailed(MeasureError):
    """A job that came back without a report; says why in one line."""


class NobodyLeft(JobFailed):
    """The processes that measure are gone, and with them all that was not over: no fault of the job."""


class JobCancelled(MeasureError, CancelledError):
    """A job that was cancelled after it was given out; a queued one raises the plain `CancelledError`."""


class JobTable:
    """Every job with its view and its future. All methods may be called from any thread.

    Args:
        emit: called with each new view, in order per job; it must not block.

    Attributes:
        changed: the lock, notified when there is a job to take.
        closed: whether `close` was called.
    """

    def __init__(self, emit: OnEvent) -> None:
        self._emit = emit
        self.changed = threading.Condition()
        self.closed = False
        self._views: dict[str, JobView] = {}
        self._futures: dict[str, Future[DiagnosticReport]] = {}
        self._queue = JobQueue()
        self._takers: set[object] = set()
        self._waiting = 0

    @property
    def short_of_takers(self) -> bool:
        """Whether more jobs are queued than takers wait for one."""
        with self.changed:
            return len(self._queue.ids) > self._waiting

    def add(self, job: Job) -> Future[DiagnosticReport]:
        """Queue a job (again, if it is over).

        Raises:
            ValueError: a job of that id is queued or runs.
            RuntimeError: the table is closed.
        """
        with self.changed:
            if self.closed:
                raise RuntimeError("the pool is closed")
            known = self._views.get(job.id)
            if known is not None and not known.state.final:
                raise ValueError(f"job {job.id!r} is {known.state.value} already")
            future = self._futures[job.id] = Future()
            self._queue.append(job.id)
            self._set(JobView(job=job))
            self.changed.notify()
        return future

    def enter(self, taker: object) -> None:
        """Count a taker among those that share the queue."""
        with self.changed:
            self._takers.add(taker)

    def leave(self, taker: object) -> bool:
        """Stop counting a taker, unless it is the last one; False if it is."""
        with self.changed:
            if self._takers == {taker}:
                return False
            self._takers.discard(taker)
            self.changed.notify_all()
            return True

    def wait(self) -> bool:
        """Wait until there is a job to take; False once closed."""
        with self.changed:
            self._waiting += 1
            self.changed.wait_for(lambda: self.closed or len(self._queue.ids))
            self._waiting -= 1
            return not self.closed

    def take(self, most: int, taken: Callable[[Sequence[Job]], None]) -> Sequence[Job]:
        """Jobs for a taker, which leave the queue; none if others were faster.

        Args:
            most: how many it takes at a time.
            taken: called with the jobs before any thread can see that they left the queue.
        """
        if most > 1:
            self.look_up_keys()
        with self.changed:
            while len(self._queue.ids) and not self.closed:
                ids = self._queue.take(most, len(self._takers))
                jobs = [self._views[job_id].job for job_id in ids if self._begin(job_id)]
                if jobs:
                    taken(jobs)
                    return jobs
            return []

    def give_back(self, jobs: Iterable[Job], note: str, *, alone: bool) -> None:
        """Put jobs back that are not over, in front of the queue; ``alone``: each is to be measured by itself."""
        jobs = list(jobs)
        with self.changed:
            closed = self.closed
            if not closed:
                self._queue.put_first([job.id for job in jobs], alone)
                for job in jobs:
                    self._set(JobView(job=job, note=note))
                self.changed.notify_all()
        for job in jobs if closed else []:
            self.finish(job.id, cancellation_of(job))

    def update(self, job_ids: Iterable[str], **changes: Any) -> None:
        """Change fields of the views of jobs that are not over."""
        with self.changed:
            for job_id in job_ids:
                if not self._views[job_id].state.final:
                    self._set(replace(self._views[job_id], **changes))

    def finish(self, job_id: str, result: DiagnosticReport | FaError) -> None:
        """Make a job final; its future first, so that a listener to the event finds the report there."""
        with self.changed:
            view, future = self._views[job_id], self._futures[job_id]
            if isinstance(result, DiagnosticReport):
                view = replace(view, state=JobState.DONE, done=view.total, report=result)
            elif isinstance(result, JobCancelled):
                view = replace(view, state=JobState.CANCELLED)
            else:
                state = JobState.CANCELLED if isinstance(result, NobodyLeft) else JobState.FAILED
                view = replace(view, state=state, error=str(result))
            self._views[job_id] = view
        if isinstance(result, DiagnosticReport):
            future.set_result(result)
        else:
            future.set_exception(result)
        self._emit(view)

    def withdraw(self, job_id: str) -> bool:
        """Cancel a job that is still queued."""
        with self.changed:
            if job_id not in self._queue.ids:
                return False
            self._queue.remove(job_id)
            view, future = self._views[job_id], self._futures[job_id]
            if not future.cancel():  # it was given out once already
                self.finish(job_id, cancellation_of(view.job))
                return True
            future.set_running_or_notify_cancel()
            self._set(replace(view, state=JobState.CANCELLED))
            return True

    def fail_queued(self, error: FaError) -> None:
        """Fail everything that is queued, each under its own name unless that has nothing to do with it."""
        with self.changed:
            ids = list(self._queue.ids)
            for job_id in ids:
                self._queue.remove(job_id)
            jobs = [self._views[job_id].job for job_id in ids if self._begin(job_id)]
        for job in jobs:
            self.finish(job.id, under_its_name(error, job))

    def move(self, job_id: str, position: int) -> bool:
        """Put a queued job at this place of the queue (0 = next); False if it is not queued."""
        with self.changed:
            if job_id not in self._queue.ids:
                return False
            self._queue.move(job_id, position)
            return True

    def view(self, job_id: str) -> JobView:
        """A job and its state now."""
        with self.changed:
            return self._views[job_id]

    def views(self) -> list[JobView]:
        """Every job: those that were given out, as submitted, then the queue in its order."""
        with self.changed:
            begun = [view for job_id, view in self._views.items() if job_id not in self._queue.ids]
            return begun + [self._views[job_id] for job_id in self._queue.ids]

    def close(self) -> None:
        """Withdraw what is queued and let no taker wait."""
        with self.changed:
            self.closed = True
            for job_id in list(self._queue.ids):
                self.withdraw(job_id)
            self.changed.notify_all()

    def look_up_keys(self) -> None:
        """Look up what the next jobs may be grouped by; reads their manifests, so without the lock."""
        with self.changed:
            jobs = [self._views[job_id].job for job_id in self._queue.unknown()]
        keys = {job.id: group_key(job) for job in jobs}
        with self.changed:
            self._queue.keys.update({job_id: key for job_id, key in keys.items() if job_id in self._queue.ids})

    def _begin(self, job_id: str) -> bool:
        """Whether a job that left the queue is still wanted."""
        future = self._futures[job_id]
        if future.running() or future.set_running_or_notify_cancel():
            return True
        self._set(replace(self._views[job_id], state=JobState.CANCELLED))
        return False

    def _set(self, view: JobView) -> None:
        self._views[view.job.id] = view
        self._emit(view)


def outcome_of(report: dict[str, Any], where: str) -> DiagnosticReport | FaError:
    """The report that a worker sent for a job, or why it is none."""
    try:
        # its verdict is what these numbers say today, not something a file once claimed
        return replace(DiagnosticReport.from_dict(report, where=where), recorded_verdict=None)
    except InvalidReport as error:
        return error


def under_its_name(error: FaError, job: Job) -> JobFailed:
    """A failure of a job for a reason that others may share; one that has nothing to do with it keeps its one text."""
    return error if isinstance(error, NobodyLeft) else JobFailed(error.what, where=job.checkpoint, hint=error.hint)


def cancellation_of(job: Job) -> JobCancelled:
    """The error of a cancelled job."""
    return JobCancelled("cancelled", where=job.checkpoint)
