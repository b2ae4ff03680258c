"""Runs side by side: one column per run, one line per layer, bars on one shared log scale.

A few columns are on screen at a time; what compares the runs (ratio, mean, where they part) is of
all of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from textual.binding import Binding
from textual.message import Message

from fa_core.numbers import short
from fa_core.report import DiagnosticReport
from fa_tui.session import Session
from fa_tui.views import comparison
from fa_tui.views.columns import peak_block
from fa_tui.views.glyphs import Glyphs
from fa_tui.views.scale import Scale
from fa_tui.views.text import cut, cut_middle, cut_start, padded, width_of
from fa_tui.views.words import place_label
from fa_tui.widgets.painted import Row
from fa_tui.widgets.run_cells import verdict_row
from fa_tui.widgets.table import LineTable


def half_bar(fraction: float, cells: int, glyphs: Glyphs) -> str:
    """A bar of half cells: the smallest is one half.

    >>> from fa_tui.views.glyphs import UNICODE
    >>> half_bar(0.5, 3, UNICODE), half_bar(0.0, 3, UNICODE)
    ('━╸', '╸')
    """
    whole, half = glyphs.plateau_passing, glyphs.say("╸")
    halves = max(1, round(fraction * 2 * cells))
    return whole * (halves // 2) + half * (halves % 2)


def shortened(name: str, end: str, width: int, glyphs: Glyphs) -> str:
    """A name cut so that its end, which distinguishes it from others, still fits.

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
    beginning = cut(name, max(len(ellipsis), width - width_of(end)), ellipsis)
    return cut(beginning + end, width)


SIDE_BY_SIDE = 6
"""Runs on screen at a time: more columns than that cannot be read."""

_LABEL = 14
_NUMBER = 9
_RUN_MOST = 36
_NAME_MOST = 18
"""Cells of a run's name, its gap included, that go before its mean."""
_RATIO = 11
_SPREAD = 19
_MANY = 5
"""Runs whose bars go before their mean."""
_BAR_LEAST = 4
"""Shorter bars, of half cells, cannot be compared."""
_DIGITS, _DIGITS_WITHOUT_BARS = 3, 4


class Scales(NamedTuple):
    """The scales that bars are drawn on: of ‖h‖, of ‖g‖."""

    h: Scale | None
    g: Scale | None


