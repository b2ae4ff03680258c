"""Measuring on a Ray cluster: the same jobs, placed by Ray on whichever node has a free GPU or core. No ray here.

Four processes take part. The client (command line, explorer) starts the **driver** (`fa_core.engine.ray_driver`), a
child that speaks JSON lines as a worker does and keeps Ray's output in a log file. The driver submits Ray tasks; each
(`fa_core.engine.ray_task`) runs in one of Ray's own processes on some node and hands its jobs to an ordinary
`fa_core.engine.worker` there, so that a checkpoint is measured there exactly as here, and one that kills its worker
costs no node.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from functools import partial
from pathlib import Path

import msgspec
from msgspec.structs import replace

from fa_core.engine import messages
from fa_core.engine.devices import PATIENCE, RAY, Placement, named_address
from fa_core.engine.job_table import (
    JobFailed,
    NobodyLeft,
    OnEvent,
    cancellation_of,
    most_together,
    under_its_name,
)
from fa_core.engine.jobs import DEFAULT_MEASURE, Job, JobState
from fa_core.engine.messages import ChildProcess, environment
from fa_core.engine.pool import Outcome, Pool, take_in
from fa_core.errors import FaError, MeasureError

NOT_PLACED = "ray"
"""Device of a job that Ray has and no node has begun."""

CONNECT = 4.0
"""Seconds that an address may take to accept a connection, and to send a byte: a head takes milliseconds."""

SETTINGS = b"\x04"
"""The type of the frame that a gRPC server, such as the head of a cluster, sends first and unasked."""

TLS = "RAY_USE_TLS"
"""Ray's own variable: its servers then wait for the client to speak."""

JOIN = 20.0
"""Seconds that joining a cluster may take: 1 or 2, 7 on a machine that is very busy. Ray alone waits for minutes."""

START = 60.0
"""Seconds that starting Ray on this machine may take."""

BACKLOG = 2
"""Batches of jobs per place that the cluster has: no place waits for us, and the queue can still be rearranged."""

LEAST_BACKLOG = 4
"""Also where there is no place yet: Ray starts machines for work that it has."""

HOW_TO_START = "`ray start --head` starts a cluster on this machine"

RAY_SETTINGS = {
    # `uv run` would have every node install the folder the user started in
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def find_cluster(address: str | None) -> str:
    """What the driver is to join; refuses what cannot become a cluster before anything of Ray starts.

    Args:
        address: ``host:port``, ``auto``, or None (see `Placement`).

    Returns:
        ``host:port``, ``auto`` = the one that was started on this machine, or ``local`` = none yet.

    Raises:
        UsageError: see `named_address`.
        MeasureError: no server answers there, or one that is none of Ray's, or no cluster runs here.
    """
    named = named_address(address)
    running = named or _started_here(address)
    if running is None:
        if address is None:
            return "local"
        raise MeasureError("no Ray cluster runs here", hint=f"{HOW_TO_START}; --address HOST:PORT names another one")
    host, _, port = running.rpartition(":")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT) as line:
            if os.environ.get(TLS, "0").lower() not in ("1", "true") and line.recv(4)[3:] != SETTINGS:
                raise MeasureError(
                    f"what answers at {running} is not a Ray cluster",
                    hint="give host and port as `ray start --head` prints them; the port is 6379 unless it was changed",
                )
    except (OSError, ValueError) as error:
        raise _no_answer(named, f"({getattr(error, 'strerror', None) or error})") from error
    return named or "auto"


def _started_here(address: str | None) -> str | None:
    """``host:port`` that `ray start` noted on this machine.

    The owner of a cluster can run code in its drivers: another user's is joined only where ``auto`` asks for it.
    """
    if "local" in (address, os.environ.get("RAY_ADDRESS")):
        return None
    folder = os.environ.get("RAY_TMPDIR") or (os.environ.get("TMPDIR") if sys.platform == "linux" else "") or "/tmp"
    note = Path(folder, "ray", "ray_current_cluster")
    try:
        others = hasattr(os, "getuid") and note.stat().st_uid != os.getuid()
        return None if address is None and others else note.read_text().strip() or None
    except OSError:
        return None


def _no_answer(named: str | None, why: str) -> MeasureError:
    if named is None:
        hint = f"`ray stop` forgets one that is gone; {HOW_TO_START}"
        return MeasureError(f"the Ray cluster of this machine does not answer {why}", hint=hint)
    hint = f"is it up, and this machine one of its nodes? {HOW_TO_START}, {messages.how_to_join(named)} joins one"
    return MeasureError(f"no Ray cluster answers at {named} {why}", hint=hint)


