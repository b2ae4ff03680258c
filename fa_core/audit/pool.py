"""A pool of worker processes with a job queue and a thread per worker. No torch in this process."""

from __future__ import annotations

import itertools
import queue
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from pathlib import Path

from fa_core.audit import messages
from fa_core.audit.devices import threads_per_worker
from fa_core.audit.job_table import (
    JobFailed,
    JobTable,
    NoWorker,
    OnEvent,
)
from fa_core.audit.jobs import Job, JobState, JobView, ignore
from fa_core.audit.messages import ChildProcess, worker_process
from fa_core.errors import FaError
from fa_core.report.diagnostic_report import DiagnosticReport

GRACE = 5.0
"""Seconds before the worker of a cancelled job, or of a closed pool, is killed."""

STRIKES = 3
"""Failures of a device in a row, in jobs or worker starts, before its work goes to other
devices."""


class Pool(AbstractContextManager["Pool"]):
    """A queue of jobs whose futures give reports, and workers that do them, one at a time each.

    Workers start with the first jobs and stay alive. A dead worker fails the job it was doing, and
    is replaced with the next job.

    Args:
        devices: one worker each, e.g. ``["cuda:0", "cuda:1"]`` or ``["cpu", "cpu"]``.
        on_event: called with a job's view at each change, in order, from one thread of the pool.
        on_notice: called with notes on a worker, not on a job.
        threads: CPU threads of each worker; None = its share of the cores.

    Attributes:
        log_dir: folder of worker logs; kept at `close` if a job failed and a log is not empty.
        at_once: jobs that a worker has at a time.
    """

    at_once = 1

    def __init__(
        self,
        devices: Sequence[str],
        on_event: OnEvent | None = None,
        *,
        on_notice: Callable[[str], None] | None = None,
        threads: int | None = None,
    ) -> None:
        self.on_notice = on_notice or ignore
        self._devices = list(devices)
        self._threads = threads
        self._worker_numbers = itertools.count(1)
        self._workers: list[WorkerThread] = []
        self._events: queue.SimpleQueue[JobView | None] = queue.SimpleQueue()
        self._table = JobTable(self._events.put)
        self._notifier = threading.Thread(
            target=self._notify, args=(on_event or ignore,), name="events", daemon=True
        )
        self._notifier.start()
        # last: where no thread may be started, no folder is left
        self.log_dir = Path(tempfile.mkdtemp(prefix=messages.TEMPORARY))

    def submit(self, job: Job) -> Future[DiagnosticReport]:
        """Queue a job, and start a worker if a device has none.

        Returns:
            A future of the report; raises `JobFailed`, or `JobCancelled` for a running job.

        Raises:
            ValueError: a job of that id is queued or runs.
        """
        future = self._table.add(job)
        if len(self._workers) < len(self._devices):
            worker = WorkerThread(self, self._table, self._devices[len(self._workers)])
            self._table.enter(worker)
            worker.start()
            self._workers.append(worker)
        return future

    def make_room(self, devices: Sequence[str]) -> None:
        """Raise the worker limit to one per device; running workers are unaffected."""
        if len(devices) > len(self._devices):
            self._devices = list(devices)

    def retry(self, job_id: str) -> Future[DiagnosticReport]:
        """Submit a final job again."""
        return self.submit(self._table.view(job_id).job)

    def cancel(self, job_id: str) -> bool:
        """Cancel a job; False if it is final. Its worker stops at the next batch, or goes on with
        other jobs."""
        with self._table.changed:
            holder = self._table.holder(job_id)
            running = self._table.view(job_id).state is JobState.RUNNING
            cancelled = self._table.cancel(job_id)
        if cancelled and holder is not None:
            holder.stop(job_id, running)
        return cancelled

    def jobs(self) -> list[JobView]:
        """All views: taken jobs as submitted, then the queue in its order."""
        return self._table.views()

    def pids(self) -> list[int]:
        """Process ids of the live workers."""
        return [pid for worker in self._workers if (pid := worker.pid) is not None]

    def close(self) -> None:
        """Cancel all jobs that are not final, end the workers, emit the last events."""
        self._table.close()
        for worker in self._workers:
            worker.end()
        for worker in self._workers:
            worker.join()
        self._events.put(None)
        if threading.current_thread() is not self._notifier:
            self._notifier.join()
        has_failed = any(view.state is JobState.FAILED for view in self.jobs())
        if not has_failed or not any(log.stat().st_size for log in self.log_dir.glob("*.log")):
            shutil.rmtree(self.log_dir, ignore_errors=True)

    def __exit__(self, *_: object) -> None:
        self.close()

    def start_worker(self, device: str) -> ChildProcess:
        """Start a worker process for a device."""
        log = self.log_dir / f"worker-{next(self._worker_numbers)}-{device.replace(':', '')}.log"
        threads = self._threads or threads_per_worker(self._devices)
        return worker_process(device, threads=threads, log=log)

    def _notify(self, on_event: OnEvent) -> None:
        while (view := self._events.get()) is not None:
            on_event(view)


