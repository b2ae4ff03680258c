"""How long something still takes, from how fast it went so far, and how long it took."""

from __future__ import annotations

import time
from collections.abc import Callable


class Pace:
    """Steps that get done, and when.

    Args:
        clock: seconds (tests bring their own).
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._first: tuple[float, float] | None = None
        self._last = (0.0, 0.0)

    def note(self, done: float) -> None:
        """So many steps are done now, with a part of the next one; fewer than before means that it began anew."""
        if self._first is None or done < self._last[0]:
            self._first = self._last = (done, self._clock())
        elif done > self._last[0]:
            self._last = (done, self._clock())

    def seconds_left(self, total: int) -> float | None:
        """Seconds until all steps are done; None before two different counts were noted.

        The time before the first count (loading data, starting torch) does not enter the rate.
        """
        if self._first is None or self._last[0] <= self._first[0]:
            return None
        (first, began), (last, at) = self._first, self._last
        per_step = (at - began) / (last - first)
        return max(0.0, (total - last) * per_step - (self._clock() - at))


class Stopwatch:
    """How long something ran the last time.

    Args:
        clock: seconds (tests bring their own).
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began: float | None = None
        self._ended: float | None = None

    def note(self, *, running: bool) -> None:
        """It runs now, or does not."""
        if running:
            if self._began is None or self._ended is not None:
                self._began, self._ended = self._clock(), None
        elif self._began is not None and self._ended is None:
            self._ended = self._clock()

    @property
    def seconds(self) -> float | None:
        """Of the last time; None while it runs and where it never ran."""
        return None if self._began is None or self._ended is None else self._ended - self._began


def time_words(seconds: float) -> str:
    """A time as short as it can be said.

    >>> [time_words(seconds) for seconds in (0.2, 42, 200, 7500, 200_000)]
    ['<1 s', '42 s', '3 min', '2 h 05', '2 d 7 h']
    """
    if seconds < 1:
        return "<1 s"
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes:02}"
    return f"{hours // 24} d {hours % 24} h"
