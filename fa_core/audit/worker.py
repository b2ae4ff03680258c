"""The worker process: reads jobs from stdin, measures or trains, writes messages to stdout.

Started by `fa_core.audit.messages`. Ends when its stdin closes.
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
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from io import StringIO
from pathlib import Path
from typing import IO, TypeAlias

from fa_core.audit import messages
from fa_core.audit.jobs import Cancelled, DeviceFull, Job, JobProgress, ignore
from fa_core.errors import FaError, is_device_lost
from fa_core.files.decode import Json
from fa_core.formats.run_progress import forget_measuring

Send = Callable[[messages.FromWorker], None]

MEASURE = "FA_TUI_MEASURE"
"""Environment variable that names another `Measure`, ``module:callable``: for tests."""

TRAIN = "fa_core.training.runs:trained_job"
"""The function for jobs that train: `fa_core.training` imports this folder, which cannot import
it."""

LEAVE_SECONDS = 3.0
"""How long a training that is stopped may take for its last step."""

SETTLE_SECONDS = 0.05
"""How long after its pipes close a client that was killed is seen to be gone."""

NICENESS = 10
"""Niceness of a worker on the CPU: interactive programs come first."""


Measure: TypeAlias = Callable[[Job, str, JobProgress], Json]
"""Measures or trains a job on a device: the report as `DiagnosticReport.to_dict` writes it."""


def measure_and_send(
    job: Job, device: str, measure: Measure, send: Send, is_cancelled: Callable[[str], bool]
) -> None:
    """Do a job and send its outcome; of a job that is cancelled, nothing is done.

    Args:
        job: the job.
        device: where.
        measure: does it or raises.
        send: sends a message.
        is_cancelled: whether the client cancelled a job id.
    """

    def check() -> None:
        if is_cancelled(job.id):
            raise Cancelled

    progress = JobProgress(
        lambda done, total: send(messages.Progress(job.id, done, total)),
        lambda text: send(messages.Note(job.id, text)),
        check,
    )
    try:
        check()
        send(messages.Begun(job.id))
        report = measure(job, device, progress)
    except Cancelled:
        send(messages.Stopped(job.id))
    except (Exception, SystemExit) as error:  # a network's own code may exit
        send(_failure(job, error))
    else:
        send(messages.Done(job.id, report))


def _failure(job: Job, error: Exception | SystemExit) -> messages.Failed:
    """The message about a failed job; prints the traceback of an internal error."""
    device = ""
    if is_device_lost(error):
        device = "lost"
    elif isinstance(error, DeviceFull):
        device = "full"
    if isinstance(error, FaError):
        where = error.where or (job.checkpoint if job.training else "")
        return messages.Failed(job.id, error.what, where, error.hint, device)
    traceback.print_exception(error)
    what = traceback.format_exception_only(error)[-1].strip()
    return messages.Failed(job.id, what, job.checkpoint, messages.TRACEBACK_IN_LOG, device)


class Control(threading.Thread):
    """Reads the client's messages in a thread, so that cancellations arrive while a batch is
    computed.

    Args:
        stdin: source of the messages.
        on_end: called once the client is gone, before this process ends.

    Attributes:
        has_failed: whether an error was sent; then the log is kept.
        training: held while a run is trained, so that it can end in order.
        sending: lock held while a message is sent.
        runs: requested measurements.
    """

    def __init__(self, stdin: IO[bytes], on_end: Callable[[], None] = ignore) -> None:
        super().__init__(name="control", daemon=True)
        self._on_end = on_end
        self._logs = Path.cwd()
        self.has_failed = False
        self.sending = threading.Lock()
        self.training = threading.Lock()
        self._is_over = False
        self.runs: queue.SimpleQueue[messages.Run] = queue.SimpleQueue()
        self._stdin = stdin
        self._cancelled: set[str] = set()
        self._client = os.getppid()
        self._measured: set[Path] = set()

    def run(self) -> None:
        for line in self._stdin:
            match messages.decode(line, messages.ToWorker):
                case messages.Run() as run:
                    self._cancelled.difference_update(job.id for job in run.jobs)
                    self._measured.update(Path(job.checkpoint) for job in run.jobs)
                    self.runs.put(run)
                case messages.Cancel(job_id=job_id):
                    self._cancelled.add(job_id)
        # the client is gone or closed: unfinished work is dropped
        self._is_over = True
        self.training.acquire(timeout=LEAVE_SECONDS)
        self.sending.acquire(timeout=1.0)
        self._on_end()
        time.sleep(SETTLE_SECONDS)
        if os.getppid() != self._client:
            for folder in self._measured:
                forget_measuring(folder, self._client)
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
        return self._is_over or job_id in self._cancelled


@cache
def measure_of(named: str, cwd: str) -> Measure:
    """The `Measure` of a name ``module:callable``, importable from the user's folder too; ``""``:
    `fa_core.audit.measuring.measured`."""
    if named:
        sys.path.insert(0, cwd)
    found: Measure = pkgutil.resolve_name(named or "fa_core.audit.measuring:measured")
    return found


def main() -> None:
    """Serve until stdin closes; arguments: device, working folder."""
    device, cwd = sys.argv[1:]
    if os.name == "posix":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if device == "cpu":
            os.nice(NICENESS)
    stdout = messages.private_stdout()
    control = Control(sys.stdin.buffer)
    control.start()
    sys.stdin = StringIO()  # code of the user that reads input finds none

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
        raise Cancelled

    os.chdir(cwd)
    try:
        measure = measure_of(os.environ.get(MEASURE, ""), cwd)
        send(messages.Ready())
        while True:
            for job in control.runs.get().jobs:
                do = partial(measure_and_send, job, device)
                if job.training is None:
                    do(measure, send, control.is_cancelled)
                    continue
                with control.training:
                    do(pkgutil.resolve_name(TRAIN), send, control.is_cancelled)
            send(messages.Idle())
    except Cancelled:
        control.join()  # the client is gone: the process ends
    except Exception:
        traceback.print_exc()
        # no return: Python cannot shut down while a thread waits on its stdin
        os._exit(1)


if __name__ == "__main__":
    main()
