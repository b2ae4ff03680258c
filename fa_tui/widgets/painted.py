"""Widgets that draw themselves cell by cell and send to the terminal only the cells that changed.

A widget returns rows of styled text from `draw`; `repaint` compares them with what is on screen and
refreshes the spans that differ. One slider step then costs some hundred bytes instead of whole lines.

Widgets with nothing in them: a place for others.

A scrollbar for terminals without block characters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from rich.cells import get_character_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.containers import Vertical
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.scrollbar import ScrollBarRender
from textual.strip import Strip
from textual.widget import Widget

from fa_tui.views.text import cut, width_of

Row = list[tuple[str, str]]
"""One line: pieces of text, each with the name of the component class that styles it."""

_JOIN = 8
"""Unchanged cells repainted rather than skipped: a cursor move and a new colour cost more bytes."""


def clip(row: Row, width: int, fill: str) -> Row:
    """The row cut or filled up with blanks (styled `fill`) to exactly `width` cells."""
    clipped: Row = []
    room = width
    for text, style in row:
        seen = cut(text, room)
        if seen:
            clipped.append((seen, style))
        room -= width_of(seen)
        if not room:
            return clipped
        if len(seen) < len(text):
            # there was room for half of a wide character
            break
    clipped.append((" " * room, fill))
    return clipped


def ending(row: Row, width: int, mark: str, style: str) -> Row:
    """The row; one that is wider than `width` cells ends in a mark.

    >>> ending([("seven", ""), (" words", "dim")], 9, "...", "dim")
    [('seven', ''), (' ', 'dim'), ('...', 'dim')]
    """
    if sum(width_of(text) for text, _ in row) <= width:
        return row
    return [*clip(row, max(0, width - width_of(mark)), ""), (mark, style)]


def changed_spans(before: Row, after: Row, join: int = _JOIN) -> Iterator[tuple[int, int]]:
    """The column ranges [start, end) in which two rows differ; ranges closer than `join` are one.

    >>> list(changed_spans([("abcdef", "x")], [("abXdef", "x")]))
    [(2, 3)]
    """
    if before == after:
        return
    old, new = _cells(before), _cells(after)
    start = end = -1
    for column in range(max(len(old), len(new))):
        if column < len(old) and column < len(new) and old[column] == new[column]:
            continue
        if start >= 0 and column - end > join:
            yield start, end
            start = column
        elif start < 0:
            start = column
        end = column + 1
    if start >= 0:
        yield start, end


def _cells(row: Row) -> list[tuple[str, str]]:
    cells: list[tuple[str, str]] = []
    for text, style in row:
        for character in text:
            size = get_character_cell_size(character)
            if size or not cells:
                cells.append((character, style))
                cells.extend([("", style)] * (size - 1))
            else:
                # an accent stands on the letter before it
                cells[-1] = (cells[-1][0] + character, style)
    return cells


class _Palette:
    """The styles of a widget's component classes, kept until its style changes."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self._styles: dict[str, Style] = {}

    def __getitem__(self, name: str) -> Style:
        style = self._styles.get(name)
        if style is None:
            style = self._widget.get_component_rich_style(name) if name else self._widget.rich_style
            self._styles[name] = style
        return style

    def strip(self, row: Row) -> Strip:
        return Strip([Segment(text, self[name]) for text, name in row])

    def clear(self) -> None:
        self._styles.clear()


