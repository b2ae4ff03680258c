"""A number under a person's fingers, key by key.

A threshold on a track of runs: the control that verdicts answer to.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence
from enum import Enum

from textual import events
from textual.binding import Binding
from textual.message import Message

from fa_core.reporting.numbers import exact, parse
from fa_tui.terminal.glyphs import UNICODE, Glyphs
from fa_tui.widgets.ladder import Flips
from fa_tui.widgets.painted import PaintedWidget, Row
from fa_tui.widgets.slider_face import PARTS, TRACK_LEGEND, Face, Rug, Track, draw_face, widths

_STARTS = "0123456789.-+"


class Pressed(Enum):
    """What a key did to the entry."""

    NOTHING = "the key is for somebody else"
    EDITED = "the text changed, or the key was swallowed"
    ENTERED = "the text is finished"


class NumberEntry:
    """The text so far; None while nothing is being typed.

    >>> entry = NumberEntry()
    >>> [entry.press(key, key).name for key in "q1e7"], entry.text
    (['NOTHING', 'EDITED', 'EDITED', 'EDITED'], '1e7')
    """

    def __init__(self) -> None:
        self.text: str | None = None

    def takes(self, character: str | None) -> bool:
        """Whether a character starts a number, or goes on in one: then any does, to be refused as it was typed."""
        return character is not None and (self.text is not None or character in _STARTS)

    def press(self, key: str, character: str | None) -> Pressed:
        """Type a key (its name, and what it prints if it does). Tab leaves; any other key waits for Enter or Esc."""
        if self.text is None:
            if not self.takes(character):
                return Pressed.NOTHING
            self.text = character
        elif key == "enter":
            return Pressed.ENTERED
        elif key in ("tab", "shift+tab"):
            return Pressed.NOTHING
        elif key == "escape":
            self.text = None
        elif key == "backspace":
            self.text = self.text[:-1] or None
        elif character is not None:
            self.text += character
        return Pressed.EDITED


_FLUSH_SECONDS = 0.001
_FRAME_SECONDS = 1 / 60

SLIDER_KEYS = """\
  ← → or h l       one step
  shift+← →, H L   one stride
  [ ]              to the previous, the next value at which a run's letters change:
                   one more diagnostic fires, or one less
  0-9 . - +        type a value (1e-7): Enter sets it, Esc drops it
  Home             the default
  click, drag      set it with the mouse"""


class ThresholdSlider(PaintedWidget, can_focus=True):
    """One threshold, moved by keys, typing or the mouse.

    Handlers only change the pending value; one flush per turn of the event loop applies it and posts
    `Changed`, so a held key or a drag never queues work. The slider repaints itself a frame later: a
    handler that repaints what hangs on the threshold calls `catch_up` too, and all of it is one frame.

    Args:
        letter: the diagnostic, ``"a"``..``"d"``.
        label: what it measures.
        value: the threshold.
        lo, hi: ends of the track.
        log: logarithmic track.
        default: what Home restores.
        unit: shown after the value.
        above: whether runs above the value fire (else below).
        step: size of an arrow's step on a linear track; a stride is ten of them.
        glyphs: characters to draw with.
    """

    DEFAULT_CSS = """
    ThresholdSlider {
        height: 2;
        & > .slider--label { color: $foreground; }
        & > .slider--letter { color: $accent; text-style: bold; }
        & > .slider--focus {
            background: $block-cursor-background; color: $block-cursor-foreground; text-style: $block-cursor-text-style;
        }
        & > .slider--hint { color: $text-muted; }
        & > .slider--value { color: $foreground; text-style: bold; }
        & > .slider--entry { color: $foreground; text-style: bold underline; }
        & > .slider--error { color: $error; text-style: bold; }
        & > .slider--track { color: $text-muted; }
        & > .slider--plateau { color: $accent; }
        & > .slider--default { color: $foreground; }
        & > .slider--knob { color: $foreground; text-style: bold; }
        & > .slider--knob-focus {
            background: $block-cursor-background; color: $block-cursor-foreground; text-style: $block-cursor-text-style;
        }
        & > .slider--passes { color: $success; }
        & > .slider--fires { color: $error; }
    }
    """
    COMPONENT_CLASSES = {f"slider--{part}" for part in PARTS}
    BINDINGS = [
        Binding("left,h", "step(-1)", "Lower", key_display="←"),
        Binding("right,l", "step(1)", "Raise", key_display="→"),
        Binding("shift+left,H", "stride(-1)", "Stride down", show=False),
        Binding("shift+right,L", "stride(1)", "Stride up", show=False),
        Binding("left_square_bracket", "flip(-1)", "Previous change", key_display="["),
        Binding("right_square_bracket", "flip(1)", "Next change", key_display="]"),
        Binding("home", "restore", "Default"),
    ]

    help_text = f"The threshold of one diagnostic.\n\n{SLIDER_KEYS}\n\n{TRACK_LEGEND}\n"

    class Changed(Message):
        """The threshold moved. Several moves in one turn of the event loop are one message.

        Attributes:
            how: it moved: ``step`` and ``flip`` come in series, ``set`` does not.
        """

        def __init__(self, slider: ThresholdSlider, letter: str, value: float, how: str = "step") -> None:
            super().__init__()
            self.slider = slider
            self.letter = letter
            self.value = value
            self.how = how

        @property
        def control(self) -> ThresholdSlider:
            return self.slider

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, ThresholdSlider.Changed) and message.slider is self.slider

    def __init__(
        self,
        letter: str,
        label: str,
        value: float,
        lo: float,
        hi: float,
        log: bool,
        default: float,
        unit: str = "",
        *,
        above: bool = True,
        step: float = 0.01,
        glyphs: Glyphs = UNICODE,
        name: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self.letter = letter
        self.label = label
        self.default = default
        self.unit = unit
        self.above = above
        self.glyphs = glyphs
        self._linear_step = step
        self._value = self._pending = value
        self._how = "step"
        self._flush_scheduled = self._behind = False
        self._offers_default = False
        self._ticks = array("d")
        self._nonfinite = 0
        self._flips = Flips((), above=above)
        self._rug: Rug | None = None
        self._entry = NumberEntry()
        self._error = ""
        self._dragging = False
        self.set_range(lo, hi, log)

    @property
    def value(self) -> float:
        """The threshold."""
        return self._value

    def set_value(self, value: float) -> None:
        """Show a value set elsewhere; nothing is posted."""
        self._value = self._pending = value
        self._entry.text, self._error = None, ""
        self._offer_default()
        self.repaint()

    def catch_up(self) -> None:
        """Repaint now if the value moved since the last repaint."""
        if self._behind:
            self._behind = False
            self.repaint()

    def set_range(self, lo: float, hi: float, log: bool) -> None:
        """Set the ends of the track."""
        self._track = Track.of(lo, hi, log=log, unit=self._linear_step)
        self._rug = None
        self.repaint()

    def set_context(self, ticks: Sequence[float], flips: Sequence[float] | None = None) -> None:
        """Show where the runs lie.

        Args:
            ticks: one measured value per run.
            flips: the values at which some run's letters change, where that is not every tick.
        """
        self._ticks = _finite(ticks)
        self._nonfinite = len(ticks) - len(self._ticks)
        self._flips = Flips(self._ticks if flips is None else flips, above=self.above)
        self._rug = None
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        _, cells, _ = widths(width)
        if self._rug is None or self._rug.cells != cells:
            self._rug = Rug.of(self._ticks, self._nonfinite, self._track.scale, cells)
        face = Face(
            letter=self.letter,
            label=self.label,
            above=self.above,
            scale=self._track.scale,
            value=self._value,
            default=self.default,
            unit=self.unit,
            rug=self._rug,
            plateau=self._flips.plateau(self._value),
            entry=self._entry.text,
            error=self._error,
            focused=self.has_focus,
        )
        return draw_face(face, width, height, self.glyphs)

    def action_step(self, direction: int) -> None:
        """Move by one step."""
        self._set_pending(self._track.moved(self._pending, direction))

    def action_stride(self, direction: int) -> None:
        """Move by one stride."""
        self._set_pending(self._track.moved(self._pending, direction, stride=True))

    def action_flip(self, direction: int) -> None:
        """Move to the next value at which a run's letters change."""
        target = self._flips.next(self._pending, upward=direction > 0)
        if target is None:
            where = "above" if direction > 0 else "below"
            self._refuse(f"no run's letters change {where} this value")
        else:
            self._set_pending(target, "flip")

    def action_restore(self) -> None:
        """Back to the default."""
        self._set_pending(self.default, "set")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """The default is offered where it would change something; what is being typed takes the key."""
        return action != "restore" or (self._pending != self.default and self._entry.text is None)

    def _offer_default(self) -> None:
        """Name the keys anew that work now, where others did before."""
        offers = bool(self.check_action("restore", ()))
        if offers != self._offers_default:
            self._offers_default = offers
            if self.has_focus:
                self.refresh_bindings()

    def check_consume_key(self, key: str, character: str | None) -> bool:
        return self._entry.takes(character)

    def on_key(self, event: events.Key) -> None:
        pressed = self._entry.press(event.key, event.character if event.is_printable else None)
        if pressed is Pressed.NOTHING:
            return
        if pressed is Pressed.ENTERED:
            self._commit()
        else:
            self._error = ""
            self._offer_default()
            self.repaint()
        event.stop()
        event.prevent_default()

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        if not has_focus:
            if self._entry.text is not None:
                self._commit()
            self._error = ""
        self.repaint()

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if event.button == 1:
            self.focus()
            self._dragging = True
            self.capture_mouse()
            self._point(event.x)
            event.stop()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self._dragging:
            self._point(event.x)
            event.stop()

    def on_mouse_up(self, event: events.MouseUp) -> None:
        if self._dragging:
            self._dragging = False
            self.release_mouse()
            event.stop()

    def _point(self, x: int) -> None:
        label, cells, _ = widths(self.size.width)
        cell = min(cells - 1, max(0, x - label))
        if cell != self._track.scale.cell(self._pending, cells):
            self._set_pending(self._track.scale.value_at(cell, cells))

    def _set_pending(self, value: float, how: str = "step") -> None:
        self._pending, self._how = value, how
        self._entry.text, self._error = None, ""
        self._offer_default()
        if not self._flush_scheduled:
            self._flush_scheduled = True
            self.set_timer(_FLUSH_SECONDS, self._flush)

    def _flush(self) -> None:
        self._flush_scheduled = False
        moved = self._pending != self._value
        self._value = self._pending
        if moved:
            self.post_message(self.Changed(self, self.letter, self._value, self._how))
            self._behind = True
            self.set_timer(_FRAME_SECONDS, self.catch_up)
        else:
            self.repaint()

    def _commit(self) -> None:
        text = self._entry.text or ""
        value = parse(text)
        if value is None:
            self._refuse(f"“{text}” is not a number: try {exact(self.default)}")
        elif self._track.scale.log and value < 0:
            self._refuse(f"{text} is negative: {self.label} never is")
        else:
            self._set_pending(value + 0.0, "set")  # -0.0 reads as 0

    def _refuse(self, why: str) -> None:
        self._entry.text, self._error = None, why
        self._offer_default()
        self.repaint()


def _finite(ticks: Sequence[float]) -> array[float]:
    """The finite values, sorted; an array that is so already is kept as it is."""
    if not isinstance(ticks, array):
        return array("d", sorted(tick for tick in ticks if math.isfinite(tick)))
    # many runs, from columns: Python objects for them would take four times the memory meanwhile
    import numpy as np

    values = np.frombuffer(ticks)
    if np.isfinite(values).all() and (values[1:] >= values[:-1]).all():
        return ticks  # the sliders of all screens share it
    values = np.sort(values)
    return array("d", values[np.isfinite(values)].tobytes())
