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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from io import StringIO
from pathlib import Path
from typing import TypeAlias

from fa_core.audit import messages
from fa_core.audit.jobs import Cancelled, DeviceFull, Job, JobProgress
from fa_core.errors import FaError, is_device_lost
from fa_core.files.children import remove_temporary
from fa_core.files.decode import Json
from fa_core.formats.run_folder import forget_measuring
from fa_core.option_values import has_changed_sources

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


def measure_and_send(job: Job, device: str, measure: Measure, client: Client) -> None:
    """Do a job and send its outcome; of a job that is cancelled, nothing is done.

    Args:
        job: the job.
        device: where.
        measure: does it or raises.
        client: hears of it.
    """

    def check() -> None:
        if client.is_cancelled(job.id):
            raise Cancelled

    progress = JobProgress(
        lambda done, total: client.send(messages.Progress(job.id, done, total)),
        lambda text: client.send(messages.Note(job.id, text)),
        check,
    )
    try:
        check()
        client.send(messages.Begun(job.id))
        report = measure(job, device, progress)
    except Cancelled:
        client.send(messages.Stopped(job.id))
    except (Exception, SystemExit) as error:  # a network's own code may exit
        client.send(failure(job, error))
    else:
        client.send(messages.Done(job.id, report))


def failure(job: Job, error: Exception | SystemExit) -> messages.Failed:
    """The message about a failed job; prints the traceback of an internal error."""
    of_device = is_device_lost(error) or isinstance(error, DeviceFull)
    if isinstance(error, FaError):
        where = error.where or (job.checkpoint if job.training else "")
        return messages.Failed(job.id, error.what, where, error.hint, of_device)
    traceback.print_exception(error)
    what = traceback.format_exception_only(error)[-1].strip()
    return messages.Failed(job.id, what, job.checkpoint, messages.TRACEBACK_IN_LOG, of_device)


class Client(threading.Thread):
    """The other end of stdin and stdout. Reads in a thread, so that cancellations arrive while a
    batch is computed.

    Attributes:
        training: held while a run is trained, so that it can end in order.
        jobs: to be done.
    """

    def __init__(self) -> None:
        super().__init__(name="client", daemon=True)
        self.training = threading.Lock()
        self.jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._logs = Path.cwd()
        self._has_failed = False  # an error was sent, which names the log
        self._sending = threading.Lock()
        self._is_over = False
        self._stdin = sys.stdin.buffer
        # a private copy for messages; other output goes to the log
        self._stdout = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        self._cancelled: set[str] = set()
        self._client = os.getppid()
        self._measured: set[Path] = set()

    def run(self) -> None:
        for line in self._stdin:
            match messages.decode(line, messages.ToWorker):
                case messages.Run(job=job):
                    self._cancelled.discard(job.id)
                    self._measured.add(Path(job.checkpoint))
                    self.jobs.put(job)
                case messages.Cancel(job_id=job_id):
                    self._cancelled.add(job_id)
        # the client is gone or closed: unfinished work is dropped
        self._is_over = True
        self.training.acquire(timeout=LEAVE_SECONDS)
        self._sending.acquire(timeout=1.0)
        time.sleep(SETTLE_SECONDS)
        if os.getppid() != self._client:
            for folder in self._measured:
                forget_measuring(folder, self._client)
        remove_temporary()
        if self._logs.name.startswith(messages.TEMPORARY) and not self._has_failed:
            self._tidy()
        os._exit(0)

    @contextmanager
    def served(self) -> Iterator[None]:
        """Within, its messages are read; what ends the body ends the process."""
        self.start()
        try:
            yield
        except FaError as error:
            self.send(messages.Failed("", error.what, hint=error.hint))
        except Cancelled:
            self.join()  # the client is gone: the process ends
        except Exception:
            traceback.print_exc()
        # no return: Python cannot shut down while a thread waits on its stdin
        os._exit(1)

    def send(self, message: messages.FromWorker) -> None:
        """Send a message.

        Raises:
            Cancelled: the client is gone.
        """
        with self._sending:
            try:
                self._stdout.write(messages.encode(message))
                self._stdout.flush()
            except BrokenPipeError:
                raise Cancelled from None
            self._has_failed |= isinstance(message, messages.Failed)

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
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if device == "cpu":
        os.nice(NICENESS)
    client = Client()
    with client.served():
        sys.stdin = StringIO()  # code of the user that reads input finds none
        os.chdir(cwd)
        measure = measure_of(os.environ.get(MEASURE, ""), cwd)
        client.send(messages.Ready())
        while True:
            job = client.jobs.get()
            if has_changed_sources():
                client.send(messages.Outdated())
                continue
            if job.training is None:
                measure_and_send(job, device, measure, client)
                continue
            with client.training:
                measure_and_send(job, device, pkgutil.resolve_name(TRAIN), client)


if __name__ == "__main__":
    main()
