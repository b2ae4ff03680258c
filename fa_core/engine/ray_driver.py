"""The driver: the one process that imports Ray. Reads jobs from stdin, has Ray place them, writes
events to stdout.

Started by `fa_core.engine.ray_pool`, and ends when its stdin closes. What Ray prints goes to its
stderr, a log file.

Ray's own retries stay off (``max_retries=0``): it retries silently, on the same nodes, and not at
all while a node is frozen. `Jobs` submits again instead, knows why, and keeps away from the nodes
that failed.
"""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import ray
from msgspec.structs import replace

from fa_core.engine import messages
from fa_core.engine.jobs import Job
from fa_core.engine.ray_task import measure_here
from fa_core.errors import FaError, MeasureError, UsageError

LIVES = 4
"""How often a job may lose the node or the process it runs in: one that takes them with it must end
some time."""

AVOIDED_FOR = 60.0
"""Seconds that nothing is placed on a node that lost a job or fell silent, unless it is heard of
before."""

LOOK_EVERY = 1.0
"""Seconds between two looks at the nodes and the deadlines."""

TICK = 0.1
"""Seconds that a new job may wait while others are listened to."""

FETCH = 10.0
"""Seconds that a message may take from its node to the driver."""

EXIT_TIMEOUT = 3.0
"""Seconds that leaving the cluster may take."""

STORE = 100 << 20
"""Bytes of Ray's object store where it is started here: reports are a few KB, and go through no
store."""

Send = Callable[[messages.FromDriver], None]
Start = Callable[[Sequence[Job], frozenset[str]], Any]


class Nodes:
    """The nodes of the cluster, and what the client is shown of them.

    Args:
        device: what a job is measured on: ``"cpu"`` or ``"cuda:0"``.
        address: where the cluster is, for those that are to join it.
        send: writes to the client.

    Attributes:
        waiting: why jobs wait that no node can begin; ``""`` = they do not.
    """

    def __init__(self, device: str, address: str, send: Send) -> None:
        self._device, self._address, self._send = device, address, send
        self._resource, self._place = ("CPU", "core") if device == "cpu" else ("GPU", "GPU")
        self._names: dict[str, str] = {}
        self._heard: dict[str, float] = {}
        self._avoided: dict[str, float] = {}
        self._known: set[str] = set()
        self._slots: int | None = None
        self.waiting = ""

    def able(self) -> set[str]:
        """The living nodes that can measure."""
        return {
            node["NodeID"] for node in _alive() if node["Resources"].get(self._resource, 0) >= 1
        }

    def heard(self, node_id: str) -> None:
        """A node sent a message: it works."""
        self._heard[node_id] = time.monotonic()

    def silent(self, seconds: float) -> set[str]:
        """The nodes that sent nothing for this long although they seem to have a free place."""
        if ray.available_resources().get(self._resource, 0) < 1:
            return set()
        since = time.monotonic() - seconds
        return {node_id for node_id in self.able() if self._heard.get(node_id, 0.0) < since}

    def avoid(self, node_ids: Iterable[str]) -> None:
        """Place nothing on these nodes for a while."""
        self._avoided.update(dict.fromkeys(node_ids, time.monotonic()))

    def avoided(self) -> set[str]:
        """The nodes to place nothing on now."""
        lately = time.monotonic() - AVOIDED_FOR
        return {
            node
            for node, since in self._avoided.items()
            if since > max(lately, self._heard.get(node, lately))
        }

    def describe(self) -> str:
        """What there is at this moment, as text."""
        alive = _alive()
        return f"{_count(len(alive), 'node')}, {_count(_total(alive, self._resource), self._place)} to measure on"

    def name(self, node_id: str) -> str:
        """Name and address of a node, also of one that is gone: the name its administrator gave it,
        or the host's."""
        if node_id not in self._names:
            for node in ray.nodes():
                address = node["NodeManagerAddress"]
                given = node.get("NodeName") or address
                if given == address:
                    name = node["NodeManagerHostname"]
                else:
                    name = given
                self._names[node["NodeID"]] = f"{name} ({address})"
        return self._names.get(node_id, node_id[:8])

    def look(self, begun: Mapping[str, int]) -> set[str]:
        """Report which nodes came and went since the last look.

        Args:
            begun: node → how many of the runs that are not over it has begun.

        Returns:
            The nodes that are gone since then.
        """
        slots, living = _total(_alive(), self._resource), self.able()
        if slots != self._slots:
            self._slots = slots
            self._send(messages.Capacity(slots, self._device))
        departed, self._known = self._known - living, living
        for node_id in sorted(departed, key=self.name):
            runs = begun.get(node_id)
            if runs:
                had = f"; it had {_count(runs, 'run')}, to be measured elsewhere"
            else:
                had = ""
            self._send(messages.Note([], f"node {self.name(node_id)} is gone{had}"))
            self.waiting = ""  # runs that wait again after a node came and went are reported again
        return departed

    def explain(self, unplaced: Sequence[str]) -> None:
        """Report that jobs wait for a node that can measure, or that they no longer do, when that
        has changed.

        Args:
            unplaced: the ids of those that no node has begun.
        """
        why = ""
        if unplaced and not self._slots:
            why = (
                f"no node of the cluster has a {self._place} to measure on; waiting for one to join "
                f"({messages.how_to_join(self._address)}; Ctrl-C ends, and what is measured is kept)"
            )
        if why == self.waiting:
            return
        self.waiting = why
        if unplaced:  # a note without jobs is one on the cluster
            self._send(messages.Note([*unplaced], why))
        if why or self._slots:
            self._send(
                messages.Note(
                    [], why or f"going on: {_count(self._slots or 0, self._place)} to measure on"
                )
            )


