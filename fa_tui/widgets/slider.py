"""A threshold slider with its runs on the track.

    a growth per block        ▂ ▂▂                         ▂ ▂▄▂ ▂          fires > 63×
      default 50×        ─────────────◇━━━━━━━●━━━━━━━━━━━━╌╌╌╌╌╌╌╌╌        plateau 11…694

Dashed: values that fire; heavy: the plateau, on which no run flips; bars: runs.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain

from textual import events
from textual.binding import Binding
from textual.message import Message

from fa_core.report.diagnostics import Diagnostic
from fa_core.report.numbers import exact, just_past, parse, short
from fa_core.report.provenance import Interval
from fa_tui.later import Later
from fa_tui.views.scale import Scale, Track, covering, drawable, rug
from fa_tui.widgets.painted import PaintedWidget, Row, hidden, joined


class Flips:
    """The values of one threshold at which verdicts flip.

    A run whose value equals the threshold does not fire. If runs fire above the threshold t,
    verdicts are constant for t in [x_i, x_{i+1}); if below, in (x_i, x_{i+1}].

    Args:
        values: finite, rising.
        diagnostic: of the threshold.
    """

    def __init__(self, values: Sequence[float], diagnostic: Diagnostic) -> None:
        self.values = values
        self._diagnostic = diagnostic

    def plateau(self, threshold: float) -> Interval | None:
        """The interval around the threshold with unchanged verdicts, or None without runs."""
        if self.values:
            return self._diagnostic.plateau(self.values, threshold)
        return None

    def next(self, threshold: float, *, upward: bool) -> float | None:
        """The nearest round threshold in one direction with other verdicts, or None.

        >>> from fa_core.report.diagnostics import DIAGNOSTICS
        >>> Flips([10.96, 694.5, 2000.0], DIAGNOSTICS["a"]).next(50.0, upward=True)
        695.0
        """
        index = self._diagnostic.place(self.values, threshold)
        flip = self._at(index - (not upward))
        if not math.isfinite(flip):
            return None
        if upward:
            beyond = bisect.bisect_right(self.values, flip)
        else:
            beyond = bisect.bisect_left(self.values, flip) - 1
        round_number = just_past(flip, upward, self._at(beyond))
        if round_number is not None:
            return round_number
        if upward == self._diagnostic.fires_above:
            return flip
        return math.nextafter(flip, math.inf if upward else -math.inf)

    def _at(self, index: int) -> float:
        """A value by index; ±inf beyond the ends."""
        if index < 0:
            return -math.inf
        if index < len(self.values):
            return self.values[index]
        return math.inf


def _end(value: float, digits: int) -> str:
    if math.isfinite(value):
        return short(value, digits)
    return ""


_STARTS = "0123456789.-+"
_MOVES = "[]{}"
_FRAME_SECONDS = 1 / 60
_WIDE = 100
"""Wider sliders show the ends of the scale."""
_BARE = 12
"""Cells of a value without words."""
_PLATEAU = "plateau "


def widths(width: int) -> tuple[int, int, int]:
    """Cells for label, track and value."""
    label, value = 4, 12
    if width >= _WIDE:
        label, value = 25, 36
    elif width >= 70:
        label, value = 22, 22
    return label, max(4, width - label - value), value


class ThresholdSlider(PaintedWidget, can_focus=True):
    """One threshold, moved by keys, typing or the mouse.

    Handlers only change the pending value. One flush per turn of the event loop applies it and
    posts `Changed`, so that held keys and drags never queue work. The slider repaints a frame
    later; a handler of `Changed` calls `catch_up` to repaint it in its own frame.

    Args:
        diagnostic: of the threshold.
        value: the threshold.

    Attributes:
        letter: of the diagnostic.
        value: the threshold.
        deciding: returns the values, rising, at which a judgement changes.
    """

    BINDINGS = [
        Binding("left,h", "step(-1)", "Lower", key_display="←"),
        Binding("right,l", "step(1)", "Raise", key_display="→"),
        hidden("shift+left,H", "step(-1, True)", "Stride down"),
        hidden("shift+right,L", "step(1, True)", "Stride up"),
        Binding("left_square_bracket", "flip(-1)", "Next flip", key_display="[ ]"),
        hidden("right_square_bracket", "flip(1)", "Next flip up", key_display="]"),
        Binding("left_curly_bracket", "flip(-1, True)", "Verdict change", key_display="{ }"),
        hidden("right_curly_bracket", "flip(1, True)", "Verdict change up", key_display="}"),
        hidden("home", "restore", "Default"),
    ]

    @dataclass
    class Changed(Message):
        """The threshold moved; moves in one turn of the event loop are one message.

        Attributes:
            how: ``step``, ``flip`` and ``drag 1`` form series, ``set`` does not.
        """

        slider: ThresholdSlider
        value: float
        how: str

        def can_replace(self, message: Message) -> bool:
            return isinstance(message, ThresholdSlider.Changed) and message.slider is self.slider

    @dataclass
    class Refused(Message):
        """A key or a typed text moves nothing."""

        why: str

    def __init__(self, diagnostic: Diagnostic, value: float) -> None:
        super().__init__(id=f"slider-{diagnostic.letter}")
        self.letter = diagnostic.letter
        self._diagnostic = diagnostic
        self._default = diagnostic.default
        self.value = self._pending = value
        self._how = "step"
        self._flush_later = Later(self, self._flush)
        self._catch_up_later = Later(self, self.repaint, _FRAME_SECONDS)
        self._ticks: Sequence[float] = ()
        self._nonfinite = 0
        self._interval: Interval | None = None
        self._flips = Flips((), diagnostic)
        self._track = Track(Scale(*diagnostic.span, diagnostic.quantity.log), diagnostic.step)
        self.deciding: Callable[[], Sequence[float]] = list
        self._drags = 0
        self._entry = ""
        """The text being typed."""

    def set_value(self, value: float) -> None:
        """Show a value set elsewhere; nothing is posted."""
        self.value = self._pending = value
        self._edit("")

    def catch_up(self) -> None:
        """Repaint now if the value moved since the last repaint."""
        if self._catch_up_later.is_due:
            self._catch_up_later.cancel()
            self.repaint()

    def set_runs(self, values: Sequence[float], points: Sequence[float]) -> None:
        """Show the runs' measured values on a track that holds them all.

        Args:
            values: of the runs.
            points: the thresholds at which a run flips, rising.
        """
        one = self._diagnostic
        scale = covering(
            chain(values, points, [self.value]), log=one.quantity.log, at_least=one.span
        )
        if scale is not None:
            self._track = Track(scale, one.step)
        self._ticks = sorted(drawable(values, log=False))
        self._nonfinite = len(values) - len(self._ticks)
        self._flips = Flips(points, one)
        self.repaint()

    def show_interval(self, interval: Interval | None) -> None:
        """Show the 95 % interval of one run's number, or none."""
        if interval != self._interval:
            self._interval = interval
            self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        label_width, cells, value_width = widths(width)
        label = self._draw_label(label_width)
        value = self._draw_value(value_width)
        if height < 2:
            ticks = self._draw_runs(cells, self._glyphs.tick)
            return [[*label, *self._draw_track(ticks), *value]]
        marks = self._draw_runs(cells, self._glyphs.bars)
        tones = self._tones(self._track.scale.cell(self.value, cells), cells)
        runs = [
            (mark, tone) if mark else (" ", "") for mark, tone in zip(marks, tones, strict=True)
        ]
        scale = self._draw_scale(label_width, cells, value_width)
        return [[*label, *joined(runs), *value], scale]

    def _draw_scale(self, label_width: int, cells: int, value_width: int) -> Row:
        """The row of the track: the default, the track, and the plateau."""
        low = ""
        high = "  "
        if cells + label_width + value_width >= _WIDE:
            scale = self._track.scale
            low = scale.tick(scale.lo, self._glyphs) + " "
            high = " " + scale.tick(scale.hi, self._glyphs).ljust(7)
        default = f"default {self._text_of(self._default)}"
        room = label_width - 3 - len(low)
        # cut, it would look like a mark on the track
        if len(default) >= room:
            default = ""
        track = self._draw_track([""] * cells)
        plateau = self._draw_plateau(high, value_width)
        return [("   ", ""), (f"{default:{room}}{low}", "dim"), *track, *plateau]

    def _text_of(self, value: float) -> str:
        return self._glyphs.say(f"{exact(value)}{self._diagnostic.quantity.suffix}")

    def _draw_label(self, width: int) -> Row:
        diagnostic = self._diagnostic
        room = width - 4
        name = self._glyphs.say(diagnostic.quantity.words)[:room].ljust(room)
        tones = ("cursor", "cursor") if self.has_focus else ("accent", "text")
        undecided = (" ", tones[0])
        if self._interval is not None:
            low, high = self._interval
            fires_low = diagnostic.beyond(low, self.value)
            if fires_low != diagnostic.beyond(high, self.value):
                undecided = (self._glyphs.undecided, "warn")
        return [undecided, (f"{self.letter} ", tones[0]), (name, tones[1]), (" ", "")]

    def _draw_value(self, width: int) -> Row:
        sign = f"{self._diagnostic.sign} "
        if width > _BARE:
            sign = f"fires {sign}"
        sign = f"  {sign}"
        if self._entry:
            # of a long entry the end is shown
            typed = (self._entry[len(sign) + 1 - width :], "entry")
            return [(sign, "dim"), typed, (self._glyphs.cursor, "strong")]
        unit = self._glyphs.say(self._diagnostic.quantity.suffix)
        room = width - len(unit) - len(sign)
        number = exact(self.value)
        for digits in (6, 3):
            if len(number) > room:
                number = short(self.value, digits)
        return [(sign, "dim"), (number, "strong"), (unit, "dim")]

    def _draw_plateau(self, high: str, width: int) -> Row:
        """The upper end of the scale, and the plateau with the fewest digits that enclose the
        value, if they fit."""
        room = width - len(high) - len(_PLATEAU)
        plateau = self._flips.plateau(self.value)
        for digits in (3, 4, 5, 6) if plateau is not None else ():
            low, top = (_end(end, digits) for end in plateau or ())
            inside = float(low or "-inf") <= self.value <= float(top or "inf")
            text = f"{low}{self._glyphs.ellipsis}{top}"
            if not low or not top:
                text = f"below {top}" if top else f"above {low}"
            if low != top and inside and len(text) <= room:
                return [(high, "dim"), (_PLATEAU, "bar"), (text, "dim")]
        return [(high, "dim")]

    def _draw_track(self, ticks: Sequence[str]) -> Row:
        glyphs = self._glyphs
        scale = self._track.scale
        cells = len(ticks)
        knob = scale.cell(self.value, cells)
        home = scale.cell(self._default, cells)
        plateau = self._cells_of(self._flips.plateau(self.value), cells)
        undecided = self._cells_of(self._interval, cells)
        row: Row = []
        for cell, (tick, tone) in enumerate(zip(ticks, self._tones(knob, cells), strict=True)):
            if cell == knob:
                sign = glyphs.knob_home if self.value == self._default else glyphs.knob
                row.append((sign, "cursor" if self.has_focus else "strong"))
            elif cell == home:
                row.append((glyphs.default, "text"))
            elif tick:
                row.append((tick, tone))
            elif cell in undecided:
                row.append((glyphs.undecided, "warn"))
            elif cell in plateau:
                row.append((glyphs.plateau, "bar"))
            else:
                row.append((glyphs.firing if tone == "limit" else glyphs.passing, "dim"))
        return joined(row)

    def _cells_of(self, interval: Interval | None, cells: int) -> range:
        """The cells of an interval on the track."""
        if interval is None:
            return range(0)
        low, high = interval
        scale = self._track.scale
        return range(scale.cell(low, cells), scale.cell(high, cells) + 1)

    def _tones(self, knob: int, cells: int) -> list[str]:
        """Tones of the cells left of the knob, at it, and right of it."""
        below, above = "limit", "good"
        if self._diagnostic.fires_above:
            below, above = above, below
        return [below] * knob + ["strong"] + [above] * (cells - knob - 1)

    def _draw_runs(self, cells: int, bars: str) -> list[str]:
        """Marks of the runs per cell, the higher of `bars` for many; the ends also stand for runs
        beyond the track and non-finite values, which always fire."""
        glyphs = self._glyphs
        marks = [""] * cells
        counts, below, above = rug(self._ticks, self._track.scale, cells)
        for cell, count in counts.items():
            level = 1 + round(2 * math.log2(count))
            marks[cell] = bars[min(len(bars) - 1, level)]
        if below:
            marks[0] = glyphs.off_left
        if above:
            marks[-1] = glyphs.off_right
        if self._nonfinite:
            end = -1 if self._diagnostic.fires_above else 0
            marks[end] = glyphs.nonfinite
        return marks

    def action_step(self, direction: int, stride: bool = False) -> None:
        """Move by one step, or by one stride."""
        self._set_pending(self._track.moved(self._pending, direction, stride=stride))

    def action_flip(self, direction: int, verdict: bool = False) -> None:
        """Move to the next value at which a diagnostic changes on a run, or its judgement."""
        flips = self._flips
        what = "no run flips"
        if verdict:
            flips = Flips(self.deciding(), self._diagnostic)
            what = "no verdict changes"
        target = flips.next(self._pending, upward=direction > 0)
        if target is not None:
            self._set_pending(target, "flip")
        else:
            side = "above" if direction > 0 else "below"
            self._refuse(f"{what} {side} this value")

    def action_restore(self) -> None:
        """Restore the default."""
        self._set_pending(self._default, "set")

    def check_consume_key(self, key: str, character: str | None) -> bool:
        # a typed value takes all characters as its own, except moves
        if character is None:
            return False
        if not self._entry:
            return character in _STARTS
        return character not in _MOVES

    def on_key(self, event: events.Key) -> None:
        character = event.character if event.is_printable else None
        if not self._entry and not self.check_consume_key(event.key, character):
            return
        edits = {"escape": "", "ctrl+c": "", "backspace": self._entry[:-1]}
        if event.key in edits:
            self._edit(edits[event.key])
        elif event.key == "enter" or character is None or character in _MOVES:
            # keys that leave or move the slider set the typed value first
            if self._commit() and event.key != "enter":
                return
        elif character.isalpha() and character not in "eE":
            self._refuse(f"“{character}” is in no number", self._entry)
        else:
            self._edit(self._entry + character)
        event.stop()
        event.prevent_default()

    def watch_has_focus(self, has_focus: bool) -> None:
        if not has_focus and self._entry:
            self._commit()
        super().watch_has_focus(has_focus)

    def _drag_to(self, x: int) -> None:
        """React to the pointer at a column, which may lie outside."""
        label, cells, _ = widths(self.size.width)
        cell = min(cells - 1, max(0, x - label))
        if cell != self._track.scale.cell(self._pending, cells):
            self._set_pending(self._track.scale.value_at(cell, cells), f"drag {self._drags}")

    def on_mouse_down(self, event: events.MouseDown) -> None:
        # a click on the words sets nothing
        label, cells, _ = widths(self.size.width)
        if event.button == 1 and label <= event.x < label + cells:
            self.capture_mouse()
            self._drags += 1
            self._drag_to(event.x)

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self.app.mouse_captured is self:
            self._drag_to(event.x)

    def on_mouse_up(self) -> None:
        self.release_mouse()

    def _set_pending(self, value: float, how: str = "step") -> None:
        self._pending = value
        self._how = how
        self._edit("")
        self._flush_later()

    def _flush(self) -> None:
        if self._pending == self.value:
            self.repaint()
            return
        self.value = self._pending
        self.post_message(self.Changed(self, self.value, self._how))
        self._catch_up_later()

    def _commit(self) -> bool:
        """Set the typed value; False if it is none."""
        text = self._entry
        value = parse(text)
        if value is None:
            self._refuse(f"“{text}” is not a number: try {exact(self._default)}")
        elif self._track.scale.log and value < 0:
            self._refuse(f"{text} is negative: {self._diagnostic.quantity.words} never is")
        else:
            # turns -0.0 into 0.0
            self._set_pending(value + 0.0, "set")
            return True
        return False

    def _refuse(self, why: str, entry: str = "") -> None:
        self._edit(entry)
        self.post_message(self.Refused(why))

    def _edit(self, entry: str) -> None:
        self._entry = entry
        self.repaint()
