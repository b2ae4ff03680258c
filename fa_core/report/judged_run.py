"""A judged run: its numbers, the state of each diagnostic, and what follows for the run.

`fa_core.report.judge` does the same for many runs with moving thresholds; a test keeps the two
equal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cached_property

from fa_core.report.diagnostics import (
    ASSUMED,
    BOUND,
    CONTROL,
    DIAGNOSTICS,
    FIRES,
    LETTERS,
    NORM_RATIO_EPS,
    NOT_MEASURED,
    PASSES,
    UNDECIDED,
    cell_text,
    judgement_of,
    largest_growth,
    recorded_flags,
    verdict_text,
)
from fa_core.report.intervals import noise_scale
from fa_core.report.names import is_control
from fa_core.report.provenance import (
    BASELINE_FROM,
    BATCH_SIZES,
    GIVEN,
    OTHER_BASELINES,
    Interval,
    Intervals,
)
from fa_core.report.quantities import JUDGED
from fa_core.report.report_facts import ReportFacts, refuse_changes


def margin_over(headline: float | None, baseline: float | None) -> float | None:
    """(d)'s number: 100·(headline_acc − frozen_baseline_acc), rounded to 1e-9 percentage points.

    >>> margin_over(0.62, 0.557), margin_over(0.62, None)
    (6.3, None)
    """
    if headline is None or baseline is None:
        return None
    return round(100.0 * (headline - baseline), 9)


def _fires(letter: str) -> property:
    """Whether a diagnostic fires; None if it was not measured or is undecided."""
    return property(lambda run: {FIRES: True, PASSES: False}.get(run.states[letter]))


@refuse_changes
class JudgedRun(ReportFacts, frozen=True, dict=True):
    """A run as its thresholds judge it; fields as in `ReportFacts`."""

    @cached_property
    def numbers(self) -> dict[str, float | None]:
        """Diagnostic letter → the number it judges; None if unmeasured.

        >>> JudgedRun(residual_norms=[1.0, 2.0], bp_grad_norms=[0.5, 0.25]).numbers
        {'a': 2.0, 'b': 0.25, 'c': None, 'd': None}
        """
        norms = self.bp_grad_norms
        return {
            "a": largest_growth(self.residual_norms, self.growth_bound),
            "b": norms[-1] if norms else None,
            "c": self.cross_batch_stability,
            "d": margin_over(self.headline_acc, self.baseline_acc),
        }

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
        """Diagnostic letter → its first value that is NaN or ±inf, as text.

        >>> JudgedRun(residual_norms=[1.0, math.inf]).nonfinite
        {'a': 'residual norm at layer 1 is inf'}
        """
        scalars = (
            ("a", "growth bound", self.growth_bound),
            ("c", "cross-batch stability", self.cross_batch_stability),
            ("d", "headline accuracy", self.headline_acc),
            ("d", "frozen baseline accuracy", self.baseline_acc),
        )
        streams = (
            ("a", "residual norm", self.residual_norms),
            ("b", "BP gradient norm", self.bp_grad_norms),
        )
        found: dict[str, str] = {}
        for letter, name, norms in streams:
            for layer, norm in enumerate(norms):
                if not math.isfinite(norm):
                    found.setdefault(letter, f"{name} at layer {layer} is {norm}")
        for letter, name, value in scalars:
            if value is not None and not math.isfinite(value):
                found.setdefault(letter, f"{name} is {value}")
        return found

    @cached_property
    def reach(self) -> Intervals:
        """Measured letter → (sure, possible), between which a threshold leaves the diagnostic
        undecided.

        It fires if *sure* lies beyond the threshold, passes if *possible* does not: the least and
        the greatest of its number and the ends of its interval. A non-finite value fires at every
        threshold; what is `inconclusive` passes at none.
        """
        inconclusive = self.inconclusive
        found = {}
        for letter, number in self.numbers.items():
            diagnostic = DIAGNOSTICS[letter]
            if letter in self.nonfinite:
                found[letter] = (diagnostic.always, diagnostic.always)
            elif number is not None:
                # a file's interval may not hold its number: what they decide differently is open
                ends = sorted((number, *(self.interval(letter) or ())))
                sure, possible = ends[0], ends[-1]
                if not diagnostic.fires_above:
                    sure, possible = possible, sure
                if letter in inconclusive:
                    possible = diagnostic.always
                found[letter] = (sure, possible)
        return found

    @cached_property
    def coverage(self) -> str:
        """The judged diagnostics, in order, e.g. ``"abc"``; (d) counts with an assumed baseline."""
        return "".join(self.reach)

    @property
    def measured(self) -> str:
        """The measured diagnostics, in order; (d) does not count with an assumed baseline."""
        if self.kinds.get("d") == ASSUMED:
            return self.coverage.replace("d", "")
        return self.coverage

    @property
    def kinds(self) -> Mapping[str, str]:
        """Diagnostic letter → ``"bound"``, ``"proxy"`` or ``"assumed"`` if its number is not
        exact; a baseline that is recorded as given by hand is assumed, too."""
        if self.assumed_baseline_acc is None and self.provenance.get(BASELINE_FROM) != GIVEN:
            return self.evidence
        return {**self.evidence, "d": ASSUMED}

    @property
    def inexact(self) -> dict[str, str]:
        """Judged letter → its kind, if its number is not exact (`kinds`)."""
        kinds = sorted(self.kinds.items())
        return {letter: kind for letter, kind in kinds if letter in self.coverage}

    @cached_property
    def states(self) -> dict[str, str]:
        """Diagnostic letter → ``"fires"``, ``"passes"``, ``"undecided"`` or ``"not measured"``.

        >>> run = JudgedRun(cross_batch_stability=0.4, intervals={"stability": (0.2, 0.6)})
        >>> run.states["c"], run.judgement
        ('undecided', 'undecided')
        """
        found = dict.fromkeys(LETTERS, NOT_MEASURED)
        for letter, ends in self.reach.items():
            fires = DIAGNOSTICS[letter].fires
            sure, possible = (fires(end, self.thresholds) for end in ends)
            found[letter] = FIRES if sure else UNDECIDED if possible else PASSES
        return found

    def _in_state(self, state: str) -> frozenset[str]:
        return frozenset(letter for letter, own in self.states.items() if own == state)

    @cached_property
    def flags(self) -> frozenset[str]:
        """The diagnostics that fire under `thresholds`, e.g. ``{"a", "b"}``."""
        return self._in_state(FIRES)

    @cached_property
    def undecided(self) -> frozenset[str]:
        """The measured diagnostics that neither fire nor pass: the threshold lies within the
        number's interval, or between it and the number, or the number does not fire and proves
        nothing (`unproven`)."""
        return self._in_state(UNDECIDED)

    @cached_property
    def by_numbers(self) -> frozenset[str]:
        """The diagnostics that fire by the published rule, which knows no intervals."""
        fired = set(self.nonfinite)
        for letter, number in self.numbers.items():
            if number is not None and DIAGNOSTICS[letter].fires(number, self.thresholds):
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
        baseline = self.baseline_acc
        acc = self.intervals.get("acc")
        if baseline is None or acc is None:
            return None
        low, high = acc
        return 100 * (low - baseline), 100 * (high - baseline)

    @property
    def judged_intervals(self) -> Intervals:
        """All intervals by the names of `intervals`, with (d)'s as judged."""
        found = {}
        for letter, quantity in JUDGED.items():
            ends = self.interval(letter)
            if ends is not None:
                found[quantity.column] = ends
        if "acc" in self.intervals:
            found["acc"] = self.intervals["acc"]
        return found

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
        """The undecided diagnostics that are `inconclusive`."""
        return self.undecided & self.inconclusive

    @property
    def dead_layers(self) -> list[int]:
        """Layers with a median norm below 1e-30: growth into and out of them is undefined."""
        norms = self.residual_norms
        if len(norms) < 2:
            return []
        return [layer for layer, norm in enumerate(norms) if norm < NORM_RATIO_EPS]

    @property
    def judgement(self) -> str:
        """``"walk-back"`` if a diagnostic fires; else ``"undecided"`` if one is; else
        ``"trustworthy"`` on its coverage, or ``"not measured"``."""
        return judgement_of(self.flags, self.coverage, self.undecided)

    @property
    def claim(self) -> str:
        """What is counted, coloured and printed: the judgement, or `no_claim`."""
        return judgement_of(self.flags, self.coverage, self.undecided, self.no_claim)

    residual_stream_exploded = _fires("a")
    bp_grad_at_floor = _fires("b")
    reference_drift_dominated = _fires("c")
    frozen_baseline_undercut = _fires("d")

    def cell(self) -> str:
        """The judgement in five characters (`cell_text`)."""
        return cell_text(
            self.flags,
            self.coverage,
            self.undecided,
            self.no_claim,
        )

    @cached_property
    def noise_scale(self) -> float | None:
        """N in samples, from (c) and B (`fa_core.report.intervals.noise_scale`); None if (c)
        shows no shared direction."""
        c = self.cross_batch_stability
        sizes = self.batch_sizes
        if c is not None and sizes and 0 < c < 1:
            return noise_scale(c, sizes)
        return None

    @property
    def batch_sizes(self) -> Sequence[int]:
        """B of every batch of (c); one if all are equal, none if unknown."""
        usual = [] if self.batch_size is None else [self.batch_size]
        sizes: Sequence[int] = self.provenance.get(BATCH_SIZES, usual)
        return sizes

    @property
    def margins_by_rule(self) -> dict[str, float]:
        """(d)'s number against frozen blocks that other rules trained: rule with its options →
        percentage points."""
        return {
            rule: margin
            for rule, baseline in self.provenance.get(OTHER_BASELINES, {}).items()
            if (margin := margin_over(self.headline_acc, baseline)) is not None
        }

    @cached_property
    def verdict(self) -> str:
        """The published verdict text, by the numbers alone, as files have it (`verdict_text`)."""
        return verdict_text(self.by_numbers, self.coverage)

    @property
    def no_claim(self) -> str:
        """In place of the judgement of a run that makes no claim: a control, or one of which files
        changed since it was measured; else ``""``."""
        return NOT_MEASURED if self.changed else CONTROL if is_control(self.method_name) else ""

    @property
    def recorded_differs(self) -> bool:
        """Whether the recorded verdict names other diagnostics than the recomputed one."""
        recorded = recorded_flags(self.recorded_verdict)
        if recorded is None or self.recorded_verdict == self.verdict:
            return recorded is None and self.recorded_verdict is not None
        unmeasured = self.recorded_verdict == NOT_MEASURED
        return recorded != self.by_numbers or unmeasured != (self.coverage == "")
