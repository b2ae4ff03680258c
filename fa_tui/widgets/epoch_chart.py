"""Charts of the timeline: a quantity of many runs over their epochs, with first fires.

Clicks and drags on a chart or on the track below scrub.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.message import Message

from fa_core.report.measurements import Interval
from fa_core.report.numbers import short
from fa_core.report.quantities import Quantity
from fa_core.report.thresholds import DiagnosticThresholds
from fa_tui.session import Session
from fa_tui.views.epochs import EpochSession
from fa_tui.views.glyphs import Glyphs
from fa_tui.views.looks import Look, SeedLooks
from fa_tui.views.scale import Scale
from fa_tui.widgets.chart import BACKGROUND, Canvas, Chart, Curve, Point, Points
from fa_tui.widgets.epoch_curves import (
    LAYERS,
    fire_point,
    fires_when,
    layer_curves,
    line_of,
    null_band,
    null_words,
    scale_of,
    value_near,
)
from fa_tui.widgets.line import Line
from fa_tui.widgets.matrix import Matrix
from fa_tui.widgets.scrubber import ScrubbedByMouse, axis_width

DIMMED = Look("", BACKGROUND)
"""Look of a run that is neither pinned nor chosen."""

DRAWN_AT_MOST = 60
"""Bright curves drawn at a time: more would be unreadable and slow."""
BEHIND_AT_MOST = 3
BEHIND_IN_ONE = 12
"""Curves in the background of several charts and of one, evenly taken from all others: opening
the screen may take 6 KB."""


class Drawn(NamedTuple):
    """The drawn runs and their looks.

    Attributes:
        runs: in drawing order, the chosen one last.
        looks: per run; without a character in the background.
        chosen: the run under the cursor, if it has a trace.
        x: the axis of epochs.
        first: run → letter → epoch of the first fire.
        stop: the epoch of the chosen run's early stop, if any.
        null: mean and standard deviation of the chosen run's deep Γ under random feedback, if
            known.
    """

    runs: Sequence[int]
    looks: Sequence[Look]
    chosen: int | None
    x: Scale
    first: Mapping[int, Mapping[str, int | None]]
    stop: int | None
    null: Interval | None = None

    @property
    def curves(self) -> list[tuple[int, Look]]:
        """The runs with their looks, in drawing order."""
        return list(zip(self.runs, self.looks, strict=True))


@dataclass
class Picked(Message):
    """The curve of a run was pressed."""

    run: int


_REACH = 1
"""Largest distance in lines between the pointer and the curve it picks."""


class EpochCanvas(Canvas, ScrubbedByMouse):
    """A canvas that reports pressed epochs and curves, and zooms with the wheel."""

    curves: Mapping[int, Points] = {}
    """Run → points, of the curves that can be picked."""

    def on_mouse_down(self, event: events.MouseDown) -> None:
        chart = self.chart
        lines = self.size.height - 1
        if chart is None or event.x < self.presses_from:
            return
        epoch = self.epoch_at(event.x)
        picked = None
        least = _REACH
        for run, points in self.curves.items():
            value = value_near(points, epoch)
            if math.isnan(value):
                continue
            line = lines - 1 - chart.y.cell(value, lines)
            away = abs(line - event.y)
            if away <= least:
                picked = run
                least = away
        if picked is not None:
            self.post_message(Picked(picked))

    def on_mouse_scroll_up(self) -> None:
        self.call_later(self.run_action, "screen.zoom(1)")

    def on_mouse_scroll_down(self) -> None:
        self.call_later(self.run_action, "screen.zoom(-1)")


class EpochChart(Vertical):
    """A canvas below a line with the quantity, its threshold and the chosen run's value.

    Args:
        shown: the quantity.
        glyphs: characters to draw with.
    """

    def __init__(self, shown: Quantity, glyphs: Glyphs) -> None:
        super().__init__(id=f"chart-{shown.marks or shown.name}")
        self.shown = shown
        self._glyphs = glyphs
        self._title = Line()
        self._canvas = EpochCanvas()

    @property
    def chart(self) -> Chart | None:
        """The shown chart."""
        return self._canvas.chart

    def compose(self) -> ComposeResult:
        yield self._title
        yield self._canvas

    def show(
        self,
        epochs: EpochSession,
        points: Sequence[Points],
        drawn: Drawn,
        thresholds: DiagnosticThresholds,
        others: str = "",
    ) -> None:
        """Draw the quantity of the runs over their epochs.

        Args:
            epochs: the runs, at the epoch of the scrubber.
            points: their values.
            drawn: the runs with a curve.
            thresholds: of the verdicts.
            others: hint for the other charts.
        """
        chosen = drawn.chosen
        x = drawn.x
        replay = epochs.replay
        trace = band = point = None
        if chosen is not None:
            trace = replay.traces[chosen]
            band = null_band(trace, self.shown, drawn.null)
        line = self._threshold(epochs, chosen, thresholds)
        bright: dict[int, Points] = {}
        curves: list[Curve] = []
        if self.shown is LAYERS:
            if trace is not None:
                curves = layer_curves(trace, x)
            value = _span(curves)
            scale = self._scale([curve.points for curve in curves], x, line, band)
        else:
            if chosen is not None:
                point = _at(epochs, points[chosen], chosen)
            value = _value(points, point)
            for run, look in drawn.curves:
                if look.mark:
                    bright[run] = points[run]
            seen = list(bright.values()) or [points[run] for run in drawn.runs]
            scale = self._scale(seen, x, line, band)
            curves = [*self._curves(epochs, points, drawn, scale)]
            curves += self._fires(points, drawn, scale)
        self._set_title(epochs, drawn, value, band, thresholds, others)
        stop = None
        if drawn.stop is not None and x.contains(drawn.stop):
            stop = float(drawn.stop)
        chart = Chart(
            curves,
            x,
            scale,
            limit=line,
            cursor=min(float(epochs.epoch), x.hi),
            x_label=epochs.unit,
            stop=stop,
            x_spans=len(replay.epochs) > 1,
            axis=axis_width(replay.epochs, epochs.unit),
            band=band,
        )
        self._canvas.curves = bright
        self._canvas.presses_from = chart.axis
        self._canvas.epochs_shown = x
        self._canvas.set_chart(chart)

    def _scale(
        self, curves: Iterable[Points], x: Scale, line: float, band: Interval | None
    ) -> Scale:
        """The vertical axis for the visible parts of curves, the threshold and the band."""
        values = [*(band or ())]
        for points in curves:
            values += [value for epoch, value in points if x.contains(epoch)]
        return scale_of(values, line, self.shown)

    def _set_title(
        self,
        epochs: EpochSession,
        drawn: Drawn,
        value: str,
        band: Interval | None,
        thresholds: DiagnosticThresholds,
        others: str,
    ) -> None:
        """The line above the canvas."""
        shown = self.shown
        pieces = [(f" {shown.title}", "strong")]
        if shown.log:
            pieces.append((" log", "dim"))
        pieces.append((f"  {value}", ""))
        if not shown.marks and drawn.chosen is not None:
            pieces.append((f"  {null_words(band)}", "dim"))
        if shown.marks:
            pieces.append((f"  {fires_when(shown.marks, thresholds)}", "bad"))
        if others:
            if drawn.chosen is not None:
                # drawn last
                look = drawn.looks[-1]
                pieces.append((f"  {look.mark} {epochs.label(drawn.chosen)}", look.style))
            pieces.append((f"   {others}", "dim"))
        self._title.set(*pieces)

    def _threshold(
        self, epochs: EpochSession, chosen: int | None, thresholds: DiagnosticThresholds
    ) -> float:
        """Position of the threshold for the chosen run, or NaN."""
        if not self.shown.marks:
            return math.nan
        baseline = math.nan
        if chosen is not None:
            acc = epochs.rows[chosen].report.baseline_acc
            if acc is not None:
                baseline = acc
        return line_of(self.shown, thresholds, baseline)

    def _curves(
        self, epochs: EpochSession, points: Sequence[Points], drawn: Drawn, scale: Scale
    ) -> Iterator[Curve]:
        """The runs' curves, the chosen one's on top."""
        for run, look in drawn.curves:
            seen = []
            for x, y in points[run]:
                # values beyond the axes are gaps
                if not drawn.x.contains(x):
                    continue
                if not look.mark and not scale.contains(y):
                    y = math.nan
                seen.append((x, y))
            name = ""
            if look.mark:
                name = epochs.label(run)
            yield Curve(seen, look.style, look.mark, name=name)

    def _fires(self, points: Sequence[Points], drawn: Drawn, scale: Scale) -> Iterator[Curve]:
        """The first fires of the bright runs."""
        for run, look in drawn.curves:
            first = drawn.first[run].get(self.shown.marks)
            if look.mark and first is not None and drawn.x.contains(first):
                yield fire_point(points[run], first, scale, self._glyphs)


class EpochMatrix(Matrix):
    """A matrix of runs with a curve.

    Args:
        session: the runs at an epoch.
        opened: all open runs, whose seeds have a look each.
    """

    BINDINGS = [
        Binding(
            "space",
            "mark",
            "Pin",
            tooltip="keep the curves of these runs bright, wherever the cursor goes",
        ),
        Binding("asterisk", "unmark", "Unpin", show=False, tooltip="pin no run any more"),
    ]

    # a third one would cost 200 bytes of the 6 KB that opening may take
    columns_kept = (2,)

    def __init__(self, session: Session, opened: Session) -> None:
        self._opened = opened
        super().__init__(session)

    def seed_looks(self) -> SeedLooks:
        return SeedLooks(self._opened.rows, self._glyphs, self._session.rows)

    def looks_of_runs(self) -> list[Look]:
        """The looks of all curves."""
        return self.cells.looks.drawn(self._session.rows)

    def action_unmark(self) -> None:
        """Unpin all runs."""
        self._mark(set())


def drawn_runs(
    runs: Iterable[int], bright: Collection[int], chosen: int | None, behind: int
) -> list[int]:
    """The runs with a curve: those in the background, the bright ones, the chosen one.

    Args:
        runs: all of them.
        bright: runs with bright curves.
        chosen: the run under the cursor, if any.
        behind: maximum of curves in the background.

    >>> drawn_runs(range(5), {1, 2}, 2, behind=2), drawn_runs(range(5), {1, 2}, 2, behind=0)
    ([0, 4, 1, 2], [1, 2])
    """
    front = []
    background = []
    for run in runs:
        if run in bright and run != chosen:
            front.append(run)
        elif run != chosen and behind:
            background.append(run)
    front = front[: DRAWN_AT_MOST - 1]
    step = max(1, math.ceil(len(background) / max(1, behind)))
    kept = background[::step] + front
    if chosen is not None:
        kept.append(chosen)
    return kept


def _at(epochs: EpochSession, points: Points, run: int) -> Point | None:
    """The point of a run's last record up to the epoch of the scrubber."""
    record = epochs.replay.record_at(run, epochs.epoch)
    if record is None:
        return None
    first: int = epochs.replay.records(run).start
    return points[record - first]


def _span(layers: Sequence[Curve]) -> str:
    if layers:
        return f"{layers[0].mark}..{layers[-1].mark.removeprefix('l=')}"
    return "not recorded"


def _value(curves: Sequence[Points], point: Point | None) -> str:
    if not any(math.isfinite(value) for points in curves for _, value in points):
        return "not recorded"
    if point is None:
        return ""
    epoch, value = point
    if math.isnan(value):
        return ""
    return f"({epoch:.0f}, {short(value)})"
