"""Measuring on a Ray cluster: the same jobs, placed by Ray on whichever node has a free GPU or
core. No ray here.

Four processes take part. The client (command line, explorer) starts the **driver**
(`fa_core.engine.ray_driver`), a child that speaks JSON lines as a worker does and keeps Ray's
output in a log file. The driver submits Ray tasks; each (`fa_core.engine.ray_task`) runs in one of
Ray's own processes on some node and hands its jobs to an ordinary `fa_core.engine.worker` there, so
that a checkpoint is measured there exactly as here, and one that kills its worker costs no node.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path

from msgspec.structs import replace

from fa_core.engine import messages
from fa_core.engine.devices import PATIENCE, RAY, Placement, named_address
from fa_core.engine.job_table import JobFailed, NobodyLeft, OnEvent, most_together
from fa_core.engine.jobs import DEFAULT_MEASURE, Job, JobState
from fa_core.engine.messages import ChildProcess, environment
from fa_core.engine.pool import GRACE, Pool
from fa_core.errors import FaError, MeasureError
from fa_core.report import DiagnosticReport

NOT_PLACED = "ray"
"""Device of a job that Ray has and no node has begun."""

CONNECT = 4.0
"""Seconds that an address may take to accept a connection: a head takes milliseconds."""

JOIN = 20.0
"""Seconds that joining a cluster may take: 1 or 2, 7 on a machine that is very busy. Ray alone
waits for minutes."""

START = 60.0
"""Seconds that starting Ray on this machine may take."""

BACKLOG = 2
"""Batches of jobs per place that the cluster has: no place waits for us, and what is cancelled was
not sent yet."""

LEAST_BACKLOG = 4
"""Also where there is no place yet: Ray starts machines for work that it has."""

HOW_TO_START = "`ray start --head` starts a cluster on this machine"

RAY_SETTINGS = {
    # `uv run` would have every node install the folder the user started in
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
}


def find_cluster(address: str | None) -> str:
    """What the driver is to join; refuses what cannot become a cluster before anything of Ray
    starts.

    Args:
        address: ``host:port``, ``auto``, or None (see `Placement`).

    Returns:
        ``host:port``, ``auto`` = the one that was started on this machine, or ``local`` = none yet.

    Raises:
        UsageError: see `named_address`.
        MeasureError: no server answers there, or no cluster runs here.
    """
    named = named_address(address)
    running = named or _started_here(address)
    if running is None:
        if address is None:
            return "local"
        raise MeasureError(
            "no Ray cluster runs here",
            hint=f"{HOW_TO_START}; --address HOST:PORT names another one",
        )
    host, _, port = running.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT).close()
    except (OSError, ValueError) as error:
        raise _no_answer(
            named or "auto", f"({getattr(error, 'strerror', None) or error})"
        ) from error
    return named or "auto"


def _started_here(address: str | None) -> str | None:
    """``host:port`` that `ray start` noted on this machine.

    The owner of a cluster can run code in its drivers: another user's is joined only where ``auto``
    asks for it.
    """
    if "local" in (address, os.environ.get("RAY_ADDRESS")):
        return None
    folder = (
        os.environ.get("RAY_TMPDIR")
        or (os.environ.get("TMPDIR") if sys.platform == "linux" else "")
        or "/tmp"
    )
    note = Path(folder, "ray", "ray_current_cluster")
    try:
        others = hasattr(os, "getuid") and note.stat().st_uid != os.getuid()
        if address is None and others:
            return None
        return note.read_text().strip() or None
    except OSError:
        return None


def _no_answer(address: str, why: str) -> MeasureError:
    """The error where what `find_cluster` found does not answer."""
    if address == "local":
        return MeasureError(f"Ray did not start on this machine {why}", hint=HOW_TO_START)
    if address == "auto":
        hint = f"`ray stop` forgets one that is gone; {HOW_TO_START}"
        return MeasureError(f"the Ray cluster of this machine does not answer {why}", hint=hint)
    hint = f"is it up, and this machine one of its nodes? {HOW_TO_START}, {messages.how_to_join(address)} joins one"
    return MeasureError(f"no Ray cluster answers at {address} {why}", hint=hint)


class RayPool(Pool):
    """Measures jobs on a Ray cluster. Ray places them; nothing of Ray is imported here.

    The driver process starts with the first job, or with `connect`. When it ends, or the cluster
    does, every job that is not over fails, and the next one starts another driver.

    Args:
        placement: which cluster, and how.
        on_event: called with a job's view whenever it changes, in order, from one thread of the
            pool's own.
        measure: ``module:callable`` run in the nodes' workers.
        on_notice: called with what concerns no single job, e.g. which cluster it is.
    """

    def __init__(
        self,
        placement: Placement = Placement(engine=RAY),  # noqa: B008 (immutable)
        on_event: OnEvent | None = None,
        *,
        measure: str = DEFAULT_MEASURE,
        on_notice: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(on_event)
        self._placement, self._device = placement, placement.device
        patience = placement.patience or PATIENCE
        self._setup = messages.Setup(
            "", placement.device, measure, str(Path.cwd()), patience, placement.group
        )
        self._on_notice = on_notice or (lambda text: None)
        self.log = self.log_dir / "ray-driver.log"
        self._lock = self._table.changed  # guards what follows
        self._slots = 0
        self._driver: ChildProcess | None = None
        self._reader: threading.Thread | None = (
            None  # None = there is no driver, and none is being started
        )
        self._connected: Future[None] = Future()

    def connect(self) -> None:
        """Connect now, not with the first job.

        Raises:
            FaError: ray is not installed, no cluster, or one that does not answer or refuses this
                machine.
        """
        self._hand_over()
        self._connected.result()

    def submit(self, job: Job) -> Future[DiagnosticReport]:
        """Put a job at the end of the queue, and hand it over if there is room for it."""
        future = super().submit(job)
        self._hand_over()
        return future

    def stop(self, job_id: str, running: bool) -> None:
        """Have the driver drop a job that was cancelled."""
        if (driver := self._driver) is not None:
            driver.send(messages.Cancel(job_id))

    def pids(self) -> list[int]:
        """The driver, if it lives; what measures is elsewhere."""
        driver = self._driver
        if driver is not None and driver.alive:
            return [driver.pid]
        return []

    def _end(self) -> None:
        self._table.close()
        with self._lock:
            driver, reader = self._driver, self._reader
            self._table.give_back(self)
            joins = not self._connected.done() and self._setup.address != "local"
        if driver is not None:
            driver.close(
                0 if joins else GRACE
            )  # Ray that is being started here must be ended with care
        if reader is not None:
            reader.join()
        if not self._connected.done():
            self._connected.set_exception(JobFailed("cancelled"))

    def _hand_over(self) -> None:
        """Give the driver jobs while there is room for them; start one if there is none."""
        with self._lock:
            if self._reader is None and not self._table.closed:
                self._connected = Future()
                self._reader = threading.Thread(target=self._read, name="ray-driver", daemon=True)
                self._reader.start()
        group = self._placement.group
        most = most_together(self._device, group)
        backlog = most * (self._placement.jobs or max(LEAST_BACKLOG, BACKLOG * self._slots))
        while (driver := self._driver) is not None and self._connected.done():
            if len(self._table.held(self)) < backlog:
                jobs = self._table.take(self, most)
            else:
                jobs = []
            if not jobs:
                return
            self._table.hand_over(self, jobs, driver, group, device=NOT_PLACED)

    def _read(self) -> None:
        """Start a driver and read it until it ends; what is not over then cannot be measured."""
        try:
            error = self._converse()
        except FaError as refused:
            error = refused
        except OSError as cause:
            error = MeasureError(f"Ray's driver cannot be started ({cause})")
        if self._driver is not None:
            self._driver.kill()
            self._driver.close(0)
        self._keep_logs |= str(self.log) in str(error) and not self._table.closed
        with self._lock:
            self._driver = self._reader = None
            if self._connected.done():
                error = NobodyLeft(
                    error.what, hint=error.hint
                )  # one text for every job, so that it is shown once
            else:
                self._connected.set_exception(error)
            self._table.fail(
                [view.job.id for view in self._table.held(self)] + self._table.queued(), error
            )

    def _converse(self) -> FaError:
        """Start the driver and take in its messages; why it ended."""
        address = find_cluster(self._placement.address)
        self._setup = replace(self._setup, address=address)
        arguments = ["fa_core.engine.ray_driver", messages.encode(self._setup).decode()]
        variables = environment(None) | RAY_SETTINGS
        with self._lock:
            if self._table.closed:
                return JobFailed("cancelled")
            driver = ChildProcess(
                arguments, log=self.log, environment=variables, says=messages.FromDriver
            )
            self._driver = driver
        if address == "local":
            seconds = START
        else:
            seconds = JOIN
        connected = self._connected
        driver.kill_later(seconds, lambda: not connected.done())
        while (message := driver.receive()) is not None:
            match message:
                case messages.Failed(job_id="", what=what, where=where, hint=hint):
                    return MeasureError(what, where=where, hint=hint)
                case messages.Note(job_ids=[], text=text):
                    self._on_notice(text)
                case messages.Capacity(slots=slots, device=device):
                    self._slots, self._device = slots, device
                    for place in range(slots):
                        self._table.enter(place)
                    if not connected.done():
                        connected.set_result(None)
                case messages.Placed(job_ids=job_ids, node=""):
                    self._table.update(
                        self, job_ids, state=JobState.QUEUED, device=NOT_PLACED, done=0, total=0
                    )
                case messages.Placed(job_ids=job_ids, node=node, device=device):
                    self._table.update(self, job_ids, device=f"{node}/{device}")
                case _:
                    self._table.take_in(self, message, self.log)
            self._hand_over()
        cause, hints = driver.autopsy()
        if driver.killed:
            return _no_answer(address, f"within {seconds:.0f} s")
        what = f"the connection to the Ray cluster is lost: its driver {cause}"
        again = "the same command with --resume measures the rest"
        return MeasureError(what, hint="; ".join([again, *hints, f"log: {self.log}"]))
