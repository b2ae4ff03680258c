"""A report object inside a document: decoded, checked, and named as a row."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import msgspec

from fa_core.errors import InvalidReport
from fa_core.formats.document import Node, convert, plain
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow, canonical_method, split_key

MEASURED = frozenset({"residual_norms", "bp_grad_norms", "cross_batch_stability", "headline_acc"})
"""A JSON object with one of these is a report."""

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


@lru_cache(maxsize=4096)
def _method_before_seed(head: str) -> str | None:
    """The method, if the part of a key before its seed is one and nothing else."""
    method = canonical_method(head)
    return method if split_key(f"{head}_s0") == (method, 0, {}) and "#" not in head else None
