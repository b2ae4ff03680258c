"""The words between a client and a worker: one JSON object per line.

Python's json writes them, because diverged runs hold NaN and Infinity and msgspec turns those into null.
"""

from __future__ import annotations

import json
from typing import Any, TypeAlias

import msgspec

from fa_core.engine.jobs import Job


class _Message(msgspec.Struct, frozen=True, tag_field="is", tag=str.lower):
    """Base of every message; ``is`` names its kind on the wire."""


class Run(_Message, frozen=True):
    """To the worker: measure this (one at a time; the next comes after the outcome of the last)."""

    job: Job


class Cancel(_Message, frozen=True):
    """To the worker: stop this job at the next batch."""

    job_id: str


class Ready(_Message, frozen=True):
    """From the worker: it is up."""

    pid: int


class Progress(_Message, frozen=True):
    """From the worker: batches measured, of how many."""

    job_id: str
    done: int
    total: int


class Note(_Message, frozen=True):
    """From the worker: something the person should know about this run."""

    job_id: str
    text: str


class Done(_Message, frozen=True):
    """From the worker: the report, as `DiagnosticReport.to_dict` writes it."""

    job_id: str
    report: dict[str, Any]


class Failed(_Message, frozen=True):
    """From the worker: why there is no report, in the parts of an `FaError`; ``fatal`` = it cannot go on."""

    job_id: str
    what: str
    where: str = ""
    hint: str = ""
    fatal: bool = False


class Stopped(_Message, frozen=True):
    """From the worker: the job was cancelled."""

    job_id: str


ToWorker: TypeAlias = Run | Cancel
FromWorker: TypeAlias = Ready | Progress | Note | Done | Failed | Stopped


def encode(message: ToWorker | FromWorker) -> bytes:
    """One line, NaN and Infinity as Python's json writes them."""
    return json.dumps(msgspec.to_builtins(message)).encode() + b"\n"


def to_worker(line: bytes) -> ToWorker:
    """The client's message on this line."""
    return msgspec.convert(json.loads(line), Run | Cancel)


def from_worker(line: bytes) -> FromWorker:
    """The worker's message on this line."""
    return msgspec.convert(json.loads(line), Ready | Progress | Note | Done | Failed | Stopped)
