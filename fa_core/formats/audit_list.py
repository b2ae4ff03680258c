"""Format 3: a list of short audits, one object per method and seed, verdicts like ``walk-back: (a)``."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec

from fa_core.errors import UnreadableInput
from fa_core.formats.json_document import Document, Finding, Node, attempt, convert, convert_spelled, spellings_in
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow, Problem, canonical_method
from fa_core.runs import numbered

_MEASURED = frozenset(
    {"acc", "headline_acc", "h_norms", "residual_norms", "hidden_norms", "g_norms", "bp_grad_norms", "h_L", "g_L"}
)
_AXES = ("lam", "d", "L", "arch")
_PEEK = 20
_SPELLINGS = {
    "method_name": ("method_name", "method"),
    "notes": ("notes",),
    "residual_norms": ("residual_norms", "h_norms", "hidden_norms"),
    "bp_grad_norms": ("bp_grad_norms", "g_norms"),
    "stability_layer": ("stability_layer",),
    "cross_batch_stability": ("cross_batch_stability", "stability"),
    "headline_acc": ("headline_acc", "acc"),
    "frozen_baseline_acc": ("frozen_baseline_acc", "frozen_acc"),
    "verdict": ("verdict",),
    "seed": ("seed",),
    "growth_bound": ("max_per_block",),
}
"""Field of a report → how lists spell it, the first spelling with a value counts."""


class _Identity(msgspec.Struct):
    """What an entry says of its run."""

    method: str = ""
    method_name: str = ""
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
    rows: list[AuditRow] = []
    for index, node in document.items:
        row = attempt(partial(_row, node, document.path, document.place(index)), document.path, "entry")
        if isinstance(row, Problem):
            yield row
        else:
            rows.append(row)
    for row, key in zip(rows, numbered(row.key for row in rows), strict=True):
        yield row if key == row.key else msgspec.structs.replace(row, key=key)


def _row(node: Node, source: str, where: str) -> AuditRow:
    fields = convert(node, dict[str, Any], where)
    entry = convert(fields, _Identity, where)
    method = canonical_method(entry.method or entry.method_name)
    if not method or _MEASURED.isdisjoint(fields):
        raise UnreadableInput("no method with something measured", where=where)
    axes: dict[str, Any] = {axis: value for axis in _AXES if (value := getattr(entry, axis)) is not None}
    report = _report(fields, axes, where)
    key = method if report.seed is None else f"{method}_s{report.seed}"
    return AuditRow(source=source, key=key, method=method, seed=report.seed, report=report, axes=axes)


def _report(fields: dict[str, Any], axes: dict[str, Any], where: str) -> DiagnosticReport:
    """The entry as a report. Without per-layer norms its ``max_per_block`` is the growth itself, not a bound."""
    spelled = spellings_in(fields, _SPELLINGS)
    found: dict[str, Any] = {name: fields[spelling] for name, spelling in spelled.items()}
    if found.get("residual_norms"):
        found.pop("growth_bound", None)
    for norms, deepest in (("residual_norms", "h_L"), ("bp_grad_norms", "g_L")):
        if not found.get(norms) and fields.get(deepest) is not None:
            found[norms], spelled[norms] = [fields[deepest]], deepest
    return convert_spelled({**found, "axes": axes}, DiagnosticReport, where, spelled).check(where)
