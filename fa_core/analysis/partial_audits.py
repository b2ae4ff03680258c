"""How far each diagnostic is from changing its mind, and what was measured at all."""

from __future__ import annotations

import math
from typing import TypeVar

import msgspec
import numpy as np

from fa_core.analysis import Result
from fa_core.facts.report_check import NO_REASON
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.judgement.diagnostics import ASSUMED, BIT, DIAGNOSTICS, LETTERS, Diagnostic, letters_of
from fa_core.report import DiagnosticReport
from fa_core.table import AuditTable
from fa_core.text.notes import baseline_text
from fa_core.trace import TraceEpoch, growth_bound

ALL_LETTERS = sum(BIT.values())
"""The bits of all four diagnostics."""


class Margin(Result, frozen=True):
    """One diagnostic of one run: how far from flipping.

    Attributes:
        letter: the diagnostic.
        unit: of value, threshold and room.
        value: the number; None if not measured.
        threshold: what it is compared with.
        fires: None if not measured.
        room: signed distance to the threshold in the diagnostic's unit: positive = passes with this
            much to spare, negative = fires by this much; None if not measured or non-finite.
        factor: how many times the value would have to change, ≥ 1 (max(v/t, t/v)); only for the
            ratio scales (a) and (b), and None where value or threshold is not positive.
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
    letter, value = diagnostic.letter, diagnostic.measured(report)
    limit = diagnostic.limit(report.thresholds)
    fires = room = factor = None
    if letter in report.coverage:
        fires = letter in report.flags
    if value is not None and math.isfinite(value) and letter not in report.nonfinite:
        room = limit - value if diagnostic.fires_above else value - limit
        if diagnostic.log and value > 0 and limit > 0:
            factor = max(value / limit, limit / value)
    return Margin(letter, diagnostic.unit, value, limit, fires, room, factor)


def unmeasured_letters(table: AuditTable) -> dict[str, str]:
    """Method → letters missing on all of its runs, for methods that miss some.

    Source: docs/protocol.md §3: every verdict carries its coverage.
    """
    missing = {}
    for method in table.methods:
        measured = int(np.bitwise_or.reduce(table.coverage[table.method == method]))
        if measured != ALL_LETTERS:
            missing[method] = letters_of(ALL_LETTERS & ~measured)
    return missing


EXACT, BOUND, PROXY = "exact", "bound", "proxy"
FIRES, PASSES, LIKELY_PASSES, UNMEASURED = "fires", "passes", "likely passes", "not measured"


class Evidence(Result, frozen=True, kw_only=True):
    """One diagnostic of a partial audit.

    Attributes:
        letter: the diagnostic.
        value: its number, or the bound or proxy in its place; None if there is none.
        kind: ``"exact"``, ``"bound"``, ``"proxy"``, or ``""`` if not measured.
        threshold: what it is compared with.
        state: ``fires``, ``passes``, ``likely passes``, or ``not measured``.
        why: what the state rests on.
    """

    letter: str
    value: float | None
    kind: str
    threshold: float
    state: str
    why: str


class PartialAudit(Result, frozen=True, kw_only=True):
    """A verdict with what it rests on.

    Attributes:
        verdict: the fixed verdict text.
        basis: what qualifies it, e.g. ``"a bound, b proxy, c not measured"``; ``""`` if all exact.
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
    """What each diagnostic of a report rests on, and what that allows to say.

    A growth that is only a lower bound can prove that (a) fires, and never that it passes. A proxy
    (the gradient of an earlier layer for (b)) can do neither for certain.

    Args:
        report: a report, with ``kinds`` of what is not exact.
        thresholds: default: the report's own.

    Source: docs/protocol.md §9, partial audits.
    """
    if thresholds is None:
        judged = report
    else:
        judged = report.with_thresholds(thresholds)
    evidence = tuple(_evidence(judged, letter) for letter in LETTERS)
    basis = [f"{e.letter} {e.kind or UNMEASURED}" for e in evidence if e.kind != EXACT]
    return PartialAudit(verdict=judged.verdict, basis=", ".join(basis), evidence=evidence)


Logged = TypeVar("Logged", DiagnosticReport, TraceEpoch)


def with_growth_bound(report: Logged, h_0: float, depth: int) -> Logged:
    """A report or epoch of ‖h_L‖ alone, given (a)'s lower bound (‖h_L‖/‖h_0‖)^{1/L}.

    Where ‖h_l‖ of an earlier layer was logged, l stands for L.

    Args:
        report: the report or epoch; one with norms of several layers, or a bound already, comes
            back unchanged.
        h_0: ‖h_0‖ > 0, from the method's own net at init, say.
        depth: number of blocks L ≥ 1.

    Raises:
        ValueError: h_0 or depth cannot be meant.

    Source: docs/protocol.md §9: the largest of L ratios is at least their geometric mean.
    """
    if not h_0 > 0 or depth < 1:
        raise ValueError(f"the bound needs ‖h_0‖ > 0 and at least one block, not {h_0} and {depth}")
    if len(report.residual_norms) != 1 or report.growth_bound is not None:
        return report
    layer = report.layers.get("residual_norms", "")
    if layer.isdecimal():
        depth = int(layer)
    return msgspec.structs.replace(
        report,
        growth_bound=growth_bound(h_0, report.residual_norms[-1], depth),
        evidence={**report.evidence, "a": BOUND},
        unmeasured={letter: why for letter, why in report.unmeasured.items() if letter != "a"},
    )


def _evidence(report: DiagnosticReport, letter: str) -> Evidence:
    diagnostic = DIAGNOSTICS[letter]
    value = diagnostic.measured(report)
    kind = report.kinds.get(letter, EXACT)
    state = FIRES if letter in report.flags else PASSES
    if letter in report.nonfinite:
        state, why = FIRES, f"non-finite: {report.nonfinite[letter]}"
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
"""What a state rests on, by the kind of its number."""
