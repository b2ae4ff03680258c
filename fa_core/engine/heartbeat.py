"""Heartbeats of worker processes: after how long a silent worker counts as hung."""

from __future__ import annotations

from collections.abc import Callable

HUNG_AFTER = 10
"""Seconds without a message after which a worker counts as hung, and is named in its jobs."""

CHECK_EVERY = 1.0
"""Seconds between two checks of all workers."""


class Heartbeat:
    """The time since a worker was last heard or given work.

    Args:
        clock: seconds.

    Attributes:
        is_hung: whether the last check found the worker hung.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last = clock()
        self.is_hung = False

    def beat(self) -> bool:
        """Note a sign of life; True if the worker counted as hung."""
        self._last = self._clock()
        was_hung, self.is_hung = self.is_hung, False
        return was_hung

    def silence(self) -> int:
        """Seconds of silence, once the worker counts as hung; 0 before."""
        seconds = int(self._clock() - self._last)
        if seconds < HUNG_AFTER:
            return 0
        self.is_hung = True
        return seconds
