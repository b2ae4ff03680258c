"""Audits from logs that hold less than the protocol asks for: each value exact, a bound, or a proxy."""

from __future__ import annotations

import msgspec

from fa_core.analysis.result import Result
from fa_core.diagnostics import DIAGNOSTICS, LETTERS, DiagnosticThresholds
from fa_core.report import ASSUMED, DiagnosticReport

EXACT, BOUND, PROXY = "exact", "bound", "proxy"
FIRES, PASSES, LIKELY_PASSES, UNMEASURED = "fires", "passes", "likely passes", "not measured"


class Evidence(Result, frozen=True, kw_only=True):
    """One diagnostic of a partial audit.

    Attributes:
        letter: the diagnostic.
        value: its number, or the bound or proxy that stands for it; None if there is none.
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
        return f"{self.verdict} ({self.basis})" if self.basis else self.verdict


def partial_audit(report: DiagnosticReport, thresholds: DiagnosticThresholds | None = None) -> PartialAudit:
    """What each diagnostic of a report rests on, and what that allows to say.

    A growth that is only a lower bound can prove that (a) fires, and never that it passes. A proxy (the
    gradient of an earlier layer for (b)) can do neither for certain.

    Args:
        report: a report, with ``kinds`` of what is not exact.
        thresholds: default: the report's own.

    Source: docs/protocol.md §9, partial audits.
    """
    judged = report if thresholds is None else report.with_thresholds(thresholds)
    evidence = tuple(_evidence(judged, letter) for letter in LETTERS)
    basis = [f"{e.letter} {e.kind or UNMEASURED}" for e in evidence if e.kind != EXACT]
    return PartialAudit(verdict=judged.verdict, basis=", ".join(basis), evidence=evidence)


def with_growth_bound(report: DiagnosticReport, h_0: float, depth: int) -> DiagnosticReport:
    """A report of ‖h_L‖ alone, given (a)'s lower bound (‖h_L‖/‖h_0‖)^{1/L}.

    Args:
        report: the report; one with norms of several layers, or a bound already, comes back unchanged.
        h_0: ‖h_0‖ > 0, from the method's own net at init, say.
        depth: number of blocks L ≥ 1.

    Raises:
        ValueError: h_0 or depth cannot be meant.

    Source: docs/protocol.md §9: the largest of L ratios is at least their geometric mean.
    """
    from fa_core.trace import growth_bound

    if not h_0 > 0 or depth < 1:
        raise ValueError(f"the bound needs ‖h_0‖ > 0 and at least one block, not {h_0} and {depth}")
    if len(report.residual_norms) != 1 or report.growth_bound is not None:
        return report
    return msgspec.structs.replace(
        report,
        growth_bound=growth_bound(h_0, report.residual_norms[-1], depth),
        evidence={**report.evidence, "a": BOUND},
        unmeasured={letter: why for letter, why in report.unmeasured.items() if letter != "a"},
    )


def _evidence(report: DiagnosticReport, letter: str) -> Evidence:
    diagnostic = DIAGNOSTICS[letter]
    limit = diagnostic.limit(report.thresholds)
    value = {
        "a": report.max_per_block_growth,
        "b": report.g_L,
        "c": report.cross_batch_stability,
        "d": report.margin_pp,
    }[letter]
    if letter in report.nonfinite:
        kind, state, why = report.kinds.get(letter, EXACT), FIRES, f"non-finite: {report.nonfinite[letter]}"
    elif letter not in report.coverage:
        kind, state, why = "", UNMEASURED, report.unmeasured.get(letter, "not in the source")
    else:
        kind = report.kinds.get(letter, EXACT)
        state, why = _state(letter in report.flags, kind)
        why = f"against a frozen baseline of {report.baseline_words()}" if kind == ASSUMED else why
    return Evidence(letter=letter, value=value if kind else None, kind=kind, threshold=limit, state=state, why=why)


def _state(fires: bool, kind: str) -> tuple[str, str]:
    if kind == BOUND:
        if fires:
            return FIRES, "already the lower bound is above the limit"
        return LIKELY_PASSES, "only a lower bound, which is below the limit: one block may still exceed it"
    if kind == PROXY:
        return (FIRES if fires else PASSES), "by proxy: measured at an earlier layer than the protocol's"
    return (FIRES if fires else PASSES), "measured as defined"
