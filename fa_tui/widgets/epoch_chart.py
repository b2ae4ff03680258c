"""The chart of the timeline: a quantity of a method's seeds over their epochs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from fa_core.analysis.timeline import Timeline, common_unit
from fa_core.report.diagnostics import DIAGNOSTICS
from fa_core.report.quantities import BY_NAME, Quantity, named
from fa_core.report.report_facts import DiagnosticThresholds
from fa_tui.views.glyphs import Glyphs
from fa_tui.views.looks import Look
from fa_tui.views.scale import Scale, axis_of
from fa_tui.widgets.chart import Chart, Curve, Point

LOSS = replace(BY_NAME["acc"], name="loss", column="loss", label="loss", marks="")
SHOWN = (*named("h_L", "g_L", "growth", "acc"), LOSS)
"""The quantities that are drawn, each with the first fires of the diagnostic that it marks."""

_LEAST_ACCURACY_SPAN = 0.02
"""On a shorter axis noise would look like progress."""


def epoch_chart(
    shown: Quantity,
    runs: Sequence[Timeline],
    looks: Sequence[Look],
    thresholds: DiagnosticThresholds,
    glyphs: Glyphs,
    others: Sequence[Timeline] = (),
) -> Chart:
    """The curves of some runs, with their first fires and the thresholds.

    Args:
        shown: the quantity, of `SHOWN`.
        runs: judged epoch by epoch, with at least one epoch.
        looks: of the runs.
        thresholds: of the verdicts.
        glyphs: characters to draw with.
        others: runs that are drawn dim, where the scales of the first hold them.
    """
    curves = [points_of(run, shown) for run in runs]
    epochs = [epoch for points in curves for epoch, _ in points]
    first, last = min(epochs), max(epochs)
    limits = list(limits_of(shown, runs, looks, thresholds))
    values = [value for points in curves for _, value in points]
    scale = scale_of([*values, *(limit for limit, _ in limits)], shown)
    drawn = []
    fires = []
    for run, points, look in zip(runs, curves, looks, strict=True):
        drawn.append(Curve(points, look.style, look.mark))
        epoch = run.first_fire.get(shown.marks)
        if epoch is not None:
            fires.append(fire_point(points, epoch, scale, glyphs))
    return Chart(
        [*drawn, *fires],
        Scale(first, max(last, first + 1)),
        scale,
        limits,
        [points_of(run, shown) for run in others],
        x_label=f"{shown.label} by {common_unit(runs)}",
        x_spans=last > first,
    )


def points_of(run: Timeline, shown: Quantity) -> list[Point]:
    """A run's points (epoch, value); NaN where none was recorded."""
    points: list[Point] = []
    for point in run.points:
        value = getattr(point, shown.column)
        points.append((point.epoch, math.nan if value is None else value))
    return points


def is_recorded(runs: Sequence[Timeline], shown: Quantity) -> bool:
    """Whether any run has a value."""
    return any(value == value for run in runs for _, value in points_of(run, shown))


def limits_of(
    shown: Quantity,
    runs: Sequence[Timeline],
    looks: Sequence[Look],
    thresholds: DiagnosticThresholds,
) -> Iterator[tuple[float, str]]:
    """The thresholds on a quantity's axis, with their tones; on accuracy each run has its own."""
    if shown.letter:
        yield DIAGNOSTICS[shown.letter].limit(thresholds), "limit"
    elif shown.marks == "d":
        above = DIAGNOSTICS["d"].limit(thresholds) / 100
        for run, look in zip(runs, looks, strict=True):
            for point in run.points[-1:]:
                if point.acc is not None and point.margin_pp is not None:
                    yield point.acc - point.margin_pp / 100 + above, look.style


def scale_of(values: Sequence[float], shown: Quantity) -> Scale:
    """An axis that holds all values; accuracies lie in [0, 1]."""
    scale = axis_of(values, log=shown.log)
    if shown.marks != "d":
        return scale
    spare = max(0.0, _LEAST_ACCURACY_SPAN - (scale.hi - scale.lo)) / 2
    return Scale(round(max(0.0, scale.lo - spare), 6), round(min(1.0, scale.hi + spare), 6))


def fire_point(points: Sequence[Point], epoch: int, scale: Scale, glyphs: Glyphs) -> Curve:
    """The mark of a first fire, at its value, or at the top if it is not finite."""
    value = dict(points).get(epoch, math.nan)
    if math.isfinite(value):
        # 0 has no place on a log axis but its foot
        return Curve([(epoch, scale.clamped(value))], "bad", glyphs.fires, stays=True)
    return Curve([(epoch, scale.hi)], "bad", glyphs.nonfinite, stays=True)
