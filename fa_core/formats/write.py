"""Writing the audit table (format 1), whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from fa_core.atomic import write_json
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow, canonical_method


class SummaryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of ``summary``: a run at a glance (PROTOCOL §10.1)."""

    method: str
    seed: int | None
    acc: float | None
    h_L: float | None
    g_L: float | None
    stability: float | None
    frozen_acc: float | None
    verdict: str


def write_audit_table(path: Path | str, rows: Iterable[AuditRow], extra: Mapping[str, Any] | None = None) -> None:
    """Write rows as an audit table; a reader sees the old file or the new one, never half of one.

    Args:
        path: the file; a link is followed.
        rows: what to write, in this order.
        extra: further top-level members (``reports`` and ``summary`` are ours).

    Raises:
        FaError: the folder may not be written to, or is full.
    """
    reports: dict[str, Any] = {}
    summary: list[dict[str, Any]] = []
    for row in rows:
        reports[_unused_key(row, reports)] = stored_report(row).to_dict()
        summary.append(msgspec.structs.asdict(_summary(row)))
    write_json(Path(os.path.realpath(path)), {**(extra or {}), "reports": reports, "summary": summary})


def stored_report(row: AuditRow) -> DiagnosticReport:
    """The row's report with what the row knows beside it, so that reading the file gives the row back."""
    report = row.report
    provenance = report.provenance
    if row.checkpoint is not None and "checkpoint" not in provenance:
        provenance = {**provenance, "checkpoint": row.checkpoint}
    return msgspec.structs.replace(
        report,
        method_name=report.method_name if canonical_method(report.method_name) == row.method else row.method,
        seed=row.seed,
        axes=row.axes,
        provenance=provenance,
    )


def _unused_key(row: AuditRow, taken: Mapping[str, Any]) -> str:
    """``<method>_s<seed>``; with the axes behind it where that is taken, then with a number."""
    key = row.method if row.seed is None else f"{row.method}_s{row.seed}"
    if key in taken and row.axes:
        key = "_".join([key, *(f"{axis}{value}" for axis, value in sorted(row.axes.items()))])
    unique, count = key, 1
    while unique in taken:
        count += 1
        unique = f"{key}#{count}"
    return unique


def _summary(row: AuditRow) -> SummaryRow:
    report = row.report
    return SummaryRow(
        method=row.method,
        seed=row.seed,
        acc=report.headline_acc,
        h_L=report.h_L,
        g_L=report.g_L,
        stability=report.cross_batch_stability,
        frozen_acc=report.frozen_baseline_acc,
        verdict=report.verdict,
    )
