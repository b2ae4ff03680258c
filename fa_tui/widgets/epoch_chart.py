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

from fa_core.analysis.timeline import Replay
from fa_core.facts.measurements import Interval
from fa_core.facts.method_style import method_style
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.judgement.diagnostics import DIAGNOSTICS, LOGARITHMIC
from fa_core.judgement.gamma import deep_gamma, deep_layers
from fa_core.numbers import short
from fa_core.trace import Trace
from fa_tui.session import Session
from fa_tui.views.epochs import EpochSession
from fa_tui.views.glyphs import Glyphs
from fa_tui.views.scale import Scale, covering
from fa_tui.views.words import limit_words
from fa_tui.widgets.chart import AXIS, Canvas, Chart, Curve, Point, Points, drawable
from fa_tui.widgets.line import Line
from fa_tui.widgets.matrix import Matrix
from fa_tui.widgets.painted import Dragged, Row
from fa_tui.widgets.table import clamped

_LEAST_ACCURACY_SPAN = 0.02
_MOST_ACCURACY = 1.5
"""Larger values are no accuracies in [0, 1]."""


class Shown(NamedTuple):
    """A quantity drawn over the epochs.

    Attributes:
        letter: the diagnostic that judges it, or ``""``.
        title: its name.
        column: in the replay's table.
    """

    letter: str
    title: str
    column: str

    @property
    def log(self) -> bool:
        """Whether its axis is logarithmic."""
        return self.column in LOGARITHMIC

    @property
    def is_gamma(self) -> bool:
        """Whether it is a Γ, which has a null."""
        return self.column in ("gamma", "layers")


SHOWN = (
    Shown("a", "growth per block", "growth"),
    Shown("b", "‖g_L‖", "g_L"),
    Shown("c", "drift", "stability"),
    Shown("d", "accuracy", "acc"),
    Shown("", "deep Γ", "gamma"),
    Shown("", "Γ per layer", "layers"),
)


class Look(NamedTuple):
    """Character and tone of a run's curve."""

    mark: str
    style: str


BACKGROUND = Look("", "faint")
"""Look of a run that is neither pinned nor chosen."""

DRAWN_AT_MOST = 60
"""Curves drawn at a time: more would be unreadable and slow."""


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
class Scrubbed(Message):
    """Another epoch was chosen, by pointer or key."""

    epoch: int

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, Scrubbed)


