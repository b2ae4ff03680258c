"""Linear and logarithmic scales: positions, steps, tick labels."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import msgspec

from fa_core.report.numbers import power_of_ten, short
from fa_tui.views.glyphs import UNICODE, Glyphs

_SPARE = 0.04
"""Free space beyond the outermost values of a linear scale, as a share of its span."""


class Scale(msgspec.Struct, frozen=True):
    """A segment [lo, hi] of the number line, lo < hi; logarithmic scales need 0 < lo.

    >>> Scale(1e-4, 1e4, log=True).fraction(1.0), Scale(-1, 1).fraction(0.5)
    (0.5, 0.75)
    """

    lo: float
    hi: float
    log: bool = False

    def fraction(self, value: float) -> float:
        """Position in [0, 1], clamped at the ends; a value with no logarithm lies at 0."""
        value = self.clamped(value)
        if not self.log:
            return (value - self.lo) / (self.hi - self.lo)
        low = math.log10(self.lo)
        high = math.log10(self.hi)
        return (math.log10(value) - low) / (high - low)

    def value(self, fraction: float) -> float:
        """The value at a position in [0, 1]: the inverse of `fraction`."""
        if fraction <= 0:
            return self.lo
        if fraction >= 1:
            return self.hi
        if not self.log:
            return self.lo + fraction * (self.hi - self.lo)
        low = math.log10(self.lo)
        high = math.log10(self.hi)
        return self.clamped(math.pow(10.0, low + fraction * (high - low)))

    def clamped(self, value: float) -> float:
        """The value, or the nearer end of the scale."""
        return min(self.hi, max(self.lo, value))

    def cell(self, value: float, cells: int) -> int:
        """Index of the cell that shows the value: the first shows lo, the last shows hi."""
        last = max(0, cells - 1)
        return round(self.fraction(value) * last)

    def value_at(self, cell: int, cells: int) -> float:
        """The roundest value shown by a cell: what a click there sets.

        >>> Scale(1, 1e5, log=True).value_at(20, 51)
        100.0
        """
        if cell <= 0:
            return self.lo
        if cell >= cells - 1:
            return self.hi
        middle = self.value(cell / (cells - 1))
        for digits in range(1, 17):
            rounded = float(f"{middle:.{digits - 1}e}")
            if self.cell(rounded, cells) == cell:
                return rounded
        return middle

    def contains(self, value: float) -> bool:
        """Whether the value lies on the scale, ends included."""
        return self.lo <= value <= self.hi

    def tick(self, value: float, glyphs: Glyphs = UNICODE, digits: int = 3) -> str:
        """A value as an axis label; ``10⁻⁸`` for a power of ten on a logarithmic Unicode axis.

        >>> Scale(1e-8, 1e3, log=True).tick(1e-8), Scale(0.0, 1e3).tick(1e3)
        ('10⁻⁸', '1000')
        """
        if self.log and glyphs is UNICODE:
            exponent = round(math.log10(value))
            if math.isclose(value, 10.0**exponent, rel_tol=1e-9):
                return power_of_ten(exponent)
        return short(value, digits)


def drawable(values: Iterable[float | None], *, log: bool) -> list[float]:
    """The values that a scale can show, on a logarithmic scale those above 0."""
    # of larger ones a sum may be infinite
    finite = [value for value in values if value is not None and abs(value) < 1e300]
    return [value for value in finite if value > 0 or not log]


def covering(
    values: Iterable[float], *, log: bool, at_least: tuple[float, float] | None = None
) -> Scale | None:
    """The scale with round ends that holds every drawable value; None without one.

    Args:
        values: what to show.
        log: logarithmic, with ends on whole decades.
        at_least: a range to hold too.

    >>> (covering([0.96, 24126.1], log=True), covering([3.0, float("nan")], log=False,
    ...     at_least=(0.0, 10.0)))
    (Scale(lo=0.1, hi=100000.0, log=True), Scale(lo=0.0, hi=10.0, log=False))
    """
    fixed = at_least or ()
    kept = drawable(chain(values, fixed), log=log)
    if not kept:
        return None
    lo = min(kept)
    hi = max(kept)
    if log:
        bottom = max(-300, math.floor(math.log10(lo) + 1e-12))
        top = math.ceil(math.log10(hi) - 1e-12)
        return Scale(10.0**bottom, 10.0 ** max(top, bottom + 1), log=True)
    # half of the smallest float is zero, which has no logarithm
    span = max(hi - lo or abs(hi) or 1.0, 1e-300)
    room = span * _SPARE
    unit = 10.0 ** math.floor(math.log10(span / 2))
    if lo not in fixed:
        lo = math.floor((lo - room) / unit) * unit
    if hi not in fixed:
        hi = math.ceil((hi + room) / unit) * unit
    return Scale(lo, hi)


def axis_of(values: Sequence[float], *, log: bool) -> Scale:
    """The scale of a chart: like `covering`, but values within a decade need no whole one; up to 1
    where there is nothing to show.

    >>> axis_of([5.32, 6.27], log=True), axis_of([5.32, 60.7], log=True)
    (Scale(lo=5.2, hi=6.4, log=True), Scale(lo=1.0, hi=100.0, log=True))
    """
    near = covering(drawable(values, log=log), log=False)
    if log and near is not None and near.lo > 0 and near.hi < 10 * near.lo:
        return Scale(near.lo, near.hi, log=True)
    return covering(values, log=log) or Scale(0.1 if log else 0.0, 1.0, log)


_WIDE_DECADES = 6
"""Longer logarithmic tracks have coarser steps."""

R10 = (1.0, 1.25, 1.6, 2.0, 2.5, 3.15, 4.0, 5.0, 6.3, 8.0)
R20 = tuple(sorted((*R10, 1.12, 1.4, 1.8, 2.24, 2.8, 3.55, 4.5, 5.6, 7.1, 9.0)))
"""Renard's preferred numbers, 10 and 20 per decade: even in the logarithm, short as decimals."""

