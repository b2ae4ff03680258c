"""Undo and redo of thresholds, where a held key or a drag is one change."""

from __future__ import annotations

from fa_core.report import DiagnosticThresholds

_GESTURE_SECONDS = 0.8
"""Changes of one series closer in time than this are one gesture."""


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
        self._last: tuple[str | None, float] = None, 0.0

    def record(self, thresholds: DiagnosticThresholds, series: str | None, at: float) -> None:
        """Make `thresholds` current.

        Args:
            thresholds: the new values.
            series: what moves so, e.g. one slider by steps; None: a change of its own (a preset, a typed value).
            at: the time in seconds.
        """
        if thresholds == self.current:
            return
        before, then = self._last
        if series is None or series != before or at - then >= _GESTURE_SECONDS:
            self._past.append(self.current)
        self.current = thresholds
        self._future.clear()
        self._last = (series, at)

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
            self._last = (None, 0.0)
        return self.current
