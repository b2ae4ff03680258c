"""Texts of the cause of (b) and of failure modes."""

from __future__ import annotations

from fa_core.report.causes import backward_gain, cause_of_floor, failure_modes
from fa_core.report.judged_run import JudgedRun
from fa_core.report.numbers import brief


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
    missing = []
    if run.batch_size is None:
        missing.append("B")
    if run.error_norm is None:
        missing.append("‖e_T‖")
    if missing:
        return f"{' and '.join(missing)} not recorded"
    deepest = backward_gain(run)[-1]
    if deepest is None:
        return "γ_L N/A"
    return f"γ_L {brief(deepest, 2)}"


def failure_mode(run: JudgedRun, *, cosine: bool = True) -> str:
    """The failure modes of a run (`failure_modes`); ``""`` for none.

    Args:
        run: judged by its thresholds.
        cosine: whether to add (c)'s cosine to drift or noise.

    >>> failure_mode(JudgedRun(residual_norms=[1, 400], bp_grad_norms=[4e-10],
    ...     cross_batch_stability=0.992))
    'scale failure; drift (cosine +0.992)'
    >>> failure_mode(JudgedRun("", "", [1, 2], [4e-3], headline_acc=0.36,
    ...     frozen_baseline_acc=0.349))
    'depth unused'
    """
    modes = failure_modes(run)
    words = []
    if modes.failure:
        words.append(modes.failure)
    if modes.direction and cosine:
        words.append(f"{modes.direction} (cosine {run.cross_batch_stability:+.3f})")
    elif modes.direction:
        words.append(modes.direction)
    return "; ".join(words)
