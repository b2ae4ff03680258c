"""The matrix: methods down, seeds across, a verdict (or a number) per run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.message import Message

from fa_tui.cells import cell_text
from fa_tui.grid import Grid, GridLine, build_grid
from fa_tui.quantities import QUANTITIES, Quantity
from fa_tui.session import Flip, Session, letters_of
from fa_tui.widgets.glyphs import UNICODE, Glyphs
from fa_tui.widgets.line_table import LineTable

CELL = 5
GAP = 3
NUMBER_CELL = 7
NAME_LIMIT = 26


class Matrix(LineTable):
    """Methods × seeds. Posts `LineTable.Moved`, `Marked` and `ShowsChanged`.

    Args:
        session: what to show; the matrix keeps nothing of its own but the cursor.
        glyphs: characters to draw with.
    """

    help_text = """\
The matrix: one line per method, one column per seed.

  ✓abcd  trustworthy: the letters were measured and pass
  ✗ab-d  needs walk-back: a, b and d fire, c passes (-)
  ✓abc·  trustworthy on a, b and c; d was not measured (·)
  ?····  not measured at all: press m if there is a checkpoint

The count beside a method is how many of its measured runs are walked back; MIXED: its seeds disagree.
v shows a number instead of letters, V goes back through them.
"""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "mark", "Mark", tooltip="mark the run for measuring"),
        Binding("v", "show_next(1)", "Values", tooltip="show the next number instead of letters"),
        Binding("V", "show_next(-1)", "Values back", show=False),
        Binding("asterisk", "mark_all", "Mark all", show=False),
    ]

    class Marked(Message):
        """Marks changed."""

    class ShowsChanged(Message):
        """Another quantity (or the verdict letters, None) is shown."""

        def __init__(self, quantity: Quantity | None) -> None:
            self.quantity = quantity
            super().__init__()

    def __init__(self, session: Session, *, glyphs: Glyphs = UNICODE, id: str | None = None) -> None:
        super().__init__(id=id)
        self._session = session
        self._ascii = glyphs.name == "ascii"
        self._grid: Grid = build_grid(())
        self._counts: dict[int, str] = {}
        self._name_width = 0
        self.quantity: Quantity | None = None
        self._verdicts: dict[tuple[int, int], str] = {}
        self.lay_out()

    def lay_out(self, shown: Iterable[int] | None = None) -> None:
        """Build the lines anew: rows came or went, or a filter changed."""
        self._grid = build_grid(self._session.rows, shown)
        self._counts.clear()
        names = (len(line.label) + 2 for line in self._grid.lines if not line.is_heading)
        self._name_width = max(8, min(NAME_LIMIT, max(names, default=0)))
        self._set_widths()

    def _set_widths(self) -> None:
        cell = NUMBER_CELL if self.quantity else max(CELL, *(len(name) for name in self._grid.columns), CELL)
        self.set_widths(self._name_width + _COUNT_WIDTH, [cell + GAP] * len(self._grid.columns))

    @property
    def row(self) -> int | None:
        """The index of the run under the cursor."""
        line = self._grid.lines[self.line] if self._grid.lines else None
        return line.cells[self.column] if line and line.cells else None

    def runs_on_line(self) -> list[int]:
        """The runs on the cursor's line."""
        return self._grid.lines[self.line].runs() if self._grid.lines else []

    def go_to(self, row: int) -> None:
        """Put the cursor on a run."""
        place = self._grid.places.get(row)
        if place:
            self.move_to(*place)

    # What changed.

    def verdicts_changed(self, flips: Sequence[Flip]) -> None:
        """Repaint the cells that flipped and the counts that changed, as far as they are on screen."""
        lines = self.visible_lines()
        places = [place for flip in flips if (place := self._grid.places.get(flip.row)) and place[0] in lines]
        if not self.quantity:
            self.refresh_cells(places)
        stale = [line for line in sorted({line for line, _ in places}) if self._count(line) != self._counts.get(line)]
        for line in stale:
            self._counts.pop(line, None)
        self.refresh_frozen(stale)

    def row_changed(self, row: int) -> None:
        """Repaint one run: it was measured, or its job moved on."""
        place = self._grid.places.get(row)
        if place:
            self._counts.pop(place[0], None)
            self.refresh_cells([place])
            self.refresh_frozen([place[0]])

    # Lines and cells.

    def line_count(self) -> int:
        return len(self._grid.lines)

    def rests_on(self, line: int) -> bool:
        return not self._grid.lines[line].is_heading

    def frozen(self, line: int | None) -> list[Segment]:
        style = self.style_of
        if line is None:
            heading = "method".ljust(self._name_width) + "walk-back".ljust(_COUNT_WIDTH)
            return [Segment(heading, style("header"))]
        entry = self._grid.lines[line]
        if entry.is_heading:
            text = _clip(entry.label, self.frozen_width, self._ascii)
            return [Segment(text.ljust(self.frozen_width), style("heading"))]
        count = self._counts.get(line)
        if count is None:
            count = self._counts[line] = self._count(line)
        name = " " + _clip(entry.label, self._name_width - 2, self._ascii)
        tone = "warn" if count.endswith("MIXED") else "dim" if count.startswith(("0/", "-")) else "bad"
        return [
            Segment(name.ljust(self._name_width), style("text")),
            Segment(count.ljust(_COUNT_WIDTH), style(tone)),
        ]

    def cell(self, line: int | None, column: int) -> list[Segment]:
        width = self.width_of(column)
        if line is None:
            return [
                Segment(
                    self._grid.columns[column].rjust(width - GAP).ljust(width)
                    if self.quantity
                    else self._grid.columns[column].ljust(width),
                    self.style_of("header"),
                )
            ]
        entry = self._grid.lines[line]
        if entry.is_heading:
            return [Segment(" " * width)]
        row = entry.cells[column]
        segments = [Segment(" " * (width - GAP))] if row is None else self._run(row, width - GAP)
        mark = "*" if row in self._session.marked else " "
        segments.append(Segment(mark, self.style_of("mark")))
        if (line, column) == (self.line, self.column):
            cursor = self.style_of("cursor" if self.has_focus else "cursor-blurred")
            segments = [Segment(text, (tone or Style.null()) + cursor) for text, tone, _ in segments]
        segments.append(Segment(" " * (GAP - 1)))
        return segments

    def _run(self, row: int, width: int) -> list[Segment]:
        flags, coverage = self._session.flags[row], self._session.coverage[row]
        if self.quantity:
            text = self.quantity.text(self._session.rows[row].report, "." if self._ascii else "·")
            return [Segment(text.rjust(width), self._number_style(flags, coverage))]
        text = self._verdicts.get((flags, coverage), "")
        if not text:
            text = cell_text(letters_of(flags), letters_of(coverage), ascii_only=self._ascii)
            self._verdicts[flags, coverage] = text
        tone = self.style_of("bad" if flags else "good" if coverage else "dim")
        dim = self.style_of("dim")
        return [
            *(Segment(sign, tone if place == 0 or sign.isalpha() else dim) for place, sign in enumerate(text)),
            Segment(" " * (width - CELL)),
        ]

    def _number_style(self, flags: int, coverage: int) -> Style:
        from fa_tui.session import BITS

        if self.quantity is None or not self.quantity.letter:
            return self.style_of("text")
        bit = BITS[self.quantity.letter]
        return self.style_of("bad" if flags & bit else "text" if coverage & bit else "dim")

    def _count(self, line: int) -> str:
        return count_text(self._grid.lines[line], self._session)

    # Actions.

    def action_mark(self) -> None:
        """Mark or unmark the run under the cursor."""
        if self.row is not None:
            self._session.toggle_mark(self.row)
            self.refresh_cells([(self.line, self.column)])
            self.post_message(self.Marked())

    def action_mark_all(self) -> None:
        """Mark every run that can be measured and is not yet; or unmark all."""
        session = self._session
        open_runs = [row for row in session.measurable(self._grid.places) if not session.coverage[row]]
        session.marked = set() if session.marked else set(open_runs)
        self.refresh()
        self.post_message(self.Marked())

    def action_show_next(self, step: int) -> None:
        """Show the next quantity; after the last one the verdict letters again."""
        choices: list[Quantity | None] = [None, *QUANTITIES]
        self.show(choices[(choices.index(self.quantity) + step) % len(choices)])

    def show(self, quantity: Quantity | None) -> None:
        """Show a quantity per run, or the verdict letters (None)."""
        self.quantity = quantity
        self._set_widths()
        self.post_message(self.ShowsChanged(quantity))


_COUNT_WIDTH = 12


def count_text(line: GridLine, session: Session) -> str:
    """``1/3 MIXED``: how many of a line's measured runs are walked back, and whether they disagree."""
    measured = [row for row in line.runs() if session.coverage[row]]
    if not measured:
        return "-"
    walked = sum(1 for row in measured if session.flags[row])
    return f"{walked}/{len(measured)}" + (" MIXED" if 0 < walked < len(measured) else "")


def _clip(text: str, width: int, ascii_only: bool) -> str:
    """Text cut to a width from the left, the end of a name being what tells runs apart."""
    if len(text) <= width:
        return text
    mark = "~" if ascii_only else "…"
    return mark + text[len(text) - width + 1 :]
