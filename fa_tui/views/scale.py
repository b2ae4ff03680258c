"""Where a value lies between two ends, linearly or by its logarithm: the scale of sliders, sparklines, charts, shades.

The values that steps along a scale stop at; how many runs lie where. The numbers next to an axis: round, and never
two alike.
"""

from __future__ import annotations

import bisect
import math
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

import msgspec

from fa_core.numbers import power_of_ten, short
from fa_tui.views.text import UNICODE, Glyphs

_SPARE = 0.04
"""Room left beyond the outermost value of a linear scale."""


class Scale(msgspec.Struct, frozen=True):
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

    def step(self, value: float, steps: int) -> int:
        """Which of ``steps`` equal parts the value lies in; the last one holds +inf.

        >>> Scale(1.0, 1e4, log=True).step(100.0, 8), Scale(1.0, 1e4).step(100.0, 8)
        (4, 0)
        """
        return min(steps - 1, int(steps * self.fraction(value)))

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

    def tick(self, value: float, glyphs: Glyphs = UNICODE, digits: int = 3) -> str:
        """A value next to the axis: on a logarithmic one powers of ten are written as in the figures, if that can be.

        >>> Scale(1e-8, 1e3, log=True).tick(1e-8), Scale(0.0, 1e3).tick(1e3)
        ('10⁻⁸', '1000')
        """
        if self.log and glyphs is UNICODE:
            exponent = round(math.log10(value))
            if math.isclose(value, 10.0**exponent, rel_tol=1e-9):
                return power_of_ten(exponent)
        return short(value, digits)


def covering(
    values: Iterable[float], *, log: bool, at_least: tuple[float, float] | None = None
) -> Scale | None:
    """A scale that holds every finite value (every positive one if log) with round ends, or None if there is none.

    Args:
        values: what to show; non-finite values, and on a log scale those ≤ 0, do not count.
        log: logarithmic, ends on whole decades.
        at_least: a range that is held too.

    >>> covering([0.96, 24126.1], log=True), covering([3.0, float("nan")], log=False, at_least=(0.0, 10.0))
    (Scale(lo=0.1, hi=100000.0, log=True), Scale(lo=0.0, hi=10.0, log=False))
    """
    shown = (
        value
        for value in chain(values, at_least or ())
        if math.isfinite(value) and (value > 0 or not log)
    )
    kept = array("d", shown)
    if not kept:
        return None
    lo, hi = min(kept), max(kept)
    if log:
        bottom = max(-300, math.floor(math.log10(lo) + 1e-12))
        top = min(308, math.ceil(math.log10(hi) - 1e-12))
        return Scale(10.0**bottom, 10.0 ** max(top, bottom + 1), log=True)
    if at_least and lo == at_least[0] and hi == at_least[1]:
        return Scale(lo, hi)
    # half of the smallest float is zero, which has no logarithm
    span = max(hi - lo or abs(hi) or 1.0, 1e-300)
    room = span * _SPARE
    unit = 10.0 ** math.floor(math.log10(span / 2))
    low = lo if at_least and lo == at_least[0] else math.floor((lo - room) / unit) * unit
    high = hi if at_least and hi == at_least[1] else math.ceil((hi + room) / unit) * unit
    return Scale(low, high)


_WIDE_DECADES = 6
"""A log track longer than this steps in coarser rungs."""

R20 = (
    1.0,
    1.12,
    1.25,
    1.4,
    1.6,
    1.8,
    2.0,
    2.24,
    2.5,
    2.8,
    3.15,
    3.55,
    4.0,
    4.5,
    5.0,
    5.6,
    6.3,
    7.1,
    8.0,
    9.0,
)
"""Renard's preferred numbers, 20 per decade: even in the logarithm, short as decimals."""
R10 = R20[::2]


def next_multiple(value: float, unit: float, *, upward: bool) -> float:
    """The nearest multiple of a unit strictly above or below.

    >>> next_multiple(0.3, 0.01, upward=False)
    0.29
    """
    count = value / unit
    target = math.floor(count + 1e-6) + 1 if upward else math.ceil(count - 1e-6) - 1
    return float(f"{target * unit:.12g}")


def next_rung(value: float, mantissas: Sequence[float], *, upward: bool) -> float:
    """The nearest of `mantissas`·10^k strictly above or below; the value itself where there is none (signless).

    >>> next_rung(50.0, R10, upward=True)
    63.0
    """
    if value <= 0 or not 1e-300 < value < 1e300:
        return value
    exponent = math.floor(math.log10(value))
    rungs = [
        float(f"{mantissa}e{power}")
        for power in range(exponent - 1, exponent + 3)
        for mantissa in mantissas
    ]
    return rungs[
        bisect.bisect_right(rungs, value) if upward else bisect.bisect_left(rungs, value) - 1
    ]


