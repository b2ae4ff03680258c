"""A pool of worker processes: a queue of jobs, their states, and a thread per worker. No torch in
this process."""

from __future__ import annotations

import itertools
import queue
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from msgspec.structs import replace

from fa_core.audit import messages
from fa_core.audit.devices import threads_per_worker
from fa_core.audit.jobs import Job, JobState, JobView, OnNote, ignore
from fa_core.audit.messages import ChildProcess
from fa_core.errors import FaError, InvalidReport, MeasureError
from fa_core.files.decode import Json
from fa_core.report.diagnostic_report import DiagnosticReport

STRIKES = 3
"""Failures of a device in a row, in jobs or worker starts, before its work goes to other
devices."""

OnEvent: TypeAlias = Callable[[JobView], None]


class JobFailed(MeasureError):
    """A job that ended without a report; the message is one line."""


class NoWorker(JobFailed):
    """No worker could start; not the fault of the job, and the same message for each."""


class JobCancelled(MeasureError, CancelledError):
    """A job that was cancelled."""


@dataclass
class _Entry:
    """A job of the pool: its view, its future, and the worker that has it until it is final or
    given back."""

    view: JobView
    worker: WorkerThread | None = None
    future: Future[DiagnosticReport] = field(default_factory=Future)


class Pool(AbstractContextManager["Pool"]):
    """A queue of jobs whose futures give reports, and workers that do them, one at a time each.

    Workers start with the first jobs and stay alive. A dead worker fails the job it was doing, and
    is replaced with the next job. Thread-safe.

    Args:
        devices: one worker each, e.g. ``["cuda:0", "cuda:1"]`` or ``["cpu", "cpu"]``.
        on_event: called with a job's view at each change, in order, from one thread of the pool.
        on_notice: called with notes on a worker, not on a job.
        threads: CPU threads of each worker; None = its share of the cores.

    Attributes:
        log_dir: folder of worker logs; kept at `close` if a job failed and a log is not empty.
        at_once: jobs that a worker has at a time.
        changed: the lock of all jobs, notified when there is one to take.
        closed: True after `close`.
    """

    at_once = 1

    def __init__(
        self,
        devices: Sequence[str],
        on_event: OnEvent = ignore,
        *,
        on_notice: OnNote = ignore,
        threads: int | None = None,
    ) -> None:
        self.on_notice = on_notice
        self.changed = threading.Condition()
        self.closed = False
        self._devices = list(devices)
        self._threads = threads
        self._worker_numbers = itertools.count(1)
        self._workers: list[WorkerThread] = []
        self._jobs: dict[str, _Entry] = {}
        self._queue: dict[str, None] = {}  # job ids, in order
        self._events: queue.SimpleQueue[JobView | None] = queue.SimpleQueue()
        self._notifier = threading.Thread(
            target=self._notify, args=(on_event,), name="events", daemon=True
        )
        self._notifier.start()
        # last: where no thread may be started, no folder is left
        self.log_dir = Path(tempfile.mkdtemp(prefix=messages.TEMPORARY))

    def submit(self, job: Job) -> Future[DiagnosticReport]:
        """Queue a job, or a final job again, and start a worker if a device has none.

        Returns:
            A future of the report; raises `JobFailed` or `JobCancelled`.

        Raises:
            ValueError: a job of that id is queued or runs.
            RuntimeError: the pool is closed.
        """
        with self.changed:
            if self.closed:
                raise RuntimeError("the pool is closed")
            known = self._jobs.get(job.id)
            if known is not None and not known.view.state.final:
                raise ValueError(f"job {job.id!r} is {known.view.state.value} already")
            entry = self._jobs[job.id] = _Entry(JobView(job=job))
            self._queue[job.id] = None
            self._events.put(entry.view)
            self.changed.notify()
            if len(self._workers) < len(self._devices):
                worker = WorkerThread(self, self._devices[len(self._workers)])
                worker.start()
                self._workers.append(worker)
        return entry.future

    def make_room(self, devices: Sequence[str]) -> None:
        """Raise the worker limit to one per device; running workers are unaffected."""
        if len(devices) > len(self._devices):
            self._devices = list(devices)

    def retry(self, job_id: str) -> Future[DiagnosticReport]:
        """Submit a final job again."""
        return self.submit(self._jobs[job_id].view.job)

    def cancel(self, job_id: str) -> bool:
        """Cancel a job; False if it is final. Its worker stops at the next batch, or goes on with
        other jobs."""
        with self.changed:
            worker = self._jobs[job_id].worker
            cancelled = self.finish(job_id, JobCancelled("cancelled"))
        if worker is not None:
            worker.drop(job_id)
        return cancelled

    def jobs(self) -> list[JobView]:
        """All views: taken jobs as submitted, then the queue in its order."""
        with self.changed:
            begun = [entry.view for name, entry in self._jobs.items() if name not in self._queue]
            return begun + [self._jobs[name].view for name in self._queue]

    def close(self) -> None:
        """Cancel all jobs that are not final, end the workers, emit the last events."""
        with self.changed:
            self.closed = True
            for job_id in [*self._queue]:
                self.cancel(job_id)
            self.changed.notify_all()
        for worker in self._workers:
            worker.end()
        for worker in self._workers:
            worker.join()
        self._events.put(None)
        if threading.current_thread() is not self._notifier:
            self._notifier.join()
        has_failed = any(view.state is JobState.FAILED for view in self.jobs())
        sizes = (log.stat().st_size for log in self.log_dir.glob("*.log"))
        if not has_failed or not any(sizes):
            shutil.rmtree(self.log_dir, ignore_errors=True)

    def __exit__(self, *_: object) -> None:
        self.close()

    def start_worker(self, device: str) -> ChildProcess:
        """Start a worker process for a device."""
        number = next(self._worker_numbers)
        plain = device.replace(":", "")
        log = self.log_dir / f"worker-{number}-{plain}.log"
        threads = self._threads or threads_per_worker(self._devices)
        module = ["fa_core.audit.worker", device, str(Path.cwd())]
        return ChildProcess(module, log=log, environment=messages.environment(threads))

    def _notify(self, on_event: OnEvent) -> None:
        while (view := self._events.get()) is not None:
            on_event(view)

    # what follows is called by the threads of the workers

    def wait(self) -> bool:
        """Wait for a job; False once closed."""
        with self.changed:
            self.changed.wait_for(lambda: self.closed or self._queue)
            return not self.closed

    def take(self, worker: WorkerThread) -> list[Job]:
        """Take `at_once` jobs off the queue at most; none if other workers were faster."""
        with self.changed:
            taken = [*self._queue][: 0 if self.closed else self.at_once]
            for job_id in taken:
                del self._queue[job_id]
                self._jobs[job_id].worker = worker
            return [self._jobs[job_id].view.job for job_id in taken]

    def held(self, worker: WorkerThread) -> list[JobView]:
        """Views of a worker's jobs."""
        with self.changed:
            return [entry.view for entry in self._jobs.values() if entry.worker is worker]

    def give_back(self, worker: WorkerThread) -> None:
        """Put a worker's jobs back in front of the queue."""
        with self.changed:
            for view in reversed(self.held(worker)):
                if self.closed:
                    self.cancel(view.job.id)
                    continue
                entry = self._jobs[view.job.id]
                entry.view = JobView(job=view.job)
                entry.worker = None
                self._queue = {view.job.id: None, **self._queue}
                self._events.put(entry.view)
            self.changed.notify_all()

    def update(self, worker: WorkerThread, job_id: str, **changes: object) -> bool:
        """Change fields of a job's view; False if the worker no longer has it."""
        with self.changed:
            entry = self._jobs[job_id]
            if entry.worker is not worker:
                return False
            entry.view = replace(entry.view, **changes)
            self._events.put(entry.view)
            return True

    def finish(
        self, job_id: str, result: DiagnosticReport | FaError, by: WorkerThread | None = None
    ) -> bool:
        """Make a job final; its future is set before the event is emitted.

        Args:
            job_id: the job.
            result: its report or error.
            by: the sender of the result; None = the pool itself.

        Returns:
            False if it was final before, or that worker no longer has it.
        """
        with self.changed:
            entry = self._jobs[job_id]
            if entry.view.state.final or by not in (None, entry.worker):
                return False
            entry.worker = None
            self._queue.pop(job_id, None)
            view = entry.view
            if isinstance(result, DiagnosticReport):
                view = replace(view, state=JobState.DONE, done=view.total, report=result)
            elif isinstance(result, JobCancelled):
                view = replace(view, state=JobState.CANCELLED)
            else:
                view = replace(view, state=JobState.FAILED, error=str(result))
            entry.view = view
        if isinstance(result, DiagnosticReport):
            entry.future.set_result(result)
        else:
            entry.future.set_exception(result)
        self._events.put(view)
        return True

    def fail(self, jobs: Iterable[Job], error: FaError) -> None:
        """Fail jobs with one error; unless the workers are at fault, with each job's own name in
        it."""
        for job in jobs:
            theirs = JobFailed(error.what, where=job.checkpoint, hint=error.hint)
            self.finish(job.id, error if isinstance(error, NoWorker) else theirs)

    def fail_queued(self, error: FaError) -> None:
        """`fail` every job that no worker has."""
        with self.changed:
            queued = [self._jobs[job_id].view.job for job_id in self._queue]
        self.fail(queued, error)

    def retire(self, worker: WorkerThread) -> bool:
        """Leave a worker's share of the queue to the others; False if it is the last one, which
        stays."""
        with self.changed:
            others = (other for other in self._workers if other is not worker)
            worker.retired = not all(other.retired for other in others)
            self.changed.notify_all()
            return worker.retired


