"""Jobs in, reports out: the interface of `WorkerPool`, with a Ray cluster behind it. No torch and no ray here."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from fa_core.engine import messages
from fa_core.engine.cluster.flying import Flying
from fa_core.engine.cluster.line import Line
from fa_core.engine.cluster.wire import Capacity, Connected, FromDriver, Placed, Waiting, Word
from fa_core.engine.devices import RAY, Placement
from fa_core.engine.job_table import (
    JobFailed,
    NobodyLeft,
    OnEvent,
    cancellation_of,
    most_together,
    outcome_of,
    under_its_name,
)
from fa_core.engine.jobs import DEFAULT_MEASURE, JobState
from fa_core.engine.pool import Pool
from fa_core.errors import FaError

ON_ITS_WAY = "ray"
"""Device of a job that Ray has and no node has begun."""


class RayPool(Pool):
    """Measures jobs on a Ray cluster. Ray places them; nothing of Ray is imported here.

    The driver process starts with the first job, or with `connect`. When it ends, or the cluster does, every job
    that is not over fails, and the next one starts another driver.

    Args:
        placement: which cluster, and how.
        on_event: called with a job's view whenever it changes, in order, from one thread of the pool's own.
        measure: ``module:callable`` run in the nodes' workers.
        on_notice: told what concerns no single job, e.g. which cluster it is.
        log_dir: where the driver logs; None = a temporary folder, kept at `close` only if a job failed.
        grace: seconds that leaving the cluster may take.

    Raises:
        UsageError: what cannot be meant (see `Placement.check`).
    """

    def __init__(
        self,
        placement: Placement = Placement(engine=RAY),  # noqa: B008 (immutable)
        on_event: OnEvent | None = None,
        *,
        measure: str = DEFAULT_MEASURE,
        on_notice: Callable[[str], None] | None = None,
        log_dir: Path | None = None,
        grace: float = 5.0,
    ) -> None:
        placement.check()
        super().__init__(on_event, log_dir)
        self._address, self._device, self._group = placement.address, placement.device, placement.group
        self._grace = grace
        self._arguments = ["--device", placement.device, "--measure", measure]
        for option in ("patience", "group"):
            given = getattr(placement, option)
            self._arguments += [f"--{option}", str(given)] if given is not None else []
        self._on_notice = on_notice
        self._log = self.log_dir / "ray-driver.log"
        self._flying = Flying(placement.jobs)
        self._lock = threading.Lock()
        self._line: Line | None = None
        self._closing = False
        self._waiting = ""
        self._feeder = threading.Thread(target=self._feed, name="feeder", daemon=True)
        self._feeder.start()

    def connect(self) -> None:
        """Connect now, not with the first job.

        Raises:
            FaError: ray is not installed, no cluster, one that does not answer, or will not have this machine.
        """
        self._connection().connected.result()

    def cancel(self, job_id: str) -> bool:
        """Cancel a job; False if it is over. A node that measures it is told to stop, and not waited for."""
        if self._board.withdraw(job_id):
            return True
        job = self._flying.drop(job_id)
        if job is None:
            return False
        self._tell_driver(messages.Cancel(job_id))
        self._board.finish(job_id, cancellation_of(job))
        return True

    def pids(self) -> list[int]:
        """The driver, if it lives; what measures is elsewhere."""
        with self._lock:
            line = self._line
        return [pid] if line is not None and (pid := line.pid) is not None else []

    def _end(self) -> None:
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
                jobs = self._board.take(most_together(self._device, self._group), self._flying.take)
            handed = self._flying.among([job.id for job in jobs])
            self._board.update(handed, device=ON_ITS_WAY, log=str(self._log), note=self._waiting)
            line.send(messages.Run([*jobs], group=self._group))
            for job in jobs:
                if self._flying.is_dropped(job.id):
                    line.send(messages.Cancel(job.id))

    def _connection(self) -> Line:
        """The conversation with the driver; a new one if there is none."""
        with self._lock:
            if self._line is None:
                self._line = Line(self._address, self._arguments, self._log, self._hear, self._ended)
                self._line.start()
                if self._closing:
                    self._line.close(self._grace)
            return self._line

    def _tell_driver(self, message: messages.ToWorker) -> None:
        with self._lock:
            line = self._line
        if line is not None:
            line.send(message)

    def _hear(self, message: FromDriver) -> None:
        match message:
            case Connected(where=where, device=device):
                self._device, self._waiting = device, ""
                self._notify(where)
            case Word(text=text):
                self._notify(text)
            case Waiting(text=text):
                self._wait(text)
            case Capacity(slots=slots):
                for place in range(slots):
                    self._board.enter(place)
                self._flying.resize(slots)
            case Placed(job_ids=job_ids, device=""):
                self._update(job_ids, state=JobState.QUEUED, device=ON_ITS_WAY, done=0, total=0)
            case Placed(job_ids=job_ids, device=device):
                self._update(job_ids, device=device)
                self._wait_no_more(job_ids, self._waiting)
            case messages.Begun(job_ids=job_ids):
                self._update(job_ids, state=JobState.RUNNING)
            case messages.Progress(job_ids=job_ids, done=done, total=total):
                self._update(job_ids, done=done, total=total)
            case messages.Note(job_ids=job_ids, text=text):
                self._update(job_ids, note=text)
            case messages.Done(job_id=job_id, report=report):
                if (job := self._flying.land(job_id)) is not None:
                    self._board.finish(job_id, outcome_of(report, job.checkpoint))
            case messages.Failed(job_id=job_id, what=what, where=where, hint=hint):
                if self._flying.land(job_id) is not None:
                    error = JobFailed(what, where=where, hint=messages.name_log(hint, self._log))
                    self._board.finish(job_id, error)
            case messages.Stopped(job_id=job_id):
                if (job := self._flying.land(job_id)) is not None:
                    self._board.finish(job_id, cancellation_of(job))

    def _notify(self, text: str) -> None:
        if self._on_notice is not None:
            self._on_notice(text)

    def _wait(self, why: str) -> None:
        """Say of every job that is flying why it waits; ``""`` = take that back."""
        before, self._waiting = self._waiting, why
        if why:
            self._notify(why)
            self._board.update(self._flying.all(), note=why)
        else:
            self._wait_no_more(self._flying.all(), before)

    def _wait_no_more(self, job_ids: list[str], why: str) -> None:
        waited = [job_id for job_id in self._flying.among(job_ids) if why and self._board.view(job_id).note == why]
        self._board.update(waited, note="")

    def _update(self, job_ids: list[str], **changes: object) -> None:
        self._board.update(self._flying.among(job_ids), **changes)

    def _ended(self, error: FaError) -> None:
        """The driver is gone, or never came: nothing that is not over can be measured."""
        with self._lock:
            line, self._line = self._line, None
            closing = self._closing
        if str(self._log) in str(error):
            self._keep_logs = True  # whoever is told where the log is shall find it there
        if line is not None and line.connected.exception() is None:
            error = NobodyLeft(error.what, hint=error.hint)  # the same words for every job, so that they are told once
        for job in self._flying.land_all():
            failed = error if isinstance(error, NobodyLeft) else under_its_name(error, job)
            self._board.finish(job.id, cancellation_of(job) if closing else failed)
        if not closing:
            self._board.fail_queued(error)
