"""One job on the cluster, tried on node after node until something ends it. Runs in the driver."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from fa_core.engine import messages
from fa_core.engine.cluster.attempt import Attempt, Broken, Final, Lost
from fa_core.engine.cluster.nodes import Nodes
from fa_core.engine.cluster.patience import Patience
from fa_core.engine.cluster.wire import FromDriver, Placed, Unseen
from fa_core.engine.jobs import Job

LIVES = 4
"""How often a job may lose the node or the process it runs in: one that takes them with it must end some time."""

LOOK_AGAIN = 2.0
"""Seconds between two looks at the nodes for a job that some of them cannot measure."""

Try = Callable[[Job, frozenset[str]], Attempt]
"""(job, nodes to avoid) → an attempt at it alone."""


class Errand:
    """Sees to it that a job comes to an end, exactly once.

    Ray may run a task more than once, a node may fall silent, a file may not be where the node looks: whatever
    attempt ends the job first ends it, and what the others would say is not listened to any more.

    Args:
        job: the job.
        first: the first attempt at it, which other jobs may share.
        another: makes further attempts.
        nodes: the cluster's nodes.
        patience: how long an attempt may say nothing.
        send: told what the client should know, but for the end.
    """

    def __init__(
        self,
        job: Job,
        first: Attempt,
        another: Try,
        nodes: Nodes,
        patience: Patience,
        send: Callable[[FromDriver], None],
    ) -> None:
        self._job, self._another, self._nodes, self._patience, self._send = job, another, nodes, patience, send
        self._attempts = [first]
        self._blind: set[str] = set()
        self._spoilt: set[str] = set()
        self._lives = LIVES
        self._silences = 0
        self._asked = 0.0
        self._cancelled: asyncio.Future[None] = asyncio.Future()

    def cancel(self) -> None:
        """End it without a result."""
        if not self._cancelled.done():
            self._cancelled.set_result(None)

    async def run(self) -> Final:
        """Try until the job is over."""
        try:
            while True:
                ends: dict[asyncio.Future[Any], Attempt] = {
                    attempt.ends[self._job.id]: attempt for attempt in self._attempts
                }
                choosy = bool(self._blind or self._spoilt)
                timeout = min(self._time_left(), LOOK_AGAIN) if choosy else self._time_left()
                done, _ = await asyncio.wait(
                    [self._cancelled, *ends], timeout=timeout, return_when=asyncio.FIRST_COMPLETED
                )
                if self._cancelled in done:
                    return messages.Stopped(self._job.id)
                for attempt in [ends[end] for end in ends if end in done]:
                    self._attempts.remove(attempt)
                    final = self._after(attempt)
                    if final is not None:
                        return final
                if not done and choosy and self._nowhere_left():
                    return self._unmeasurable()
                if not done and self._time_left() <= 0:
                    await self._after_silence()
        finally:
            for attempt in self._attempts:
                attempt.abandon(self._job.id)

    def _after(self, attempt: Attempt) -> Final | None:
        """What the end of an attempt means for the job; None = it goes on."""
        match attempt.ends[self._job.id].result():
            case Unseen():
                return self._after_unseen(attempt.node_id)
            case Lost(why=why):
                return self._after_loss(attempt.node_id, why)
            case Broken(what=what, hint=hint):
                return self._after_failure(attempt.node_id, messages.Failed(self._job.id, what, "", hint, "lost"))
            case messages.Failed() as failed:
                return self._after_failure(attempt.node_id, failed)
            case messages.Stopped() as final:
                return final
            case messages.Done(report=report) as final:
                facts = {**report.get("provenance", {}), "node": self._nodes.name(attempt.node_id)}
                return replace(final, report={**report, "provenance": facts})

    def _after_unseen(self, node_id: str) -> Final | None:
        """A file that is not on a node may be on another; it is an error that no node has it."""
        self._blind.add(node_id)
        if not self._nodes.able() - self._blind:
            return self._unmeasurable()
        self._note(f"{self._job.checkpoint} is not there on {self._nodes.name(node_id)}: tried on another node")
        self._try_elsewhere(set())
        return None

    def _nowhere_left(self) -> bool:
        """Whether the nodes that an attempt still waits for are gone: Ray would have it wait for ever."""
        waiting = not any(attempt.node_id for attempt in self._attempts)
        return waiting and not self._nodes.able() - self._blind - self._spoilt

    def _unmeasurable(self) -> Final:
        """No node is left that could measure it."""
        if not self._blind:
            return messages.Failed(
                self._job.id,
                f"the device is lost or full on {self._nodes.names(self._spoilt)}, and no other node is left",
                self._job.checkpoint,
            )
        return messages.Failed(
            self._job.id,
            f"no node of the cluster sees it: it is not there on {self._nodes.names(self._blind)}",
            self._job.checkpoint,
            "put it on a disk that every node mounts at this path",
        )

    def _after_failure(self, node_id: str, failed: messages.Failed) -> Final | None:
        """A node whose device is lost or full spoils job after job; others need not suffer from it."""
        place = self._nodes.name(node_id)
        if failed.device:
            self._spoilt.add(node_id)
            if self._nodes.able() - self._spoilt - self._blind:
                self._note(f"{failed.what} (on {place}): tried on another node")
                self._try_elsewhere(set())
                return None
        return replace(failed, what=f"{failed.what} (on {place})", where=failed.where or self._job.checkpoint)

    def _after_loss(self, node_id: str, why: str) -> Final | None:
        if node_id:
            self._nodes.suspect(node_id)
        place = f"on {self._nodes.name(node_id)}" if node_id else "before it had begun"
        self._lives -= 1
        if self._lives <= 0:
            return messages.Failed(self._job.id, f"lost {LIVES} times, last {place}: {why}", self._job.checkpoint)
        if not self._attempts:
            self._note(f"lost {place}: measured again ({why})")
            self._try_elsewhere(set())
        return None

    async def _after_silence(self) -> None:
        """No word for too long: ask the nodes, and try elsewhere beside the attempts that are still silent."""
        await self._nodes.roll_call()
        if self._time_left() > 0 or any(attempt.ends[self._job.id].done() for attempt in self._attempts):
            return
        begun = {attempt.node_id for attempt in self._attempts if attempt.node_id}
        waited = self._limit()
        self._asked = time.monotonic()
        if not begun and (not self._nodes.suspects or not self._nodes.able()):
            return  # the job waits its turn: every node answers and has other work, or none is left
        if self._nodes.able() - begun - self._nodes.suspects - self._blind - self._spoilt:
            place = self._nodes.names(begun or self._nodes.suspects)
            self._note(f"no word from {place} for {waited:.0f} s: tried on another node")
            self._try_elsewhere(begun)
        elif begun & self._nodes.suspects:
            self._note(f"no word from {self._nodes.names(begun)} for {waited:.0f} s, and no other node can measure it")
        self._silences += 1

    def _try_elsewhere(self, begun: set[str]) -> None:
        """Start an attempt where it can succeed; on a suspect only if there is no other node left."""
        useless = self._blind | self._spoilt
        avoid = useless | begun | self._nodes.suspects
        if not self._nodes.able() - avoid:
            avoid = useless
        if not self._attempts:
            self._send(Placed([self._job.id], ""))
        self._attempts.append(self._another(self._job, frozenset(avoid)))

    def _time_left(self) -> float:
        heard = max(self._asked, *(attempt.heard for attempt in self._attempts))
        return max(0.0, heard + self._limit() - time.monotonic())

    def _limit(self) -> float:
        """Seconds of silence that are too long; twice as many each time, or a slow job would never end."""
        return self._patience.limit() * 2.0**self._silences

    def _note(self, text: str) -> None:
        self._send(messages.Note([self._job.id], text))