class WorkerThread(threading.Thread):
    """Thread of one worker process: hands it jobs, restarts it, and applies its messages to the
    pool.

    Args:
        pool: has the jobs, and starts the process.
        device: device of the worker.

    Attributes:
        retired: whether it left its work to other devices.
    """

    def __init__(self, pool: Pool, device: str) -> None:
        super().__init__(name=f"worker-{device}", daemon=True)
        self.retired = False
        self._pool = pool
        self._device = device
        self._worker: ChildProcess | None = None
        self._doing: dict[str, Job] = {}  # jobs without an outcome; another dict for every turn
        self._strikes = 0

    def run(self) -> None:
        while not self.retired and self._pool.wait():
            self._turn()
        self._dismiss()

    def _turn(self) -> None:
        """Measure the next jobs, or handle that no worker can."""
        try:
            worker = self._ready_worker()
        except NoWorker as error:
            self._strike(error)
        except FaError as error:
            # another try would be refused as well
            self._dismiss()
            self._pool.fail_queued(error)
        else:
            self._measure(worker, self._pool.take(self))

    def drop(self, job_id: str) -> None:
        """Tell the worker to drop a cancelled job; kills it if it goes on with this job alone."""
        doing = self._doing
        worker = self._worker
        if worker is not None:
            worker.kill_later(lambda: self._doing is doing and [*doing] == [job_id])
            worker.send(messages.Cancel(job_id))

    def end(self) -> None:
        """End the worker; the pool is closed, so its jobs count as cancelled."""
        worker = self._worker
        if worker is not None:
            worker.kill_later()
            worker.hang_up()

    def _ready_worker(self) -> ChildProcess:
        """A live worker, started if necessary.

        Raises:
            NoWorker: none starts.
            FaError: it refuses every job.
        """
        worker = self._worker
        try:
            if worker is None or not worker.alive:
                worker = self._worker = self._pool.start_worker(self._device)
                if self._pool.closed:
                    worker.hang_up()
        except OSError as error:
            raise NoWorker(f"no worker could be started ({error.strerror})") from error
        while not worker.ready:
            message = worker.receive()
            if isinstance(message, messages.Failed):
                raise MeasureError(message.what, hint=message.hint)
            if isinstance(message, messages.Note):
                self._pool.on_notice(message.text)
            if message is None:
                cause, hint = self._reap(worker)
                raise NoWorker(f"no worker could start on {self._device} ({cause})", hint=hint)
        return worker

    def _measure(self, worker: ChildProcess, jobs: Sequence[Job]) -> None:
        """Send jobs to the worker and apply its messages until all have an outcome or it is
        gone."""
        doing = self._doing = dict[str, Job]()
        place = {"log": str(worker.log), "device": self._device, "pid": worker.pid}
        for job in jobs:
            with self._pool.changed:  # no `Cancel` precedes its `Run`
                if self._pool.update(self, job.id, **place):
                    doing[job.id] = job
                    worker.send(messages.Run(job))
        while doing and (message := worker.receive()) is not None:
            if isinstance(message, messages.Outdated):
                self._dismiss()
                self._pool.give_back(self)
                return
            self._take_in(message, worker.log)
            if isinstance(message, messages.OUTCOMES):
                doing.pop(message.job_id, None)
        if doing:
            self._lost(worker)

    def _take_in(self, message: messages.FromWorker, log: Path) -> None:
        """Apply a message to the pool."""
        match message:
            case messages.Begun(job_id=job_id):
                self._pool.update(self, job_id, state=JobState.RUNNING)
            case messages.Progress(job_id=job_id, done=done, total=total):
                self._pool.update(self, job_id, done=done, total=total)
            case messages.Note(job_id="", text=text):
                self._pool.on_notice(text)
            case messages.Note(job_id=job_id, text=text):
                self._pool.update(self, job_id, note=text)
            case messages.Done(job_id=job_id, report=report):
                self._strikes = 0
                self._pool.finish(job_id, _read(report, self._doing[job_id].checkpoint), self)
            case messages.Failed(job_id=job_id):
                # the worker does not know the path of its log
                hint = message.hint.replace(messages.TRACEBACK_IN_LOG, f"traceback in {log}")
                error = JobFailed(message.what, where=message.where, hint=hint)
                self._pool.finish(job_id, error, self)
                if message.of_device and self._pool.at_once == 1:  # a cluster has others
                    self._strike(error)

    def _strike(self, error: FaError) -> None:
        """Count a failure of the device, which gets a new worker. The last strike leaves the work
        to other devices; without any, all queued jobs fail with the same error."""
        self._dismiss()
        self._strikes += 1
        if self._strikes < STRIKES:
            return
        self._strikes = 0
        if not self._pool.retire(self):
            what = f"{error.what} ({STRIKES} times in a row)"
            self._pool.fail_queued(type(error)(what, hint=error.hint))

    def _dismiss(self) -> None:
        """Close the worker; the next job starts a new one."""
        worker = self._worker
        self._worker = None
        if worker is not None:
            worker.close()

    def _reap(self, worker: ChildProcess) -> tuple[str, str]:
        """Close a worker that is gone; returns how it ended, and hints at the cause."""
        cause, hints = worker.autopsy()
        self._dismiss()
        log = [f"log: {worker.log}"] * worker.log.exists()
        return cause, "; ".join([*hints, *log])

    def _lost(self, worker: ChildProcess) -> None:
        """Handle a dead worker: fail what it was doing, and put back what it only held."""
        cause, hint = self._reap(worker)
        if not worker.killed and not self._pool.closed:
            held = self._pool.held(self)
            running = [view for view in held if view.state is JobState.RUNNING] or held
            error = JobFailed(f"its worker on {self._device} {cause}", hint=hint)
            self._pool.fail((view.job for view in running), error)
        self._pool.give_back(self)


def _read(report: Json, where: str) -> DiagnosticReport | FaError:
    """The report that a worker sent, or the error if it is invalid."""
    try:
        # the verdict follows from the numbers, not from a file
        return replace(DiagnosticReport.from_dict(report, where=where), recorded_verdict=None)
    except InvalidReport as error:
        return error
