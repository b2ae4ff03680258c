"""Confidence of a verdict: intervals and shares over the resamples of a report. Pure Python."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from fa_core.judgement.diagnostics import DIAGNOSTICS, LETTERS
from fa_core.judgement.intervals import LEVEL, Interval
from fa_core.judgement.judged_run import JudgedRun


class Confidence(NamedTuple):
    """What the same audit would have said on other samples.

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
    """Judge every resample as the report is judged, by its thresholds and its frozen baseline.

    A diagnostic that was measured but not resampled (the margin of an accuracy that was given)
    stays as it is in every resample.

    Args:
        report: with `resampling`.

    Returns:
        Shares and percentile intervals; None where nothing was resampled.

    Source: docs/protocol.md §8; Efron & Tibshirani, An Introduction to the Bootstrap, 1993
    (percentile intervals).

    >>> from fa_core.facts.measurements import Resampling
    >>> from fa_core.judgement.judged_run import JudgedRun
    >>> drawn = Resampling(growth=[40.0, 45.0, 55.0, 48.0])
    >>> found = confidence(JudgedRun(residual_norms=[1.0, 45.0], resampling=drawn))
    >>> found.intervals["growth"], found.fired, found.same_verdict
    ((40.375, 54.475), {'a': 0.25}, 0.75)
    """
    found, frozen = report.resampling, report.baseline_acc
    if found is None:
        return None
    # rounded as `JudgedRun.margin_pp` is
    if frozen is None:
        margins = []
    else:
        margins = [round(100.0 * (acc - frozen), 9) for acc in found.headline_acc]
    draws = dict(zip(LETTERS, (found.growth, found.g_L, found.stability, margins), strict=True))
    drawn = {
        letter: values for letter, values in draws.items() if values and letter in report.coverage
    }
    n = len(found)
    if not drawn and not found.headline_acc:
        return None
    # what is not finite fires
    fires = {
        letter: [
            DIAGNOSTICS[letter].fires(value, report.thresholds) or not math.isfinite(value)
            for value in values
        ]
        for letter, values in drawn.items()
    }
    own = tuple(letter in report.flags for letter in fires)
    if fires:
        same = sum(fired == own for fired in zip(*fires.values(), strict=True))
    else:
        same = n
    numbers = {DIAGNOSTICS[letter].column: values for letter, values in drawn.items()} | {
        "acc": found.headline_acc
    }
    return Confidence(
        intervals={name: interval(values) for name, values in numbers.items() if values},
        fired={letter: sum(fire) / n for letter, fire in fires.items()},
        same_verdict=same / n,
        resamples=n,
    )


def interval(values: Sequence[float], level: float = LEVEL) -> Interval:
    """The central `level` of some values: their (1 − level)/2 and (1 + level)/2 quantiles, linearly
    interpolated.

    Args:
        values: one or more.
        level: in (0, 1).

    Returns:
        (low, high) of the values that are not NaN; NaN and NaN where all are.

    >>> interval([5.0, 1.0, 3.0, 2.0, 4.0], level=0.5)
    (2.0, 4.0)
    """
    ordered = sorted(value for value in values if not math.isnan(value))
    if not ordered:
        return math.nan, math.nan
    tail = (1 - level) / 2
    return _quantile(ordered, tail), _quantile(ordered, 1 - tail)


def percent(share: float) -> str:
    """A share of resamples; only all of them are 100 %, only none are 0 %.

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
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    if low == high:
        return low
    return low + (place - math.floor(place)) * (high - low)
