"""Widgets that draw rows of styled text.

Each piece of a row has a tone of `TONES` (``""``: the widget's own style), which the theme defines.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBarRender
from textual.strip import Strip
from textual.style import Style as VisualStyle
from textual.widget import Widget

from fa_tui.terminal.themes import TONES
from fa_tui.views.glyphs import UNICODE, Glyphs
from fa_tui.views.text import cut, cut_paths, width_of

Piece = tuple[str, str]
"""A text and its tone."""

Row = list[Piece]
"""The pieces of one line."""


_OVERLAYS = {"flipped": Style(reverse=True), "bold": Style(bold=True)}
"""Tones that overlay others without changing colours."""


def row_text(row: Iterable[Piece]) -> str:
    """The text of a row."""
    return "".join([text for text, _ in row])


def row_width(row: Iterable[Piece]) -> int:
    """The cells that a row takes."""
    return width_of(row_text(row))


def ending(row: Row, width: int, mark: str) -> Row:
    """The row, cut to `width` cells: the paths in it at their starts, then it with a dim mark
    at its end.

    >>> ending([("seven", ""), (" words", "dim")], 9, "...")
    [('seven', ''), (' ', 'dim'), ('...', 'dim')]
    """
    over = row_width(row) - width
    if over <= 0:
        return row
    kept: Row = []
    for text, tone in row:
        kept.append((cut_paths(text, width_of(text) - over, mark), tone))
        over -= width_of(text) - width_of(kept[-1][0])
    if over <= 0:
        return kept
    row, kept = kept, []
    room = width - width_of(mark)
    for text, tone in row:
        if room > 0:
            kept.append((cut(text, room), tone))
        room -= width_of(text)
    return [*kept, (mark, "dim")]


def joined(cells: Iterable[Piece]) -> Row:
    """Neighbours of one tone as one piece.

    >>> joined([("a", "x"), ("b", "x"), ("c", "y")])
    [('ab', 'x'), ('c', 'y')]
    """
    pieces = groupby(cells, key=itemgetter(1))
    return [(row_text(piece), tone) for tone, piece in pieces]


# a mixin: Textual takes the stylesheet of the first base that is a widget
if TYPE_CHECKING:
    _Mixin = Widget
else:
    _Mixin = object


class Toned(_Mixin):
    """Mixin for widgets of rows; caches the styles of tones until the theme changes."""

    ALLOW_SELECT = False

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._glyphs: Glyphs = UNICODE
        # without an app, or without a terminal
        with suppress(RuntimeError, AttributeError):
            self._glyphs = self.app.terminal.glyphs  # type: ignore[attr-defined]
        self._styles: dict[str, Style] = {}

    def style_of(self, tone: str) -> Style:
        """The style of a tone on the widget's background; ``+`` overlays further tones."""
        style = self._styles.get(tone)
        if style is None:
            first, _, others = tone.partition("+")
            if others:
                style = self.style_of(first) + self.style_of(others)
            elif tone in _OVERLAYS:
                style = _OVERLAYS[tone]
            elif tone:
                named = TONES[tone].format_map(self.app.theme_variables).removesuffix(" none")
                ground = VisualStyle(self.background_colors[1])
                style = (ground + VisualStyle.parse(named)).rich_style
            else:
                style = self.rich_style
            self._styles[tone] = style
        return style

    def notify_style_update(self) -> None:
        self._styles.clear()
        super().notify_style_update()

    def strip_of(self, row: Row, width: int) -> Strip:
        """The styled row, cut or filled to a width."""
        strip = Strip([Segment(text, self.style_of(tone)) for text, tone in row])
        return strip.adjust_cell_length(width, self.style_of(""))


class PaintedWidget(Toned, Widget):
    """A widget of a few lines, drawn by `draw`."""

    _rows: Sequence[Row] = ()
    _drawn_for: Size | None = None

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """The lines to show: at most `height`."""
        raise NotImplementedError

    def repaint(self) -> None:
        """Draw again, and show it if it differs from the last drawing."""
        before = self._rows
        if self._drawn_for == self.size:
            self._draw()
        else:
            # a hidden widget may reappear in the size of its last drawing
            self._drawn_for = None
        if self._drawn_for is None or self._rows != before:
            self.refresh()

    def watch_has_focus(self, has_focus: bool) -> None:
        # on_focus and on_blur come before the focus changes
        super().watch_has_focus(has_focus)
        self.repaint()

    def render_line(self, y: int) -> Strip:
        if self._drawn_for != self.size:
            self._draw()
        row = self._rows[y] if y < len(self._rows) else []
        return self.strip_of(row, self.size.width)

    def _draw(self) -> None:
        self._drawn_for, self._rows = self.size, self.draw(*self.size)


MOVES = (
    *("up,k", "down,j", "pageup,ctrl+b", "pagedown,ctrl+f"),
    *("ctrl+u", "ctrl+d", "home,g", "end,G"),
)
"""The keys that move in every list and text: by a line, a page, half a page, to the ends."""


hidden = partial(Binding, show=False)
"""A binding without room in the key bar: the help and the command palette show it."""


def moving(*actions: str) -> list[BindingType]:
    """Bindings of `MOVES`."""
    pairs = zip(MOVES, actions, strict=True)
    return [hidden(keys, action) for keys, action in pairs]


SCROLLS = (
    *("scroll_up", "scroll_down", "page_up", "page_down"),
    *("half_page(-1)", "half_page(1)", "scroll_home", "scroll_end"),
)
SCROLL_KEYS = moving(*SCROLLS)
"""For a `PaintedScroll` that takes the focus and has no cursor."""


class PaintedScroll(Toned, ScrollView):
    """Lines drawn by `draw`, as many as there are; scrolls vertically."""

    _rows: Sequence[Row] | None = None

    def draw(self, width: int) -> Sequence[Row]:
        """All lines."""
        raise NotImplementedError

    def action_half_page(self, direction: int) -> None:
        """Scroll by half a screenful."""
        self.scroll_relative(y=direction * (self.size.height // 2), animate=False)

    def repaint(self) -> None:
        """Draw again and show the lines that differ from the last drawing."""
        if self._rows is None or not self._width:
            # hidden: a size for lines that are not seen would lay out the whole screen again
            self._rows = None
            self.refresh()
            return
        before = self._rows
        self._rows = self.draw(self._width)
        if len(before) != len(self._rows):
            self.virtual_size = Size(self._width, len(self._rows))
            self.refresh()
            return
        first = self.scroll_offset.y
        seen = slice(first, first + self.scrollable_content_region.height)
        pairs = enumerate(zip(before[seen], self._rows[seen], strict=True))
        regions = [Region(0, y, self.size.width, 1) for y, (old, new) in pairs if old != new]
        if regions:
            self.refresh(*regions)

    def render_line(self, y: int) -> Strip:
        if self._rows is None:
            self._rows = self.draw(self._width)
        line = y + self.scroll_offset.y
        if line >= len(self._rows):
            return Strip.blank(self.size.width, self.rich_style)
        return self.strip_of(self._rows[line], self._width)

    def on_resize(self) -> None:
        self._rows = self.draw(self._width)
        self.virtual_size = Size(self._width, len(self._rows))

    @property
    def _width(self) -> int:
        return self.scrollable_content_region.width


class PlainScrollBar(ScrollBarRender):
    """A scrollbar of whole blanks, for terminals without block characters."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * len(ScrollBarRender.VERTICAL_BARS)
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "] * len(ScrollBarRender.HORIZONTAL_BARS)
