"""Comparison of runs: a column per run, a line per layer.

A few columns are on screen at a time; ratio, mean and divergence are those of all runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from textual.binding import Binding
from textual.message import Message

from fa_core.analysis.seeds import PARTS_AT
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.numbers import short
from fa_core.report.quantities import Quantity
from fa_tui.session import Session
from fa_tui.views import comparison
from fa_tui.views.columns import NUMBER_CELLS, Write, one_format, peak_block, written
from fa_tui.views.fitted import fitted
from fa_tui.views.glyphs import Glyphs
from fa_tui.views.looks import Look
from fa_tui.views.text import cut, cut_middle, cut_start, padded, width_of
from fa_tui.views.words import place_label
from fa_tui.widgets.painted import Row
from fa_tui.widgets.run_cells import verdict_row
from fa_tui.widgets.table import LineTable


def shortened(name: str, end: str, width: int, glyphs: Glyphs) -> str:
    """A name cut so that its distinguishing end still fits.

    >>> from fa_tui.views.glyphs import UNICODE
    >>> shortened("state_bridge", " s42", 12, UNICODE)
    'state_b… s42'
    >>> shortened("dfa", " s42 d=128 λ=0.1", 12, UNICODE)
    '…d=128 λ=0.1'
    """
    name = glyphs.say(name)
    end = glyphs.say(end)
    ellipsis = glyphs.ellipsis
    if width_of(end) > width > len(ellipsis):
        return cut_start(end, width, ellipsis)
    room = max(len(ellipsis), width - width_of(end))
    return cut(cut(name, room, ellipsis) + end, width)


SIDE_BY_SIDE = 6
"""Runs on screen at a time."""

_LABEL = 14
_NUMBER = 9
_RUN_MOST = 36
_NAME_MOST = 20
"""Cells of a run's name, its gap included, with precedence over the mean."""
_RATIO = 11
_SPREAD = 19
_SIGNS = 3
"""Cells of the signs behind a number, and of the gap."""


