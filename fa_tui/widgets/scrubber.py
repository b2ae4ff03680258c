"""A track of epochs: where the timeline stands, where letters change, where a run would have been stopped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from fa_tui.widgets.chart import AXIS
from fa_tui.widgets.epoch_chart import Scrubbed
from fa_tui.widgets.glyphs import UNICODE, Glyphs
from fa_tui.widgets.painted import PaintedWidget, Row
from fa_tui.widgets.scale import Scale


class Scrubber(PaintedWidget, can_focus=True):
    """One line, aligned with the chart above it; posts `Scrubbed` and `Scrubber.Chosen`.

    Args:
        glyphs: characters to draw with.
    """

    help_text = """\
The epochs. The matrix shows how the runs stood at the epoch under the knob.

  ← → or h l     one epoch
  PgUp PgDn      a tenth of them
  Home End       the first, the last (or g G)
  [ ]            to the next epoch at which some letter changes
  ↑ ↓ or k j     choose another run
  click, drag    go there, here or on a chart

Letters on the track are first fires of the chosen run, ┴ an epoch at which
some other run's letters change.
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

    COMPONENT_CLASSES = {"scrubber--track", "scrubber--done", "scrubber--knob", "scrubber--fires", "scrubber--label"}

    DEFAULT_CSS = """
    Scrubber {
        height: 1;
        & > .scrubber--label { color: $foreground; text-style: bold; }
        & > .scrubber--track { color: $text-muted; }
        & > .scrubber--done { color: $accent; }
        & > .scrubber--fires { color: $error; text-style: bold; }
        & > .scrubber--knob { color: $accent; text-style: bold; }
        &:focus > .scrubber--knob {
            background: $block-cursor-background; color: $block-cursor-foreground; text-style: $block-cursor-text-style;
        }
    }
    """

    class Chosen(Message):
        """Another run is asked for: so many further down."""

        def __init__(self, step: int) -> None:
            super().__init__()
            self.step = step

    def __init__(self, epochs: Sequence[int], *, glyphs: Glyphs = UNICODE, id: str | None = None) -> None:
        super().__init__(id=id)
        self._glyphs = glyphs
        self._epochs = list(epochs)
        self._epoch = self._epochs[-1]
        self._flips: Sequence[int] = ()
        self._fires: Mapping[str, int | None] = {}

    def set(self, epochs: Sequence[int], epoch: int, flips: Sequence[int], fires: Mapping[str, int | None]) -> None:
        """Show a place.

        Args:
            epochs: all there are.
            epoch: where the knob stands.
            flips: epochs at which letters of some run change.
            fires: letter → the chosen run's first epoch.
        """
        self._epochs, self._epoch, self._flips, self._fires = list(epochs), epoch, flips, fires
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        cells = max(1, width - AXIS)
        knob = self._cell(self._epoch, cells)
        signs = {self._cell(epoch, cells): (self._glyphs.tick, "scrubber--track") for epoch in self._flips}
        for letter, epoch in reversed(list(self._fires.items())):
            if epoch is not None:
                signs[self._cell(epoch, cells)] = (letter, "scrubber--fires")
        signs[knob] = (
            signs[knob][0] if knob in signs and signs[knob][0].isalpha() else self._glyphs.knob,
            "scrubber--knob",
        )
        done, rest = self._glyphs.plateau_passing, self._glyphs.rule
        row: Row = [(f" ep {self._epoch}"[:AXIS].ljust(AXIS), "scrubber--label")]
        row += [
            signs.get(cell, (done, "scrubber--done") if cell < knob else (rest, "scrubber--track"))
            for cell in range(cells)
        ]
        return [row]

    def _cell(self, epoch: int, cells: int) -> int:
        return epoch_scale(self._epochs).cell(epoch, cells)

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

    def on_mouse_down(self, event: events.MouseDown) -> None:
        self.capture_mouse()
        self._to_pointer(event)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self.app.mouse_captured is self:
            self._to_pointer(event)

    def on_mouse_up(self) -> None:
        self.release_mouse()

    def _to_pointer(self, event: events.MouseEvent) -> None:
        fraction = (event.x - AXIS) / max(1, self.size.width - AXIS - 1)
        wanted = epoch_scale(self._epochs).value(min(1.0, max(0.0, fraction)))
        self.post_message(Scrubbed(nearest(self._epochs, wanted)))


def epoch_scale(epochs: Sequence[int]) -> Scale:
    """The axis from the first to the last epoch."""
    return Scale(float(epochs[0]), float(max(epochs[-1], epochs[0] + 1)))


def nearest(epochs: Sequence[int], wanted: float) -> int:
    """The recorded epoch nearest to a number.

    >>> nearest([1, 5, 10], 7.6)
    10
    """
    return min(epochs, key=lambda epoch: abs(epoch - wanted))
