"""Undo and redo of thresholds and baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fa_core.report.thresholds import DiagnosticThresholds

if TYPE_CHECKING:
    from fa_core.report.baseline import FrozenBaseline

_REPEAT_SECONDS = 0.15
"""Seconds within which a held key repeats; a key that is pressed again takes longer."""


class Judging(NamedTuple):
    """The criteria, which can be undone."""

    thresholds: DiagnosticThresholds
    baseline: FrozenBaseline | None


class ThresholdHistory:
    """Current, past and undone criteria.

    >>> from fa_core.report.thresholds import DiagnosticThresholds
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

    def record(
        self, state: Judging, series: str | None, at: float, *, is_drag: bool = False
    ) -> None:
        """Make `state` current.

        Args:
            state: the new values.
            series: e.g. a slider's name; what a held key changes of it is one step. None: a
                separate change (a preset, a typed value).
            at: the time in seconds.
            is_drag: whether the series is one drag of the mouse, which is one step with its pauses.
        """
        if state == self.current:
            return
        before, then = self._last
        goes_on = series is not None and series == before
        if not goes_on or (at - then >= _REPEAT_SECONDS and not is_drag):
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
