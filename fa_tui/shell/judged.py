"""Rows judged by some thresholds: each when somebody looks at it, each rule applied once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from fa_core.formats.made_rows import MadeRows
from fa_core.report import DiagnosticReport, DiagnosticThresholds
from fa_core.rows import AuditRow

if TYPE_CHECKING:
    from fa_tui.shell.options import FrozenBaseline


class _Once:
    """A property of the report that is worked out when it is first asked for; the report never changes."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        self._work_out = getattr(DiagnosticReport, name).fget

    def __get__(self, report: Any, owner: type) -> Any:
        if report is None:
            return self
        value = report.__dict__[self._name] = self._work_out(report)
        return value


class JudgedReport(DiagnosticReport, frozen=True, kw_only=True, dict=True):
    """A report that remembers what follows from it: a line of a table asks ten times for the same."""

    max_per_block_growth = _Once()
    margin_pp = _Once()
    nonfinite = _Once()
    coverage = _Once()
    flags = _Once()
    verdict = _Once()


class Judged(MadeRows):
    """Rows with their reports judged by some thresholds.

    Args:
        rows: the rows.
        thresholds: the thresholds.
        baseline: gives reports without one a frozen baseline first.
    """

    def __init__(
        self, rows: Sequence[AuditRow], thresholds: DiagnosticThresholds, baseline: FrozenBaseline | None = None
    ) -> None:
        self.rows = rows
        self._thresholds = thresholds
        self._baseline = baseline

    def __len__(self) -> int:
        return len(self.rows)

    def made(self, index: int) -> AuditRow:
        """One row."""
        return self._judged(self.rows[index])

    def __iter__(self) -> Iterator[AuditRow]:
        return map(self._judged, self.rows)

    def _judged(self, row: AuditRow) -> AuditRow:
        if self._baseline is not None:
            row = self._baseline.filled(row)
        return AuditRow(
            source=row.source,
            key=row.key,
            method=row.method,
            seed=row.seed,
            report=JudgedReport(**{**asdict(row.report), "thresholds": self._thresholds}),
            checkpoint=row.checkpoint,
            axes=row.axes,
        )