class _Driver(threading.Thread):
    """A thread that starts a driver process, gives it a fixed time to connect, and reads it until it ends.

    Args:
        pool: hears each message from the moment it is connected, and the reason when the conversation is over, also
            when it never began.
        address: see `Placement`.
        setup: what the driver is given, but for the address.

    Attributes:
        connected: done once jobs can be sent; or the error.
    """

    def __init__(self, pool: RayPool, address: str | None, setup: messages.Setup) -> None:
        super().__init__(name="ray-driver", daemon=True)
        self._pool, self._address, self._setup = pool, address, setup
        self._lock = threading.Lock()
        self._process: ChildProcess | None = None
        self._closed = False
        self.connected: Future[None] = Future()

    def pids(self) -> list[int]:
        """The driver process, if it lives."""
        process = self._process
        return [process.pid] if process is not None and process.alive else []

    def run(self) -> None:
        try:
            self._setup = replace(self._setup, address=find_cluster(self._address))
            error = self._converse()
        except FaError as refused:
            error = refused
        except (OSError, ValueError, msgspec.ValidationError) as cause:  # no process, or no message
            error = MeasureError(f"Ray's driver cannot be used ({cause})", hint=f"log: {self._pool.log}")
        if self._process is not None:
            self._process.kill()
            self._process.close(0)
        if not self.connected.done():
            self.connected.set_exception(error)
        self._pool.ended(self, error)

    def send(self, message: messages.ToWorker) -> None:
        """Hand a message over; lost when the driver is gone, which `RayPool.ended` reports."""
        if (process := self._process) is not None:
            process.write(messages.encode(message))

    def close(self, grace: float) -> None:
        """End the driver within this many seconds; at once while it waits for an answer."""
        with self._lock:
            self._closed = True
        if self._process is not None:
            # Ray that is being started here must be ended with care
            waits = self._setup.address != "local" and not self.connected.done()
            self._process.close(0 if waits else grace)
        self.join()

    def _converse(self) -> FaError:
        """Start the process and pass its messages on; why it ended."""
        with self._lock:
            if self._closed:
                return JobFailed("cancelled")
            arguments = ["fa_core.engine.ray_driver", messages.encode(self._setup).decode()]
            process = ChildProcess(arguments, log=self._pool.log, environment={**environment(None), **RAY_SETTINGS})
            self._process = process
        address = self._setup.address
        seconds = START if address == "local" else JOIN
        expires = time.monotonic() + seconds
        limit = threading.Timer(seconds, process.kill)
        limit.daemon = True
        limit.start()
        try:
            while (line := process.read()) is not None:
                match messages.decode(line, messages.FromDriver):
                    case messages.Failed(job_id="", what=what, where=where, hint=hint):
                        return MeasureError(what, where=where, hint=hint)
                    case message:
                        self._pool.hear(message)
                        if isinstance(message, messages.Connected):
                            limit.cancel()
                            self.connected.set_result(None)
        finally:
            limit.cancel()
        if self.connected.done() or time.monotonic() < expires:
            cause, hints = process.autopsy()
            what = f"the connection to the Ray cluster is lost: its driver {cause}"
            return MeasureError(what, hint="; ".join([*hints, f"log: {self._pool.log}"]))
        if address == "local":
            return MeasureError(f"Ray did not start on this machine within {seconds:.0f} s", hint=HOW_TO_START)
        return _no_answer(None if address == "auto" else address, f"within {seconds:.0f} s")


