"""Format 5: a trace, one JSON object per line or a JSON list, one per epoch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from fa_core.errors import FaError, UnreadableInput
from fa_core.formats.document import Document, plain
from fa_core.formats.epoch_fields import NORM_FIELDS, Ends, ends_of, epoch_of
from fa_core.formats.findings import Trace, TraceEpoch
from fa_core.formats.naming import RunName, run_name
from fa_core.formats.stored import Finding
from fa_core.rows import Problem, canonical_method

_PEEK = 20


def sniff(document: Document) -> bool:
    """Whether some of the first entries (or the only one) have an epoch and something we know of it."""
    if document.kind == "object":
        return "epoch" in document.members and _known(document.members)
    return any("epoch" in fields and _known(fields) for _, fields in document.objects(_PEEK))


def read(document: Document) -> Iterator[Finding]:
    """The traces of the file (one per method and seed, where entries name them) and its bad entries."""
    yield from document.problems
    if document.kind == "object":
        entries = [(0, {key: plain(value) for key, value in document.members.items()})]
    else:
        entries = list(document.objects())
        yield from _strangers(document, {index for index, _ in entries})
    name = run_name(document.path)
    runs: dict[tuple[str, int | None], list[tuple[str, dict[str, Any]]]] = {}
    for index, fields in entries:
        where = document.path if document.kind == "object" else document.place(index)
        runs.setdefault(_owner(fields, name), []).append((where, fields))
    for (method, seed), logged in runs.items():
        epochs, problems = epochs_of(logged)
        yield from problems
        if epochs:
            key = name.key if len(runs) == 1 else f"{method}_s{seed}"
            yield Trace(
                source=document.path,
                key=key,
                method=method,
                seed=seed,
                axes=name.axes,
                epochs=epochs,
                unfinished=document.unfinished,
            )
    if not runs:
        raise UnreadableInput("no whole epoch in the trace", where=document.path, hint="wait for the first epoch")


def epochs_of(
    logged: list[tuple[str, dict[str, Any]]], ends: Ends | None = None
) -> tuple[list[TraceEpoch], list[Problem]]:
    """Epochs in increasing order, and the entries that are none.

    An epoch that was logged twice (a run that was resumed) counts as logged last.

    Args:
        logged: place (for messages) and fields of each entry.
        ends: what the log's header says of ‖h_0‖ and L; by default each entry speaks for itself.
    """
    epochs: dict[int, TraceEpoch] = {}
    problems: list[Problem] = []
    for where, fields in logged:
        epoch = _epoch(fields, where, ends)
        if isinstance(epoch, Problem):
            problems.append(epoch)
        else:
            epochs[epoch.epoch] = epoch
    return [epochs[number] for number in sorted(epochs)], problems


def _epoch(fields: dict[str, Any], where: str, ends: Ends | None) -> TraceEpoch | Problem:
    try:
        return epoch_of(fields, where, ends_of(fields) if ends is None else ends)
    except FaError as error:
        return Problem(where.split(": ")[0], f"{error}; the epoch is skipped")


def rename(trace: Trace, name: RunName) -> Trace:
    """The same epochs under the name that a manifest gives the run."""
    return msgspec.structs.replace(trace, key=name.key, method=name.method, seed=name.seed, axes=name.axes)


def _known(fields: Any) -> bool:
    return not NORM_FIELDS.isdisjoint(fields) or "test_acc" in fields or "headline_acc" in fields


def _owner(fields: dict[str, Any], name: RunName) -> tuple[str, int | None]:
    method, seed = fields.get("method", fields.get("method_name")), fields.get("seed")
    return (
        canonical_method(method) if isinstance(method, str) and method.strip() else name.method,
        seed if isinstance(seed, int) and not isinstance(seed, bool) else name.seed,
    )


def _strangers(document: Document, objects: set[int]) -> Iterator[Problem]:
    for index, _ in document.items:
        if index not in objects:
            yield Problem(document.path, f"{document.place(index)}: not a JSON object; the entry is skipped")
