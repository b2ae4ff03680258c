"""Frozen baselines that nobody measured: (d) may be judged by one, and every table and analysis then says so."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from fa_core.naming import listed
from fa_core.report import DiagnosticReport

if TYPE_CHECKING:
    from fa_core.table import AuditTable


class Baseline(NamedTuple):
    """A frozen-baseline accuracy for reports that record none.

    Attributes:
        acc: a fraction.
        assumed: whether nobody measured it.
    """

    acc: float
    assumed: bool = False

    @classmethod
    def of(cls, given: float | Baseline | None) -> Baseline | None:
        """A bare number is one that somebody measured."""
        return cls(given) if isinstance(given, (int, float)) else given

    def given_to(self, report: DiagnosticReport) -> DiagnosticReport:
        """The report, judged by this baseline if it records none."""
        if report.frozen_baseline_acc is not None:
            return report
        return report.with_assumed_baseline(self.acc) if self.assumed else report.with_frozen_baseline(self.acc)


def assumed_words(table: AuditTable) -> str:
    """That (d) is judged by an assumed baseline, on how many runs and by which; ``""`` where it is not.

    >>> from fa_core.rows import AuditRow
    >>> from fa_core.table import AuditTable
    >>> row = AuditRow(source="", key="", method="ep", report=DiagnosticReport(headline_acc=0.4))
    >>> assumed_words(AuditTable.from_rows([row]).with_frozen_baseline(0.349))
    '(d) is assumed, not measured, on 1 of 1 runs: against a frozen baseline of 0.349 (ep)'
    """
    where = table.assumed
    methods: dict[float, list[str]] = {}
    for acc, method in dict.fromkeys(zip(table.baseline[where].tolist(), table.method[where].tolist(), strict=True)):
        methods.setdefault(acc, []).append(method)
    if not methods:
        return ""
    by = " and ".join(f"{acc:.4g} ({listed(names)})" for acc, names in methods.items())
    return (
        f"(d) is assumed, not measured, on {int(where.sum())} of {len(table)} runs: against a frozen baseline of {by}"
    )
