"""Undo and redo of thresholds and baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fa_core.facts.thresholds import DiagnosticThresholds

if TYPE_CHECKING:
    from fa_core.judgement.baseline import FrozenBaseline

_GESTURE_SECONDS = 0.8
"""Seconds within which changes of a series are one step."""


class Judging(NamedTuple):
    """The criteria, which can be undone."""

    thresholds: DiagnosticThresholds
    baseline: FrozenBaseline | None


class ThresholdHistory:
    """Current, past and undone criteria.

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
        """The available actions among ``undo`` and ``redo``."""
        return ("undo",) * bool(self._past) + ("redo",) * bool(self._future)

    def record(self, state: Judging, series: str | None, at: float) -> None:
        """Make `state` current.

        Args:
            state: the new values.
            series: e.g. a slider's name, whose steps are merged; None: a separate change (a preset,
                a typed value).
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
        """Undo a step, if there is one."""
        return self._travel(self._past, self._future)

    def redo(self) -> Judging:
        """Redo the last undone step."""
        return self._travel(self._future, self._past)

    def _travel(self, source: list[Judging], target: list[Judging]) -> Judging:
        if source:
            target.append(self.current)
            self.current = source.pop()
            self._last = (None, 0.0)
        return self.current
