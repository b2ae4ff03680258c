"""Lines of text, of key hints, of values to pick from, of tabs; text that scrolls; the explorer's status line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import msgspec
from rich.style import Style
from textual import events
from textual.binding import ActiveBinding, Binding, BindingType
from textual.message import Message
from textual.screen import Screen

from fa_core.diagnostics import CELL_LEGEND
from fa_tui.views.columns import SHADES, Quantity
from fa_tui.views.scale import Scale
from fa_tui.views.text import wrapped
from fa_tui.widgets.matrix import Matrix
from fa_tui.widgets.painted import SCROLL_KEYS, PaintedScroll, PaintedWidget, Row, ending
from fa_tui.widgets.run_cells import RunCells


class Line(PaintedWidget):
    """One line made of pieces, each with a tone; what does not fit ends in an ellipsis."""

    _pieces: Sequence[tuple[str, str]] = ()

    @property
    def text(self) -> str:
        """What is shown, without styles."""
        return "".join(text for text, _ in self._pieces)

    def set(self, *pieces: tuple[str, str]) -> None:
        """Show other pieces (text, tone)."""
        say = self._glyphs.say
        before, self._pieces = self._pieces, [(say(text), tone) for text, tone in pieces if text]
        if before != self._pieces:
            self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        return [ending([*self._pieces], width, self._glyphs.ellipsis, "dim")]


_wrapped = lru_cache(maxsize=4096)(wrapped)
"""Most lines stay when some change."""


class TextLines(PaintedScroll, can_focus=True):
    """Lines of text, wrapped to the width. A line that starts with ``# `` is a heading."""

    BINDINGS: ClassVar[list[BindingType]] = SCROLL_KEYS

    follows = False
    """Whether it stays at the end when lines are added (a log)."""
    _lines: Sequence[str] = ()

    @property
    def text(self) -> str:
        """What is shown."""
        return "\n".join(self._lines)

    def set_lines(self, lines: Sequence[str]) -> None:
        """Show other lines."""
        self._lines = list(lines)
        self.repaint()
        if self.follows:
            self.scroll_end(animate=False, immediate=True)

    def draw(self, width: int) -> Sequence[Row]:
        rows: list[Row] = []
        for line in self._lines:
            heading = line.startswith("# ")
            text = self._glyphs.say(line.removeprefix("# ").expandtabs())
            rows.extend([(part, "accent" if heading else "")] for part in _wrapped(text, width))
        return rows