@dataclass(eq=False)
class Task:
    """A Ray task that measures jobs on one node.

    Attributes:
        generator: its stream of object references.
        jobs: the ids of those whose end it has not reported yet.
        avoid: the nodes that it must not be placed on.
        node_id: where it runs; ``""`` = not placed yet.
    """

    generator: Any
    jobs: set[str]
    avoid: frozenset[str]
    node_id: str = ""


@dataclass(eq=False)
class Tries:
    """What was tried for one job.

    Attributes:
        timeout: seconds without a message after which it is tried on another node as well.
        deadline: when that is.
        begun: the nodes that have begun it.
        useless: the nodes that cannot measure it, and what it comes to if none is left.
        lives: how many more nodes or processes it may lose.
        note: why it is to be tried again.
    """

    job: Job
    timeout: float
    deadline: float = 0.0
    begun: set[str] = field(default_factory=set)
    useless: dict[str, messages.Failed] = field(default_factory=dict)
    lives: int = LIVES
    note: str = ""

    def wait(self) -> None:
        """Start its timeout again."""
        self.deadline = time.monotonic() + self.timeout


class Jobs:
    """Sees every job to its end, exactly once, on as many nodes as that takes: the first result
    wins.

    `hear` and `lost` take down what happened; what is to be started or stopped for it is decided by
    `look` alone.

    Args:
        nodes: the cluster's nodes.
        patience: seconds that a job may send no message.
        send: writes to the client.
        start: (jobs, nodes to avoid) → the generator of a Ray task.
        stop: ends such a task by force, with the process it runs in.
    """

    def __init__(
        self, nodes: Nodes, patience: float, send: Send, start: Start, stop: Callable[[Any], None]
    ) -> None:
        self._nodes, self._patience, self._send, self._start, self._stop = (
            nodes,
            patience,
            send,
            start,
            stop,
        )
        self._tries: dict[str, Tries] = {}
        self.tasks: list[Task] = []

    def begin(self, jobs: Sequence[Job]) -> None:
        """Submit jobs as one task."""
        tries = [Tries(job, self._patience) for job in jobs]
        self._tries.update((tried.job.id, tried) for tried in tries)
        self._submit(tries)

    def cancel(self, job_id: str) -> None:
        """Drop a job; its result is not reported."""
        self._tries.pop(job_id, None)

    def hear(self, task: Task, message: messages.FromNode) -> None:
        """A node sent a message about jobs of a task."""
        tries = self._unfinished(task)
        for tried in tries:
            tried.wait()
        if isinstance(message, messages.Placed):
            task.node_id = message.node
        self._nodes.heard(task.node_id)
        place = self._nodes.name(task.node_id)
        match message:
            case messages.Placed(device=device):
                ids = [tried.job.id for tried in tries]
                for tried in tries:
                    tried.begun.add(task.node_id)
                if self._nodes.waiting:
                    self._send(messages.Note(ids, ""))
                self._send(messages.Placed(ids, place.partition(" ")[0], device))
            case messages.Note(job_ids=[], text=text):
                print(f"{place} said:\n{text}", file=sys.stderr, flush=True)
            case messages.Failed(job_id="", what=what):
                self.lost(task, what)
            case messages.Done(job_id=job_id) | messages.Failed(job_id=job_id):
                task.jobs.discard(job_id)
                if job_id in self._tries:
                    self._ended(self._tries[job_id], task.node_id, message)
            case messages.Begun() | messages.Progress() | messages.Note():
                self._send(message)

    def lost(self, task: Task, why: str) -> None:
        """A task, or the process or node it ran on, is gone."""
        self.tasks.remove(task)
        tries, place = self._unfinished(task), "before it had begun"
        if task.node_id and tries:
            self._nodes.avoid([task.node_id])
            place = f"on {self._nodes.name(task.node_id)}"
        for tried in tries:
            tried.lives -= 1
            tried.note = f"lost {place}: measured again ({why})"
            if not tried.lives:
                what = f"lost {LIVES} times, last {place}: {why}"
                self._finish(
                    messages.Failed(
                        tried.job.id, what, tried.job.checkpoint, messages.TRACEBACK_IN_LOG
                    )
                )

    def look(self) -> None:
        """Start and stop tasks for what happened, for the nodes that are there now, and for
        deadlines that passed."""
        departed = self._nodes.look(
            Counter(node_id for tried in self._tries.values() for node_id in tried.begun)
        )
        for task in [task for task in self.tasks if task.node_id in departed]:
            self.lost(
                task, "the node is gone"
            )  # Ray reports it minutes later where the node fell silent
        able = self._nodes.able()
        placed = {job_id for task in self.tasks if task.node_id for job_id in task.jobs}
        for task in [*self.tasks]:
            wanted = task.jobs & self._tries.keys()
            elsewhere = not task.node_id and (
                wanted <= placed or (bool(able) and able <= task.avoid)
            )
            if elsewhere or (task.jobs and not wanted):
                self.tasks.remove(task)
                self._stop(task.generator)
        submitted = {job_id for task in self.tasks for job_id in task.jobs}
        for tried in [*self._tries.values()]:
            if tried.job.id not in submitted:
                self._try_again(tried)
            elif time.monotonic() >= tried.deadline:
                self._after_silence(tried)
        self._nodes.explain([job_id for job_id in self._tries if job_id not in placed])

    def _unfinished(self, task: Task) -> list[Tries]:
        return [self._tries[job_id] for job_id in task.jobs if job_id in self._tries]

    def _ended(self, tried: Tries, node_id: str, end: messages.Done | messages.Failed) -> None:
        """A job came back: with a report, with a fault of the run, or with one of the node, other
        nodes may do."""
        place = self._nodes.name(node_id)
        if isinstance(end, messages.Done):
            facts = {**end.report.get("provenance", {}), "node": place}
            self._finish(replace(end, report={**end.report, "provenance": facts}))
            return
        if end.device == messages.UNSEEN:
            what = f"{end.what} on {place}"
        else:
            what = f"{end.what} (on {place})"
        end = replace(end, what=what, where=end.where or tried.job.checkpoint)
        if end.device:
            tried.useless[node_id] = end
            tried.note = f"{what}: tried on another node"
        else:
            self._finish(end)

    def _finish(self, end: messages.Done | messages.Failed) -> None:
        del self._tries[end.job_id]
        self._send(end)

    def _after_silence(self, tried: Tries) -> None:
        """Try a job elsewhere in addition to the tasks that are silent; a late result of theirs
        still counts.

        One that no node has begun waits its turn where every place is taken and every node works.
        """
        waited, nodes = tried.timeout, self._nodes
        tried.timeout *= 2  # or a slow job would occupy every node in turn
        tried.wait()
        placed = {task.node_id for task in self.tasks if task.node_id and tried.job.id in task.jobs}
        nodes.avoid(placed or nodes.silent(waited))
        silent = placed or nodes.avoided()
        said = f"no word from {self._names(silent)} for {waited:.0f} s"
        if silent and nodes.able() - nodes.avoided() - tried.useless.keys():
            self._send(messages.Note([tried.job.id], f"{said}: tried on another node"))
            self._submit([tried])
        elif placed:
            self._send(messages.Note([tried.job.id], f"{said}, and no other node can measure it"))

    def _try_again(self, tried: Tries) -> None:
        """Submit a job that no task measures, alone; it ends here if no node is left that could."""
        if tried.useless and not self._nodes.able() - tried.useless.keys():
            end = [*tried.useless.values()][-1]
            if end.device == messages.UNSEEN:
                blind = self._names(
                    node for node, fault in tried.useless.items() if fault.device == messages.UNSEEN
                )
                what = f"no node of the cluster sees it: it is not there on {blind}"
                end = replace(
                    end, what=what, hint="put it on a disk that every node mounts at this path"
                )
            self._finish(end)
            return
        if tried.note:
            self._send(messages.Note([tried.job.id], tried.note))
        self._send(messages.Placed([tried.job.id]))
        self._submit([tried])

    def _submit(self, tries: Sequence[Tries]) -> None:
        """Start a task where it can succeed; on a node that is avoided only if no other is left."""
        useless = frozenset(node_id for tried in tries for node_id in tried.useless)
        avoid = useless | self._nodes.avoided()
        if not self._nodes.able() - avoid:
            avoid = useless
        generator = self._start([tried.job for tried in tries], avoid)
        self.tasks.append(Task(generator, {tried.job.id for tried in tries}, avoid))
        for tried in tries:
            tried.wait()

    def _names(self, node_ids: Iterable[str]) -> str:
        return ", ".join(sorted(map(self._nodes.name, node_ids)))


