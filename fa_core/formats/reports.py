"""A report object inside a document: decoded, checked, and named as a row."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import msgspec

from fa_core.errors import InvalidReport
from fa_core.formats.document import Node, convert, plain
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow, canonical_method, split_key

MEASURED = frozenset({"residual_norms", "bp_grad_norms", "cross_batch_stability", "headline_acc"})
"""A JSON object with one of these is a report."""

_PLAIN = re.compile(r"[a-z0-9]+(?:_[a-z0-9]+)*")
"""A method's name as it is; `canonical_method` and `split_key` would find nothing to change in it."""

_SEEDED = re.compile(r"(.*)_s(\d+)(.*)", re.ASCII | re.DOTALL)
_SOME_SEED = "918273645"

_NO_AXES: dict[str, Any] = {}
"""The one dict of all rows without axes."""

_canonical = lru_cache(maxsize=4096)(canonical_method)


def decode_report(node: Node, where: str) -> DiagnosticReport:
    """A checked report.

    Args:
        node: the JSON object.
        where: file and JSON path, for messages.

    Raises:
        UnreadableInput: a field of the wrong type.
        InvalidReport: no field of a report at all, or numbers that contradict each other.
    """
    report = convert(node, DiagnosticReport, where).check(where)
    if not report.residual_norms or not isinstance(node, msgspec.Raw) or b'"recorded_verdict"' in bytes(node):
        fields = plain(node)
        if not isinstance(fields, Mapping) or MEASURED.isdisjoint(fields):
            hint = f"a report has some of {', '.join(sorted(MEASURED))}"
            raise InvalidReport("none of a report's fields", where=where, hint=hint)
        kept = fields.get("recorded_verdict")
        if isinstance(kept, str):
            report = msgspec.structs.replace(report, recorded_verdict=kept)
    return report


def row_of(source: str, key: str, report: DiagnosticReport) -> AuditRow:
    """A report as a row.

    >>> row = row_of("a.json", "ep_s42", DiagnosticReport(method_name="EP"))
    >>> row.method, row.seed
    ('ep', 42)
    """
    method, seed, axes, checkpoint = identity_of(key, report)
    return AuditRow(source=source, key=key, method=method, seed=seed, report=report, checkpoint=checkpoint, axes=axes)


def identity_of(key: str, report: DiagnosticReport) -> tuple[str, int | None, dict[str, Any], str | None]:
    """Method, seed, axes and checkpoint: from the key, and from the report where the key names no seed.

    A ``#2`` behind a key sets it apart from an equal one and is no part of its name.
    """
    head, _, tail = key.rpartition("_s")
    method = _method_before_seed(head)
    seed: int | None
    if method is not None and tail.isdecimal():
        seed, axes = int(tail), report.axes or {}
    else:
        method, seed, axes = split_key(key.rpartition("#")[0] or key)
        axes = {**axes, **(report.axes or {})}
    if seed is None:
        seed = report.seed
        if report.method_name.strip():
            method = _canonical(report.method_name)
    checkpoint = report.provenance.get("checkpoint") if report.provenance else None
    return method or "unknown", seed, axes, checkpoint if isinstance(checkpoint, str) else None


def identities_of(
    keys: Sequence[str], reports: Sequence[DiagnosticReport]
) -> tuple[list[str], list[int | None], list[dict[str, Any]], list[str | None]]:
    """`identity_of` for many, a fifth of the time: their methods, seeds, axes and checkpoints.

    Keys of one table are alike but for their seeds, so most of what they say is found out once.
    """
    methods: list[str] = []
    seeds: list[int | None] = []
    all_axes: list[dict[str, Any]] = []
    checkpoints: list[str | None] = []
    simple: dict[str, str | None] = {}
    shapes: dict[tuple[str, str], _Shape | None] = {}
    for key, report in zip(keys, reports, strict=True):
        head, _, tail = key.rpartition("_s")
        method = simple[head] if head in simple else simple.setdefault(head, _method_before_seed(head))
        if method is not None and tail.isdecimal():
            seed: int | None = int(tail)
            axes = report.axes or _NO_AXES
        elif (parts := _SEEDED.fullmatch(key)) and (shape := _shape_of(parts[1], parts[3], shapes)):
            method, seed = shape.method, int(parts[2]) if shape.names_seed else report.seed
            axes = {**shape.axes, **report.axes} if report.axes else shape.axes
            if not shape.names_seed:
                if not report.method_name.strip():
                    method = identity_of(key, report)[0]
                else:
                    method = _canonical(report.method_name)
        else:
            method, seed, axes, _ = identity_of(key, report)
        checkpoint = report.provenance.get("checkpoint") if report.provenance else None
        methods.append(method or "unknown")
        seeds.append(seed)
        all_axes.append(axes)
        checkpoints.append(checkpoint if isinstance(checkpoint, str) else None)
    return methods, seeds, all_axes, checkpoints


class _Shape(msgspec.Struct, frozen=True):
    """What a key says that does not depend on its seed."""

    method: str
    names_seed: bool
    axes: dict[str, Any]


def _shape_of(head: str, tail: str, known: dict[tuple[str, str], _Shape | None]) -> _Shape | None:
    """The shape of keys ``<head>_s<digits><tail>``; None if their axes or method depend on the digits."""
    if (head, tail) not in known:
        probe = f"{head}_s{_SOME_SEED}{tail}"
        method, seed, axes = split_key(probe.rpartition("#")[0] or probe)
        odd = seed not in (None, int(_SOME_SEED)) or (seed is not None and _SOME_SEED in f"{method} {axes}")
        odd = odd or _SOME_SEED in str(axes)
        known[head, tail] = None if odd else _Shape(method, seed is not None, axes)
    return known[head, tail]


def _method_before_seed(head: str) -> str | None:
    """The method, if the part of a key before its seed is one and nothing else."""
    if _PLAIN.fullmatch(head) and "lam" not in head:
        return sys.intern(head)
    method = _canonical(head)
    return method if split_key(f"{head}_s0") == (method, 0, {}) and "#" not in head else None
