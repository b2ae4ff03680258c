"""The four diagnostics of a run as a table, and what else is known about their numbers.

  diagnostic              number  fires if  how far        95 % interval
✗ a growth per block       2043×  > 50×     40.9× over     1993 to 2101
✗ b deepest ‖g_L‖        4.17e-9  < 1e-7    24× under      4.1e-9 to 4.3e-9
✓ c drift cosine          +0.047  > 0.3     0.253 below    +0.012 to +0.081
✗ d margin over frozen  -3.83 pp  < 2 pp    5.83 pp under  -4.95 to -2.71
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from fa_core.report.baseline import GIVE_ONE
from fa_core.report.beside import floor_text
from fa_core.report.diagnostic_record import DiagnosticRecord, records_of
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.diagnostics import BOUND, DIAGNOSTICS, NOT_MEASURED, PROXY
from fa_core.report.notes import basis_text
from fa_core.report.numbers import brief
from fa_core.report.quantities import JUDGED
from fa_core.report.report_facts import DiagnosticThresholds
from fa_tui.views.columns import peak_block
from fa_tui.views.glyphs import Glyphs
from fa_tui.views.text import cut, cut_paths, fitted, width_of
from fa_tui.views.words import mark_before
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
        value: the number; None without one.
        number: as text.
        interval: as text; ``""`` without one.
        says: in place of the cells, why there is no number.
    """

    letter: str
    name: str
    value: float | None = None
    number: str = ""
    interval: str = ""
    says: str = ""


class DiagnosticTable:
    """The four diagnostics of a run.

    Args:
        report: of the run, judged: its letters hold at all thresholds of `rows`.
        width: cells to fill.
        glyphs: characters to draw with.

    Attributes:
        columns: widths of the columns that fit.
    """

    def __init__(self, report: DiagnosticReport, width: int, glyphs: Glyphs) -> None:
        self._report = report
        self._width = width
        self._glyphs = glyphs
        self._peak = peak_block(report.residual_norms)
        self._records = records_of(report)
        self._lines = list(map(self._line, self._records))
        self._widest: Sequence[int] = ()
        self._names = 0
        self.columns: Sequence[int] = ()
        self._said: Mapping[str, str] = {}

    def rows(self, thresholds: DiagnosticThresholds) -> list[Row]:
        """A line of headings, and a line for each diagnostic.

        Args:
            thresholds: set the limits and distances.
        """
        cells = [self._cells(line, thresholds) for line in self._lines]
        self._fit(cells)
        head = f"{_GAP}diagnostic".ljust(4 + self._names) + self._text_of(_HEADINGS)
        return [[(head.rstrip(), "dim")], *map(self._row, self._lines, cells)]

    def remarks(self) -> Iterator[tuple[str, str]]:
        """What has no room in the table, as texts with tones."""
        report = self._report
        for record, line in zip(self._records, self._lines, strict=True):
            letter = record.letter
            if letter == "b" and (cause := floor_text(report)):
                yield f"cause of b: {cause}", "note"
            basis = basis_text(report, letter)
            more = list(record.remarks)
            if basis:
                more.insert(0, _BASES.get(basis, basis))
            if letter == "a" and self._peak is not None:
                more.insert(0, f"most in block {self._peak}→{self._peak + 1}")
            taken = 4 + self._names + len(_GAP) + width_of(self._glyphs.say(line.says))
            if line.says and taken > self._width:
                more.append(_reason(record))
            if line.interval and len(self.columns) < len(_HEADINGS):
                more.append(f"95 % interval {line.interval}")
            if more:
                yield f"{letter}: {'; '.join(more)}", "dim"

    def _line(self, record: DiagnosticRecord) -> TableLine:
        letter = record.letter
        quantity = JUDGED[letter]
        value = quantity.of(self._report)
        if record.reason or value is None:
            reason = _reason(record)
            if record.state == NOT_MEASURED:
                reason = f"{NOT_MEASURED}: {reason}"
            return TableLine(letter, quantity.words, says=reason)
        number = f"{mark_before(quantity, self._report)}{quantity.text(value)}{quantity.suffix}"
        interval = " to ".join(map(quantity.text, self._report.interval(letter) or ()))
        return TableLine(letter, quantity.words, value, number, interval)

    def _cells(self, line: TableLine, thresholds: DiagnosticThresholds) -> Sequence[str]:
        """Number, threshold, distance from it and interval; nothing without a number."""
        if line.value is None:
            return ()
        one = DIAGNOSTICS[line.letter]
        limit = one.limit(thresholds)
        rule = f"{one.sign} {brief(limit)}{one.quantity.suffix}"
        distance = one.how_far(line.value, limit, fires=line.letter in self._report.flags)
        return list(map(self._glyphs.say, (line.number, rule, distance, line.interval)))

    def _fit(self, cells: Sequence[Sequence[str]]) -> None:
        """Find the layout with the most words that fits."""
        widest = []
        for place, heading in enumerate(_HEADINGS):
            width = max((len(own[place]) for own in cells if own), default=0)
            if width or place < len(_HEADINGS) - 1:
                widest.append(max(width, len(heading)))
        if widest == self._widest:
            return
        self._widest = widest
        full = max(width_of(self._glyphs.say(line.name)) for line in self._lines)
        gapped = [len(_GAP) + width for width in widest]
        names, shown = fitted(full, gapped, self._width - 4, least=_SHORTEST)
        self._names = names if names >= full else _SHORTEST
        self.columns = [widest[place] for place in shown]
        self._said = {line.letter: self._cut(line) for line in self._lines if line.says}

    def _text_of(self, cells: Sequence[str]) -> str:
        """Cells as wide as their columns; numbers stand at the right."""
        text = ""
        for place, (cell, width) in enumerate(zip(cells, self.columns, strict=False)):
            text += _GAP + (cell.ljust(width) if place else cell.rjust(width))
        return text

    def _row(self, line: TableLine, cells: Sequence[str]) -> Row:
        name = self._glyphs.say(line.name)
        if len(name) > self._names:
            name = self._glyphs.say(JUDGED[line.letter].label)
        sign, tone = self._sign(line.letter)
        lead = f"{line.letter} {name}".ljust(2 + self._names)
        if cells:
            return [(f"{sign} ", tone), (lead + self._text_of(cells).rstrip(), "text")]
        return [(f"{sign} ", tone), (lead, "dim"), (self._said[line.letter], "dim")]

    def _cut(self, line: TableLine) -> str:
        """Why there is no number, as far as it fits."""
        room = self._width - 4 - self._names
        says, ellipsis = _GAP + self._glyphs.say(line.says), self._glyphs.ellipsis
        return cut(cut_paths(says, room, ellipsis), room, ellipsis).rstrip()

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


def _reason(record: DiagnosticRecord) -> str:
    """Why there is no number, with the key in place of the commands' hint."""
    return record.reason.replace(GIVE_ONE, " (w gives one)")
