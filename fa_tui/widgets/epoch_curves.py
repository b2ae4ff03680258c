"""The quantities of the timeline: their curves, axes and thresholds."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from fa_core.analysis.timeline import Replay
from fa_core.formats.trace import Trace
from fa_core.report.diagnostics import DIAGNOSTICS
from fa_core.report.gamma import deep_gamma, deep_layers
from fa_core.report.measurements import Interval
from fa_core.report.numbers import short
from fa_core.report.quantities import BY_NAME, Quantity, named
from fa_core.report.thresholds import DiagnosticThresholds
from fa_tui.views.glyphs import Glyphs
from fa_tui.views.looks import COLOURS
from fa_tui.views.scale import Scale, covering
from fa_tui.views.words import limit_words
from fa_tui.widgets.chart import Curve, Point, Points, drawable

_LEAST_ACCURACY_SPAN = 0.02
_MOST_ACCURACY = 1.5
"""Larger values are no accuracies in [0, 1]."""
LAYERS_AT_MOST = 11
"""Layers with a curve, including the first and the last."""


GAMMA = BY_NAME["gamma"]
LAYERS = replace(GAMMA, name="layers", label="Γ per layer")
SHOWN = (*named("growth", "g_L", "drift", "acc"), GAMMA, LAYERS)
"""The quantities that are drawn over the epochs, each with the limit of the diagnostic it marks."""


def fires_when(letter: str, thresholds: DiagnosticThresholds) -> str:
    """The rule of a diagnostic in a few cells.

    >>> fires_when("a", DiagnosticThresholds()), fires_when("d", DiagnosticThresholds())
    ('a > 50', 'd < frozen +2 pp')
    """
    one = DIAGNOSTICS[letter]
    words = limit_words(one, thresholds)
    if letter == "d":
        return f"{words.partition('<')[0]}< frozen {one.limit(thresholds):+g} pp"
    return words


def line_of(shown: Quantity, thresholds: DiagnosticThresholds, baseline: float) -> float:
    """Position of the threshold on a quantity's axis; NaN for (d) without a baseline.

    Args:
        shown: the quantity.
        thresholds: of the verdicts.
        baseline: the chosen run's frozen-baseline accuracy, or NaN.
    """
    limit = DIAGNOSTICS[shown.marks].limit(thresholds)
    if shown.marks == "d":
        return baseline + limit / 100
    return limit


def points_of(replay: Replay, shown: Quantity) -> list[list[Point]]:
    """Per run, its points (epoch, value); NaN if not recorded."""
    curves = []
    if not shown.marks:
        for trace in replay.traces:
            points = []
            for epoch in trace.epochs:
                points.append((float(epoch.epoch), _gamma(epoch.gamma, trace.method)))
            curves.append(points)
        return curves
    column = getattr(replay.table, shown.column).tolist()
    for run in range(len(replay.traces)):
        numbers = map(float, replay.numbers(run))
        curves.append(list(zip(numbers, column[replay.records(run)], strict=True)))
    return curves


def layer_curves(trace: Trace, x: Scale) -> list[Curve]:
    """Γ_l of a run over the shown epochs, a curve per layer; none without Γ per layer."""
    last = max((len(epoch.gamma) for epoch in trace.epochs), default=0) - 1
    if last < 1:
        return []
    inside = [epoch for epoch in trace.epochs if x.contains(epoch.epoch)]
    steps = min(last, LAYERS_AT_MOST - 1)
    curves = []
    for step in range(steps + 1):
        layer = round(last * step / steps)
        points = []
        for epoch in inside:
            gamma = _number(epoch.gamma[layer : layer + 1])
            points.append((float(epoch.epoch), gamma))
        colour = step % COLOURS + 1
        curves.append(Curve(points, f"curve-{colour}", f"l={layer}"))
    return curves


def null_band(trace: Trace, shown: Quantity, null: Interval | None) -> Interval | None:
    """The null's mean ± two standard deviations, if known.

    A layer's null is √m times as wide as that of deep Γ, the mean over m layers.
    """
    if null is None or shown.marks:
        return None
    mean, std = null
    reach = 2 * std
    if shown is LAYERS:
        deep = deep_layers({"gamma": trace.epochs[-1].gamma}, trace.method)
        reach = 2 * std * math.sqrt(len(deep))
    return mean - reach, mean + reach


def null_words(band: Interval | None) -> str:
    """The shaded range in a few cells.

    >>> null_words((-0.25, 0.75)), null_words(None)
    ('null -0.25..0.75', 'null not known')
    """
    if band is None:
        return "null not known"
    low, high = band
    return f"null {short(low, 2)}..{short(high, 2)}"


def _gamma(layers: Sequence[float | None], method: str) -> float:
    """The mean over layers without free credit, or the only number logged; NaN for none."""
    if len(layers) == 1:
        return _number(layers)
    return deep_gamma({"gamma": list(layers)}, method)


def _number(values: Sequence[float | None]) -> float:
    """The first number, or NaN."""
    for value in values:
        if value is not None:
            return value
    return math.nan


def scale_of(values: Iterable[float], line: float, shown: Quantity) -> Scale:
    """An axis that holds all values and the threshold's line.

    Accuracies lie in [0, 1] and cosines in [-1, 1], on an axis so long that noise does not look
    like progress.
    """
    scale = covering([*values, line], log=shown.log)
    if scale is None:
        scale = Scale(0.1 if shown.log else 0.0, 1.0, log=shown.log)
    if not shown.marks:
        least = -1.0
    elif shown.marks == "d" and scale.hi <= _MOST_ACCURACY:
        least = 0.0
    else:
        return scale
    spare = max(0.0, _LEAST_ACCURACY_SPAN - (scale.hi - scale.lo)) / 2
    low = max(least, scale.lo - spare)
    high = min(1.0, scale.hi + spare)
    if low < high:
        return Scale(round(low, 6), round(high, 6))
    return scale


def value_near(points: Points, epoch: float) -> float:
    """The finite value at the nearest epoch, or NaN.

    >>> value_near([(1.0, 5.0), (2.0, 7.0), (3.0, math.nan)], 2.9)
    7.0
    """
    finite = [point for point in points if math.isfinite(point[1])]
    if not finite:
        return math.nan
    _, value = min(finite, key=lambda point: abs(point[0] - epoch))
    return value


def fire_point(points: Points, epoch: int, top: Scale, glyphs: Glyphs) -> Curve:
    """The mark of a first fire, at its value, or at the top if it is not finite."""
    x = float(epoch)
    value = dict(points).get(x, math.nan)
    if drawable(top, value):
        return Curve([(x, value)], "bad", glyphs.fires, stays=True)
    return Curve([(x, top.hi)], "bad", glyphs.nonfinite, stays=True)
