"""Tables of lines × columns with a cursor, which format only the lines on screen.

Built on Textual's line API: ten thousand rows cost as much as forty; single cells are repainted.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain
from typing import TYPE_CHECKING

from rich.segment import Segment
from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from fa_tui.views.text import cut, fitted, padded, padded_left, told_apart, widest, wrapped
from fa_tui.widgets.painted import Row, Toned, ending, hidden, moving, row_text, row_width

if TYPE_CHECKING:
    from fa_core.reporting.blocks import Grid


def clamped(place: int, count: int) -> int:
    """The nearest index to a place among `count` items."""
    return max(0, min(place, count - 1))


class LineTable(Toned, ScrollView, can_focus=True):
    """Lines × columns under a header line, with a frozen part on the left and a cursor on a cell.

    A subclass defines the shape (`line_count`, `set_widths`), fitting texts (`frozen`, `cell`) and
    the lines where the cursor does not rest (`heading`).
    """

    BINDINGS = [
        *moving(
            *("cursor(-1,0)", "cursor(1,0)", "page(-1)", "page(1)"),
            *("page(-0.5)", "page(0.5)", "edge(-1)", "edge(1)"),
        ),
        hidden("left,h", "cursor(0,-1)"),
        hidden("right,l", "cursor(0,1)"),
    ]

    class Moved(Message):
        """The cursor moved to another cell."""

    line = column = frozen_width = 0
    gap = 1
    """Blanks at the end of each column."""
    header = 1
    """Number of header lines."""
    highlights_cell = True
    """Whether the cell under the cursor is highlighted."""
    _edges = array("q", [0])

    def line_count(self) -> int:
        """Number of lines below the header."""
        raise NotImplementedError

    def frozen(self, line: int | None) -> Row:
        """The left part of a line (None: header), at most `frozen_width` wide."""
        raise NotImplementedError

    def cell(self, line: int | None, column: int) -> Row:
        """A cell (line None: header), at most as wide as its column."""
        raise NotImplementedError

    def subheader(self, column: int) -> Row:
        """A cell of the second header line."""
        return []

    def heading(self, line: int) -> Row | None:
        """The text of a line across all columns, where the cursor never rests; else None."""
        return None

    def empty_words(self) -> str:
        """Text of an empty table."""
        return ""

    @property
    def view(self) -> Size:
        """Size of the widget without its scrollbar."""
        width, height = self.size
        return Size(max(0, width - self.scrollbar_size_vertical), height)

    @property
    def column_count(self) -> int:
        return len(self._edges) - 1

    def width_of(self, column: int) -> int:
        """Width of a column, its gap included."""
        return self._edges[column + 1] - self._edges[column]

    def set_widths(self, frozen_width: int, widths: Iterable[int]) -> None:
        """Set the widths of the frozen part and the columns, and lay out again."""
        self.frozen_width = frozen_width
        self._edges = array("q", accumulate(widths, initial=0))
        lines = self.line_count()
        width = frozen_width + self._edges[-1]
        self.virtual_size = Size(width, self.header + lines)
        self.refresh()
        self.line = clamped(self.line, lines)
        self.column = clamped(self.column, self.column_count)
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
            below = y - self.header
            line = self.scroll_offset.y + below
            if line >= self.line_count():
                return self.strip_of([(self._empty_text(below - 1), "dim")], width)
            heading = self.heading(line)
            if heading is not None:
                heading = ending(heading, width, self._glyphs.ellipsis)
                return self.strip_of(heading, width)
        room = width - self.frozen_width
        frozen = Strip(self._filled(self.frozen(line), self.frozen_width))
        moving = self._moving(line, room, second=y == 1)
        if y == 0:
            shown = self._whole_columns(room)
            if shown.start:
                frozen = Strip(
                    [*frozen.crop(0, self.frozen_width - 1), self._sign(self._glyphs.off_left)]
                )
            if shown.stop < self.column_count and room > 0:
                whole = moving.crop_extend(0, room - 1, self.style_of(""))
                moving = Strip([*whole, self._sign(self._glyphs.off_right)])
        return Strip([*frozen, *moving]).adjust_cell_length(width, self.style_of(""))

    def _empty_text(self, place: int) -> str:
        """A line of the text of an empty table."""
        if self.line_count() or place < 0:
            return ""
        lines = wrapped(self._glyphs.say(self.empty_words()), self.view.width - 1)
        if place < len(lines):
            return f" {lines[place]}"
        return ""

    def _filled(self, row: Row, width: int) -> list[Segment]:
        """A part of a line, filled with blanks to its width."""
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

    def _moving(self, line: int | None, room: int, second: bool) -> Strip:
        """The whole columns in `room` cells; of words that need more, what fits, with a sign."""
        if room <= 0:
            return Strip([])
        shown = self._whole_columns(room)
        left = self.scroll_offset.x
        blanks = " " * (self._edges[shown.start] - left)
        segments = [Segment(blanks, self.style_of(""))]
        for column in shown:
            segments += self._cell(line, column, second)
        strip = Strip(segments)
        if strip.text[room:].strip():
            more = Segment(self._glyphs.off_right, self.style_of("dim"))
            return Strip([*strip.crop(0, room - 1), more])
        return strip.crop(0, room)

    def _whole_columns(self, room: int) -> range:
        """The columns that are wholly within `room` cells, at least one: no number is cut."""
        left = self.scroll_offset.x
        first = min(bisect_left(self._edges, left), max(0, self.column_count - 1))
        last = first
        for column in range(first, self.column_count):
            end = self._edges[column + 1] - left - self.gap
            # the sign for more columns takes a cell
            if end > room - (column + 1 < self.column_count):
                break
            last = column + 1
        return range(first, min(max(last, first + 1), self.column_count))

    def _sign(self, sign: str) -> Segment:
        return Segment(sign, self.style_of("head"))

    def refresh_cells(self, places: Iterable[tuple[int, int]]) -> None:
        """Repaint those of some cells (line, column) that are on screen."""
        left = self.frozen_width - self.scroll_offset.x
        top = self.scroll_offset.y - self.header
        regions = []
        for line, column in places:
            if line - top in self._seen and column < self.column_count:
                x = left + self._edges[column]
                regions.append(Region(x, line - top, self.width_of(column), 1))
        if regions:
            self.refresh(*regions)

    def refresh_frozen(self, lines: Iterable[int]) -> None:
        """Repaint the frozen part of the lines that are on screen."""
        top = self.scroll_offset.y - self.header
        width = self.frozen_width
        rows = [line - top for line in lines]
        regions = [Region(0, row, width, 1) for row in rows if row in self._seen]
        if regions:
            self.refresh(*regions)

    @property
    def _seen(self) -> range:
        """The screen rows below the header."""
        return range(self.header, self.view.height)

    def visible_lines(self) -> range:
        """The lines on screen."""
        top = self.scroll_offset.y
        end = top + len(self._seen)
        return range(top, min(self.line_count(), end))

    def rests_on(self, line: int) -> bool:
        """Whether the cursor may rest on a line."""
        return self.heading(line) is None

    def move_to(self, line: int, column: int | None = None) -> None:
        """Put the cursor on a cell and scroll it into view."""
        if not self.line_count():
            return
        before = (self.line, self.column)
        line = clamped(line, self.line_count())
        if not self.rests_on(line):
            direction = 1 if line >= self.line else -1
            line = self._resting_line(line, direction)
        self.line = line
        if column is not None:
            self.column = clamped(column, self.column_count)
        if (self.line, self.column) != before:
            self.repaint_cursor(before)
            self.scroll_to_cursor()
            self.post_message(self.Moved())

    def repaint_cursor(self, before: tuple[int, int]) -> None:
        """Repaint the cells that a cursor move changes."""
        self.refresh_cells([before, (self.line, self.column)])

    def _resting_line(self, line: int, direction: int) -> int:
        """The nearest line the cursor may rest on, first in one direction, then in the other."""
        down = range(line, self.line_count())
        up = range(line, -1, -1)
        scans = chain(up, down)
        if direction > 0:
            scans = chain(down, up)
        return next(filter(self.rests_on, scans), self.line)

    def scroll_to_cursor(self) -> None:
        """Bring the cursor into view."""
        self.bring_into_view(self.line, self.column)

    def bring_into_view(self, line: int, column: int) -> None:
        """Scroll minimally to bring a cell into view."""
        scroll_x, scroll_y = self.scroll_offset
        rows = self.view.height - self.header
        room = self.view.width - self.frozen_width
        if rows < 1 or room < 1:
            return
        top = min(line, max(scroll_y, line - rows + 1))
        # the heading above the first line belongs to it
        if top == line and top and not self.rests_on(top - 1):
            top -= 1
        left = scroll_x
        if self.column_count:
            more = column + 1 < self.column_count
            least = self._edges[column + 1] - self.gap + more - room
            # a column begins at the left edge
            left = self._edges[min(column, bisect_left(self._edges, max(scroll_x, least)))]
        if (left, top) != (scroll_x, scroll_y):
            self.scroll_to(left, top, animate=False, immediate=True)

    def action_cursor(self, down: int, right: int) -> None:
        """Move the cursor by some lines and columns."""
        self.move_to(self.line + down, self.column + right)

    def action_page(self, pages: float) -> None:
        """Move the cursor by a screenful, or half of one."""
        rows = max(2, self.view.height - self.header - 1)
        self.move_to(self.line + int(pages * rows))

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
            if event.chain == 2:
                self.app.simulate_key("enter")

    def header_clicked(self, column: int | None, x: int) -> None:
        """Handle a click on the header: of a column, or at `x` of the frozen part (None)."""

    def on_resize(self) -> None:
        self.call_after_refresh(self.scroll_to_cursor)

    def watch_has_focus(self, has_focus: bool) -> None:
        super().watch_has_focus(has_focus)
        self.repaint_cursor((self.line, self.column))


_LEAST_NAME = 20
_LEAST_WORDS = 16


class GridTable(LineTable):
    """Shows a `Grid`, with its marked rows highlighted; posts `LineTable.Moved`.

    Attributes:
        text: the cells, the headings first.
    """

    highlights_cell = False
    gap = 2
    text: Sequence[Sequence[str]] = [[]]
    _names: Mapping[str, str] = {}
    _words = 1
    _marked: frozenset[int] = frozenset()

    def set_grid(self, grid: Grid) -> None:
        """Show another table; the cursor stays on its line."""
        say = self._glyphs.say
        before = self.text, self._marked
        self.text = [list(map(say, row)) for row in (grid.headings, *grid.rows)]
        self._words, self._marked = grid.words, grid.marked
        if before != (self.text, self._marked):
            self._fit()

    def _fit(self) -> None:
        name, *others = (widest(column) + self.gap for column in zip(*self.text, strict=True))
        # names are shortened for the other columns
        if self.view.width:
            room, least = self.view.width - 2, max(_LEAST_NAME, self.view.width // 3)
            if self._words > len(others):
                # words at the end are cut, numbers never
                left = room - min(name, least) - sum(others[:-1])
                others[-1] = min(others[-1], max(_LEAST_WORDS, left))
            name, _ = fitted(name, others, room, least=least)
        names = [row[0] for row in self.text]
        self._names = told_apart(names, name - self.gap, self._glyphs.ellipsis)
        self.set_widths(1 + name, others)

    def on_resize(self) -> None:
        if self.text[0]:
            self._fit()

    @property
    def text_here(self) -> str:
        """The line under the cursor, a tab between two cells."""
        return "\t".join(self.text[self.line + 1]) if self.line_count() else ""

    def line_count(self) -> int:
        return len(self.text) - 1

    def frozen(self, line: int | None) -> Row:
        width = self.frozen_width - self.gap
        name = self._names[self._text(line, 0)]
        tone = "text"
        if line is None:
            tone = "head"
        elif line == self.line:
            tone = self.cursor_tone
        elif line in self._marked:
            tone = "bad"
        return [(padded(f" {name}", width), tone), (" " * self.gap, "text")]

    def _text(self, line: int | None, column: int) -> str:
        return self.text[0 if line is None else line + 1][column]

    def cell(self, line: int | None, column: int) -> Row:
        width = self.width_of(column) - self.gap
        text = self._text(line, column + 1)
        pad = padded_left
        if column + 1 < self._words:
            pad = padded
        tone = "head" if line is None else "text"
        return [(pad(cut(text, width, self._glyphs.ellipsis), width) + " " * self.gap, tone)]

    def action_cursor(self, down: int, right: int) -> None:
        """Move to another line, or scroll by a column."""
        if right:
            first = self._whole_columns(self.view.width - self.frozen_width).start
            place = clamped(first + right, self.column_count)
            self.scroll_to(self._edges[place], animate=False, immediate=True)
        else:
            super().action_cursor(down, right)

    def repaint_cursor(self, before: tuple[int, int]) -> None:
        self.refresh_frozen({before[0], self.line})
