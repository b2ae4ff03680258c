"""A child process as its client sees it: start it, exchange lines with it, end it, read the tail of its log."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import msgspec

from fa_core.engine import messages

LOG_TAIL_BYTES = 4096
"""How much of a worker's log is read for its last lines."""

EXIT_TIMEOUT = 10.0
"""Seconds that a worker which closed its end may take to exit."""

THREAD_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


class ChildProcess:
    """A Python module of this project that runs with pipes to it.

    It runs in its own session, so that Ctrl-C at the terminal reaches only the client, and writes to a log
    file, so that it never paints over a screen. It ends by itself when its stdin closes.

    Args:
        arguments: what follows ``python -m``.
        log: the file for its stdout and stderr.
        environment: its environment.
    """

    def __init__(self, arguments: Sequence[str], *, log: Path, environment: dict[str, str]) -> None:
        self.log = log
        self._write_lock = threading.Lock()
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as sink:
            self._popen = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=sink,
                # -m puts the current folder first on the path: a folder of ours, so that no file of the user's
                # (random.py, types.py) is taken for a library; the child goes to the user's folder afterwards.
                cwd=log.parent,
                env=environment,
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        return self._popen.pid

    @property
    def alive(self) -> bool:
        return self._popen.poll() is None

    def write(self, line: bytes) -> bool:
        """Hand a line over; False if the child is gone."""
        assert self._popen.stdin is not None
        with self._write_lock:
            try:
                self._popen.stdin.write(line)
                self._popen.stdin.flush()
            except (OSError, ValueError):
                return False
        return True

    def read(self) -> bytes | None:
        """The next line (blocks); None when the child is gone, also in the middle of a line."""
        assert self._popen.stdout is not None
        try:
            line = self._popen.stdout.readline()
        except (OSError, ValueError):
            return None
        return line if line.endswith(b"\n") else None

    def kill(self) -> None:
        """End it now, with everything it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._popen.pid, signal.SIGKILL)

    def hang_up(self) -> None:
        """Close its stdin, which ends it; what it was measuring is lost."""
        assert self._popen.stdin is not None
        with self._write_lock, contextlib.suppress(OSError):
            self._popen.stdin.close()

    def close(self, grace: float) -> None:
        """Hang up and wait for the end; killed after ``grace`` seconds."""
        self.hang_up()
        self._wait(grace)
        if self._popen.stdout is not None:
            self._popen.stdout.close()

    def cause_of_death(self) -> str:
        """How it ended: the signal's name or the exit status. For one that closed its end already."""
        code = self._wait(EXIT_TIMEOUT)
        if code >= 0:
            return f"exited with status {code}"
        try:
            return f"was killed by {signal.Signals(-code).name}"
        except ValueError:
            return f"was killed by signal {-code}"

    def autopsy(self) -> tuple[str, list[str]]:
        """How it ended (see `cause_of_death`), and hints at why: its last words, and that memory may have run out."""
        cause = self.cause_of_death()
        hints = [f"its last words: {line.strip()}" for line in log_tail(self.log, 1)]
        return cause, [*hints, "the system may have run out of memory"] if cause.endswith("SIGKILL") else hints

    def _wait(self, seconds: float) -> int:
        try:
            return self._popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            return self._popen.wait()


class WorkerProcess(ChildProcess):
    """A ``python -m fa_core.engine.worker``.

    Args:
        device: e.g. ``"cpu"``, ``"cuda:1"``.
        threads: CPU threads it may use; None = torch's default.
        measure: what it runs (see `fa_core.engine.jobs.DEFAULT_MEASURE`).
        log: the file for its stdout and stderr.
    """

    def __init__(self, device: str, *, threads: int | None, measure: str, log: Path) -> None:
        self.ready, self._nonsense = False, ""
        arguments = ["fa_core.engine.worker", "--device", device, "--measure", measure, "--cwd", str(Path.cwd())]
        super().__init__(arguments, log=log, environment=environment(threads))

    def send(self, message: messages.ToWorker) -> bool:
        """Hand a message over; False if the worker is gone."""
        return self.write(messages.encode(message))

    def receive(self) -> messages.FromWorker | None:
        """The next message (blocks); None when the worker is gone, or killed as it wrote what is no message."""
        line = self.read()
        try:
            return None if line is None else messages.from_worker(line)
        except (ValueError, msgspec.ValidationError) as error:
            self._nonsense = f"sent what is no message ({error})"
            self.kill()
            return None

    def cause_of_death(self) -> str:
        return super().cause_of_death() if not self._nonsense else self._nonsense


def log_tail(log: Path, lines: int = 20) -> Sequence[str]:
    """The last non-empty lines of a log file, without reading all of it."""
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(0, file.tell() - LOG_TAIL_BYTES))
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    return [line for line in text.splitlines() if line.strip()][-lines:]


def private_stdout() -> IO[bytes]:
    """For a child: a private copy of stdout; what other code prints goes to the log, not among the messages."""
    private = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return private


def environment(threads: int | None) -> dict[str, str]:
    """The environment of a child that computes with this many CPU threads (None = torch's default)."""
    environment = dict(os.environ)
    # threads that wait by spinning cost 10 to 40 times the time when the machine has other work
    environment.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    if "CUDA_VISIBLE_DEVICES" not in environment:
        # NVML counts devices in this order; torch would put the fastest first
        environment.setdefault("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    if threads:
        environment.update(dict.fromkeys(THREAD_VARIABLES, str(threads)))
    return environment
