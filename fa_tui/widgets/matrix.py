"""The matrix: methods down, seeds across (or any two axes), a verdict or a number per run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message

from fa_tui.session import Flip, Session
from fa_tui.views.columns import QUANTITIES, Quantity
from fa_tui.views.grid import METHODS_BY_SEEDS, Axes, Grid, GridLine, build_grid, sign
from fa_tui.views.text import Glyphs, abbreviated, cut_start, lengths, padded, padded_left, width_of
from fa_tui.widgets.run_cells import FLIPPED, RunCells, mark_of, shade_style
from fa_tui.widgets.table import LineTable

_COUNT_TITLE = "walk-back"
_LONGEST_NAMES, _SHORTEST_NAMES, _LEAST_NAMES = 44, 14, 9


def count_text(line: GridLine, session: Session) -> str:
    """``1/3 MIXED``: how many of a line's measured runs are walked back, and whether they disagree."""
    measured = [row for row in line.runs() if session.coverage[row]]
    if not measured:
        return "-"
    walked = sum(1 for row in measured if session.flags[row])
    return f"{walked}/{len(measured)}" + (" MIXED" if 0 < walked < len(measured) else "")


def clipped(text: str, width: int, glyphs: Glyphs) -> str:
    """Text cut to a width from the left: paths differ at their ends."""
    return cut_start(glyphs.say(text), width, glyphs.ellipsis)


_COLUMNS_KEPT = 2
"""Names give way until so many columns are on screen, then the columns scroll."""
_LONGEST_TITLE = 12
FEW_FLIPS = 20
"""With a step that flips more, of many runs, the view stays where it is: the next one would move it again."""