class ScrubbedByMouse(Dragged):
    """A widget with an axis of epochs: a click or a drag on it posts `Scrubbed`."""

    presses_from = AXIS
    epochs_shown = Scale(0.0, 1.0)
    """The axis."""

    def epoch_at(self, x: int) -> float:
        """The epoch at a column."""
        fraction = (x - self.presses_from) / max(1, self.size.width - self.presses_from - 1)
        return self.epochs_shown.value(fraction)

    def dragged_to(self, x: int) -> None:
        self.post_message(Scrubbed(round(self.epoch_at(x))))


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

    def __init__(self, shown: Shown, glyphs: Glyphs) -> None:
        super().__init__(id=f"chart-{shown.letter or shown.column}")
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
        if self.shown.column == "layers":
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
        self._set_title(epochs, chosen, value, band, thresholds, others)
        stop = None
        if drawn.stop is not None and x.contains(drawn.stop):
            stop = float(drawn.stop)
        chart = Chart(
            curves,
            x,
            scale,
            limit=line,
            cursor=min(float(epochs.epoch), x.hi),
            x_label="epoch",
            stop=stop,
            x_spans=len(replay.epochs) > 1,
            level=math.nan if point is None else point[1],
            axis=axis_width(replay.epochs),
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
        chosen: int | None,
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
        if shown.is_gamma and chosen is not None:
            pieces.append((f"  {null_words(band)}", "dim"))
        if shown.letter:
            pieces.append((f"  {fires_when(shown.letter, thresholds)}", "bad"))
        if chosen is not None:
            pieces.append((f"  {epochs.label(chosen)}", "dim"))
        if others:
            pieces.append((f"   {others}", "dim"))
        self._title.set(*pieces)

    def _threshold(
        self, epochs: EpochSession, chosen: int | None, thresholds: DiagnosticThresholds
    ) -> float:
        """Position of the threshold for the chosen run, or NaN."""
        if not self.shown.letter:
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
            style = look.style
            mark = look.mark
            if look.mark or run == drawn.chosen:
                name = epochs.label(run)
            if run == drawn.chosen:
                style = "strong"
                if self._glyphs.braille:
                    mark = self._glyphs.knob
            yield Curve(seen, style, mark, name=name)

    def _fires(self, points: Sequence[Points], drawn: Drawn, scale: Scale) -> Iterator[Curve]:
        """The first fires of the bright runs."""
        for run, look in drawn.curves:
            first = drawn.first[run].get(self.shown.letter)
            if look.mark and first is not None and drawn.x.contains(first):
                yield fire_point(points[run], first, scale, self._glyphs)


def axis_width(epochs: Sequence[int]) -> int:
    """Width of the vertical axes in cells, enough for ``epoch 20``."""
    return max(AXIS, len(f" epoch {epochs[-1]} "))


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


def line_of(shown: Shown, thresholds: DiagnosticThresholds, baseline: float) -> float:
    """Position of the threshold on a quantity's axis; NaN for (d) without a baseline.

    Args:
        shown: the quantity.
        thresholds: of the verdicts.
        baseline: the chosen run's frozen-baseline accuracy, or NaN.
    """
    limit = DIAGNOSTICS[shown.letter].limit(thresholds)
    if shown.letter == "d":
        return baseline + limit / 100
    return limit


def points_of(replay: Replay, shown: Shown) -> list[list[Point]]:
    """Per run, its points (epoch, value); NaN if not recorded."""
    curves = []
    if shown.is_gamma:
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


LAYERS_AT_MOST = 11
"""Layers with a curve, including the first and the last."""
_COLOURS = 6


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
        colour = step % _COLOURS + 1
        curves.append(Curve(points, f"curve-{colour}", f"l={layer}"))
    return curves


def null_band(trace: Trace, shown: Shown, null: Interval | None) -> Interval | None:
    """The null's mean ± two standard deviations, if known.

    A layer's null is √m times as wide as that of deep Γ, the mean over m layers.
    """
    if null is None or not shown.is_gamma:
        return None
    mean, std = null
    reach = 2 * std
    if shown.column == "layers":
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


def scale_of(values: Iterable[float], line: float, shown: Shown) -> Scale:
    """An axis that holds all values and the threshold's line.

    Accuracies lie in [0, 1] and cosines in [-1, 1], on an axis so long that noise does not look
    like progress.
    """
    scale = covering([*values, line], log=shown.log)
    if scale is None:
        scale = Scale(0.1 if shown.log else 0.0, 1.0, log=shown.log)
    if shown.is_gamma:
        least = -1.0
    elif shown.letter == "d" and scale.hi <= _MOST_ACCURACY:
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


_MARKS = "efghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
"""Without the letters of the diagnostics."""


def marks_for(names: Sequence[str]) -> list[str]:
    """A unique character per name: the first free one of the name, else the next free one.

    Letters of diagnostics are not used.

    >>> marks_for(["bp", "dfa", "fa", "frozen", "bp penalty"])
    ['p', 'f', 'e', 'r', 'n']
    """
    taken: list[str] = []
    for name in names:
        free = [one for one in [*name.lower(), *_MARKS] if one in _MARKS and one not in taken]
        taken.append([*free, "+"][0])
    return taken


class EpochMatrix(Matrix):
    """A matrix whose lines begin with the character and colour of their curves."""

    lead = 2

    BINDINGS = [
        Binding(
            "space",
            "mark",
            "Pin",
            tooltip="keep the curves of these runs bright, wherever the cursor goes",
        ),
        Binding("asterisk", "unmark", "Unpin", show=False, tooltip="pin no run any more"),
    ]

    def __init__(self, session: Session) -> None:
        self._looks: dict[int, Look] = {}
        super().__init__(session)
        # the screen may close while it opens
        self.refit()

    def look(self, run: int) -> Look:
        """The look of a run's curve."""
        return self._looks[run]

    def refit(self) -> None:
        """Lay out again after runs changed."""
        self.lay_out()
        lines = [line for line in self._grid.lines if not line.is_heading]
        marks = marks_for([line.label for line in lines])
        self._looks = {}
        for line, mark in zip(lines, marks, strict=True):
            for run in line.runs():
                method = self._session.rows[run].method
                colour = method_style(method).colour.removeprefix("#")
                self._looks[run] = Look(mark, f"method-{colour}")

    def frozen(self, line: int | None) -> Row:
        pieces = super().frozen(line)
        if line is not None:
            for run in self._grid.lines[line].runs():
                if run in self._looks:
                    (text, tone), *rest = pieces
                    look = self._looks[run]
                    return [(look.mark, f"{look.style}+bold"), (text[1:], tone), *rest]
        return pieces

    def action_unmark(self) -> None:
        """Unpin all runs."""
        self._mark(set())


class Scrubber(ScrubbedByMouse, can_focus=True):
    """The track of epochs, aligned with the charts above; posts `Scrubbed`.

    Args:
        glyphs: characters to draw with.
    """

    BINDINGS = [
        Binding("left,h", "step(-1)", "Earlier", key_display="←"),
        Binding("right,l", "step(1)", "Later", key_display="→"),
        Binding("pageup", "stride(-1)", "Tenth back", show=False),
        Binding("pagedown", "stride(1)", "Tenth on", show=False),
        Binding("home,g", "edge(-1)", "First", show=False),
        Binding("end,G", "edge(1)", "Last", show=False),
        Binding("up,k", "screen.choose(-1)", "Run", key_display="↑↓", tooltip="choose another run"),
        Binding("down,j", "screen.choose(1)", "Run below", show=False),
    ]

    def __init__(self, epochs: Sequence[int]) -> None:
        super().__init__()
        self._epochs = list(epochs)
        self.epochs_shown = epoch_scale(epochs[0], epochs[-1])
        self._epoch = self._epochs[-1]
        self._flips: Sequence[int] = ()
        self._fires: dict[str, int | None] = {}

    def set(
        self,
        epochs: Sequence[int],
        x: Scale,
        epoch: int,
        flips: Sequence[int],
        fires: dict[str, int | None],
    ) -> None:
        """Show an epoch.

        Args:
            epochs: all epochs.
            x: the axis.
            epoch: of the knob.
            flips: epochs at which letters of some run change.
            fires: letter → the chosen run's first fire.
        """
        self._epochs = list(epochs)
        self.epochs_shown = x
        self._epoch = epoch
        self._flips = flips
        self._fires = fires
        self.presses_from = axis_width(epochs)
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        cells = max(1, width - self.presses_from)
        scale = self.epochs_shown
        glyphs = self._glyphs
        knob = scale.cell(self._epoch, cells)
        track = [(glyphs.plateau, "bar")] * knob
        track += [(glyphs.rule, "dim")] * (cells - knob)
        for epoch in filter(scale.contains, self._flips):
            track[scale.cell(epoch, cells)] = (glyphs.tick, "dim")
        for letter, first in reversed(self._fires.items()):
            if first is not None and scale.contains(first):
                track[scale.cell(first, cells)] = (letter, "bad")
        sign, _ = track[knob]
        if not sign.isalpha():
            sign = glyphs.knob
        tone = "cursor" if self.has_focus else "accent"
        track[knob] = (sign, tone)
        head = f" epoch {self._epoch}".ljust(self.presses_from)
        return [[(head, "strong"), *track]]

    def _go(self, places: int) -> None:
        epochs = self._epochs
        place = clamped(epochs.index(self._epoch) + places, len(epochs))
        self.post_message(Scrubbed(epochs[place]))

    def action_step(self, step: int) -> None:
        """Move by some recorded epochs."""
        self._go(step)

    def action_stride(self, direction: int) -> None:
        """Move by a tenth of all epochs."""
        self._go(direction * max(1, len(self._epochs) // 10))

    def action_edge(self, direction: int) -> None:
        """Go to the first or last epoch."""
        self._go(direction * len(self._epochs))


def epoch_scale(first: float, last: float) -> Scale:
    """The axis from one epoch to another."""
    return Scale(float(first), float(max(last, first + 1)))


def zoomed(x: Scale, epoch: float, steps: int) -> Scale:
    """A part of an axis, half as long for each step, around an epoch.

    >>> zoomed(Scale(0.0, 40.0), 12.0, 2), zoomed(Scale(0.0, 40.0), 39.0, 1)
    (Scale(lo=7.0, hi=17.0, log=False), Scale(lo=20.0, hi=40.0, log=False))
    """
    length = max(1.0, (x.hi - x.lo) // 2**steps)
    low = max(x.lo, min(epoch - length // 2, x.hi - length))
    return Scale(low, low + length)


def nearest(epochs: Sequence[int], wanted: float) -> int:
    """The recorded epoch nearest to a number.

    >>> nearest([1, 5, 10], 7.6)
    10
    """
    return min(epochs, key=lambda epoch: abs(epoch - wanted))


def drawn_runs(
    runs: Iterable[int], bright: Collection[int], chosen: int | None, alone: bool
) -> list[int]:
    """The runs with a curve: those in the background, the bright ones, the chosen one.

    >>> drawn_runs(range(5), {1, 2}, 2, alone=False), drawn_runs(range(5), {1, 2}, 2, alone=True)
    ([0, 3, 4, 1, 2], [1, 2])
    """
    front = []
    background = []
    for run in runs:
        if run in bright and run != chosen:
            front.append(run)
        elif run != chosen and not alone:
            background.append(run)
    most = DRAWN_AT_MOST - 1
    front = front[:most]
    kept = background[: most - len(front)] + front
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
