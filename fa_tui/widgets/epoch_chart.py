"""One quantity of many runs over their epochs, with its threshold; a click or a drag scrubs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message

from fa_core.analysis import Replay
from fa_core.report import DiagnosticThresholds
from fa_tui.widgets.canvas import Canvas
from fa_tui.widgets.chart import AXIS, Chart, Curve
from fa_tui.widgets.diagnostics import DIAGNOSTICS
from fa_tui.widgets.glyphs import Glyphs
from fa_tui.widgets.line import Line
from fa_tui.widgets.numbers import short
from fa_tui.widgets.scale import Scale, covering

COLOURS = 6
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
    Shown("c", "stability", "stability", False),
    Shown("d", "accuracy", "acc", False),
)


class Look(NamedTuple):
    """How a run's curve is told from the others: its character, and the component class of its colour."""

    mark: str
    style: str


class Scrubbed(Message):
    """The epoch under the pointer, or that a key asks for."""

    def __init__(self, epoch: int) -> None:
        super().__init__()
        self.epoch = epoch

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, Scrubbed)


class EpochCanvas(Canvas):
    """A canvas that says at which epoch it is pressed."""

    DEFAULT_CSS = """
    EpochCanvas {
        & > .chart--chosen { color: $foreground; text-style: bold; }
        & > .chart--threshold { color: $error; }
        & > .chart--stop { color: $warning; }
        & > .chart--1 { color: $primary; }
        & > .chart--2 { color: $warning; }
        & > .chart--3 { color: $accent; }
        & > .chart--4 { color: $secondary-lighten-2; }
        & > .chart--5 { color: $primary-darken-2; }
        & > .chart--6 { color: $accent-darken-2; }
    }
    """
    COMPONENT_CLASSES = {"chart--chosen", "chart--threshold", "chart--stop"}

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if event.x >= AXIS:
            self.capture_mouse()
            self._scrub(event)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self.app.mouse_captured is self:
            self._scrub(event)

    def on_mouse_up(self) -> None:
        self.release_mouse()

    def _scrub(self, event: events.MouseEvent) -> None:
        if self._chart is not None:
            cells = max(1, self.size.width - AXIS - 1)
            self.post_message(Scrubbed(round(self._chart.x.value(min(1.0, max(0.0, (event.x - AXIS) / cells))))))


class EpochChart(Vertical):
    """A line that names the quantity, its threshold and the chosen run's value, above the canvas.

    Args:
        shown: what it draws.
        glyphs: characters to draw with.
    """

    DEFAULT_CSS = """
    EpochChart { height: 1fr; width: 1fr; }
    """

    def __init__(self, shown: Shown, glyphs: Glyphs) -> None:
        super().__init__(id=f"chart-{shown.letter}")
        self.shown = shown
        self._title = Line(glyphs)
        self._canvas = EpochCanvas(glyphs=glyphs)

    def compose(self) -> ComposeResult:
        yield self._title
        yield self._canvas

    def set(self, chart: Chart, threshold: str, value: str, others: str = "") -> None:
        """Show another chart.

        Args:
            chart: what to draw.
            threshold: when the diagnostic fires, in words.
            value: the chosen run's, in words.
            others: how to see the other charts.
        """
        shown = self.shown
        self._title.set(
            (f" {shown.title}", "strong"),
            (" log" if shown.log else "", "dim"),
            (f"  {threshold}", "bad"),
            (f"   {value}", ""),
            (f"   {others}" if others else "", "dim"),
        )
        self._canvas.set_chart(chart)


def fires_when(letter: str, thresholds: DiagnosticThresholds) -> str:
    """When a diagnostic fires, in a few cells.

    >>> fires_when("a", DiagnosticThresholds()), fires_when("d", DiagnosticThresholds())
    ('a > 50', 'd < frozen +2 pp')
    """
    diagnostic = next(each for each in DIAGNOSTICS if each.letter == letter)
    limit = short(diagnostic.of(thresholds))
    if letter == "d":
        return f"d < frozen {'' if limit.startswith('-') else '+'}{limit} pp"
    return f"{letter} {'>' if diagnostic.above else '<'} {limit}"


def line_of(shown: Shown, thresholds: DiagnosticThresholds, baseline: float) -> float:
    """Where the threshold lies on a quantity's axis; NaN where the chosen run has no baseline to lie above.

    Args:
        shown: the quantity.
        thresholds: what judges.
        baseline: the chosen run's frozen-baseline accuracy, or NaN.
    """
    diagnostic = next(each for each in DIAGNOSTICS if each.letter == shown.letter)
    limit = diagnostic.of(thresholds)
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
        return Curve([(float(epoch), value)], "chart--fires", glyphs.fires, stays=True)
    return Curve([(float(epoch), top.hi)], "chart--fires", glyphs.nonfinite, stays=True)


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
