"""Lines of text, key hints and tabs; scrolling text; the status line."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from itertools import chain
from typing import TYPE_CHECKING

import msgspec
from textual import events
from textual.binding import ActiveBinding, Binding
from textual.geometry import Size
from textual.screen import Screen
from textual.scroll_view import ScrollView

from fa_core.sanitize import sanitize
from fa_tui.later import Later
from fa_tui.views.text import cut_middle, width_of, wrapped
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
from fa_tui.widgets.table import LineTable

if TYPE_CHECKING:
    from fa_tui.app import ExplorerApp


def _filled(pieces: Iterable[Piece]) -> Row:
    return [piece for piece in pieces if piece[0]]


class Line(PaintedWidget):
    """One line of pieces, each with a tone, cut with an ellipsis: what alone is too wide in its
    middle.

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
        return sanitize(row_text(self._pieces))

    def set(self, *pieces: Piece) -> None:
        """Show other pieces (text, tone)."""
        filled = _filled(pieces)
        if filled != self._pieces:
            self._pieces = filled
            self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        say, mark = self._glyphs.say, self._glyphs.ellipsis
        pieces = [(cut_middle(say(text), width, mark), tone) for text, tone in self._pieces]
        return [ending(pieces, width, mark)]


class Title(Line):
    """A line of names: the longest pieces are cut in their middle, as paths and filters differ at
    their ends."""

    def draw(self, width: int, height: int) -> Sequence[Row]:
        row = [(self._glyphs.say(text), tone) for text, tone in self._pieces]
        most = width
        while most > 1 and sum(min(most, width_of(text)) for text, _ in row) > width:
            most -= 1
        return [[(cut_middle(text, most, self._glyphs.ellipsis), tone) for text, tone in row]]


_wrapped = lru_cache(maxsize=4096)(wrapped)
"""Cached, as most lines stay when some change."""


class TextLines(PaintedScroll, can_focus=True):
    """Lines of text, wrapped to the width. A line that starts with ``# `` is a heading.

    Args:
        lines: the text.
        id: of the widget.
    """

    BINDINGS = SCROLL_KEYS

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

    def draw(self, width: int) -> Sequence[Row]:
        rows: list[Row] = []
        for line in self._lines:
            tone = "accent" if line.startswith("# ") else ""
            text = self._glyphs.say(line.removeprefix("# ").expandtabs())
            rows += [[(part, tone)] for part in _wrapped(text, width)]
        return rows


MESSAGE_SECONDS = 12.0
"""How long a message stays."""


class StatusLine(Line):
    """A `Line` for messages; without one it explains the page.

    A message goes away by itself after `MESSAGE_SECONDS`.

    Args:
        id: of the widget.

    Attributes:
        message: the shown one; ``""`` if there is none.
    """

    app: ExplorerApp

    def __init__(self) -> None:
        super().__init__(id="status")
        self.message = self._tone = ""
        self._expires = Later(self, partial(self.say, ""), MESSAGE_SECONDS)
        self._progress: Sequence[Piece] = ()
        self._legend: Sequence[Piece] = ()

    def say(self, text: str, tone: str = "") -> None:
        """Show a message; an empty one restores the explanation."""
        self.message = text
        self._tone = tone
        self._expires.cancel()
        if text:
            self._expires()
        self._show()

    def show_progress(self, pieces: Sequence[Piece]) -> None:
        """Show the progress of jobs, if there are any, behind a message, else in front."""
        self._progress = [(" ", ""), *pieces, ("  ", "")] if pieces else ()
        self._show()

    def explain(self, legend: Sequence[Piece]) -> None:
        """Show what explains the page, unless there is a message."""
        self._legend = legend
        self._show()

    def _show(self) -> None:
        """Show the message, then the progress; without one that, then the explanation."""
        if self.message:
            gap = " " * bool(self._progress)
            self.set((f" {self.message}{gap}", self._tone), *self._progress)
        else:
            self.set(*self._progress, *self._legend)


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


OPEN_TAB = "cursor-blurred"
"""The tone of the open tab's name."""


class TabBar(Choices):
    """Names with their keys, the open one marked.

    Args:
        tabs: name → key as text.
        name: of the open one.
        chosen: called with the name of one that is clicked.
    """

    def __init__(self, tabs: Mapping[str, str], name: str, chosen: Callable[[str], object]) -> None:
        super().__init__()
        self._chosen = chosen
        self._tabs = tabs
        self._open = name

    def open(self, name: str) -> None:
        """Mark another one."""
        self._open = name
        self.repaint()

    def get_content_width(self, container: Size, viewport: Size) -> int:
        return sum(map(row_width, self.options(container.width)))

    def options(self, width: int) -> Sequence[Row]:
        for gap, keys in (("  ", 1), (" ", 1), ("", 1), ("", 0)):
            tabs = [self._option(name, key * keys, gap) for name, key in self._tabs.items()]
            if sum(map(row_width, tabs)) <= width:
                break
        return tabs

    def _option(self, name: str, key: str, gap: str) -> Row:
        """A tab; without a gap a letter that begins the name is its key."""
        tone = "dim"
        if name == self._open:
            tone = OPEN_TAB
        if not gap and name.startswith(key):
            return [(" ", ""), (key, "accent"), (self._glyphs.say(name[len(key) :]), tone)]
        return [(f" {key} ", "accent"), (self._glyphs.say(name), tone), (gap[1:], "")]

    def choose(self, place: int) -> None:
        self.screen.call_later(self._chosen, [*self._tabs][place])


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


