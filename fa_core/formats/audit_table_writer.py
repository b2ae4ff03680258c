"""Atomic writers of audit tables (format 1), audit lists and penalty logs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from fa_core.files.atomic import write_json
from fa_core.files.decode import Json
from fa_core.formats.rows import AuditRow
from fa_core.formats.trace import Trace
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.names import canonical_method, differing_axes, key_of, unique_names
from fa_core.report.quantities import named
from fa_core.report.report_check import NO_REASON


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


_LISTED = {
    "h_norms": "residual_norms",
    "g_norms": "bp_grad_norms",
    "stability_layer": "stability_layer",
    **{each.listed: each.field for each in named("acc", "growth", "drift", "frozen")},
    "notes": "notes",
    "verdict": "short_verdict",
}
"""Name in an audit list → field of the report."""


def audit_list(rows: Sequence[AuditRow]) -> list[Json]:
    """Format 3: an entry per run with its numbers and a short verdict, without provenance."""
    return [
        _present(
            method=row.method,
            seed=row.seed,
            **row.axes,
            **{name: getattr(row.report, field) for name, field in _LISTED.items()},
        )
        for row in rows
    ]


def penalty_logs(rows: Sequence[AuditRow], traces: Mapping[str, Trace]) -> list[Json] | Json:
    """Format 4: an object for one run, a list for several.

    Args:
        rows: audits.
        traces: earlier epochs, by checkpoint.
    """
    logs = []
    for name, row in zip(unique_keys(rows), rows, strict=True):
        trace = traces.get(row.checkpoint or "")
        if trace:
            known = trace.epochs
        else:
            known = []
        last = row.report.provenance.get("epochs_done") or (known[-1].epoch if known else 1)
        entries = [_logged(epoch.epoch, epoch.report()) for epoch in known if epoch.epoch < last]
        logs.append(
            _present(
                run=name,
                method=row.method,
                **{"lam": 0.0, **row.axes},
                seed=row.seed,
                final_test_acc=row.report.headline_acc,
                frozen_baseline_acc=row.report.frozen_baseline_acc,
                verdict=row.report.verdict,
                log=[*entries, _logged(last, row.report)],
            )
        )
    if len(logs) == 1:
        return logs[0]
    return logs


def _logged(epoch: int, report: DiagnosticReport) -> Json:
    h, g = report.residual_norms, report.bp_grad_norms
    layer = min(2, len(g) - 1)
    return _present(
        epoch=epoch,
        test_acc=report.headline_acc,
        h_L_norm=report.h_L,
        **({f"g_{layer}_norm": g[layer]} if g else {}),
        residual_norms=h,
        bp_grad_norms=g,
        cross_batch_stability=report.cross_batch_stability,
    )


def _present(**fields: object) -> Json:
    return {name: value for name, value in fields.items() if value not in (None, "", [])}


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
