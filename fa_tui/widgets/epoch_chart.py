"""One quantity of many runs over their epochs, with first fires and the threshold; the matrix at an epoch as legend.

A click or a drag on a chart, or on the track below the charts, scrubs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message

from fa_core.analysis.timeline import Replay
from fa_core.diagnostics import DIAGNOSTICS, DiagnosticThresholds
from fa_core.method_style import method_style
from fa_core.reporting.numbers import short
from fa_tui.session import Session
from fa_tui.views.epochs import EpochSession
from fa_tui.views.scale import Scale, covering
from fa_tui.views.text import Glyphs
from fa_tui.widgets.chart import AXIS, Canvas, Chart, Curve
from fa_tui.widgets.line import Line
from fa_tui.widgets.matrix import Matrix
from fa_tui.widgets.painted import Dragged, Row

_LEAST_ACCURACY_SPAN = 0.02
_MOST_ACCURACY = 1.5
"""Where values are larger, they are no accuracies in [0, 1]."""


class Shown(NamedTuple):
    """A quantity that is drawn over the epochs.

    Attributes:
        letter: the diagnostic that judges it.
        title: what it is.
        column: of the replay's table.
        log: whether its axis is logarithmic.
    """

    letter: str
    title: str
    column: str
    log: bool


SHOWN = (
    Shown("a", "growth per block", "growth", True),
    Shown("b", "‖g_L‖", "g_L", True),
    Shown("c", "drift", "stability", False),
    Shown("d", "accuracy", "acc", False),
)


class Look(NamedTuple):
    """What sets a run's curve apart from the others: its character, and the tone of its colour."""

    mark: str
    style: str


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
        stop: the epoch at which the chosen run would have been stopped, if any.
    """

    runs: Sequence[int]
    looks: Sequence[Look]
    first: Mapping[int, Mapping[str, int | None]]
    stop: int | None


@dataclass
class Scrubbed(Message):
    """The epoch under the pointer, or that a key asks for."""

    epoch: int

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, Scrubbed)


class ScrubbedByMouse(Dragged):
    """A widget with an axis of epochs: a click or a drag on it posts `Scrubbed`."""

    def epochs_shown(self) -> Scale | None:
        """The axis; None while there is none."""
        raise NotImplementedError

    def dragged_to(self, x: int) -> None:
        scale = self.epochs_shown()
        if scale is not None:
            fraction = (x - AXIS) / max(1, self.size.width - AXIS - 1)
            self.post_message(Scrubbed(round(scale.value(min(1.0, max(0.0, fraction))))))


class EpochCanvas(Canvas, ScrubbedByMouse):
    """A canvas that reports at which epoch it is pressed."""

    presses_from = AXIS

    def epochs_shown(self) -> Scale | None:
        return None if self._chart is None else self._chart.x


class EpochChart(Vertical):
    """A line that names the quantity, its threshold and the chosen run's value, above the canvas.

    Args:
        shown: what it draws.
        glyphs: characters to draw with.
    """

    def __init__(self, shown: Shown, glyphs: Glyphs) -> None:
        super().__init__(id=f"chart-{shown.letter}")
        self.shown = shown
        self._glyphs = glyphs
        self._title = Line()
        self._canvas = EpochCanvas()

    def compose(self) -> ComposeResult:
        yield self._title
        yield self._canvas

    def show(
        self, epochs: EpochSession, points: Points, drawn: Drawn, thresholds: DiagnosticThresholds, others: str = ""
    ) -> None:
        """Draw the quantity of the runs over their epochs.

        Args:
            epochs: the runs, at the epoch of the scrubber.
            points: their values.
            drawn: which of them have a curve.
            thresholds: what they are judged by.
            others: how to see the other charts.
        """
        shown, chosen = self.shown, drawn.runs[-1]
        self._title.set(
            (f" {shown.title}", "strong"),
            (" log" if shown.log else "", "dim"),
            (f"  {fires_when(shown.letter, thresholds)}", "bad"),
            (f"   {_value(epochs, points, chosen)}", ""),
            (f"   {others}" if others else "", "dim"),
        )
        acc = epochs.rows[chosen].report.baseline_acc
        line = line_of(shown, thresholds, math.nan if acc is None else acc)
        scale = scale_of(points, line, shown)
        chart = Chart(
            list(_curves(shown, points, drawn, scale, self._glyphs)),
            epoch_scale(epochs.replay.epochs),
            scale,
            limit=line,
            cursor=float(epochs.epoch),
            x_label="epoch",
            stop=None if drawn.stop is None else float(drawn.stop),
            x_spans=len(epochs.replay.epochs) > 1,
        )
        self._canvas.set_chart(chart)


def fires_when(letter: str, thresholds: DiagnosticThresholds) -> str:
    """When a diagnostic fires, in a few cells.

    >>> fires_when("a", DiagnosticThresholds()), fires_when("d", DiagnosticThresholds())
    ('a > 50', 'd < frozen +2 pp')
    """
    diagnostic = DIAGNOSTICS[letter]
    limit = short(diagnostic.limit(thresholds))
    if letter == "d":
        return f"d < frozen {'' if limit.startswith('-') else '+'}{limit} pp"
    return f"{letter} {'>' if diagnostic.fires_above else '<'} {limit}"


def line_of(shown: Shown, thresholds: DiagnosticThresholds, baseline: float) -> float:
    """Where the threshold lies on a quantity's axis; NaN where the chosen run has no baseline to lie above.

    Args:
        shown: the quantity.
        thresholds: what judges.
        baseline: the chosen run's frozen-baseline accuracy, or NaN.
    """
    limit = DIAGNOSTICS[shown.letter].limit(thresholds)
    return baseline + limit / 100 if shown.letter == "d" else limit


def points_of(replay: Replay, shown: Shown) -> list[list[tuple[float, float]]]:
    """Per run, (epoch, value); NaN where it was not recorded."""
    column = getattr(replay.table, shown.column).tolist()
    return [
        list(zip(map(float, replay.numbers(run)), column[replay.records(run)], strict=True))
        for run in range(len(replay.traces))
    ]


def scale_of(points: Iterable[Sequence[tuple[float, float]]], line: float, shown: Shown) -> Scale:
    """An axis that holds all values and the threshold's line.

    Accuracies lie in [0, 1], on an axis that is long enough for noise not to look like progress.
    """
    values = [value for run in points for _, value in run]
    scale = covering([*values, line], log=shown.log) or Scale(0.1 if shown.log else 0.0, 1.0, log=shown.log)
    if shown.letter != "d" or scale.hi > _MOST_ACCURACY:
        return scale
    spare = max(0.0, _LEAST_ACCURACY_SPAN - (scale.hi - scale.lo)) / 2
    low, high = max(0.0, scale.lo - spare), min(1.0, scale.hi + spare)
    return Scale(round(low, 6), round(high, 6)) if low < high else scale


def fire_point(points: Sequence[tuple[float, float]], epoch: int | None, top: Scale, glyphs: Glyphs) -> Curve | None:
    """The mark of a first fire: at the value that fires, or at the top where that is not finite."""
    if epoch is None:
        return None
    value = dict(points).get(float(epoch), math.nan)
    if math.isfinite(value) and (value > 0 or not top.log):
        return Curve([(float(epoch), value)], "bad", glyphs.fires, stays=True)
    return Curve([(float(epoch), top.hi)], "bad", glyphs.nonfinite, stays=True)


def marks_for(names: Sequence[str]) -> list[str]:
    """One character per name, all different: the first free one of the name, else the next free letter or digit.

    >>> marks_for(["bp", "dfa", "fa", "frozen", "bp penalty"])
    ['b', 'd', 'f', 'r', 'p']
    """
    taken: list[str] = []
    spare = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
    for name in names:
        wanted = [character for character in name.lower() if character.isascii() and character.isalnum()]
        taken.append(next((character for character in [*wanted, *spare] if character not in taken), "+"))
    return taken


class EpochMatrix(Matrix):
    """A matrix whose lines are led by the character and colour of their curves."""

    lead = 2

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "mark", "Draw", tooltip="draw only the runs marked so"),
        Binding("asterisk", "unmark", "Draw all", show=False, tooltip="draw all runs again"),
    ]

    def __init__(self, session: Session) -> None:
        self._looks: dict[int, Look] = {}
        super().__init__(session)

    def look(self, run: int) -> Look:
        """How a run's curve looks."""
        return self._looks[run]

    def refit(self) -> None:
        """Runs came or went."""
        self.lay_out()
        lines = [line for line in self._grid.lines if not line.is_heading]
        marks = marks_for([line.label for line in lines])
        self._looks = {
            run: Look(mark, f"method-{method_style(self._session.rows[run].method).colour[1:]}")
            for line, mark in zip(lines, marks, strict=True)
            for run in line.runs()
        }

    def on_mount(self) -> None:
        self.refit()

    def frozen(self, line: int | None) -> list[Segment]:
        first, *rest = super().frozen(line)
        runs = [] if line is None else self._grid.lines[line].runs()
        look = next((self._looks[run] for run in runs if run in self._looks), None)
        if look is None:
            return [first, *rest]
        style = self.style_of(look.style) + Style(bold=True)
        return [Segment(look.mark, style), Segment(first.text[1:], first.style), *rest]

    def action_unmark(self) -> None:
        """Draw all runs again."""
        self._session.marked.clear()
        self.refresh()
        self.post_message(self.Marked())