class CompareView(LineTable):
    """Compares runs; posts `LineTable.Moved`, and `Turned` when other runs come on screen.

    Args:
        session: the runs and what judges them.

    Attributes:
        lines: what is compared, line by line.
        reports: the runs on screen, judged.
        window: which of the runs are on screen.
        bar_cells: how long a bar may be; 0 where there is no room for bars.
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
        self._session = session
        self._rows: Sequence[int] = ()
        self._labels: Sequence[tuple[str, str]] = ()
        self.window = comparison.Window.on(0, SIDE_BY_SIDE)
        self.reports: list[DiagnosticReport] = []
        self.lines: list[comparison.ComparedLine] = []
        self._scales = Scales(None, None)
        self._numbered = self._averaged = False
        self.bar_cells = 0

    def compare(
        self, rows: Sequence[int], labels: Sequence[tuple[str, str]], scales: Scales
    ) -> None:
        """Show these runs (indices), named so, with bars on these scales; as far to the right as
        before."""
        self._rows = rows
        self._labels = labels
        self._scales = scales
        self.lines = []
        if rows:
            reports = [self._session.rows[row].report for row in rows]
            self.lines = comparison.compared_lines(reports, self._session.diverges_at)
        self._averaged = len(rows) > 1 and comparison.is_one_network(self._session, rows)
        self._see(comparison.Window.on(len(rows), SIDE_BY_SIDE, self.window.first))

    def _see(self, window: comparison.Window) -> None:
        self.window = window
        self.judge()
        self.refresh_bindings()

    def number_columns(self, numbered: bool) -> None:
        """Lead the runs' names by numbers, or not."""
        if numbered != self._numbered:
            self._numbered = numbered
            self._fit()

    def judge(self) -> None:
        """Show the runs as the session's thresholds judge them now."""
        session = self._session
        seen = self._rows[self.window.first : self.window.end]
        self.reports = [
            session.rows[row].report.with_thresholds(session.thresholds) for row in seen
        ]
        self._fit()

    def _fit(self) -> None:
        """Widths: first the runs and the ratio, then their mean if names stay whole, then bars
        worth drawing.

        Of many runs, bars come before the mean. Different networks have none.
        """
        count = self.window.size
        if not count:
            self.set_widths(_LABEL, [])
            return
        more = []
        if count > 1:
            more.append(_RATIO)
        room = self.view.width - _LABEL - sum(more)
        needed = with_bar = _NUMBER + 2 + _BAR_LEAST
        if count < _MANY or room < count * with_bar:
            needed = _NUMBER
        named = max(width_of(self._heading(column, _RUN_MOST)) for column in range(count)) + 1
        needed = max(needed, min(named, _NAME_MOST))
        if self._averaged and room - _SPREAD >= count * needed:
            more.append(_SPREAD)
            room -= _SPREAD
        each = max(_NUMBER, min(_RUN_MOST, room // count))
        had = self.bar_cells
        self.bar_cells = max(0, each - _NUMBER - 2)
        if self.bar_cells < _BAR_LEAST:
            self.bar_cells = 0
        if bool(had) != bool(self.bar_cells):
            self.refresh_bindings()
        self.set_widths(_LABEL, [each] * count + more)

    def on_resize(self) -> None:
        self._fit()

    @property
    def under_cursor(self) -> tuple[comparison.ComparedLine, int | None] | None:
        """The line under the cursor, and which of the runs (None right of them)."""
        if not self.lines:
            return None
        run = None
        if self.column < self.window.size:
            run = self.window.first + self.column
        return self.lines[self.line], run

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """There are others to turn to only where they do not fit."""
        if action != "turn":
            return True
        if parameters == (1,):
            return self.window.end < self.window.total
        return self.window.first > 0

    def action_turn(self, pages: int) -> None:
        """Show the runs after these, or before."""
        self._slide(pages * self.window.size)

    def action_cursor(self, down: int, right: int) -> None:
        last = self.window.size - 1 if right > 0 else 0
        if not right or self.column != last or not self._slide(right):
            super().action_cursor(down, right)

    def _slide(self, step: int) -> bool:
        """Show the runs some places further; False at the end of them."""
        window = self.window.moved(step)
        if window == self.window:
            return False
        self._see(window)
        self.post_message(self.Turned())
        return True

    def landmarks(self) -> list[int]:
        """Lines worth going to: the first of each section, where the runs part, where one grows
        most."""
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
        """Go to the next line worth going to, or the last one before."""
        ahead = [line for line in self.landmarks() if (line - self.line) * direction > 0]
        if ahead:
            self.move_to(ahead[0 if direction > 0 else -1])

    def line_count(self) -> int:
        return len(self.lines)

    def rests_on(self, line: int) -> bool:
        return self.lines[line].kind != "heading"

    def heading(self, line: int) -> Row | None:
        entry = self.lines[line]
        if entry.kind != "heading":
            return None
        text = self._glyphs.say(f" {entry.label}")
        scale = None
        if self.bar_cells:
            scale = self._scale_of(self.lines[line + 1].kind)
        if scale is not None:
            low = scale.tick(scale.lo, self._glyphs)
            high = scale.tick(scale.hi, self._glyphs)
            text += f"   (bars {low}{self._glyphs.ellipsis}{high})"
        return [(text, "source")]

    def frozen(self, line: int | None) -> Row:
        if line is None:
            return [(" " * _LABEL, "head")]
        label = self._glyphs.say(f" {self.lines[line].label}")
        return [(padded(cut(label, _LABEL - 1), _LABEL), "dim")]

    def cell(self, line: int | None, column: int) -> Row:
        width = self.width_of(column)
        if line is None:
            return [(padded(self._heading(column, width - 1), width), "head")]
        entry = self.lines[line]
        if column < self.window.size:
            return self._run(entry, column)
        text, tone = comparison.spread_words(entry), "dim"
        if column == self.window.size:
            text, tone = self._ratio(entry)
        text = cut(self._glyphs.say(text), width - 1, self._glyphs.ellipsis)
        return [(text.ljust(width - 1), tone)]

    def _heading(self, column: int, width: int) -> str:
        """A column's heading; the outer ones of the runs show that there are more."""
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
        if self._numbered:
            before += f"{column + 1} "
        name, end = self._labels[window.first + column]
        room = width - len(before) - len(after)
        return before + shortened(name, end, room, self._glyphs) + after

    def subheader(self, column: int) -> Row:
        width, window = self.width_of(column), self.window
        text = ""
        if column < window.size:
            row = self._session.rows[self._rows[window.first + column]]
            text = cut_middle(self._glyphs.say(place_label(row)), width - 1, self._glyphs.ellipsis)
        return [(padded(text, width), "source")]

    def _run(self, entry: comparison.ComparedLine, column: int) -> Row:
        place = self.window.first + column
        if entry.kind == "verdict":
            return verdict_row(self._session, self._rows[place], self._glyphs)
        value = entry.spread.values[place] if entry.spread else None
        if value is None:
            return [(self._glyphs.unmeasured.ljust(_NUMBER), "dim")]
        room = self.width_of(column) - 1 - self.bar_cells
        text, fires = self._written(entry, column, value, room)
        bar, scale = "", self._scale_of(entry.kind)
        if self.bar_cells and scale is not None and math.isfinite(value) and value > 0:
            bar = half_bar(scale.fraction(value), self.bar_cells, self._glyphs)
        number = text.ljust(_NUMBER + bool(self.bar_cells))
        return [(number, "bad" if fires else "text"), (bar, "accent")]

    def _scale_of(self, kind: str) -> Scale | None:
        return {"h": self._scales.h, "g": self._scales.g}.get(kind)

    def _written(
        self, entry: comparison.ComparedLine, column: int, value: float, room: int
    ) -> tuple[str, bool]:
        """A value as text, with as many digits as there is room for, and whether a diagnostic fires
        on it.

        The largest value of a line is marked, and the smallest.
        """
        report = self.reports[column]
        place = self.window.first + column
        largest, smallest = comparison.extremes(entry) or (None, None)
        end = ""
        if place == largest:
            end = self._glyphs.say("↑")
        elif place == smallest:
            end = self._glyphs.say("↓")
        if entry.kind == "number" and entry.quantity:
            letter = entry.quantity.letter
            text = entry.quantity.say(value)
            if place in entry.assumed:
                text += "?"
            return text + end, bool(letter and letter in report.flags)
        before = ""
        fires = not math.isfinite(value)
        if entry.kind == "growth":
            before = self._glyphs.say("×")
            if entry.label == comparison.block_name(_peak(report)):
                end += f" {self._glyphs.grows}"
            fires = not value <= report.thresholds.h_norm_explosion_ratio
        digits = _DIGITS_WITHOUT_BARS
        if self.bar_cells:
            digits = _DIGITS
        text = f"{before}{short(value, digits)}{end}"
        while digits > 1 and len(text) > room:
            digits -= 1
            text = f"{before}{short(value, digits)}{end}"
        return text, fires

    def _ratio(self, entry: comparison.ComparedLine) -> tuple[str, str]:
        """How far the runs are apart, and the tone of it."""
        ratio = entry.spread.ratio if entry.spread else None
        if ratio is None:
            return "", "text"
        text = f"×{short(ratio)}"
        if entry.parts:
            text += f" {self._glyphs.off_left}"
        return text, "warn" if ratio > self._session.diverges_at else "dim"


def _peak(report: DiagnosticReport) -> int | None:
    return peak_block(report.residual_norms)
