"""A judged run: its numbers, firing and undecided diagnostics.

`fa_core.report.judge` does the same for many runs with moving thresholds; a test keeps the two
equal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property

from fa_core.report.diagnostics import (
    ASSUMED,
    BOUND,
    DIAGNOSTICS,
    LETTERS,
    NORM_RATIO_EPS,
    largest_growth,
)
from fa_core.report.immutable import refuse_changes
from fa_core.report.intervals import noise_scale
from fa_core.report.measurements import Interval
from fa_core.report.names import is_control
from fa_core.report.provenance import OTHER_BASELINES
from fa_core.report.quantities import JUDGED
from fa_core.report.report_facts import ReportFacts
from fa_core.report.verdict import (
    FIRES,
    NOT_MEASURED,
    PASSES,
    UNDECIDED,
    recorded_flags,
    short_verdict,
    standing,
    verdict_text,
)


def margin_over(headline: float | None, baseline: float | None) -> float | None:
    """(d)'s number: 100·(headline_acc − frozen_baseline_acc), rounded to 1e-9 percentage points.

    >>> margin_over(0.62, 0.557), margin_over(0.62, None)
    (6.3, None)
    """
    if headline is None or baseline is None:
        return None
    return round(100.0 * (headline - baseline), 9)


def numbers_of(facts: ReportFacts) -> tuple[float | None, ...]:
    """The numbers that (a) to (d) judge, in order; None if unmeasured.

    >>> numbers_of(ReportFacts(residual_norms=[1.0, 2.0], bp_grad_norms=[0.5, 0.25]))
    (2.0, 0.25, None, None)
    """
    deepest = None
    if facts.bp_grad_norms:
        deepest = facts.bp_grad_norms[-1]
    return (
        largest_growth(facts.residual_norms, facts.growth_bound),
        deepest,
        facts.cross_batch_stability,
        margin_over(facts.headline_acc, facts.baseline_acc),
    )


def nonfinite_in(facts: ReportFacts) -> dict[str, str]:
    """Diagnostic letter → its first value that is NaN or ±inf, as text.

    >>> nonfinite_in(ReportFacts(residual_norms=[1.0, math.inf]))
    {'a': 'residual norm at layer 1 is inf'}
    """
    scalars = (
        ("a", "growth bound", facts.growth_bound),
        ("c", "cross-batch stability", facts.cross_batch_stability),
        ("d", "headline accuracy", facts.headline_acc),
        ("d", "frozen baseline accuracy", facts.baseline_acc),
    )
    streams = (
        ("a", "residual norm", facts.residual_norms),
        ("b", "BP gradient norm", facts.bp_grad_norms),
    )
    total = sum(facts.residual_norms) + sum(facts.bp_grad_norms)
    for _, _, value in scalars:
        total += value or 0.0
    # a sum is finite only if all terms are
    if math.isfinite(total):
        return {}
    found: dict[str, str] = {}
    for letter, name, norms in streams:
        for layer, norm in enumerate(norms):
            if not math.isfinite(norm):
                found.setdefault(letter, f"{name} at layer {layer} is {norm}")
    for letter, name, value in scalars:
        if value is not None and not math.isfinite(value):
            found.setdefault(letter, f"{name} is {value}")
    return found


@refuse_changes
class JudgedRun(ReportFacts, frozen=True, dict=True):
    """A run as its thresholds judge it; fields as in `ReportFacts`."""

    @cached_property
    def numbers(self) -> dict[str, float | None]:
        """Diagnostic letter → the number it judges; None if unmeasured."""
        return dict(zip(LETTERS, numbers_of(self), strict=True))

    @property
    def max_per_block_growth(self) -> float | None:
        """(a)'s number (`largest_growth`); NaN if a norm is non-finite; None if unmeasured."""
        return self.numbers["a"]

    @property
    def g_L(self) -> float | None:
        """(b)'s number: the deepest BP gradient norm; None if unmeasured."""
        return self.numbers["b"]

    @property
    def margin_pp(self) -> float | None:
        """(d)'s number (`margin_over`); None if unmeasured."""
        return self.numbers["d"]

    @cached_property
    def nonfinite(self) -> dict[str, str]:
        """Diagnostic letter → its first value that is NaN or ±inf, as text."""
        return nonfinite_in(self)

    @cached_property
    def coverage(self) -> str:
        """The judged diagnostics, in order, e.g. ``"abc"``; (d) counts with an assumed baseline."""
        numbers, nonfinite = self.numbers, self.nonfinite
        return "".join(
            letter for letter in LETTERS if numbers[letter] is not None or letter in nonfinite
        )

    @property
    def measured(self) -> str:
        """The measured diagnostics, in order; (d) does not count with an assumed baseline."""
        if self.assumed_baseline_acc is None:
            return self.coverage
        return self.coverage.replace("d", "")

    @property
    def kinds(self) -> Mapping[str, str]:
        """Diagnostic letter → ``"bound"``, ``"proxy"`` or ``"assumed"`` if its number is not
        exact."""
        if self.assumed_baseline_acc is None:
            return self.evidence
        return {**self.evidence, "d": ASSUMED}

    @cached_property
    def flags(self) -> frozenset[str]:
        """The diagnostics that fire under `thresholds`, e.g. ``{"a", "b"}``."""
        fired = set(self.nonfinite)
        for letter, number in self.numbers.items():
            if DIAGNOSTICS[letter].fires(number, self.thresholds):
                fired.add(letter)
        return frozenset(fired)

    def interval(self, letter: str) -> Interval | None:
        """The 95 % interval of a diagnostic's number; None if it has none.

        (d) uses the paired differences to its own baseline if measured on the same samples; else
        the accuracy's interval, with the baseline as exact.
        """
        own = self.intervals.get(JUDGED[letter].column)
        if letter != "d":
            return own
        if own is not None and self.assumed_baseline_acc is None:
            return own
        baseline, acc = self.baseline_acc, self.intervals.get("acc")
        if baseline is None or acc is None:
            return None
        low, high = acc
        return 100 * (low - baseline), 100 * (high - baseline)

    @property
    def judged_intervals(self) -> dict[str, Interval]:
        """All intervals by the names of `intervals`, with (d)'s as judged."""
        found = {}
        for letter, quantity in JUDGED.items():
            ends = self.interval(letter)
            if ends is not None:
                found[quantity.column] = ends
        if "acc" in self.intervals:
            found["acc"] = self.intervals["acc"]
        return found

    @cached_property
    def undecided(self) -> frozenset[str]:
        """The measured diagnostics that neither fire nor pass with confidence.

        The threshold lies within the number's interval, or the number does not fire and proves
        nothing (`unproven`).
        """
        found = set(self.unproven)
        if self.intervals:
            for letter in self.coverage:
                if letter not in self.nonfinite and self._straddles(letter):
                    found.add(letter)
        return frozenset(found)

    def _straddles(self, letter: str) -> bool:
        """Whether a diagnostic's threshold lies within its interval."""
        ends = self.interval(letter)
        if ends is None:
            return False
        low, high = ends
        diagnostic = DIAGNOSTICS[letter]
        fires_at_low = diagnostic.fires(low, self.thresholds)
        return fires_at_low != diagnostic.fires(high, self.thresholds)

    @property
    def inconclusive(self) -> frozenset[str]:
        """The diagnostics that cannot pass, only fire.

        Only a lower bound is known; (a) with a dead layer; (a) and (b) of a part of the stream.
        """
        found = {letter for letter in LETTERS if self.evidence.get(letter) == BOUND}
        if self.dead_layers:
            found.add("a")
        if self.partial_stream:
            found.update("ab")
        return frozenset(found)

    @property
    def unproven(self) -> frozenset[str]:
        """The measured diagnostics that do not fire and are `inconclusive`."""
        found = self.inconclusive
        if found:
            return found.intersection(self.coverage) - self.flags
        return found

    @property
    def dead_layers(self) -> list[int]:
        """Layers with a median norm below 1e-30: growth into and out of them is undefined."""
        norms = self.residual_norms
        if len(norms) < 2 or min(norms) >= NORM_RATIO_EPS:
            return []
        return [layer for layer, norm in enumerate(norms) if norm < NORM_RATIO_EPS]

    @cached_property
    def states(self) -> dict[str, str]:
        """Diagnostic letter → ``"fires"``, ``"passes"``, ``"undecided"`` or ``"not measured"``.

        Without an interval the number decides.

        >>> run = JudgedRun(cross_batch_stability=0.4, intervals={"stability": (0.2, 0.6)})
        >>> run.states["c"], run.judgement
        ('undecided', 'undecided')
        """
        found = dict.fromkeys(LETTERS, NOT_MEASURED)
        for letter in self.coverage:
            found[letter] = FIRES if letter in self.flags else PASSES
        return found | dict.fromkeys(self.undecided, UNDECIDED)

    @property
    def judgement(self) -> str:
        """``"walk-back"`` if a diagnostic fires; else ``"undecided"`` if one is; else
        ``"trustworthy"`` on its coverage, or ``"not measured"``."""
        return standing(self.flags - self.undecided, self.coverage, self.undecided)

    @property
    def noise_scale(self) -> float | None:
        """N in samples, from (c) and B (`fa_core.report.intervals.noise_scale`); None if (c)
        shows no shared direction."""
        c, size = self.cross_batch_stability, self.batch_size
        if c is not None and size is not None and 0 < c < 1:
            return noise_scale(c, size)
        return None

    @property
    def margins_by_rule(self) -> dict[str, float]:
        """(d)'s number against frozen blocks that other rules trained: rule → percentage points."""
        others = self.provenance.get(OTHER_BASELINES)
        if not isinstance(others, Mapping):
            return {}
        margins = {}
        for rule, baseline in others.items():
            margin = margin_over(self.headline_acc, baseline)
            if margin is not None:
                margins[rule.partition("(")[0]] = margin
        return margins

    @cached_property
    def verdict(self) -> str:
        """The verdict text under `thresholds` (`verdict_text`)."""
        return verdict_text(self.flags, self.coverage)

    @property
    def short_verdict(self) -> str:
        """The verdict in the form of published lists, e.g. ``walk-back: (a), (d)``."""
        return short_verdict(self.flags, self.coverage)

    @property
    def is_control(self) -> bool:
        """Whether its method is a control."""
        return is_control(self.method_name)

    def standing(self, control: bool | None = None) -> str:
        """The run's standing (`fa_core.report.verdict.standing`).

        Args:
            control: whether it is a control; None = by its name.
        """
        if control is None:
            control = self.is_control
        return standing(self.flags, self.coverage, self.undecided, control=control)

    @property
    def recorded_differs(self) -> bool:
        """Whether the recorded verdict names other diagnostics than the recomputed one."""
        recorded = recorded_flags(self.recorded_verdict)
        if recorded is None or self.recorded_verdict == self.verdict:
            return recorded is None and self.recorded_verdict is not None
        unmeasured = self.recorded_verdict == NOT_MEASURED
        return recorded != self.flags or unmeasured != (self.coverage == "")

    def _fires(self, letter: str) -> bool | None:
        """Whether a diagnostic fires; None if unmeasured or unproven."""
        if letter not in self.coverage or letter in self.unproven:
            return None
        return letter in self.flags

    @property
    def residual_stream_exploded(self) -> bool | None:
        """Whether (a) fires; None if it was not measured."""
        return self._fires("a")

    @property
    def bp_grad_at_floor(self) -> bool | None:
        """Whether (b) fires; None if it was not measured."""
        return self._fires("b")

    @property
    def reference_drift_dominated(self) -> bool | None:
        """Whether (c) fires; None if it was not measured."""
        return self._fires("c")

    @property
    def frozen_baseline_undercut(self) -> bool | None:
        """Whether (d) fires; None if it was not measured."""
        return self._fires("d")
