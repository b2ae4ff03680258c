"""The values a threshold stops at: preferred numbers for steps, and the values at which a verdict flips."""

from __future__ import annotations

import bisect
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from operator import lt

from fa_core.reporting.numbers import just_past

R20 = (1.0, 1.12, 1.25, 1.4, 1.6, 1.8, 2.0, 2.24, 2.5, 2.8, 3.15, 3.55, 4.0, 4.5, 5.0, 5.6, 6.3, 7.1, 8.0, 9.0)
"""Renard's preferred numbers, 20 per decade: even in the logarithm, short as decimals."""
R10 = R20[::2]
R3 = (1.0, 2.0, 5.0)
R1 = (1.0,)


@dataclass(frozen=True)
class Ladder:
    """Rungs either at multiples of `unit`, or at `mantissas`·10^k (signless: zero and below have no rungs).

    >>> Ladder(mantissas=R10).next(50.0, upward=True), Ladder(unit=0.01).next(0.3, upward=False)
    (63.0, 0.29)
    """

    unit: float = 0.0
    mantissas: tuple[float, ...] = ()

    def next(self, value: float, *, upward: bool) -> float:
        """The nearest rung strictly above or below; the value itself where there is none."""
        return self._next_mantissa(value, upward) if self.mantissas else self._next_multiple(value, upward)

    def _next_multiple(self, value: float, upward: bool) -> float:
        count = value / self.unit
        nearest = round(count)
        if abs(count - nearest) < 1e-6:
            target = nearest + (1 if upward else -1)
        else:
            target = math.ceil(count) if upward else math.floor(count)
        return float(f"{target * self.unit:.12g}")

    def _next_mantissa(self, value: float, upward: bool) -> float:
        if value <= 0 or not 1e-300 < value < 1e300:
            return value
        exponent = math.floor(math.log10(value))
        rungs = [float(f"{m}e{e}") for e in (exponent - 1, exponent, exponent + 1) for m in self.mantissas]
        if upward:
            return rungs[bisect.bisect_right(rungs, value)] if value < rungs[-1] else float(f"1e{exponent + 2}")
        return rungs[bisect.bisect_left(rungs, value) - 1] if value > rungs[0] else value


class Flips:
    """The values at which some verdict flips as one threshold moves past them.

    A run whose value equals the threshold does not fire. So with runs firing *above* the threshold t,
    verdicts are the same for all t in [x_i, x_{i+1}); firing *below* it, in (x_i, x_{i+1}].

    Args:
        values: the runs' values; non-finite ones never flip. A rising array of finite ones is kept as it is.
        above: whether a run fires above its threshold (else below).
    """

    def __init__(self, values: Sequence[float], *, above: bool) -> None:
        self.values: array[float]
        if isinstance(values, array) and _rises(values):
            self.values = values
        else:
            finite = sorted(value for value in values if math.isfinite(value))
            # numbers as such: a hundred thousand Python objects per slider take five times the memory
            self.values = array("d", (value for value, _ in groupby(finite)))
        self._above = above

    def plateau(self, threshold: float) -> tuple[float, float] | None:
        """The interval around the threshold in which no verdict changes (±inf where open), or None without runs.

        >>> Flips([10.96, 694.5, 2000.0], above=True).plateau(50.0)
        (10.96, 694.5)
        """
        if not self.values:
            return None
        index = self._index(threshold)
        low = self.values[index - 1] if index else -math.inf
        high = self.values[index] if index < len(self.values) else math.inf
        return low, high

    def next(self, threshold: float, *, upward: bool) -> float | None:
        """The nearest round threshold, in one direction, with other verdicts; None if there is none.

        >>> Flips([10.96, 694.5, 2000.0], above=True).next(50.0, upward=True)
        695.0
        """
        index = self._index(threshold)
        index = index if upward else index - 1
        if not 0 <= index < len(self.values):
            return None
        flip = self.values[index]
        beyond = index + (1 if upward else -1)
        limit = self.values[beyond] if 0 <= beyond < len(self.values) else math.inf if upward else -math.inf
        round_number = just_past(flip, upward, limit)
        if round_number is not None:
            return round_number
        if upward == self._above:
            return flip
        return math.nextafter(flip, math.inf if upward else -math.inf)

    def _index(self, threshold: float) -> int:
        """How many flip values lie on the lower side of the threshold."""
        find = bisect.bisect_right if self._above else bisect.bisect_left
        return find(self.values, threshold)


def _rises(values: array[float]) -> bool:
    """Whether each value is larger than the one before it, and all are finite."""
    return all(map(math.isfinite, values[:1] + values[-1:])) and all(map(lt, values, islice(values, 1, None)))
