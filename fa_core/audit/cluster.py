"""Measuring on a Ray cluster (``--engine ray``): every job is a Ray task.

A task measures with torch in Ray's own process, on the GPU or core that Ray picks. Ray's retries
and health checks deal with processes and nodes that die. One child process (`main`) joins the
cluster and speaks a worker's messages: Ray ends the process of a driver that lost its cluster, and
that must be neither a command nor the explorer.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from fa_core.audit import messages
from fa_core.audit.devices import RAY, Execution, answering_cluster
from fa_core.audit.job_table import OnEvent
from fa_core.audit.jobs import Job
from fa_core.audit.messages import ChildProcess
from fa_core.audit.pool import Pool
from fa_core.audit.worker import MEASURE, Control, measure_and_send, measure_of
from fa_core.errors import FaError, MeasureError, UsageError

JOIN = 60.0
"""Timeout in seconds for joining a cluster or starting Ray on this machine."""

RETRIES = 2
"""Retries of a task whose process or node died."""

HOW_TO_JOIN = "`ray start --address=HOST:PORT` makes this machine a node; versions must match"

ENVIRONMENT = {"RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0", "RAY_USAGE_STATS_ENABLED": "0"}
"""Without this, `uv run` has every node install the user's folder."""

Outcome: TypeAlias = messages.Done | messages.Failed


def _never(_job_id: str) -> bool:
    """Never cancelled from inside: Ray ends the task."""
    return False


