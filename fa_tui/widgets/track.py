"""The track of a slider: its steps, where runs lie on it, and the values at which a verdict flips."""

from __future__ import annotations

import bisect
import math
from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from fa_core.reporting.numbers import just_past
from fa_tui.views.scale import Scale

_WIDE_DECADES = 6
"""A log track longer than this steps in coarser rungs."""

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


@dataclass(frozen=True)
class Track:
    """A scale with the values that a step and a stride stop at.

    >>> Track.of(1.0, 1e4, log=True).moved(50.0, 1), Track.of(-1.0, 1.0, unit=0.01).moved(0.3, -1, stride=True)
    (56.0, 0.2)
    """

    scale: Scale
    steps: Ladder
    strides: Ladder

    @classmethod
    def of(cls, lo: float, hi: float, *, log: bool = False, unit: float = 0.01) -> Track:
        """A track from `lo` to `hi`; a step on a linear one is `unit`, a stride ten of them."""
        scale = Scale(lo, hi, log)
        if not log:
            return cls(scale, Ladder(unit=unit), Ladder(unit=10 * unit))
        wide = scale.decades > _WIDE_DECADES
        return cls(scale, Ladder(mantissas=R10 if wide else R20), Ladder(mantissas=R1 if wide else R3))

    def moved(self, value: float, direction: int, *, stride: bool = False) -> float:
        """One step or stride up (+1) or down (−1), as far as the track goes.

        A value typed beyond the track comes back at the track's end, and goes no further out.
        """
        if self.scale.contains(value):
            target = (self.strides if stride else self.steps).next(value, upward=direction > 0)
            return min(self.scale.hi, max(self.scale.lo, target))
        if (direction > 0) == (value < self.scale.lo):
            return self.scale.lo if direction > 0 else self.scale.hi
        return value


@dataclass(frozen=True)
class Rug:
    """Where the runs lie on a track of `cells` cells: how many in each cell, beyond its ends, and non-finite."""

    cells: int
    counts: dict[int, int]
    below: int
    above: int
    nonfinite: int

    @classmethod
    def of(cls, ticks: Sequence[float], nonfinite: int, scale: Scale, cells: int) -> Rug:
        """Count the values per cell: a search per cell, so that 100,000 runs cost what 15 do.

        Args:
            ticks: the finite values, sorted.
            nonfinite: how many others there are.
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
        return cls(cells, counts, below, len(ticks) - end, nonfinite)


class Flips:
    """The values at which some verdict flips as one threshold moves past them.

    A run whose value equals the threshold does not fire. So with runs firing *above* the threshold t,
    verdicts are the same for all t in [x_i, x_{i+1}); firing *below* it, in (x_i, x_{i+1}].

    Args:
        values: the runs' values as `finite` gives them: those that are not finite never flip.
        above: whether a run fires above its threshold (else below).
    """

    def __init__(self, values: Sequence[float], *, above: bool) -> None:
        self.values = values
        self._above = above

    def plateau(self, threshold: float) -> tuple[float, float] | None:
        """The interval around the threshold in which no verdict changes (±inf where open), or None without runs.

        >>> Flips([10.96, 694.5, 2000.0], above=True).plateau(50.0)
        (10.96, 694.5)
        """
        index = self._index(threshold)
        return (self._at(index - 1), self._at(index)) if self.values else None

    def next(self, threshold: float, *, upward: bool) -> float | None:
        """The nearest round threshold, in one direction, with other verdicts; None if there is none.

        >>> Flips([10.96, 694.5, 2000.0], above=True).next(50.0, upward=True)
        695.0
        """
        flip = self._at(self._index(threshold) - (not upward))
        if not math.isfinite(flip):
            return None
        beyond = bisect.bisect_right(self.values, flip) if upward else bisect.bisect_left(self.values, flip) - 1
        round_number = just_past(flip, upward, self._at(beyond))
        if round_number is not None:
            return round_number
        if upward == self._above:
            return flip
        return math.nextafter(flip, math.inf if upward else -math.inf)

    def _at(self, index: int) -> float:
        """One of the values, or what is beyond them."""
        return -math.inf if index < 0 else self.values[index] if index < len(self.values) else math.inf

    def _index(self, threshold: float) -> int:
        """How many flip values lie on the lower side of the threshold."""
        find = bisect.bisect_right if self._above else bisect.bisect_left
        return find(self.values, threshold)


def finite(ticks: Sequence[float]) -> array[float]:
    """The finite values, sorted; an array that is so already is kept as it is."""
    if not isinstance(ticks, array):
        return array("d", sorted(tick for tick in ticks if math.isfinite(tick)))
    # many runs, from columns: Python objects for them would take four times the memory meanwhile
    import numpy as np

    values = np.frombuffer(ticks)
    if np.isfinite(values).all() and (values[1:] >= values[:-1]).all():
        return ticks  # the sliders of all screens share it
    values = np.sort(values)
    return array("d", values[np.isfinite(values)].tobytes())
