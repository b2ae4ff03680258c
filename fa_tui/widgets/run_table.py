"""The long view: one line per run, all columns, to be sorted and filtered."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

from rich.segment import Segment
from textual.binding import Binding, BindingType

from fa_core.rows import AuditRow
from fa_tui.session import BITS, Flip, Session
from fa_tui.views.quantities import QUANTITIES, Quantity
from fa_tui.widgets.glyphs import UNICODE, Glyphs
from fa_tui.widgets.line_table import LineTable
from fa_tui.widgets.verdict_cell import verdict_segments

METHOD_LIMIT = 22


class Column(NamedTuple):
    """One column: its heading, its width, what it sorts by and how it reads.

    Attributes:
        title: the heading.
        width: cells, the gap included.
        key: (session, row index) → what to sort by; None goes last.
        text: (session, row index) → what to show.
        right: whether it stands at the right edge.
        letter: the diagnostic that judges it, or ``""``.
    """

    title: str
    width: int
    key: Callable[[Session, int], Any]
    text: Callable[[Session, int], str]
    right: bool = False
    letter: str = ""


class RunTable(LineTable):
    """All runs, one line each. Posts `LineTable.Moved` and `LineTable.Marked`."""

    help_text = """\
All runs, one line each, all columns. Numbers stand out where their diagnostic fires.

  s                sort by the column under the cursor; again: the other way round
  click a heading  the same
  space            mark the run for measuring
  t                back to the matrix
