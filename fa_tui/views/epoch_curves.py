"""What a chart of the timeline shows: curves, first fires, the threshold, where a run would have ended."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from fa_core.report import DiagnosticThresholds
from fa_tui.views.epochs import EpochSession
from fa_tui.widgets.chart import Chart, Curve, Level
from fa_tui.widgets.epoch_chart import Look, Shown, fire_point, fires_when, line_of, scale_of
from fa_tui.widgets.glyphs import Glyphs
from fa_tui.widgets.numbers import short
from fa_tui.widgets.scrubber import epoch_scale

DRAWN_AT_MOST = 60
"""Curves drawn at a time; more are a smear, and too much work for a key press."""

Points = Sequence[Sequence[tuple[float, float]]]
"""Per run, (epoch, value)."""


class Drawn(NamedTuple):
    """Which runs are drawn, and how.

    Attributes:
        runs: in drawing order; the chosen one is the last, on top.
        looks: per run, character and colour.
        first: run → letter → epoch of the first fire.
        stop: the epoch at which the chosen run would have been stopped, if it would.
    """

    runs: Sequence[int]
    looks: Sequence[Look]
    first: Mapping[int, Mapping[str, int | None]]
    stop: int | None

    @property
    def chosen(self) -> int:
        """The run on top."""
        return self.runs[-1]


class Said(NamedTuple):
    """A chart and the words above it: when its diagnostic fires, the chosen run's value."""

    chart: Chart
    threshold: str
    value: str


def drawn_runs(epochs: EpochSession, chosen: int) -> list[int]:
    """The runs that get a curve: the marked ones, or all; the chosen one last."""
    wanted = sorted(epochs.marked) or range(len(epochs.rows))
    return [*[run for run in wanted if run != chosen][: DRAWN_AT_MOST - 1], chosen]


def curves_of(
    epochs: EpochSession,
    shown: Shown,
    points: Points,
    drawn: Drawn,
    thresholds: DiagnosticThresholds,
    glyphs: Glyphs,
) -> Said:
    """One quantity of the runs over their epochs."""
    chosen, numbers = drawn.chosen, epochs.replay.epochs
    line = line_of(shown, thresholds, _baseline(epochs, chosen))
    scale = scale_of(points, line, shown)
    curves = [
        Curve(points[run], look.style, look.mark) for run, look in zip(drawn.runs[:-1], drawn.looks[:-1], strict=True)
    ]
    knob = glyphs.knob if glyphs.braille else drawn.looks[-1].mark
    curves.append(Curve(points[chosen], "chart--chosen", knob))
    marks = (fire_point(points[run], drawn.first[run].get(shown.letter), scale, glyphs) for run in drawn.runs)
    curves += [mark for mark in marks if mark is not None]
    chart = Chart(
        curves,
        epoch_scale(numbers),
        scale,
        [Level(line, "chart--threshold")] if math.isfinite(line) else [],
        cursor=float(epochs.epoch),
        x_label="epoch",
        stop=None if drawn.stop is None else float(drawn.stop),
        x_spans=len(numbers) > 1,
    )
    return Said(chart, fires_when(shown.letter, thresholds), _value(epochs, shown, points, chosen))


def _value(epochs: EpochSession, shown: Shown, points: Points, chosen: int) -> str:
    if not any(math.isfinite(value) for run in points for _, value in run):
        return "not recorded"
    value = dict(points[chosen]).get(float(epochs.epoch))
    return "" if value is None or math.isnan(value) else f"{epochs.label(chosen)}: {short(value)}"


def _baseline(epochs: EpochSession, run: int) -> float:
    acc = epochs.rows[run].report.baseline_acc
    return math.nan if acc is None else acc
