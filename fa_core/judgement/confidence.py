"""Confidence of a verdict: intervals and shares over the resamples of a report. Pure Python."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from fa_core.facts.measurements import Interval
from fa_core.judgement.diagnostics import DIAGNOSTICS, LETTERS
from fa_core.judgement.intervals import LEVEL
from fa_core.judgement.judged_run import JudgedRun, margin_over


class Confidence(NamedTuple):
    """Confidence of an audit under resampling.

    Attributes:
        intervals: ``growth``, ``g_L``, ``stability``, ``acc`` and ``margin_pp``, where resampled →
            (low, high), the central `LEVEL` of the resamples, in the number's own unit.
        fired: diagnostic letter → share of resamples in which it fires, where resampled.
        same_verdict: share of resamples with the report's own verdict.
        resamples: R.
    """

    intervals: dict[str, Interval]
    fired: dict[str, float]
    same_verdict: float
    resamples: int


def confidence(report: JudgedRun) -> Confidence | None:
    """Judge every resample by the report's thresholds and frozen baseline.

    A diagnostic that was measured but not resampled (e.g. the margin of a given accuracy) is the
    same in every resample.

    Args:
        report: with `resampling`.

    Returns:
        Shares and percentile intervals; None without resamples.

    Source: docs/protocol.md §8; Efron & Tibshirani, An Introduction to the Bootstrap, 1993
    (percentile intervals).

    >>> from fa_core.facts.measurements import Resampling
    >>> from fa_core.judgement.judged_run import JudgedRun
    >>> drawn = Resampling(growth=[40.0, 45.0, 55.0, 48.0])
    >>> found = confidence(JudgedRun(residual_norms=[1.0, 45.0], resampling=drawn))
    >>> found.intervals["growth"], found.fired, found.same_verdict
    ((40.375, 54.475), {'a': 0.25}, 0.75)
    """
    found = report.resampling
    if found is None:
        return None
    n = len(found)
    margins = _margins(found.headline_acc, report.baseline_acc)
    intervals: dict[str, Interval] = {}
    fired: dict[str, float] = {}
    same_verdict = [True] * n
    draws = (found.growth, found.g_L, found.stability, margins)
    for letter, values in zip(LETTERS, draws, strict=True):
        if not values or letter not in report.coverage:
            continue
        fires = [_fires(letter, value, report) for value in values]
        fired[letter] = sum(fires) / n
        intervals[DIAGNOSTICS[letter].column] = interval(values)
        own = letter in report.flags
        for draw, one in enumerate(fires):
            same_verdict[draw] &= one == own
    if found.headline_acc:
        intervals["acc"] = interval(found.headline_acc)
    if not intervals:
        return None
    return Confidence(intervals, fired, sum(same_verdict) / n, n)


def _fires(letter: str, value: float, report: JudgedRun) -> bool:
    return not math.isfinite(value) or DIAGNOSTICS[letter].fires(value, report.thresholds)


def _margins(accs: Sequence[float], frozen: float | None) -> list[float]:
    margins = []
    for acc in accs:
        margin = margin_over(acc, frozen)
        if margin is not None:
            margins.append(margin)
    return margins


def interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """The central `level` of some values: their (1 − level)/2 and (1 + level)/2 quantiles, linearly
    interpolated.

    Args:
        values: one or more.
        level: in (0, 1).

    Returns:
        (low, high) of the values without NaN; (NaN, NaN) if all are NaN.

    >>> interval([5.0, 1.0, 3.0, 2.0, 4.0], level=0.5)
    (2.0, 4.0)
    """
    ordered = sorted(value for value in values if not math.isnan(value))
    if not ordered:
        return math.nan, math.nan
    tail = (1 - level) / 2
    return _quantile(ordered, tail), _quantile(ordered, 1 - tail)


def percent(share: float) -> str:
    """A share of resamples as text; 100 % only for all, 0 % only for none.

    >>> percent(1.0), percent(0.999), percent(0.42), percent(0.001), percent(0.0)
    ('100%', '>99%', '42%', '<1%', '0%')
    """
    if 0 < share < 0.01:
        return "<1%"
    if 0.99 < share < 1:
        return ">99%"
    return f"{share:.0%}"


def _quantile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    before = math.floor(place)
    low = ordered[before]
    high = ordered[math.ceil(place)]
    if low == high:
        return low
    return low + (place - before) * (high - low)
