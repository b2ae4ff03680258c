"""The four diagnostics of a run as a table, and what else is known about their numbers.

  diagnostic              number  fires if  how far        95 % interval
✗ a growth per block       2043×  > 50×     40.9× over     1993 to 2101
✗ b deepest ‖g_L‖        4.17e-9  < 1e-7    24× under      4.1e-9 to 4.3e-9
✓ c drift cosine          +0.047  > 0.3     0.253 below    +0.012 to +0.081
✗ d margin over frozen  -3.83 pp  < 2 pp    5.83 pp under  -4.95 to -2.71
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fa_core.report.cause_text import floor_text
from fa_core.report.diagnostic_record import UNMEASURED, DiagnosticRecord, record_of
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.diagnostics import BOUND, DIAGNOSTICS, PROXY, Diagnostic
from fa_core.report.notes import basis_text
from fa_core.report.numbers import brief
from fa_core.report.quantities import JUDGED
from fa_tui.views.columns import peak_block
from fa_tui.views.fitted import fitted
from fa_tui.views.glyphs import Glyphs
from fa_tui.views.text import cut, padded, padded_left, width_of
from fa_tui.views.words import with_keys
from fa_tui.widgets.painted import Piece, Row

_HEADINGS = ("number", "fires if", "how far", "95 % interval")
_SHORTEST = 8
"""Cells of the short names: their heading has no more."""
_GAP = "  "
_BASES = {BOUND: "a lower bound", PROXY: "a proxy: of another layer"}


class TableLine(NamedTuple):
    """A diagnostic as a line of the table.

    Attributes:
        letter: of the diagnostic.
        name: of its number.
        cells: number, threshold, distance from it and interval; ``""`` without one.
        says: in place of the cells, why there is no number.
    """

    letter: str
    name: str
    cells: Sequence[str]
    says: str = ""


class _Layout(NamedTuple):
    """Widths of a table: of the names, and of each column that is shown."""

    names: int
    columns: Sequence[int]


class DiagnosticTable:
    """The four diagnostics of a run.

    Args:
        report: of the run, judged.
        width: cells to fill.
        glyphs: characters to draw with.
    """

    def __init__(self, report: DiagnosticReport, width: int, glyphs: Glyphs) -> None:
        self._report = report
        self._width = width
        self._glyphs = glyphs
        self._peak = peak_block(report.residual_norms)
        self._records = {letter: record_of(report, letter) for letter in DIAGNOSTICS}
        self._lines = list(map(self._line, self._records.values()))
        self._layout = self._fitting()

    def rows(self) -> list[Row]:
        """A line of headings, and a line for each diagnostic."""
        head = padded(f"{_GAP}diagnostic", 4 + self._layout.names)
        head += self._columns(_HEADINGS)
        rows: list[Row] = [[(head.rstrip(), "dim")]]
        for line in self._lines:
            rows.append(self._row(line))
        return rows

    def remarks(self) -> Iterator[tuple[str, str]]:
        """What has no room in the table, as texts with tones."""
        report = self._report
        for letter, record in self._records.items():
            if letter == "b" and letter in report.flags:
                yield f"cause of b: {floor_text(report)}", "note"
            basis = basis_text(report, letter)
            more = list(record.remarks)
            if basis:
                more.insert(0, _BASES.get(basis, basis))
            if letter == "a" and self._peak is not None:
                more.insert(0, f"most in block {self._peak}→{self._peak + 1}")
            if self._is_cut(record):
                more.append(with_keys(record.reason))
            interval = self._interval(letter)
            if interval and len(self._layout.columns) < len(_HEADINGS):
                more.append(f"95 % interval {interval}")
            if more:
                yield f"{letter}: {'; '.join(more)}", "dim"

    def _line(self, record: DiagnosticRecord) -> TableLine:
        letter = record.letter
        quantity = JUDGED[letter]
        value = quantity.of(self._report)
        if record.reason or value is None:
            reason = with_keys(record.reason)
            if record.state == UNMEASURED:
                reason = f"{UNMEASURED}: {reason}"
            return TableLine(letter, quantity.words, (), reason)
        number = f"{quantity.text(value)}{quantity.suffix}"
        if letter in self._report.kinds:
            number += "?"
        rule = self._rule(DIAGNOSTICS[letter])
        cells = (number, rule, record.brief_distance, self._interval(letter))
        return TableLine(letter, quantity.words, cells)

    def _rule(self, one: Diagnostic) -> str:
        limit = brief(one.limit(self._report.thresholds))
        return f"{one.sign} {limit}{one.quantity.suffix}"

    def _interval(self, letter: str) -> str:
        """The interval of the number; ``""`` without one."""
        ends = self._report.interval(letter)
        return " to ".join(map(JUDGED[letter].text, ends or ()))

    def _fitting(self) -> _Layout:
        """The layout with the most words that fits."""
        full = max(width_of(self._glyphs.say(line.name)) for line in self._lines)
        columns = list(self._column_widths())
        gapped = [len(_GAP) + column for column in columns]
        names, shown = fitted(full, gapped, self._width - 4, least=_SHORTEST)
        if names < full:
            names = _SHORTEST
        return _Layout(names, [columns[place] for place in shown])

    def _column_widths(self) -> Iterator[int]:
        for place, heading in enumerate(_HEADINGS):
            cells = [line.cells[place] for line in self._lines if line.cells]
            widest = max(map(width_of, cells), default=0)
            if widest or place < len(_HEADINGS) - 1:
                yield max(widest, len(heading))

    def _columns(self, cells: Sequence[str]) -> str:
        """Cells as wide as their columns; numbers stand at the right."""
        text = ""
        for place, (cell, width) in enumerate(zip(cells, self._layout.columns, strict=False)):
            cell = self._glyphs.say(cell)
            text += _GAP + (padded(cell, width) if place else padded_left(cell, width))
        return text

    def _row(self, line: TableLine) -> Row:
        name = line.name
        if width_of(self._glyphs.say(name)) > self._layout.names:
            name = JUDGED[line.letter].label
        sign, tone = self._sign(line.letter)
        lead = padded(self._glyphs.say(f"{line.letter} {name}"), 2 + self._layout.names)
        said = self._columns(line.cells)
        if line.says:
            room = self._width - 2 - width_of(lead)
            said = cut(_GAP + self._glyphs.say(line.says), room, self._glyphs.ellipsis)
        text_tone = "dim"
        if line.cells:
            text_tone = "text"
        return [(f"{sign} ", tone), (lead, text_tone), (said.rstrip(), text_tone)]

    def _is_cut(self, record: DiagnosticRecord) -> bool:
        line = self._lines["abcd".index(record.letter)]
        taken = 4 + self._layout.names + len(_GAP) + width_of(self._glyphs.say(line.says))
        return bool(line.says) and taken > self._width

    def _sign(self, letter: str) -> Piece:
        """A diagnostic's glyph and tone."""
        report, glyphs = self._report, self._glyphs
        if letter in report.undecided:
            return glyphs.undecided, "warn"
        if letter in report.flags:
            return glyphs.fires, "bad"
        if letter in report.coverage:
            return glyphs.passes, "good"
        return glyphs.unmeasured, "dim"
