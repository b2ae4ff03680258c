"""Partial audits: evidence of each diagnostic, growth bounds, coverage; margins to flip."""

from __future__ import annotations

import math

import msgspec
import numpy as np

from fa_core.analysis import Result
from fa_core.facts.report_check import NO_REASON
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.judgement.diagnostics import ASSUMED, BIT, DIAGNOSTICS, LETTERS, Diagnostic, letters_of
from fa_core.report import DiagnosticReport
from fa_core.table import AuditTable
from fa_core.text.notes import baseline_text

ALL_LETTERS = sum(BIT.values())
"""The bits of all four diagnostics."""


class Margin(Result, frozen=True):
    """Distance of one diagnostic of one run from flipping.

    Attributes:
        letter: the diagnostic.
        unit: of value, threshold and room.
        value: the number; None if not measured.
        threshold: its threshold.
        fires: None if not measured.
        room: signed distance to the threshold in the diagnostic's unit: positive = passes with this
            much to spare, negative = fires by this much; None if not measured or non-finite.
        factor: the ratio of value and threshold, ≥ 1 (max(v/t, t/v)); only for the ratio scales (a)
            and (b), and None unless both are positive.
    """

    letter: str
    unit: str
    value: float | None
    threshold: float
    fires: bool | None
    room: float | None = None
    factor: float | None = None


def margins_to_flip(report: DiagnosticReport) -> tuple[Margin, ...]:
    """The margins of one run under the report's thresholds, in the order a, b, c, d.

    Source: docs/protocol.md §8; room = (t − v) for a diagnostic that fires above t,
    (v − t) for one that fires below.
    """
    return tuple(_margin(report, diagnostic) for diagnostic in DIAGNOSTICS.values())


def _margin(report: DiagnosticReport, diagnostic: Diagnostic) -> Margin:
    letter = diagnostic.letter
    value = diagnostic.measured(report)
    limit = diagnostic.limit(report.thresholds)
    fires = None
    if letter in report.coverage:
        fires = letter in report.flags
    margin = Margin(letter, diagnostic.unit, value, limit, fires)
    if value is None or not math.isfinite(value) or letter in report.nonfinite:
        return margin
    room = value - limit
    if diagnostic.fires_above:
        room = limit - value
    factor = None
    if diagnostic.log and value > 0 and limit > 0:
        factor = max(value / limit, limit / value)
    return msgspec.structs.replace(margin, room=room, factor=factor)


def unmeasured_letters(table: AuditTable) -> dict[str, str]:
    """Method → letters that none of its runs measured, if there are any.

    Source: docs/protocol.md §3: every verdict carries its coverage.
    """
    missing = {}
    for method in table.methods:
        coverage = table.coverage[table.method == method]
        measured = int(np.bitwise_or.reduce(coverage))
        if measured != ALL_LETTERS:
            missing[method] = letters_of(ALL_LETTERS & ~measured)
    return missing


EXACT, BOUND, PROXY = "exact", "bound", "proxy"
FIRES, PASSES, LIKELY_PASSES, UNMEASURED = "fires", "passes", "likely passes", "not measured"


class Evidence(Result, frozen=True, kw_only=True):
    """One diagnostic of a partial audit.

    Attributes:
        letter: the diagnostic.
        value: its number, bound or proxy, or None.
        kind: ``"exact"``, ``"bound"``, ``"proxy"``, or ``""`` if not measured.
        threshold: its threshold.
        state: ``fires``, ``passes``, ``likely passes``, or ``not measured``.
        why: the basis of the state.
    """

    letter: str
    value: float | None
    kind: str
    threshold: float
    state: str
    why: str


class PartialAudit(Result, frozen=True, kw_only=True):
    """A verdict with its evidence.

    Attributes:
        verdict: the fixed verdict text.
        basis: qualification, e.g. ``"a bound, b proxy, c not measured"``; ``""`` if all exact.
        evidence: a, b, c, d.
    """

    verdict: str
    basis: str
    evidence: tuple[Evidence, ...]

    def __str__(self) -> str:
        if self.basis:
            return f"{self.verdict} ({self.basis})"
        return self.verdict


def partial_audit(
    report: DiagnosticReport, thresholds: DiagnosticThresholds | None = None
) -> PartialAudit:
    """The verdict of a report with the evidence of each diagnostic.

    A lower bound on growth can prove that (a) fires, but not that it passes. A proxy (for (b), the
    gradient of an earlier layer) proves neither.

    Args:
        report: a report, with ``kinds`` of inexact numbers.
        thresholds: default: the report's own.

    Source: docs/protocol.md §9, partial audits.
    """
    if thresholds is not None:
        report = report.with_thresholds(thresholds)
    evidence = tuple(_evidence(report, letter) for letter in LETTERS)
    basis = []
    for entry in evidence:
        if entry.kind != EXACT:
            basis.append(f"{entry.letter} {entry.kind or UNMEASURED}")
    return PartialAudit(verdict=report.verdict, basis=", ".join(basis), evidence=evidence)


def _evidence(report: DiagnosticReport, letter: str) -> Evidence:
    diagnostic = DIAGNOSTICS[letter]
    value = diagnostic.measured(report)
    kind = report.kinds.get(letter, EXACT)
    state = PASSES
    if letter in report.flags:
        state = FIRES
    if letter in report.nonfinite:
        state = FIRES
        why = f"non-finite: {report.nonfinite[letter]}"
    elif letter not in report.coverage:
        value, kind, state = None, "", UNMEASURED
        why = report.unmeasured.get(letter, NO_REASON)
    elif kind == BOUND and state == PASSES:
        state = LIKELY_PASSES
        why = "only a lower bound, which is below the limit: one block may still exceed it"
    elif kind == ASSUMED:
        why = f"against a frozen baseline of {baseline_text(report)}"
    else:
        why = _BASIS.get(kind, _BASIS[EXACT])
    return Evidence(
        letter=letter,
        value=value,
        kind=kind,
        threshold=diagnostic.limit(report.thresholds),
        state=state,
        why=why,
    )


_BASIS = {
    EXACT: "measured as defined",
    BOUND: "already the lower bound is above the limit",
    PROXY: "by proxy: measured at an earlier layer than the protocol's",
}
"""Kind of a number → basis of the state."""
