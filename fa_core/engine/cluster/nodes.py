"""The nodes as the driver knows them: their names, who can measure, who does not answer. Runs in the driver."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from fa_core.engine.cluster.knocking import Door, answering, refusing

PING = 5.0
"""Seconds a node may take to run nothing at all; it may have to start a process for it."""

ASK_AGAIN = 5.0
"""Seconds between two questions to a node that did not answer."""


def _nothing() -> None:
    """What a node is asked to run, to see whether it does."""


class Nodes:
    """The nodes of the cluster.

    A node that was lost or did not answer is suspected: jobs are placed elsewhere until it answers, or Ray declares
    it dead. Ray itself goes on placing jobs on a silent node for a minute, where they wait.

    Attributes:
        alarm: set when a node is new, or suspected: a look at all of them is due.

    Args:
        resource: what a node must have to measure: ``"GPU"`` or ``"CPU"``.
    """

    def __init__(self, resource: str) -> None:
        self._resource = resource
        self._ping: Any = ray.remote(num_cpus=0, max_retries=0)(_nothing)
        self._suspects: dict[str, asyncio.Task[None]] = {}
        self._names: dict[str, str] = {}
        self._roll_call: asyncio.Task[None] | None = None
        self._gone: set[str] = set()
        self._known: set[str] = set()
        self._runs: dict[str, set[str]] = defaultdict(set)
        self.alarm = asyncio.Event()

    @property
    def place(self) -> str:
        """What a job is measured on, in words."""
        return "GPU" if self._resource == "GPU" else "core"

    @property
    def suspects(self) -> frozenset[str]:
        """The nodes not to be asked for anything now."""
        return frozenset(self._suspects) | self._gone

    def able(self) -> set[str]:
        """The living nodes that can measure."""
        return {node["NodeID"] for node in self._able()}

    def slots(self) -> int:
        """How many jobs they can measure at a time."""
        return _total(self._able(), self._resource)

    def free(self) -> int:
        """How many places nobody has taken."""
        return int(ray.available_resources().get(self._resource, 0))

    def departed(self) -> list[str]:
        """The nodes that could measure when this was asked last, and are gone."""
        able = self.able()
        departed = sorted(self._known - able, key=self.name)
        self._known = able
        return departed

    def begun(self, node_id: str, job_ids: Iterable[str]) -> None:
        """Jobs are on this node now."""
        self._runs[node_id].update(job_ids)

    def over(self, job_id: str) -> None:
        """A job is over, wherever it was."""
        for node_id in [node_id for node_id, runs in self._runs.items() if job_id in runs]:
            self._runs[node_id].discard(job_id)
            if not self._runs[node_id]:
                del self._runs[node_id]

    def runs_on(self, node_id: str) -> int:
        """How many jobs this node has begun that are not over; those that it lost count until then."""
        return len(self._runs.get(node_id, ()))

    def at_work(self) -> bool:
        """Whether a node that is there has begun a job that is not over."""
        return bool(self._runs.keys() & self.able())

    async def knock_at_suspects(self) -> None:
        """Learn which of the suspected nodes are gone, some ten seconds before Ray does."""
        doubtful = [node for node in self._alive() if node["NodeID"] in self._suspects]
        if doubtful:
            refused = await asyncio.to_thread(refusing, _doors(doubtful))
            self._gone.update(node["NodeID"] for node, gone in zip(doubtful, refused, strict=True) if gone)

    def count(self, resource: str) -> int:
        """How many of a resource they have together."""
        return _total(self._alive(), resource)

    def describe(self) -> str:
        """What there is at this moment, in words."""
        listed = self._alive()
        there = [node for node, is_there in zip(listed, answering(_doors(listed)), strict=True) if is_there]
        parts = [(len(there), "node"), (_total(there, "CPU"), "core"), (_total(there, "GPU"), "GPU")]
        words = [f"{count} {word}{'' if count == 1 else 's'}" for count, word in parts if count]
        if not _total(there, self._resource):
            words.append("which cannot measure" if len(there) == 1 else "none of which can measure")
        return ", ".join(words)

    def short_name(self, node_id: str) -> str:
        """The name its administrator gave it, or the host's."""
        return self.name(node_id).partition(" ")[0]

    def name(self, node_id: str) -> str:
        """Name and address of a node, also of one that is gone."""
        if node_id not in self._names:
            for node in ray.nodes():
                address = node["NodeManagerAddress"]
                given = node.get("NodeName") or address
                name = node["NodeManagerHostname"] if given == address else given
                self._names[node["NodeID"]] = f"{name} ({address})"
        return self._names.get(node_id, node_id[:8])

    def names(self, node_ids: Iterable[str]) -> str:
        """Several nodes, in words."""
        return ", ".join(sorted(self.name(node_id) for node_id in node_ids))

    def heard(self, node_id: str) -> None:
        """A node said something: it is fine."""
        self._gone.discard(node_id)
        if node_id not in self._known:
            self._known.add(node_id)
            self.alarm.set()
        asking = self._suspects.pop(node_id, None)
        if asking is not None:
            asking.cancel()

    def suspect(self, node_id: str) -> None:
        """Place nothing on this node until it answers."""
        self.alarm.set()
        if node_id not in self._suspects:
            self._suspects[node_id] = asyncio.create_task(self._ask_until_it_answers(node_id))

    async def roll_call(self) -> None:
        """Ask every node that can measure; those that do not answer are suspected. Callers share one call."""
        if self._roll_call is None or self._roll_call.done():
            self._roll_call = asyncio.create_task(self._ask_everyone())
        await asyncio.shield(self._roll_call)

    async def _ask_everyone(self) -> None:
        asked = sorted(self.able() - self.suspects)
        answers = await asyncio.gather(*(self._answers(node_id) for node_id in asked))
        for node_id, answered in zip(asked, answers, strict=True):
            if not answered:
                self.suspect(node_id)

    async def _ask_until_it_answers(self, node_id: str) -> None:
        while node_id in self.able() and not await self._answers(node_id):
            await asyncio.sleep(ASK_AGAIN)
        self._suspects.pop(node_id, None)

    async def _answers(self, node_id: str) -> bool:
        strategy = NodeAffinitySchedulingStrategy(node_id=node_id, soft=False)
        try:
            await asyncio.wait_for(self._ping.options(scheduling_strategy=strategy).remote(), PING)
        except (asyncio.TimeoutError, ray.exceptions.RayError):
            return False
        return True

    def _alive(self) -> list[dict[str, Any]]:
        return [node for node in ray.nodes() if node["Alive"]]

    def _able(self) -> list[dict[str, Any]]:
        able = [node for node in self._alive() if node["Resources"].get(self._resource, 0) >= 1]
        return [node for node in able if node["NodeID"] not in self._gone]


def _doors(nodes: Sequence[dict[str, Any]]) -> list[Door]:
    return [(node["NodeManagerAddress"], node["NodeManagerPort"]) for node in nodes]


def _total(nodes: Iterable[dict[str, Any]], resource: str) -> int:
    return sum(int(node["Resources"].get(resource, 0)) for node in nodes)
