"""The queue and the state of every job: what the pool's threads share."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any

from msgspec.structs import replace

from fa_core.engine.jobs import Job, JobState, JobView
from fa_core.errors import FaError, MeasureError
from fa_core.report import DiagnosticReport

OnEvent = Callable[[JobView], None]


class JobFailed(MeasureError):
    """A job that came back without a report; says why in one line."""


class JobCancelled(MeasureError, CancelledError):
    """A job that was cancelled while it ran; one that was still queued raises the plain `CancelledError`."""


class JobBoard:
    """Every job with its view and its future. All methods may be called from any thread.

    Args:
        emit: told each new view, in order per job; it must not block.
    """

    def __init__(self, emit: OnEvent) -> None:
        self._emit = emit
        self._changed = threading.Condition()
        self._views: dict[str, JobView] = {}
        self._futures: dict[str, Future[DiagnosticReport]] = {}
        self._queue: list[str] = []
        self._waiting = 0
        self._closed = False

    @property
    def short_of_takers(self) -> bool:
        """Whether more jobs are queued than threads wait for one."""
        with self._changed:
            return len(self._queue) > self._waiting

    def add(self, job: Job) -> Future[DiagnosticReport]:
        """Queue a job (again, if it is over).

        Raises:
            ValueError: a job of that id is queued or runs.
            RuntimeError: the board is closed.
        """
        with self._changed:
            if self._closed:
                raise RuntimeError("the pool is closed")
            known = self._views.get(job.id)
            if known is not None and not known.state.final:
                raise ValueError(f"job {job.id!r} is {known.state.value} already")
            future: Future[DiagnosticReport] = Future()
            self._futures[job.id] = future
            self._queue.append(job.id)
            self._set(JobView(job=job))
            self._changed.notify()
        return future

    def take(self, taken: Callable[[Job], None]) -> bool:
        """Wait for a job and hand it to ``taken`` before anybody can see it running; False once closed."""
        with self._changed:
            self._waiting += 1
            try:
                while not self._closed:
                    while self._queue:
                        view = self._views[self._queue.pop(0)]
                        if self._futures[view.job.id].set_running_or_notify_cancel():
                            taken(view.job)
                            self._set(replace(view, state=JobState.RUNNING))
                            return True
                        self._set(replace(view, state=JobState.CANCELLED))
                    self._changed.wait()
                return False
            finally:
                self._waiting -= 1

    def update(self, job_id: str, **changes: Any) -> None:
        """Change fields of a job's view."""
        with self._changed:
            self._set(replace(self._views[job_id], **changes))

    def finish(self, job_id: str, result: DiagnosticReport | FaError) -> None:
        """Make a job final: its future first, so that whoever collects reports has this one before it is told."""
        with self._changed:
            view, future = self._views[job_id], self._futures[job_id]
            if isinstance(result, DiagnosticReport):
                view = replace(view, state=JobState.DONE, done=view.total)
            elif isinstance(result, JobCancelled):
                view = replace(view, state=JobState.CANCELLED)
            else:
                view = replace(view, state=JobState.FAILED, error=str(result))
            self._views[job_id] = view
        if isinstance(result, DiagnosticReport):
            future.set_result(result)
        else:
            future.set_exception(result)
        self._emit(view)

    def withdraw(self, job_id: str) -> bool:
        """Cancel a job that is still queued."""
        with self._changed:
            if job_id not in self._queue:
                return False
            self._queue.remove(job_id)
            future = self._futures[job_id]
            future.cancel()
            future.set_running_or_notify_cancel()
            self._set(replace(self._views[job_id], state=JobState.CANCELLED))
            return True

    def move(self, job_id: str, position: int) -> bool:
        """Put a queued job at this place of the queue (0 = next); False if it is not queued."""
        with self._changed:
            if job_id not in self._queue:
                return False
            self._queue.remove(job_id)
            self._queue.insert(max(0, position), job_id)
            return True

    def view(self, job_id: str) -> JobView:
        """A job as it stands now."""
        with self._changed:
            return self._views[job_id]

    def views(self) -> list[JobView]:
        """Every job: those that ran or run, as submitted, then the queue in its order."""
        with self._changed:
            begun = [view for view in self._views.values() if view.state is not JobState.QUEUED]
            return begun + [self._views[job_id] for job_id in self._queue]

    def close(self) -> None:
        """Withdraw what is queued and send the takers home."""
        with self._changed:
            self._closed = True
            for job_id in list(self._queue):
                self.withdraw(job_id)
            self._changed.notify_all()

    def _set(self, view: JobView) -> None:
        self._views[view.job.id] = view
        self._emit(view)
