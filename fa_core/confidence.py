"""How firm a verdict is: intervals and shares over the resamples that a report carries. Pure Python."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from fa_core.diagnostics import DIAGNOSTICS, LETTERS, DiagnosticThresholds, verdict_text
from fa_core.report import DiagnosticReport

LEVEL = 0.95
"""Of the intervals."""

Interval = tuple[float, float]


class Confidence(NamedTuple):
    """What the same audit would have said on other samples.

    Attributes:
        intervals: ``growth``, ``g_L``, ``stability``, ``acc`` and ``margin_pp``, where resampled → (low, high), the
            central `LEVEL` of the resamples, in the number's own unit.
        fired: diagnostic letter → share of resamples in which it fires, where resampled.
        verdicts: verdict text → share of resamples, the most frequent first.
        same_verdict: share of resamples with the report's own verdict.
        resamples: R.
    """

    intervals: dict[str, Interval]
    fired: dict[str, float]
    verdicts: dict[str, float]
    same_verdict: float
    resamples: int


def confidence(report: DiagnosticReport) -> Confidence | None:
    """Judge every resample as the report is judged, by its thresholds and its frozen baseline.

    A diagnostic that was measured but not resampled (the margin of an accuracy that was given) stays as it is in
    every resample.

    Args:
        report: with `resampling`.

    Returns:
        Shares and percentile intervals; None where nothing was resampled.

    Source: docs/protocol.md §8; Efron & Tibshirani, An Introduction to the Bootstrap, 1993 (percentile intervals).

    >>> from fa_core.report import Resampling
    >>> drawn = Resampling(growth=[40.0, 45.0, 55.0, 48.0])
    >>> found = confidence(DiagnosticReport(residual_norms=[1.0, 45.0], resampling=drawn))
    >>> found.intervals["growth"], found.fired, found.same_verdict
    ((40.375, 54.475), {'a': 0.25}, 0.75)
    """
    drawn = _drawn(report)
    accs = report.resampling.headline_acc if report.resampling is not None else []
    if not drawn and not accs:
        return None
    n = len(accs) or len(next(iter(drawn.values())))
    coverage, own = report.coverage, report.flags
    fires = {letter: _fires(letter, values, report.thresholds) for letter, values in drawn.items()}
    fixed = frozenset(letter for letter in own if letter not in drawn)
    patterns = Counter(zip(*fires.values(), strict=True)) if fires else Counter({(): n})
    verdicts: Counter[str] = Counter()
    for pattern, count in patterns.items():
        fired = fixed.union(letter for letter, fire in zip(fires, pattern, strict=True) if fire)
        verdicts[verdict_text(fired, coverage)] += count
    numbers = {DIAGNOSTICS[letter].column: values for letter, values in drawn.items()} | ({"acc": accs} if accs else {})
    return Confidence(
        intervals={name: interval(values) for name, values in numbers.items()},
        fired={letter: sum(fire) / n for letter, fire in fires.items()},
        verdicts={verdict: count / n for verdict, count in verdicts.most_common()},
        same_verdict=verdicts[report.verdict] / n,
        resamples=n,
    )


def interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """The central `level` of some values: their (1 − level)/2 and (1 + level)/2 quantiles, linearly interpolated.

    Args:
        values: one or more.
        level: in (0, 1).

    Returns:
        (low, high); NaN and NaN where a value is NaN.

    >>> interval([5.0, 1.0, 3.0, 2.0, 4.0], level=0.5)
    (2.0, 4.0)
    """
    if any(map(math.isnan, values)):
        return math.nan, math.nan
    ordered = sorted(values)
    tail = (1 - level) / 2
    return _quantile(ordered, tail), _quantile(ordered, 1 - tail)


def percent(share: float) -> str:
    """A share of resamples; only all of them are 100 %, only none are 0 %.

    >>> percent(1.0), percent(0.999), percent(0.42), percent(0.001), percent(0.0)
    ('100%', '>99%', '42%', '<1%', '0%')
    """
    if 0 < share < 0.01:
        return "<1%"
    return ">99%" if 0.99 < share < 1 else f"{share:.0%}"


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    return low if low == high else low + (place - math.floor(place)) * (high - low)


def _drawn(report: DiagnosticReport) -> dict[str, list[float]]:
    """Each measured diagnostic's number per resample, where there are any."""
    found = report.resampling
    if found is None:
        return {}
    frozen = report.baseline_acc
    # rounded as `DiagnosticReport.margin_pp` is
    margins = [] if frozen is None else [round(100.0 * (acc - frozen), 9) for acc in found.headline_acc]
    draws = dict(zip(LETTERS, (found.growth, found.g_L, found.stability, margins), strict=True))
    return {letter: values for letter, values in draws.items() if values and letter in report.coverage}