"""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "mark", "Mark", tooltip="mark the run for measuring"),
        Binding("s", "sort", "Sort", tooltip="sort by the column under the cursor; again: the other way round"),
    ]

    def __init__(self, session: Session, *, glyphs: Glyphs = UNICODE, id: str | None = None) -> None:
        super().__init__(id=id)
        self._session = session
        self._glyphs = glyphs
        self._shown: list[int] = []
        self._sorted_by: tuple[int, bool] | None = None
        self._columns: list[Column] = []
        self.lay_out()

    def lay_out(self, shown: Sequence[int] | None = None) -> None:
        """Show other rows (default: all), in the order chosen."""
        self._shown = list(range(len(self._session)) if shown is None else shown)
        self._columns = columns_of(self._session)
        if self._sorted_by is not None:
            self._order(*self._sorted_by)
        methods = {self._session.rows[row].method for row in self._shown}
        seeds = {self._session.rows[row].seed for row in self._shown}
        self._method_width = min(METHOD_LIMIT, max((len(name) for name in methods), default=6)) + 2
        self._seed_width = max((len(str(seed)) for seed in seeds), default=4) + 2
        self.set_widths(2 + self._method_width + self._seed_width, [column.width for column in self._columns])

    @property
    def row(self) -> int | None:
        """The index of the run under the cursor."""
        return self._shown[self.line] if self._shown else None

    def go_to(self, row: int) -> None:
        """Put the cursor on a run, if it is shown."""
        if row in self._shown:
            self.move_to(self._shown.index(row))

    def verdicts_changed(self, flips: Sequence[Flip]) -> None:
        """Repaint the lines on screen whose letters changed."""
        changed = {flip.row for flip in flips}
        for line in self.visible_lines():
            if self._shown[line] in changed:
                self.refresh_cells((line, column) for column in self._judged_columns())

    def row_changed(self, row: int) -> None:
        """Repaint one run: it was measured."""
        for line in self.visible_lines():
            if self._shown[line] == row:
                self.refresh_frozen([line])
                self.refresh_cells((line, column) for column in range(self.column_count))

    def line_count(self) -> int:
        return len(self._shown)

    def frozen(self, line: int | None) -> list[Segment]:
        if line is None:
            heading = "  " + "method".ljust(self._method_width) + "seed".ljust(self._seed_width)
            return [Segment(heading, self.style_of("header"))]
        index = self._shown[line]
        row = self._session.rows[index]
        mark = " "
        if index in self._session.marked or index in self._session.gone:
            mark = self._glyphs.marked if index in self._session.marked else self._glyphs.gone
        seed = "-" if row.seed is None else str(row.seed)
        name = row.method if len(row.method) <= METHOD_LIMIT else row.method[: METHOD_LIMIT - 1] + "~"
        tone = self.style_of(self._cursor_tone if line == self.line else "text")
        return [
            Segment(f"{mark} ", self.style_of("mark")),
            Segment(name.ljust(self._method_width) + seed.ljust(self._seed_width), tone),
        ]

    def cell(self, line: int | None, column: int) -> list[Segment]:
        kind, width = self._columns[column], self._columns[column].width - 2
        if line is None:
            text = kind.title + self._arrow(column)
            return [Segment((text.rjust(width) if kind.right else text.ljust(width)) + "  ", self.style_of("header"))]
        row = self._shown[line]
        here = (line, column) == (self.line, self.column)
        if kind.title == "verdict":
            segments = verdict_segments(self._session.flags[row], self._session.coverage[row], self, self._glyphs)
            segments.append(Segment(" " * (width - 5), self.style_of("text")))
        else:
            text = self._glyphs.say(kind.text(self._session, row))
            if len(text) > width:
                text = text[: width - 1] + self._glyphs.ellipsis[:1]
            fires = kind.letter and self._session.flags[row] & BITS[kind.letter]
            tone = "bad" if fires else "dim" if text == self._glyphs.unmeasured else "text"
            segments = [Segment(text.rjust(width) if kind.right else text.ljust(width), self.style_of(tone))]
        if here:
            segments = [Segment(text, self.style_of(self._cursor_tone)) for text, _, _ in segments]
        return [*segments, Segment("  ", self.style_of("text"))]

    def repaint_cursor(self, before: tuple[int, int]) -> None:
        super().repaint_cursor(before)
        if before[0] != self.line:
            self.refresh_frozen([before[0], self.line])

    def header_clicked(self, column: int | None) -> None:
        if column is not None:
            self._sort_by(column)

    def action_sort(self) -> None:
        """Sort by the column under the cursor, or turn its order round."""
        self._sort_by(self.column)

    def action_mark(self) -> None:
        """Mark or unmark the run under the cursor and go on to the next."""
        if self.row is not None:
            self._session.toggle_mark(self.row)
            self.refresh_frozen([self.line])
            self.post_message(self.Marked())
            self.move_to(self.line + 1)

    @property
    def _cursor_tone(self) -> str:
        return "cursor" if self.has_focus else "cursor-blurred"

    def _judged_columns(self) -> list[int]:
        return [place for place, column in enumerate(self._columns) if column.letter or "verdict" in column.title]

    def _arrow(self, column: int) -> str:
        if self._sorted_by is None or self._sorted_by[0] != column:
            return ""
        return self._glyphs.say("↓" if self._sorted_by[1] else "↑")

    def _sort_by(self, column: int) -> None:
        falling = self._sorted_by == (column, False)
        self._sorted_by = (column, falling)
        kept = self.row
        self._order(column, falling)
        self.refresh()
        if kept is not None:
            self.move_to(self._shown.index(kept))
            self.scroll_to_cursor()

    def _order(self, column: int, falling: bool) -> None:
        keys = {row: self._columns[column].key(self._session, row) for row in self._shown}
        known = [row for row in self._shown if not _is_missing(keys[row])]
        missing = [row for row in self._shown if _is_missing(keys[row])]
        self._shown = sorted(known, key=lambda row: keys[row], reverse=falling) + missing


def columns_of(session: Session) -> list[Column]:
    """The columns that say something about these runs."""
    axes = sorted({name for row in session.rows for name in row.axes})
    return [
        Column("verdict", 10, lambda session, row: session.flags[row], lambda session, row: ""),
        *(_of_quantity(quantity) for quantity in QUANTITIES),
        *(_of_axis(name) for name in axes),
        Column("source", 34, lambda session, row: session.rows[row].source, _source),
        Column("verdict in words", 60, Session.verdict, Session.verdict),
        Column("recorded, if it differs", 60, _recorded, lambda session, row: _recorded(session, row) or ""),
    ]


def _of_quantity(quantity: Quantity) -> Column:
    return Column(
        quantity.label,
        max(9, len(quantity.label) + 1) + 2,
        lambda session, row: quantity.of(session.rows[row].report),
        lambda session, row: quantity.text(session.rows[row].report),
        right=True,
        letter=quantity.letter,
    )


def _of_axis(name: str) -> Column:
    def key(session: Session, row: int) -> Any:
        return session.rows[row].axes.get(name)

    def text(session: Session, row: int) -> str:
        value = key(session, row)
        return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)

    return Column({"lam": "λ"}.get(name, name), 10, lambda session, row: _sortable(key(session, row)), text, right=True)


def _sortable(value: Any) -> tuple[bool, float, str] | None:
    """Numbers before words, so that a column of both can be sorted."""
    if value is None:
        return None
    number = isinstance(value, (int, float))
    return (not number, value if number else 0.0, "" if number else str(value))


def _source(session: Session, row: int) -> str:
    """The end of the source's path, which tells runs apart."""
    entry: AuditRow = session.rows[row]
    text = f"{entry.source}"
    return text if len(text) <= 31 else "…" + text[-30:]


def _recorded(session: Session, row: int) -> str | None:
    return session.rows[row].report.recorded_verdict if session.recorded_differs(row) else None


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
