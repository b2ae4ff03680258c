"""The worker process: reads jobs from stdin, measures them, writes what happens to stdout.

Started by `fa_core.engine.messages`; a user never needs to. Ends when its stdin closes.
"""

from __future__ import annotations

import os
import pkgutil
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO, Protocol

from fa_core.decode import Json
from fa_core.engine import messages
from fa_core.engine.jobs import Cancelled, DeviceFull, Job, Watch, ignore
from fa_core.errors import FaError, is_device_lost

Send = Callable[[messages.FromWorker], None]

PROGRESS_PER_SECOND = 160
"""Most progress messages: each job of a group that goes one batch further is one for its client to
show."""

NICENESS = 10
"""Of a worker that computes on the CPU: interactive programs come first."""


class WorkerEvents:
    """Writes what happens to each of several jobs to the client.

    Args:
        send: hands a message over.
        is_cancelled: whether the client cancelled a job id.
    """

    def __init__(self, send: Send, is_cancelled: Callable[[str], bool]) -> None:
        self._send, self._is_cancelled = send, is_cancelled

    def begin(self, jobs: Sequence[Job]) -> Watch:
        """Work on these begins; the progress of all of them, which raises `Cancelled` once all are
        cancelled."""
        self._send(messages.Begun([job.id for job in jobs]))
        return _GroupWatch([job.id for job in jobs], self._send, self._is_cancelled)

    def note(self, job: Job, text: str) -> None:
        self._send(messages.Note([job.id], text))

    def is_cancelled(self, job: Job) -> bool:
        return self._is_cancelled(job.id)

    def done(self, job: Job, report: Json) -> None:
        self._send(messages.Done(job.id, report))

    def stopped(self, job: Job) -> None:
        self._send(messages.Stopped(job.id))

    def failed(self, job: Job, error: Exception) -> None:
        if isinstance(error, FaError):
            parts = (error.what, error.where, error.hint)
        else:
            traceback.print_exception(error)
            what = traceback.format_exception_only(error)[-1].strip()
            hints = filter(None, [messages.memory_limit(what), messages.TRACEBACK_IN_LOG])
            parts = (what, job.checkpoint, "; ".join(hints))
        if isinstance(error, DeviceFull):
            full = "full"
        else:
            full = ""
        self._send(messages.Failed(job.id, *parts, "lost" if is_device_lost(error) else full))

    def finish(
        self,
        job: Job,
        report: Callable[[], Json],
        explained: Callable[[Job, Exception], Exception],
    ) -> None:
        """Send the outcome of a job: its report, or why it has none.

        Args:
            job: the job.
            report: measures it, or raises; not called once it is cancelled.
            explained: what to send of an error.
        """
        try:
            if self.is_cancelled(job):
                raise Cancelled
            found = report()
        except Cancelled:
            self.stopped(job)
        except Exception as error:
            self.failed(job, explained(job, error))
        else:
            self.done(job, found)


class _GroupWatch(Watch):
    """The `Watch` of the jobs that are measured at once; reports no more often than the client can
    use."""

    def __init__(self, job_ids: list[str], send: Send, is_cancelled: Callable[[str], bool]) -> None:
        self._job_ids, self._send, self._is_cancelled = job_ids, send, is_cancelled
        self._next = 0.0
        self._total = 0

    def progress(self, done: int, total: int) -> None:
        if all(map(self._is_cancelled, self._job_ids)):
            raise Cancelled
        now = time.monotonic()
        if now >= self._next or done == total or total != self._total:
            self._next, self._total = now + max(8, len(self._job_ids)) / PROGRESS_PER_SECOND, total
            self._send(messages.Progress(self._job_ids, done, total))

    def note(self, text: str) -> None:
        self._send(messages.Note(self._job_ids, text))


class Control(threading.Thread):
    """Reads the client's messages, so that a cancellation is noticed while a batch is computed.

    Args:
        stdin: where the messages come from.
        on_end: called once the client is gone, before this process ends.

    Attributes:
        has_failed: whether a failure was sent to the client: then the log stays.
        sending: held while a message is sent.
        runs: what the client wants measured.
    """

    def __init__(self, stdin: IO[bytes], on_end: Callable[[], None] = ignore) -> None:
        super().__init__(name="control", daemon=True)
        self._on_end = on_end
        self._logs = Path.cwd()
        self.has_failed = False
        self.sending = threading.Lock()
        self.runs: queue.SimpleQueue[messages.Run] = queue.SimpleQueue()
        self._stdin = stdin
        self._cancelled: set[str] = set()

    def run(self) -> None:
        for line in self._stdin:
            match messages.decode(line, messages.ToWorker):
                case messages.Run() as run:
                    self._cancelled.difference_update(job.id for job in run.jobs)
                    self.runs.put(run)
                case messages.Cancel(job_id=job_id):
                    self._cancelled.add(job_id)
        # The client is gone, or wants no more: nothing here is worth finishing.
        self.sending.acquire(timeout=1.0)
        self._on_end()
        if self._logs.name.startswith(messages.TEMPORARY) and not self.has_failed:
            self._tidy()
        os._exit(0)

    def _tidy(self) -> None:
        """Remove a log that no error names, and its folder with the last one: a killed client
        cannot."""
        for log in self._logs.glob("worker*.log"):
            # another worker removes its own meanwhile
            with suppress(OSError):
                if log.samefile(f"/dev/fd/{sys.stderr.fileno()}"):
                    log.unlink()
        with suppress(OSError):
            self._logs.rmdir()

    def is_cancelled(self, job_id: str) -> bool:
        return job_id in self._cancelled


class Runner(Protocol):
    """What measures jobs on a device."""

    def measure(self, jobs: Sequence[Job], outlet: WorkerEvents, group: int | None) -> None:
        """Measure jobs and report the outcome of each."""


@cache
def runner_for(measure: str, device: str, cwd: str) -> Runner:
    """What measures jobs on a device: ``module:callable``, imported from the user's folder too."""
    if not measure.startswith("fa_core."):
        sys.path.insert(0, cwd)
    runner: Runner = pkgutil.resolve_name(measure)(device)
    return runner


def main() -> None:
    """Serve until stdin closes: on a device, with what measures, in a folder, as `WorkerProcess`
    names them."""
    device, measure, cwd = sys.argv[1:]
    if os.name == "posix":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if device == "cpu":
            os.nice(NICENESS)
    stdout = messages.private_stdout()
    control = Control(sys.stdin.buffer)
    control.start()

    def send(message: messages.FromWorker) -> None:
        with control.sending:
            failed_before = control.has_failed
            control.has_failed |= isinstance(message, messages.Failed)
            try:
                stdout.write(messages.encode(message))
                stdout.flush()
                return
            except BrokenPipeError:
                control.has_failed = failed_before
        control.join()  # it ends this process: the client is gone

    os.chdir(cwd)
    try:
        runner = runner_for(measure, device, cwd)
        events = WorkerEvents(send, control.is_cancelled)
        send(messages.Ready())
        while True:
            run = control.runs.get()
            runner.measure(run.jobs, events, run.group)
            send(messages.Idle())
    except Exception:
        traceback.print_exc()
        # not by returning: Python cannot shut down in order while a thread waits on its stdin
        os._exit(1)


if __name__ == "__main__":
    main()
