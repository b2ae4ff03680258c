"""The driver: the one process that imports Ray. Reads jobs from stdin, has Ray place them, writes events to stdout.

Started by `fa_core.engine.ray_pool`, and ends when its stdin closes. What Ray prints goes to its stderr, a log file.

Ray's own retries stay off (``max_retries=0``): it retries silently, on the same nodes, and not at all while a node is
frozen. `Jobs` submits again instead, knows why, and keeps away from the nodes that failed.
"""

from __future__ import annotations

import contextlib
import os
import queue
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import IO, Any

import ray
from msgspec.structs import replace

from fa_core.engine import messages
from fa_core.engine.jobs import Job
from fa_core.engine.ray_task import measure_here
from fa_core.errors import FaError, MeasureError, UsageError

LIVES = 4
"""How often a job may lose the node or the process it runs in: one that takes them with it must end some time."""

AVOIDED_FOR = 60.0
"""Seconds that nothing is placed on a node that lost a job or fell silent, unless it is heard of before."""

PLACED_WITHIN = 30.0
"""Seconds after which runs that no node has begun are said to wait: starting a process takes some, too."""

LOOK_EVERY = 1.0
"""Seconds between two looks at the nodes and the deadlines."""

TICK = 0.1
"""Seconds that a new job may wait while others are listened to."""

FETCH = 10.0
"""Seconds that a message may take from its node to the driver."""

EXIT_TIMEOUT = 3.0
"""Seconds that leaving the cluster may take."""

STORE = 100 << 20
"""Bytes of Ray's object store where it is started here: reports are a few KB, and go through no store."""

Send = Callable[[messages.FromDriver], None]


class Nodes:
    """The nodes of the cluster, and what the client is shown of them.

    Args:
        resource: what a node must have to measure: ``"GPU"`` or ``"CPU"``.
        address: where the cluster is, for those that are to join it.
        send: writes to the client.

    Attributes:
        waiting: why jobs wait that no node can begin; ``""`` = they do not.
    """

    def __init__(self, resource: str, address: str, send: Send) -> None:
        self._resource, self._address, self._send = resource, address, send
        self._place = {"GPU": "GPU", "CPU": "core"}[resource]
        self._names: dict[str, str] = {}
        self._heard: dict[str, float] = {}
        self._avoided_until: dict[str, float] = {}
        self._known: set[str] = set()
        self._slots: int | None = None
        self._placed = time.monotonic()
        self.waiting = ""

    def able(self) -> set[str]:
        """The living nodes that can measure."""
        return {node["NodeID"] for node in _alive() if node["Resources"].get(self._resource, 0) >= 1}

    def free(self) -> int:
        """How many places are not taken."""
        return int(ray.available_resources().get(self._resource, 0))

    def heard(self, node_id: str) -> None:
        """A node sent a message: it works."""
        self._heard[node_id] = time.monotonic()
        self._avoided_until.pop(node_id, None)
        self._known.add(node_id)

    def silent(self, seconds: float) -> set[str]:
        """The nodes that sent nothing for this long; not a fault of those that had nothing to do."""
        since = time.monotonic() - seconds
        return {node_id for node_id in self.able() if self._heard.get(node_id, 0.0) < since}

    def avoid(self, node_ids: Iterable[str]) -> None:
        """Place nothing on these nodes for a while."""
        self._avoided_until.update(dict.fromkeys(node_ids, time.monotonic() + AVOIDED_FOR))

    def avoided(self) -> set[str]:
        """The nodes to place nothing on now."""
        now = time.monotonic()
        return {node_id for node_id, until in self._avoided_until.items() if until > now}

    def describe(self) -> str:
        """What there is at this moment, as text."""
        alive = _alive()
        words = [_count(len(alive), "node")]
        words += [_count(_total(alive, kind), word) for kind, word in (("CPU", "core"), ("GPU", "GPU"))]
        if not _total(alive, self._resource):
            words.append("which cannot measure" if len(alive) == 1 else "none of which can measure")
        return ", ".join(text for text in words if not text.startswith("0 "))

    def name(self, node_id: str) -> str:
        """Name and address of a node, also of one that is gone: the name its administrator gave it, or the host's."""
        if node_id not in self._names:
            for node in ray.nodes():
                address = node["NodeManagerAddress"]
                given = node.get("NodeName") or address
                name = node["NodeManagerHostname"] if given == address else given
                self._names[node["NodeID"]] = f"{name} ({address})"
        return self._names.get(node_id, node_id[:8])

    def names(self, node_ids: Iterable[str]) -> str:
        """Several nodes, as text."""
        return ", ".join(sorted(self.name(node_id) for node_id in node_ids))

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
            self._send(messages.Capacity(slots))
        departed, self._known = self._known - living, living
        for node_id in sorted(departed, key=self.name):
            gone = f"node {self.name(node_id)} is gone"
            if runs := begun.get(node_id):
                are = ("is" if runs == 1 else "are") if slots else "must be"
                gone += f"; its {_count(runs, 'run')} {are} measured elsewhere"
            self._send(messages.Note([], gone))
            self.waiting = ""  # runs that wait again after a node came and went are reported again
        return departed

    def explain(self, unplaced: Sequence[str], at_work: bool) -> None:
        """Report why jobs wait, or that they no longer do, when that has changed.

        Args:
            unplaced: the ids of those that no node has begun.
            at_work: whether a node measures others.
        """
        why = ""
        if at_work or not unplaced:
            self._placed = time.monotonic()
        elif not self._slots:
            why = (
                f"no node of the cluster has a {self._place} to measure on; waiting for one to join "
                f"({messages.how_to_join(self._address)}; Ctrl-C ends, and what is measured is kept)"
            )
        elif time.monotonic() - self._placed >= PLACED_WITHIN and not self.free():
            why = f"every {self._place} of the cluster is taken; waiting for one to be free"
        if why == self.waiting:
            return
        self.waiting = why
        self._send(messages.Note([*unplaced], why))
        if why or self._slots:
            self._send(messages.Note([], why or f"going on: {_count(self._slots or 0, self._place)} to measure on"))


