"""One Ray task for one job or several, listened to until it ends. Runs in the driver."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, TypeAlias

import msgspec
import ray

from fa_core.engine import messages
from fa_core.engine.cluster.nodes import Nodes
from fa_core.engine.cluster.patience import Patience
from fa_core.engine.cluster.wire import FromDriver, FromNode, Here, Placed, Refused, Said, Unseen
from fa_core.engine.jobs import Job

GO_ON = "the same command with --resume measures the rest"
"""What to do when this machine's Ray node died, where Ray was started for one audit."""

Final: TypeAlias = messages.Done | messages.Failed | messages.Stopped


class Lost(msgspec.Struct, frozen=True):
    """The node, or Ray's process on it, went away under a job; why, in one line."""

    why: str


class Broken(msgspec.Struct, frozen=True):
    """The node cannot run our code: what went wrong, and what to do about it."""

    what: str
    hint: str


End: TypeAlias = Final | Unseen | Lost | Broken


class Attempt:
    """A task, and how it ended for each of its jobs.

    Args:
        jobs: what it measures.
        generator: its streaming generator of object references.
        nodes: the cluster's nodes.
        patience: learns from its pauses.
        send: told what the client should know, but for the ends.
        go_on: what to do when this machine's Ray node died.

    Attributes:
        node_id: where it runs; ``""`` = Ray has not placed it yet.
        heard: when it said its last word.
        ends: job id → a future of its end.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        generator: Any,
        nodes: Nodes,
        patience: Patience,
        send: Callable[[FromDriver], None],
        go_on: str = GO_ON,
    ) -> None:
        self._generator, self._nodes, self._patience, self._send = generator, nodes, patience, send
        self._go_on = go_on
        self.node_id = ""
        self.heard = time.monotonic()
        self.ends: dict[str, asyncio.Future[End]] = {job.id: asyncio.Future() for job in jobs}
        self._wanted = {job.id for job in jobs}
        self._listening = asyncio.create_task(self._listen())

    def abandon(self, job_id: str) -> None:
        """Nobody waits for this job here any more. When that is so for all, the task is ended.

        By force, which ends the process it runs in: a task that waits for its worker hears nothing else.
        """
        self._wanted.discard(job_id)
        if not self._wanted and not self._listening.done():
            self._listening.cancel()
            with contextlib.suppress(Exception):
                ray.cancel(self._generator, force=True)

    def node_died(self) -> None:
        """Its node is gone, which Ray tells a task on a machine that fell silent minutes later."""
        self._end_all(Lost("the node is gone"))
        self._listening.cancel()

    async def _listen(self) -> None:
        try:
            async for message in _messages(self._generator):
                self._hear(message)
            self._end_all(Lost("its task ended without a result"))
        except ray.exceptions.RayTaskError as error:
            self._end_all(_cannot_run(error))
        except ray.exceptions.LocalRayletDiedError:
            # what places the driver's tasks: no attempt at anything can succeed any more, and none is to blame
            self._send(Refused("this machine's Ray node died", hint=self._go_on))
        except ray.exceptions.NodeDiedError:
            self._end_all(Lost("the node is dead, or cannot be reached"))
        except ray.exceptions.RayError as error:
            self._end_all(Lost(_first_line(error)))
        except Exception as error:  # what a node of another version says cannot be read here
            self._end_all(Broken(f"{type(error).__name__}: {_first_line(error)}", "is it the same version there?"))

    def _hear(self, message: FromNode) -> None:
        now = time.monotonic()
        if self.node_id:
            self._patience.paused(now - self.heard)
        self.heard = now
        match message:
            case Here(node_id=node_id, device=device):
                self.node_id = node_id
                self._nodes.heard(node_id)
                self._nodes.begun(node_id, self._wanted)
                self._send(Placed(list(self._wanted), f"{self._nodes.short_name(node_id)}/{device}"))
            case Said(text=text):
                print(f"{self._nodes.name(self.node_id)} said:\n{text}", file=sys.stderr, flush=True)
            case messages.Begun() | messages.Progress() | messages.Note():
                self._send(message)
            case messages.Done() | messages.Failed() | messages.Stopped() | Unseen():
                self._end(message.job_id, message)

    def _end(self, job_id: str, end: End) -> None:
        self._wanted.discard(job_id)
        if job_id in self.ends and not self.ends[job_id].done():
            self.ends[job_id].set_result(end)

    def _end_all(self, end: Lost | Broken) -> None:
        for job_id in self.ends:
            self._end(job_id, end)


async def _messages(generator: Any) -> AsyncIterator[FromNode]:
    async for reference in generator:
        yield await reference


def _cannot_run(error: Exception) -> Broken:
    """Our own code failed on the node: it is not there, or of another version."""
    text = str(error).strip().splitlines()[-1]
    if "No module named 'fa_core" in text:
        return Broken("fa-tui is not installed there", "install it on every node, at the same version")
    return Broken(text, messages.TRACEBACK_IN_LOG)


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__