class RayPool(Pool):
    """Measures jobs on a Ray cluster. Ray places them; nothing of Ray is imported here.

    The driver process starts with the first job, or with `connect`. When it ends, or the cluster does, every job
    that is not over fails, and the next one starts another driver.

    Args:
        placement: which cluster, and how.
        on_event: called with a job's view whenever it changes, in order, from one thread of the pool's own.
        measure: ``module:callable`` run in the nodes' workers.
        on_notice: called with what concerns no single job, e.g. which cluster it is.
        log_dir: where the driver logs; None = a temporary folder, kept at `close` only if a job failed.
        grace: seconds that leaving the cluster may take.

    Raises:
        UsageError: what cannot be meant (see `Placement.check`).
    """

    def __init__(
        self,
        placement: Placement = Placement(engine=RAY),  # noqa: B008 (immutable)
        on_event: OnEvent | None = None,
        *,
        measure: str = DEFAULT_MEASURE,
        on_notice: Callable[[str], None] | None = None,
        log_dir: Path | None = None,
        grace: float = 5.0,
    ) -> None:
        placement.check()
        super().__init__(on_event, log_dir)
        self._placement, self._device, self._grace = placement, placement.device, grace
        patience = PATIENCE if placement.patience is None else placement.patience
        self._setup = messages.Setup("", placement.device, measure, str(Path.cwd()), patience, placement.group)
        self._on_notice = on_notice or (lambda text: None)
        self.log = self.log_dir / "ray-driver.log"
        self._changed = self._table.changed  # guards what follows
        self._in_flight: dict[str, str] = {}  # job id → first job of its batch
        self._slots = 0
        self._driver: _Driver | None = None
        self._feeder = threading.Thread(target=self._feed, name="feeder", daemon=True)
        self._feeder.start()

    def connect(self) -> None:
        """Connect now, not with the first job.

        Raises:
            FaError: ray is not installed, no cluster, or one that does not answer or refuses this machine.
        """
        driver = self._connection()
        if driver is None:
            raise JobFailed("cancelled")
        driver.connected.result()

    def cancel(self, job_id: str) -> bool:
        """Cancel a job; False if it is over. A node that measures it is stopped, and not waited for."""
        if self._table.withdraw(job_id):
            return True
        if (driver := self._driver) is not None:
            driver.send(messages.Cancel(job_id))
        return self._over(job_id, cancellation_of)

    def pids(self) -> list[int]:
        """The driver, if it lives; what measures is elsewhere."""
        driver = self._driver
        return [] if driver is None else driver.pids()

    def _end(self) -> None:
        self._table.close()
        driver = self._driver
        self._fail_in_flight(cancellation_of)
        if driver is not None:
            driver.close(self._grace)
        self._feeder.join()

    def _feed(self) -> None:
        """Hand jobs over as there is room for them."""
        while self._table.wait():
            with self._changed:
                self._changed.wait_for(self._has_room)
            driver = self._connection()
            if driver is None:
                continue  # the job table is about to be closed
            if driver.connected.exception() is not None:
                driver.join()  # which fails what is queued
                continue
            jobs = self._table.take(most_together(self._device, self._placement.group), self._take_off)
            if driver is not self._driver:  # it ended meanwhile, and failed only what was in flight then
                landed = [job for job in jobs if self._land(job.id) is not None]
                self._table.give_back(landed, "", alone=False)
                continue
            self._update([job.id for job in jobs], device=NOT_PLACED, log=str(self.log))
            driver.send(messages.Run([*jobs], group=self._placement.group))
            for job in jobs:
                if job.id not in self._in_flight:  # cancelled before the driver had it
                    driver.send(messages.Cancel(job.id))

    def _has_room(self) -> bool:
        most = self._placement.jobs or max(LEAST_BACKLOG, BACKLOG * self._slots)
        return len(set(self._in_flight.values())) < most

    def _connection(self) -> _Driver | None:
        """The conversation with the driver; a new one if there is none; None once the pool closes."""
        with self._changed:
            if self._driver is None and not self._table.closed:
                # a start that fails takes the driver away again, and its error is in `connected`
                self._driver = driver = _Driver(self, self._placement.address, self._setup)
                driver.start()
                return driver
            return self._driver

    def hear(self, message: messages.FromDriver) -> None:
        """Take in a message of the driver."""
        match message:
            case messages.Connected(where=where, device=device):
                self._device = device
                self._on_notice(where)
            case messages.Note(job_ids=[], text=text):
                self._on_notice(text)
            case messages.Capacity(slots=slots):
                for place in range(slots):
                    self._table.enter(place)
                with self._changed:
                    self._slots = slots
                    self._changed.notify_all()
            case messages.Placed(job_ids=job_ids, node=""):
                self._update(job_ids, state=JobState.QUEUED, device=NOT_PLACED, done=0, total=0)
            case messages.Placed(job_ids=job_ids, node=node, device=device):
                self._update(job_ids, device=f"{node}/{device}")
            case _:
                take_in(message, self._update, self._over, self.log)

    def _update(self, job_ids: list[str], **changes: object) -> None:
        self._table.update([job_id for job_id in job_ids if job_id in self._in_flight], **changes)

    def _take_off(self, jobs: Sequence[Job]) -> None:
        self._in_flight.update((job.id, jobs[0].id) for job in jobs)

    def _land(self, job_id: str) -> Job | None:
        """Take a job that is over out of flight; None if it was already."""
        with self._changed:
            self._changed.notify_all()
            return None if self._in_flight.pop(job_id, None) is None else self._table.view(job_id).job

    def _over(self, job_id: str, outcome: Outcome) -> bool:
        """Give a job that is in flight its outcome; False if it had one already."""
        job = self._land(job_id)
        if job is not None:
            self._table.finish(job_id, outcome(job))
        return job is not None

    def _fail_in_flight(self, error_of: Callable[[Job], FaError]) -> None:
        for job_id in list(self._in_flight):
            self._over(job_id, error_of)

    def ended(self, driver: _Driver, error: FaError) -> None:
        """The driver is gone, or never came: nothing that is not over can be measured."""
        self._driver = None
        if str(self.log) in str(error):
            self._keep_logs = True  # the error names the log
        if driver.connected.exception() is None:
            error = NobodyLeft(error.what, hint=error.hint)  # one text for every job, so that it is shown once
        self._fail_in_flight(cancellation_of if self._table.closed else partial(under_its_name, error))
        self._table.fail_queued(error)
