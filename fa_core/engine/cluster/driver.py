"""The driver: reads jobs from stdin, has Ray place them, writes what happens to stdout.

Started by `fa_core.engine.cluster.pool`; a person never needs to. Ends when its stdin closes. What Ray prints goes to
its stderr, a log file.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import sys
import threading
import traceback
import weakref
from collections.abc import Callable, Sequence
from typing import IO, Any

import ray

from fa_core.engine import messages
from fa_core.engine.cluster import wire
from fa_core.engine.cluster.address import how_to_join
from fa_core.engine.cluster.attempt import GO_ON, Attempt
from fa_core.engine.cluster.connect import connect
from fa_core.engine.cluster.errand import Errand
from fa_core.engine.cluster.muster import Muster
from fa_core.engine.cluster.node import Station, measure_here
from fa_core.engine.cluster.nodes import Nodes
from fa_core.engine.cluster.patience import Patience
from fa_core.engine.jobs import Job
from fa_core.engine.process import private_stdout
from fa_core.errors import FaError, UsageError

LOOK_AROUND = 2.0
"""Seconds between two looks at the nodes, unless one is suspected meanwhile."""

FAREWELL = 3.0
"""Seconds that leaving the cluster may take."""

Send = Callable[[wire.FromDriver], None]


class Driver:
    """Turns the client's messages into errands.

    Args:
        nodes: the cluster's nodes.
        station: how they measure.
        patience: how long a job may say nothing.
        send: writes to the client.
        address: where the cluster is.
        go_on: what to do when this machine's Ray node died.
    """

    def __init__(
        self, nodes: Nodes, station: Station, patience: Patience, send: Send, address: str, go_on: str = GO_ON
    ) -> None:
        self._muster = Muster(nodes, address, send)
        self._nodes, self._station, self._patience, self._send = nodes, station, patience, send
        self._go_on = go_on
        gpus = 0 if station.device == "cpu" else 1
        # a task with a GPU ends its process unless told otherwise, and with it the warm worker
        task = ray.remote(num_cpus=1, num_gpus=gpus, max_retries=0, max_calls=0, num_returns="streaming")
        self._task: Any = task(measure_here)
        self._errands: dict[str, Errand] = {}
        self._running: set[asyncio.Task[None]] = set()
        self._attempts: weakref.WeakSet[Attempt] = weakref.WeakSet()

    async def serve(self, inbox: asyncio.Queue[messages.ToWorker | None]) -> None:
        """Until the client is gone."""
        looking = asyncio.create_task(self._look_around())
        while (message := await inbox.get()) is not None:
            match message:
                case messages.Run(jobs=jobs):
                    self._begin(jobs)
                case messages.Cancel(job_id=job_id):
                    if job_id in self._errands:
                        self._errands[job_id].cancel()
        looking.cancel()

    def _begin(self, jobs: Sequence[Job]) -> None:
        if not self._errands:
            self._nodes.alarm.set()  # whether any node can measure is of interest from now on
        first = self._attempt(jobs, self._nodes.suspects)
        for job in jobs:
            self._errands[job.id] = Errand(job, first, self._alone, self._nodes, self._patience, self._send)
            running = asyncio.create_task(self._run(job.id))
            self._running.add(running)
            running.add_done_callback(self._running.discard)

    async def _run(self, job_id: str) -> None:
        try:
            end = await self._errands[job_id].run()
        except Exception as error:
            # a fault of this program must not leave the client waiting for ever
            traceback.print_exc()
            end = messages.Failed(job_id, f"{type(error).__name__}: {error}", "", messages.TRACEBACK_IN_LOG)
        del self._errands[job_id]
        self._nodes.over(job_id)
        self._send(end)

    def _alone(self, job: Job, avoid: frozenset[str]) -> Attempt:
        return self._attempt([job], avoid)

    def _attempt(self, jobs: Sequence[Job], avoid: frozenset[str]) -> Attempt:
        selector = {"ray.io/node-id": f"!in({','.join(sorted(avoid))})"} if avoid else {}
        generator = self._task.options(label_selector=selector).remote([*jobs], self._station)
        attempt = Attempt(jobs, generator, self._nodes, self._patience, self._send, self._go_on)
        self._attempts.add(attempt)
        return attempt

    async def _look_around(self) -> None:
        """Tell the client what it should know of the nodes, as it changes."""
        while True:
            self._nodes.alarm.clear()
            departed = await self._muster.look(len(self._errands))
            for attempt in [attempt for attempt in self._attempts if attempt.node_id in departed]:
                attempt.node_died()
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._nodes.alarm.wait(), LOOK_AROUND)


class Control(threading.Thread):
    """Reads the client's messages; ends the process soon after the client is gone."""

    def __init__(self, stdin: IO[bytes]) -> None:
        super().__init__(name="control", daemon=True)
        self._stdin = stdin
        self._loop: asyncio.AbstractEventLoop | None = None
        self.inbox: asyncio.Queue[messages.ToWorker | None] = asyncio.Queue()

    def follow(self, loop: asyncio.AbstractEventLoop) -> None:
        """Hand messages to this loop from now on."""
        self._loop = loop
        self.start()

    def run(self) -> None:
        assert self._loop is not None
        for line in self._stdin:
            self._loop.call_soon_threadsafe(self.inbox.put_nowait, messages.to_worker(line))
        # Nobody is left to tell anything; a cluster that is silent does not keep us.
        leaving = threading.Timer(FAREWELL, os._exit, [0])
        leaving.daemon = True
        leaving.start()
        self._loop.call_soon_threadsafe(self.inbox.put_nowait, None)


