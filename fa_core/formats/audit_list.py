"""Format 3: a list of short audits, one object per method and seed, verdicts like ``walk-back: (a)``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from fa_core.errors import FaError, UnreadableInput
from fa_core.formats.json_document import Document, Finding, Node, convert, plain
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow, Problem, canonical_method

_MEASURED = frozenset(
    {"acc", "headline_acc", "h_norms", "residual_norms", "hidden_norms", "g_norms", "bp_grad_norms", "h_L", "g_L"}
)
_AXES = ("lam", "d", "L", "arch")
_PEEK = 20


class _Entry(msgspec.Struct):
    """An entry as its file spells it; the spellings of one thing stand together."""

    method: str = ""
    method_name: str = ""
    seed: int | None = None
    notes: str = ""
    acc: float | None = None
    headline_acc: float | None = None
    h_norms: list[float] = []
    hidden_norms: list[float] = []
    residual_norms: list[float] = []
    h_L: float | None = None
    g_norms: list[float] = []
    bp_grad_norms: list[float] = []
    g_L: float | None = None
    max_per_block: float | None = None
    stability: float | None = None
    cross_batch_stability: float | None = None
    stability_layer: int | None = None
    frozen_acc: float | None = None
    frozen_baseline_acc: float | None = None
    verdict: str | None = None
    lam: float | None = None
    d: int | None = None
    L: int | None = None
    arch: str | None = None


def sniff(document: Document) -> bool:
    """Whether some of the first entries name a method and something measured on it."""
    return document.kind == "list" and any(
        ("method" in fields or "method_name" in fields) and not _MEASURED.isdisjoint(fields)
        for _, fields in document.objects(_PEEK)
    )


def read(document: Document) -> Iterator[Finding]:
    """The rows, and the entries that are none."""
    taken: dict[str, int] = {}
    for index, node in document.items:
        where = document.place(index)
        row = _row_or_problem(node, document.path, where)
        if isinstance(row, Problem):
            yield row
            continue
        taken[row.key] = taken.get(row.key, 0) + 1
        if taken[row.key] > 1:
            row = msgspec.structs.replace(row, key=f"{row.key}#{taken[row.key]}")
        yield row


def _row_or_problem(node: Node, source: str, where: str) -> AuditRow | Problem:
    try:
        return _row(node, source, where)
    except FaError as error:
        return Problem(source, f"{error}; the entry is skipped")


def _row(node: Node, source: str, where: str) -> AuditRow:
    entry = convert(node, _Entry, where)
    method = canonical_method(entry.method or entry.method_name)
    fields = plain(node)
    if not method or _MEASURED.isdisjoint(fields):
        raise UnreadableInput("no method with something measured", where=where)
    axes: dict[str, Any] = {axis: value for axis in _AXES if (value := getattr(entry, axis)) is not None}
    key = method if entry.seed is None else f"{method}_s{entry.seed}"
    return AuditRow(
        source=source, key=key, method=method, seed=entry.seed, report=_report(entry, axes).check(where), axes=axes
    )


def _report(entry: _Entry, axes: dict[str, Any]) -> DiagnosticReport:
    """The entry as a report. Without per-layer norms its ``max_per_block`` is the growth itself, not a bound."""
    norms = entry.residual_norms or entry.h_norms or entry.hidden_norms
    return DiagnosticReport(
        method_name=entry.method_name or entry.method,
        notes=entry.notes,
        residual_norms=norms or _alone(entry.h_L),
        bp_grad_norms=entry.bp_grad_norms or entry.g_norms or _alone(entry.g_L),
        stability_layer=entry.stability_layer,
        cross_batch_stability=_first(entry.cross_batch_stability, entry.stability),
        headline_acc=_first(entry.headline_acc, entry.acc),
        frozen_baseline_acc=_first(entry.frozen_baseline_acc, entry.frozen_acc),
        recorded_verdict=entry.verdict,
        seed=entry.seed,
        growth_bound=None if norms else entry.max_per_block,
        axes=axes,
    )


def _first(*values: float | None) -> float | None:
    return next((value for value in values if value is not None), None)


def _alone(value: float | None) -> list[float]:
    return [] if value is None else [value]
