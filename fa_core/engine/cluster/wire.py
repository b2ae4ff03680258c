"""What the client, the driver and the nodes tell each other, beside the words of a worker (`protocol`)."""

from __future__ import annotations

import json
from typing import TypeAlias

import msgspec

from fa_core.engine import messages


class _Message(msgspec.Struct, frozen=True, tag_field="is", tag=str.lower):
    """Base of every message; ``is`` names its kind on the wire."""


class Reached(_Message, frozen=True):
    """From the driver: the cluster's head answers.

    Attributes:
        address: where it is; ``""`` = Ray is started on this machine.
    """

    address: str


class Connected(_Message, frozen=True):
    """From the driver: jobs can come.

    Attributes:
        where: which cluster it is, in words.
        device: what jobs measure on there: ``"cpu"`` or ``"cuda:0"``.
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
    """From the driver: these jobs are on this node and device; ``""`` = on none any more, and on their way again."""

    job_ids: list[str]
    device: str


class Word(_Message, frozen=True):
    """From the driver: something that concerns no single job."""

    text: str


class Waiting(_Message, frozen=True):
    """From the driver: jobs wait that no node can begin; why, in words. ``""`` = they wait no more."""

    text: str


class Here(msgspec.Struct, frozen=True):
    """From a node: it has begun."""

    node_id: str
    device: str


class Said(msgspec.Struct, frozen=True):
    """From a node: what the worker wrote into its log, there, before a job failed."""

    text: str


class Unseen(msgspec.Struct, frozen=True):
    """From a node: it has no such file."""

    job_id: str


FromDriver: TypeAlias = Reached | Connected | Refused | Capacity | Word | Waiting | Placed | messages.FromWorker
FromNode: TypeAlias = Here | Said | Unseen | messages.FromWorker


def encode(message: FromDriver) -> bytes:
    """One line, NaN and Infinity as Python's json writes them."""
    return json.dumps(msgspec.to_builtins(message)).encode() + b"\n"


def from_driver(line: bytes) -> FromDriver:
    """The driver's message on this line."""
    found: FromDriver = msgspec.convert(json.loads(line), FromDriver)
    return found
