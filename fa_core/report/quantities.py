"""The numbers of a run, in one table: their names everywhere, their units and their texts.

The table is `quantities.json`. What judges a number, and by which limit, is in
`fa_core.report.diagnostics`. Pure Python: no NumPy, no torch.
"""

from __future__ import annotations

import math

import msgspec

from fa_core.files.decode import table_beside
from fa_core.report.numbers import brief, fixed, on_its_side
from fa_core.report.report_facts import ReportFacts


class Quantity(msgspec.Struct, frozen=True, kw_only=True):
    """A number of a run.

    Attributes:
        name: in filters, claims, orders and ``--columns``.
        field: the property of `DiagnosticReport`, and its name in JSON and CSV.
        column: in `AuditTable`, in intervals, and in statistics over seeds and epochs.
        logged: in a log behind ``fa/``, or ``""``.
        label: on screens.
        heading: of a table's column.
        words: in a sentence.
        axis: along the axis of a figure.
        unit: of the number.
        marks: the diagnostic that fires, or is not finite, where the number shows it; or ``""``.
        digits: significant digits if it spans decades, else decimals.
        letter: the diagnostic that judges it, or ``""``.
        log: whether it spans decades: log scales, geometric means, differences as ratios.
        suffix: the unit as written after the number.
        sign: ``"+"`` if positive numbers have a sign.
        places: decimals of a mean in a paper; 0: two significant digits.
        reads: the property that is judged, if it is not the recorded one.
    """

    name: str
    field: str
    column: str
    logged: str
    label: str
    heading: str
    words: str
    axis: str
    unit: str
    marks: str
    digits: int
    letter: str = ""
    log: bool = False
    suffix: str = ""
    sign: str = ""
    places: int = 0
    reads: str = ""

    @property
    def title(self) -> str:
        """The label, with the unit that is written after numbers."""
        if self.log:
            return self.label
        return self.label + self.suffix

    @property
    def stat(self) -> str:
        """Its name in statistics over seeds, as scripts read them."""
        if self.name == "acc":
            return self.field
        return self.column

    def of(self, report: ReportFacts) -> float | None:
        """The number of a report, as it is judged; None if unmeasured."""
        value: float | None = getattr(report, self.reads or self.field)
        return value

    def recorded(self, report: ReportFacts) -> float | None:
        """The number as a file has it: a baseline that is only assumed is none."""
        value: float | None = getattr(report, self.field)
        return value

    def text(self, value: float | None, limit: float | None = None) -> str:
        """A number without its unit, with more digits only where its side of a limit needs them.

        >>> BY_NAME["growth"].text(694.4575), BY_NAME["margin"].text(2.3), BY_NAME["acc"].text(None)
        ('694.5', '+2.30', 'N/A')
        >>> BY_NAME["drift"].text(0.3004, 0.3), BY_NAME["drift"].text(0.3004, 0.2)
        ('+0.3004', '+0.300')
        """
        return on_its_side(value, limit, self._rounded, self.digits)

    def _rounded(self, value: float, digits: int) -> str:
        if self.log or math.isnan(value):
            return brief(value, digits)
        return fixed(value, digits, self.sign)


QUANTITIES = tuple(table_beside(__file__, list[Quantity]))
"""The numbers, in the order of columns and cells."""

BY_NAME = {quantity.name: quantity for quantity in QUANTITIES}

JUDGED = {quantity.letter: quantity for quantity in QUANTITIES if quantity.letter}
"""The numbers that diagnostics judge, by letter."""


def named(*names: str) -> tuple[Quantity, ...]:
    """Some numbers, in the order of their names."""
    return tuple(BY_NAME[name] for name in names)
