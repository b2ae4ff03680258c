"""What runs on a node: a Ray task that hands its jobs to a worker beside it and passes on what the worker says."""

from __future__ import annotations

import atexit
import contextlib
import importlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fa_core.engine import messages
from fa_core.engine.cluster.wire import FromNode, Here, Said, Unseen
from fa_core.engine.jobs import Job
from fa_core.engine.process import WorkerProcess, log_tail

THREADS = 1
"""CPU threads of a job: Ray gives it one core."""

LINES = 60
"""Of a worker's log, that go to the driver's: the person may have no account on the node."""

LAST_MOMENT = 1.0
"""Seconds to wait before a killed worker is told of: when Ray ends this process it kills the worker just before."""

PROGRESS_EVERY = 0.2
"""Seconds between two words of progress: each is an object that crosses the cluster."""


class Station(msgspec.Struct, frozen=True):
    """How a node measures.

    Attributes:
        device: ``"cpu"`` or ``"cuda:0"``: the one that Ray made visible.
        measure: ``module:callable`` run in the worker.
        cwd: the folder the person started in; names they typed are relative to it.
        group: how many networks are measured at once; None = as the worker finds best.
    """

    device: str
    measure: str
    cwd: str
    group: int | None = None


class _Bench:
    """The worker of this process: kept warm while Ray keeps the process and gives it the same device."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._worker: WorkerProcess | None = None
        self._made_for: tuple[Station, str | None] | None = None

    def worker(self, station: Station) -> WorkerProcess:
        """A living worker. Ray may give a process another GPU than last time; a worker keeps the one it began with."""
        wanted = (station, os.environ.get("CUDA_VISIBLE_DEVICES"))
        if self._worker is None or not self._worker.alive or self._made_for != wanted:
            self.dismiss()
            if self._folder is None:
                self._folder = Path(tempfile.mkdtemp(prefix="fa-tui-", dir=_ray_logs()))
                atexit.register(shutil.rmtree, self._folder, ignore_errors=True)
            log = self._folder / "worker.log"
            self._worker = WorkerProcess(station.device, threads=THREADS, measure=station.measure, log=log)
            self._made_for = wanted
        return self._worker

    def dismiss(self) -> None:
        """End the worker; the next job gets a new one."""
        if self._worker is not None:
            self._worker.kill()
            self._worker.close(0)
            self._worker = None


_bench = _Bench()


def measure_here(jobs: Sequence[Job], station: Station) -> Iterator[FromNode]:
    """Measure jobs on this node, and tell what happens; the body of a Ray task with a streaming generator."""
    yield Here(_node_id(), _device(station))
    with contextlib.suppress(OSError):
        os.chdir(station.cwd)
    left: dict[str, Job] = {}
    for job in jobs:
        if os.path.exists(job.checkpoint):  # noqa: PTH110 - Path.exists raises where it may not look
            left[job.id] = job
        else:
            yield Unseen(job.id)
    try:
        yield from _measured(left, station)
    finally:
        if left:
            _bench.dismiss()


def _measured(left: dict[str, Job], station: Station) -> Iterator[FromNode]:
    """What the worker says of the jobs that are left, until none is.

    A worker that dies fails its job; of several, each is then measured alone, so that only the culprit fails.
    """
    together = len(left)
    while left:
        jobs = list(left.values())[:together]
        try:
            worker = _bench.worker(station)
        except OSError as error:
            died = f"no worker could be started ({error.strerror})"
            yield from (messages.Failed(left.pop(job.id).id, died, job.checkpoint, device="lost") for job in jobs)
            continue
        written = worker.log.stat().st_size
        yield from _conversation(left, jobs, worker, station)
        if worker.log.stat().st_size > written:
            yield Said("\n".join(log_tail(worker.log, LINES)))
        if worker.alive and not any(job.id in left for job in jobs):
            continue
        if len(jobs) == 1 and jobs[0].id in left:
            yield _death(left.pop(jobs[0].id), worker, station)
        _bench.dismiss()
        together = 1


def _conversation(
    left: dict[str, Job], jobs: Sequence[Job], worker: WorkerProcess, station: Station
) -> Iterator[FromNode]:
    """Hand jobs to the worker and pass on its words, until it is idle, or of no use any more."""
    worker.send(messages.Run([*jobs], group=station.group))
    quiet_until = 0.0
    while (message := _received(worker)) is not None:
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


def _received(worker: WorkerProcess) -> messages.FromWorker | None:
    try:
        return worker.receive()
    except (ValueError, msgspec.ValidationError):
        # it said what is no message; nothing it says from now on can be trusted
        worker.kill()
        return None


def _death(job: Job, worker: WorkerProcess, station: Station) -> messages.Failed:
    """What to say about a worker that is gone; one that never started says something about the node, not the job."""
    cause, words = worker.cause_of_death(), worker.last_words()
    if cause.endswith("SIGKILL"):
        time.sleep(LAST_MOMENT)
    what = f"its worker on {station.device} {cause}" if worker.ready else f"no worker could start ({cause})"
    hints = [f"its last words: {words}"] if words else []
    if cause.endswith("SIGKILL"):
        hints.append("the system may have run out of memory")
    return messages.Failed(job.id, what, job.checkpoint, "; ".join(hints), "" if worker.ready else "lost")


def _ray_logs() -> str | None:
    """The folder of Ray's own logs, which goes with the cluster: a process that Ray kills cleans up nothing itself."""
    worker: Any = importlib.import_module("ray._private.worker")
    node = getattr(worker, "_global_node", None)
    return None if node is None else node.get_logs_dir_path()


def _node_id() -> str:
    import ray

    found: str = ray.get_runtime_context().get_node_id()
    return found


def _device(station: Station) -> str:
    """The device as the node counts its own."""
    import ray

    if station.device == "cpu":
        return station.device
    gpus: Any = ray.get_gpu_ids()
    return f"cuda:{gpus[0]}" if gpus else station.device