def _alive() -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


def _total(nodes: Iterable[Mapping[str, Any]], resource: str) -> int:
    return sum(int(node["Resources"].get(resource, 0)) for node in nodes)


def _count(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def listen(jobs: Jobs) -> None:
    """Pass on what the tasks have streamed, waiting a moment for it.

    Raises:
        LocalRayletDiedError: this machine's Ray node is gone: no task can succeed any more, and
            none is to blame.
    """
    waiting = {task.generator: task for task in jobs.tasks}
    ready, _ = ray.wait([*waiting], timeout=TICK)
    if ready:
        ready, _ = ray.wait([*waiting], num_returns=len(waiting), timeout=0)
    for generator in ready:
        task = waiting[generator]
        try:
            message = ray.get(next(generator), timeout=FETCH)
        except StopIteration:
            jobs.lost(task, "its task ended without a result")
        except Exception as error:
            print(error, file=sys.stderr, flush=True)
            jobs.lost(task, _why_lost(error))
        else:
            jobs.hear(task, message)


def _why_lost(error: Exception) -> str:
    """Why a task ended without its results, in one line; raises what ends all tasks."""
    if isinstance(error, ray.exceptions.LocalRayletDiedError):
        raise error
    if "No module named 'fa_core" in str(error):
        return "fa-tui is not installed there; install it on every node, at the same version"
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[-1 if isinstance(error, ray.exceptions.RayTaskError) else 0][:300]


def connect(address: str) -> str:
    """Join a cluster as its driver.

    Args:
        address: ``host:port``; ``auto`` = the one that was started on this machine; ``local`` =
            start one here, which ends with this process.

    Returns:
        Which cluster it is, as text.

    Raises:
        MeasureError: it refuses this machine.
    """
    options: dict[str, Any] = {"log_to_driver": False, "configure_logging": False}
    if address == "local":
        options |= {"include_dashboard": False, "object_store_memory": STORE}
    try:
        ray.init(address, **options)
    except Exception as error:
        why = next(iter(str(error).strip().splitlines()), type(error).__name__)[:300]
        if address == "local":
            raise MeasureError(f"Ray does not start on this machine ({why})") from error
        hint = f"it must list this machine ({messages.how_to_join(address)}), with the same Ray, Python and token"
        raise MeasureError(
            f"the Ray cluster at {address} cannot be joined ({why})", hint=hint
        ) from error
    if address == "local":
        return "Ray started on this machine, until this ends"
    return (
        f"Ray cluster at {ray.get_runtime_context().gcs_address if address == 'auto' else address}"
    )


def jobs_of(setup: messages.Setup, send: Send) -> Jobs:
    """Join the cluster: what sees jobs to their end there.

    Raises:
        MeasureError: it refuses this machine.
        UsageError: no node has what was asked for.
    """
    cluster = connect(setup.address)
    gpus = _total(_alive(), "GPU")
    if setup.device.startswith("cuda") and not gpus:
        what = f"--device {setup.device}: no node of the cluster offers a GPU"
        raise UsageError(what, hint="`ray status` lists them")
    on_gpu = gpus > 0 and setup.device != "cpu"
    for_nodes = replace(setup, device="cuda:0" if on_gpu else "cpu")
    nodes = Nodes(for_nodes.device, ray.get_runtime_context().gcs_address, send)
    # a task with a GPU ends its process unless max_calls is 0, and with it the warm worker
    options = {
        "num_cpus": 1,
        "num_gpus": int(on_gpu),
        "max_retries": 0,
        "max_calls": 0,
        "num_returns": "streaming",
    }
    task = ray.remote(**options)(measure_here)

    def start(jobs: Sequence[Job], avoid: frozenset[str]) -> Any:
        if avoid:
            selector = {"ray.io/node-id": f"!in({','.join(sorted(avoid))})"}
        else:
            selector = {}
        return task.options(label_selector=selector).remote([*jobs], for_nodes)

    def stop(generator: Any) -> None:
        with contextlib.suppress(Exception):
            ray.cancel(generator, force=True)

    send(messages.Note([], f"{cluster}: {nodes.describe()}"))
    return Jobs(nodes, setup.patience, send, start, stop)


def read_messages(inbox: queue.SimpleQueue[messages.ToWorker | None]) -> None:
    """Queue the client's messages, then None when it is gone; a cluster that is silent does not
    delay the exit."""
    for line in sys.stdin.buffer:
        inbox.put(messages.decode(line, messages.ToWorker))
    inbox.put(None)
    time.sleep(EXIT_TIMEOUT)
    os._exit(0)


def serve(jobs: Jobs, inbox: queue.SimpleQueue[messages.ToWorker | None]) -> None:
    """Run jobs until the client is gone."""
    look_at = 0.0
    while True:
        if time.monotonic() >= look_at:
            jobs.look()
            look_at = time.monotonic() + LOOK_EVERY
        with contextlib.suppress(queue.Empty):
            while (message := inbox.get(timeout=0 if jobs.tasks else LOOK_EVERY)) is not None:
                match message:
                    case messages.Run(jobs=new):
                        jobs.begin(new)
                    case messages.Cancel(job_id=job_id):
                        jobs.cancel(job_id)
            return
        listen(jobs)


def main() -> None:
    """Connect, and serve until stdin closes."""
    setup: messages.Setup = messages.decode(sys.argv[1], messages.Setup)
    out = messages.private_stdout()
    inbox: queue.SimpleQueue[messages.ToWorker | None] = queue.SimpleQueue()
    threading.Thread(target=read_messages, args=(inbox,), daemon=True).start()

    def send(message: messages.FromDriver) -> None:
        out.write(messages.encode(message))
        out.flush()

    try:
        serve(jobs_of(setup, send), inbox)
    except FaError as error:
        send(messages.Failed("", error.what, error.where, error.hint))
    except ray.exceptions.LocalRayletDiedError:
        join = messages.how_to_join(ray.get_runtime_context().gcs_address)
        if setup.address != "local":
            begin = f"{join} starts another one, then "
        else:
            begin = ""
        hint = f"{begin}the same command with --resume measures the rest"
        send(messages.Failed("", "this machine's Ray node died", hint=hint))
    ray.shutdown()
    os._exit(0)


if __name__ == "__main__":
    main()
