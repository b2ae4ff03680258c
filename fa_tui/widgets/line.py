"""Lines of text, key hints, choices and tabs; scrolling text; the status line."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from rich.style import Style
from textual import events
from textual.binding import ActiveBinding, Binding
from textual.geometry import Size
from textual.screen import Screen

from fa_core.report.quantities import Quantity
from fa_core.report.verdict_cell import cell_legend
from fa_tui.terminal.painting import after
from fa_tui.views.columns import NORMS, SHADES, written
from fa_tui.views.glyphs import Glyphs
from fa_tui.views.scale import Scale
from fa_tui.views.sparklines import MOST_BARS
from fa_tui.views.text import wrapped
from fa_tui.widgets.matrix import Matrix
from fa_tui.widgets.painted import (
    SCROLL_KEYS,
    PaintedScroll,
    PaintedWidget,
    Piece,
    Row,
    ending,
    row_text,
    row_width,
)
from fa_tui.widgets.run_cells import NormBars, RunCells

if TYPE_CHECKING:
    from fa_tui.widgets.run_table import RunTable


def _filled(pieces: Iterable[Piece]) -> Row:
    return [piece for piece in pieces if piece[0]]


class Line(PaintedWidget):
    """One line of pieces, each with a tone, cut with an ellipsis.

    Args:
        pieces: (text, tone) each.
        id: of the widget.
    """

    def __init__(self, *pieces: Piece, id: str | None = None) -> None:
        super().__init__(id=id)
        self._pieces = _filled(pieces)

    @property
    def text(self) -> str:
        """The shown text without styles."""
        return row_text(self._pieces)

    def set(self, *pieces: Piece) -> None:
        """Show other pieces (text, tone)."""
        filled = _filled(pieces)
        if filled != self._pieces:
            self._pieces = filled
            self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        say = self._glyphs.say
        pieces = [(say(text), tone) for text, tone in self._pieces]
        return [ending(pieces, width, self._glyphs.ellipsis, "dim")]


_wrapped = lru_cache(maxsize=4096)(wrapped)
"""Cached, as most lines stay when some change."""


class TextLines(PaintedScroll, can_focus=True):
    """Lines of text, wrapped to the width. A line that starts with ``# `` is a heading.

    Args:
        lines: the text.
        id: of the widget.
    """

    BINDINGS = SCROLL_KEYS

    follows = False
    """Whether it stays at the end as lines are added (a log)."""

    def __init__(self, lines: Sequence[str] = (), *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lines = list(lines)

    @property
    def text(self) -> str:
        """The shown text."""
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
            tone = "accent" if line.startswith("# ") else ""
            text = self._glyphs.say(line.removeprefix("# ").expandtabs())
            rows += [[(part, tone)] for part in _wrapped(text, width)]
        return rows


MESSAGE_SECONDS = 8.0
"""How long a message stays; a warning stays twice as long."""


def norm_legend(bars: NormBars, glyphs: Glyphs) -> Row:
    """What the bars of ‖h‖ and ‖g‖ mean: their scales, the same for all runs."""
    spans = []
    for name, scale in zip(("‖h‖", "‖g‖"), bars.scales, strict=True):
        span = "not measured"
        if scale is not None:
            span = f"{scale.tick(scale.lo, glyphs)}…{scale.tick(scale.hi, glyphs)}"
        spans.append(f"{name} {span}")
    about = f"{glyphs.bars[0]} to {glyphs.bars[-1]} is the same for all runs, log; a bar per layer"
    if bars.cells == MOST_BARS:
        about += " or for the largest of several"
    return [("  ".join(spans), "strong"), (f"   {about}", "dim")]


class StatusLine(Line):
    """A `Line` for messages, which explains the matrix and its shades without one.

    A message goes away by itself after `MESSAGE_SECONDS`.

    Args:
        matrix: the explained one.
        id: of the widget.

    Attributes:
        table: the long view, if it is on screen instead of the matrix.
    """

    def __init__(self, matrix: Matrix, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._matrix = matrix
        self._message = ("", "")
        self._expires: asyncio.TimerHandle | None = None
        self._progress: Sequence[Piece] = ()
        self.table: RunTable | None = None

    def say(self, text: str, tone: str = "") -> None:
        """Show a message; an empty one restores the explanation."""
        self._message = (text, tone)
        if self._expires is not None:
            self._expires.cancel()
            self._expires = None
        if text:
            seconds = MESSAGE_SECONDS
            if tone in ("warn", "bad"):
                seconds *= 2
            self._expires = after(seconds, self, partial(self.say, ""))
        self.show()

    def show_progress(self, pieces: Sequence[Piece]) -> None:
        """Show the progress of jobs, if there are any, in front of the rest."""
        self._progress = pieces
        self.show()

    def show(self) -> None:
        """Show the progress, then the message, else the explanation."""
        text, _ = self._message
        before: list[Piece] = []
        if self._progress:
            before = [(" ", ""), *self._progress, ("  ", "")]
        if text:
            self.set(*before, (" ", ""), self._message)
        elif self.table is not None and self.table.with_bars:
            self.set(*before, (" ", ""), *norm_legend(self.table.bars, self._glyphs))
        elif self._matrix.quantity is None or self.table is not None:
            session = self._matrix.session
            controls = len(session.counted) < len(session.in_scope)
            self.set(*before, (f" {cell_legend(controls=controls)}", "dim"))
        else:
            explained = self._explanation(self._matrix.quantity, self._matrix.cells)
            self.set(*before, *explained)

    def mixed(self, tone: str) -> Style:
        if tone.startswith("shade-"):
            return self._matrix.style_of(tone)
        return super().mixed(tone)

    def _explanation(self, quantity: Quantity, cells: RunCells) -> Row:
        """What the numbers and their shades are."""
        label = (f" {quantity.title} ", "strong")
        if not cells.known(quantity):
            return [label, ("was measured on no run here", "warn")]
        if quantity is NORMS:
            return [(" ", ""), *norm_legend(cells.bars, self._glyphs)]
        fires = ""
        if quantity.letter:
            fires = f"   ({quantity.letter}) fires"
        span = self._span(quantity, cells.scale_of(quantity))
        unmeasured = ("   · not measured", "dim")
        return [label, *span, (fires, "bad"), unmeasured]

    def _span(self, quantity: Quantity, scale: Scale | None) -> Row:
        """The shades between the lowest and the highest number."""
        if scale is None:
            return [("(no two runs differ)", "dim")]
        swatches = [("..", "dim")]
        if self._matrix.style_of("shade-0"):
            swatches = [(" ", f"shade-{number}") for number in range(SHADES)]
        write = self._matrix.cells.format_of(quantity)
        low = written(scale.lo, write)
        high = written(scale.hi, write)
        log = " log" if scale.log else ""
        return [(f"{low} ", ""), *swatches, (f" {high}", ""), (log, "dim")]


class Choices(PaintedWidget):
    """One line of options, chosen by clicks."""

    def options(self, width: int) -> Sequence[Row]:
        """The styled options."""
        raise NotImplementedError

    def choose(self, place: int) -> None:
        """React to a click on an option."""
        raise NotImplementedError

    def draw(self, width: int, height: int) -> Sequence[Row]:
        return [list(chain.from_iterable(self.options(width)))]

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        end = 0
        for place, option in enumerate(self.options(self.size.width)):
            end += row_width(option)
            if offset.x < end:
                self.choose(place)
                return


class TabLine(Choices):
    """Names of tabs with their number keys; a click calls the screen's ``open``, as the keys do.

    Args:
        names: of the tabs.
    """

    def __init__(self, names: Sequence[str], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._names = list(names)
        self._open = 0

    def open(self, place: int) -> None:
        """Highlight the open tab."""
        self._open = place
        self.repaint()

    def get_content_width(self, container: Size, viewport: Size) -> int:
        return sum(map(row_width, self.options(0)))

    def options(self, width: int) -> Sequence[Row]:
        tabs: list[Row] = []
        for place, name in enumerate(self._names):
            tone = "entry" if place == self._open else "dim"
            tabs.append([(f" {place + 1} ", "accent"), (name, tone), ("  ", "")])
        return tabs

    def choose(self, place: int) -> None:
        self.call_later(self.run_action, f"screen.open({place})")


class Tab(NamedTuple):
    """A screen of the tab bar, and the key that opens it."""

    name: str
    key: str
    shown: str


OPEN_TAB = "cursor-blurred"
"""The tone of the open screen's name."""
TABS = (
    Tab("Matrix", "escape", "esc"),
    Tab("Table", "t", "t"),
    Tab("Compare", "C", "C"),
    Tab("Timeline", "T", "T"),
    Tab("Analysis", "A", "A"),
    Tab("Jobs", "J", "J"),
)


