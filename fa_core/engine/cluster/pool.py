"""Jobs in, reports out: the interface of `WorkerPool`, with a Ray cluster behind it. No torch and no ray here."""

from __future__ import annotations

import queue
import shutil
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from fa_core.engine import protocol
from fa_core.engine.board import JobBoard, JobFailed, OnEvent, cancellation_of, outcome_of
from fa_core.engine.cluster.flying import Flying
from fa_core.engine.cluster.line import Line
from fa_core.engine.cluster.wire import Capacity, Connected, FromDriver, Placed
from fa_core.engine.jobs import Job, JobState, JobView
from fa_core.engine.queueing import most_together
from fa_core.engine.watch import DEFAULT_MEASURE
from fa_core.errors import FaError, UsageError
from fa_core.report import DiagnosticReport

ON_ITS_WAY = "ray"
"""Device of a job that Ray has and no node has begun."""


class RayPool:
    """Measures jobs on a Ray cluster. Ray places them; nothing of Ray is imported here.

    The driver process starts with the first job, or with `connect`. When it ends, or the cluster does, every job
    that is not over fails, and the next one starts another driver.

    Args:
        address: ``host:port`` of the cluster's head; ``auto`` = the running one (RAY_ADDRESS, or this machine's);
            None = the running one, or else one that is started on this machine for as long as this pool lives.
        on_event: called with a job's view whenever it changes, in order, from one thread of the pool's own.
        device: ``auto`` (a GPU per job where the cluster has any, else a core), ``cpu`` or ``cuda``.
        jobs: how many batches of jobs Ray gets at a time; None = twice as many as it has places.
        group: how many networks a node measures at once; None = as its memory allows on CUDA, else 1.
        measure: ``module:callable`` run in the nodes' workers.
        patience: seconds without a word after which a job is tried on another node; None = learned from the jobs.
        on_notice: told what concerns no single job, e.g. which cluster it is.
        log_dir: where the driver logs; None = a temporary folder, kept at `close` only if a job failed.
        grace: seconds that leaving the cluster may take.

    Raises:
        UsageError: numbers below 1.
    """

    def __init__(
        self,
        address: str | None = None,
        on_event: OnEvent | None = None,
        *,
        device: str = "auto",
        jobs: int | None = None,
        group: int | None = None,
        measure: str = DEFAULT_MEASURE,
        patience: float | None = None,
        on_notice: Callable[[str], None] | None = None,
        log_dir: Path | None = None,
        grace: float = 5.0,
    ) -> None:
        for option, count in (("--jobs", jobs), ("--group", group)):
            if count is not None and count < 1:
                raise UsageError(f"{option} {count}", hint="give at least 1")
        self._address, self._device, self._group, self._grace = address, device, group, grace
        self._arguments = ["--device", device, "--measure", measure]
        self._arguments += ["--patience", str(patience)] if patience is not None else []
        self._arguments += ["--group", str(group)] if group is not None else []
        self._on_notice = on_notice
        self._keep_logs = log_dir is not None
        self.log_dir = Path(tempfile.mkdtemp(prefix="fa-tui-")) if log_dir is None else log_dir
        self._log = self.log_dir / "ray-driver.log"
        self._events: queue.SimpleQueue[JobView | None] = queue.SimpleQueue()
        self._teller = threading.Thread(target=self._tell, args=(on_event,), name="events", daemon=True)
        self._teller.start()
        self._board = JobBoard(self._events.put)
        self._flying = Flying(jobs)
        self._lock = threading.Lock()
        self._line: Line | None = None
        self._closing = False
        self._feeder = threading.Thread(target=self._feed, name="feeder", daemon=True)
        self._feeder.start()

    def connect(self) -> None:
        """Connect now, not with the first job.

        Raises:
            FaError: ray is not installed, no cluster, one that does not answer, or will not have this machine.
        """
        self._connection().connected.result()

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

    def cancel(self, job_id: str) -> bool:
        """Cancel a job; False if it is over. A node that measures it is told to stop, and not waited for."""
        if self._board.withdraw(job_id):
            return True
        job = self._flying.drop(job_id)
        if job is None:
            return False
        self._tell_driver(protocol.Cancel(job_id))
        self._board.finish(job_id, cancellation_of(job))
        return True

    def move(self, job_id: str, position: int) -> bool:
        """Put a queued job at this place of the queue (0 = next); False if it is not queued."""
        return self._board.move(job_id, position)

    def jobs(self) -> list[JobView]:
        """Every job of this pool: those that were given to Ray, as submitted, then the queue in its order."""
        return self._board.views()

    def pids(self) -> list[int]:
        """The driver, if it lives; what measures is elsewhere."""
        with self._lock:
            line = self._line
        return [pid] if line is not None and (pid := line.pid) is not None else []

    def close(self) -> None:
        """Cancel everything that is not over, leave the cluster, tell the last events."""
        with self._lock:
            self._closing = True
            line = self._line
        self._board.close()
        for job in self._flying.land_all():
            self._board.finish(job.id, cancellation_of(job))
        if line is not None:
            line.close(self._grace)
            line.join()
        self._feeder.join()
        self._events.put(None)
        if threading.current_thread() is not self._teller:
            self._teller.join()
        if not self._keep_logs and not any(view.state is JobState.FAILED for view in self.jobs()):
            shutil.rmtree(self.log_dir, ignore_errors=True)

    def __enter__(self) -> RayPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _feed(self) -> None:
        """Hand jobs over as there is room for them."""
        while self._board.wait():
            self._flying.wait_for_room()
            line = self._connection()
            if line.connected.exception() is not None:
                line.join()  # which fails what is queued
                continue
            with self._lock:
                if self._line is not line:
                    continue  # it has ended, and failed what was flying
                jobs, _ = self._board.take(self, most_together(self._device, self._group), self._flying.take)
            self._board.update(self._flying.among([job.id for job in jobs]), device=ON_ITS_WAY, log=str(self._log))
            line.send(protocol.Run([*jobs], group=self._group))
            for job in jobs:
                if self._flying.is_dropped(job.id):
                    line.send(protocol.Cancel(job.id))

    def _connection(self) -> Line:
        """The conversation with the driver; a new one if there is none."""
        with self._lock:
            if self._line is None:
                self._line = Line(self._address, self._arguments, self._log, self._hear, self._ended)
                self._line.start()
                if self._closing:
                    self._line.close(self._grace)
            return self._line

    def _tell_driver(self, message: protocol.ToWorker) -> None:
        with self._lock:
            line = self._line
        if line is not None:
            line.send(message)

    def _hear(self, message: FromDriver) -> None:
        match message:
            case Connected(where=where, device=device):
                self._device = device
                if self._on_notice is not None:
                    self._on_notice(where)
            case Capacity(slots=slots):
                for place in range(slots):
                    self._board.enter(place)
                self._flying.resize(slots)
            case Placed(job_ids=job_ids, device=device):
                self._update(job_ids, device=device)
            case protocol.Begun(job_ids=job_ids):
                self._update(job_ids, state=JobState.RUNNING)
            case protocol.Progress(job_ids=job_ids, done=done, total=total):
                self._update(job_ids, done=done, total=total)
            case protocol.Note(job_ids=job_ids, text=text):
                self._update(job_ids, note=text)
            case protocol.Done(job_id=job_id, report=report):
                if (job := self._flying.land(job_id)) is not None:
                    self._board.finish(job_id, outcome_of(report, job.checkpoint))
            case protocol.Failed(job_id=job_id, what=what, where=where, hint=hint):
                if self._flying.land(job_id) is not None:
                    self._board.finish(job_id, JobFailed(what, where=where, hint=hint))
            case protocol.Stopped(job_id=job_id):
                if (job := self._flying.land(job_id)) is not None:
                    self._board.finish(job_id, cancellation_of(job))

    def _update(self, job_ids: list[str], **changes: object) -> None:
        self._board.update(self._flying.among(job_ids), **changes)

    def _ended(self, error: FaError) -> None:
        """The driver is gone, or never came: nothing that is not over can be measured."""
        with self._lock:
            self._line = None
            closing = self._closing
        for job in self._flying.land_all():
            failed = JobFailed(error.what, where=job.checkpoint, hint=error.hint)
            self._board.finish(job.id, cancellation_of(job) if closing else failed)
        if not closing:
            self._board.fail_queued(JobFailed(error.what, hint=error.hint))

    def _tell(self, on_event: OnEvent | None) -> None:
        while (view := self._events.get()) is not None:
            if on_event is not None:
                on_event(view)
