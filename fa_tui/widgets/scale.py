"""Where a value lies between two ends, linearly or by its logarithm: the ruler of sliders, sparklines and charts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain

_SPARE = 0.04
"""Room left beyond the outermost value of a linear scale."""


@dataclass(frozen=True)
class Scale:
    """A segment [lo, hi] of the number line; logarithmic scales need 0 < lo.

    >>> Scale(1e-4, 1e4, log=True).fraction(1.0), Scale(-1, 1).fraction(0.5)
    (0.5, 0.75)
    """

    lo: float
    hi: float
    log: bool = False

    def __post_init__(self) -> None:
        if not self.lo < self.hi or (self.log and self.lo <= 0):
            raise ValueError(f"no {'log ' if self.log else ''}scale from {self.lo} to {self.hi}")

    def fraction(self, value: float) -> float:
        """Position in [0, 1], clamped at the ends; a value with no logarithm lies at 0."""
        if self.log:
            if value <= 0:
                return 0.0
            low, high = math.log10(self.lo), math.log10(self.hi)
            part = (math.log10(value) - low) / (high - low) if value < math.inf else 1.0
        else:
            part = (value - self.lo) / (self.hi - self.lo)
        return min(1.0, max(0.0, part))

    def value(self, fraction: float) -> float:
        """The value at a position in [0, 1]: the inverse of `fraction`."""
        if fraction <= 0 or fraction >= 1:
            return self.lo if fraction <= 0 else self.hi
        if self.log:
            low, high = math.log10(self.lo), math.log10(self.hi)
            return min(self.hi, max(self.lo, math.pow(10.0, low + fraction * (high - low))))
        return self.lo + fraction * (self.hi - self.lo)

    def cell(self, value: float, cells: int) -> int:
        """Which of ``cells`` cells shows the value: the first shows lo, the last shows hi."""
        return round(self.fraction(value) * (cells - 1)) if cells > 1 else 0

    def value_at(self, cell: int, cells: int) -> float:
        """The roundest value that `cell` shows: what a click there means.

        >>> Scale(1, 1e5, log=True).value_at(20, 51)
        100.0
        """
        if cell <= 0 or cell >= cells - 1:
            return self.lo if cell <= 0 else self.hi
        middle = self.value(cell / (cells - 1))
        for digits in range(1, 17):
            rounded = float(f"{middle:.{digits - 1}e}")
            if self.cell(rounded, cells) == cell:
                return rounded
        return middle

    def contains(self, value: float) -> bool:
        """Whether the value lies on the scale, ends included."""
        return self.lo <= value <= self.hi

    @property
    def decades(self) -> float:
        """Length of a logarithmic scale in powers of ten."""
        return math.log10(self.hi / self.lo)


def covering(values: Iterable[float], *, log: bool, at_least: tuple[float, float] | None = None) -> Scale | None:
    """A scale that holds every finite value (every positive one if log) with round ends, or None if there is none.

    Args:
        values: what to show; non-finite values, and on a log scale those ≤ 0, do not count.
        log: logarithmic, ends on whole decades.
        at_least: a range that is held too.

    >>> covering([0.96, 24126.1], log=True), covering([3.0, float("nan")], log=False, at_least=(0.0, 10.0))
    (Scale(lo=0.1, hi=100000.0, log=True), Scale(lo=0.0, hi=10.0, log=False))
    """
    kept = (value for value in chain(values, at_least or ()) if math.isfinite(value) and (value > 0 or not log))
    lo = hi = next(kept, None)
    if lo is None or hi is None:
        return None
    for value in kept:
        if value < lo:
            lo = value
        elif value > hi:
            hi = value
    if log:
        bottom, top = _floor_decade(lo), _ceil_decade(hi)
        return Scale(10.0**bottom, 10.0 ** max(top, bottom + 1), log=True)
    if at_least and lo == at_least[0] and hi == at_least[1]:
        return Scale(lo, hi)
    # half of the smallest float is zero, which has no logarithm
    span = max(hi - lo or abs(hi) or 1.0, 1e-300)
    room = span * _SPARE
    unit = 10.0 ** math.floor(math.log10(span / 2))
    return Scale(
        lo if at_least and lo == at_least[0] else math.floor((lo - room) / unit) * unit,
        hi if at_least and hi == at_least[1] else math.ceil((hi + room) / unit) * unit,
    )


def _floor_decade(value: float) -> int:
    return max(-300, math.floor(math.log10(value) + 1e-12))


def _ceil_decade(value: float) -> int:
    return min(308, math.ceil(math.log10(value) - 1e-12))
