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


def decode_report(node: Node, where: str, *, may_differ: bool = True) -> DiagnosticReport:
    """A checked report.

    Args:
        node: the JSON object.
        where: file and JSON path, for messages.
        may_differ: whether the object may carry a ``recorded_verdict`` beside its verdict.

    Raises:
        UnreadableInput: a field of the wrong type.
        InvalidReport: no field of a report at all, or numbers that contradict each other.
    """
    report = convert(node, DiagnosticReport, where)
    if not _plausible(report):
        report.check(where)
    if not report.residual_norms and not report.bp_grad_norms and not report.method_name:
        _require_fields(node, where)
    if may_differ:
        fields = plain(node)
        kept = fields.get("recorded_verdict") if isinstance(fields, Mapping) else None
        if isinstance(kept, str):
            report = msgspec.structs.replace(report, recorded_verdict=kept)
    return report


def row_of(source: str, key: str, report: DiagnosticReport) -> AuditRow:
    """A report as a row, named by its key (``#2`` and so on is no part of a name); by itself where that has no seed.

    >>> row = row_of("a.json", "ep_s42", DiagnosticReport(method_name="EP"))
    >>> row.method, row.seed
    ('ep', 42)
    """
    name = key.rpartition("#")[0] or key if "#" in key else key
    head, _, tail = name.rpartition("_s")
    axes: dict[str, Any]
    if head and tail.isascii() and tail.isdigit() and "lam" not in head:
        method, seed, axes = _canonical(head), int(tail), {}
    else:
        method, seed, axes = split_key(name)
    if seed is None:
        seed = report.seed
        if report.method_name.strip():
            method = _canonical(report.method_name)
    checkpoint = report.provenance.get("checkpoint") if report.provenance else None
    return AuditRow(
        source=source,
        key=key,
        method=method or "unknown",
        seed=seed,
        report=report,
        checkpoint=checkpoint if isinstance(checkpoint, str) else None,
        axes={**axes, **report.axes} if report.axes else axes,
    )


def _plausible(report: DiagnosticReport) -> bool:
    """A cheap sufficient condition for `DiagnosticReport.check` to pass (a NaN fails it, and is then looked at)."""
    h, g = report.residual_norms, report.bp_grad_norms
    acc, baseline, cosine = report.headline_acc, report.frozen_baseline_acc, report.cross_batch_stability
    return (
        (len(h) == len(g) or not h or not g)
        and (not h or min(h) >= 0)
        and (not g or min(g) >= 0)
        and (acc is None or 0 <= acc <= 1)
        and (baseline is None or 0 <= baseline <= 1)
        and (cosine is None or -1 <= cosine <= 1)
    )


def _require_fields(node: Node, where: str) -> None:
    fields = plain(node)
    if not isinstance(fields, Mapping) or MEASURED.isdisjoint(fields):
        raise InvalidReport(
            "none of a report's fields", where=where, hint=f"a report has some of {', '.join(sorted(MEASURED))}"
        )
