"""Child processes and the messages exchanged with them, one JSON object per line.

The children are workers and the process that joins a Ray cluster. Messages are written by Python's
json: diverged runs hold NaN and Infinity, which msgspec turns into null.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from fa_core.audit.jobs import Job
from fa_core.errors import FaError
from fa_core.files.children import python_environment, start_python
from fa_core.files.decode import Json, loads

LOG_TAIL_BYTES = 4096
"""Bytes of a worker's log read for its last lines."""

GRACE = 5.0
"""Seconds before the worker of a cancelled job, or of a closed pool, is killed."""

EXIT_TIMEOUT = 10.0
"""Timeout in seconds for the exit of a worker that closed its pipe."""

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")

TRACEBACK_IN_LOG = "the log has the traceback"
"""Hint of an internal error, or one of the user's own code."""


class _Message(msgspec.Struct, frozen=True, tag_field="is", tag=str.lower):
    """Base of every message; ``is`` names its kind."""


class Run(_Message, frozen=True):
    """To the worker: measure this job after those before it."""

    job: Job


class Cancel(_Message, frozen=True):
    """To the worker: stop this job at the next batch, or skip it."""

    job_id: str


class Ready(_Message, frozen=True):
    """From the worker: it is ready."""


class Begun(_Message, frozen=True):
    """From the worker: this job is being measured."""

    job_id: str


class Progress(_Message, frozen=True):
    """From the worker: batches of a job measured, and their total."""

    job_id: str
    done: int
    total: int


class Note(_Message, frozen=True):
    """From the worker: a note for the user about a job, or without an id about the worker."""

    job_id: str
    text: str


class Done(_Message, frozen=True):
    """From the worker: the report, as `DiagnosticReport.to_dict` writes it."""

    job_id: str
    report: Json


class Failed(_Message, frozen=True):
    """From the worker: an `FaError` in its parts, of a job, or without an id of the worker itself.

    Attributes:
        of_device: whether the device is lost, or filled by other processes.
    """

    job_id: str
    what: str
    where: str = ""
    hint: str = ""
    of_device: bool = False


class Outdated(_Message, frozen=True):
    """From the worker: the user's code that it imported has changed; it measures no more."""


class Stopped(_Message, frozen=True):
    """From the worker: the job was cancelled."""

    job_id: str


ToWorker: TypeAlias = Run | Cancel
FromWorker: TypeAlias = Ready | Begun | Progress | Note | Done | Failed | Outdated | Stopped
OUTCOMES = (Done, Failed, Stopped)
"""One of them ends a job."""


def encode(message: msgspec.Struct) -> bytes:
    """A message as one line, NaN and Infinity as in Python's json."""
    return json.dumps(msgspec.to_builtins(message)).encode() + b"\n"


def decode(line: bytes | str, kinds: object) -> Any:
    """The message in a line.

    Raises:
        ValueError, msgspec.ValidationError: not a message of these kinds.
    """
    return msgspec.convert(json.loads(line), kinds)


TEMPORARY = "fa-tui-"
"""Prefix of temporary folders with logs."""


class ChildProcess:
    """A Python module of this project that runs as a child process.

    It runs in its own session, so that Ctrl-C reaches only the client, and writes to a log file, so
    that it never paints over a screen. It ends when its stdin closes.

    Args:
        arguments: the module and its arguments.
        log: the file for its stdout and stderr.
        environment: its environment.

    Attributes:
        ready: whether it sent `Ready`.
        killed: whether `kill_later` ended it.
    """

    def __init__(self, arguments: Sequence[str], *, log: Path, environment: dict[str, str]) -> None:
        self.log = log
        self.ready = False
        self.killed = False
        self._nonsense = ""
        self._write_lock = threading.Lock()
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as sink:
            self._popen = start_python(
                *arguments,
                environment=environment,
                # a worker changes to the user's folder later
                folder=log.parent,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                own_session=True,
            )
        stdin, stdout = self._popen.stdin, self._popen.stdout
        assert stdin and stdout, "both are pipes"
        self._stdin, self._stdout = stdin, stdout

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def alive(self) -> bool:
        return self._popen.poll() is None

    def send(self, message: ToWorker) -> None:
        """Send a message; lost if the child is gone, which `receive` reports."""
        with self._write_lock, contextlib.suppress(OSError, ValueError):
            self._stdin.write(encode(message))
            self._stdin.flush()

    def receive(self) -> FromWorker | None:
        """The next message (blocks); None if the child is gone, or was killed for an invalid
        message."""
        try:
            line = self._stdout.readline()
        except (OSError, ValueError):
            return None
        if not line.endswith(b"\n"):  # the child is gone, perhaps in the middle of a line
            return None
        try:
            message: FromWorker = msgspec.convert(loads(line), FromWorker)
        except (ValueError, FaError) as error:
            self._nonsense = f"sent what is no message ({error})"
            self.kill()
            return None
        self.ready |= isinstance(message, Ready)
        return message

    def kill(self) -> None:
        """Kill the child and its descendants."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)

    def kill_later(self, still: Callable[[], bool] = lambda: True) -> None:
        """Kill the child after `GRACE`, if it is alive and the condition holds then."""

        def kill() -> None:
            if self.alive and still():
                self.killed = True
                self.kill()

        timer = threading.Timer(GRACE, kill)
        timer.daemon = True
        with contextlib.suppress(RuntimeError):  # no further thread may be started
            timer.start()

    def hang_up(self) -> None:
        """Close its stdin, which ends it; unfinished measurements are lost."""
        with self._write_lock, contextlib.suppress(OSError):
            self._stdin.close()

    def close(self) -> None:
        """Hang up and wait for its exit; kills it after `GRACE`."""
        self.hang_up()
        self._wait(GRACE)
        self._stdout.close()

    def autopsy(self) -> tuple[str, list[str]]:
        """How the child ended (a signal or an exit status), and hints at the cause: its last lines
        of output, and whether memory ran out.
        """
        code = self._wait(EXIT_TIMEOUT)
        cause = self._nonsense or f"exited with status {code}"
        if code < 0 and not self._nonsense:
            name = f"signal {-code}"
            if -code in {*signal.Signals}:
                name = signal.Signals(-code).name
            cause = f"was killed by {name}"
        words = "".join(log_tail(self.log, 1)).strip()
        hints = []
        if words:
            hints.append(f"its last words: {words}")
        if words.endswith("No module named 'torch'"):
            hints.append("pip install torch")
        if cause.endswith("SIGKILL"):
            hints.append("the system may have run out of memory")
        return cause, hints

    def _wait(self, seconds: float) -> int:
        try:
            return self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._popen.wait()


def log_tail(log: Path, lines: int) -> Sequence[str]:
    """The last non-empty lines of a log file; reads only its end."""
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - LOG_TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.strip()][-lines:]


def environment(threads: int | None) -> dict[str, str]:
    """The environment of a child with this many CPU threads (None = torch's default)."""
    environment = python_environment()
    # spinning threads make passes 10 to 40 times slower on a busy machine
    environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if "CUDA_VISIBLE_DEVICES" not in environment:
        # the order in which `nvidia-smi` lists them; torch's default puts the fastest first
        environment.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    if threads:
        environment.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
    return environment