class CompareView(LineTable):
    """Compares runs; posts `LineTable.Moved`, and `Turned` when other runs come on screen.

    Args:
        session: the runs and thresholds.

    Attributes:
        lines: of the comparison.
        reports: judged reports of the runs on screen.
        window: the runs on screen.
    """

    BINDINGS = [
        Binding("left_square_bracket", "landmark(-1)", "Last part", show=False),
        Binding(
            "right_square_bracket",
            "landmark(1)",
            "Next part",
            key_display="]",
            tooltip="where the runs diverge, ...",
        ),
        Binding(
            "less_than_sign,shift+left",
            "turn(-1)",
            "Runs before",
            key_display="<",
            tooltip="the runs before",
        ),
        Binding(
            "greater_than_sign,shift+right",
            "turn(1)",
            "Runs after",
            key_display=">",
            tooltip="the runs after",
        ),
    ]

    header = 2

    class Turned(Message):
        """Other runs are on screen."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session
        self._rows: Sequence[int] = ()
        self._labels: Sequence[tuple[str, str]] = ()
        self.window = comparison.Window.on(0, SIDE_BY_SIDE)
        self.reports: list[DiagnosticReport] = []
        self.lines: list[comparison.ComparedLine] = []
        self._formats: dict[str, Write] = {}
        self._averaged = False
        self._looks: Sequence[Look] = ()

    def compare(
        self,
        rows: Sequence[int],
        labels: Sequence[tuple[str, str]],
        looks: Sequence[Look],
    ) -> None:
        """Compare some runs; the window stays.

        Args:
            rows: indices.
            labels: names of the runs.
            looks: of the runs.
        """
        self._looks = looks
        self._rows = rows
        self._labels = labels
        self.lines = []
        if rows:
            reports = [self.session.rows[row].report for row in rows]
            self.lines = comparison.compared_lines(reports)
        self._averaged = len(rows) > 1 and comparison.is_one_network(self.session, rows)
        self._see(comparison.Window.on(len(rows), SIDE_BY_SIDE, self.window.first))

    def _format_of(self, kind: str) -> Write:
        """How all numbers of a section are written."""
        numbers: list[float | None] = []
        for line in self.lines:
            if line.kind == kind and line.spread:
                numbers += line.spread.values
        return one_format(numbers, min(NUMBER_CELLS, self.width_of(0) - _SIGNS))

    def _see(self, window: comparison.Window) -> None:
        self.window = window
        self.judge()
        self.refresh_bindings()

    def judge(self) -> None:
        """Judge the runs on screen by the session's thresholds."""
        session = self.session
        seen = self._rows[self.window.first : self.window.end]
        reports = [session.rows[row].report for row in seen]
        self.reports = [report.with_thresholds(session.thresholds) for report in reports]
        self._fit()

    def _fit(self) -> None:
        """Set the widths: runs and ratio, then the mean if names stay whole.

        Different networks have no mean.
        """
        count = self.window.size
        if not count:
            self.set_widths(_LABEL, [])
            return
        headings = [self._heading(column, _RUN_MOST) for column in range(count)]
        named = min(max(map(width_of, headings)) + 1, _NAME_MOST)
        columns = [count * _NUMBER]
        if count > 1:
            columns.append(_RATIO)
        if self._averaged:
            columns.append(_SPREAD + count * max(0, named - _NUMBER))
        _, shown = fitted(_LABEL, columns, self.view.width)
        more = [_RATIO, _SPREAD][: max(0, len(shown) - 1)]
        room = self.view.width - _LABEL - sum(more)
        width = max(_NUMBER, min(_RUN_MOST, room // count))
        self.set_widths(_LABEL, [width] * count + more)
        self._formats = {kind: self._format_of(kind) for kind in ("h", "growth", "g")}

    def on_resize(self) -> None:
        self._fit()

    @property
    def under_cursor(self) -> tuple[comparison.ComparedLine, int | None] | None:
        """The line under the cursor, and the run (None right of the runs)."""
        if not self.lines:
            return None
        run = None
        if self.column < self.window.size:
            run = self.window.first + self.column
        return self.lines[self.line], run

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer turning only if there are more runs on that side."""
        if action != "turn":
            return True
        if parameters == (1,):
            return self.window.end < self.window.total
        return self.window.first > 0

    def action_turn(self, pages: int) -> None:
        """Show the next or previous runs."""
        self._slide(pages * self.window.size)

    def action_cursor(self, down: int, right: int) -> None:
        last = self.window.size - 1 if right > 0 else 0
        if not right or self.column != last or not self._slide(right):
            super().action_cursor(down, right)

    def see_run(self, place: int) -> None:
        """Put the cursor on a run."""
        if place not in range(self.window.first, self.window.end):
            self._slide(place - self.window.first)
        self.move_to(self.line, place - self.window.first)

    def _slide(self, step: int) -> bool:
        """Move the window by some runs; False at the end."""
        window = self.window.moved(step)
        if window == self.window:
            return False
        self._see(window)
        self.post_message(self.Turned())
        return True

    def landmarks(self) -> list[int]:
        """Landmarks: first lines of sections, divergences, and the peaks of growth."""
        peaks = {comparison.block_name(_peak(report)) for report in self.reports}
        landmarks = []
        is_first = True
        for at, line in enumerate(self.lines):
            is_peak = line.kind == "growth" and line.label in peaks
            if is_first or line.parts or is_peak:
                landmarks.append(at)
            is_first = line.kind == "heading"
        return landmarks

    def action_landmark(self, direction: int) -> None:
        """Go to the next or previous landmark."""
        landmarks = self.landmarks()[::direction]
        ahead = [line for line in landmarks if (line - self.line) * direction > 0]
        if ahead:
            self.move_to(ahead[0])

    def line_count(self) -> int:
        return len(self.lines)

    def rests_on(self, line: int) -> bool:
        return self.lines[line].kind != "heading"

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
            heading = padded(self._heading(column, width - 1), width)
            tone = "head"
            if column < self.window.size:
                tone = f"{self._looks[self.window.first + column].style}+bold"
            return [(heading, tone)]
        entry = self.lines[line]
        if column < self.window.size:
            return self._run(entry, column)
        if column == self.window.size:
            text, tone = self._ratio(entry)
        else:
            text, tone = comparison.spread_words(entry), "dim"
        room = width - 1
        text = cut(self._glyphs.say(text), room, self._glyphs.ellipsis)
        return [(text.ljust(room), tone)]

    def _heading(self, column: int, width: int) -> str:
        """A column's heading; the outer ones of the runs have signs if there are more."""
        window = self.window
        if column == window.size:
            return shortened("max/min", "", width, self._glyphs)
        if column > window.size:
            return shortened("mean ×/÷ or ±", "", width, self._glyphs)
        before = after = ""
        if column == 0 and window.first:
            before = f"{self._glyphs.off_left} "
        if column == window.size - 1 and window.end < window.total:
            after = f" {self._glyphs.off_right}"
        before += self._looks[window.first + column].mark
        name, end = self._labels[window.first + column]
        room = width - len(before) - len(after)
        if width_of(name + end) < room:
            before += " "
            room -= 1
        return before + shortened(name, end, room, self._glyphs) + after

    def subheader(self, column: int) -> Row:
        width = self.width_of(column)
        text = ""
        if column < self.window.size:
            run = self._rows[self.window.first + column]
            place = self._glyphs.say(place_label(self.session.rows[run]))
            text = cut_middle(place, width - 1, self._glyphs.ellipsis)
        return [(padded(text, width), "source")]

    def _run(self, entry: comparison.ComparedLine, column: int) -> Row:
        place = self.window.first + column
        if entry.kind == "verdict":
            return verdict_row(self.session, self._rows[place], self._glyphs)
        value = None
        if entry.spread:
            value = entry.spread.values[place]
        if value is None:
            return [(self._glyphs.unmeasured.ljust(_NUMBER), "dim")]
        text, fires = self._written(entry, column, value)
        return [(text.ljust(_NUMBER), "bad" if fires else "text")]

    def _written(
        self, entry: comparison.ComparedLine, column: int, value: float
    ) -> tuple[str, bool]:
        """A value in the format of its section, and whether a diagnostic fires on it.

        The largest and the smallest value of a line are marked.
        """
        report = self.reports[column]
        place = self.window.first + column
        largest, smallest = comparison.extremes(entry) or (None, None)
        end = ""
        if place == largest:
            end = self._glyphs.say("↑")
        elif place == smallest:
            end = self._glyphs.say("↓")
        if entry.kind == "number" and entry.quantity and entry.spread:
            letter = entry.quantity.letter
            text = _said(entry.quantity, value, entry.spread.values)
            if place in entry.assumed:
                text += "?"
            return text + end, bool(letter and letter in report.flags)
        fires = not math.isfinite(value)
        text = short(value)
        if not fires:
            text = self._formats[entry.kind](value)
        if entry.kind == "growth":
            if entry.label == comparison.block_name(_peak(report)):
                end += self._glyphs.grows
            fires = not value <= report.thresholds.h_norm_explosion_ratio
        return text + end, fires

    def _ratio(self, entry: comparison.ComparedLine) -> tuple[str, str]:
        """The ratio of largest to smallest value, and its tone."""
        if entry.spread is None or entry.spread.ratio is None:
            return "", "text"
        ratio = entry.spread.ratio
        text = f"×{short(ratio)}"
        if entry.parts:
            text += f" {self._glyphs.off_left}"
        return text, "warn" if ratio > PARTS_AT else "dim"


def _said(quantity: Quantity, value: float, values: Sequence[float | None]) -> str:
    """A number of a quantity, in the format of its line."""
    if quantity.log:
        return written(value, one_format(values, NUMBER_CELLS))
    return written(value, quantity.text)


def _peak(report: DiagnosticReport) -> int | None:
    return peak_block(report.residual_norms)
