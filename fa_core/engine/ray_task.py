"""What runs on a node: a Ray task that hands its jobs to a worker process and streams back the
worker's messages."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from msgspec.structs import replace

from fa_core.engine import messages
from fa_core.engine.jobs import Job
from fa_core.engine.messages import ChildProcess, log_tail, worker_process

THREADS = 1
"""CPU threads of a job: Ray gives it one core."""

LINES = 60
"""Lines of a worker's log that go to the driver's log: the user may have no account on the node."""

EXIT_DELAY = 1.0
"""Seconds before a killed worker is reported: when Ray ends this process it kills the worker just
before."""

PROGRESS_EVERY = 0.2
"""Seconds between two progress messages: each is an object that crosses the cluster."""


@dataclass
class _Warm:
    """The worker of this process, which serves one driver: kept while Ray gives the process the
    same device."""

    worker: ChildProcess | None = None
    visible: str | None = None
    folder: str = ""
    log: IO[bytes] | None = None

    def get(self, setup: messages.Setup) -> ChildProcess:
        """A living worker. Ray may give a process another GPU than last time; a worker keeps the
        one it began with."""
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        if self.worker is None or not self.worker.alive or self.visible != visible:
            self.end()
            self.folder = tempfile.mkdtemp(prefix=messages.TEMPORARY)
            log = Path(self.folder, "worker.log")
            self.worker = worker_process(
                setup.device, threads=THREADS, measure=setup.measure, log=log
            )
            self.visible = visible
        return self.worker

    def hide_log(self) -> None:
        """Remove the log's folder, where a removed file can still be read: Ray kills both processes
        in the end."""
        if self.worker is not None and Path("/proc/self/fd").exists():
            self.log = self.worker.log.open("rb")
            self.worker.log = Path(f"/proc/self/fd/{self.log.fileno()}")
            shutil.rmtree(self.folder, ignore_errors=True)

    def end(self) -> None:
        """End the worker; the next job gets a new one."""
        if self.worker is not None:
            self.worker.kill()
            self.worker.close(0)
            shutil.rmtree(self.folder, ignore_errors=True)
            if self.log is not None:
                self.log.close()
            self.worker = self.log = None


_warm = _Warm()
atexit.register(_warm.end)


def measure_here(jobs: Sequence[Job], setup: messages.Setup) -> Iterator[messages.FromNode]:
    """Measure jobs on this node and yield what happens; the body of a Ray task with a streaming
    generator.

    Where it ends early, the driver submits the jobs that are left again, each alone: only the
    culprit fails.
    """
    yield messages.Placed([job.id for job in jobs], *_place(setup))
    with contextlib.suppress(OSError):
        os.chdir(setup.cwd)
    left: dict[str, Job] = {}
    for job in jobs:
        if os.path.exists(job.checkpoint):  # noqa: PTH110 - Path.exists raises where it may not look
            left[job.id] = job
        else:
            yield messages.Failed(job.id, f"{job.checkpoint} is not there", device=messages.UNSEEN)
    if not left:
        return
    alone = len(left) == 1
    worker = _warm.get(setup)
    written = worker.log.stat().st_size
    try:
        end = yield from _conversation(worker, left, setup)
        if worker.log.stat().st_size > written:
            yield messages.Note([], "\n".join(log_tail(worker.log, LINES)))
        if end is not None and left:
            job = next(iter(left.values()))
            yield replace(end, job_id=job.id, where=job.checkpoint) if alone else end
    finally:
        if left:
            _warm.end()


def _conversation(
    worker: ChildProcess, left: dict[str, Job], setup: messages.Setup
) -> Generator[messages.FromNode, None, messages.Failed | None]:
    """Hand jobs to a worker, pass on its messages, and take out of ``left`` what has its outcome.

    Returns:
        Why the worker is of no use any more; None = it is idle.
    """
    worker.send(messages.Run([*left.values()], group=setup.group))
    quiet_until = 0.0
    while (message := worker.receive()) is not None:
        match message:
            case messages.Ready():
                _warm.hide_log()
            case messages.Idle():
                return None
            case messages.Progress():
                if time.monotonic() >= quiet_until:
                    yield message
                    quiet_until = time.monotonic() + PROGRESS_EVERY
            case (
                messages.Done(job_id=job_id)
                | messages.Failed(job_id=job_id)
                | messages.Stopped(job_id=job_id)
            ):
                left.pop(job_id, None)
                yield message
                if isinstance(message, messages.Failed) and message.device == "lost":
                    worker.kill()
                    return replace(message, job_id="")
            case _:
                yield message
    cause, hints = worker.autopsy()
    if cause.endswith("SIGKILL"):
        time.sleep(EXIT_DELAY)
    if worker.ready:
        return messages.Failed("", f"its worker on {setup.device} {cause}", hint="; ".join(hints))
    return messages.Failed(
        "", f"no worker could start ({cause})", hint="; ".join(hints), device="lost"
    )


def _place(setup: messages.Setup) -> tuple[str, str]:
    """The id of this node, and the device as the node counts its own."""
    import ray

    if setup.device == "cpu":
        gpus = []
    else:
        gpus = ray.get_gpu_ids()
    return ray.get_runtime_context().get_node_id(), f"cuda:{gpus[0]}" if gpus else setup.device
