"""Runs side by side: one column per run, one line per layer, bars on one shared log scale."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType

from fa_core.analysis.parting import PARTS_AT
from fa_core.report import DiagnosticReport
from fa_tui.session import BITS, Session
from fa_tui.views.comparison import ComparedLine, compared_lines
from fa_tui.widgets.detail_layers import peak_block
from fa_tui.widgets.glyphs import UNICODE, Glyphs
from fa_tui.widgets.line_table import LineTable
from fa_tui.widgets.numbers import short
from fa_tui.widgets.scale import Scale
from fa_tui.widgets.verdict_cell import verdict_segments

_LABEL = 14
_NUMBER = 9
_RUN_LEAST, _RUN_MOST = 9, 36
_RATIO = 11
_SPREAD = 19


class Scales(NamedTuple):
    """The scales that bars are drawn on: of ‖h‖, of ‖g‖."""

    h: Scale | None
    g: Scale | None


class CompareView(LineTable):
    """Compares runs; posts `LineTable.Moved`.

    Args:
        session: the runs and what judges them.
        glyphs: characters to draw with.
    """

    help_text = f"""\
Runs side by side: the marked ones (space marks in the matrix), or one method over its seeds.
Bars of all columns are on one logarithmic scale, so their lengths can be compared.

  max/min      the largest of the line over its smallest; more than ×{PARTS_AT:g} stands out
  ‹ parts      the first layer at which the runs lie more than ×{PARTS_AT:g} apart
  mean ± std   over the runs (population std); left out where there is no room
  ▲            the block in which a run grows most; red where (a) fires on it

  n p          the next method, the one before
  ↑ ↓ ← →      move (or h j k l)
  [ ]          to where the runs part, where one grows most, the next section
  z            bars on the scale of all runs, so that flipping compares methods, or of these alone
  a b c d      move a threshold (there p means presets); Esc comes back
