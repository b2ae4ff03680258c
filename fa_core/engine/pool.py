"""What every pool is: a board of jobs, a thread that tells what happens to them, and a folder for logs.

Jobs in, reports out: a queue and worker processes. No torch in this process.

The pool that goes with a placement.
"""

from __future__ import annotations

import itertools
import queue
import shutil
import tempfile
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import TypeVar

from fa_core.engine.devices import LOCAL, Placement, resolve_devices, threads_per_worker, workers_for
from fa_core.engine.job_table import JobBoard, OnEvent
from fa_core.engine.jobs import DEFAULT_MEASURE, Job, JobState, JobView
from fa_core.engine.process import WorkerProcess
from fa_core.engine.worker_thread import Slot
from fa_core.errors import UsageError
from fa_core.report import DiagnosticReport

Self = TypeVar("Self", bound="Pool")


class Pool(ABC):
    """Jobs in, reports out. Measuring is a subclass's business.

    Args:
        on_event: called with a job's view whenever it changes, in order, from one thread of the pool's own.
        log_dir: where those who measure log; None = a temporary folder, kept at `close` only if a job failed.
    """

    def __init__(self, on_event: OnEvent | None, log_dir: Path | None) -> None:
        self._keep_logs = log_dir is not None
        self.log_dir = Path(tempfile.mkdtemp(prefix="fa-tui-")) if log_dir is None else log_dir
        self._events: queue.SimpleQueue[JobView | None] = queue.SimpleQueue()
        self._teller = threading.Thread(target=self._tell, args=(on_event,), name="events", daemon=True)
        self._teller.start()
        self._board = JobBoard(self._events.put)

    @abstractmethod
    def connect(self) -> None:
        """Reach now whatever the first job would have to reach.

        Raises:
            FaError: nobody there can measure.
        """

    def submit(self, job: Job) -> Future[DiagnosticReport]:
        """Put a job at the end of the queue.

        Returns:
            A future of the report. It raises `JobFailed`, or `JobCancelled` if cancelled while it ran.

        Raises:
            ValueError: a job of that id is queued or runs.
        """
        return self._board.add(job)

    def retry(self, job_id: str) -> Future[DiagnosticReport]:
        """Submit a job again that is over."""
        return self.submit(self._board.view(job_id).job)

    @abstractmethod
    def cancel(self, job_id: str) -> bool:
        """Cancel a job; False if it is over."""

    def move(self, job_id: str, position: int) -> bool:
        """Put a queued job at this place of the queue (0 = next); False if it is not queued."""
        return self._board.move(job_id, position)

    def jobs(self) -> list[JobView]:
        """Every job: those that were given to somebody who measures, as submitted, then the queue in its order."""
        return self._board.views()

    @abstractmethod
    def pids(self) -> list[int]:
        """The processes of this machine that work for it."""

    def close(self) -> None:
        """Cancel everything that is not over, end those who measure, tell the last events."""
        self._end()
        self._events.put(None)
        if threading.current_thread() is not self._teller:
            self._teller.join()
        if not self._keep_logs and not any(view.state is JobState.FAILED for view in self.jobs()):
            shutil.rmtree(self.log_dir, ignore_errors=True)

    @abstractmethod
    def _end(self) -> None:
        """Close the board, and end those who measure."""

    def __enter__(self: Self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _tell(self, on_event: OnEvent | None) -> None:
        while (view := self._events.get()) is not None:
            if on_event is not None:
                on_event(view)


class WorkerPool(Pool):
    """Measures jobs in worker processes: in the order they were submitted, or those that go together first.

    Workers start with the first jobs and stay warm. One that dies fails the job it was measuring and is replaced
    when the next job comes; if it held several, they are measured again one by one, so that only the culprit fails.

    Args:
        devices: one worker each, e.g. ``["cuda:0", "cuda:1"]`` or ``["cpu", "cpu"]``.
        on_event: called with a job's view whenever it changes, in order, from one thread of the pool's own.
        threads: CPU threads per worker; None = as many as torch likes.
        measure: ``module:callable`` run in the workers (see `fa_core.engine.jobs.Measure`).
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


def check_reachable(placement: Placement) -> None:
    """Refuse what cannot measure, before anything starts.

    Raises:
        UsageError: what cannot be meant (see `Placement.check`).
        MeasureError: nobody listens at the cluster's address.
    """
    placement.check()
    if placement.engine != LOCAL:
        from fa_core.engine.ray_pool import find_cluster

        find_cluster(placement.address)


def make_pool(
    placement: Placement,
    on_event: OnEvent | None = None,
    *,
    runs: int | None = None,
    on_notice: Callable[[str], None] | None = None,
    measure: str = DEFAULT_MEASURE,
) -> Pool:
    """A pool that measures jobs. Nothing starts before its first job, or `connect`.

    Args:
        placement: where it measures.
        on_event: told every change of a job, from another thread.
        runs: how many there will be, if that is known: a CPU gets more workers for many.
        on_notice: told what concerns no single job, e.g. which cluster it is.
        measure: what workers run (see `WorkerPool`).

    Raises:
        UsageError: what cannot be meant (see `Placement.check`).
    """
    placement.check()
    if placement.engine == LOCAL:
        device, jobs = placement.device, placement.jobs
        devices = resolve_devices(device, jobs) if runs is None else workers_for(runs, device, jobs)
        threads = threads_per_worker(devices)
        return WorkerPool(devices, on_event, threads=threads, measure=measure, group=placement.group)
    from fa_core.engine.ray_pool import RayPool

    return RayPool(placement, on_event, measure=measure, on_notice=on_notice)
