"""Jobs in, reports out: a queue and worker processes. No torch in this process."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path

from fa_core.engine.board import OnEvent
from fa_core.engine.jobs import Job
from fa_core.engine.pool import Pool
from fa_core.engine.process import WorkerProcess
from fa_core.engine.slot import Slot
from fa_core.engine.watch import DEFAULT_MEASURE
from fa_core.errors import UsageError
from fa_core.report import DiagnosticReport


class WorkerPool(Pool):
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
        super().__init__(on_event, log_dir)
        self._threads, self._measure = threads, measure
        self._worker_numbers = itertools.count(1)
        self._slots = [Slot(self._board, device, self._worker_starter(device), grace, group) for device in devices]
        self._started: list[Slot] = []

    def connect(self) -> None:
        """Nothing to do here: workers start with the first jobs."""

    def submit(self, job: Job) -> Future[DiagnosticReport]:
        """Put a job at the end of the queue, and start one more worker if those at work are too few."""
        future = super().submit(job)
        if self._board.short_of_takers and len(self._started) < len(self._slots):
            slot = self._slots[len(self._started)]
            self._started.append(slot)
            self._board.enter(slot)
            slot.start()
        return future

    def cancel(self, job_id: str) -> bool:
        """Cancel a job: at once while it is queued, at its next batch while it runs; False if it is over."""
        return self._board.withdraw(job_id) or any(slot.cancel(job_id) for slot in self._started)

    def pids(self) -> list[int]:
        """The worker processes that live."""
        return [pid for slot in self._started if (pid := slot.pid) is not None]

    def _end(self) -> None:
        self._board.close()
        for slot in self._started:
            slot.end()
        for slot in self._started:
            slot.join()

    def _worker_starter(self, device: str) -> Callable[[], WorkerProcess]:
        def start() -> WorkerProcess:
            log = self.log_dir / f"worker-{next(self._worker_numbers)}-{device.replace(':', '')}.log"
            return WorkerProcess(device, threads=self._threads, measure=self._measure, log=log)

        return start
