"""Comparison of runs: a column per run, a line per layer; then the ratio and the mean of all runs.

What does not fit is scrolled to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from fa_core.analysis.seeds import PARTS_AT
from fa_core.report.numbers import short
from fa_tui.session import Session
from fa_tui.views import comparison
from fa_tui.views.columns import NUMBER_CELLS, Write, format_of, one_format, written
from fa_tui.views.grid import homes_of
from fa_tui.views.looks import Look, letter_tone
from fa_tui.views.text import cut, cut_middle, padded, told_apart, widest, width_of
from fa_tui.views.words import mark_before
from fa_tui.widgets.painted import Row
from fa_tui.widgets.run_cells import verdict_row
from fa_tui.widgets.table import LineTable

_LABEL = 14
_NUMBER = 9
_RUN_MOST = 36
_NAME_MOST = 20
"""Cells of a run's name, its gap included, with precedence over ratio and mean."""
_RATIO = 11
_SPREAD = 19
_SIGNS = 3
"""Cells of the signs behind a number, and of the gap."""


class CompareView(LineTable):
    """Compares runs; posts `LineTable.Moved`.

    Args:
        session: the runs and thresholds.

    Attributes:
        lines: of the comparison.
    """

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self._rows: Sequence[int] = ()
        self._places: Sequence[str] = ()
        self._names: Sequence[str] = ()
        self._cut: Mapping[str, str] = {}
        self.lines: list[comparison.ComparedLine] = []
        self._formats: dict[str, Write] = {}
        self._looks: Sequence[Look] = ()

    def compare(
        self,
        rows: Sequence[int],
        labels: Sequence[str],
        looks: Sequence[Look],
    ) -> None:
        """Compare some runs.

        Args:
            rows: indices.
            labels: names of the runs.
            looks: of the runs.
        """
        self._rows, self._looks = rows, looks
        self._names = list(map(self._glyphs.say, labels))
        places = homes_of([self.session.rows[row].source for row in rows])
        # one for all is in the title
        self._places = places if len({*places}) > 1 else []
        self.header = 2 if self._places else 1
        reports = [self.session.rows[row].report for row in rows]
        self.lines = comparison.compared_lines(reports) if rows else []
        self._fit()

    def _format_of(self, kind: str) -> Write:
        """How all numbers of a section are written."""
        spreads = [line.spread for line in self.lines if line.kind == kind and line.spread]
        numbers = [value for spread in spreads for value in spread.values]
        return one_format(numbers, min(NUMBER_CELLS, self.width_of(0) - _SIGNS))

    def _fit(self) -> None:
        """Set the widths: the mean is on screen if names stay whole.

        Runs that are no seeds of one method have none.
        """
        count = len(self._rows)
        if not count:
            self.set_widths(_LABEL, [])
            return
        more = [_RATIO] if count > 1 else []
        room = self.view.width - _LABEL - sum(more)
        # with its mark, and gaps
        named = min(widest(self._names) + 3, _NAME_MOST)
        if count > 1 and comparison.are_seeds(self.session, self._rows):
            more.append(_SPREAD)
            if (room - _SPREAD) // count >= named:
                room -= _SPREAD
        width = max(_NUMBER, min(_RUN_MOST, room // count))
        self._cut = told_apart(self._names, width - 2, self._glyphs.ellipsis)
        self.set_widths(_LABEL, [width] * count + more)
        self._formats = {kind: self._format_of(kind) for kind in ("h", "growth", "g")}

    def on_resize(self) -> None:
        self._fit()

    @property
    def under_cursor(self) -> tuple[comparison.ComparedLine, int | None] | None:
        """The line under the cursor, and the run (None right of the runs)."""
        if not self.lines:
            return None
        run = self.column if self.column < len(self._rows) else None
        return self.lines[self.line], run

    def line_count(self) -> int:
        return len(self.lines)

    def heading(self, line: int) -> Row | None:
        entry = self.lines[line]
        if entry.kind != "heading":
            return None
        return [(self._glyphs.say(f" {entry.label}"), "source")]

    def frozen(self, line: int | None) -> Row:
        if line is None:
            return [(" " * _LABEL, "head")]
        label = self._glyphs.say(f" {self.lines[line].label}")
        return [(padded(cut(label, _LABEL - 1), _LABEL), "dim")]

    def cell(self, line: int | None, column: int) -> Row:
        width = self.width_of(column)
        if line is None:
            heading = padded(self._heading(column, width), width)
            tone = "head"
            if column < len(self._rows):
                tone = f"{self._looks[column].style}+bold"
            return [(heading, tone)]
        entry = self.lines[line]
        if column < len(self._rows):
            return self._run(entry, column)
        if column == len(self._rows):
            text, tone = self._ratio(entry)
        else:
            text, tone = comparison.spread_words(entry), "dim"
        room = width - 1
        text = cut(self._glyphs.say(text), room, self._glyphs.ellipsis)
        return [(text.ljust(room), tone)]

    def _heading(self, column: int, width: int) -> str:
        """A column's heading; of a run its mark and name."""
        if column == len(self._rows):
            return "max/min"
        if column > len(self._rows):
            return "mean, spread"
        name = self._cut[self._names[column]]
        gap = " " if width_of(name) < width - 2 else ""
        return f"{self._looks[column].mark}{gap}{name}"

    def subheader(self, column: int) -> Row:
        width = self.width_of(column)
        text = ""
        if column < len(self._rows):
            place = self._glyphs.say(self._places[column])
            text = cut_middle(place, width - 1, self._glyphs.ellipsis)
        return [(padded(text, width), "source")]

    def _run(self, entry: comparison.ComparedLine, column: int) -> Row:
        if entry.kind == "verdict":
            return verdict_row(self.session, self._rows[column], self._glyphs)
        value = entry.spread.values[column] if entry.spread else None
        if value is None:
            return [(self._glyphs.unmeasured.ljust(_NUMBER), "dim")]
        text, tone = self._written(entry, column, value)
        return [(text.ljust(_NUMBER), tone)]

    def _written(
        self, entry: comparison.ComparedLine, column: int, value: float
    ) -> tuple[str, str]:
        """A value in the format of its section, and its tone."""
        session = self.session
        if entry.quantity and entry.spread:
            text = written(value, format_of(entry.quantity, entry.spread.values))
            row = self._rows[column]
            mark = mark_before(entry.quantity, session.rows[row].report)
            return mark + text, letter_tone(session, row, entry.quantity.letter)
        text = written(value, self._formats[entry.kind])
        tone = "text" if math.isfinite(value) else "bad"
        if entry.kind == "growth" and value > session.thresholds.h_norm_explosion_ratio:
            tone = letter_tone(session, self._rows[column], "a")
        return text, tone

    def _ratio(self, entry: comparison.ComparedLine) -> tuple[str, str]:
        """The ratio of largest to smallest value, and its tone."""
        if entry.spread is None or entry.spread.ratio is None:
            return "", "text"
        ratio = entry.spread.ratio
        text = f"×{short(ratio)}"
        if entry.parts:
            text += f" {self._glyphs.off_left}"
        return text, "warn" if ratio > PARTS_AT else "dim"