async def drive(driver: Driver, stdin: IO[bytes]) -> None:
    """Serve until stdin closes."""
    control = Control(stdin)
    control.follow(asyncio.get_running_loop())
    await driver.serve(control.inbox)


def device_for(spec: str, nodes: Nodes) -> str:
    """What a job measures on: a GPU each where the cluster has any, else a core each.

    Raises:
        UsageError: no node has what was asked for.
    """
    gpus = nodes.count("GPU")
    if spec == "cpu" or (spec == "auto" and not gpus):
        return "cpu"
    if not gpus:
        raise UsageError(f"--device {spec}: no node of the cluster offers a GPU", hint="`ray status` lists them")
    return "cuda:0"


def main(arguments: Sequence[str] | None = None) -> None:
    """Connect, and serve until stdin closes."""
    parser = argparse.ArgumentParser(prog="fa_core.engine.cluster.driver")
    parser.add_argument("--address")
    parser.add_argument("--device", required=True)
    parser.add_argument("--measure", required=True)
    parser.add_argument("--cwd", required=True)
    parser.add_argument("--patience", type=float)
    parser.add_argument("--group", type=int)
    args = parser.parse_args(arguments)
    out = private_stdout()

    def send(message: wire.FromDriver) -> None:
        with contextlib.suppress(OSError):
            out.write(wire.encode(message))
            out.flush()

    joined = ""

    def reached(where: str) -> None:
        nonlocal joined
        joined = where
        send(wire.Reached(where))

    send(messages.Ready(os.getpid()))
    try:
        cluster = connect(args.address, reached)
        count = Nodes("CPU")
        device = device_for(args.device, count)
    except FaError as error:
        send(wire.Refused(error.what, error.where, error.hint))
        os._exit(1)
    nodes = count if device == "cpu" else Nodes("GPU")
    station = Station(device, args.measure, args.cwd, args.group)
    send(wire.Connected(f"{cluster}: {nodes.describe()}", device))
    address = ray.get_runtime_context().gcs_address
    go_on = f"{how_to_join(joined)} starts another one, then {GO_ON}" if joined else GO_ON
    asyncio.run(drive(Driver(nodes, station, Patience(args.patience), send, address, go_on), sys.stdin.buffer))
    ray.shutdown()
    os._exit(0)


if __name__ == "__main__":
    main()
