"""Undo and redo of thresholds, where a held key or a drag is one change."""

from __future__ import annotations

from fa_core.report import DiagnosticThresholds

_GESTURE_SECONDS = 0.8
"""Changes of one slider closer in time than this are one gesture."""


class ThresholdHistory:
    """The thresholds now, those before, and those undone.

    >>> history = ThresholdHistory(DiagnosticThresholds())
    >>> history.record(DiagnosticThresholds(g_norm_floor=1e-6), "b", at=0.0)
    >>> history.record(DiagnosticThresholds(g_norm_floor=1e-5), "b", at=0.1)
    >>> history.undo().g_norm_floor, history.redo().g_norm_floor
    (1e-07, 1e-05)
    """

    def __init__(self, initial: DiagnosticThresholds) -> None:
        self.current = initial
        self._past: list[DiagnosticThresholds] = []
        self._future: list[DiagnosticThresholds] = []
        self._last: tuple[str, float] | None = None

    def record(self, thresholds: DiagnosticThresholds, source: str, at: float) -> None:
        """Make `thresholds` current.

        Args:
            thresholds: the new values.
            source: which slider moved; moves of another one are another gesture.
            at: the time in seconds.
        """
        if thresholds == self.current:
            return
        same = self._last is not None and self._last[0] == source and at - self._last[1] < _GESTURE_SECONDS
        if not same:
            self._past.append(self.current)
        self.current = thresholds
        self._future.clear()
        self._last = (source, at)

    def undo(self) -> DiagnosticThresholds:
        """Step back; stays where it is at the beginning."""
        return self._travel(self._past, self._future)

    def redo(self) -> DiagnosticThresholds:
        """Take the last undo back."""
        return self._travel(self._future, self._past)

    def _travel(self, source: list[DiagnosticThresholds], target: list[DiagnosticThresholds]) -> DiagnosticThresholds:
        if source:
            target.append(self.current)
            self.current = source.pop()
            self._last = None
        return self.current