class ClusterPool(Pool):
    """Measures jobs on a Ray cluster: a worker pool whose one worker is the child that joined it,
    and has many jobs at a time.

    Args:
        execution: which cluster, and how.
        on_event: called with a job's view whenever it changes.
        on_notice: called with notes on the whole pool, e.g. which cluster it is.
    """

    at_once = 1024

    def __init__(
        self,
        execution: Execution,
        on_event: OnEvent | None = None,
        *,
        on_notice: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__([RAY], on_event, on_notice=on_notice)
        self._execution = execution

    def start_worker(self, device: str) -> ChildProcess:
        """Start the child that joins the cluster."""
        address = answering_cluster(self._execution.address)
        execution = msgspec.json.encode(replace(self._execution, address=address)).decode()
        return ChildProcess(
            ["fa_core.audit.cluster", execution, str(Path.cwd()), str(JOIN)],
            log=self.log_dir / "ray.log",
            environment=messages.environment(None) | ENVIRONMENT,
            says=messages.FromWorker,
        )


class Cluster:
    """Ray tasks for the jobs of one child process.

    Args:
        execution: which cluster, and how to measure.
        task: the arguments of `measure_there` after the job.
        send: writes to the client.
        is_cancelled: whether the client cancelled a job id.

    Raises:
        MeasureError: the cluster refuses this machine.
        UsageError: no node has the device that was asked for.
    """

    def __init__(
        self,
        execution: Execution,
        task: Sequence[object],
        send: Callable[[messages.FromWorker], None],
        is_cancelled: Callable[[str], bool],
    ) -> None:
        import ray

        self._ray, self._task, self._send, self._is_cancelled = ray, task, send, is_cancelled
        quiet = {"log_to_driver": False, "configure_logging": False}
        dashboard = None if execution.address != "local" else False
        try:
            ray.init(execution.address, include_dashboard=dashboard, **quiet)
        except Exception as error:
            why = str(error).strip().partition("\n")[0] or type(error).__name__
            raise MeasureError(
                f"the Ray cluster at {execution.address} cannot be joined ({why})", hint=HOW_TO_JOIN
            ) from error
        self._address = ray.get_runtime_context().gcs_address
        gpus = self._count("GPU")
        if execution.device.startswith("cuda") and not gpus:
            raise UsageError(f"--device {execution.device}: no node of the cluster offers a GPU")
        on_gpu = bool(gpus) and execution.device != "cpu"
        self._resource = "GPU" if on_gpu else "CPU"
        options = {"num_cpus": 1, "num_gpus": int(on_gpu), "max_retries": RETRIES}
        self._measure = ray.remote(num_returns="streaming", **options)(measure_there)
        self._waiting: deque[Job] = deque()
        self._running: dict[Iterator[object], Job] = {}
        self._unfinished: set[str] = set()
        self._waits = False

    def describe(self) -> str:
        """Address and size of the cluster, for a note."""
        nodes = sum(node["Alive"] for node in self._ray.nodes())
        places = f"{self._count(self._resource)} × {self._resource}"
        return f"Ray cluster at {self._address}: {nodes} nodes, {places} to measure on"

    def _count(self, resource: str) -> int:
        return int(self._ray.cluster_resources().get(resource, 0))

    def measure(self, jobs: Sequence[Job]) -> None:
        """Run jobs to their end."""
        self._unfinished = {job.id for job in jobs}
        self._waiting.extend(jobs)
        while self._unfinished:
            self._look()

    def _look(self) -> None:
        """Collect results, end cancelled tasks, submit waiting jobs."""
        self._look_at_places()
        for job_id in list(self._unfinished):
            if self._is_cancelled(job_id):
                self._finish(messages.Stopped(job_id))
        places = max(1, self._count(self._resource))
        while self._waiting and len(self._running) < places:
            job = self._waiting.popleft()
            if job.id in self._unfinished:
                self._running[self._measure.remote(job, *self._task)] = job
        if self._running:
            ready, _ = self._ray.wait([*self._running], timeout=0.2)
            for stream in ready:
                self._take_in(stream, self._running[stream])
        for stream, job in list(self._running.items()):
            if job.id not in self._unfinished:
                self._ray.cancel(stream, force=True)
                del self._running[stream]

    def _look_at_places(self) -> None:
        """Send a note once no node can measure."""
        waits = self._count(self._resource) == 0
        if waits and not self._waits:
            what = f"no node of the cluster has a {self._resource}; waiting for one to join"
            how = (
                f"`ray start --address={self._address}`; Ctrl-C ends, and what is measured is kept"
            )
            self._send(messages.Note("", f"{what} ({how})"))
        self._waits = waits

    def _take_in(self, stream: Iterator[object], job: Job) -> None:
        """Handle a task's start, outcome or death."""
        try:
            sent = self._ray.get(next(stream))
        except Exception as error:
            del self._running[stream]
            print(error, file=sys.stderr, flush=True)
            why = str(error).strip().partition("\n")[0] or type(error).__name__
            what = f"its task ended without a result: {why}"
            hint = messages.TRACEBACK_IN_LOG
            self._finish(messages.Failed(job.id, what, job.checkpoint, hint))
            return
        if not sent:
            self._send(messages.Begun(job.id))
            return
        del self._running[stream]
        for message in sent:
            if isinstance(message, messages.Note):
                self._send(message)
            else:
                self._finish(message)

    def _finish(self, outcome: Outcome | messages.Stopped) -> None:
        """Report a job's outcome exactly once."""
        if outcome.job_id in self._unfinished:
            self._unfinished.discard(outcome.job_id)
            self._send(outcome)


def measure_there(job: Job, measure: str, cwd: str) -> Iterator[list[Outcome | messages.Note]]:
    """Measure a job in this process, which is Ray's: the body of a task.

    Yields:
        An empty list at the start; then notes, and the outcome.
    """
    import ray

    yield []
    if Path(cwd).is_dir():
        os.chdir(cwd)
    device = "cuda:0" if ray.get_gpu_ids() else "cpu"
    place = f"{socket.gethostname()} ({ray.util.get_node_ip_address()})"
    sent: list[messages.FromWorker] = []
    measure_and_send(job, device, measure_of(measure, cwd), sent.append, _never)
    found: list[Outcome | messages.Note] = []
    for message in sent:
        if isinstance(message, messages.Done):
            message.report.setdefault("provenance", {})["node"] = place
            found.append(message)
        elif isinstance(message, messages.Failed):
            found.append(replace(message, what=f"{message.what} (on {place})"))
        elif isinstance(message, messages.Note):
            found.append(message)
    yield found


def leave() -> None:
    """Stop Ray's processes on this machine; gives up after a moment."""
    threading.Timer(3.0, os._exit, [0]).start()
    if "ray" in sys.modules:
        sys.modules["ray"].shutdown()


def main() -> None:
    """Join the cluster and measure the client's jobs until stdin closes."""
    execution = msgspec.json.decode(sys.argv[1], type=Execution)
    cwd, seconds = sys.argv[2:]
    stdout = messages.private_stdout()
    control = Control(sys.stdin.buffer, on_end=leave)

    def send(message: messages.FromWorker) -> None:
        with control.sending:
            stdout.write(messages.encode(message))
            stdout.flush()

    def give_up() -> None:
        what = f"the Ray cluster at {execution.address} does not answer within {float(seconds):g} s"
        send(messages.Failed("", what, hint=HOW_TO_JOIN))
        os._exit(1)

    control.start()
    limit = threading.Timer(float(seconds), give_up)
    limit.start()
    try:
        # the nodes have no environment of ours
        task = (os.environ.get(MEASURE, ""), cwd)
        cluster = Cluster(execution, task, send, control.is_cancelled)
        limit.cancel()
        send(messages.Note("", cluster.describe()))
        send(messages.Ready())
        while True:
            cluster.measure(control.runs.get().jobs)
            send(messages.Idle())
    except FaError as error:
        send(messages.Failed("", error.what, hint=error.hint))
        os._exit(1)


if __name__ == "__main__":
    # not this `__main__`: nodes import the task from its module
    from fa_core.audit import cluster

    cluster.main()
