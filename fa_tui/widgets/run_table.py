"""The Table page: a line per run and all columns, with sorting."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Sequence
from itertools import accumulate, product

from textual.binding import Binding

from fa_tui.session import Session
from fa_tui.views.columns import Column, columns_of, ordered
from fa_tui.views.grid import labels_of
from fa_tui.views.looks import SeedLooks, letter_tone
from fa_tui.views.text import cut, fitted, padded, padded_left, told_apart, widest
from fa_tui.widgets.painted import Row, hidden, row_width
from fa_tui.widgets.run_cells import RunsView, as_flipped, mark_of, verdict_row

METHOD_LIMIT = 40
_LEAST_METHOD = 12
_LEAST_FROZEN = 30
"""Cells of the columns that do not scroll: methods of `_LEAST_METHOD`, seeds and verdicts."""
_VERDICT = 9
"""Cells of a verdict's heading, its arrow and gap included."""
_MARK = 2
"""Cells of a seed's mark and its gap."""


class RunTable(RunsView):
    """A line per run. Posts `LineTable.Moved`.

    Args:
        session: the runs.
        order: the initial one.

    Attributes:
        order: ``growth``, ``-growth`` (reversed), or ``""`` (as read).
    """

    BINDINGS = [
        Binding(
            "s",
            "sort",
            "Sort",
            tooltip="sort by the column under the cursor; again: the other way round",
        ),
        hidden(
            "S",
            "sort_names",
            "Sort by name",
            tooltip="sort by method, seed, verdict: one after another",
        ),
    ]

    gap = 2

    def __init__(self, session: Session, *, order: str) -> None:
        super().__init__(session, id="table")
        self._shown: Sequence[int] = ()
        self.order = order
        self._columns: list[Column] = []
        self._names: dict[int, str] = {}
        self._whole: dict[str, int] = {}
        self._frozen: dict[str, int] = {}
        self.lay_out()

    def lay_out(self) -> None:
        """Show the runs in scope in the current order. The cursor stays on its run."""
        session = self.session
        kept = self.row
        self._shown = ordered(session, session.in_scope, self.order)
        self.looks = SeedLooks(session.rows, self._glyphs)
        self._columns = columns_of(session.runs)
        # what tells runs apart belongs to the name: axes, and where several hold the same, the home
        labels = labels_of(session.rows, session.in_scope)
        self._names = {row: self._glyphs.say(label) for row, label in labels.items()}
        seeds = {str(row.seed) for row in session.scoped}
        # at least as wide as a heading with its arrow
        method = max(7, min(METHOD_LIMIT, widest(self._names.values()))) + 2
        seed = max(5, widest(seeds) + _MARK) + 2
        self._whole = {"method": method, "seed": seed, "verdict": _VERDICT}
        self._fit()
        if kept is not None:
            self.go_to(kept)
        # as in the matrix
        self.call_after_refresh(self.scroll_to_cursor)

    def _fit(self) -> None:
        """Leave most of the width to the columns that scroll: names are shortened."""
        room = max(self.view.width * 2 // 5, _LEAST_FROZEN)
        others = [width for name, width in self._whole.items() if name != "method"]
        name, _ = fitted(self._whole["method"], others, room, least=_LEAST_METHOD)
        self._frozen = self._whole | {"method": name}
        self._cut = told_apart(self._names.values(), name - 2, self._glyphs.ellipsis)
        widths = [column.width for column in self._columns]
        self.set_widths(2 + sum(self._frozen.values()), widths)

    def on_resize(self) -> None:
        self._fit()
        super().on_resize()

    @property
    def row(self) -> int | None:
        """The index of the run under the cursor."""
        if self._shown:
            return self._shown[self.line]
        return None

    @property
    def cut_name(self) -> str:
        """The name under the cursor, if the column is too narrow for it; else ``""``."""
        name = self._names.get(-1 if self.row is None else self.row, "")
        return "" if self._cut.get(name) == name else name

    def place_of(self, row: int) -> tuple[int, int] | None:
        if row in self._shown:
            return (self._shown.index(row), self.column)
        return None

    def refresh_runs(self, rows: Collection[int]) -> None:
        lines = [line for line in self.visible_lines() if self._shown[line] in rows]
        self.refresh_frozen(lines)
        self.refresh_cells(product(lines, range(self.column_count)))

    def line_count(self) -> int:
        return len(self._shown)

    def frozen(self, line: int | None) -> Row:
        if line is None:
            heading = "  "
            for name, width in self._frozen.items():
                heading += f"{name}{self.arrow(name)}"[:width].ljust(width)
            return [(heading.ljust(self.frozen_width), "head")]
        index = self._shown[line]
        row = self.session.rows[index]
        widths = self._frozen
        state = mark_of(self.session, index, self._glyphs) or " "
        method = self._cut[self._names[index]]
        seed = "-" if row.seed is None else str(row.seed)
        look = self.looks.of(row)
        mark = ("  ", "text")
        if look is not None:
            mark = (f"{look.mark} ", f"{look.style}+bold")
        tone = "text"
        if line == self.line:
            tone = self.cursor_tone
        verdict = as_flipped(self.session, index, verdict_row(self.session, index, self._glyphs))
        return [
            (f"{state} ", "accent"),
            (padded(method, widths["method"]), tone),
            mark,
            (seed.ljust(widths["seed"] - _MARK), tone),
            *verdict,
            (" " * (_VERDICT - row_width(verdict)), "text"),
        ]

    def cell(self, line: int | None, column: int) -> Row:
        kind = self._columns[column]
        if line is None:
            return [(self._fitted(kind.title + self.arrow(kind.name), kind) + "  ", "head")]
        row = self._shown[line]
        text = kind.text(self.session, row)
        tone = letter_tone(self.session, row, kind.letter)
        if tone == "text" and text == self._glyphs.unmeasured:
            tone = "dim"
        return [(self._fitted(text, kind), tone)]

    def _fitted(self, text: str, kind: Column) -> str:
        width = kind.width - 2
        text = cut(self._glyphs.say(text), width, self._glyphs.ellipsis)
        if kind.right:
            return padded_left(text, width)
        return padded(text, width)

    def repaint_cursor(self, before: tuple[int, int]) -> None:
        super().repaint_cursor(before)
        if before[0] != self.line:
            self.refresh_frozen([before[0], self.line])

    def header_clicked(self, column: int | None, x: int) -> None:
        if column is not None:
            self._turn(self._columns[column].name)
        else:
            ends = list(accumulate(self._frozen.values(), initial=2))[1:-1]
            self._turn([*self._frozen][bisect_right(ends, x)])

    def action_sort(self) -> None:
        """Sort by the column under the cursor; then in reverse; then as read."""
        self._turn(self._columns[self.column].name)

    def action_sort_names(self) -> None:
        """Sort by the next of the columns that stay on screen."""
        names = [*self._frozen]
        at = names.index(self.order) + 1 if self.order in names else 0
        self._turn(names[at % len(names)])

    def _turn(self, name: str) -> None:
        following = {name: f"-{name}", f"-{name}": ""}
        self.order = following.get(self.order, name)
        self._shown = ordered(self.session, self.session.in_scope, self.order)
        self.refresh()
        self.move_to(0)
        self.scroll_to_cursor()
        self.post_message(self.Moved())

    def arrow(self, name: str) -> str:
        """The sign behind the heading of a column that the lines are sorted by."""
        if name != self.order.lstrip("-"):
            return ""
        arrow = "↓" if self.order.startswith("-") else "↑"
        return self._glyphs.say(arrow)