@dataclass(eq=False)
class Task:
    """A Ray task that measures jobs on one node.

    Attributes:
        generator: its stream of object references.
        jobs: those whose end it has not reported yet, by id.
        avoid: the nodes that it must not be placed on.
        node_id: where it runs; ``""`` = not placed yet.
    """

    generator: Any
    jobs: dict[str, Tries]
    avoid: frozenset[str]
    node_id: str = ""


@dataclass(eq=False)
class Tries:
    """What was tried for one job.

    Attributes:
        timeout: seconds without a message after which it is tried on another node as well.
        deadline: when that is.
        tasks: those that may still measure it.
        begun: the nodes that have begun it.
        useless: the nodes that cannot measure it, and what it comes to if none is left.
        lives: how many more nodes or processes it may lose.
    """

    job: Job
    timeout: float
    deadline: float = 0.0
    tasks: list[Task] = field(default_factory=list)
    begun: set[str] = field(default_factory=set)
    useless: dict[str, messages.Failed] = field(default_factory=dict)
    lives: int = LIVES

    @property
    def placed(self) -> set[str]:
        """The nodes where a task of it is at work."""
        return {task.node_id for task in self.tasks if task.node_id}

    def wait(self) -> None:
        """Start its timeout again."""
        self.deadline = time.monotonic() + self.timeout


