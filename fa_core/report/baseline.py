"""Assumed frozen baselines for (d)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from fa_core.errors import UsageError
from fa_core.report.controls import WITHOUT_BASELINE
from fa_core.report.method_style import METHOD_STYLES
from fa_core.report.report_facts import ReportFacts

Facts = TypeVar("Facts", bound=ReportFacts)


def why_no_baseline(method: str) -> str:
    """Why (d) does not apply to a control; ``""`` for other methods.

    >>> why_no_baseline("frozen"), why_no_baseline("dfa")
    ('frozen is a baseline itself', '')
    """
    if method == "random_init":
        return "not applicable to an untrained net"
    if method in WITHOUT_BASELINE:
        return f"{method} is a baseline itself"
    return ""


class FrozenBaseline(msgspec.Struct, frozen=True):
    """Assumed frozen-blocks accuracies for (d), never treated as measured.

    Attributes:
        default: a fraction for runs without a recorded one, except controls that are baselines; or
            None.
        by_method: canonical method name → accuracy, which overrides recorded ones.
    """

    default: float | None = None
    by_method: Mapping[str, float] = {}

    def check(self, methods: Iterable[str]) -> None:
        """Refuse names of methods without runs, if there are runs.

        Args:
            methods: the runs' methods, in order.

        Raises:
            UsageError: with the known methods in the hint.
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
        """The assumed accuracy for a run of a method with a recorded accuracy or None; None if none
        is assumed."""
        acc = self.by_method.get(method)
        if acc is None and recorded is None and method not in WITHOUT_BASELINE:
            return self.default
        return acc

    def assumed_in(self, report: Facts, method: str) -> Facts:
        """A method's report judged by the assumed baseline."""
        acc = self.assumed_for(method, report.frozen_baseline_acc)
        if acc is None:
            return report
        return report.with_assumed_baseline(acc)
