"""The jobs that one worker holds, and what has become of them.

One place where a worker works: takes jobs, keeps a worker alive, turns its words into views.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from enum import Enum

import msgspec

from fa_core.engine import messages
from fa_core.engine.job_table import JobBoard, JobFailed, cancellation_of, most_together, outcome_of
from fa_core.engine.jobs import Job, JobState
from fa_core.engine.process import WorkerProcess
from fa_core.errors import FaError


class Dropped(Enum):
    """How a job leaves that the person cancelled."""

    NOT_HERE = "it is not held"
    AT_ONCE = "it waits for its turn, or others are measured with it and go on"
    WHEN_STOPPED = "the worker is measuring it alone and has to stop"


class Held:
    """Thread-safe record of one `Run`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[str, Job] = {}
        self._in_worker: set[str] = set()
        self._begun: set[str] = set()
        self._dropped: set[str] = set()

    def take(self, jobs: Sequence[Job]) -> None:
        """Begin a record."""
        with self._lock:
            self._open = {job.id: job for job in jobs}
            self._in_worker = set(self._open)
            self._begun, self._dropped = set(), set()

    def open(self, job_ids: Iterable[str] | None = None) -> list[Job]:
        """Those (of these) that have no outcome yet."""
        with self._lock:
            return list(self._open.values()) if job_ids is None else [j for i in job_ids if (j := self._open.get(i))]

    def begin(self, job_ids: Iterable[str]) -> None:
        """The worker works on these now."""
        with self._lock:
            self._begun.update(job_ids)

    def drop(self, job_id: str) -> Dropped:
        """The person cancels a job; one that leaves at once is not open any more."""
        with self._lock:
            if job_id not in self._open:
                return Dropped.NOT_HERE
            self._dropped.add(job_id)
            beside = (self._begun & self._open.keys()) - self._dropped
            if job_id in self._begun and not beside:
                return Dropped.WHEN_STOPPED
            del self._open[job_id]
            return Dropped.AT_ONCE

    def over(self, job_id: str) -> Job | None:
        """The worker is done with a job; the job, if it was still open."""
        with self._lock:
            self._in_worker.discard(job_id)
            return self._open.pop(job_id, None)

    def is_dropped(self, job_id: str) -> bool:
        """Whether the person cancelled it."""
        with self._lock:
            return job_id in self._dropped

    def end(self) -> tuple[list[Job], list[Job], bool]:
        """The worker is gone: what was open and is wanted, what was cancelled, and whether it held but one job."""
        with self._lock:
            left = list(self._open.values())
            single = len(self._in_worker) == 1
            self._open, self._in_worker = {}, set()
            wanted = [job for job in left if job.id not in self._dropped]
            return wanted, [job for job in left if job.id in self._dropped], single


STRIKES = 3
"""Jobs in a row that a device may spoil, or tries to start its worker, before its work goes to other devices."""


