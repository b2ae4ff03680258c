"""The messages between the pool, Ray's driver process and the nodes, in addition to those of a worker (`protocol`)."""

from __future__ import annotations

import json
from typing import TypeAlias

import msgspec

from fa_core.engine import messages


class Setup(msgspec.Struct, frozen=True):
    """To the driver, as its one argument, and from there to the nodes.

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


class _Message(msgspec.Struct, frozen=True, tag_field="is", tag=str.lower):
    """Base of what the driver writes; ``is`` names its kind on the wire."""


class Connected(_Message, frozen=True):
    """From the driver: it accepts jobs.

    Attributes:
        where: which cluster it is, as text.
        device: what jobs are measured on there: ``"cpu"`` or ``"cuda:0"``.
    """

    where: str
    device: str


class Refused(_Message, frozen=True):
    """From the driver: why it can do nothing (any more), in the parts of an `FaError`."""

    what: str
    where: str = ""
    hint: str = ""


class Capacity(_Message, frozen=True):
    """From the driver: how many jobs the cluster can measure at a time, now."""

    slots: int


class Placed(_Message, frozen=True):
    """From the driver: these jobs are on this node and device; ``""`` = submitted again and not placed yet."""

    job_ids: list[str]
    device: str


class Notice(_Message, frozen=True):
    """From the driver: something that concerns no single job."""

    text: str


class Waiting(_Message, frozen=True):
    """From the driver: why jobs wait that no node can begin; ``""`` = they no longer wait."""

    text: str


class Here(msgspec.Struct, frozen=True):
    """From a node: it has begun."""

    node_id: str
    device: str


class LogTail(msgspec.Struct, frozen=True):
    """From a node: the last lines of its worker's log, after a job wrote into it."""

    text: str


class Unseen(msgspec.Struct, frozen=True):
    """From a node: it has no such file."""

    job_id: str


FromDriver: TypeAlias = Connected | Refused | Capacity | Notice | Waiting | Placed | messages.FromWorker
FromNode: TypeAlias = Here | LogTail | Unseen | messages.FromWorker


def encode(message: FromDriver | Setup) -> str:
    """NaN and Infinity as Python's json writes them; no line break."""
    return json.dumps(msgspec.to_builtins(message))


def from_driver(line: bytes) -> FromDriver:
    """The driver's message on this line."""
    found: FromDriver = msgspec.convert(json.loads(line), FromDriver)
    return found


def to_setup(text: str) -> Setup:
    """The driver's argument."""
    return msgspec.convert(json.loads(text), Setup)


def how_to_join(address: str) -> str:
    """The command that makes a machine a node of the cluster at this address."""
    return f"`ray start --address={address}`"
