"""Lines × columns of which only what is on screen is painted, and only what changed is painted again.

Built on Textual's line API: a cell is formatted when its line is painted, so ten thousand rows
cost what forty do; `refresh_cells` repaints single cells (70 bytes to the terminal, not 8 KB).
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable
from itertools import accumulate
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.geometry import Region, Size
from textual.scroll_view import ScrollView
from textual.strip import Strip

from fa_tui.widgets.glyphs import UNICODE, Glyphs


class LineView(ScrollView):
    """Lines × columns under a header line, with a frozen part on the left.

    A subclass tells the shape (`line_count`, `set_widths`) and gives segments of exactly the right
    width (`frozen`, `cell`).
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        "table--header",
        "table--text",
        "table--dim",
        "table--good",
        "table--bad",
        "table--warn",
        "table--heading",
        "table--heat",
    }

    DEFAULT_CSS = """
    LineView {
        scrollbar-size-vertical: 1;
        scrollbar-size-horizontal: 1;
        scrollbar-gutter: auto;

        & .table--header { color: $text-muted; text-style: bold; }
        & .table--text { color: $foreground; }
        & .table--dim { color: $text-muted; }
        & .table--good { color: $success; }
        & .table--bad { color: $error; text-style: bold; }
        & .table--warn { color: $warning; text-style: bold; }
        & .table--heading { color: $secondary; text-style: italic; }
        & .table--heat { color: $primary; }
    }
    """

    _glyphs: Glyphs = UNICODE

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.frozen_width = 0
        self._edges = array("q", [0])
        self._palette: dict[str, Style] = {}

    def line_count(self) -> int:
        """How many lines there are below the header."""
        raise NotImplementedError

    def frozen(self, line: int | None) -> list[Segment]:
        """The left part of a line (of the header for None), `frozen_width` wide."""
        raise NotImplementedError

    def cell(self, line: int | None, column: int) -> list[Segment]:
        """One cell (of the header for None), as wide as its column."""
        raise NotImplementedError

    def heading(self, line: int) -> list[Segment] | None:
        """A line that is one text across all columns, on which the cursor never rests; else None."""
        return None

    def empty_words(self) -> str:
        """What is said where there are no lines."""
        return ""

    @property
    def view(self) -> Size:
        """The cells that lines are painted on: the widget without its scrollbars."""
        width, height = self.size
        return Size(max(0, width - self.scrollbar_size_vertical), max(0, height - self.scrollbar_size_horizontal))

    @property
    def column_count(self) -> int:
        return len(self._edges) - 1

    def width_of(self, column: int) -> int:
        """How wide a column is, its gap included."""
        return self._edges[column + 1] - self._edges[column]

    def set_widths(self, frozen_width: int, widths: Iterable[int]) -> None:
        """Set the widths of the frozen part and of each column, and lay out anew."""
        self.frozen_width = frozen_width
        self._edges = array("q", accumulate(widths, initial=0))
        self.virtual_size = Size(frozen_width + self._edges[-1], 1 + self.line_count())
        self.refresh()

    def style_of(self, name: str) -> Style:
        """The style of a component class, e.g. ``"bad"``, or of the widget for ``""``; kept until the theme changes."""
        style = self._palette.get(name)
        if style is None:
            style = self.get_component_rich_style(f"table--{name}") if name else self.rich_style
            self._palette[name] = style
        return style

    def notify_style_update(self) -> None:
        self._palette.clear()
        super().notify_style_update()

    def render_line(self, y: int) -> Strip:
        width, scroll_y = self.view.width, self.scroll_offset.y
        line = None if y == 0 else scroll_y + y - 1
        if line is not None and line >= self.line_count():
            words = [] if self.line_count() else self._empty_lines(width)
            text = words[y - 2] if 0 <= y - 2 < len(words) else ""
            return Strip([Segment(text, self.style_of("dim"))]).crop_extend(0, width, self.style_of(""))
        whole = None if line is None else self.heading(line)
        if whole is not None:
            strip = Strip(whole)
            if strip.cell_length > width:
                return Strip([*strip.crop(0, width - 1), self._sign(line, self._glyphs.off_right)])
            return strip.crop_extend(0, width, self.style_of(""))
        moving = self._moving(line, width - self.frozen_width)
        return Strip([*self.frozen(line), *moving]).crop_extend(0, width, self.style_of(""))

    def _empty_lines(self, width: int) -> list[str]:
        from fa_tui.views.wrapping import wrapped

        return [f" {line}" for line in wrapped(self._glyphs.say(self.empty_words()), width - 1)]

    def _moving(self, line: int | None, room: int) -> Strip:
        """The columns in `room` cells. Where text is cut there is a sign; the header says that there is more."""
        first, last = self._visible_columns()
        if first >= last or room <= 0:
            return Strip([])
        cells = [self.cell(line, column) for column in range(first, last)]
        start = self.scroll_offset.x - self._edges[first]
        end = start + room
        strip = Strip([segment for cell in cells for segment in cell])
        before = bool("".join(segment.text for segment in cells[0])[:start].strip())
        after = bool(strip.text[end:].strip())
        if line is None:
            before, after = before or first > 0, after or self._edges[-1] - self.scroll_offset.x > room
        visible = strip.crop(start, end)
        if before:
            visible = Strip([self._sign(line, self._glyphs.off_left), *visible.crop(1, room)])
        if after:
            visible = Strip([*visible.crop_extend(0, room - 1, None), self._sign(line, self._glyphs.off_right)])
        return visible

    def _sign(self, line: int | None, sign: str) -> Segment:
        return Segment(sign, self.style_of("header" if line is None else "dim"))

    def refresh_cells(self, places: Iterable[tuple[int, int]]) -> None:
        """Repaint the cells (line, column) that are on screen."""
        scroll_x, scroll_y = self.scroll_offset
        height = self.view.height
        regions = [
            Region(self.frozen_width + self._edges[column] - scroll_x, line + 1 - scroll_y, self.width_of(column), 1)
            for line, column in places
            if 0 <= line - scroll_y < height - 1 and column < self.column_count
        ]
        if regions:
            self.refresh(*regions)

    def refresh_frozen(self, lines: Iterable[int]) -> None:
        """Repaint the frozen part of the lines that are on screen."""
        top, height = self.scroll_offset.y, self.view.height
        regions = [Region(0, line + 1 - top, self.frozen_width, 1) for line in lines if 0 <= line - top < height - 1]
        if regions:
            self.refresh(*regions)

    def visible_lines(self) -> range:
        """The lines on screen."""
        top = self.scroll_offset.y
        return range(top, min(self.line_count(), top + max(0, self.view.height - 1)))

    def _visible_columns(self) -> tuple[int, int]:
        left = self.scroll_offset.x
        right = left + self.view.width - self.frozen_width
        first = max(0, bisect_right(self._edges, left) - 1)
        return min(first, self.column_count), min(self.column_count, bisect_right(self._edges, right))

    def place_at(self, x: int, y: int) -> tuple[int | None, int | None]:
        """The (line, column) under a point of the viewport; None for the header or the frozen part."""
        line = None if y == 0 else self.scroll_offset.y + y - 1
        offset = x - self.frozen_width + self.scroll_offset.x
        column = None
        if x >= self.frozen_width and self.column_count and 0 <= offset < self._edges[-1]:
            column = bisect_right(self._edges, offset) - 1
        return line, column
