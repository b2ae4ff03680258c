"""The backward gain γ, the cause of (b), and the failure mode of a run. Pure Python."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fa_core.facts.method_style import known_method
from fa_core.facts.runs import canonical_method, is_control
from fa_core.judgement.gamma import null_gamma, within_null
from fa_core.numbers import brief

if TYPE_CHECKING:
    from fa_core.report import DiagnosticReport

CANCELLED_BELOW = 1e-3
"""A deepest gain under this means that the backward pass loses the error on its way."""

CONVERGED_BELOW = 1e-2
"""A median ‖e_T‖ under this means that there is hardly any error left to send back."""

NOISE_BELOW = 0.1
"""A mean cosine under this is what K = 10 batches without a shared direction have:
2·√(2/(K(K−1)(C−1))), C = 10."""


def backward_gain(report: DiagnosticReport) -> list[float | None]:
    """γ_l = median_i ‖g_l,i‖·B / median_i ‖e_T,i‖, l = 0..L.

    g_l carries CE's 1/B and e_T = softmax(logits) − onehot(y) does not, hence the B.

    Args:
        report: with `bp_grad_norms`, `batch_size` and `error_norm`, all of the same samples.

    Returns:
        One gain per layer, in 1/(unit of the stream); None for a layer where ‖e_T‖ is 0 (no error,
        no gain); an empty list where the report lacks one of the three.

    Source: docs/protocol.md §8. Healthy BP nets have γ_L ≥ 0.04, also at a loss near zero;
    collapsed DFA ≤ 3e-5.

    >>> from fa_core.report import DiagnosticReport
    >>> backward_gain(DiagnosticReport(bp_grad_norms=[2e-3, 1e-3], batch_size=100, error_norm=0.5))
    [0.4, 0.2]
    """
    if report.batch_size is None or report.error_norm is None:
        return []
    if report.error_norm == 0:
        return [None] * len(report.bp_grad_norms)
    return [g * report.batch_size / report.error_norm for g in report.bp_grad_norms]


def cause_of_floor(report: DiagnosticReport) -> str | None:
    """Why (b) fired: the error cancelled on its way back, or there is none.

    Returns:
        ``"cancelled"`` (γ_L < 1e-3); where median ‖e_T‖ < 1e-2, ``"saturated"`` if (a) fires (the
        logits grew with the stream until the softmax was certain), else ``"converged"``;
        ``"both"``; or ``"undetermined"``. None where (b) did not fire. Show γ_L and ‖e_T‖ next to
        the word.

    Source: docs/protocol.md §8.

    >>> from fa_core.report import DiagnosticReport
    >>> collapsed = DiagnosticReport(bp_grad_norms=[1e-3, 4e-10], batch_size=128, error_norm=0.9)
    >>> cause_of_floor(collapsed)
    'cancelled'
    >>> cause_of_floor(DiagnosticReport(bp_grad_norms=[5e-8], batch_size=128, error_norm=2e-5))
    'converged'
    """
    if "b" not in report.flags:
        return None
    gains = backward_gain(report)
    if gains:
        deepest = gains[-1]
    else:
        deepest = None
    cancelled = deepest is not None and deepest < CANCELLED_BELOW
    if report.error_norm is not None and report.error_norm < CONVERGED_BELOW:
        if cancelled:
            return "both"
        if "a" in report.flags:
            return "saturated"
        return "converged"
    if cancelled:
        return "cancelled"
    return "undetermined"


def floor_in_words(report: DiagnosticReport) -> str | None:
    """The cause with its two numbers, e.g. ``"cancelled (γ_L 5.7e-8, ‖e_T‖ 0.9)"``; None where (b)
    did not fire.

    A number that is missing is named; a gain that does not exist (no error) reads N/A.

    >>> from fa_core.report import DiagnosticReport
    >>> floor_in_words(DiagnosticReport(bp_grad_norms=[4e-10], batch_size=128, error_norm=0.9))
    'cancelled (γ_L 5.7e-8, ‖e_T‖ 0.9)'
    >>> floor_in_words(DiagnosticReport(bp_grad_norms=[4e-10], error_norm=0.9))
    'undetermined (B not recorded, ‖e_T‖ 0.9)'
    """
    cause = cause_of_floor(report)
    if cause is None:
        return None
    return f"{cause} ({', '.join(_floor_numbers(report))})"


def _floor_numbers(report: DiagnosticReport) -> Iterator[str]:
    """γ_L and ‖e_T‖, or which of γ_L's ingredients the source does not give."""
    error, gains = report.error_norm, backward_gain(report)
    missing = [
        name for name, value in (("B", report.batch_size), ("‖e_T‖", error)) if value is None
    ]
    if missing:
        yield f"{' and '.join(missing)} not recorded"
    elif gains:
        yield "γ_L N/A" if gains[-1] is None else f"γ_L {brief(gains[-1], 2)}"
    if error is not None:
        yield f"‖e_T‖ {brief(error, 2)}"


def failure_mode(report: DiagnosticReport, *, brief: bool = False) -> str:
    """In which mode a run fails, as text; ``""`` where it does not, or what would show it was not
    measured.

    *Scale*: (a) fires, or (b) does while there is an error to send back. *Depth unused*: (d) fires
    while (a) and (b) were measured and do not fail so. It is a failure of *direction* only where
    deep Γ was measured and lies within the null that was drawn beside it: then the credit is no
    better than that of fresh feedback. BP's credit is the gradient, and of a control none is
    claimed: never said of these. Where (b) or (c) fires, (c) interprets the
    gradient: *drift* if it fires (one direction in every batch), *noise* if it is below 0.1 (no
        common one), else
    neither.

    Args:
        report: judged by its thresholds.
        brief: without the cosine.

    Source: docs/protocol.md §9, modes.

    >>> from fa_core.report import DiagnosticReport
    >>> failure_mode(DiagnosticReport(residual_norms=[1, 400], bp_grad_norms=[4e-10],
    ...     cross_batch_stability=0.992))
    'scale failure; drift (cosine +0.992)'
    >>> failure_mode(DiagnosticReport("", "", [1, 2], [4e-3], headline_acc=0.36,
    ...     frozen_baseline_acc=0.349))
    'depth unused'
    """
    flags, cosine, said = report.flags, report.cross_batch_stability, []
    if "a" in flags or ("b" in flags and cause_of_floor(report) != "converged"):
        said.append("scale failure")
    elif "d" in flags and {"a", "b"} <= set(report.coverage):
        said.append("direction failure" if _credit_is_chance(report) else "depth unused")
    if (
        flags & {"b", "c"}
        and "c" in report.coverage
        and cosine is not None
        and math.isfinite(cosine)
    ):
        if "c" in flags:
            word = "drift"
        elif cosine < NOISE_BELOW:
            word = "noise"
        else:
            word = "neither drift nor noise"
        said.append(word if brief else f"{word} (cosine {cosine:+.3f})")
    return "; ".join(said)


def _credit_is_chance(report: DiagnosticReport) -> bool:
    """Whether the method's credit is measured to be no better aligned than fresh feedback."""
    method = report.method_name
    if known_method(canonical_method(method)) == "bp" or is_control(method):
        return False
    drawn = math.isfinite(null_gamma(report.credit, method)[1])
    return drawn and within_null(report) is True