class Jobs:
    """Sees every job to its end, exactly once, on as many nodes as that takes: the first result wins.

    Args:
        nodes: the cluster's nodes.
        patience: seconds that a job may send no message.
        send: writes to the client.
        start: (jobs, nodes to avoid) → the generator of a Ray task.
        stop: ends such a task by force, with the process it runs in.
    """

    def __init__(
        self,
        nodes: Nodes,
        patience: float,
        send: Send,
        start: Callable[[Sequence[Job], frozenset[str]], Any],
        stop: Callable[[Any], None],
    ) -> None:
        self._nodes, self._patience, self._send, self._start, self._stop = nodes, patience, send, start, stop
        self._tries: dict[str, Tries] = {}
        self.tasks: list[Task] = []

    def begin(self, jobs: Sequence[Job]) -> None:
        """Submit jobs as one task."""
        tries = [Tries(job, self._patience) for job in jobs]
        self._tries.update((tried.job.id, tried) for tried in tries)
        if self._nodes.waiting:
            self._send(messages.Note([job.id for job in jobs], self._nodes.waiting))
        self._submit(tries, self._nodes.avoided())

    def cancel(self, job_id: str) -> None:
        """Drop a job; its result is not reported."""
        if (tried := self._tries.pop(job_id, None)) is not None:
            self._release(tried)

    def hear(self, task: Task, message: messages.FromNode) -> None:
        """A node sent a message about jobs of a task."""
        for tried in task.jobs.values():
            tried.wait()
        if isinstance(message, messages.Placed):
            task.node_id = message.node
        if task.node_id:
            self._nodes.heard(task.node_id)
        match message:
            case messages.Placed(device=device):
                self._placed(task, device)
            case messages.Note(job_ids=[], text=text):
                print(f"{self._nodes.name(task.node_id)} said:\n{text}", file=sys.stderr, flush=True)
            case messages.Done() | messages.Failed():
                if (ended := task.jobs.get(message.job_id)) is not None:
                    self._ended(ended, task, message)
            case messages.Begun() | messages.Progress() | messages.Note():
                self._send(message)

    def lost(self, task: Task, why: str) -> None:
        """A task, or the process or node it ran on, is gone."""
        self.tasks.remove(task)
        for tried in list(task.jobs.values()):
            self._ended(tried, task, why)

    def look(self) -> None:
        """Compare with the nodes that are there now, and with the deadlines."""
        departed = self._nodes.look(Counter(node_id for tried in self._tries.values() for node_id in tried.begun))
        for task in list(self.tasks):
            if task in self.tasks and task.node_id in departed:
                self.lost(task, "the node is gone")  # Ray reports it minutes later where the node fell silent
        able = self._nodes.able()
        for tried in list(self._tries.values()):
            if not tried.placed and tried.useless and self._unmeasurable(tried):
                self._finish(tried, [*tried.useless.values()][-1])
            elif not tried.placed and able and all(able <= task.avoid for task in tried.tasks):
                self._release(tried)  # the nodes that it was submitted for are gone
                self._retry(tried)
            elif time.monotonic() >= tried.deadline:
                self._after_silence(tried)
        unplaced = [job_id for job_id, tried in self._tries.items() if not tried.placed]
        self._nodes.explain(unplaced, at_work=any(task.node_id for task in self.tasks))

    def _placed(self, task: Task, device: str) -> None:
        for tried in task.jobs.values():
            tried.begun.add(task.node_id)
            for rival in [rival for rival in tried.tasks if not rival.node_id]:
                self._leave(tried, rival)
        if self._nodes.waiting:
            self._send(messages.Note([*task.jobs], ""))
        self._send(messages.Placed([*task.jobs], self._nodes.name(task.node_id).partition(" ")[0], device))

    def _ended(self, tried: Tries, task: Task, end: messages.Done | messages.Failed | str) -> None:
        """A task ended for a job: with a report, or with a fault of the run or of the node, or (text) it was lost.

        The job itself ends with a report or a fault of the run, else where no node or no life is left.
        """
        _detach(tried, task)
        job, place = tried.job, self._nodes.name(task.node_id) if task.node_id else ""
        match end:
            case messages.Done(report=report):
                facts = {**report.get("provenance", {}), "node": place}
                self._finish(tried, replace(end, report={**report, "provenance": facts}))
                return
            case messages.Failed(what=what, where=where, device=fault):
                unseen = fault == messages.UNSEEN
                why = f"{what} on {place}" if unseen else f"{what} (on {place})"
                last = replace(end, what=why, where=where or job.checkpoint)
                if fault:
                    tried.useless[task.node_id] = last
                over = not fault or self._unmeasurable(tried)
                note = f"{why}: tried on another node"
            case why:
                if task.node_id:
                    self._nodes.avoid([task.node_id])
                place = f"on {place}" if place else "before it had begun"
                tried.lives -= 1
                over, note = tried.lives <= 0, f"lost {place}: measured again ({why})"
                what = f"lost {LIVES} times, last {place}: {why}"
                last = messages.Failed(job.id, what, job.checkpoint, messages.TRACEBACK_IN_LOG)
        if over:
            self._finish(tried, last)
        elif not tried.tasks:
            self._note(tried, note)
            self._retry(tried)

    def _after_silence(self, tried: Tries) -> None:
        """Try a job elsewhere in addition to the tasks that are silent; a late result of theirs still counts.

        One that no node has begun waits its turn where every place is taken and every node works.
        """
        waited, nodes = tried.timeout, self._nodes
        tried.timeout *= 2  # or a slow job would occupy every node in turn
        tried.wait()
        nodes.avoid(tried.placed)
        silent = tried.placed or nodes.avoided() or (nodes.silent(waited) if nodes.free() else set())
        avoid = silent | nodes.avoided()
        said = f"no word from {nodes.names(silent)} for {waited:.0f} s"
        if silent and nodes.able() - avoid - tried.useless.keys():
            self._note(tried, f"{said}: tried on another node")
            self._submit([tried], avoid)
        elif tried.placed:
            self._note(tried, f"{said}, and no other node can measure it")

    def _retry(self, tried: Tries) -> None:
        """Submit a job again, alone."""
        self._send(messages.Placed([tried.job.id]))
        self._submit([tried], self._nodes.avoided())

    def _submit(self, tries: Sequence[Tries], rather_not: Set[str]) -> None:
        """Start a task where it can succeed; on a node that is avoided only if no other is left."""
        useless = frozenset(node_id for tried in tries for node_id in tried.useless)
        avoid = useless | rather_not
        if not self._nodes.able() - avoid:
            avoid = useless
        task = Task(self._start([tried.job for tried in tries], avoid), {tried.job.id: tried for tried in tries}, avoid)
        self.tasks.append(task)
        for tried in tries:
            tried.tasks.append(task)
            tried.wait()

    def _finish(self, tried: Tries, end: messages.Done | messages.Failed) -> None:
        self._tries.pop(tried.job.id, None)
        self._release(tried)
        if isinstance(end, messages.Failed) and end.device == messages.UNSEEN:
            blind = [node_id for node_id, fault in tried.useless.items() if fault.device == messages.UNSEEN]
            what = f"no node of the cluster sees it: it is not there on {self._nodes.names(blind)}"
            end = replace(end, what=what, hint="put it on a disk that every node mounts at this path")
        self._send(end)

    def _release(self, tried: Tries) -> None:
        for task in list(tried.tasks):
            self._leave(tried, task)

    def _leave(self, tried: Tries, task: Task) -> None:
        """Give up a job in a task; the task ends with its last job."""
        _detach(tried, task)
        if not task.jobs:
            self.tasks.remove(task)
            self._stop(task.generator)

    def _note(self, tried: Tries, text: str) -> None:
        self._send(messages.Note([tried.job.id], text))

    def _unmeasurable(self, tried: Tries) -> bool:
        """Whether no node is left that could measure a job."""
        return not self._nodes.able() - tried.useless.keys()


