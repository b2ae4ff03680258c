"""Tables of lines × columns with a cursor, of which only the lines on screen are formatted.

Built on Textual's line API: ten thousand rows cost what forty do, and a changed cell is repainted
alone.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain

from rich.segment import Segment
from textual import events
from textual.binding import Binding
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from fa_core.reporting.blocks import Grid
from fa_tui.views.text import cut_middle, padded, padded_left, width_of, wrapped
from fa_tui.widgets.painted import Row, Toned, row_text, row_width


class LineTable(Toned, ScrollView, can_focus=True):
    """Lines × columns under a header line, with a frozen part on the left and a cursor on a cell.

    A subclass gives the shape (`line_count`, `set_widths`) and pieces of text that are no wider
    than their place (`frozen`, `cell`); which lines the cursor may rest on is `rests_on`.
    """

    BINDINGS = [
        Binding("up,k", "cursor(-1, 0)", "Up", show=False),
        Binding("down,j", "cursor(1, 0)", "Down", show=False),
        Binding("left,h", "cursor(0, -1)", "Left", show=False),
        Binding("right,l", "cursor(0, 1)", "Right", show=False),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False),
        Binding("home,g", "edge(-1)", "First", show=False),
        Binding("end,G", "edge(1)", "Last", show=False),
    ]

    class Moved(Message):
        """The cursor rests on another cell."""

    class Marked(Message):
        """Runs were marked or unmarked."""

    class Ordered(Message):
        """Lines are in another order."""

    line = column = frozen_width = 0
    header = 1
    """Lines above the first one."""
    highlights_cell = True
    """Whether the cell under the cursor stands out."""
    _edges = array("q", [0])

    def line_count(self) -> int:
        """How many lines there are below the header."""
        raise NotImplementedError

    def frozen(self, line: int | None) -> Row:
        """The left part of a line (of the header for None), `frozen_width` wide at most."""
        raise NotImplementedError

    def cell(self, line: int | None, column: int) -> Row:
        """One cell (of the header for None), as wide as its column at most."""
        raise NotImplementedError

    def subheader(self, column: int) -> Row:
        """A cell of the second line of a header of two."""
        return []

    def heading(self, line: int) -> Row | None:
        """A line that is one text across all columns, on which the cursor never rests; else
        None."""
        return None

    def empty_words(self) -> str:
        """What is shown where there are no lines."""
        return ""

    @property
    def view(self) -> Size:
        """The cells that lines are painted on: the widget without its scrollbars."""
        width, height = self.size
        return Size(
            max(0, width - self.scrollbar_size_vertical),
            max(0, height - self.scrollbar_size_horizontal),
        )

    @property
    def column_count(self) -> int:
        return len(self._edges) - 1

    def width_of(self, column: int) -> int:
        """How wide a column is, its gap included."""
        return self._edges[column + 1] - self._edges[column]

    def set_widths(self, frozen_width: int, widths: Iterable[int]) -> None:
        """Set the widths of the frozen part and of each column, and lay out again."""
        self.frozen_width = frozen_width
        self._edges = array("q", accumulate(widths, initial=0))
        lines = self.line_count()
        self.virtual_size = Size(frozen_width + self._edges[-1], self.header + lines)
        self.refresh()
        self.line = max(0, min(self.line, lines - 1))
        self.column = max(0, min(self.column, self.column_count - 1))
        if lines and not self.rests_on(self.line):
            self.line = self._resting_line(self.line, 1)

    @property
    def cursor_tone(self) -> str:
        """The tone of the cell under the cursor."""
        if self.has_focus:
            return "cursor"
        if self.app.native_ansi_color:
            return "cursor-blurred-ansi"
        return "cursor-blurred"

    def render_line(self, y: int) -> Strip:
        width = self.view.width
        line = None
        if y >= self.header:
            line = self.scroll_offset.y + y - self.header
            if line >= self.line_count():
                return self.strip_of([(self._empty_text(y - self.header - 1), "dim")], width)
            heading = self.heading(line)
            if heading is not None:
                return self._heading_strip(heading, width)
        moving = self._moving(line, width - self.frozen_width, second=y == 1)
        frozen = self._filled(self.frozen(line), self.frozen_width)
        return Strip([*frozen, *moving]).adjust_cell_length(width, self.style_of(""))

    def _empty_text(self, place: int) -> str:
        """A line of what is shown in an empty table."""
        if self.line_count() or place < 0:
            return ""
        lines = wrapped(self._glyphs.say(self.empty_words()), self.view.width - 1)
        if place < len(lines):
            return f" {lines[place]}"
        return ""

    def _heading_strip(self, heading: Row, width: int) -> Strip:
        strip = self.strip_of(heading, max(width, row_width(heading)))
        if strip.cell_length <= width:
            return strip
        return Strip([*strip.crop(0, width - 1), self._sign(0, self._glyphs.off_right)])

    def _filled(self, row: Row, width: int) -> list[Segment]:
        """A part of a line, with blanks behind it up to its width."""
        blanks = " " * (width - row_width(row))
        pieces = [*row, (blanks, "text")]
        return [Segment(text, self.style_of(tone)) for text, tone in pieces if text]

    def _cell(self, line: int | None, column: int, second: bool) -> list[Segment]:
        if line is None and second:
            row = self.subheader(column)
        else:
            row = self.cell(line, column)
        if self.highlights_cell and (line, column) == (self.line, self.column):
            row = [(row_text(row), self.cursor_tone)]
        return self._filled(row, self.width_of(column))

    def _moving(self, line: int | None, room: int, second: bool = False) -> Strip:
        """The columns in `room` cells. Where text is cut there is a sign; the header says that
        there is more."""
        first, last = self._visible_columns()
        if first >= last or room <= 0:
            return Strip([])
        segments = self._cell(line, first, second)
        start = self.scroll_offset.x - self._edges[first]
        hidden = Strip(segments).text[:start]
        for column in range(first + 1, last):
            segments += self._cell(line, column, second)
        strip = Strip(segments)
        end = start + room
        before = bool(hidden.strip())
        after = bool(strip.text[end:].strip())
        if line is None:
            before = before or first > 0
            after = after or self._edges[-1] - self.scroll_offset.x > room
        visible = strip.crop(start, end)
        if before:
            sign = self._sign(line, self._glyphs.off_left)
            visible = Strip([sign, *visible.crop(1, room)])
        if after:
            sign = self._sign(line, self._glyphs.off_right)
            visible = Strip([*visible.crop_extend(0, room - 1, None), sign])
        return visible

    def _sign(self, line: int | None, sign: str) -> Segment:
        return Segment(sign, self.style_of("head" if line is None else "dim"))

    def refresh_cells(self, places: Iterable[tuple[int, int]]) -> None:
        """Repaint the cells (line, column) that are on screen."""
        left = self.frozen_width - self.scroll_offset.x
        top = self.scroll_offset.y - self.header
        regions = []
        for line, column in places:
            if line - top in self._seen and column < self.column_count:
                x = left + self._edges[column]
                width = self.width_of(column)
                regions.append(Region(x, line - top, width, 1))
        if regions:
            self.refresh(*regions)

    def refresh_frozen(self, lines: Iterable[int]) -> None:
        """Repaint the frozen part of the lines that are on screen."""
        top = self.scroll_offset.y - self.header
        width = self.frozen_width
        regions = [Region(0, line - top, width, 1) for line in lines if line - top in self._seen]
        if regions:
            self.refresh(*regions)

    @property
    def _seen(self) -> range:
        """The rows of the screen that show lines."""
        return range(self.header, self.view.height)

    def visible_lines(self) -> range:
        """The lines on screen."""
        top = self.scroll_offset.y
        return range(top, min(self.line_count(), top + max(0, self.view.height - self.header)))

    def _visible_columns(self) -> tuple[int, int]:
        left = self.scroll_offset.x
        right = left + self.view.width - self.frozen_width
        first = max(0, bisect_right(self._edges, left) - 1)
        last = bisect_right(self._edges, right)
        return min(first, self.column_count), min(last, self.column_count)

    def rests_on(self, line: int) -> bool:
        """Whether the cursor may rest on a line."""
        return True

    def move_to(self, line: int, column: int | None = None) -> None:
        """Put the cursor on a cell and scroll it into view."""
        if not self.line_count():
            return
        before = (self.line, self.column)
        line = max(0, min(line, self.line_count() - 1))
        if self.rests_on(line):
            self.line = line
        else:
            self.line = self._resting_line(line, 1 if line >= self.line else -1)
        if column is not None and self.column_count:
            self.column = max(0, min(column, self.column_count - 1))
        if (self.line, self.column) != before:
            self.repaint_cursor(before)
            self.scroll_to_cursor()
            self.post_message(self.Moved())

    def repaint_cursor(self, before: tuple[int, int]) -> None:
        """Repaint what a cursor move changes."""
        self.refresh_cells([before, (self.line, self.column)])

    def _resting_line(self, line: int, direction: int) -> int:
        """The nearest line the cursor may rest on, looking in one direction and then the other."""
        down = range(line, self.line_count())
        up = range(line, -1, -1)
        scans = chain(down, up) if direction > 0 else chain(up, down)
        return next(filter(self.rests_on, scans), self.line)

    def scroll_to_cursor(self) -> None:
        """Bring the cursor into view."""
        self.bring_into_view(self.line, self.column)

    def bring_into_view(self, line: int, column: int) -> None:
        """Scroll as little as brings a cell into view."""
        scroll_x, scroll_y = self.scroll_offset
        rows = self.view.height - self.header
        room = self.view.width - self.frozen_width
        if rows < 1:
            return
        top = min(line, max(scroll_y, line - rows + 1))
        # a heading right above the first line comes into view with it
        if top == line and top and not self.rests_on(top - 1):
            top -= 1
        left = scroll_x
        if self.column_count:
            left = min(self._edges[column], max(scroll_x, self._edges[column + 1] - room))
        if (left, top) != (scroll_x, scroll_y):
            self.scroll_to(left, top, animate=False, immediate=True)

    def action_cursor(self, down: int, right: int) -> None:
        """Move the cursor by some lines and columns."""
        self.move_to(self.line + down, self.column + right)

    def action_page(self, pages: int) -> None:
        """Move the cursor by a screenful."""
        self.move_to(self.line + pages * max(1, self.view.height - self.header - 1))

    def action_edge(self, direction: int) -> None:
        """Move the cursor to the first or last line."""
        self.move_to(0 if direction < 0 else self.line_count() - 1)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        line = self.scroll_offset.y + offset.y - self.header
        along = offset.x - self.frozen_width + self.scroll_offset.x
        column = None
        if offset.x >= self.frozen_width and along < self._edges[-1]:
            column = bisect_right(self._edges, along) - 1
        if offset.y < self.header:
            self.header_clicked(column, offset.x)
        elif line < self.line_count() and self.rests_on(line):
            self.move_to(line, column)

    def header_clicked(self, column: int | None, x: int) -> None:
        """The header was clicked, above a column, or (None) at `x` above the frozen part."""

    def on_resize(self) -> None:
        self.call_after_refresh(self.scroll_to_cursor)

    def watch_show_horizontal_scrollbar(self) -> None:
        # it takes a line, maybe the one the cursor is on, and comes whenever the layout gets to it
        self.scroll_to_cursor()

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self.repaint_cursor((self.line, self.column))


_GAP = 2
_LEAST_NAME = 20


class GridTable(LineTable):
    """Shows a `Grid`; posts `LineTable.Moved`. Lines that the grid marks stand out by their
    name."""

    highlights_cell = False
    _headings: Sequence[str] = ()
    _rows: Sequence[Sequence[str]] = ()
    _words = 1
    _marked: frozenset[int] = frozenset()

    def set_grid(self, grid: Grid) -> None:
        """Show another table; the cursor stays on its line."""
        say = self._glyphs.say
        before = (self._headings, self._rows, self._marked)
        self._headings = list(map(say, grid.headings))
        self._rows = [list(map(say, row)) for row in grid.rows]
        self._words, self._marked = grid.words, grid.marked
        if before != (self._headings, self._rows, self._marked):
            self._fit()

    def _fit(self) -> None:
        columns = zip(self._headings, *self._rows, strict=True)
        name, *widths = [max(map(width_of, column)) for column in columns]
        # names give way to the other columns
        if self.view.width:
            name = min(name, max(_LEAST_NAME, self.view.width // 2))
        self.set_widths(1 + name + _GAP, [width + _GAP for width in widths])

    def on_resize(self) -> None:
        if self._headings:
            self._fit()

    @property
    def text(self) -> list[Sequence[str]]:
        """The cells, the headings first."""
        return [self._headings, *self._rows]

    def line_count(self) -> int:
        return len(self._rows)

    def frozen(self, line: int | None) -> Row:
        name = self._text(line, 0)
        text = f" {cut_middle(name, self.frozen_width - _GAP - 1, self._glyphs.ellipsis)}"
        if line is None:
            tone = "head"
        elif line == self.line:
            tone = self.cursor_tone
        elif line in self._marked:
            tone = "bad"
        else:
            tone = "text"
        return [(padded(text, self.frozen_width - _GAP), tone), (" " * _GAP, "text")]

    def _text(self, line: int | None, column: int) -> str:
        if line is None:
            return self._headings[column]
        return self._rows[line][column]

    def cell(self, line: int | None, column: int) -> Row:
        width = self.width_of(column) - _GAP
        text = self._text(line, column + 1)
        pad = padded_left
        if column + 1 < self._words:
            pad = padded
        return [(pad(text, width) + " " * _GAP, "head" if line is None else "text")]

    def action_cursor(self, down: int, right: int) -> None:
        """Another line, or another column at the left edge."""
        if right:
            first, _ = self._visible_columns()
            place = max(0, min(first + right, self.column_count - 1))
            self.scroll_to(self._edges[place], animate=False, immediate=True)
        else:
            super().action_cursor(down, right)

    def repaint_cursor(self, before: tuple[int, int]) -> None:
        self.refresh_frozen({before[0], self.line})
