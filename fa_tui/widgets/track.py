"""The track of a slider: from where to where it goes, and in which steps."""

from __future__ import annotations

from dataclasses import dataclass

from fa_tui.widgets.ladder import R1, R3, R10, R20, Ladder
from fa_tui.widgets.scale import Scale

_WIDE_DECADES = 6
"""A log track longer than this steps in coarser rungs."""


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
