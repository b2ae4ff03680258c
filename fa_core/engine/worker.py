"""The worker process: reads jobs from stdin, measures them, writes what happens to stdout.

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
from collections.abc import Sequence
from typing import IO

from fa_core.engine import protocol
from fa_core.engine.desk import Desk, OneByOne
from fa_core.engine.process import private_stdout
from fa_core.engine.watch import DEFAULT_MEASURE, Measure, Measurer

POLITENESS = 10
"""Niceness of a worker that computes on the CPU: who types, here or elsewhere, comes first."""


class Control(threading.Thread):
    """Reads the client's messages, so that a cancellation is heard while a batch is computed."""

    def __init__(self, stdin: IO[bytes]) -> None:
        super().__init__(name="control", daemon=True)
        self.runs: queue.SimpleQueue[protocol.Run] = queue.SimpleQueue()
        self._stdin = stdin
        self._cancelled: set[str] = set()

    def run(self) -> None:
        for line in self._stdin:
            match protocol.to_worker(line):
                case protocol.Run() as run:
                    self._cancelled.difference_update(job.id for job in run.jobs)
                    self.runs.put(run)
                case protocol.Cancel(job_id=job_id):
                    self._cancelled.add(job_id)
        # The client is gone, or wants no more: nothing here is worth finishing.
        os._exit(0)

    def is_cancelled(self, job_id: str) -> bool:
        return job_id in self._cancelled


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until stdin closes."""
    parser = argparse.ArgumentParser(prog="fa_core.engine.worker")
    parser.add_argument("--device", required=True)
    parser.add_argument("--measure", default=DEFAULT_MEASURE)
    parser.add_argument("--cwd", required=True)
    args = parser.parse_args(arguments)
    if os.name == "posix":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if args.device == "cpu":
            os.nice(POLITENESS)
    wire = private_stdout()
    control = Control(sys.stdin.buffer)
    control.start()

    def send(message: protocol.FromWorker) -> None:
        wire.write(protocol.encode(message))
        wire.flush()

    os.chdir(args.cwd)
    try:
        measurer = _measurer(args.measure, args.device, args.cwd)
        desk = Desk(send, control.is_cancelled)
        send(protocol.Ready(os.getpid()))
        while True:
            run = control.runs.get()
            measurer.measure(run.jobs, run.ahead, desk, run.group)
            send(protocol.Idle())
    except Exception:
        traceback.print_exc()
        # not by returning: Python cannot shut down in order while a thread waits on its stdin
        os._exit(1)


def _measurer(spec: str, device: str, cwd: str) -> Measurer:
    module, _, name = spec.partition(":")
    if not module.startswith("fa_core."):
        sys.path.insert(0, cwd)
    measure: Measure = getattr(importlib.import_module(module), name)
    if spec != DEFAULT_MEASURE:
        return OneByOne(measure, device)
    from fa_core.engine.together import Together

    return Together(device)


if __name__ == "__main__":
    main()