def _fires(letter: str, values: Sequence[float], t: DiagnosticThresholds) -> list[bool]:
    """Whether a diagnostic fires, resample by resample; what is not finite fires."""
    diagnostic = DIAGNOSTICS[letter]
    return [diagnostic.fires(value, t) or not math.isfinite(value) for value in values]


CANCELLED_BELOW = 1e-3
"""A deepest gain under this means that the backward pass loses the error on its way."""

CONVERGED_BELOW = 1e-2
"""A median ‖e_T‖ under this means that there is hardly any error left to send back."""


def backward_gain(report: DiagnosticReport) -> list[float | None]:
    """γ_l = median_i ‖g_l,i‖·B / median_i ‖e_T,i‖, l = 0..L.

    g_l carries CE's 1/B and e_T = softmax(logits) − onehot(y) does not, hence the B.

    Args:
        report: with `bp_grad_norms`, `batch_size` and `error_norm`, all of the same samples.

    Returns:
        One gain per layer, in 1/(unit of the stream); None for a layer where ‖e_T‖ is 0 (no error, no gain);
        an empty list where the report lacks one of the three.

    Source: docs/protocol.md §8. Healthy BP nets have γ_L ≥ 0.04, also at a loss near zero; collapsed DFA ≤ 3e-5.

    >>> backward_gain(DiagnosticReport(bp_grad_norms=[2e-3, 1e-3], batch_size=100, error_norm=0.5))
    [0.4, 0.2]
    """
    if report.batch_size is None or report.error_norm is None:
        return []
    if report.error_norm == 0:
        return [None] * len(report.bp_grad_norms)
    return [g * report.batch_size / report.error_norm for g in report.bp_grad_norms]


def cause_of_floor(report: DiagnosticReport) -> str | None:
    """Why (b) fired: the error cancelled on its way back, or the network converged and there is no error.

    Returns:
        ``"cancelled"`` (γ_L < 1e-3), ``"converged"`` (median ‖e_T‖ < 1e-2), ``"both"``, or ``"undetermined"``;
        None where (b) did not fire. Show γ_L and ‖e_T‖ next to the word.

    Source: docs/protocol.md §8.

    >>> collapsed = DiagnosticReport(bp_grad_norms=[1e-3, 4e-10], batch_size=128, error_norm=0.9)
    >>> cause_of_floor(collapsed)
    'cancelled'
    >>> cause_of_floor(DiagnosticReport(bp_grad_norms=[5e-8], batch_size=128, error_norm=2e-5))
    'converged'
    """
    if "b" not in report.flags:
        return None
    gains = backward_gain(report)
    deepest = gains[-1] if gains else None
    cancelled = deepest is not None and deepest < CANCELLED_BELOW
    converged = report.error_norm is not None and report.error_norm < CONVERGED_BELOW
    if cancelled and converged:
        return "both"
    if cancelled or converged:
        return "cancelled" if cancelled else "converged"
    return "undetermined"


def floor_in_words(report: DiagnosticReport) -> str | None:
    """The cause with its two numbers, e.g. ``"cancelled (γ_L 5.7e-08, ‖e_T‖ 0.9)"``; None where (b) did not fire.

    A number that is missing is named; a gain that does not exist (no error) reads N/A.

    >>> floor_in_words(DiagnosticReport(bp_grad_norms=[4e-10], batch_size=128, error_norm=0.9))
    'cancelled (γ_L 5.7e-08, ‖e_T‖ 0.9)'
    >>> floor_in_words(DiagnosticReport(bp_grad_norms=[4e-10], error_norm=0.9))
    'undetermined (B not recorded, ‖e_T‖ 0.9)'
    """
    cause = cause_of_floor(report)
    if cause is None:
        return None
    return f"{cause} ({', '.join(_numbers(report))})"


def _numbers(report: DiagnosticReport) -> Iterator[str]:
    """γ_L and ‖e_T‖, or which of γ_L's ingredients the source does not give."""
    error, gains = report.error_norm, backward_gain(report)
    missing = [name for name, value in (("B", report.batch_size), ("‖e_T‖", error)) if value is None]
    if missing:
        yield f"{' and '.join(missing)} not recorded"
    elif gains:
        yield "γ_L N/A" if gains[-1] is None else f"γ_L {gains[-1]:.2g}"
    if error is not None:
        yield f"‖e_T‖ {error:.2g}"


def deep_gamma(credit: Mapping[str, Any] | None) -> float:
    """Mean of a credit table's Γ_l over l ≥ 1; NaN where it is missing or undefined.

    >>> deep_gamma({"gamma": [0.9, 0.1, 0.3]})
    0.2
    """
    layers = (credit or {}).get("gamma")
    if not isinstance(layers, (list, tuple)):
        return math.nan
    deep = [float(value) for value in layers[1:] if isinstance(value, (int, float)) and math.isfinite(value)]
    return sum(deep) / len(deep) if deep else math.nan
