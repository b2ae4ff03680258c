"""Writing the audit table (format 1), whole or not at all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from fa_core.atomic import write_json
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow
from fa_core.runs import canonical_method, numbered


class SummaryRow(msgspec.Struct, frozen=True, kw_only=True):
    """One line of ``summary``: a run at a glance (docs/protocol.md §10.1)."""

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
        UsageError: the path is that of a folder, a device, a FIFO or a socket.
        FaError: the folder may not be written to, or is full.
    """
    reports: dict[str, Any] = {}
    summary: list[dict[str, Any]] = []
    rows = list(rows)
    for key, row in zip(unique_keys(rows), rows, strict=True):
        report = stored_report(row)
        reports[key] = report.to_dict()
        line = SummaryRow(
            method=row.method,
            seed=row.seed,
            acc=report.headline_acc,
            h_L=report.h_L,
            g_L=report.g_L,
            stability=report.cross_batch_stability,
            frozen_acc=report.frozen_baseline_acc,
            verdict=report.verdict,
        )
        summary.append(msgspec.structs.asdict(line))
    write_json(Path(path), {**(extra or {}), "reports": reports, "summary": summary})


def stored_report(row: AuditRow) -> DiagnosticReport:
    """The row's report with what the row knows in addition, so that reading the file gives the row back.

    A baseline that was only assumed is left out: in a file it would be a measured one.
    """
    report = row.report.as_recorded()
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


def unique_keys(rows: Sequence[AuditRow]) -> list[str]:
    """A key per row: ``<method>_s<seed>``, where runs share it followed by what distinguishes them.

    That is their axes, then the run folder's name, then also its folder's; the order of the rows does not matter.
    A number sets apart what even those do not.
    """
    keys = [row.method if row.seed is None else f"{row.method}_s{row.seed}" for row in rows]
    for more in (_axes, _folder, _place):
        shared = {key for key, count in Counter(keys).items() if count > 1}
        keys = [key + more(row) if key in shared else key for key, row in zip(keys, rows, strict=True)]
    order = sorted(range(len(keys)), key=lambda index: rows[index].checkpoint or "")
    for index, key in zip(order, numbered([keys[index] for index in order]), strict=True):
        keys[index] = key
    return keys


def _axes(row: AuditRow) -> str:
    return "".join(f"_{axis}{value}" for axis, value in sorted(row.axes.items()))


def _folder(row: AuditRow) -> str:
    return f"@{Path(row.checkpoint).name}" if row.checkpoint else ""


def _place(row: AuditRow) -> str:
    return f"@{Path(row.checkpoint).parent.name}" if row.checkpoint else ""
