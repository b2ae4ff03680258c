"""The frozen baseline that (d) compares with: recorded, measured in the same audit, given by the user, or assumed.

Which runs get none, and why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from fa_core.errors import UsageError

if TYPE_CHECKING:
    from fa_core.report import DiagnosticReport
    from fa_core.rows import AuditRow

FROZEN = "frozen"
"""The control whose accuracy is the baseline."""

CONTROLS = (FROZEN, "shallow", "random_init", "random_targets")
"""What methods are compared with. They have options of their own, not those of the method they are trained with."""

WITHOUT_BASELINE = frozenset({FROZEN, "shallow", "random_init"})
"""Controls that get no frozen baseline: two are baselines themselves, an untrained net claims nothing of its depth."""

BASELINE_FROM = "frozen_baseline_from"
"""Provenance member that says where a recorded baseline came from that was not in the run's manifest."""

GIVEN = "given"
"""What it says of one that the user gave while measuring the run."""


def why_no_baseline(method: str) -> str:
    """Why (d) is not asked of a control; ``""`` for every other method.

    >>> why_no_baseline("frozen"), why_no_baseline("dfa")
    ('frozen is a baseline itself', '')
    """
    if method not in WITHOUT_BASELINE:
        return ""
    if method == "random_init":
        return "an untrained net claims nothing of its depth"
    return f"{method} is a baseline itself"


class FrozenBaseline(msgspec.Struct, frozen=True):
    """A frozen-blocks accuracy to assume: (d) is judged by it, and nothing takes it for a measured one.

    Attributes:
        default: for every run that recorded none (a fraction), or None; not for a control that is a baseline itself.
        by_method: canonical method name → accuracy for that method, in place of a recorded one too.
    """

    default: float | None = None
    by_method: Mapping[str, float] = {}

    def check(self, methods: Iterable[str]) -> None:
        """Refuse a method that no run has; of no runs at all nothing is said.

        Args:
            methods: of the runs, in order.

        Raises:
            UsageError: names it, and which methods there are.
        """
        if not self.by_method:
            return
        from fa_core.option_values import nearest

        known = dict.fromkeys(methods)
        for name in self.by_method if known else ():
            if name not in known:
                raise UsageError(f"--frozen-baseline {name}=...: no run of method {name!r}", hint=nearest(name, known))

    def __bool__(self) -> bool:
        """Whether anything is assumed."""
        return self.default is not None or bool(self.by_method)

    def assumed_for(self, method: str, recorded: float | None = None) -> float | None:
        """The accuracy assumed for a method's runs that record this one, or none; None if none is assumed."""
        acc = self.by_method.get(method)
        return self.default if acc is None and recorded is None and method not in WITHOUT_BASELINE else acc

    def lent_to(self, report: DiagnosticReport, method: str) -> DiagnosticReport:
        """The report of a run of this method, judged by the baseline."""
        acc = self.assumed_for(method, report.frozen_baseline_acc)
        return report if acc is None else report.with_assumed_baseline(acc)

    def apply(self, rows: Iterable[AuditRow]) -> list[AuditRow]:
        """The rows judged by the baseline; rows without a measurement stay as they are."""
        return [self.filled(row) for row in rows] if self else list(rows)

    def filled(self, row: AuditRow) -> AuditRow:
        """A row judged by the baseline, if anything of it was measured."""
        report = row.report
        acc = self.assumed_for(row.method, report.frozen_baseline_acc)
        return row if acc is None or not report.coverage else replace(row, report=report.with_assumed_baseline(acc))

    def recorded(self, row: AuditRow) -> AuditRow:
        """A row with the baseline as its own if it has none: for a caller that measures it now, and knows it.

        One that a run has is never lost: in its place another can only be assumed.
        """
        report, acc = row.report, self.assumed_for(row.method)
        if report.frozen_baseline_acc is not None or acc is None or not report.coverage:
            return self.filled(row)
        return replace(row, report=report.with_frozen_baseline(acc))


def with_measured_baselines(rows: Iterable[AuditRow]) -> list[AuditRow]:
    """Fill in (d)'s baseline where a run has none and a frozen-blocks run was measured in the same audit.

    It must have the same network, arguments, data and seed; one of the same recipe goes before others.
    """
    rows = list(rows)
    frozen = [row for row in rows if row.method == FROZEN and row.report.headline_acc is not None]
    return [_with_baseline(row, frozen) for row in rows]


def with_baseline(row: AuditRow, acc: float | None, source: str) -> AuditRow:
    """The row with this baseline, and where it came from."""
    report = row.report.with_frozen_baseline(acc)
    return replace(row, report=replace(report, provenance={**report.provenance, BASELINE_FROM: source}))


def _with_baseline(row: AuditRow, frozen: list[AuditRow]) -> AuditRow:
    shared = _shared_with_baseline(row)
    if row.method in WITHOUT_BASELINE or row.report.frozen_baseline_acc is not None or shared is None:
        return row
    fitting = [candidate for candidate in frozen if _shared_with_baseline(candidate) == shared]
    recipe = row.report.provenance.get("recipe")
    # of several that are as good, the first
    best = max(fitting, key=lambda other: other.report.provenance.get("recipe") == recipe, default=None)
    return row if best is None else with_baseline(row, best.report.headline_acc, best.checkpoint or best.source)


def _shared_with_baseline(row: AuditRow) -> tuple[object, ...] | None:
    """What a run and its baseline share; None where the network is not known."""
    facts = row.report.provenance
    if row.seed is None or "arch" not in facts:
        return None
    return (facts["arch"], facts.get("arch_args"), facts.get("data"), facts.get("data_hash"), row.seed)
