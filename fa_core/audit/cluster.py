"""Measuring on a Ray cluster (``--engine ray``): every job is a Ray task, placed, retried and
killed by Ray.

One child process (`main`) joins the cluster and speaks a worker's messages: Ray ends the process of
a driver that lost its cluster, and that must be neither a command nor the explorer. In it a thread
waits for each task.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from pathlib import Path
from typing import TypeAlias

from msgspec.structs import replace

from fa_core.audit import messages
from fa_core.audit.devices import RAY, Execution, answering_cluster
from fa_core.audit.jobs import Cancelled, Job, JobProgress, OnNote, ignore
from fa_core.audit.messages import ChildProcess
from fa_core.audit.pool import OnEvent, Pool
from fa_core.audit.worker import MEASURE, Client, Measure, failure, measure_and_send, measure_of
from fa_core.errors import MeasureError, UsageError, first_line
from fa_core.files.decode import Json

JOIN = 60.0
"""Timeout in seconds for joining a cluster."""

LOOK = 0.2
"""Seconds between looks for places and for cancelled jobs."""

RETRIES = 2
"""Retries of a task whose process or node died."""

HOW_TO_JOIN = "`ray start --address=HOST:PORT` makes this machine a node; versions must match"

ENVIRONMENT = {"RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0", "RAY_USAGE_STATS_ENABLED": "0"}
"""Without this, `uv run` has every node install the user's folder."""


Answer: TypeAlias = tuple[list[str], Json | messages.Failed]
"""Notes on a job, and its report or failure."""


class ClusterPool(Pool):
    """Measures jobs on a Ray cluster: a worker pool whose one worker is the child that joined it,
    and has many jobs at a time.

    Args:
        execution: which cluster, and how.
        on_event, on_notice: as in `Pool`.
    """

    at_once = 1024

    def __init__(
        self,
        execution: Execution,
        on_event: OnEvent,
        *,
        on_notice: OnNote = ignore,
    ) -> None:
        super().__init__([RAY], on_event, on_notice=on_notice)
        self._execution = execution

    def start_worker(self, device: str) -> ChildProcess:
        """Start the child that joins the cluster."""
        address = answering_cluster(self._execution.address)
        return ChildProcess(
            ["fa_core.audit.cluster", address, self._execution.device, str(Path.cwd()), str(JOIN)],
            log=self.log_dir / "ray.log",
            environment=messages.environment(None) | ENVIRONMENT,
        )


def join(address: str, device: str) -> str:
    """Join a cluster; returns what a job takes of it, ``"GPU"`` or ``"CPU"``.

    Raises:
        MeasureError: the cluster refuses this machine.
        UsageError: no node has the device that was asked for.
    """
    import ray

    try:
        ray.init(address, configure_logging=False)
    except Exception as error:
        raise MeasureError(
            f"the Ray cluster at {address} cannot be joined ({first_line(error)})", hint=HOW_TO_JOIN
        ) from error
    has_gpus = places("GPU") > 0
    if device.startswith("cuda") and not has_gpus:
        raise UsageError(f"--device {device}: no node of the cluster offers a GPU")
    return "GPU" if has_gpus and device != "cpu" else "CPU"


def places(resource: str) -> int:
    """How many jobs the nodes can measure at a time."""
    import ray

    return int(ray.cluster_resources().get(resource, 0))


def measure_there(job: Job, measure: str, cwd: str) -> Answer:
    """The body of a task, in Ray's own process."""
    import ray

    if Path(cwd).is_dir():
        os.chdir(cwd)
    device = "cuda:0" if ray.get_gpu_ids() else "cpu"
    place = f"{socket.gethostname()} ({ray.util.get_node_ip_address()})"
    notes: list[str] = []
    try:
        report = measure_of(measure, cwd)(job, device, JobProgress(note=notes.append))
    except (Exception, SystemExit) as error:  # a network's own code may exit
        failed = failure(job, error)
        return notes, replace(failed, what=f"{failed.what} (on {place})")
    report.setdefault("provenance", {})["node"] = place
    return notes, report


def measure_by(resource: str, cwd: str) -> Measure:
    """A `Measure` that has a node of the cluster do it."""
    import ray

    of_a_task = ray.remote(num_cpus=1, num_gpus=int(resource == "GPU"), max_retries=RETRIES)
    remote = of_a_task(measure_there)
    # the nodes have no environment of ours
    named = os.environ.get(MEASURE, "")

    def measure(job: Job, _device: str, progress: JobProgress) -> Json:
        task = remote.remote(job, named, cwd)
        try:
            while not ray.wait([task], timeout=LOOK)[0]:
                progress.check()
        except Cancelled:
            ray.cancel(task, force=True)
            raise
        try:
            answer: Answer = ray.get(task)
        except Exception as error:
            print(error, file=sys.stderr, flush=True)
            raise MeasureError(
                f"its task ended without a result: {first_line(error)}",
                where=job.checkpoint,
                hint=messages.TRACEBACK_IN_LOG,
            ) from error
        notes, outcome = answer
        for note in notes:
            progress.note(note)
        if isinstance(outcome, messages.Failed):
            raise MeasureError(outcome.what, where=outcome.where, hint=outcome.hint)
        return outcome

    return measure


def serve(client: Client, resource: str, cwd: str) -> None:
    """Measure the client's jobs, as many at a time as there are places, and wait for a place where
    there is none."""
    import ray

    address = ray.get_runtime_context().gcs_address
    nodes = sum(node["Alive"] for node in ray.nodes())
    there = f"{nodes} nodes, {places(resource)} × {resource} to measure on"
    client.send(messages.Note("", f"Ray cluster at {address}: {there}"))
    client.send(messages.Ready())
    measure = measure_by(resource, cwd)
    running: list[threading.Thread] = []
    while True:
        job = client.jobs.get()
        if not places(resource):
            what = f"no node of the cluster has a {resource}; waiting for one to join"
            how = f"`ray start --address={address}`; Ctrl-C ends, and what is measured is kept"
            client.send(messages.Note("", f"{what} ({how})"))
        while len(running) >= places(resource) and not client.is_cancelled(job.id):
            time.sleep(LOOK)
            running = [thread for thread in running if thread.is_alive()]
        doing = (job, RAY, measure, client)
        running.append(threading.Thread(target=measure_and_send, args=doing, daemon=True))
        running[-1].start()


def main() -> None:
    """Join the cluster and measure the client's jobs until stdin closes; arguments: address,
    device, working folder, seconds for joining."""
    address, device, cwd, seconds = sys.argv[1:]
    client = Client()

    def give_up() -> None:
        what = f"the Ray cluster at {address} does not answer within {float(seconds):g} s"
        client.send(messages.Failed("", what, hint=HOW_TO_JOIN))
        os._exit(1)

    with client.served():
        limit = threading.Timer(float(seconds), give_up)
        limit.start()
        resource = join(address, device)
        limit.cancel()
        serve(client, resource, cwd)


if __name__ == "__main__":
    # not this `__main__`: nodes import the task from its module
    from fa_core.audit import cluster

    cluster.main()
