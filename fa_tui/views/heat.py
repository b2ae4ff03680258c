"""Where a number lies between the lowest and the highest shown, as one of a few shades."""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

SHADES = 8
"""So many can be told apart behind text; the number itself says the rest."""


class Scale(msgspec.Struct, frozen=True):
    """From the lowest to the highest number; logarithmic where the quantity is."""

    low: float
    high: float
    log: bool

    def shade(self, value: float | None) -> int | None:
        """0 for the lowest number to ``SHADES - 1`` for the highest and +inf; None where there is no number.

        >>> Scale(1.0, 1e4, log=True).shade(100.0), Scale(1.0, 1e4, log=False).shade(100.0)
        (4, 0)
        """
        if value is None or math.isnan(value):
            return None
        if value <= self.low:
            return 0
        if value >= self.high:
            return SHADES - 1
        low, high, at = (math.log(x) if self.log else x for x in (self.low, self.high, value))
        return min(SHADES - 1, int(SHADES * (at - low) / (high - low)))


def scale_of(values: Iterable[float | None], *, log: bool) -> Scale | None:
    """The scale of some numbers; None where fewer than two differ (a shade would say nothing).

    >>> scale_of([3.0, None, float("inf"), 1.0, 0.0], log=True)
    Scale(low=1.0, high=3.0, log=True)
    """
    finite = [value for value in values if value is not None and math.isfinite(value) and not (log and value <= 0)]
    low, high = min(finite, default=0.0), max(finite, default=0.0)
    return Scale(low, high, log) if low < high else None
