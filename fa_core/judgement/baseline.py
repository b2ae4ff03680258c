"""The frozen baseline of (d) that is assumed, and the controls that get none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from fa_core.errors import UsageError
from fa_core.facts.controls import WITHOUT_BASELINE
from fa_core.facts.method_style import METHOD_STYLES
from fa_core.facts.report_facts import ReportFacts

Facts = TypeVar("Facts", bound=ReportFacts)


def why_no_baseline(method: str) -> str:
    """Why (d) is not asked of a control; ``""`` for every other method.

    >>> why_no_baseline("frozen"), why_no_baseline("dfa")
    ('frozen is a baseline itself', '')
    """
    if method == "random_init":
        return "not applicable to an untrained net"
    if method in WITHOUT_BASELINE:
        return f"{method} is a baseline itself"
    return ""


class FrozenBaseline(msgspec.Struct, frozen=True):
    """A frozen-blocks accuracy to assume: (d) is judged by it, and nothing takes it for a measured
    one.

    Attributes:
        default: for every run that recorded none (a fraction), or None; not for a control that is a
            baseline itself.
        by_method: canonical method name → accuracy for that method, in place of a recorded one too.
    """

    default: float | None = None
    by_method: Mapping[str, float] = {}

    def check(self, methods: Iterable[str]) -> None:
        """Refuse a name that no run has and no method; of no runs at all nothing is said.

        Args:
            methods: of the runs, in order.

        Raises:
            UsageError: names it, and which methods there are.
        """
        from fa_core.option_values import nearest

        known = dict.fromkeys(methods)
        for name in self.by_method:
            if known and name not in known and name not in METHOD_STYLES:
                raise UsageError(
                    f"--frozen-baseline {name}=...: no run of method {name!r}",
                    hint=nearest(name, known),
                )

    def __bool__(self) -> bool:
        """Whether anything is assumed."""
        return self.default is not None or bool(self.by_method)

    def assumed_for(self, method: str, recorded: float | None = None) -> float | None:
        """The accuracy assumed for a method's runs that record this one, or none; None if none is
        assumed."""
        acc = self.by_method.get(method)
        if acc is None and recorded is None and method not in WITHOUT_BASELINE:
            return self.default
        return acc

    def assumed_in(self, report: Facts, method: str) -> Facts:
        """The report of a run of this method, judged by the baseline."""
        acc = self.assumed_for(method, report.frozen_baseline_acc)
        if acc is None:
            return report
        return report.with_assumed_baseline(acc)
