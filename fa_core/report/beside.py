"""What was measured beside a diagnostic, its cause and the failure mode, as text. It changes no
verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from fa_core.report.diagnostics import NORM_RATIO_EPS, block_growths
from fa_core.report.gamma import null_of, within_null
from fa_core.report.judged_run import JudgedRun
from fa_core.report.method_style import known_method
from fa_core.report.names import canonical_method
from fa_core.report.numbers import brief, joined
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


def deepest_gain(run: JudgedRun) -> float | None:
    """γ_L = median_i ‖g_L,i‖·B / median_i ‖e_T,i‖, in 1/(unit of the stream).

    g_L carries CE's 1/B and e_T = softmax(logits) − onehot(y) does not, hence the B.

    Args:
        run: with `bp_grad_norms`, `batch_size` and `error_norm`, all of the same samples.

    Returns:
        None if ‖e_T‖ is 0, or the report lacks one of the three.

    Source: docs/protocol.md §8. Healthy BP nets have γ_L ≥ 0.04, also at a loss near zero;
    collapsed DFA ≤ 3e-5.

    >>> deepest_gain(JudgedRun(bp_grad_norms=[2e-3, 1e-3], batch_size=100, error_norm=0.5))
    0.2
    """
    if run.g_L is None or run.batch_size is None or not run.error_norm:
        return None
    return run.g_L * run.batch_size / run.error_norm


def cause_of_floor(run: JudgedRun) -> str | None:
    """The cause of (b): the error cancelled on its way back, or there is none.

    Returns:
        ``"cancelled"`` (γ_L < 1e-3); where median ‖e_T‖ < 1e-2, ``"saturated"`` if (a) fires (the
        logits grew with the stream until the softmax was certain), else ``"converged"``;
        ``"both"``; or ``"undetermined"``, as under any loss but CE, whose limits these are. None
        where (b) did not fire, and for a control. Show γ_L and ‖e_T‖ next to the word.

    Source: docs/protocol.md §8.

    >>> collapsed = JudgedRun(bp_grad_norms=[1e-3, 4e-10], batch_size=128, error_norm=0.9)
    >>> cause_of_floor(collapsed)
    'cancelled'
    >>> cause_of_floor(JudgedRun(bp_grad_norms=[5e-8], batch_size=128, error_norm=2e-5))
    'converged'
    >>> cause_of_floor(JudgedRun(bp_grad_norms=[5e-8], provenance={"loss": "mse"}))
    'undetermined'
    """
    if "b" not in run.flags or run.no_claim:
        return None
    if run.loss != CE:
        return "undetermined"
    deepest = deepest_gain(run)
    is_gone = run.error_norm is not None and run.error_norm < CONVERGED_BELOW
    if deepest is not None and deepest < CANCELLED_BELOW:
        return "both" if is_gone else "cancelled"
    if is_gone:
        return "saturated" if "a" in run.flags else "converged"
    return "undetermined"


def failure_mode(run: JudgedRun) -> str:
    """The causes of a failure, ``""`` for none; a control, which makes no claim, has none.

    *Scale*: (a) fires, or (b) does under CE while there is an error to send back. *Depth unused*:
    (d) fires while (a) and (b) are decided and do not fail so. It is a *direction* failure only
    if deep Γ was measured and lies within its null: the credit is then no better than that of fresh
    feedback.
    BP, whose credit is the gradient, never has it. If (b) or (c) fires, (c) interprets the gradient
    unless it is undecided: *drift* if it fires (one direction in every batch), *noise* if it is
    below 0.1 (no common one), else neither.

    Source: docs/protocol.md §9, modes.

    >>> failure_mode(JudgedRun(residual_norms=[1, 400], bp_grad_norms=[4e-10],
    ...     cross_batch_stability=0.992))
    'scale failure; drift'
    >>> failure_mode(JudgedRun(bp_grad_norms=[5e-8], provenance={"loss": "mse"}))
    ''
    >>> failure_mode(JudgedRun("random_init", residual_norms=[1, 400]))
    ''
    >>> failure_mode(JudgedRun("", "", [1, 2], [4e-3], headline_acc=0.36,
    ...     frozen_baseline_acc=0.349))
    'depth unused'
    """
    if run.no_claim:
        return ""
    floored = run.loss == CE and cause_of_floor(run) not in (None, "converged")
    decided = set(run.coverage) - run.undecided
    failure = ""
    if "a" in run.flags or floored:
        failure = "scale failure"
    elif "d" in run.flags and {"a", "b"} <= decided:
        failure = "direction failure" if _credit_is_chance(run) else "depth unused"
    return joined(failure, _direction(run))


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
    if known_method(canonical_method(run.method_name)) == "bp":
        return False
    # the null of shuffled samples is none of fresh feedback
    return not null_of(run.credit) and within_null(run) is True


def beside_texts(run: JudgedRun, letter: str) -> list[str]:
    """The numbers beside a diagnostic; remarks on a fired one are apart."""
    texts = []
    if letter == "a":
        texts = scale_numbers(run)
    if letter == "c":
        texts = [mean_error_text(run)]
    if letter == "b" and letter not in run.flags:
        texts = [reference_text(run)]
    return list(filter(None, texts))


def reference_text(run: JudgedRun) -> str:
    """Whether the gradients have the directions of float64 ones; ``""`` if that was not measured.

    >>> from fa_core.report.provenance import ReferencePrecision
    >>> found = ReferencePrecision(cosine=[1.0], worst=[1.0], norm_ratio=[1.0], lost=[0],
    ...     samples=128)
    >>> reference_text(JudgedRun(bp_grad_norms=[2e-10], reference_precision=found))
    'the reference is exact (cosine 1.000000, none lost): the gradient is small, not noise'
    """
    found = run.reference_precision
    if found is None:
        return ""
    lowest = found.lowest
    lost = max(found.lost, default=0)
    if lowest is None and not lost:
        return "every gradient is 0, in float64 too"
    if found.is_exact:
        text = f"the reference is exact (cosine {lowest:.6f}, none lost)"
        if "b" in run.flags:
            text += ": the gradient is small, not noise"
        return text
    parts = []
    if lowest is not None:
        parts.append(f"cosine with float64 {lowest:.6f} at worst")
    if lost:
        parts.append(f"lost on {lost} of {found.samples} samples")
    return f"the reference is not exact ({', '.join(parts)})"


MOST_OF_IT = 0.5
"""Share of (c) from which the mean error explains most of it."""


def mean_error_remark(run: JudgedRun) -> str:
    """Where CE's mean error explains most of a (c) above 0.1, with the class; else ``""``.

    >>> from fa_core.report.provenance import MeanError
    >>> found = MeanError(cosine=0.39, norm=0.2, label=3, excess=0.15)
    >>> print(mean_error_remark(JudgedRun(cross_batch_stability=0.4, mean_error=found)))
    the mean error explains most of it: the mean probability of class 3 is 0.15 above its
    share of the labels
    """
    found = run.mean_error
    c = run.cross_batch_stability
    if found is None or c is None or run.loss != CE:
        return ""
    if not c > NOISE_BELOW or found.cosine < MOST_OF_IT * c:
        return ""
    side = "above" if found.excess > 0 else "below"
    excess = f"{brief(abs(found.excess), 2)} {side} its share of the labels"
    probability = f"the mean probability of class {found.label} is {excess}"
    return f"the mean error explains most of it: {probability}"


def mean_error_text(run: JudgedRun) -> str:
    """The part of (c) that the mean error makes; ``""`` if unknown."""
    found = run.mean_error
    if found is None:
        return ""
    return f"{found.cosine:+.3f} of it by the mean error (‖ē_T‖ {brief(found.norm, 2)})"


class StreamScale(NamedTuple):
    """The growth of a stream.

    Attributes:
        block: l of the largest growth ‖h_{l+1}‖/‖h_l‖, the first of several.
        largest: that growth.
        deep: the largest growth over l ≥ 1.
        total: ‖h_L‖/‖h_0‖.
    """

    block: int
    largest: float
    deep: float
    total: float


def stream_scale(norms: Sequence[float]) -> StreamScale | None:
    """Where the stream grows, and how much in all.

    Args:
        norms: ‖h_l‖, l = 0..L.

    Returns:
        None for fewer than two blocks, and where a norm is not finite or below 1e-30.

    Source: docs/protocol.md, *Scale without units*.

    >>> stream_scale([0.01, 5.0, 10.0])
    StreamScale(block=0, largest=500.0, deep=2.0, total=1000.0)
    """
    if len(norms) < 3 or not all(map(math.isfinite, norms)) or min(norms) < NORM_RATIO_EPS:
        return None
    growths = block_growths(norms)
    largest = max(growths)
    total = norms[-1] / norms[0]
    return StreamScale(growths.index(largest), largest, max(growths[1:]), total)


def scale_text(run: JudgedRun) -> str:
    """What (a)'s number alone does not show: a small embedding, a smooth explosion, a vanishing
    stream; ``""`` for none.

    >>> print(scale_text(JudgedRun(residual_norms=[0.02, 3.0, 4.0])))
    only block 0→1 is over the limit, from ‖h_0‖ 0.02
    >>> print(scale_text(JudgedRun(residual_norms=[1.0, 45.0, 2025.0])))
    ‖h_L‖ is 2025·‖h_0‖, a smooth explosion: over the limit in all, no one block is, so it does
    not fire
    """
    found = stream_scale(run.stream("residual_norms"))
    limit = run.thresholds.h_norm_explosion_ratio
    if found is None:
        return ""
    if found.largest > limit:
        return _first_block_text(run, found, limit)
    whole = f"‖h_L‖ is {brief(found.total, 2)}·‖h_0‖"
    if found.total > limit:
        if found.total >= found.largest**2:
            whole += ", a smooth explosion"
        return f"{whole}: over the limit in all, no one block is, so it does not fire"
    if found.total < 1 / limit:
        return f"{whole}: a vanishing stream, which does not fire"
    return ""


def _first_block_text(run: JudgedRun, found: StreamScale, limit: float) -> str:
    h_0 = run.stream("residual_norms")[0]
    if h_0 >= 1 or found.block != 0 or found.deep > limit:
        return ""
    text = f"only block 0→1 is over the limit, from ‖h_0‖ {brief(h_0, 2)}"
    gain = deepest_gain(run)
    if gain is not None and gain >= HEALTHY_GAIN:
        return f"{text}: a small embedding (γ_L {brief(gain, 2)} is healthy)"
    return text


def scale_numbers(run: JudgedRun) -> list[str]:
    """Block of the largest growth, growth over l ≥ 1, and total growth.

    >>> scale_numbers(JudgedRun(residual_norms=[2.0, 3.0, 12.0]))
    ['largest in block 1→2', '4 over l ≥ 1', '‖h_L‖/‖h_0‖ 6']
    """
    found = stream_scale(run.stream("residual_norms"))
    if found is None:
        return []
    return [
        f"largest in block {found.block}→{found.block + 1}",
        f"{brief(found.deep, 3)} over l ≥ 1",
        f"‖h_L‖/‖h_0‖ {brief(found.total, 3)}",
    ]


def floor_text(run: JudgedRun) -> str:
    """The cause of (b) with its two numbers, γ_L and ‖e_T‖; ``""`` if (b) did not fire.

    Missing numbers are named; an undefined gain (no error) is N/A.

    >>> floor_text(JudgedRun(bp_grad_norms=[4e-10], batch_size=128, error_norm=0.9))
    'cancelled (γ_L 5.7e-8, ‖e_T‖ 0.9)'
    >>> floor_text(JudgedRun(bp_grad_norms=[4e-10], error_norm=0.9))
    'undetermined (B not recorded, ‖e_T‖ 0.9)'
    """
    cause = cause_of_floor(run)
    if cause is None:
        return ""
    numbers = [_gain_text(run)]
    if run.error_norm is not None:
        numbers.append(f"‖e_T‖ {brief(run.error_norm, 2)}")
    return f"{cause} ({', '.join(numbers)})"


def _gain_text(run: JudgedRun) -> str:
    """γ_L, or the missing inputs."""
    recorded = {"B": run.batch_size, "‖e_T‖": run.error_norm}
    missing = [name for name, value in recorded.items() if value is None]
    if missing:
        return f"{' and '.join(missing)} not recorded"
    deepest = deepest_gain(run)
    if deepest is None:
        return "γ_L N/A"
    return f"γ_L {brief(deepest, 2)}"
