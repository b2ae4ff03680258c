"""Undo and redo of what judges the runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fa_core.facts.thresholds import DiagnosticThresholds

if TYPE_CHECKING:
    from fa_core.judgement.baseline import FrozenBaseline

_GESTURE_SECONDS = 0.8
"""Changes of one series closer in time than this are one gesture."""


class Judging(NamedTuple):
    """What judges the runs, and can be undone."""

    thresholds: DiagnosticThresholds
    baseline: FrozenBaseline | None


class ThresholdHistory:
    """The thresholds (and what else judges the runs) now, those before, and those undone.

    >>> from fa_core.facts.thresholds import DiagnosticThresholds
    >>> history = ThresholdHistory(DiagnosticThresholds())
    >>> history.record(DiagnosticThresholds(g_norm_floor=1e-6), "b", at=0.0)
    >>> history.record(DiagnosticThresholds(g_norm_floor=1e-5), "b", at=0.1)
    >>> history.undo().g_norm_floor, history.redo().g_norm_floor
    (1e-07, 1e-05)
    """

    def __init__(self, initial: Judging) -> None:
        self.current = initial
        self._past: list[Judging] = []
        self._future: list[Judging] = []
        self._last: tuple[str | None, float] = None, 0.0

    @property
    def offers(self) -> tuple[str, ...]:
        """``undo``, ``redo`` or both: those that would change something."""
        return ("undo",) * bool(self._past) + ("redo",) * bool(self._future)

    def record(self, state: Judging, series: str | None, at: float) -> None:
        """Make `state` current.

        Args:
            state: the new values.
            series: what moves so, e.g. one slider by steps; None: a change of its own (a preset, a
                typed value).
            at: the time in seconds.
        """
        if state == self.current:
            return
        before, then = self._last
        if series is None or series != before or at - then >= _GESTURE_SECONDS:
            self._past.append(self.current)
        self.current = state
        self._future.clear()
        self._last = (series, at)

    def undo(self) -> Judging:
        """Step back; stays where it is at the beginning."""
        return self._travel(self._past, self._future)

    def redo(self) -> Judging:
        """Take the last undo back."""
        return self._travel(self._future, self._past)

    def _travel(self, source: list[Judging], target: list[Judging]) -> Judging:
        if source:
            target.append(self.current)
            self.current = source.pop()
            self._last = (None, 0.0)
        return self.current
