"""How firm a verdict is: intervals and shares over the resamples that a report carries. Pure Python."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from fa_core.diagnostics import DIAGNOSTICS, LETTERS, DiagnosticThresholds, verdict_text
from fa_core.intervals import LEVEL, Interval
from fa_core.method_style import known_method
from fa_core.report import DiagnosticReport
from fa_core.runs import canonical_method


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


FREE_AT_L = frozenset({"bp", "fa", "state_bridge", "credit_bridge"})
"""Methods whose credit at l = L comes free: from the head's true weights, or by matching the gradient there."""


def free_layers(credit: Mapping[str, Any] | None, method: str = "") -> list[int]:
    """The layers whose credit comes free: as a credit table records them, else l = L of the methods in `FREE_AT_L`.

    >>> free_layers({"gamma": [0.9, 0.1, 0.3]}, "fa_penalty"), free_layers({"free_layers": []}, "fa")
    ([2], [])
    """
    credit = credit or {}
    recorded, layers = credit.get("free_layers"), credit.get("gamma")
    if isinstance(recorded, list):
        return recorded
    known = known_method(canonical_method(method)) in FREE_AT_L
    return [len(layers) - 1] if known and isinstance(layers, (list, tuple)) else []


def aggregation(free: Sequence[int]) -> str:
    """How deep Γ is averaged, given the layers whose credit comes free.

    >>> aggregation([]), aggregation([4])
    ('mean over samples; deep = l >= 1', 'mean over samples; deep = l >= 1 without l = 4, whose credit comes free')
    """
    left_out = f" without l = {', '.join(map(str, free))}, whose credit comes free" if free else ""
    return f"mean over samples; deep = l >= 1{left_out}"


def deep_gamma(credit: Mapping[str, Any] | None, method: str = "", metric: str = "gamma") -> float:
    """Mean of a credit table's Γ_l over l ≥ 1 without the layers whose credit comes free; NaN where there is none.

    Args:
        credit: the table.
        method: its run's, for tables that do not record free layers; ``""`` leaves none out.
        metric: another series of the table.

    Source: docs/protocol.md §4.

    >>> deep_gamma({"gamma": [0.9, 0.1, 0.3]}), deep_gamma({"gamma": [0.9, 0.1, 0.3]}, "fa")
    (0.2, 0.1)
    """
    return _mean_over(credit, metric, {0, *free_layers(credit, method)})


def mean_gamma(credit: Mapping[str, Any] | None) -> float:
    """Mean of a credit table's Γ_l over all layers, layer 0 and free ones included: the number that papers report.

    >>> round(mean_gamma({"gamma": [0.9, 0.1, None, 0.2]}), 2)
    0.4
    """
    return _mean_over(credit, "gamma", ())


def _mean_over(credit: Mapping[str, Any] | None, metric: str, left_out: Collection[int]) -> float:
    """Mean of what is defined; NaN where nothing is."""
    layers = (credit or {}).get(metric)
    if not isinstance(layers, (list, tuple)):
        return math.nan
    kept = [value for l, value in enumerate(layers) if l not in left_out]
    known = [float(value) for value in kept if isinstance(value, (int, float)) and math.isfinite(value)]
    return sum(known) / len(known) if known else math.nan


def null_gamma(credit: Mapping[str, Any] | None, method: str = "") -> tuple[float, float]:
    """Mean and standard deviation of deep Γ over draws of fresh feedback, as a credit table has them; NaN without.

    A table that does not record the free layers has the two over all l ≥ 1: the mean is then taken from its layers.

    >>> null_gamma({"gamma": [0.5, 0.2, 0.8], "null": {"deep_gamma_mean": 0.4, "gamma": [0.0, 0.01, 0.79]}}, "fa")
    (0.01, nan)
    """
    null = (credit or {}).get("null")
    if not isinstance(null, Mapping):
        return math.nan, math.nan
    if not isinstance((credit or {}).get("free_layers"), list) and free_layers(credit, method):
        return deep_gamma(null, method), math.nan
    found = (null.get(name) for name in ("deep_gamma_mean", "deep_gamma_std"))
    mean, std = (float(value) if isinstance(value, (int, float)) else math.nan for value in found)
    return mean, std
