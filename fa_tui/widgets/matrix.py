"""The matrix: methods down, seeds across, a verdict or a number per run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from textual.binding import Binding
from textual.geometry import Size

from fa_core.report.diagnostics import (
    CONTROL,
    MIXED,
    NOT_MEASURED,
    UNDECIDED,
    WALKS_BACK,
    common_judgement,
)
from fa_core.report.quantities import QUANTITIES, Quantity
from fa_tui.session import Session
from fa_tui.views.columns import NORMS, NUMBER_CELLS, format_in, number_text, value_of
from fa_tui.views.grid import Grid, GridLine, build_grid
from fa_tui.views.looks import Look, SeedLooks, letter_tone
from fa_tui.views.scale import drawable
from fa_tui.views.text import cut_start, fitted, padded, told_apart, widest, width_of
from fa_tui.widgets.painted import Row, row_text, row_width
from fa_tui.widgets.run_cells import (
    NormBars,
    RunsView,
    as_flipped,
    mark_of,
    verdict_row,
)

_VERDICT = 5
"""Cells of a verdict."""
_LONGEST_NAMES = 44
_SHORTEST_NAMES = 22
"""Names are shortened to so many cells for all columns; then columns scroll."""
_LEAST_NAMES = 9


def count_text(line: GridLine, session: Session) -> str:
    """Walk-backs among a line's measured runs, and whether they disagree, or how many are
    undecided: ``1/3 MIXED``, ``2/3 ~1``."""
    counts = Counter(map(session.judgement, line.runs()))
    del counts[NOT_MEASURED]
    if not counts:
        return "-"
    if counts.pop(CONTROL, 0) and not counts:
        return CONTROL
    text = f"{counts[WALKS_BACK]}/{counts.total()}"
    if common_judgement(counts) == MIXED:
        text += f" {MIXED}"
    elif counts[UNDECIDED]:
        text += f" ~{counts[UNDECIDED]}"
    return text


_LONGEST_TITLE = 12


class Matrix(RunsView):
    """Methods × seeds. Posts `LineTable.Moved`.

    Args:
        session: the runs; the matrix holds only a cursor.
        quantity: initially shown instead of letters.

    Attributes:
        quantity: shown instead of letters.
        bars: ‖h‖ and ‖g‖ of the runs in scope.
    """

    gap = 0

    BINDINGS = [
        Binding(
            "v",
            "show_next",
            "View",
            tooltip="what cells show: verdicts, a number, ‖h‖ and ‖g‖ by layer",
        ),
    ]

    def __init__(self, session: Session, quantity: Quantity | None) -> None:
        super().__init__(session, id="matrix")
        self._grid: Grid = build_grid((), ())
        self.quantity = quantity
        self._number = QUANTITIES[0]
        if quantity in QUANTITIES:
            self._number = quantity
        self.lay_out()

    def lay_out(self) -> None:
        """Rebuild the lines after runs or the filter changed. The cursor stays on its run."""
        kept = self.row
        self._grid = build_grid(self.session.rows, self.session.in_scope)
        lines = self._grid.lines
        self._looks = SeedLooks(self.session.rows, self._glyphs)
        say = self._glyphs.say
        self._labels = [say(line.label) for line in lines if not line.is_heading]
        fullest = max((len(line.runs()) for line in lines), default=0)
        self._title_width = widest(map(say, self._grid.columns))
        self._column_looks = dict[int, Look]()
        for row, (_, column) in self._grid.places.items():
            if look := self._looks.of(self.session.rows[row]):
                self._column_looks[column] = look
        if self._column_looks:
            self._title_width += len("○ ")
        self._count_width = max(len(WALKS_BACK), len(f"{fullest}/{fullest} {MIXED}")) + 2
        self.bars = NormBars(self.session, self._glyphs, self._looks)
        self._fit()
        if kept is not None:
            self.go_to(kept)
        if self.row is None and self.rows_on_line:
            # a run rather than an empty cell
            self.go_to(self.rows_on_line[0])
        # scrollbars come and go with the lines, and change what is on screen
        self.call_after_refresh(self.scroll_to_cursor)

    def _fit(self) -> None:
        """Set the widths: gaps shrink first, then names, before columns scroll."""
        count = len(self._grid.columns)
        # with a blank on either side
        names = max(_LEAST_NAMES, min(widest(self._labels), _LONGEST_NAMES) + 2)
        title = min(self._title_width, _LONGEST_TITLE)
        cell = max(self._widest_cell, title)
        room = self._room - self._count_width - count * cell
        for gap in (4, 3, 2):
            self._gap = gap
            if names + count * gap <= room:
                break
        columns = [cell + self._gap] * count
        if columns:
            # only a mark follows the last column
            columns[-1] = cell + 1
        # names are shortened for all columns
        self._name_width, _ = fitted(
            names, [self._count_width, *columns], self._room, least=_SHORTEST_NAMES
        )
        room = self._name_width - 2
        self._cut = told_apart(self._labels, room, self._glyphs.ellipsis)
        self.set_widths(self._name_width + self._count_width, columns)

    @property
    def _room(self) -> int:
        """Cells for names, counts and columns, without the scrollbar if one is needed."""
        width, height = self.size
        if not width:
            return 1000
        if self.line_count() >= height:
            width -= self.styles.scrollbar_size_vertical
        return width

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """The height of the header and all lines."""
        return self.header + (self.line_count() or 4)

    def on_resize(self) -> None:
        self._fit()

    @property
    def row(self) -> int | None:
        if self.line >= len(self._grid.lines):
            return None
        return self._grid.lines[self.line].cells.get(self.column)

    @property
    def rows_on_line(self) -> list[int]:
        if self.line < len(self._grid.lines):
            return self._grid.lines[self.line].runs()
        return []

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

    def line_count(self) -> int:
        return len(self._grid.lines)

    def heading(self, line: int) -> Row | None:
        """The source of the lines below."""
        entry = self._grid.lines[line]
        if not entry.is_heading:
            return None
        source = self._clipped(entry.label, self.view.width - 2)
        return [(f" {source}", "source")]

    def frozen(self, line: int | None) -> Row:
        """A line's name and its count of walk-backs; for the header their titles.

        The header shows the source of the first line once its heading has scrolled away.
        """
        if line is None:
            return self._header()
        entry = self._grid.lines[line]
        count = count_text(entry, self.session)
        tone = "bad"
        if count.endswith(MIXED) or "~" in count:
            tone = "warn"
        elif count.startswith(("0/", "-", CONTROL)):
            tone = "dim"
        name = padded(f" {self._cut[self._glyphs.say(entry.label)]}", self._name_width)
        return [(name, "text"), (count.ljust(self._count_width), tone)]

    def _clipped(self, text: str, width: int) -> str:
        """Text cut at its start, as paths differ at their ends."""
        return cut_start(self._glyphs.say(text), width, self._glyphs.ellipsis)

    def _header(self) -> Row:
        above = self._grid.lines[: self.scroll_offset.y + 1]
        headings = [line for line in above if line.is_heading]
        if headings and headings[-1] is not above[-1]:
            width = self.frozen_width
            source, _, _ = headings[-1].label.partition("  ")
            source = self._clipped(source, width - 2)
            return [(padded(f" {source}", width), "source")]
        names = padded(" method", self._name_width)
        return [(names + WALKS_BACK.ljust(self._count_width), "head")]

    def cell(self, line: int | None, column: int) -> Row:
        # a mark follows the text
        gap = self._gap
        if column == self.column_count - 1:
            gap = 1
        width = self.width_of(column) - gap
        if line is None:
            return [*self._title(column, width), (" " * gap, "text")]
        run = self._grid.lines[line].cells.get(column)
        row: Row = []
        mark = ""
        if run is not None:
            row = as_flipped(self.session, run, self._run(run, width))
            mark = mark_of(self.session, run, self._glyphs)
        if not mark and (line, column) != (self.line, self.column):
            return row
        filled = width if self.quantity else _VERDICT
        blanks = " " * (filled - len(row_text(row)))
        return [*row, (blanks, "text"), (mark or " ", "accent")]

    def _title(self, column: int, width: int) -> Row:
        """A column's heading: a seed's has its mark, in the colour of its curves."""
        look = self._column_looks.get(column)
        mark: Row = []
        if look is not None:
            mark = [(look.mark, look.style), (" ", "head")]
        room = width - row_width(mark)
        title = self._clipped(self._grid.columns[column], room)
        before = ""
        if self.quantity and self.quantity is not NORMS:
            before = " " * (room - width_of(title))
        after = " " * (room - len(before) - width_of(title))
        return [(before, "head"), *mark, (f"{title}{after}", "head")]

    @property
    def _widest_cell(self) -> int:
        """The width of the widest cell."""
        if self.quantity is NORMS:
            return len("! ") + 2 * self.bars.cells
        return NUMBER_CELLS if self.quantity else _VERDICT

    def values(self, quantity: Quantity) -> list[float]:
        """The measured numbers of the runs in scope."""
        found = (value_of(quantity, self.session, row) for row in self._grid.places)
        return [value for value in found if value is not None]

    def _run(self, row: int, width: int) -> Row:
        """A run's cell, at most `width` wide."""
        quantity = self.quantity
        if quantity is NORMS:
            return self.bars.both(self.session, row)
        if quantity is None:
            return verdict_row(self.session, row, self._glyphs)
        number = self._glyphs.say(number_text(quantity, self.session, row))
        return [(number.rjust(width), letter_tone(self.session, row, quantity.letter))]

    def legend(self, quantity: Quantity) -> Row:
        """What the numbers are, and from where to where they go."""
        known = sorted(drawable(self.values(quantity), log=False))
        span = fires = ""
        if known:
            write = format_in(self.session.seen, quantity)
            span = f"{write(known[0])} to {write(known[-1])}"
        if quantity.letter:
            fires = f"   ({quantity.letter}) fires"
        name = (f" {quantity.title} ", "strong")
        return [name, (span, ""), (fires, "bad"), ("   · not measured", "dim")]

    def action_show_next(self) -> None:
        """Show letters, a number, bars, and letters again."""
        choices = (None, self._number, NORMS)
        self.show_quantity(choices[(choices.index(self.quantity) + 1) % len(choices)])

    def show_quantity(self, quantity: Quantity | None) -> None:
        """Show a quantity per run, or the verdict letters (None)."""
        self.app.painter.hold()
        self.quantity = quantity
        if quantity in QUANTITIES:
            self._number = quantity
        self._fit()
        self.app.say("")
        self.app.explorer.describe()
