"""Jobs in, reports out: a queue and worker processes. No torch in this process."""

from __future__ import annotations

import itertools
import queue
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path

from fa_core.engine.board import JobBoard, JobCancelled, JobFailed, OnEvent
from fa_core.engine.jobs import Job, JobState, JobView
from fa_core.engine.process import WorkerProcess
from fa_core.engine.slot import Slot
from fa_core.engine.watch import DEFAULT_MEASURE
from fa_core.errors import UsageError
from fa_core.report import DiagnosticReport

__all__ = ["JobCancelled", "JobFailed", "WorkerPool"]


class WorkerPool:
    """Measures jobs in worker processes: in the order they were submitted, or those that go together first.

    Workers start with the first jobs and stay warm. One that dies fails the job it was measuring and is replaced
    when the next job comes; if it held several, they are measured again one by one, so that only the culprit fails.

    Args:
        devices: one worker each, e.g. ``["cuda:0", "cuda:1"]`` or ``["cpu", "cpu"]``.
        on_event: called with a job's view whenever it changes, in order, from one thread of the pool's own.
        threads: CPU threads per worker; None = as many as torch likes.
        measure: ``module:callable`` run in the workers (see `fa_core.engine.watch.Measure`).
        log_dir: where workers log; None = a temporary folder, kept at `close` only if a job failed.
        grace: seconds a cancelled job gets to stop at its next batch before its worker is killed.
        group: how many networks a worker measures at once; None = as its memory allows on CUDA, else 1.

    Raises:
        UsageError: no device, or a group of none.
    """

    def __init__(
        self,
        devices: Sequence[str],
        on_event: OnEvent | None = None,
        *,
        threads: int | None = None,
        measure: str = DEFAULT_MEASURE,
        log_dir: Path | None = None,
        grace: float = 5.0,
        group: int | None = None,
    ) -> None:
        if not devices:
            raise UsageError("no device to measure on", hint="`fa-tui doctor` lists them")
        if group is not None and group < 1:
            raise UsageError(f"--group {group}", hint="give at least 1 (= one by one)")
        self._threads, self._measure = threads, measure
        self._keep_logs = log_dir is not None
        self.log_dir = Path(tempfile.mkdtemp(prefix="fa-tui-")) if log_dir is None else log_dir
        self._worker_numbers = itertools.count(1)
        self._events: queue.SimpleQueue[JobView | None] = queue.SimpleQueue()
        self._teller = threading.Thread(target=self._tell, args=(on_event,), name="events", daemon=True)
        self._teller.start()
        self._board = JobBoard(self._events.put)
        self._slots = [Slot(self._board, device, self._worker_starter(device), grace, group) for device in devices]
        self._started: list[Slot] = []

    def submit(self, job: Job) -> Future[DiagnosticReport]:
        """Put a job at the end of the queue.

        Returns:
            A future of the report. It raises `JobFailed`, or `JobCancelled` if cancelled while it ran.

        Raises:
            ValueError: a job of that id is queued or runs.
        """
        future = self._board.add(job)
        if self._board.short_of_takers and len(self._started) < len(self._slots):
            slot = self._slots[len(self._started)]
            self._started.append(slot)
            self._board.enter(slot)
            slot.start()
        return future

    def retry(self, job_id: str) -> Future[DiagnosticReport]:
        """Submit a job again that is over."""
        return self.submit(self._board.view(job_id).job)

    def cancel(self, job_id: str) -> bool:
        """Cancel a job: at once while it is queued, at its next batch while it runs; False if it is over."""
        return self._board.withdraw(job_id) or any(slot.cancel(job_id) for slot in self._started)

    def move(self, job_id: str, position: int) -> bool:
        """Put a queued job at this place of the queue (0 = next); False if it is not queued."""
        return self._board.move(job_id, position)

    def jobs(self) -> list[JobView]:
        """Every job of this pool: those that were given to a worker, as submitted, then the queue in its order."""
        return self._board.views()

    def pids(self) -> list[int]:
        """The worker processes that live."""
        return [pid for slot in self._started if (pid := slot.pid) is not None]

    def close(self) -> None:
        """Cancel everything that is not over, end the workers, tell the last events."""
        self._board.close()
        for slot in self._started:
            slot.end()
        for slot in self._started:
            slot.join()
        self._events.put(None)
        if threading.current_thread() is not self._teller:
            self._teller.join()
        if not self._keep_logs and not any(view.state is JobState.FAILED for view in self.jobs()):
            shutil.rmtree(self.log_dir, ignore_errors=True)

    def __enter__(self) -> WorkerPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _worker_starter(self, device: str) -> Callable[[], WorkerProcess]:
        def start() -> WorkerProcess:
            log = self.log_dir / f"worker-{next(self._worker_numbers)}-{device.replace(':', '')}.log"
            return WorkerProcess(device, threads=self._threads, measure=self._measure, log=log)

        return start

    def _tell(self, on_event: OnEvent | None) -> None:
        while (view := self._events.get()) is not None:
            if on_event is not None:
                on_event(view)