_STRIDES = (1.0, 2.0, 5.0)


def next_multiple(value: float, unit: float, *, upward: bool) -> float:
    """The next multiple of a unit, strictly above or below the value.

    >>> next_multiple(0.3, 0.01, upward=False)
    0.29
    """
    count = value / unit
    if upward:
        target = math.floor(count + 1e-6) + 1
    else:
        target = math.ceil(count - 1e-6) - 1
    return float(f"{target * unit:.12g}")


def next_rung(value: float, mantissas: Sequence[float], *, upward: bool) -> float:
    """The next of `mantissas`·10^k, strictly above or below; the value itself outside (1e-300,
    1e300).

    >>> next_rung(50.0, R10, upward=True)
    63.0
    """
    if not 1e-300 < value < 1e300:
        return value
    exponent = math.floor(math.log10(value))
    rungs = []
    for power in range(exponent - 1, exponent + 3):
        rungs += [float(f"{mantissa}e{power}") for mantissa in mantissas]
    if upward:
        return rungs[bisect.bisect_right(rungs, value)]
    return rungs[bisect.bisect_left(rungs, value) - 1]


class Track(msgspec.Struct, frozen=True):
    """A slider's scale with its steps and strides; on a linear scale one `unit` and ten.

    >>> (Track(Scale(1.0, 1e4, log=True)).moved(50.0, 1), Track(Scale(-1.0, 1.0)).moved(0.3, -1,
    ...     stride=True))
    (56.0, 0.2)
    """

    scale: Scale
    unit: float = 0.01

    def moved(self, value: float, direction: int, *, stride: bool = False) -> float:
        """The value one step or stride up (+1) or down (−1), at most at the track's end.

        A value typed beyond the track moves back to its end, and no further out.
        """
        upward = direction > 0
        if self.scale.contains(value):
            return self.scale.clamped(self._next(value, stride, upward=upward))
        if upward == (value < self.scale.lo):
            return self.scale.clamped(value)
        return value

    def _next(self, value: float, stride: bool, *, upward: bool) -> float:
        if not self.scale.log:
            unit = self.unit
            if stride:
                unit *= 10
            return next_multiple(value, unit, upward=upward)
        is_wide = math.log10(self.scale.hi / self.scale.lo) > _WIDE_DECADES
        rungs: Sequence[float]
        if stride:
            rungs = _STRIDES[:1] if is_wide else _STRIDES
        else:
            rungs = R10 if is_wide else R20
        return next_rung(value, rungs, upward=upward)


def rug(ticks: Sequence[float], scale: Scale, cells: int) -> tuple[dict[int, int], int, int]:
    """Numbers of runs: per cell of a track, below it, above it.

    One binary search per cell, whatever the number of runs.

    Args:
        ticks: the finite values, sorted.
        scale: of the track.
        cells: length of the track.
    """
    start = below = bisect.bisect_left(ticks, scale.lo)
    end = bisect.bisect_right(ticks, scale.hi)
    counts: dict[int, int] = {}
    for cell in range(cells):
        edge = scale.hi
        if cell < cells - 1:
            edge = scale.value((cell + 0.5) / (cells - 1))
        stop = bisect.bisect_right(ticks, edge, start, end)
        if stop > start:
            counts[cell] = stop - start
        start = stop
    return counts, below, len(ticks) - end


_LINES_PER_DECADE = 3


def tick_labels(scale: Scale, lines: int, width: int, glyphs: Glyphs = UNICODE) -> dict[int, str]:
    """Labels of a vertical axis: line from the top → label of at most `width` cells.

    >>> tick_labels(Scale(0.61, 0.62), 5, 6)
    {4: '0.61', 0: '0.62', 2: '0.615'}
    >>> tick_labels(Scale(1.0, 1e4, log=True), 6, 6)
    {5: '10⁰', 0: '10⁴', 3: '10²'}
    """
    labels: dict[int, str] = {}
    if scale.log and scale.hi >= 10 * scale.lo:
        candidates = _decades(scale, lines, glyphs)
    else:
        # the ends, which are round, and the middle
        values = [scale.value_at(cell, lines) for cell in (0, lines - 1, lines // 2)]
        candidates = ((value, short(value, 4)) for value in values)
    for value, text in candidates:
        line = lines - 1 - scale.cell(value, lines)
        if text not in labels.values() and len(text) <= width:
            labels.setdefault(line, text)
    return labels


def _decades(scale: Scale, lines: int, glyphs: Glyphs) -> Iterator[tuple[float, str]]:
    """The ends and powers of ten, as many as there is room for."""
    low = round(math.log10(scale.lo))
    high = round(math.log10(scale.hi))
    needed = _LINES_PER_DECADE * (high - low)
    stride = max(1, math.ceil(needed / max(1, lines)))
    values = [scale.lo, scale.hi]
    for exponent in range(low, high + 1):
        if exponent % stride == 0:
            values.append(10.0**exponent)
    for value in values:
        yield value, scale.tick(value, glyphs, 2)
