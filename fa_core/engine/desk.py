"""The worker's end of the conversation: what is measured is told to the client, not more often than it can use."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from fa_core.engine import protocol
from fa_core.engine.jobs import Job
from fa_core.engine.watch import Cancelled, DeviceFull, Measure, Outlet, Watch
from fa_core.errors import FaError
from fa_core.failures import is_device_lost

Send = Callable[[protocol.FromWorker], None]

WORDS_PER_SECOND = 160
"""Most words on progress: each job of a group that goes one batch further is one for its client to show."""


class Desk:
    """An `Outlet` that writes to the client.

    Args:
        send: hands a message over.
        is_cancelled: whether the client cancelled a job id.
    """

    def __init__(self, send: Send, is_cancelled: Callable[[str], bool]) -> None:
        self._send, self._is_cancelled = send, is_cancelled

    def begin(self, jobs: Sequence[Job]) -> Watch:
        self._send(protocol.Begun([job.id for job in jobs]))
        return _DeskWatch([job.id for job in jobs], self._send, self._is_cancelled)

    def note(self, job: Job, text: str) -> None:
        self._send(protocol.Note([job.id], text))

    def is_cancelled(self, job: Job) -> bool:
        return self._is_cancelled(job.id)

    def done(self, job: Job, report: dict[str, Any]) -> None:
        self._send(protocol.Done(job.id, report))

    def stopped(self, job: Job) -> None:
        self._send(protocol.Stopped(job.id))

    def failed(self, job: Job, error: Exception) -> None:
        if isinstance(error, FaError):
            parts = (error.what, error.where, error.hint)
        else:
            traceback.print_exception(error)
            what = traceback.format_exception_only(error)[-1].strip()
            parts = (what, job.checkpoint, protocol.TRACEBACK_IN_LOG)
        self._send(protocol.Failed(job.id, *parts, _device_state(error)))


class _DeskWatch:
    """The `Watch` of the jobs that are measured at once."""

    def __init__(self, job_ids: list[str], send: Send, is_cancelled: Callable[[str], bool]) -> None:
        self._job_ids, self._send, self._is_cancelled = job_ids, send, is_cancelled
        self._next_word = 0.0
        self._total = 0

    def progress(self, done: int, total: int) -> None:
        if all(map(self._is_cancelled, self._job_ids)):
            raise Cancelled
        now = time.monotonic()
        if now >= self._next_word or done == total or total != self._total:
            self._next_word, self._total = now + max(8, len(self._job_ids)) / WORDS_PER_SECOND, total
            self._send(protocol.Progress(self._job_ids, done, total))

    def note(self, text: str) -> None:
        self._send(protocol.Note(self._job_ids, text))


class OneByOne:
    """A `Measurer` out of a function that measures one job.

    Args:
        measure: the function.
        device: what it is told to measure on.
    """

    def __init__(self, measure: Measure, device: str) -> None:
        self._measure, self._device = measure, device

    def measure(self, jobs: Sequence[Job], ahead: Sequence[Job], outlet: Outlet, group: int | None = None) -> None:
        for job in jobs:
            if outlet.is_cancelled(job):
                outlet.stopped(job)
                continue
            try:
                report = self._measure(job, self._device, outlet.begin([job]))
            except Cancelled:
                outlet.stopped(job)
            except Exception as error:
                outlet.failed(job, error)
            else:
                outlet.done(job, report)


def _device_state(error: Exception) -> str:
    if is_device_lost(error):
        return "lost"
    return "full" if isinstance(error, DeviceFull) else ""
