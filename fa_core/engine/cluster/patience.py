"""How long a job may say nothing before it is tried elsewhere."""

from __future__ import annotations

FLOOR = 30.0
"""Seconds at least: a first job imports torch and loads the data before its first word."""

TIMES = 10.0
"""How many times the longest pause seen."""


class Patience:
    """A limit on silence, learned from the pauses of the jobs so far: they say a word per batch.

    >>> patience = Patience()
    >>> patience.paused(0.2), patience.limit()
    (None, 30.0)
    >>> patience.paused(12.0), patience.limit()
    (None, 120.0)

    Args:
        fixed: seconds that the person chose; None = learned.
    """

    def __init__(self, fixed: float | None = None) -> None:
        self._fixed = fixed
        self._longest = 0.0

    def paused(self, seconds: float) -> None:
        """A job said a word after this long. One that was given up, and thawed, teaches nothing."""
        if seconds < self.limit():
            self._longest = max(self._longest, seconds)

    def limit(self) -> float:
        """Seconds of silence that are too long."""
        return self._fixed if self._fixed is not None else max(FLOOR, TIMES * self._longest)