class PaintedWidget(Widget):
    """A widget of a few lines, drawn by `draw`."""

    ALLOW_SELECT = False

    def __init__(self, *, name: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self._palette = _Palette(self)
        self._rows: list[Row] | None = None
        self._drawn_for = Size(0, 0)

    def draw(self, width: int, height: int) -> Sequence[Row]:
        """The lines to show: at most `height`, each piece naming a component class (``""`` = the widget itself)."""
        raise NotImplementedError

    def repaint(self) -> None:
        """Draw again and refresh what differs from the last drawing."""
        if self._rows is None or self._drawn_for != self.size:
            # hidden, the widget may come back in the size it was last drawn for
            self._rows = None
            self.refresh()
            return
        before, after = self._rows, self._drawn()
        self._rows = after
        regions = [
            Region(start, y, end - start, 1)
            for y, (old, new) in enumerate(zip(before, after, strict=True))
            for start, end in changed_spans(old, new)
        ]
        if regions:
            self.refresh(*regions)

    def render_line(self, y: int) -> Strip:
        if self._rows is None or self._drawn_for != self.size:
            self._rows = self._drawn()
        if y >= len(self._rows):
            return Strip.blank(self.size.width, self.rich_style)
        return self._palette.strip(self._rows[y])

    def notify_style_update(self) -> None:
        self._palette.clear()
        super().notify_style_update()

    def _drawn(self) -> list[Row]:
        self._drawn_for = self.size
        width, height = self.size
        rows = [clip(row, width, "") for row in self.draw(width, height)[:height]]
        return rows + [[(" " * width, "")]] * (height - len(rows))


class PaintedScroll(ScrollView):
    """Lines drawn by `draw`, as many as there are; scrolls vertically."""

    ALLOW_SELECT = False

    def __init__(self, *, name: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self._palette = _Palette(self)
        self._rows: list[Row] | None = None

    def draw(self, width: int) -> Sequence[Row]:
        """All lines, each piece naming a component class (``""`` = the widget itself)."""
        raise NotImplementedError

    def cut_row(self, hidden: int) -> Row:
        """What stands in the last line on screen while so many lines are below it; nothing: the line itself."""
        return []

    def repaint(self) -> None:
        """Draw again and refresh what differs from the last drawing in the lines on screen."""
        if not self._width:
            # hidden; a size for the lines nobody sees would have the whole screen laid out anew
            self._rows = None
            return
        if self._rows is None:
            self.refresh()
            return
        before, after = self._rows, self._drawn()
        self._rows = after
        if len(before) != len(after):
            self.virtual_size = Size(self._width, len(after))
        first = self.scroll_offset.y
        blank: Row = [(" " * self._width, "")]
        regions: list[Region] = []
        for y in range(self.scrollable_content_region.height):
            line = first + y
            old = before[line] if line < len(before) else blank
            new = after[line] if line < len(after) else blank
            regions.extend(Region(start, y, end - start, 1) for start, end in changed_spans(old, new))
        if len(before) != len(after) and self.cut_row(1):
            regions.append(Region(0, self.scrollable_content_region.height - 1, self._width, 1))
        if regions:
            self.refresh(*regions)

    def render_line(self, y: int) -> Strip:
        if self._rows is None:
            self._rows = self._drawn()
        line = y + self.scroll_offset.y
        if line >= len(self._rows):
            return Strip.blank(self.size.width, self.rich_style)
        if y == self.scrollable_content_region.height - 1 and line < len(self._rows) - 1:
            sign = self.cut_row(len(self._rows) - line)
            if sign:
                return self._palette.strip(clip(sign, self._width, ""))
        return self._palette.strip(self._rows[line])

    def notify_style_update(self) -> None:
        self._palette.clear()
        super().notify_style_update()

    def on_resize(self) -> None:
        self._rows = self._drawn()
        self.virtual_size = Size(self._width, len(self._rows))

    @property
    def _width(self) -> int:
        return self.scrollable_content_region.width

    def _drawn(self) -> list[Row]:
        return [clip(row, self._width, "") for row in self.draw(self._width)]


class Uniform:
    """Made before a class of widgets, has one line of it made for all: they are alike, and mostly covered."""

    def render_lines(self, crop: Region) -> list[Strip]:
        """The lines of a region."""
        first = Region(crop.x, crop.y, crop.width, min(1, crop.height))
        lines: list[Strip] = super().render_lines(first)  # type: ignore[misc]  # the widget's
        return lines * crop.height


class Place(Uniform, Vertical):
    """A container without content, title, or border above or below."""


class PlainScrollBar(ScrollBarRender):
    """A scrollbar of whole blanks, for terminals without block characters."""

    VERTICAL_BARS: ClassVar[list[str]] = [" "] * len(ScrollBarRender.VERTICAL_BARS)
    HORIZONTAL_BARS: ClassVar[list[str]] = [" "] * len(ScrollBarRender.HORIZONTAL_BARS)
