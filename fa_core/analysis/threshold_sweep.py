"""Exact flips of states as one threshold moves, from the sorted ends and not from a grid.

A diagnostic's state on a run changes at the two ends that decide it: those of its interval, or
twice its number (`JudgedRun.reach`). For a diagnostic that fires above its
threshold t, end e fires iff e > t: no state changes on [e_(k), e_(k+1)). For one that fires below,
it fires iff e < t, and none changes on (e_(k), e_(k+1)].
"""

from __future__ import annotations

import math

import numpy as np

from fa_core.analysis import Result
from fa_core.analysis.method_groups import Members, split_groups
from fa_core.formats.table import AuditTable, having
from fa_core.report.diagnostics import DIAGNOSTICS, LETTERS, Diagnostic
from fa_core.report.numbers import median
from fa_core.report.provenance import Interval
from fa_core.report.quantities import JUDGED
from fa_core.report.report_facts import PROTOCOL, DiagnosticThresholds


class Spread(Result, frozen=True, kw_only=True):
    """One diagnostic's numbers in one group.

    Attributes:
        methods: the group's methods.
        runs: runs in the group.
        measured: of these, measured (non-finite ones included).
        nonfinite: of these, NaN or ±inf: they fire at every threshold, and min, median and max
            leave them out.
        min: smallest finite value; None without one.
        median: over runs (mean of the two middle values of an even count).
        max: largest finite value.
        fired: runs the diagnostic fires on at the current threshold.
        undecided: runs it is undecided on there.
    """

    methods: tuple[str, ...]
    runs: int
    measured: int
    nonfinite: int
    min: float | None
    median: float | None
    max: float | None
    fired: int
    undecided: int


class Sensitivity(Result, frozen=True, kw_only=True):
    """Separation of two groups of runs by one diagnostic, and robustness of its threshold.

    Attributes:
        letter: the diagnostic.
        name: of the diagnostic.
        unit: of all values.
        threshold: its current value.
        healthy: the group that should pass.
        degenerate: the group that should fire.
        every: all runs of the table except controls.
        neither: methods in neither group.
        separable: whether some threshold passes every healthy and fires on every degenerate
            measured run; None if a group has no measured run.
        gap: ratio ((a) and (b)) or difference ((c) and (d)) of the groups' nearest ends: of
            intervals, or the numbers; None if not separable.
        gap_interval: the two nearest ends.
        plateau: interval of thresholds in which no state changes; None for an open end. None if
            no run has a finite value.
        points: all thresholds at which a state changes, rising.
        skipped: what is assumed, what could not be said, and the missing inputs.
    """

    letter: str
    name: str
    unit: str
    threshold: float
    healthy: Spread
    degenerate: Spread
    every: Spread
    neither: tuple[str, ...]
    separable: bool | None
    gap: float | None
    gap_interval: Interval | None
    plateau: tuple[float | None, float | None] | None
    points: list[float]
    skipped: tuple[str, ...]

    @property
    def grouped(self) -> bool:
        """Whether both groups hold runs."""
        return bool(self.healthy.runs and self.degenerate.runs)


def sensitivity(
    table: AuditTable,
    letter: str,
    thresholds: DiagnosticThresholds = PROTOCOL,
    healthy: Members = None,
    degenerate: Members = None,
) -> Sensitivity:
    """Separation and plateau of one diagnostic, exact from the sorted ends.

    For a diagnostic that fires above, the groups are separable iff max(healthy) < min(degenerate),
    of the upper ends of intervals and of the lower ones, and gap = min(degenerate)/max(healthy), or
    their difference on a linear scale; mirrored for one that fires below. Between these two every
    threshold separates. Controls, which make no claim, are left out.

    Args:
        table: n runs.
        letter: ``"a"`` to ``"d"``.
        thresholds: default: the protocol's.
        healthy: methods of the healthy group; default: the published one (`split_groups`).
        degenerate: methods of the other group, with the same default.

    Raises:
        UsageError: a control, a method that is not in the table, or one in both groups.

    Source: docs/protocol.md §9, threshold sensitivity.
    """
    diagnostic = DIAGNOSTICS[letter]
    limit = diagnostic.limit(thresholds)
    table, left_out = table.claiming()
    masks = split_groups(table, healthy, degenerate)
    groups = list(map(table.select, masks))
    good, bad = (_spread(group, diagnostic, thresholds) for group in groups)
    every = _spread(table, diagnostic, thresholds)
    neither = table.method[~masks[0] & ~masks[1]].tolist()
    separable, interval = _separation(diagnostic, *groups)
    unchanged, points = None, table.points(letter)
    if every.max is not None:
        ends = diagnostic.plateau(points, limit)
        low, high = (end if math.isfinite(end) else None for end in ends)
        unchanged = (low, high)
    gap = None
    if interval:
        gap = diagnostic.distance(*interval)
    skipped = [*(table.assumed_notes if letter == "d" else ()), *left_out]
    if not (good.runs or bad.runs):
        skipped.append(
            "no method is in a group: nothing to separate "
            "(choose the groups by fa-tui sweep --healthy --degenerate)"
        )
    return Sensitivity(
        letter=letter,
        name=diagnostic.quantity.words,
        unit=diagnostic.quantity.unit,
        threshold=limit,
        healthy=good,
        degenerate=bad,
        every=every,
        neither=tuple(dict.fromkeys(neither)),
        separable=separable,
        gap=gap,
        gap_interval=interval,
        plateau=unchanged,
        points=points,
        skipped=tuple(skipped),
    )


def sensitivities(
    table: AuditTable,
    thresholds: DiagnosticThresholds = PROTOCOL,
    healthy: Members = None,
    degenerate: Members = None,
) -> tuple[Sensitivity, ...]:
    """`sensitivity` of every diagnostic."""
    return tuple(sensitivity(table, letter, thresholds, healthy, degenerate) for letter in LETTERS)


def _spread(runs: AuditTable, diagnostic: Diagnostic, thresholds: DiagnosticThresholds) -> Spread:
    letter = diagnostic.letter
    values = runs.column(JUDGED[letter])
    broken = having(runs.nonfinite, letter)
    measured = having(runs.coverage, letter)
    inside = np.sort(values[measured & ~broken]).tolist()
    least = middle = most = None
    if inside:
        least, middle, most = inside[0], median(inside), inside[-1]
    return Spread(
        methods=tuple(runs.methods),
        runs=len(runs),
        measured=int(measured.sum()),
        nonfinite=int(broken.sum()),
        min=least,
        median=middle,
        max=most,
        fired=int(having(runs.flags(thresholds), letter).sum()),
        undecided=int(having(runs.undecided(thresholds), letter).sum()),
    )


def _separation(
    diagnostic: Diagnostic, healthy: AuditTable, degenerate: AuditTable
) -> tuple[bool | None, Interval | None]:
    """Whether a threshold passes all of one group and fires on all of the other, and if so the
    nearest ends (low, high) of the two, if finite."""
    _, good = healthy.ends(diagnostic.letter)
    bad, _ = degenerate.ends(diagnostic.letter)
    good = good[~np.isnan(good)]
    bad = bad[~np.isnan(bad)]
    if not len(good) or not len(bad):
        return None, None
    lower, upper = bad, good
    if diagnostic.fires_above:
        lower, upper = good, bad
    low, high = float(lower.max()), float(upper.min())
    if low < high and math.isfinite(high - low):
        return True, (low, high)
    return low < high, None