"""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left_square_bracket", "landmark(-1)", "Last part", show=False),
        Binding(
            "right_square_bracket", "landmark(1)", "Next part", key_display="]", tooltip="where the runs part, ..."
        ),
    ]

    def __init__(self, session: Session, *, glyphs: Glyphs = UNICODE, id: str | None = None) -> None:
        super().__init__(id=id)
        self._session = session
        self._glyphs = glyphs
        self._rows: Sequence[int] = ()
        self._labels: Sequence[tuple[str, str]] = ()
        self._reports: list[DiagnosticReport] = []
        self._lines: list[ComparedLine] = []
        self._scales = Scales(None, None)
        self._numbered = False

    def compare(self, rows: Sequence[int], labels: Sequence[tuple[str, str]], scales: Scales) -> None:
        """Show these runs (indices), named so, with bars on these scales."""
        self._rows, self._labels, self._scales = rows, labels, scales
        self.judge()

    def number_columns(self, numbered: bool) -> None:
        """Lead the runs' names by numbers, or not."""
        if numbered != self._numbered:
            self._numbered = numbered
            self.refresh()

    def judge(self) -> None:
        """Show the runs as the session's thresholds judge them now."""
        session = self._session
        self._reports = [session.rows[row].report.with_thresholds(session.thresholds) for row in self._rows]
        self._lines = compared_lines(self._reports)
        self._fit()

    def _fit(self) -> None:
        """Widths: first the runs, then the ratio, then mean ± std if there is room for all of it."""
        count = len(self._rows)
        if not count:
            return
        room = self.view.width - _LABEL - (_RATIO if count > 1 else 0)
        spread = _SPREAD if count > 1 and room - _SPREAD >= count * (_RUN_LEAST + 2) else 0
        each = max(_RUN_LEAST, min(_RUN_MOST, (room - spread) // count))
        self.set_widths(_LABEL, [each] * count + ([_RATIO] if count > 1 else []) + ([spread] if spread else []))

    def on_resize(self) -> None:
        self._fit()

    @property
    def reports(self) -> Sequence[DiagnosticReport]:
        """The compared runs, judged."""
        return self._reports

    @property
    def lines(self) -> Sequence[ComparedLine]:
        """What is compared, line by line."""
        return self._lines

    @property
    def under_cursor(self) -> tuple[ComparedLine, int | None] | None:
        """The line under the cursor, and which run (None right of them)."""
        if not self._lines:
            return None
        return self._lines[self.line], self.column if self.column < len(self._rows) else None

    def landmarks(self) -> list[int]:
        """Lines worth going to: the first of each section, where the runs part, where one grows most."""
        first = {number + 1 for number, line in enumerate(self._lines) if line.kind == "heading"}
        parting = {number for number, line in enumerate(self._lines) if line.parts}
        peaks = {f"{block}→{block + 1}" for report in self._reports if (block := _peak(report)) is not None}
        growing = {n for n, line in enumerate(self._lines) if line.kind == "growth" and line.label in peaks}
        return sorted({0} | first | parting | growing)

    def action_landmark(self, direction: int) -> None:
        """Go to the next line worth going to, or the last one before."""
        ahead = [line for line in self.landmarks() if (line > self.line if direction > 0 else line < self.line)]
        if ahead:
            self.move_to(ahead[0] if direction > 0 else ahead[-1])

    def line_count(self) -> int:
        return len(self._lines)

    def rests_on(self, line: int) -> bool:
        return self._lines[line].kind != "heading"

    def heading(self, line: int) -> list[Segment] | None:
        entry = self._lines[line]
        if entry.kind != "heading":
            return None
        scale = self._scale_of(self._lines[line + 1].kind)
        bars = f"   (bars {short(scale.lo)}…{short(scale.hi)})" if scale else ""
        return [Segment(self._glyphs.say(f" {entry.label}{bars}"), self.style_of("heading"))]

    def frozen(self, line: int | None) -> list[Segment]:
        if line is None:
            return [Segment(" " * _LABEL, self.style_of("header"))]
        label = self._glyphs.say(f" {self._lines[line].label}")
        return [Segment(label[: _LABEL - 1].ljust(_LABEL), self.style_of("dim"))]

    def cell(self, line: int | None, column: int) -> list[Segment]:
        width = self.width_of(column)
        runs = len(self._rows)
        if line is None:
            names = [*self._labels, ("max/min", ""), ("mean ± std", "")]
            number = f"{column + 1} " if self._numbered and column < runs else ""
            text = number + shortened(*names[column], width - 1 - len(number), self._glyphs)
            return [Segment(text.ljust(width), self.style_of("header"))]
        entry = self._lines[line]
        if column < runs:
            segments = self._run(entry, column, width)
        elif column == runs:
            segments = self._ratio(entry, width)
        else:
            segments = self._spread(entry, width)
        if (line, column) == (self.line, self.column):
            cursor = self.style_of("cursor" if self.has_focus else "cursor-blurred")
            segments = [Segment(text, cursor) for text, _, _ in segments[:-1]] + segments[-1:]
        return segments

    def _run(self, entry: ComparedLine, column: int, width: int) -> list[Segment]:
        blank = self.style_of("text")
        if entry.kind == "verdict":
            row = self._rows[column]
            cell = verdict_segments(self._session.flags[row], self._session.coverage[row], self, self._glyphs)
            return [*cell, Segment(" " * (width - 5), blank)]
        value = entry.spread.values[column] if entry.spread else None
        if value is None:
            return [Segment(self._glyphs.unmeasured.ljust(_NUMBER), self.style_of("dim")), _gap(width - _NUMBER, blank)]
        text, fires = self._written(entry, column, value)
        number = Segment(text.ljust(_NUMBER), self.style_of("bad" if fires else "text"))
        room = width - _NUMBER
        scale = self._scale_of(entry.kind)
        if scale is None or room < 3 or not math.isfinite(value):
            return [number, _gap(room, blank)]
        bar = half_bar(scale.fraction(value), room - 1, self._glyphs) if value > 0 else ""
        return [number, Segment(bar, self.style_of("mark")), _gap(room - len(bar), blank)]

    def _scale_of(self, kind: str) -> Scale | None:
        return {"h": self._scales.h, "g": self._scales.g}.get(kind)

    def _written(self, entry: ComparedLine, column: int, value: float) -> tuple[str, bool]:
        """A value as text, and whether a diagnostic fires on it."""
        report = self._reports[column]
        if entry.kind == "number" and entry.quantity:
            letter = entry.quantity.letter
            return entry.quantity.text(report), bool(letter and self._session.flags[self._rows[column]] & BITS[letter])
        if entry.kind != "growth":
            return short(value), not math.isfinite(value)
        block = _peak(report)
        mark = f" {self._glyphs.grows}" if block is not None and entry.label == f"{block}→{block + 1}" else ""
        fires = not value <= report.thresholds.h_norm_explosion_ratio
        return f"{self._glyphs.say('×')}{short(value)}{mark}", fires

    def _ratio(self, entry: ComparedLine, width: int) -> list[Segment]:
        ratio = entry.spread.ratio if entry.spread else None
        if ratio is None:
            return [Segment(" " * (width - 1), self.style_of("text")), _gap(1, self.style_of("text"))]
        apart = ratio > PARTS_AT
        text = self._glyphs.say("×") + short(ratio)
        if entry.parts:
            text += f" {self._glyphs.off_left}"
        tone = self.style_of("warn" if apart else "dim")
        return [Segment(text.ljust(width - 1), tone), _gap(1, self.style_of("text"))]

    def _spread(self, entry: ComparedLine, width: int) -> list[Segment]:
        spread = entry.spread
        text = ""
        if spread is not None and spread.mean is not None:
            text = short(spread.mean) + ("" if spread.std is None else f" ± {short(spread.std)}")
        return [
            Segment(self._glyphs.say(text)[: width - 1].ljust(width - 1), self.style_of("dim")),
            _gap(1, self.style_of("text")),
        ]


def _peak(report: DiagnosticReport) -> int | None:
    return peak_block(report.residual_norms)


def half_bar(fraction: float, cells: int, glyphs: Glyphs) -> str:
    """A bar of half cells: the smallest is one half.

    >>> half_bar(0.5, 3, UNICODE), half_bar(0.0, 3, UNICODE)
    ('━╸', '╸')
    """
    whole, half = ("━", "╸") if glyphs.braille else ("=", "-")
    halves = max(1, round(fraction * 2 * cells))
    return whole * (halves // 2) + half * (halves % 2)


def shortened(name: str, end: str, width: int, glyphs: Glyphs) -> str:
    """A name cut so that its end, which tells it from others, still fits.

    >>> shortened("state_bridge", " s42", 12, UNICODE)
    'state_b… s42'
    """
    name, end = glyphs.say(name), glyphs.say(end)
    if len(name) + len(end) > width:
        name = name[: max(0, width - len(end) - len(glyphs.ellipsis))] + glyphs.ellipsis
    return (name + end)[:width]


def _gap(width: int, style: Style) -> Segment:
    return Segment(" " * max(0, width), style)