class StatusLine(Line):
    """A `Line` that explains the matrix while there is no message; it can show the matrix' shades.

    Args:
        matrix: what it explains.
        id: of the widget.

    Attributes:
        explains_numbers: whether the matrix is on screen, and with it numbers and shades.
    """

    def __init__(self, matrix: Matrix, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._matrix = matrix
        self._said = ("", "")
        self._progress: Sequence[tuple[str, str]] = ()
        self.explains_numbers = True

    def say(self, text: str, tone: str = "") -> None:
        """Show what just happened; an empty text brings the explanation back."""
        self._said = (text, tone)
        self.show()

    def show_progress(self, pieces: Sequence[tuple[str, str]]) -> None:
        """How far the jobs are; nothing where there are none."""
        self._progress = pieces
        self.show()

    def show(self) -> None:
        """Show the message and the progress, else the explanation."""
        if self._progress or self._said[0]:
            gap = "   " if self._progress and self._said[0] else ""
            self.set((" ", ""), *self._progress, (gap, ""), self._said)
        elif self._matrix.quantity is None or not self.explains_numbers:
            self.set((f" {CELL_LEGEND}", "dim"))
        else:
            self._explain(self._matrix.quantity, self._matrix.cells)

    def mixed(self, tone: str) -> Style:
        return self._matrix.style_of(tone) if tone.startswith("shade-") else super().mixed(tone)

    def _explain(self, quantity: Quantity, cells: RunCells) -> None:
        """How to read numbers and their shades."""
        if cells.known(quantity):
            words = self._scale_words(quantity, cells.scale_of(quantity))
            self.set(*words, *_marks(quantity, several=cells.suffix_width > 0))
        else:
            self.set((f" {quantity.label}", "strong"), (" was measured on no run here", "warn"))

    def _scale_words(self, quantity: Quantity, scale: Scale | None) -> Sequence[tuple[str, str]]:
        if scale is None:
            return [(f" {quantity.label}", "strong"), (": no two runs differ", "dim")]
        swatches = [(" ", f"shade-{number}") for number in range(SHADES)]
        if not self._matrix.style_of("shade-0"):
            swatches = [("..", "dim")]
        return [
            (f" {quantity.label} ", "strong"),
            (f"{quantity.say(scale.lo)} ", ""),
            *swatches,
            (f" {quantity.say(scale.hi)}", ""),
            (" log" if scale.log else "", "dim"),
        ]


def _marks(quantity: Quantity, several: bool) -> Sequence[tuple[str, str]]:
    return [
        (f"   ({quantity.letter}) fires" if quantity.letter else "", "bad"),
        ("   ×3 median of 3" if several else "", "dim"),
        ("   · not measured", "dim"),
    ]


class Pick(PaintedWidget, can_focus=True):
    """Shows the value that is picked; posts `Changed`.

    Args:
        values: what can be picked; ``""`` is shown as ``default``.
        value: what is picked at first.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space,right,l", "step(1)", "Change", key_display="space", tooltip="the next value"),
        Binding("left,h", "step(-1)", "Back", show=False, tooltip="the value before"),
    ]

    class Changed(Message):
        """Another value."""

    def __init__(self, values: Sequence[str], value: str) -> None:
        super().__init__()
        self._values = list(values)
        self.value = value if value in values else self._values[0]

    def draw(self, width: int, height: int) -> Sequence[Row]:
        row: Row = []
        for value in self._values:
            style = "dim" if value != self.value else "cursor" if self.has_focus else "text"
            row.append((self._label(value), style))
        return [row]

    def _label(self, value: str) -> str:
        mark = "*" if value == self.value and not self.has_focus else " "
        return f"{mark}{value or 'default'} "

    def action_step(self, by: int) -> None:
        """Pick another value."""
        self._take(self._values[(self._values.index(self.value) + by) % len(self._values)])

    def _take(self, value: str) -> None:
        self.value = value
        self.repaint()
        self.post_message(self.Changed())

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is not None and self.piece_at(offset.x) < len(self._values):
            self._take(self._values[self.piece_at(offset.x)])


class TabLine(PaintedWidget):
    """Names with the number keys that choose them; posts `TabLine.Chosen`.

    Args:
        names: of the tabs.
    """

    @dataclass
    class Chosen(Message):
        """A tab was clicked."""

        place: int

    def __init__(self, names: Sequence[str], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._names = list(names)
        self._open = 0

    def open(self, place: int) -> None:
        """Show which one is open."""
        self._open = place
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        row: Row = []
        for place, name in enumerate(self._names):
            row += [
                (f" {place + 1} ", "accent"),
                (name, "entry" if place == self._open else "dim"),
                ("  ", ""),
            ]
        return [row]

    def on_click(self, event: events.Click) -> None:
        place = self.piece_at(event.x) // 3
        if place < len(self._names):
            self.post_message(self.Chosen(place))


_PALETTE = "command_palette"
"""What every key does can be done from there too, also by mouse."""


def offered(screen: Screen[object], wanted: Callable[[Binding], object]) -> Iterator[tuple[ActiveBinding, str]]:
    """The bindings that work now, the first one of each action, and the key as it is shown.

    Args:
        screen: whose bindings, and those of what has its focus.
        wanted: which of them.
    """
    seen = set()
    for active in screen.active_bindings.values():
        binding = active.binding
        if active.enabled and wanted(binding) and binding.action not in seen:
            seen.add(binding.action)
            yield active, binding.key_display or screen.app.get_key_display(binding)


class Hint(msgspec.Struct, frozen=True):
    """One key, as pressed and as shown, and what it does."""

    key: str
    shown: str
    does: str

    @property
    def width(self) -> int:
        return len(self.shown) + len(self.does) + 3


class KeyBar(PaintedWidget):
    """One line of key hints, read from the screen's active bindings; a click presses the key.

    Textual's Footer mounts a widget per key and lays them out again at every change of focus; this
    paints one line, and of it only what changed.
    """

    _hints: Sequence[Hint] = ()
    _more: Hint | None = None
    _pinned = ""

    def pin(self, key: str) -> None:
        """Show the hint of a key however little room there is; ``""`` of none."""
        if key != self._pinned:
            self._pinned = key
            self._read(self.screen)

    @property
    def left_out(self) -> set[str]:
        """The keys of the hints that there is no room for."""
        return {hint.key for hint in self._hints} - {hint.key for hint in self._fitting(self.size.width)}

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._read)
        self._read(self.screen)

    def _read(self, screen: Screen[object]) -> None:
        hints = [
            Hint(active.binding.key, self._glyphs.say(key), active.binding.description)
            for active, key in offered(screen, lambda binding: binding.show and binding.description)
        ]
        # before help and quit
        pinned = [hint for hint in hints if hint.key == self._pinned]
        others = [hint for hint in hints if hint.key != self._pinned]
        self._hints = [*others[:-2], *pinned, *others[-2:]]
        palette = offered(screen, lambda binding: binding.action == _PALETTE)
        self._more = next((Hint(active.binding.key, "^p", "More") for active, _ in palette), None)
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        row: Row = []
        for hint in self._fitting(width):
            row += [(f" {hint.shown}", "accent"), (f" {hint.does} ", "dim")]
        return [row]

    def on_click(self, event: events.Click) -> None:
        hints, place = self._fitting(self.size.width), self.piece_at(event.x) // 2
        if place < len(hints):
            self.app.simulate_key(hints[place].key)

    def _fitting(self, width: int) -> list[Hint]:
        return fitting(self._hints, width, self._more, 3 if self._pinned in [hint.key for hint in self._hints] else 2)


def fitting(hints: Iterable[Hint], width: int, more: Hint | None = None, kept: int = 2) -> list[Hint]:
    """The hints that fit a width whole; the last ones (help, quit) go before all others.

    Args:
        hints: all of them.
        width: cells.
        more: leads to those that are left out; shown only where some are.
        kept: how many last ones.

    >>> bar = [Hint("m", "m", "measure"), Hint("t", "t", "table"), Hint("?", "?", "help"), Hint("q", "q", "quit")]
    >>> [hint.key for hint in fitting(bar, 27)]
    ['m', '?', 'q']
    >>> [hint.key for hint in fitting(bar, 27, Hint("ctrl+p", "^p", "more"))]
    ['ctrl+p', '?', 'q']
    """
    hints = list(hints)
    if sum(hint.width for hint in hints) <= width:
        return hints
    first, last = hints[:-kept], [*([more] if more else []), *hints[-kept:]]
    room = width - sum(hint.width for hint in last)
    shown = []
    for hint in first:
        if hint.width > room:
            break
        shown.append(hint)
        room -= hint.width
    return shown + last
