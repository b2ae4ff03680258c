"""The track of epochs below the charts of the timeline, and its messages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual.binding import Binding
from textual.message import Message

from fa_tui.views.scale import Scale
from fa_tui.widgets.chart import AXIS
from fa_tui.widgets.painted import Dragged, Row
from fa_tui.widgets.table import clamped


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

    def __init__(self, epochs: Sequence[int], unit: str) -> None:
        super().__init__()
        self._unit = unit
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
        self.presses_from = axis_width(epochs, self._unit)
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
        head = f" {self._unit} {self._epoch}".ljust(self.presses_from)
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


def axis_width(epochs: Sequence[int], unit: str) -> int:
    """Width of the vertical axes in cells, enough for ``epoch 20``."""
    return max(AXIS, len(f" {unit} {epochs[-1]} "))


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
