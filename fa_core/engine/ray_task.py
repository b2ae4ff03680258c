"""What runs on a node: a Ray task that hands its jobs to a worker process and streams back the worker's messages."""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from fa_core.engine import messages
from fa_core.engine.jobs import Job
from fa_core.engine.messages import WorkerProcess, log_tail

THREADS = 1
"""CPU threads of a job: Ray gives it one core."""

LINES = 60
"""Lines of a worker's log that go to the driver's log: the user may have no account on the node."""

EXIT_DELAY = 1.0
"""Seconds before a killed worker is reported: when Ray ends this process it kills the worker just before."""

PROGRESS_EVERY = 0.2
"""Seconds between two progress messages: each is an object that crosses the cluster."""


@dataclass
class _Warm:
    """The worker of this process, kept while Ray keeps the process and gives it the same device."""

    worker: WorkerProcess | None = None
    made_for: tuple[messages.Setup, str | None] | None = None

    def get(self, setup: messages.Setup) -> WorkerProcess:
        """A living worker. Ray may give a process another GPU than last time; a worker keeps the one it began with."""
        wanted = (setup, os.environ.get("CUDA_VISIBLE_DEVICES"))
        if self.worker is None or not self.worker.alive or self.made_for != wanted:
            self.end()
            log = Path(tempfile.mkdtemp(prefix="fa-tui-"), "worker.log")
            self.worker = WorkerProcess(setup.device, threads=THREADS, measure=setup.measure, log=log)
            self.made_for = wanted
        return self.worker

    def end(self) -> None:
        """End the worker; the next job gets a new one."""
        if self.worker is not None:
            self.worker.kill()
            self.worker.close(0)
            shutil.rmtree(self.worker.log.parent, ignore_errors=True)
            self.worker = None


_warm = _Warm()
atexit.register(_warm.end)


def measure_here(jobs: Sequence[Job], setup: messages.Setup) -> Iterator[messages.FromNode]:
    """Measure jobs on this node and yield what happens; the body of a Ray task with a streaming generator."""
    yield messages.Placed([job.id for job in jobs], *_place(setup))
    with contextlib.suppress(OSError):
        os.chdir(setup.cwd)
    left: dict[str, Job] = {}
    for job in jobs:
        if os.path.exists(job.checkpoint):  # noqa: PTH110 - Path.exists raises where it may not look
            left[job.id] = job
        else:
            yield messages.Failed(job.id, f"{job.checkpoint} is not there", device=messages.UNSEEN)
    try:
        yield from _measured(left, setup)
    finally:
        if left:
            _warm.end()


def _measured(left: dict[str, Job], setup: messages.Setup) -> Iterator[messages.FromNode]:
    """The worker's messages about the jobs that are left, until none is.

    A worker that dies fails its job; of several, each is then measured alone, so that only the culprit fails.
    """
    together = len(left)
    while left:
        jobs = list(left.values())[:together]
        try:
            worker = _warm.get(setup)
        except OSError as error:
            died = f"no worker could be started ({error.strerror})"
            yield from (messages.Failed(left.pop(job.id).id, died, job.checkpoint, device="lost") for job in jobs)
            continue
        written = worker.log.stat().st_size
        yield from _conversation(left, jobs, worker, setup)
        if worker.log.stat().st_size > written:
            yield messages.Note([], "\n".join(log_tail(worker.log, LINES)))
        if worker.alive and not any(job.id in left for job in jobs):
            continue
        if len(jobs) == 1 and jobs[0].id in left:
            yield _exit_of(worker, left.pop(jobs[0].id), setup)
        _warm.end()
        together = 1


def _conversation(
    left: dict[str, Job], jobs: Sequence[Job], worker: WorkerProcess, setup: messages.Setup
) -> Iterator[messages.FromNode]:
    """Hand jobs to the worker and pass on its messages, until it is idle or of no use any more."""
    worker.send(messages.Run([*jobs], group=setup.group))
    quiet_until = 0.0
    while (message := worker.receive()) is not None:
        match message:
            case messages.Ready():
                worker.ready = True
            case messages.Idle():
                return
            case messages.Progress():
                if time.monotonic() >= quiet_until:
                    yield message
                    quiet_until = time.monotonic() + PROGRESS_EVERY
            case messages.Done(job_id=job_id) | messages.Failed(job_id=job_id) | messages.Stopped(job_id=job_id):
                left.pop(job_id, None)
                yield message
                if isinstance(message, messages.Failed) and message.device == "lost":
                    worker.kill()
                    return
            case _:
                yield message


def _exit_of(worker: WorkerProcess, job: Job, setup: messages.Setup) -> messages.Failed:
    """The failure of a job whose worker is gone; of a worker that never started, the node is to blame."""
    cause, hints = worker.autopsy()
    what = f"its worker on {setup.device} {cause}" if worker.ready else f"no worker could start ({cause})"
    if cause.endswith("SIGKILL"):
        time.sleep(EXIT_DELAY)
    return messages.Failed(job.id, what, job.checkpoint, "; ".join(hints), "" if worker.ready else "lost")


def _place(setup: messages.Setup) -> tuple[str, str]:
    """The id of this node, and the device as the node counts its own."""
    import ray

    gpus = [] if setup.device == "cpu" else ray.get_gpu_ids()
    return ray.get_runtime_context().get_node_id(), f"cuda:{gpus[0]}" if gpus else setup.device