class Track(msgspec.Struct, frozen=True):
    """A scale whose values a step and a stride stop at; on a linear one a step is `unit`, a stride ten of them.

    >>> Track(Scale(1.0, 1e4, log=True)).moved(50.0, 1), Track(Scale(-1.0, 1.0)).moved(0.3, -1, stride=True)
    (56.0, 0.2)
    """

    scale: Scale
    unit: float = 0.01

    def moved(self, value: float, direction: int, *, stride: bool = False) -> float:
        """One step or stride up (+1) or down (−1), as far as the track goes.

        A value typed beyond the track comes back at the track's end, and goes no further out.
        """
        if self.scale.contains(value):
            target = self._next(value, stride, upward=direction > 0)
            return min(self.scale.hi, max(self.scale.lo, target))
        if (direction > 0) == (value < self.scale.lo):
            return self.scale.lo if direction > 0 else self.scale.hi
        return value

    def _next(self, value: float, stride: bool, *, upward: bool) -> float:
        if not self.scale.log:
            return next_multiple(value, 10 * self.unit if stride else self.unit, upward=upward)
        decades = math.log10(self.scale.hi / self.scale.lo)
        step, far = (R10, (1.0,)) if decades > _WIDE_DECADES else (R20, (1.0, 2.0, 5.0))
        return next_rung(value, far if stride else step, upward=upward)


def rug(ticks: Sequence[float], scale: Scale, cells: int) -> tuple[dict[int, int], int, int]:
    """How many runs lie in each cell of a track of `cells` cells, how many below it and how many above.

    A search per cell, so that 100,000 runs cost what 15 do.

    Args:
        ticks: the finite values, sorted.
        scale: the track.
        cells: its length.
    """
    start = below = bisect.bisect_left(ticks, scale.lo)
    end = bisect.bisect_right(ticks, scale.hi)
    counts: dict[int, int] = {}
    for cell in range(cells):
        edge = scale.value((cell + 0.5) / (cells - 1)) if cell < cells - 1 else scale.hi
        stop = bisect.bisect_right(ticks, edge, start, end)
        if stop > start:
            counts[cell] = stop - start
        start = stop
    return counts, below, len(ticks) - end


_LINES_PER_LABEL = 2
_LINES_PER_DECADE = 3
_ROUND = (1, 2, 5)


def tick_labels(scale: Scale, lines: int, width: int, glyphs: Glyphs = UNICODE) -> dict[int, str]:
    """Line (from the top) → label, for an axis of so many lines; labels have at most `width` cells.

    >>> tick_labels(Scale(0.61, 0.62), 5, 6)
    {4: '0.610', 2: '0.615', 0: '0.620'}
    >>> tick_labels(Scale(1.0, 1e4, log=True), 6, 6)
    {5: '10⁰', 0: '10⁴', 3: '10²'}
    """
    labels: dict[int, str] = {}
    for value, text in _decades(scale, lines, glyphs) if scale.log else _multiples(scale, lines):
        line = lines - 1 - scale.cell(value, lines)
        if text not in labels.values() and len(text) <= width:
            labels.setdefault(line, text)
    return labels


def _decades(scale: Scale, lines: int, glyphs: Glyphs) -> Iterator[tuple[float, str]]:
    """The ends, and powers of ten as far apart as there is room."""
    low, high = round(math.log10(scale.lo)), round(math.log10(scale.hi))
    stride = max(1, math.ceil(_LINES_PER_DECADE * (high - low) / max(1, lines)))
    between = (10.0**exponent for exponent in range(low, high + 1) if exponent % stride == 0)
    yield from ((value, scale.tick(value, glyphs, 2)) for value in (scale.lo, scale.hi, *between))


def _multiples(scale: Scale, lines: int) -> Iterator[tuple[float, str]]:
    """Multiples of 1, 2 or 5 times a power of ten; both ends where fewer than two of them lie on the axis."""
    least = (scale.hi - scale.lo) / max(1, (lines - 1) // _LINES_PER_LABEL)
    exponent = math.floor(math.log10(least))
    steps = [
        (float(f"{m}e{power}"), max(0, -power))
        for power in (exponent, exponent + 1)
        for m in _ROUND
    ]
    step, decimals = next(found for found in steps if found[0] >= least * (1 - 1e-9))
    first, last = math.ceil(scale.lo / step - 1e-9), math.floor(scale.hi / step + 1e-9)
    if first >= last:
        yield from ((value, short(value, 4)) for value in (scale.lo, scale.hi))
        return
    for count in range(first, last + 1):
        value = float(f"{count * step:.12g}")
        text = f"{value:.{decimals}f}"
        yield value, text if 1e-4 < step < 1e6 else short(value, 3)
