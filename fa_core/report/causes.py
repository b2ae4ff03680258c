"""The backward gain γ, the cause of (b), and failure modes. Pure Python."""

from __future__ import annotations

import math
from typing import NamedTuple

from fa_core.report.gamma import null_gamma, null_of, within_null
from fa_core.report.judged_run import JudgedRun
from fa_core.report.method_style import known_method
from fa_core.report.names import canonical_method, is_control
from fa_core.report.provenance import CE

HEALTHY_GAIN = 0.04
"""The least γ_L of healthy BP networks (docs/protocol.md §8)."""

CANCELLED_BELOW = 1e-3
"""Threshold of γ_L below which the backward pass loses the error."""

CONVERGED_BELOW = 1e-2
"""Threshold of the median ‖e_T‖ below which hardly any error is left."""

NOISE_BELOW = 0.1
"""Threshold of the mean cosine below which K = 10 batches share no direction:
2·√(2/(K(K−1)(C−1))), C = 10."""


def backward_gain(run: JudgedRun) -> list[float | None]:
    """γ_l = median_i ‖g_l,i‖·B / median_i ‖e_T,i‖, l = 0..L.

    g_l carries CE's 1/B and e_T = softmax(logits) − onehot(y) does not, hence the B.

    Args:
        run: with `bp_grad_norms`, `batch_size` and `error_norm`, all of the same samples.

    Returns:
        One gain per layer, in 1/(unit of the stream); None if ‖e_T‖ is 0; an empty list if the
        report lacks one of the three.

    Source: docs/protocol.md §8. Healthy BP nets have γ_L ≥ 0.04, also at a loss near zero;
    collapsed DFA ≤ 3e-5.

    >>> backward_gain(JudgedRun(bp_grad_norms=[2e-3, 1e-3], batch_size=100, error_norm=0.5))
    [0.4, 0.2]
    """
    if run.batch_size is None or run.error_norm is None:
        return []
    if run.error_norm == 0:
        return [None] * len(run.bp_grad_norms)
    return [g * run.batch_size / run.error_norm for g in run.bp_grad_norms]


def cause_of_floor(run: JudgedRun) -> str | None:
    """The cause of (b): the error cancelled on its way back, or there is none.

    Returns:
        ``"cancelled"`` (γ_L < 1e-3); where median ‖e_T‖ < 1e-2, ``"saturated"`` if (a) fires (the
        logits grew with the stream until the softmax was certain), else ``"converged"``;
        ``"both"``; or ``"undetermined"``, as under any loss but CE, whose limits these are. None
        where (b) did not fire. Show γ_L and ‖e_T‖ next to the word.

    Source: docs/protocol.md §8.

    >>> collapsed = JudgedRun(bp_grad_norms=[1e-3, 4e-10], batch_size=128, error_norm=0.9)
    >>> cause_of_floor(collapsed)
    'cancelled'
    >>> cause_of_floor(JudgedRun(bp_grad_norms=[5e-8], batch_size=128, error_norm=2e-5))
    'converged'
    >>> cause_of_floor(JudgedRun(bp_grad_norms=[5e-8], provenance={"loss": "mse"}))
    'undetermined'
    """
    if "b" not in run.flags:
        return None
    if run.loss != CE:
        return "undetermined"
    gains = backward_gain(run)
    if gains:
        deepest = gains[-1]
    else:
        deepest = None
    cancelled = deepest is not None and deepest < CANCELLED_BELOW
    if run.error_norm is not None and run.error_norm < CONVERGED_BELOW:
        if cancelled:
            return "both"
        if "a" in run.flags:
            return "saturated"
        return "converged"
    if cancelled:
        return "cancelled"
    return "undetermined"


class FailureModes(NamedTuple):
    """Failure modes of a run; ``""`` for none.

    Attributes:
        failure: ``"scale failure"``, ``"direction failure"`` or ``"depth unused"``.
        direction: of the gradient over batches: ``"drift"``, ``"noise"`` or ``"neither drift nor
            noise"``.
    """

    failure: str
    direction: str


def failure_modes(run: JudgedRun) -> FailureModes:
    """The failure modes of a run.

    *Scale*: (a) fires, or (b) does under CE while there is an error to send back. *Depth unused*:
    (d) fires while (a) and (b) are decided and do not fail so. It is a *direction* failure only
    if deep Γ was measured and lies within its null: the credit is then no better than that of fresh
    feedback.
    BP, whose credit is the gradient, and controls never have it. If (b) or (c) fires, (c)
    interprets the gradient unless it is undecided: *drift* if it fires (one direction in every
    batch), *noise* if it is below 0.1 (no common one), else neither.

    Source: docs/protocol.md §9, modes.

    >>> failure_modes(JudgedRun(residual_norms=[1, 400], cross_batch_stability=0.02))
    FailureModes(failure='scale failure', direction='')
    >>> failure_modes(JudgedRun(bp_grad_norms=[5e-8], provenance={"loss": "mse"})).failure
    ''
    """
    floored = "b" in run.flags and run.loss == CE and cause_of_floor(run) != "converged"
    if "a" in run.flags or floored:
        failure = "scale failure"
    elif "d" not in run.flags or not {"a", "b"} <= set(run.coverage) - run.undecided:
        failure = ""
    elif _credit_is_chance(run):
        failure = "direction failure"
    else:
        failure = "depth unused"
    return FailureModes(failure, _direction(run))


def _direction(run: JudgedRun) -> str:
    cosine = run.cross_batch_stability
    if not run.flags & {"b", "c"} or "c" in run.undecided:
        return ""
    if cosine is None or not math.isfinite(cosine):
        return ""
    if "c" in run.flags:
        return "drift"
    if cosine < NOISE_BELOW:
        return "noise"
    return "neither drift nor noise"


def _credit_is_chance(run: JudgedRun) -> bool:
    """Whether the method's credit was measured and is no better aligned than fresh feedback."""
    method = run.method_name
    if known_method(canonical_method(method)) == "bp" or is_control(method):
        return False
    # the null of shuffled samples is none of fresh feedback
    fresh = not null_of(run.credit)
    drawn = fresh and math.isfinite(null_gamma(run.credit, method)[1])
    return drawn and within_null(run) is True