class WorkerThread(threading.Thread):
    """Thread of one worker process: hands it jobs, restarts it, and applies its messages to the job
    table.

    Args:
        pool: starts the process.
        table: source of the jobs.
        device: device of the worker.
    """

    def __init__(self, pool: Pool, table: JobTable, device: str) -> None:
        super().__init__(name=f"worker-{device}", daemon=True)
        self._pool, self._table, self._device = pool, table, device
        self._worker: ChildProcess | None = None
        self._steps = 0  # messages that began or ended something
        self._retired = False
        self._strikes = 0

    @property
    def pid(self) -> int | None:
        """Process id of the worker, if it is alive."""
        worker = self._worker
        if worker is not None and worker.alive:
            return worker.pid
        return None

    def run(self) -> None:
        while not self._retired and self._table.wait():
            worker = self._ready_worker()
            if isinstance(worker, FaError):
                self._strike(worker, lost=True)
            elif jobs := self._table.take(self, self._pool.at_once):
                self._measure(worker, jobs)
        if self._worker is not None:
            self._worker.close(GRACE)

    def stop(self, job_id: str, running: bool) -> None:
        """Tell the worker to drop a cancelled job; kills it if it goes on with this job alone."""
        steps, worker = self._steps, self._worker
        if worker is None:
            return

        def is_stuck() -> bool:
            return self._steps == steps

        if running and not any(view.state is JobState.RUNNING for view in self._table.held(self)):
            worker.kill_later(GRACE, is_stuck)
        worker.send(messages.Cancel(job_id))

    def end(self) -> None:
        """End the worker; the table is closed, so its jobs count as cancelled."""
        if self._worker is not None:
            self._worker.kill_later(GRACE)
            self._worker.hang_up()

    def _ready_worker(self) -> ChildProcess | FaError:
        """A live worker, started if necessary, or the error."""
        worker = self._worker
        try:
            if worker is None or not worker.alive:
                worker = self._worker = self._pool.start_worker(self._device)
                if self._table.closed:
                    worker.hang_up()
            while not worker.ready:
                message = worker.receive()
                if isinstance(message, messages.Failed):
                    self._dismiss(worker)
                    return self._refused(NoWorker(message.what, hint=message.hint))
                if isinstance(message, messages.Note):
                    self._pool.on_notice(message.text)
                if message is None:
                    cause, hint = self._reap(worker)
                    return NoWorker(f"no worker could start on {self._device} ({cause})", hint=hint)
        except OSError as error:
            return NoWorker(f"no worker could be started ({error.strerror})")
        except FaError as error:
            return self._refused(error)
        return worker

    def _refused(self, error: FaError) -> FaError:
        """Fail all queued jobs: another try would be refused as well."""
        self._table.fail(self._table.queued(), error)
        return error

    def _measure(self, worker: ChildProcess, jobs: Sequence[Job]) -> None:
        """Send jobs to the worker and apply its messages until all jobs are final or it is gone."""
        self._table.hand_over(self, jobs, worker, device=self._device, pid=worker.pid)
        while (message := worker.receive()) is not None:
            self._steps += not isinstance(message, (messages.Progress, messages.Note))
            if isinstance(message, messages.Idle):
                return
            if isinstance(message, messages.Done):
                self._strikes = 0
            if isinstance(message, messages.Note) and not message.job_id:
                self._pool.on_notice(message.text)
            error = self._table.take_in(self, message, worker.log)
            if isinstance(message, messages.Failed) and error and message.device:
                lost = message.device == "lost"
                if self._strike(error, lost=lost):
                    return
        self._lost(worker)

    def _strike(self, error: FaError, *, lost: bool) -> bool:
        """Count a failure of the device; True if its worker was dismissed and its jobs went back.

        The last strike leaves the work to other devices. Without other devices, and with a lost
        device, all queued jobs fail with the same error.
        """
        self._strikes += 1
        out = self._strikes >= STRIKES
        if out:
            self._strikes = 0
            self._retired = self._table.leave(self)
        if self._worker is not None and (lost or self._retired):
            self._dismiss(self._worker)
            self._table.give_back(self)
        if out and lost and not self._retired:
            often = type(error)(f"{error.what} ({STRIKES} times in a row)", hint=error.hint)
            self._table.fail(self._table.queued(), often)
        return lost or self._retired

    def _dismiss(self, worker: ChildProcess) -> None:
        """Close a worker; the next job starts a new one."""
        self._worker = None
        worker.close(GRACE)

    def _reap(self, worker: ChildProcess) -> tuple[str, str]:
        """Close a worker that is gone; returns how it ended, and hints at the cause."""
        cause, hints = worker.autopsy()
        self._dismiss(worker)
        return cause, "; ".join([*hints, f"log: {worker.log}"])

    def _lost(self, worker: ChildProcess) -> None:
        """Handle a dead worker: fail what it was doing, and put back what it only held."""
        cause, hint = self._reap(worker)
        if not worker.killed and not self._table.closed:
            held = self._table.held(self)
            running = [view for view in held if view.state is JobState.RUNNING] or held
            error = JobFailed(f"its worker on {self._device} {cause}", hint=hint)
            self._table.fail([view.job.id for view in running], error)
        self._table.give_back(self)