class TabBar(Choices):
    """The screens with their keys, the open one marked; a click presses the key.

    Args:
        name: of the open screen.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self._open = name

    def open(self, name: str) -> None:
        """Mark another screen."""
        self._open = name
        self.repaint()

    def options(self, width: int) -> Sequence[Row]:
        for gap in ("  ", " "):
            tabs = [self._option(tab, f" {tab.shown} ", gap) for tab in TABS]
            if sum(map(row_width, tabs)) <= width:
                return tabs
        return [self._option(tab, " ") for tab in TABS]

    def _option(self, tab: Tab, key: str, gap: str = "") -> Row:
        tone = "dim"
        if tab.name == self._open:
            tone = OPEN_TAB
        return [(key, "accent"), (tab.name, tone), (gap[1:], "")]

    def choose(self, place: int) -> None:
        self.app.simulate_key(TABS[place].key)


_PALETTE = "command_palette"
"""It offers what every key does, also by mouse."""


def offered(
    screen: Screen[object], wanted: Callable[[Binding], object]
) -> Iterator[tuple[ActiveBinding, str]]:
    """The active bindings, the first of each action, with their keys as text.

    Args:
        screen: of the bindings.
        wanted: selects bindings.
    """
    seen = set()
    for active in screen.active_bindings.values():
        binding = active.binding
        if active.enabled and wanted(binding) and binding.action not in seen:
            seen.add(binding.action)
            yield active, binding.key_display or screen.app.get_key_display(binding)


def _is_hinted(binding: Binding) -> bool:
    return binding.show and bool(binding.description)


def _is_palette(binding: Binding) -> bool:
    return binding.action == _PALETTE


class Hint(msgspec.Struct, frozen=True):
    """A key, its text and its description."""

    key: str
    shown: str
    does: str

    @property
    def width(self) -> int:
        return len(self.shown) + len(self.does) + 3


class KeyBar(Choices):
    """One line of hints for the screen's active bindings; a click presses the key.

    Textual's Footer mounts a widget per key and lays them out at every change of focus; this paints
    one line.
    """

    _hints: Sequence[Hint] = ()
    _more: Hint | None = None

    @property
    def left_out(self) -> set[str]:
        """Keys of the hints that do not fit."""
        shown = self._fitting(self.size.width)
        return {hint.key for hint in self._hints if hint not in shown}

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._read)
        self._read(self.screen)

    def _read(self, screen: Screen[object]) -> None:
        hints = list[Hint]()
        self._more = None
        for active, key in offered(screen, _is_hinted):
            binding = active.binding
            hints.append(Hint(binding.key, self._glyphs.say(key), binding.description))
        self._hints = hints
        for active, _ in offered(screen, _is_palette):
            self._more = Hint(active.binding.key, "^p", "More")
        self.repaint()

    def options(self, width: int) -> Sequence[Row]:
        return [
            [(f" {hint.shown}", "accent"), (f" {hint.does} ", "dim")]
            for hint in self._fitting(width)
        ]

    def choose(self, place: int) -> None:
        self.app.simulate_key(self._fitting(self.size.width)[place].key)

    def _fitting(self, width: int) -> list[Hint]:
        return fitting(self._hints, width, self._more)


def fitting(hints: Iterable[Hint], width: int, more: Hint | None = None) -> list[Hint]:
    """The whole hints that fit a width; the last ones (help, quit) have precedence.

    Args:
        hints: all hints.
        width: cells.
        more: a hint for those left out, if there are some.

    >>> bar = [Hint("m", "m", "measure"), Hint("t", "t", "table"), Hint("?", "?", "help"),
    ...     Hint("q", "q", "quit")]
    >>> [hint.key for hint in fitting(bar, 27)]
    ['m', '?', 'q']
    >>> [hint.key for hint in fitting(bar, 27, Hint("ctrl+p", "^p", "more"))]
    ['ctrl+p', '?', 'q']
    """
    hints = list(hints)
    if sum(hint.width for hint in hints) <= width:
        return hints
    last = hints[-2:]
    if more is not None:
        last = [more, *last]
    room = width - sum(hint.width for hint in last)
    first = []
    for hint in hints[:-2]:
        room -= hint.width
        if room < 0:
            break
        first.append(hint)
    return first + last