def _detach(tried: Tries, task: Task) -> None:
    del task.jobs[tried.job.id]
    tried.tasks.remove(task)


def _alive() -> list[dict[str, Any]]:
    return [node for node in ray.nodes() if node["Alive"]]


def _total(nodes: Iterable[Mapping[str, Any]], resource: str) -> int:
    return sum(int(node["Resources"].get(resource, 0)) for node in nodes)


def _count(count: int, word: str) -> str:
    return f"{count} {word}{'' if count == 1 else 's'}"


def listen(jobs: Jobs) -> None:
    """Pass on what the tasks have streamed, waiting a moment for it.

    Raises:
        LocalRayletDiedError: this machine's Ray node is gone: no task can succeed any more, and none is to blame.
    """
    waiting = {task.generator: task for task in jobs.tasks}
    ready, _ = ray.wait(list(waiting), timeout=TICK)
    if ready:
        ready, _ = ray.wait(list(waiting), num_returns=len(waiting), timeout=0)
    for task in [waiting[generator] for generator in ready]:
        if task not in jobs.tasks:
            continue
        try:
            message = ray.get(next(task.generator), timeout=FETCH)
        except StopIteration:
            jobs.lost(task, "its task ended without a result")
        except Exception as error:
            print(error, file=sys.stderr, flush=True)
            jobs.lost(task, _why_lost(error))
        else:
            jobs.hear(task, message)


def _why_lost(error: Exception) -> str:
    """Why a task ended without its results, in one line; raises what ends all tasks."""
    match error:
        case ray.exceptions.LocalRayletDiedError():
            raise error
        case ray.exceptions.NodeDiedError():
            return "the node is dead, or cannot be reached"
        case ray.exceptions.RayTaskError() if "No module named 'fa_core" in str(error):
            return "fa-tui is not installed there; install it on every node, at the same version"
        case ray.exceptions.RayTaskError():
            return str(error).strip().splitlines()[-1]
        case ray.exceptions.RayError():
            return _first_line(error)
        case _:  # what a node of another version sends cannot be read here
            return f"{type(error).__name__}: {_first_line(error)}; is it the same version there?"


def _first_line(error: Exception) -> str:
    return next((line.strip()[:300] for line in str(error).splitlines() if line.strip()), type(error).__name__)