class Slot(threading.Thread):
    """A thread that serves one worker process at a time.

    Args:
        board: where jobs come from and go back to.
        device: the device its worker measures on.
        start_worker: starts a worker process for it.
        grace: seconds that a cancelled job gets to stop by itself before the worker is killed.
        group: how many networks are measured at once; None = as the worker finds best.
    """

    def __init__(
        self,
        board: JobBoard,
        device: str,
        start_worker: Callable[[], WorkerProcess],
        grace: float,
        group: int | None = None,
    ) -> None:
        super().__init__(name=f"slot-{device}", daemon=True)
        self._board, self._device, self._start_worker, self._grace = board, device, start_worker, grace
        self._group = group
        self._held = Held()
        self._lock = threading.Lock()
        self._worker: WorkerProcess | None = None
        self._kill_timer: threading.Timer | None = None
        self._ending = self._retired = False
        self._strikes = 0

    @property
    def pid(self) -> int | None:
        """The process of its worker, if one lives."""
        with self._lock:
            return self._worker.pid if self._worker is not None and self._worker.alive else None

    def run(self) -> None:
        while not self._retired and self._board.wait():
            worker = self._ready_worker()
            if isinstance(worker, FaError):
                self._strike(worker, lost=True)
                continue
            jobs, ahead = self._board.take(self, most_together(self._device, self._group), self._held.take)
            if jobs:
                self._work(worker, jobs, ahead)
        if self._worker is not None:
            self._worker.close(self._grace)
        if self._kill_timer is not None:
            self._kill_timer.cancel()

    def cancel(self, job_id: str) -> bool:
        """Drop a job: at once where others go on without it, else when the worker stops; False if it is not here."""
        how = self._held.drop(job_id)
        if how is Dropped.NOT_HERE:
            return False
        with self._lock:
            if how is Dropped.WHEN_STOPPED:
                self._see_to_it()
            if self._worker is not None:
                self._worker.send(messages.Cancel(job_id))
        if how is Dropped.AT_ONCE:
            self._board.finish(job_id, cancellation_of(self._board.view(job_id).job))
        return True

    def end(self) -> None:
        """End the worker now; jobs that it holds count as cancelled."""
        with self._lock:
            self._ending = True
            self._see_to_it()
            if self._worker is not None:
                self._worker.hang_up()

    def _see_to_it(self) -> None:
        """Kill the worker unless it obeys in time."""
        if self._kill_timer is None:
            self._kill_timer = threading.Timer(self._grace, self._kill)
            self._kill_timer.daemon = True
            self._kill_timer.start()

    def _kill(self) -> None:
        with self._lock:
            if self._kill_timer is not None and self._worker is not None:
                self._worker.kill()

    def _obeyed(self) -> None:
        with self._lock:
            if self._kill_timer is not None and not self._ending:
                self._kill_timer.cancel()
                self._kill_timer = None

    def _ready_worker(self) -> WorkerProcess | FaError:
        """A living worker, or why there is none."""
        try:
            with self._lock:
                if self._worker is None or not self._worker.alive:
                    self._worker = self._start_worker()
                    if self._ending:
                        self._worker.hang_up()
                worker = self._worker
            while not worker.ready:
                match worker.receive():
                    case messages.Ready():
                        worker.ready = True
                    case None:
                        cause, hint = worker.cause_of_death(), _last_words(worker)
                        self._dismiss(worker)
                        return JobFailed(f"no worker could start on {self._device} ({cause})", hint=hint)
        except OSError as error:
            return JobFailed(f"no worker could be started ({error.strerror})")
        except (ValueError, msgspec.ValidationError) as error:
            worker.kill()
            self._dismiss(worker)
            return _misunderstood(error)
        return worker

    def _work(self, worker: WorkerProcess, jobs: Sequence[Job], ahead: Sequence[Job]) -> None:
        """Hand jobs over and listen until they are over, one way or another."""
        with self._lock:  # a cancellation comes after the job, never before
            worker.send(messages.Run([*jobs], [*ahead], self._group))
        for job in jobs:
            if self._held.is_dropped(job.id):
                worker.send(messages.Cancel(job.id))
        self._board.update([job.id for job in self._held.open()], device=self._device, log=str(worker.log))
        try:
            while (message := worker.receive()) is not None:
                if not self._hear(worker, message):
                    break
            else:
                self._bury(worker, f"{worker.cause_of_death()}", bool(ahead))
        except (ValueError, msgspec.ValidationError) as error:
            worker.kill()
            self._bury(worker, _misunderstood(error).what, bool(ahead))
        self._obeyed()

    def _hear(self, worker: WorkerProcess, message: messages.FromWorker) -> bool:
        """Take in a message; False if the conversation is over."""
        match message:
            case messages.Begun(job_ids=job_ids):
                self._held.begin(job_ids)
                self._update(job_ids, state=JobState.RUNNING)
            case messages.Progress(job_ids=job_ids, done=done, total=total):
                self._update(job_ids, done=done, total=total)
            case messages.Note(job_ids=job_ids, text=text):
                self._update(job_ids, note=text)
            case messages.Done(job_id=job_id, report=report):
                self._strikes = 0
                if (job := self._over(job_id)) is not None:
                    self._board.finish(job_id, outcome_of(report, job.checkpoint))
            case messages.Stopped(job_id=job_id):
                if (job := self._over(job_id)) is not None:
                    self._board.finish(job_id, cancellation_of(job))
            case messages.Failed(job_id=job_id, what=what, where=where, hint=hint, device=device):
                error = JobFailed(what, where=where, hint=messages.name_log(hint, worker.log))
                if self._over(job_id) is not None:
                    self._board.finish(job_id, error)
                return not (device and self._parted_over(worker, error, lost=device == "lost"))
            case messages.Idle():
                return False
        return True

    def _parted_over(self, worker: WorkerProcess, error: FaError, *, lost: bool) -> bool:
        """Whether a device that spoilt a job takes no more of this worker's; the others then go back."""
        retired = not lost and self._strike(error, lost=False)
        if lost or retired:
            self._dismiss(worker)
            self._board.give_back(self._held.end()[0], "", alone=False)
        if lost:
            self._strike(error, lost=True)
        return lost or retired

    def _update(self, job_ids: Sequence[str], **changes: object) -> None:
        self._board.update([job.id for job in self._held.open(job_ids)], **changes)

    def _over(self, job_id: str) -> Job | None:
        """The job that has its outcome now; None if it had one already, or is not held."""
        if self._held.is_dropped(job_id):
            self._obeyed()
        return self._held.over(job_id)

    def _strike(self, error: FaError, *, lost: bool) -> bool:
        """Count what the device has spoilt; True if this slot gives its work up to others.

        The last slot has nobody to give it to: if its device is lost, what is queued fails for the same reason.
        """
        self._strikes += 1
        if self._strikes < STRIKES:
            return False
        self._strikes = 0
        self._retired = self._board.leave(self)
        if lost and not self._retired:
            self._board.fail_queued(JobFailed(f"{error.what} ({STRIKES} times in a row)", hint=error.hint))
        return self._retired

    def _dismiss(self, worker: WorkerProcess) -> None:
        """Part with a worker; the next job gets a new one."""
        with self._lock:
            self._worker = None
        worker.close(self._grace)

    def _bury(self, worker: WorkerProcess, cause: str, read_ahead: bool) -> None:
        """The worker is gone: say so of the job that did it; if that may be one of several, find out one by one."""
        hint = _last_words(worker, oom=cause.endswith("SIGKILL"))
        with self._lock:
            ending, killed = self._ending, self._kill_timer is not None
        self._dismiss(worker)
        wanted, cancelled, single = self._held.end()
        if ending:
            wanted, cancelled = [], cancelled + wanted
        for job in cancelled:
            self._board.finish(job.id, cancellation_of(job))
        what = cause if cause.startswith("its worker") else f"its worker on {self._device} {cause}"
        if killed:  # by the cancellation of another job
            self._board.give_back(wanted, "", alone=False)
        elif single and not read_ahead:
            for job in wanted:
                self._board.finish(job.id, JobFailed(what, where=job.checkpoint, hint=hint))
        else:
            self._board.give_back(wanted, f"{what} while it held several: measured again, alone", alone=True)


def _misunderstood(error: Exception) -> JobFailed:
    """What to say about a worker that said what nobody understands: the next one may be of another version."""
    return JobFailed(f"its worker sent what is no message ({error})")


def _last_words(worker: WorkerProcess, *, oom: bool = False) -> str:
    words = worker.last_words()
    said = f"its last words: {words}; " if words else ""
    if oom:
        said += "the system may have run out of memory; "
    return f"{said}log: {worker.log}"
