"""The worker process: reads jobs from stdin, measures one at a time, writes what happens to stdout.

Started by `fa_core.engine.process`; a person never needs to. Ends when its stdin closes.
"""

from __future__ import annotations

import argparse
import importlib
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Sequence
from typing import IO

from fa_core.engine import protocol
from fa_core.engine.jobs import Job
from fa_core.engine.watch import DEFAULT_MEASURE, Cancelled, Measure, Watch
from fa_core.errors import FaError


class Control(threading.Thread):
    """Reads the client's messages, so that a cancellation is heard while a batch is computed."""

    def __init__(self, stdin: IO[bytes]) -> None:
        super().__init__(name="control", daemon=True)
        self.jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._stdin = stdin
        self._cancelled: set[str] = set()

    def run(self) -> None:
        for line in self._stdin:
            match protocol.to_worker(line):
                case protocol.Run(job=job):
                    self._cancelled.discard(job.id)
                    self.jobs.put(job)
                case protocol.Cancel(job_id=job_id):
                    self._cancelled.add(job_id)
        # The client is gone, or wants no more: nothing here is worth finishing.
        os._exit(0)

    def is_cancelled(self, job_id: str) -> bool:
        return job_id in self._cancelled


class JobWatch:
    """The `Watch` of one job, writing to the client."""

    def __init__(self, job_id: str, send: Callable[[protocol.FromWorker], None], control: Control) -> None:
        self._job_id, self._send, self._control = job_id, send, control

    def progress(self, done: int, total: int) -> None:
        if self._control.is_cancelled(self._job_id):
            raise Cancelled
        self._send(protocol.Progress(self._job_id, done, total))

    def note(self, text: str) -> None:
        self._send(protocol.Note(self._job_id, text))


def outcome(measure: Measure, job: Job, device: str, watch: Watch) -> protocol.FromWorker:
    """Measure one job; whatever goes wrong becomes a message."""
    try:
        return protocol.Done(job.id, measure(job, device, watch))
    except Cancelled:
        return protocol.Stopped(job.id)
    except FaError as error:
        return protocol.Failed(job.id, error.what, error.where, error.hint, _device_lost(error))
    except Exception as error:
        traceback.print_exc()
        what = traceback.format_exception_only(error)[-1].strip()
        return protocol.Failed(job.id, what, job.checkpoint, "the worker's log has the traceback", _device_lost(error))


def _device_lost(error: BaseException | None) -> bool:
    """Whether a CUDA error caused this: every later call of this process would fail with it too."""
    while error is not None:
        if "CUDA error" in str(error):
            return True
        error = error.__cause__
    return False


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until stdin closes."""
    parser = argparse.ArgumentParser(prog="fa_core.engine.worker")
    parser.add_argument("--device", required=True)
    parser.add_argument("--measure", default=DEFAULT_MEASURE)
    parser.add_argument("--cwd", required=True)
    args = parser.parse_args(arguments)
    if os.name == "posix":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    wire = _private_stdout()
    control = Control(sys.stdin.buffer)
    control.start()

    def send(message: protocol.FromWorker) -> None:
        wire.write(protocol.encode(message))
        wire.flush()

    os.chdir(args.cwd)
    try:
        measure = _resolve(args.measure, args.cwd)
        send(protocol.Ready(os.getpid()))
        while True:
            job = control.jobs.get()
            send(outcome(measure, job, args.device, JobWatch(job.id, send, control)))
    except Exception:
        traceback.print_exc()
        # not by returning: Python cannot shut down in order while a thread waits on its stdin
        os._exit(1)


def _private_stdout() -> IO[bytes]:
    """A private copy of stdout; what anybody else prints goes to the log instead of into the conversation."""
    wire = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    return wire


def _resolve(spec: str, cwd: str) -> Measure:
    module, _, name = spec.partition(":")
    if not module.startswith("fa_core."):
        sys.path.insert(0, cwd)
    measure: Measure = getattr(importlib.import_module(module), name)
    return measure


if __name__ == "__main__":
    main()