class Hint(msgspec.Struct, frozen=True):
    """A key, its text and its description."""

    key: str
    shown: str
    does: str

    @property
    def width(self) -> int:
        return len(self.shown) + len(self.does) + 3


def scrolled(screen: Screen[object]) -> ScrollView | None:
    """The list that the keys scroll: the one with the focus; of a dialog its only one."""
    # a text field scrolls, too
    lists = [each for each in screen.query(ScrollView) if each.size.height > 1]
    return next((each for each in lists if each.has_focus or screen.is_modal), None)


def position(view: ScrollView) -> str:
    """The lines on screen of a list that does not fit: ``1–8 of 39``."""
    header = view.header if isinstance(view, LineTable) else 0
    seen = view.scrollable_content_region.height - header
    lines, first = view.virtual_size.height - header, view.scroll_offset.y
    if not 0 < seen < lines:
        return ""
    return f"{first + 1}–{min(lines, first + seen)} of {lines}"


class KeyBar(Choices):
    """One line of hints for the screen's active bindings, and where it is scrolled to; a click
    presses the key.

    Textual's Footer mounts a widget per key and lays them out at every change of focus; this paints
    one line.
    """

    _hints: Sequence[Hint] = ()
    _more: Sequence[Hint] = ()
    _place = ""

    @property
    def left_out(self) -> set[str]:
        """Keys of the hints that do not fit."""
        shown = self._fitting(self.size.width)
        return {hint.shown for hint in self._hints if hint not in shown}

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self._read)
        self.screen.screen_layout_refresh_signal.subscribe(self, self._locate, immediate=True)
        self._read(self.screen)

    def _read(self, screen: Screen[object]) -> None:
        hints = list[Hint]()
        for active, key in offered(screen, lambda binding: binding.show and binding.description):
            binding = active.binding
            hints.append(Hint(binding.key, self._glyphs.say(key), binding.description))
        self._hints = hints
        # the command palette offers what every key does, also by mouse
        self._more = [] if screen.is_modal else [Hint("ctrl+p", "^p", "More")]
        view = scrolled(screen)
        if view is not None:
            self.watch(view, "scroll_y", self._locate, init=False)
            self.watch(view, "virtual_size", self._locate, init=False)
        self._locate()
        self.repaint()

    def _locate(self, *_: object) -> None:
        """Show where the screen is scrolled to."""
        view = scrolled(self.screen)
        place = self._glyphs.say(position(view)) if view is not None else ""
        if place != self._place:
            self._place = place
            self.repaint()

    def options(self, width: int) -> Sequence[Row]:
        return [
            [(f" {hint.shown}", "accent"), (f" {hint.does} ", "dim")]
            for hint in self._fitting(width)
        ]

    def draw(self, width: int, height: int) -> Sequence[Row]:
        [row] = super().draw(width, height)
        return [[*row, (self._place.rjust(width - row_width(row)), "dim")]]

    def choose(self, place: int) -> None:
        self.app.simulate_key(self._fitting(self.size.width)[place].key)

    def _fitting(self, width: int) -> Sequence[Hint]:
        return fitting(self._hints, width - len(self._place), self._more)


def fitting(hints: Sequence[Hint], width: int, more: Sequence[Hint] = ()) -> Sequence[Hint]:
    """The whole hints that fit a width; the last ones (help, quit) have precedence.

    Args:
        hints: all hints.
        width: cells.
        more: hints for those left out, if there are some.

    >>> bar = [Hint("m", "m", "measure"), Hint("t", "t", "table"), Hint("?", "?", "help"),
    ...     Hint("q", "q", "quit")]
    >>> [hint.key for hint in fitting(bar, 27)]
    ['m', '?', 'q']
    >>> [hint.key for hint in fitting(bar, 27, [Hint("ctrl+p", "^p", "more")])]
    ['ctrl+p', '?', 'q']
    """
    if sum(hint.width for hint in hints) <= width:
        return hints
    last = [*more, *hints[-2:]]
    room = width - sum(hint.width for hint in last)
    first = []
    for hint in hints[:-2]:
        room -= hint.width
        if room < 0:
            break
        first.append(hint)
    return first + last
