"""The matrix: methods down, seeds across (or any two axes), a verdict or a number per run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from rich.style import Style
from textual.binding import Binding
from textual.geometry import Size
from textual.message import Message

from fa_core.judgement.verdict import CONTROL, WALKS_BACK
from fa_tui.session import Session
from fa_tui.views.columns import QUANTITIES, Quantity
from fa_tui.views.glyphs import Glyphs
from fa_tui.views.grid import METHODS_BY_SEEDS, Axes, Grid, GridLine, build_grid, sign
from fa_tui.views.text import abbreviated, cut_start, lengths, padded, padded_left, width_of
from fa_tui.widgets.painted import Row, row_text
from fa_tui.widgets.run_cells import RunCells, RunsView, mark_of, shade_style

_COUNT_TITLE = "walk-back"
_LONGEST_NAMES, _SHORTEST_NAMES, _LEAST_NAMES = 44, 14, 9


def count_text(line: GridLine, session: Session) -> str:
    """``1/3 MIXED``: how many of a line's measured runs are walked back, and whether they
    disagree."""
    measured = [row for row in line.runs() if session.coverage[row]]
    if not measured:
        return "-"
    claims = [row for row in measured if not session.rows[row].is_control]
    if not claims:
        return CONTROL
    walked = sum(bool(session.flags[row]) for row in claims)
    text = f"{walked}/{len(claims)}"
    if 0 < walked < len(claims):
        text += " MIXED"
    return text


def clipped(text: str, width: int, glyphs: Glyphs) -> str:
    """Text cut to a width from the left: paths differ at their ends."""
    return cut_start(glyphs.say(text), width, glyphs.ellipsis)


_COLUMNS_KEPT = 2
"""Names give way until so many columns are on screen, then the columns scroll."""
_LONGEST_TITLE = 12


class Matrix(RunsView):
    """Methods × seeds, or other axes. Posts `LineTable.Moved`, `LineTable.Marked` and
    `ShowsChanged`.

    Args:
        session: what to show; the matrix keeps nothing of its own but the cursor.
        axes: what its lines and columns are at first.
        quantity: the number it shows at first instead of letters.
    """

    lead = 1
    """Cells before a line's label."""

    BINDINGS = [
        Binding("v", "show_next(1)", "Numbers", tooltip="show the next number instead of letters"),
        Binding("V", "show_next(-1)", "Numbers back", show=False),
        Binding(
            "enter",
            "next_here",
            "Next in cell",
            show=False,
            tooltip="the next of several runs in one cell",
        ),
    ]

    class ShowsChanged(Message):
        """Another quantity (or the verdict letters) is shown."""

    def __init__(
        self, session: Session, axes: Axes = METHODS_BY_SEEDS, quantity: Quantity | None = None
    ) -> None:
        super().__init__(session)
        self._grid: Grid = build_grid(())
        self._gap = 0
        self.quantity = quantity
        self.axes = axes
        self._turn = (0, 0, 0)
        self._said: dict[int, str] = {}
        self._labels: dict[int, str] = {}
        self._lengths: Sequence[int] = (0, 0)
        self._name_width = self._count_width = 0
        self.cells = RunCells(session, self._glyphs)
        self.lay_out()

    @property
    def grid(self) -> Grid:
        """The runs as they are laid out."""
        return self._grid

    def lay_out(self, shown: Iterable[int] | None = None) -> None:
        """Build the lines again: rows came or went, or a filter changed. The cursor stays on its
        run."""
        kept = self.row
        self._grid = build_grid(self._session.rows, shown, self.axes)
        lines = self._grid.lines
        self._said = {}
        for number, line in enumerate(lines):
            if not line.is_heading:
                self._said[number] = self._glyphs.say(line.label)
        self._lengths = lengths([*self._said.values()])
        fullest = max((len(line.runs()) for line in lines), default=0)
        titles = [self._glyphs.say(title) for title in self._grid.columns]
        self._title_width = max(map(width_of, titles), default=0)
        self._count_width = max(len(_COUNT_TITLE), len(f"{fullest}/{fullest} MIXED")) + 2
        self.cells.set_cells([rows for line in lines for rows in line.cells.values()])
        self._fit()
        if kept is not None:
            self.go_to(kept)
        if self.row is None and self.rows_on_line:
            # first of all a run, not a cell without one
            self.go_to(self.rows_on_line[0])
        # scrollbars come and go with the lines: only then it is known what is on screen
        self.call_after_refresh(self.scroll_to_cursor)

    def _fit(self) -> None:
        """Widths of the columns; gaps shrink first, then names, before anything has to scroll."""
        count = len(self._grid.columns)
        cell = self._cell_width
        room = self._room - self._count_width - count * cell
        for gap in (4, 3, 2):
            self._gap = gap
            if self._whole_names + count * gap <= room:
                break
        # with whole names, and with ever shorter ones; in the last, methods are cut
        widths = [min(length, _LONGEST_NAMES) + self.lead + 1 for length in self._lengths]
        fitting = [width for width in widths if width <= room - count * self._gap + 1]
        kept = min(count, _COLUMNS_KEPT)
        least = room + (count - kept) * cell - kept * self._gap
        chosen = fitting[0] if fitting else min(widths[-1], least)
        self._name_width = max(min(_SHORTEST_NAMES, self._whole_names), chosen)
        self._labels = self._said
        room = self._name_width - self.lead - 1
        if self._lengths[0] > room:
            names = abbreviated([*self._said.values()], room, self._glyphs.ellipsis)
            self._labels = dict(zip(self._said, names, strict=True))
        each = [cell + self._gap] * count
        if each:
            # behind the last column only a mark has to fit
            each[-1] = cell + 1
        self.set_widths(self._name_width + self._count_width, each)

    @property
    def _whole_names(self) -> int:
        """The width in which no name is cut."""
        return max(_LEAST_NAMES, min(self._lengths[0], _LONGEST_NAMES) + self.lead + 1)

    @property
    def _room(self) -> int:
        """Cells for names, counts and columns, without the scrollbar that so many lines will
        need."""
        width, height = self.size
        if not width:
            return 1000
        if self.line_count() >= height:
            width -= self.styles.scrollbar_size_vertical
        return width

    def get_content_width(self, container: Size, viewport: Size) -> int:
        """The width in which no name is cut and every column is seen."""
        columns = self._grid.columns
        return self._whole_names + self._count_width + len(columns) * (self._cell_width + 2) + 1

    @property
    def _cell_width(self) -> int:
        return max(self.cells.width_of(self.quantity), min(self._title_width, _LONGEST_TITLE))

    def on_resize(self) -> None:
        self._fit()

    def mixed(self, tone: str) -> Style:
        if tone.startswith("shade-"):
            return shade_style(self, int(tone[6:]))
        return super().mixed(tone)

    @property
    def row(self) -> int | None:
        """The index of the run under the cursor."""
        cell = self.here
        if cell:
            return cell[self._turn_in(cell)]
        return None

    @property
    def rows_on_line(self) -> list[int]:
        """The indices of the runs on the line under the cursor."""
        if self.line < len(self._grid.lines):
            return self._grid.lines[self.line].runs()
        return []

    def go_to(self, row: int) -> None:
        """Put the cursor on a run, if it is shown."""
        place = self._grid.places.get(row)
        if place:
            self.move_to(*place)
            self._turn = (*place, self.here.index(row))

    @property
    def here(self) -> list[int]:
        if self.line >= len(self._grid.lines):
            return []
        return self._grid.lines[self.line].cells.get(self.column, [])

    def _turn_in(self, cell: Sequence[int]) -> int:
        """Which of several runs in the cell under the cursor is meant."""
        if self._turn[:2] == (self.line, self.column):
            return self._turn[2] % len(cell)
        return 0

    def action_next_here(self) -> None:
        """Go to the next of several runs in the cell under the cursor."""
        cell = self.here
        if len(cell) > 1:
            self._turn = (self.line, self.column, (self._turn_in(cell) + 1) % len(cell))
            self.refresh_cells([(self.line, self.column)])
            self.post_message(self.Moved())

    def place_of(self, row: int) -> tuple[int, int] | None:
        return self._grid.places.get(row)

    def refresh_runs(self, rows: Collection[int]) -> None:
        on_screen = self.visible_lines()
        places = set()
        lines = set()
        for row in rows:
            place = self.place_of(row)
            if place is not None and place[0] in on_screen:
                places.add(place)
                lines.add(place[0])
        self.refresh_cells(places)
        self.refresh_frozen(lines)

    def row_changed(self, row: int) -> None:
        super().row_changed(row)
        if self.quantity is not None and self.place_of(row):
            # its number may be the lowest or highest now: then all shades are others
            self.cells.numbers_changed()
            self.refresh()

    def line_count(self) -> int:
        return len(self._grid.lines)

    def rests_on(self, line: int) -> bool:
        return not self._grid.lines[line].is_heading

    def heading(self, line: int) -> Row | None:
        """The source of the lines below, on a line of its own."""
        entry = self._grid.lines[line]
        if not entry.is_heading:
            return None
        return [(f" {clipped(entry.label, self.view.width - 2, self._glyphs)}", "source")]

    def frozen(self, line: int | None) -> Row:
        """A line's name and how many of its runs need walk-back; the header: what these are.

        Where the heading of the first line on screen has scrolled away, the header is its source.
        """
        if line is None:
            return self._header()
        count = count_text(self._grid.lines[line], self._session)
        if count.endswith("MIXED"):
            tone = "warn"
        elif count.startswith(("0/", "-", CONTROL)):
            tone = "dim"
        else:
            tone = "bad"
        name = padded(f"{' ' * self.lead}{self._labels[line]}", self._name_width)
        return [(name, "text"), (count.ljust(self._count_width), tone)]

    def _header(self) -> Row:
        lines, top = self._grid.lines, self.scroll_offset.y
        headings = [at for at, entry in enumerate(lines[: top + 1]) if entry.is_heading]
        if headings and headings[-1] < top:
            source, _, _ = lines[headings[-1]].label.partition("  ")
            source = clipped(source, self.frozen_width - 2, self._glyphs)
            return [(padded(f" {source}", self.frozen_width), "source")]
        title = padded(f" {self._glyphs.say(sign(self.axes.lines))}", self._name_width)
        return [(title + WALKS_BACK.ljust(self._count_width), "head")]

    def cell(self, line: int | None, column: int) -> Row:
        # behind the text there is a mark
        gap = self._gap
        if column == self.column_count - 1:
            gap = 1
        width = self.width_of(column) - gap
        if line is None:
            title = clipped(self._grid.columns[column], width, self._glyphs)
            if self.quantity:
                title = padded_left(title, width - self.cells.suffix_width)
            return [(f"{padded(title, width)} ", "head"), (" " * (gap - 1), "text")]
        rows = self._grid.lines[line].cells.get(column, [])
        row: Row = []
        if rows:
            row = self.cells.paint(rows, self.quantity, width)
        if not self.flipped.isdisjoint(rows):
            row = [(text, f"{tone}+flipped") for text, tone in row]
        mark = mark_of(self._session, rows, self.flipped, self._glyphs)
        if not mark and (line, column) != (self.line, self.column):
            return row
        blanks = " " * (width - len(row_text(row)))
        return [*row, (blanks, "text"), (mark or " ", "accent")]

    def action_show_next(self, step: int) -> None:
        """Show the next quantity; after the last one the verdict letters again."""
        choices: list[Quantity | None] = [None, *QUANTITIES]
        self.show(choices[(choices.index(self.quantity) + step) % len(choices)])

    def show(self, quantity: Quantity | None) -> None:
        """Show a quantity per run, or the verdict letters (None)."""
        self.app.painter.hold()
        self.quantity = quantity
        self._fit()
        self.post_message(self.ShowsChanged())
