"""The analyses as JSON holds them: what the commands print, and what their screens copy and export."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fa_core.analysis import SeedTable, Sensitivity, Timeline, by_method, partial_audit, verdict_curve
from fa_core.report import DiagnosticThresholds
from fa_core.rows import AuditRow
from fa_core.table import AuditTable


def sweep_record(
    table: AuditTable, thresholds: DiagnosticThresholds, analysis: Sequence[Sensitivity]
) -> list[dict[str, Any]]:
    """Every diagnostic's sensitivity, with its counts as a function of its threshold."""
    return [{**one.to_dict(), "counts": verdict_curve(table, one.letter, thresholds).to_dict()} for one in analysis]


def seeds_record(rows: Sequence[AuditRow], thresholds: DiagnosticThresholds, analysis: SeedTable) -> dict[str, Any]:
    """Every method over its seeds, and what the runs' numbers rest on where they are not exact."""
    partial = {row.key: partial_audit(row.report, thresholds).to_dict() for row in rows if row.report.kinds}
    return {**analysis.to_dict(), "partial": partial}


def timeline_record(found: Sequence[Timeline]) -> dict[str, Any]:
    """First fires and early stops per run and per method, or why there are none."""
    skipped = [] if found else ["no traces here (epoch logs such as trace.jsonl): nothing to replay"]
    methods = [one.to_dict() for one in by_method(found)]
    return {"runs": [one.to_dict() for one in found], "methods": methods, "skipped": skipped}
