"""(d)'s baseline out of the audit itself: the accuracy of the frozen-blocks run that lies beside a run."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from fa_core.report import BASELINE_FROM, DiagnosticReport
from fa_core.rows import AuditRow
from fa_core.runs import WITHOUT_BASELINE

FROZEN = "frozen"
"""The control whose accuracy is the baseline."""


def with_measured_baselines(rows: Iterable[AuditRow]) -> list[AuditRow]:
    """Fill in (d)'s baseline where a run has none and a frozen-blocks run was measured in the same audit.

    It must have the same network, arguments, data and seed; one of the same recipe goes before others.
    """
    rows = list(rows)
    frozen = [row for row in rows if row.method == FROZEN and row.report.headline_acc is not None]
    return [_filled(row, frozen) for row in rows]


def as_measured(report: DiagnosticReport) -> DiagnosticReport:
    """The report as it was measured, before a baseline was filled in and a verdict written down."""
    report = replace(report, recorded_verdict=None)
    if BASELINE_FROM not in report.provenance:
        return report
    provenance = {name: value for name, value in report.provenance.items() if name != BASELINE_FROM}
    return replace(report, provenance=provenance, frozen_baseline_acc=None)


def filled(row: AuditRow, acc: float | None, source: str) -> AuditRow:
    """The row with this baseline, and where it came from."""
    report = row.report.with_frozen_baseline(acc)
    return replace(row, report=replace(report, provenance={**report.provenance, BASELINE_FROM: source}))


def _filled(row: AuditRow, frozen: list[AuditRow]) -> AuditRow:
    who = _alike(row)
    if row.method in WITHOUT_BASELINE or row.report.frozen_baseline_acc is not None or who is None:
        return row
    fitting = [candidate for candidate in frozen if _alike(candidate) == who]
    if not fitting:
        return row
    recipe = row.report.provenance.get("recipe")
    best = next((other for other in fitting if other.report.provenance.get("recipe") == recipe), fitting[0])
    return filled(row, best.report.headline_acc, best.checkpoint or best.source)


def _alike(row: AuditRow) -> tuple[object, ...] | None:
    """What a run and its baseline share; None where the network is not known."""
    facts = row.report.provenance
    if row.seed is None or "arch" not in facts:
        return None
    return (facts["arch"], facts.get("arch_args"), facts.get("data"), facts.get("data_hash"), row.seed)
