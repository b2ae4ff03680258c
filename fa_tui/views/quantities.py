"""The quantities a run can be shown by, and how each is written in a narrow cell."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import msgspec

from fa_core.confidence import deep_gamma
from fa_core.report import NORM_RATIO_EPS, DiagnosticReport
from fa_core.rows import AuditRow, LazyRow
from fa_tui.session import SCALAR_LIMIT, Session
from fa_tui.views.scale import Scale

if TYPE_CHECKING:
    from fa_core.table import AuditTable


SHADES = 8
"""So many can be told apart behind text; the number itself says the rest."""


def scale_of(values: Iterable[float | None], *, log: bool) -> Scale | None:
    """The scale of some numbers; None where fewer than two differ (a shade would say nothing).

    >>> scale_of([3.0, None, float("inf"), 1.0, 0.0], log=True)
    Scale(lo=1.0, hi=3.0, log=True)
    """
    finite = [value for value in values if value is not None and math.isfinite(value) and not (log and value <= 0)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    return Scale(low, high, log) if low < high else None


class Quantity(msgspec.Struct, frozen=True):
    """One measured quantity of a run.

    Attributes:
        name: how filters and sort keys call it.
        label: what the column is headed.
        letter: the diagnostic that judges it, or ``""``.
        of: the number of a report; None where it was not measured.
        column: the same in an `AuditTable`, or ``""``.
        write: a finite number as text.
        log: whether it is read by orders of magnitude.
    """

    name: str
    label: str
    letter: str
    of: Callable[[DiagnosticReport], float | None]
    column: str
    write: Callable[[float], str]
    log: bool = False

    def text(self, report: DiagnosticReport, missing: str = "·") -> str:
        """The number of a report as text; ``missing`` where it was not measured."""
        return self.say(self.of(report), missing)

    def say(self, value: float | None, missing: str = "·") -> str:
        """A number of this quantity as text."""
        if value is None:
            return missing
        return self.write(value) if math.isfinite(value) else "nan" if math.isnan(value) else f"{value:+.0f}"


def magnitude(value: float) -> str:
    """A number of any size in at most 7 characters.

    >>> magnitude(1.0), magnitude(10.96), magnitude(694.457), magnitude(435299520.0), magnitude(4.17e-9)
    ('1.00', '11.0', '694', '4.4e8', '4.2e-9')
    """
    size = abs(value)
    if size == 0 or 0.1 <= size < 999.5:
        return f"{value:#.3g}".rstrip(".")
    if 999.5 <= size < 99_999.5:
        return f"{value:.0f}"
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


def _accuracy(value: float) -> str:
    return f"{value:.3f}"


def _signed(value: float) -> str:
    return f"{value:+.2f}"


def _cosine(value: float) -> str:
    """Three digits: thresholds and published values have as many, and -0.004 is not -0.00."""
    return f"{value:+.3f}"


def _gamma(report: DiagnosticReport) -> float | None:
    value = deep_gamma(report.credit)
    return None if math.isnan(value) else value


QUANTITIES: tuple[Quantity, ...] = (
    Quantity("growth", "growth", "a", lambda report: report.max_per_block_growth, "growth", magnitude, log=True),
    Quantity("g_L", "‖g_L‖", "b", lambda report: report.g_L, "g_L", magnitude, log=True),
    Quantity("stability", "stability", "c", lambda report: report.cross_batch_stability, "stability", _cosine),
    Quantity("margin", "margin pp", "d", lambda report: report.margin_pp, "margin_pp", _signed),
    Quantity("acc", "accuracy", "", lambda report: report.headline_acc, "acc", _accuracy),
    Quantity("h_L", "‖h_L‖", "", lambda report: report.h_L, "h_L", magnitude, log=True),
    Quantity("frozen", "frozen", "", lambda report: report.baseline_acc, "baseline", _accuracy),
    Quantity("gamma", "deep Γ", "", _gamma, "", _cosine),
)
"""What the matrix can show instead of letters, and what the long view has columns for."""

_COLUMNS: WeakKeyDictionary[AuditTable, dict[str, tuple[memoryview, bytes]]] = WeakKeyDictionary()
"""A table's numbers where they are, and which of them were measured: plain when looked up."""


def values_of(quantity: Quantity, session: Session, rows: Iterable[int]) -> Iterator[float | None]:
    """The numbers of some runs; None where one was not measured. Of many runs' the reports are not looked at."""
    if quantity.column and len(session) > SCALAR_LIMIT:
        values, measured = _column(session.table, quantity.column)
        return (values[row] if measured[row] else None for row in rows)
    runs = map(session.rows.__getitem__, rows)
    return (None if quantity.name == "gamma" and has_no_credit(run) else quantity.of(run.report) for run in runs)


def _column(table: AuditTable, name: str) -> tuple[memoryview, bytes]:
    columns = _COLUMNS.setdefault(table, {})
    if name not in columns:
        columns[name] = memoryview(getattr(table, name)), table.measured(name).tobytes()
    return columns[name]


def value_of(quantity: Quantity, session: Session, row: int) -> float | None:
    """The number of one run."""
    return next(values_of(quantity, session, [row]))


def is_assumed(quantity: Quantity, session: Session, rows: Iterable[int]) -> bool:
    """Whether a number comes of an assumed frozen baseline on some of the runs."""
    return quantity.name in OF_BASELINE and any(map(session.assumes, rows))


def has_no_credit(run: AuditRow) -> bool:
    """Whether a run is known to say nothing of credit quality without reading its report."""
    return isinstance(run, LazyRow) and run.is_as_stored and not run.store.has_credit


OF_BASELINE = ("margin", "frozen")
"""The quantities that come of a frozen baseline."""

BY_NAME = {quantity.name: quantity for quantity in QUANTITIES}


def growths(norms: Sequence[float]) -> list[float]:
    """‖h_{l+1}‖/‖h_l‖ for l = 0..L-1; NaN where a norm is not finite.

    >>> growths([1.0, 2.0, 8.0])
    [2.0, 4.0]
    """
    return [
        after / max(before, NORM_RATIO_EPS) if math.isfinite(before) and math.isfinite(after) else math.nan
        for before, after in itertools.pairwise(norms)
    ]


def peak_block(norms: Sequence[float]) -> int | None:
    """The block that grows most: the first one that ends in a norm that is not finite, else the largest ratio above 1.

    >>> peak_block([1.0, 2.0, 8.0]), peak_block([1.0, 9.0, float("inf"), float("nan")]), peak_block([2.0, 1.0])
    (1, 1, None)
    """
    lost = next((layer for layer, norm in enumerate(norms) if not math.isfinite(norm)), None)
    if lost is not None:
        return lost - 1 if lost else None
    blocks = growths(norms)
    largest = max(range(len(blocks)), key=blocks.__getitem__, default=None)
    return largest if largest is not None and blocks[largest] > 1 else None
