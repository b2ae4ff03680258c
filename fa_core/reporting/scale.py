"""From numbers to positions on an axis, and where its ticks go."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

WIDEST = 300.0
"""Exponents that a log axis shows; numbers beyond stand on its edge (floats end at 1e-308 and 1e308)."""

_NICE = (1.0, 2.0, 2.5, 5.0, 10.0)


class Scale(msgspec.Struct, frozen=True):
    """A linear or logarithmic axis.

    Attributes:
        lo: smallest number shown (> 0 on a log axis).
        hi: largest number shown, > lo.
        start: position of lo.
        end: position of hi.
        log: base-10 logarithmic.
    """

    lo: float
    hi: float
    start: float
    end: float
    log: bool = False

    def at(self, value: float) -> float:
        """The position of a number; numbers outside are put on the nearest edge."""
        inside = min(max(value, self.lo), self.hi)
        if self.log:
            lo, hi = math.log10(self.lo), math.log10(self.hi)
            share = (math.log10(inside) - lo) / (hi - lo)
        else:
            share = (inside - self.lo) / (self.hi - self.lo)
        return self.start + share * (self.end - self.start)

    def ticks(self, at_most: int = 6) -> list[float]:
        """Round numbers inside [lo, hi]: decades on a log axis, 1-2-2.5-5 steps on a linear one."""
        if self.log:
            return _decades(self.lo, self.hi, at_most)
        raw = (self.hi - self.lo) / at_most
        power = 10.0 ** math.floor(math.log10(raw))
        step = next(nice * power for nice in _NICE if nice * power >= raw * (1 - 1e-9))
        first = math.ceil(self.lo / step - 1e-9)
        last = math.floor(self.hi / step + 1e-9)
        return [k * step for k in range(first, last + 1)]


def fitted(values: Iterable[float], start: float, end: float, log: bool = False, room: float = 0.06) -> Scale:
    """An axis that shows all finite (on a log axis: positive) values with some room at both ends.

    Nothing to show gives [0, 1], or [0.1, 10] on a log axis; a single value gets room around it.
    """
    shown = [v for v in values if math.isfinite(v) and (v > 0 or not log)]
    if log:
        exponents = [min(max(math.log10(v), -WIDEST), WIDEST) for v in shown] or [-1.0, 1.0]
        lo, hi = _roomy(min(exponents), max(exponents), room, least=0.5)
        return Scale(10.0 ** max(lo, -WIDEST - 1), 10.0 ** min(hi, WIDEST + 1), start, end, True)
    lo, hi = _roomy(min(shown, default=0.0), max(shown, default=1.0), room, least=0.0)
    return Scale(lo, hi, start, end)


def _roomy(lo: float, hi: float, room: float, least: float) -> tuple[float, float]:
    extra = max((hi - lo) * room, least)
    if hi - lo + 2 * extra <= 0:
        extra = abs(hi) * 0.5 or 0.5
    return lo - extra, hi + extra


def _decades(lo: float, hi: float, at_most: int) -> list[float]:
    first, last = math.ceil(math.log10(lo) - 1e-9), math.floor(math.log10(hi) + 1e-9)
    stride = max(1, math.ceil((last - first + 1) / at_most))
    return [10.0**e for e in range(first, last + 1) if e % stride == 0]
