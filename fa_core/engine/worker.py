"""The worker process: reads jobs from stdin, measures them, writes messages to stdout.

Started by `fa_core.engine.messages`. Ends when its stdin closes.
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
from fa_core.engine.jobs import Cancelled, DeviceFull, Job, JobProgress, ignore
from fa_core.errors import FaError, is_device_lost

Send = Callable[[messages.FromWorker], None]

PROGRESS_PER_SECOND = 160
"""Maximum rate of progress messages: each one updates every job of a group in the client."""

NICENESS = 10
"""Niceness of a worker on the CPU: interactive programs come first."""


class WorkerEvents:
    """Sends the events of jobs to the client.

    Args:
        send: sends a message.
        is_cancelled: whether the client cancelled a job id.
    """

    def __init__(self, send: Send, is_cancelled: Callable[[str], bool]) -> None:
        self._send, self._is_cancelled = send, is_cancelled

    def begin(self, jobs: Sequence[Job]) -> JobProgress:
        """Announce jobs; returns their common progress, which raises `Cancelled` once all are
        cancelled."""
        self._send(messages.Begun([job.id for job in jobs]))
        return _GroupProgress([job.id for job in jobs], self._send, self._is_cancelled)

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
        """Send the outcome of a job: its report or error.

        Args:
            job: the job.
            report: measures it or raises; not called for a cancelled job.
            explained: converts an exception to the error to send.
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


class _GroupProgress(JobProgress):
    """Progress of jobs that are measured at once, with a limited rate of messages."""

    def __init__(self, job_ids: list[str], send: Send, is_cancelled: Callable[[str], bool]) -> None:
        self._job_ids, self._send, self._is_cancelled = job_ids, send, is_cancelled
        self._next = 0.0
        self._total = 0

    def update(self, done: int, total: int) -> None:
        if all(map(self._is_cancelled, self._job_ids)):
            raise Cancelled
        now = time.monotonic()
        if now >= self._next or done == total or total != self._total:
            self._next, self._total = now + max(8, len(self._job_ids)) / PROGRESS_PER_SECOND, total
            self._send(messages.Progress(self._job_ids, done, total))

    def note(self, text: str) -> None:
        self._send(messages.Note(self._job_ids, text))


class Control(threading.Thread):
    """Reads the client's messages in a thread, so that cancellations arrive while a batch is
    computed.

    Args:
        stdin: source of the messages.
        on_end: called once the client is gone, before this process ends.

    Attributes:
        has_failed: whether an error was sent; then the log is kept.
        sending: lock held while a message is sent.
        runs: requested measurements.
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
        # the client is gone or closed: unfinished work is dropped
        self.sending.acquire(timeout=1.0)
        self._on_end()
        if self._logs.name.startswith(messages.TEMPORARY) and not self.has_failed:
            self._tidy()
        os._exit(0)

    def _tidy(self) -> None:
        """Remove a log that no error refers to, and its folder with the last log: a killed client
        cannot."""
        for log in self._logs.glob("worker*.log"):
            # another worker may remove its own
            with suppress(OSError):
                if log.samefile(f"/dev/fd/{sys.stderr.fileno()}"):
                    log.unlink()
        with suppress(OSError):
            self._logs.rmdir()

    def is_cancelled(self, job_id: str) -> bool:
        return job_id in self._cancelled


class Runner(Protocol):
    """Measures jobs on a device."""

    def measure(self, jobs: Sequence[Job], outlet: WorkerEvents, group: int | None) -> None:
        """Measure jobs and report the outcome of each."""


@cache
def runner_for(measure: str, device: str, cwd: str) -> Runner:
    """The runner ``module:callable`` for a device, importable from the user's folder too."""
    if not measure.startswith("fa_core."):
        sys.path.insert(0, cwd)
    runner: Runner = pkgutil.resolve_name(measure)(device)
    return runner


def main() -> None:
    """Serve until stdin closes; arguments: device, runner, working folder."""
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
        control.join()  # the client is gone: the process ends

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
        # no return: Python cannot shut down while a thread waits on its stdin
        os._exit(1)


if __name__ == "__main__":
    main()
