"""Atomic writer of audit tables (format 1)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from fa_core.files.atomic import write_json
from fa_core.files.decode import Json
from fa_core.formats.rows import AuditRow
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.names import canonical_method, differing_axes, key_of, unique_names
from fa_core.report.report_facts import NO_REASON


class SummaryRow(msgspec.Struct, frozen=True, kw_only=True):
    """A run's entry in ``summary`` (docs/protocol.md §10.1); (c) as in `printable_drift`."""

    method: str
    seed: int | None
    acc: float | None
    h_L: float | None
    g_L: float | None
    stability: float | None
    frozen_acc: float | None
    verdict: str


def write_audit_table(
    path: Path | str, rows: Iterable[AuditRow], extra: Mapping[str, object] | None = None
) -> None:
    """Write rows as an audit table, atomically.

    Args:
        path: the file; a link is followed.
        rows: the rows, in order.
        extra: further top-level members (``reports`` and ``summary`` are ours).

    Raises:
        UsageError: the path is a folder, a device, a FIFO or a socket.
        FaError: the folder is not writable, or the disk is full.
    """
    reports: Json = {}
    summary: list[Json] = []
    rows = list(rows)
    for key, row in zip(unique_keys(rows), rows, strict=True):
        report = stored_report(row)
        reports[key] = printable_drift(report)
        summary.append(msgspec.structs.asdict(summary_row(row)))
    write_json(Path(path), {**(extra or {}), "reports": reports, "summary": summary})


def summary_row(row: AuditRow) -> SummaryRow:
    """A run's entry in ``summary``."""
    report = row.report.as_recorded()
    drift = report.cross_batch_stability
    return SummaryRow(
        method=row.method,
        seed=row.seed,
        acc=report.headline_acc,
        h_L=report.h_L,
        g_L=report.g_L,
        stability=math.nan if drift is None else drift,
        frozen_acc=report.frozen_baseline_acc,
        verdict=report.verdict,
    )


def printable_drift(report: DiagnosticReport) -> Json:
    """The report as JSON with NaN for an unmeasured (c), which programs of the published files
    print as a number. ``unmeasured`` has the reason, by which it is read back as not measured.
    """
    data = report.to_dict()
    if report.cross_batch_stability is not None:
        return data
    reasons = {"c": report.unmeasured.get("c") or NO_REASON, **report.unmeasured}
    return {**data, "cross_batch_stability": math.nan, "unmeasured": reasons}


def stored_report(row: AuditRow) -> DiagnosticReport:
    """The row's report with the row's own facts, so that reading the file restores the row. An
    assumed baseline is left out: in a file it would count as measured.
    """
    report = row.report.as_recorded()
    provenance = report.provenance
    if row.checkpoint is not None and "checkpoint" not in provenance:
        provenance = {**provenance, "checkpoint": row.checkpoint}
    return msgspec.structs.replace(
        report,
        method_name=report.method_name
        if canonical_method(report.method_name) == row.method
        else row.method,
        seed=row.seed,
        axes=row.axes,
        provenance=provenance,
    )


def unique_keys(rows: Sequence[AuditRow]) -> list[str]:
    """A unique key per row, by method, seed and the axes that differ among the method's runs.

    Equal keys get the distinguishing end of the checkpoint's path, or a number.
    """
    differing = differing_axes((row.method, row.axes) for row in rows)
    keys = []
    for row in rows:
        axes = {axis: row.axes[axis] for axis in differing[row.method] if axis in row.axes}
        keys.append(key_of(row.method, dict(sorted(axes.items())), row.seed))
    return unique_names(keys, [row.checkpoint or "" for row in rows])
