"""The job queue and the state of every job, behind one lock that a pool's threads share."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, Future
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from fa_core.audit import messages
from fa_core.audit.jobs import Job, JobState, JobView
from fa_core.errors import FaError, InvalidReport, MeasureError
from fa_core.files.decode import Json
from fa_core.report.diagnostic_report import DiagnosticReport

OnEvent = Callable[[JobView], None]


class JobFailed(MeasureError):
    """A job that ended without a report; the message is one line."""


class NoWorker(JobFailed):
    """No worker could start; not the fault of the job, and the same message for each."""


class JobCancelled(MeasureError, CancelledError):
    """A job that was cancelled while a worker had it; a queued one raises the plain
    `CancelledError`."""


class Taker(Protocol):
    """A worker that takes jobs from a `JobTable` and measures them."""

    def stop(self, job_id: str, running: bool) -> None:
        """Drop a cancelled job; ``running``: its measurement had begun."""


class JobTable:
    """Every job with its view, its future, and its taker. Thread-safe.

    A taker has the jobs it takes until they are final or given back. Its messages about other jobs,
    which were cancelled meanwhile, have no effect.

    Args:
        emit: called with each new view, in order per job; must not block.

    Attributes:
        changed: the lock, notified when there is a job to take.
        closed: True after `close`.
    """

    def __init__(self, emit: OnEvent) -> None:
        self._emit = emit
        self.changed = threading.Condition()
        self.closed = False
        self._views: dict[str, JobView] = {}
        self._futures: dict[str, Future[DiagnosticReport]] = {}
        self._queue: dict[str, None] = {}  # job ids, in order
        self._held: dict[str, Taker] = {}  # job id → its taker
        self._takers: set[Taker] = set()

    def add(self, job: Job) -> Future[DiagnosticReport]:
        """Queue a job, or a final job again.

        Raises:
            ValueError: a job of that id is queued or running.
            RuntimeError: the table is closed.
        """
        with self.changed:
            if self.closed:
                raise RuntimeError("the pool is closed")
            known = self._views.get(job.id)
            if known is not None and not known.state.final:
                raise ValueError(f"job {job.id!r} is {known.state.value} already")
            future = self._futures[job.id] = Future()
            self._queue[job.id] = None
            self._set(JobView(job=job))
            self.changed.notify()
        return future

    def enter(self, taker: Taker) -> None:
        """Add a taker to those that share the queue."""
        with self.changed:
            self._takers.add(taker)

    def leave(self, taker: Taker) -> bool:
        """Remove a taker; False if it is the last one, which stays."""
        with self.changed:
            if self._takers == {taker}:
                return False
            self._takers.discard(taker)
            self.changed.notify_all()
            return True

    def wait(self) -> bool:
        """Wait for a job; False once closed."""
        with self.changed:
            self.changed.wait_for(lambda: self.closed or self._queue)
            return not self.closed

    def take(self, taker: Taker, most: int) -> list[Job]:
        """Take at most so many jobs off the queue; none if other takers were faster."""
        jobs: list[Job] = []
        with self.changed:
            while len(jobs) < most and self._queue and not self.closed:
                job_id = next(iter(self._queue))
                del self._queue[job_id]
                self._held[job_id] = taker
                future = self._futures[job_id]
                if not future.running():
                    future.set_running_or_notify_cancel()
                jobs.append(self._views[job_id].job)
        return jobs

    def hand_over(
        self,
        taker: Taker,
        jobs: Sequence[Job],
        to: messages.ChildProcess,
        **facts: object,
    ) -> None:
        """Send a taker's jobs to its process; ``facts``: new values of fields of their views."""
        for job in jobs:
            self.update(taker, job.id, log=str(to.log), **facts)
        to.send(messages.Run([*jobs]))
        for job in jobs:
            if self._held.get(job.id) is not taker:  # cancelled before the process had it
                to.send(messages.Cancel(job.id))

    def held(self, taker: Taker) -> list[JobView]:
        """Views of a taker's jobs."""
        with self.changed:
            return [self._views[job_id] for job_id, holder in self._held.items() if holder is taker]

    def holder(self, job_id: str) -> Taker | None:
        """The taker of a job; None = it is queued or final."""
        return self._held.get(job_id)

    def give_back(self, taker: Taker) -> None:
        """Put a taker's jobs back in front of the queue."""
        with self.changed:
            jobs = [view.job for view in self.held(taker)]
            if not self.closed:
                self._queue = {**dict.fromkeys(job.id for job in jobs), **self._queue}
            for job in jobs:
                if self.closed:
                    self.cancel(job.id)
                else:
                    del self._held[job.id]
                    self._set(JobView(job=job))
            self.changed.notify_all()

    def update(self, taker: Taker, job_id: str, **changes: object) -> None:
        """Change fields of a job's view, if the taker still has it."""
        with self.changed:
            if self._held.get(job_id) is taker:
                self._set(replace(self._views[job_id], **changes))

    def take_in(self, taker: Taker, message: messages.FromWorker, log: Path) -> JobFailed | None:
        """Apply a message of a taker's process to views and futures; returns the failure, if it is
        one.

        Args:
            taker: has the jobs.
            message: sent by its process.
            log: the log of that process.
        """
        match message:
            case messages.Begun(job_id=job_id):
                self.update(taker, job_id, state=JobState.RUNNING)
            case messages.Progress(job_id=job_id, done=done, total=total):
                self.update(taker, job_id, done=done, total=total)
            case messages.Note(job_id=job_id, text=text):
                self.update(taker, job_id, note=text)
            case messages.Done(job_id=job_id, report=report):
                self.finish(job_id, _read(report, self.view(job_id).job.checkpoint), taker)
            case messages.Failed(job_id=job_id, what=what, where=where, hint=hint):
                # the worker does not know the path of its log
                hint = hint.replace(messages.TRACEBACK_IN_LOG, f"traceback in {log}")
                error = JobFailed(what, where=where, hint=hint)
                self.finish(job_id, error, taker)
                return error
        return None

    def finish(
        self, job_id: str, result: DiagnosticReport | FaError, taker: Taker | None = None
    ) -> bool:
        """Make a job final; its future is set before the event is emitted.

        Args:
            job_id: the job.
            result: its report or error.
            taker: the sender of the result; None = the pool itself.

        Returns:
            False if it was final before, or the taker no longer has it.
        """
        with self.changed:
            view, future = self._views[job_id], self._futures[job_id]
            if view.state.final or (taker is not None and self._held.get(job_id) is not taker):
                return False
            self._held.pop(job_id, None)
            self._queue.pop(job_id, None)
            if isinstance(result, DiagnosticReport):
                view = replace(view, state=JobState.DONE, done=view.total, report=result)
            elif isinstance(result, JobCancelled):
                view = replace(view, state=JobState.CANCELLED)
            else:
                view = replace(view, state=JobState.FAILED, error=str(result))
            self._views[job_id] = view
        if isinstance(result, DiagnosticReport):
            future.set_result(result)
        elif isinstance(result, JobCancelled) and future.cancel():
            # nobody had it; those who wait for it are told only now
            future.set_running_or_notify_cancel()
        else:
            future.set_exception(result)
        self._emit(view)
        return True

    def cancel(self, job_id: str) -> bool:
        """Cancel a job; False if it is final."""
        return self.finish(job_id, JobCancelled("cancelled"))

    def fail(self, job_ids: Iterable[str], error: FaError) -> None:
        """Fail jobs with one error; unless the workers are at fault, with each job's own name in
        it."""
        for job_id in job_ids:
            where = self.view(job_id).job.checkpoint
            theirs = JobFailed(error.what, where=where, hint=error.hint)
            self.finish(job_id, error if isinstance(error, NoWorker) else theirs)

    def queued(self) -> list[str]:
        """Ids of the queued jobs, in order."""
        with self.changed:
            return list(self._queue)

    def view(self, job_id: str) -> JobView:
        """The current view of a job."""
        with self.changed:
            return self._views[job_id]

    def views(self) -> list[JobView]:
        """All views: taken jobs as submitted, then the queue in its order."""
        with self.changed:
            begun = [view for job_id, view in self._views.items() if job_id not in self._queue]
            return begun + [self._views[job_id] for job_id in self._queue]

    def close(self) -> None:
        """Cancel the queue and wake all takers."""
        with self.changed:
            self.closed = True
            for job_id in self.queued():
                self.cancel(job_id)
            self.changed.notify_all()

    def _set(self, view: JobView) -> None:
        self._views[view.job.id] = view
        self._emit(view)


def _read(report: Json, where: str) -> DiagnosticReport | FaError:
    """The report that a worker sent, or the error if it is invalid."""
    try:
        # the verdict follows from the numbers, not from a file
        return replace(DiagnosticReport.from_dict(report, where=where), recorded_verdict=None)
    except InvalidReport as error:
        return error