class Scrubber(ScrubbedByMouse, can_focus=True):
    """One line, aligned with the chart above it; posts `Scrubbed` and `Scrubber.Chosen`.

    Args:
        glyphs: characters to draw with.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left,h", "step(-1)", "Earlier", key_display="←"),
        Binding("right,l", "step(1)", "Later", key_display="→"),
        Binding("pageup", "stride(-1)", "Tenth back", show=False),
        Binding("pagedown", "stride(1)", "Tenth on", show=False),
        Binding("home,g", "edge(0)", "First", show=False),
        Binding("end,G", "edge(-1)", "Last", show=False),
        Binding("up,k", "choose(-1)", "Run", key_display="↑↓", tooltip="choose another run"),
        Binding("down,j", "choose(1)", "Run below", show=False),
    ]

    @dataclass
    class Chosen(Message):
        """Another run is asked for: so many further down."""

        step: int

    def __init__(self, epochs: Sequence[int]) -> None:
        super().__init__()
        self._epochs = list(epochs)
        self._epoch = self._epochs[-1]
        self._flips: Sequence[int] = ()
        self._fires: dict[str, int | None] = {}

    def set(self, epochs: Sequence[int], epoch: int, flips: Sequence[int], fires: dict[str, int | None]) -> None:
        """Show a place.

        Args:
            epochs: all there are.
            epoch: where the knob is.
            flips: epochs at which letters of some run change.
            fires: letter → the chosen run's first epoch.
        """
        self._epochs, self._epoch, self._flips, self._fires = list(epochs), epoch, flips, fires
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        cells, scale = max(1, width - AXIS), self.epochs_shown()
        knob = scale.cell(self._epoch, cells)
        done, rest = (self._glyphs.plateau_passing, "bar"), (self._glyphs.rule, "dim")
        track = [done if cell < knob else rest for cell in range(cells)]
        for epoch in self._flips:
            track[scale.cell(epoch, cells)] = (self._glyphs.tick, "dim")
        for letter, first in reversed(self._fires.items()):
            if first is not None:
                track[scale.cell(first, cells)] = (letter, "bad")
        sign = track[knob][0]
        track[knob] = (sign if sign.isalpha() else self._glyphs.knob, "cursor" if self.has_focus else "accent")
        return [[(f" ep {self._epoch}"[:AXIS].ljust(AXIS), "strong"), *track]]

    def epochs_shown(self) -> Scale:
        return epoch_scale(self._epochs)

    def _go(self, place: int) -> None:
        self.post_message(Scrubbed(self._epochs[max(0, min(place, len(self._epochs) - 1))]))

    def action_step(self, step: int) -> None:
        """Go some recorded epochs on."""
        self._go(self._place + step)

    def action_stride(self, direction: int) -> None:
        """Go a tenth of all epochs on."""
        self._go(self._place + direction * max(1, len(self._epochs) // 10))

    def action_edge(self, place: int) -> None:
        """Go to the first or last epoch."""
        self._go(place % len(self._epochs))

    def action_choose(self, step: int) -> None:
        """Ask for another run."""
        self.post_message(self.Chosen(step))

    @property
    def _place(self) -> int:
        return self._epochs.index(self._epoch)


def epoch_scale(epochs: Sequence[int]) -> Scale:
    """The axis from the first to the last epoch."""
    return Scale(float(epochs[0]), float(max(epochs[-1], epochs[0] + 1)))


def nearest(epochs: Sequence[int], wanted: float) -> int:
    """The recorded epoch nearest to a number.

    >>> nearest([1, 5, 10], 7.6)
    10
    """
    return min(epochs, key=lambda epoch: abs(epoch - wanted))


def drawn_runs(epochs: EpochSession, chosen: int) -> list[int]:
    """The runs that get a curve: the marked ones, or all; the chosen one last."""
    wanted = sorted(epochs.marked) or range(len(epochs.rows))
    return [*[run for run in wanted if run != chosen][: DRAWN_AT_MOST - 1], chosen]


def _curves(shown: Shown, points: Points, drawn: Drawn, scale: Scale, glyphs: Glyphs) -> Iterator[Curve]:
    """The runs' curves, the chosen one's on top, and above all of them the marks of first fires."""
    *others, chosen = zip(drawn.runs, drawn.looks, strict=True)
    for run, look in others:
        yield Curve(points[run], look.style, look.mark)
    yield Curve(points[chosen[0]], "strong", glyphs.knob if glyphs.braille else chosen[1].mark)
    for run in drawn.runs:
        mark = fire_point(points[run], drawn.first[run].get(shown.letter), scale, glyphs)
        if mark is not None:
            yield mark


def _value(epochs: EpochSession, points: Points, chosen: int) -> str:
    if not any(math.isfinite(value) for run in points for _, value in run):
        return "not recorded"
    value = dict(points[chosen]).get(float(epochs.epoch))
    return "" if value is None or math.isnan(value) else f"{epochs.label(chosen)}: {short(value)}"
