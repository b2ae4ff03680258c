"""One place where a worker works: takes jobs, keeps a worker alive, turns its words into views."""

from __future__ import annotations

import threading
from collections.abc import Callable

import msgspec
from msgspec.structs import replace

from fa_core.engine import protocol
from fa_core.engine.board import JobBoard, JobCancelled, JobFailed
from fa_core.engine.jobs import Job
from fa_core.engine.process import WorkerProcess
from fa_core.errors import FaError, InvalidReport
from fa_core.report import DiagnosticReport


class Slot(threading.Thread):
    """A thread that serves one worker process at a time.

    Args:
        board: where jobs come from and go back to.
        device: the device its worker measures on.
        start_worker: starts a worker process for it.
        grace: seconds that a cancelled job gets to stop by itself before the worker is killed.
    """

    def __init__(self, board: JobBoard, device: str, start_worker: Callable[[], WorkerProcess], grace: float) -> None:
        super().__init__(name=f"slot-{device}", daemon=True)
        self._board, self._device, self._start_worker, self._grace = board, device, start_worker, grace
        self._lock = threading.Lock()
        self._worker: WorkerProcess | None = None
        self._job: Job | None = None
        self._cancelling: threading.Timer | None = None

    @property
    def pid(self) -> int | None:
        """The process of its worker, if one lives."""
        with self._lock:
            return self._worker.pid if self._worker is not None and self._worker.alive else None

    def run(self) -> None:
        while self._board.take(self._assign):
            self._work()
        if self._worker is not None:
            self._worker.close(self._grace)

    def cancel(self, job_id: str) -> bool:
        """Ask the worker to stop this job, and see to it that it does; False if it is not measured here."""
        with self._lock:
            if self._job is None or self._job.id != job_id:
                return False
            if self._cancelling is None:
                self._cancelling = threading.Timer(self._grace, self._kill)
                self._cancelling.daemon = True
                self._cancelling.start()
                if self._worker is not None:
                    self._worker.send(protocol.Cancel(job_id))
        return True

    def end(self) -> None:
        """End the worker now; a job it measures counts as cancelled."""
        with self._lock:
            if self._job is not None and self._cancelling is None:
                self._cancelling = threading.Timer(self._grace, self._kill)
                self._cancelling.daemon = True
                self._cancelling.start()
            if self._worker is not None:
                self._worker.hang_up()

    def _assign(self, job: Job) -> None:
        with self._lock:
            self._job = job

    def _kill(self) -> None:
        with self._lock:
            if self._cancelling is not None and self._worker is not None:
                self._worker.kill()

    def _work(self) -> None:
        job = self._job
        assert job is not None
        try:
            result: DiagnosticReport | FaError = self._converse(job, self._give(job))
        except OSError as error:
            result = JobFailed(f"no worker could be started ({error.strerror})", where=job.checkpoint)
        except (ValueError, msgspec.ValidationError) as error:
            result = self._misunderstood(job, error)
        with self._lock:
            if self._cancelling is not None:
                self._cancelling.cancel()
            self._job = self._cancelling = None
        self._board.finish(job.id, result)

    def _give(self, job: Job) -> WorkerProcess:
        """Hand the job to a living worker."""
        with self._lock:
            if self._worker is None or not self._worker.alive:
                self._worker = self._start_worker()
            worker = self._worker
            worker.send(protocol.Run(job))
            if self._cancelling is not None:
                worker.send(protocol.Cancel(job.id))
        self._board.update(job.id, device=self._device, log=str(worker.log))
        return worker

    def _converse(self, job: Job, worker: WorkerProcess) -> DiagnosticReport | FaError:
        """Listen until the job is over, one way or another."""
        while True:
            match worker.receive():
                case protocol.Ready():
                    worker.ready = True
                case protocol.Progress(done=done, total=total):
                    self._board.update(job.id, done=done, total=total)
                case protocol.Note(text=text):
                    self._board.update(job.id, note=text)
                case protocol.Done(report=report):
                    try:
                        measured = DiagnosticReport.from_dict(report, where=job.checkpoint)
                        # its verdict is what these numbers say today, not something a file once claimed
                        return replace(measured, recorded_verdict=None)
                    except InvalidReport as error:
                        return error
                case protocol.Failed(what=what, where=where, hint=hint, fatal=fatal):
                    if fatal:
                        self._dismiss(worker)
                    return JobFailed(what, where=where, hint=hint)
                case protocol.Stopped():
                    return JobCancelled("cancelled", where=job.checkpoint)
                case None:
                    return self._bury(job, worker)

    def _dismiss(self, worker: WorkerProcess) -> None:
        """Part with a worker; the next job gets a new one."""
        with self._lock:
            self._worker = None
        worker.close(self._grace)

    def _misunderstood(self, job: Job, error: Exception) -> FaError:
        """What to say about a worker that said what nobody understands: the next one may be of another version."""
        if self._worker is not None:
            self._worker.kill()
            self._dismiss(self._worker)
        return JobFailed(f"its worker sent what is no message ({error})", where=job.checkpoint)

    def _bury(self, job: Job, worker: WorkerProcess) -> FaError:
        """What to say about a worker that is gone."""
        cause, words = worker.cause_of_death(), worker.last_words()
        with self._lock:
            cancelled = self._cancelling is not None
        self._dismiss(worker)
        if cancelled:
            return JobCancelled("cancelled", where=job.checkpoint)
        what = f"its worker on {self._device} {cause}" if worker.ready else f"no worker could start ({cause})"
        said = f"its last words: {words}; " if words else ""
        if cause.endswith("SIGKILL"):
            said += "the system may have run out of memory; "
        return JobFailed(what, where=job.checkpoint, hint=f"{said}log: {worker.log}")
