"""The messages between a client and a worker, and of Ray's driver and nodes: one JSON object per line.

Python's json writes them, because diverged runs hold NaN and Infinity and msgspec turns those into null.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import msgspec

from fa_core.engine.jobs import Job


class _Message(msgspec.Struct, frozen=True, tag_field="is", tag=str.lower):
    """Base of every message; ``is`` names its kind."""


class Run(_Message, frozen=True):
    """To the worker: measure these; the next come after it said `Idle`.

    Attributes:
        jobs: what to measure, in this order.
        group: how many networks to measure at once; None = as the worker finds best.
    """

    jobs: list[Job]
    group: int | None = None


class Cancel(_Message, frozen=True):
    """To the worker: stop this job at the next batch, or do not begin it."""

    job_id: str


TRACEBACK_IN_LOG = "the log has the traceback"
"""Hint of a fault of this program, or of the user's own code."""


class Ready(_Message, frozen=True):
    """From the worker: it is up."""

    pid: int


class Begun(_Message, frozen=True):
    """From the worker: it measures these now; the others of a `Run` wait for their turn."""

    job_ids: list[str]


class Progress(_Message, frozen=True):
    """From the worker: batches measured, of how many, the same for all these jobs."""

    job_ids: list[str]
    done: int
    total: int


class Note(_Message, frozen=True):
    """From the worker: something the user should know about these runs; about no single one if there is no id."""

    job_ids: list[str]
    text: str


class Done(_Message, frozen=True):
    """From the worker: the report, as `DiagnosticReport.to_dict` writes it."""

    job_id: str
    report: dict[str, Any]


class Failed(_Message, frozen=True):
    """From the worker: why there is no report, in the parts of an `FaError`.

    Attributes:
        device: ``"lost"`` = the worker cannot use its device any more; ``"full"`` = others have filled it; `UNSEEN` =
            a node of a cluster does not have the file.
    """

    job_id: str
    what: str
    where: str = ""
    hint: str = ""
    device: str = ""


class Stopped(_Message, frozen=True):
    """From the worker: the job was cancelled."""

    job_id: str


class Idle(_Message, frozen=True):
    """From the worker: every job of the last `Run` has its outcome."""


UNSEEN = "unseen"


class Setup(_Message, frozen=True):
    """To Ray's driver process, as its one argument, and from there to the nodes.

    Attributes:
        address: ``host:port``; ``auto`` = the cluster that was started on this machine; ``local`` = start one.
        device: as in `Placement`; for a node ``"cpu"`` or ``"cuda:0"``: the one that Ray made visible.
        measure: ``module:callable`` run in the nodes' workers.
        cwd: the folder the user started in; names they typed are relative to it.
        patience: seconds that a job may send no message.
        group: how many networks are measured at once; None = as the worker finds best.
    """

    address: str
    device: str
    measure: str
    cwd: str
    patience: float
    group: int | None = None


class Connected(_Message, frozen=True):
    """From the driver: it accepts jobs.

    Attributes:
        where: which cluster it is, as text.
        device: what jobs are measured on there: ``"cpu"`` or ``"cuda:0"``.
    """

    where: str
    device: str


class Capacity(_Message, frozen=True):
    """From the driver: how many jobs the cluster can measure at a time, now."""

    slots: int


class Placed(_Message, frozen=True):
    """These jobs are on a node: from the node with its id, from the driver with its name; no node = queued again."""

    job_ids: list[str]
    node: str = ""
    device: str = ""


ToWorker: TypeAlias = Run | Cancel
FromWorker: TypeAlias = Ready | Begun | Progress | Note | Done | Failed | Stopped | Idle
FromNode: TypeAlias = Placed | FromWorker
FromDriver: TypeAlias = Connected | Capacity | FromNode


def name_log(hint: str, log: object) -> str:
    """A hint from a worker, with the path of its log, which the worker itself does not know."""
    return hint.replace(TRACEBACK_IN_LOG, f"traceback in {log}")


def encode(message: ToWorker | FromDriver | Setup) -> bytes:
    """One line, NaN and Infinity as Python's json writes them."""
    return json.dumps(msgspec.to_builtins(message)).encode() + b"\n"


def to_worker(line: bytes) -> ToWorker:
    """The client's message on this line."""
    return msgspec.convert(json.loads(line), Run | Cancel)


def from_worker(line: bytes) -> FromWorker:
    """The worker's message on this line."""
    return msgspec.convert(json.loads(line), Ready | Begun | Progress | Note | Done | Failed | Stopped | Idle)


def from_driver(line: bytes) -> FromDriver:
    """The message of Ray's driver on this line; one about its own end is a `Failed` without a job."""
    found: FromDriver = msgspec.convert(json.loads(line), FromDriver)
    return found


def to_setup(text: str) -> Setup:
    """The argument of Ray's driver."""
    return msgspec.convert(json.loads(text), Setup)


def how_to_join(address: str) -> str:
    """The command that makes a machine a node of the cluster at this address."""
    return f"`ray start --address={address}`"