class Matrix(LineTable):
    """Methods × seeds, or other axes. Posts `LineTable.Moved`, `LineTable.Marked` and `ShowsChanged`.

    Args:
        session: what to show; the matrix keeps nothing of its own but the cursor.
        axes: what its lines and columns are at first.
        quantity: the number it shows at first instead of letters.
    """

    lead = 1
    """Cells before a line's label."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "mark", "Mark", tooltip="mark the run for measuring"),
        Binding("v", "show_next(1)", "Numbers", tooltip="show the next number instead of letters"),
        Binding("V", "show_next(-1)", "Numbers back", show=False),
        Binding("enter", "next_here", "Next in cell", show=False, tooltip="the next of several runs in one cell"),
        Binding("plus", "mark_all", "Mark scope", show=False, key_display="+", tooltip="mark every run in scope"),
        Binding(
            "asterisk", "mark_open", "Mark all", show=False, tooltip="mark all runs that are not measured yet, or none"
        ),
    ]

    class ShowsChanged(Message):
        """Another quantity (or the verdict letters) is shown."""

    def __init__(
        self,
        session: Session,
        *,
        axes: Axes = METHODS_BY_SEEDS,
        quantity: Quantity | None = None,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self._session = session
        self._grid: Grid = build_grid(())
        self._gap = 0
        self.quantity = quantity
        self.axes = axes
        self._turn = (0, 0, 0)
        self.flipped: set[int] = set()
        self._stepped: Sequence[Flip] = ()
        self._said: dict[int, str] = {}
        self._labels: dict[int, str] = {}
        self._name_width = self._count_width = 0
        self.cells = RunCells(self, session, self._glyphs)
        self.lay_out()

    def lay_out(self, shown: Iterable[int] | None = None) -> None:
        """Build the lines again: rows came or went, or a filter changed. The cursor stays on its run."""
        kept = self.row
        self._grid = build_grid(self._session.rows, shown, self.axes)
        lines = self._grid.lines
        self._said = {number: self._glyphs.say(line.label) for number, line in enumerate(lines) if not line.is_heading}
        fullest = max((len(line.runs()) for line in lines), default=0)
        self._count_width = max(len(_COUNT_TITLE), len(f"{fullest}/{fullest} MIXED")) + 2
        self.cells.set_cells([line.cells for line in self._grid.lines])
        self._fit()
        if kept is not None:
            self.go_to(kept)
        # scrollbars come and go with the lines: only then it is known what is on screen
        self.call_after_refresh(self.scroll_to_cursor)

    def _fit(self) -> None:
        """Widths of the columns; gaps shrink first, then names, before anything has to scroll."""
        columns, cell, labels = self._grid.columns, self._cell_width, [*self._said.values()]
        room = self._room - self._count_width - len(columns) * cell
        self._gap = next((gap for gap in (4, 3) if self._whole_names + len(columns) * gap <= room), 2)
        # with whole names, and with ever shorter ones; in the last, methods are cut
        widths = [min(length, _LONGEST_NAMES) + self.lead + 1 for length in lengths(labels)]
        fitting = [width for width in widths if width <= room - len(columns) * self._gap + 1]
        scrolled = max(0, len(columns) - _COLUMNS_KEPT) * cell - min(len(columns), _COLUMNS_KEPT) * self._gap
        chosen = fitting[0] if fitting else min(widths[-1], room + scrolled)
        self._name_width = max(min(_SHORTEST_NAMES, self._whole_names), chosen)
        names = abbreviated(labels, self._name_width - self.lead - 1, self._glyphs.ellipsis)
        self._labels = dict(zip(self._said, names, strict=True))
        # behind the last column only a mark has to fit
        each = [cell + self._gap] * (len(columns) - 1) + [cell + 1] * bool(columns)
        self.set_widths(self._name_width + self._count_width, each)

    @property
    def _whole_names(self) -> int:
        """The width in which no name is cut."""
        widest = max(map(width_of, self._said.values()), default=0)
        return max(_LEAST_NAMES, min(widest, _LONGEST_NAMES) + self.lead + 1)

    @property
    def _room(self) -> int:
        """Cells for names, counts and columns, without the scrollbar that so many lines will need."""
        width, height = self.size
        return width - (self.styles.scrollbar_size_vertical if self.line_count() >= height else 0) if width else 1000

    def get_content_width(self, container: Size, viewport: Size) -> int:
        """The width in which no name is cut and every column is seen."""
        columns = self._grid.columns
        return self._whole_names + self._count_width + len(columns) * (self._cell_width + 2) + 1

    @property
    def _cell_width(self) -> int:
        return max(self.cells.width_of(self.quantity), min(self._grid.columns.widest, _LONGEST_TITLE))

    def on_resize(self) -> None:
        self._fit()

    def mixed(self, tone: str) -> Style:
        _, is_shade, number = tone.partition("shade-")
        return shade_style(self, int(number)) if is_shade else super().mixed(tone)

    @property
    def row(self) -> int | None:
        """The index of the run under the cursor."""
        cell = self._cell_at_cursor()
        return cell[self._turn_in(cell)] if cell else None

    @property
    def rows_on_line(self) -> list[int]:
        """The indices of the runs on the line under the cursor."""
        return self._grid.lines[self.line].runs() if self.line < len(self._grid.lines) else []

    def go_to(self, row: int) -> None:
        """Put the cursor on a run, if it is shown."""
        place = self._grid.places.get(row)
        if place:
            self.move_to(*place)
            self._turn = (*place, self._cell_at_cursor().index(row))

    def _cell_at_cursor(self) -> tuple[int, ...]:
        line = self._grid.lines[self.line] if self.line < len(self._grid.lines) else None
        return line.cells[self.column] if line and line.cells else ()

    def _turn_in(self, cell: tuple[int, ...]) -> int:
        """Which of several runs in the cell under the cursor is meant."""
        return self._turn[2] % len(cell) if self._turn[:2] == (self.line, self.column) else 0

    def action_next_here(self) -> None:
        """Go to the next of several runs in the cell under the cursor."""
        cell = self._cell_at_cursor()
        if len(cell) > 1:
            self._turn = (self.line, self.column, (self._turn_in(cell) + 1) % len(cell))
            self.refresh_cells([(self.line, self.column)])
            self.post_message(self.Moved())

    def verdicts_changed(self, flips: Sequence[Flip]) -> None:
        """Repaint the cells that flipped and the counts that changed, as far as they are on screen."""
        on_screen = self.visible_lines()
        places = {place for flip in flips if (place := self._grid.places.get(flip.row)) and place[0] in on_screen}
        self.refresh_cells(places)
        self.refresh_frozen({line for line, _ in places})

    def show_flips(self, flips: Sequence[Flip]) -> None:
        """Highlight the runs whose letters changed until the next step; of a few, bring one into view if none is."""
        before, self._stepped = self._stepped, flips
        self.flipped = {flip.row for flip in flips if flip.before != flip.after}
        self.verdicts_changed([*flips, *before])
        if 0 < len(self.flipped) <= FEW_FLIPS:
            places = [place for row in self.flipped if (place := self._grid.places.get(row))]
            on_screen, (first, last) = self.visible_lines(), self._visible_columns()
            if places and not any(line in on_screen and first <= column < last for line, column in places):
                self.bring_into_view(*min(places))

    def row_changed(self, row: int) -> None:
        """Repaint one run: it was measured."""
        place = self._grid.places.get(row)
        if place:
            self.refresh_frozen([place[0]])
            if self.quantity is None:
                self.refresh_cells([place])
            else:
                # its number may be the lowest or highest now: then all shades are others
                self.cells.numbers_changed()
                self.refresh()

    def line_count(self) -> int:
        return len(self._grid.lines)

    def empty_words(self) -> str:
        return no_runs_words(self._session)

    def rests_on(self, line: int) -> bool:
        return not self._grid.lines[line].is_heading

    def heading(self, line: int) -> list[Segment] | None:
        """The source of the lines below, on a line of its own."""
        entry = self._grid.lines[line]
        if not entry.is_heading:
            return None
        return [Segment(f" {clipped(entry.label, self.view.width - 2, self._glyphs)}", self.style_of("source"))]

    def frozen(self, line: int | None) -> list[Segment]:
        """A line's name and how many of its runs need walk-back; the header: what these are.

        Where the heading of the first line on screen has scrolled away, the header is its source.
        """
        if line is not None:
            count = count_text(self._grid.lines[line], self._session)
            tone = "warn" if count.endswith("MIXED") else "dim" if count.startswith(("0/", "-")) else "bad"
            name = padded(f"{' ' * self.lead}{self._labels[line]}", self._name_width)
            return [
                Segment(name, self.style_of("text")),
                Segment(count.ljust(self._count_width), self.style_of(tone)),
            ]
        lines, top = self._grid.lines, self.scroll_offset.y
        above = next((at for at in range(min(top, len(lines) - 1), -1, -1) if lines[at].is_heading), top)
        if above < top:
            source = clipped(lines[above].label.partition("  ")[0], self.frozen_width - 2, self._glyphs)
            return [Segment(padded(f" {source}", self.frozen_width), self.style_of("source"))]
        title = padded(f" {self._glyphs.say(sign(self.axes.lines))}", self._name_width)
        return [Segment(title + _COUNT_TITLE.ljust(self._count_width), self.style_of("head"))]

    def cell(self, line: int | None, column: int) -> list[Segment]:
        is_last = column == self.column_count - 1
        width = self.width_of(column) - (1 if is_last else self._gap)
        gap = Segment("" if is_last else " " * (self._gap - 1), self.style_of("text"))
        if line is None:
            title = clipped(self._grid.columns[column], width, self._glyphs)
            text = padded_left(title, width - self.cells.suffix_width) if self.quantity else title
            return [Segment(f"{padded(text, width)} ", self.style_of("head")), gap]
        rows = self._grid.lines[line].cells[column]
        here = (line, column) == (self.line, self.column)
        mark = mark_of(self._session, rows, self.flipped, self._glyphs)
        if not rows and not here:
            return [Segment(" " * self.width_of(column), self.style_of("text"))]
        segments = self.cells.paint(rows, self.quantity, width) if rows else []
        if self.flipped and not self.flipped.isdisjoint(rows):
            segments = [Segment(segment.text, (segment.style or Style()) + FLIPPED) for segment in segments]
        rest = " " * (width - sum(len(segment.text) for segment in segments))
        if not here and not mark:
            return [*segments, Segment(f"{rest} {gap.text}", gap.style)]
        segments += [
            Segment(rest, gap.style),
            Segment(mark or " ", self.style_of("accent")),
        ]
        if here:
            cursor = self.style_of(self.cursor_tone)
            segments = [Segment("".join(segment.text for segment in segments), cursor)]
        return [*segments, gap]

    def action_mark(self) -> None:
        """Mark or unmark the runs in the cell under the cursor and go on to the line below."""
        rows = self._cell_at_cursor()
        if rows:
            marked = self._session.marked
            self._session.marked = marked - {*rows} if marked.issuperset(rows) else marked | {*rows}
            self.refresh_cells([(self.line, self.column)])
            self.post_message(self.Marked())
            self.action_cursor(1, 0)

    def action_mark_open(self) -> None:
        """Mark every run that can be measured and is not yet; or, where some are marked, unmark all."""
        session = self._session
        if session.marked:
            self._mark(set())
        else:
            self._mark({row for row in session.measurable(self._grid.places) if not session.coverage[row]})

    def action_mark_all(self) -> None:
        """Mark every run in scope."""
        self._mark({*self._session.in_scope})

    def _mark(self, rows: set[int]) -> None:
        changed, self._session.marked = self._session.marked ^ rows, rows
        self.refresh_cells({self._grid.places[row] for row in changed if row in self._grid.places})
        self.post_message(self.Marked())

    def action_show_next(self, step: int) -> None:
        """Show the next quantity; after the last one the verdict letters again."""
        choices: list[Quantity | None] = [None, *QUANTITIES]
        self.show(choices[(choices.index(self.quantity) + step) % len(choices)])

    def show(self, quantity: Quantity | None) -> None:
        """Show a quantity per run, or the verdict letters (None)."""
        self.quantity = quantity
        self._fit()
        self.post_message(self.ShowsChanged())


def no_runs_words(session: Session) -> str:
    """Why no run is shown, and what to do."""
    if session.rows:
        return "no run matches; / changes the filter"
    return "no audits here; T shows traces, N starts something"