def connect(address: str) -> str:
    """Join a cluster as its driver.

    Args:
        address: ``host:port``; ``auto`` = the one that was started on this machine; ``local`` = start one here, which
            ends with this process.

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
        why = _first_line(error)
        if address == "local":
            raise MeasureError(f"Ray does not start on this machine ({why})") from error
        hint = f"it must list this machine ({messages.how_to_join(address)}), with the same Ray, Python and token"
        raise MeasureError(f"the Ray cluster at {address} cannot be joined ({why})", hint=hint) from error
    if address == "local":
        return "Ray started on this machine, until this ends"
    return f"Ray cluster at {ray.get_runtime_context().gcs_address if address == 'auto' else address}"


def device_for(spec: str) -> str:
    """What a job is measured on: a GPU each where the cluster has any, else a core each.

    Raises:
        UsageError: no node has what was asked for.
    """
    gpus = _total(_alive(), "GPU")
    if spec == "cpu" or (spec == "auto" and not gpus):
        return "cpu"
    if not gpus:
        raise UsageError(f"--device {spec}: no node of the cluster offers a GPU", hint="`ray status` lists them")
    return "cuda:0"


def read_messages(stdin: IO[bytes], inbox: queue.SimpleQueue[messages.ToWorker | None]) -> None:
    """Queue the client's messages, then None when it is gone; a cluster that is silent does not delay the exit."""
    for line in stdin:
        inbox.put(messages.decode(line, messages.ToWorker))
    inbox.put(None)
    time.sleep(EXIT_TIMEOUT)
    os._exit(0)


def serve(jobs: Jobs, inbox: queue.SimpleQueue[messages.ToWorker | None]) -> None:
    """Run jobs until the client is gone."""
    look_at = 0.0
    while True:
        with contextlib.suppress(queue.Empty):
            while (message := inbox.get(timeout=0 if jobs.tasks else LOOK_EVERY)) is not None:
                match message:
                    case messages.Run(jobs=new):
                        jobs.begin(new)
                    case messages.Cancel(job_id=job_id):
                        jobs.cancel(job_id)
            return
        if jobs.tasks:
            listen(jobs)
        if time.monotonic() >= look_at:
            jobs.look()
            look_at = time.monotonic() + LOOK_EVERY


def main(arguments: Sequence[str] | None = None) -> None:
    """Connect, and serve until stdin closes."""
    setup: messages.Setup = messages.decode((arguments or sys.argv[1:])[0], messages.Setup)
    out = messages.private_stdout()
    inbox: queue.SimpleQueue[messages.ToWorker | None] = queue.SimpleQueue()
    threading.Thread(target=read_messages, args=(sys.stdin.buffer, inbox), daemon=True).start()

    def send(message: messages.FromDriver) -> None:
        with contextlib.suppress(OSError):
            out.write(messages.encode(message))
            out.flush()

    send(messages.Ready(os.getpid()))
    try:
        cluster = connect(setup.address)
        device = device_for(setup.device)
    except FaError as error:
        send(messages.Failed("", error.what, error.where, error.hint))
        os._exit(1)
    address = ray.get_runtime_context().gcs_address
    nodes = Nodes("CPU" if device == "cpu" else "GPU", address, send)
    for_nodes = replace(setup, device=device)
    gpus = 0 if device == "cpu" else 1
    # a task with a GPU ends its process unless max_calls is 0, and with it the warm worker
    task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=0, max_calls=0, num_returns="streaming")(measure_here)

    def start(jobs: Sequence[Job], avoid: frozenset[str]) -> Any:
        selector = {"ray.io/node-id": f"!in({','.join(sorted(avoid))})"} if avoid else {}
        return task.options(label_selector=selector).remote([*jobs], for_nodes)

    def stop(generator: Any) -> None:
        with contextlib.suppress(Exception):
            ray.cancel(generator, force=True)

    send(messages.Connected(f"{cluster}: {nodes.describe()}", device))
    try:
        serve(Jobs(nodes, setup.patience, send, start, stop), inbox)
    except ray.exceptions.LocalRayletDiedError:
        begin = f"{messages.how_to_join(address)} starts another one, then " if setup.address != "local" else ""
        hint = f"{begin}the same command with --resume measures the rest"
        send(messages.Failed("", "this machine's Ray node died", hint=hint))
    ray.shutdown()
    os._exit(0)


if __name__ == "__main__":
    main()
