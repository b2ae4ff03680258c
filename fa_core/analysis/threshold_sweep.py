"""Exact flips of verdicts as one threshold moves, from the sorted values and not from a grid.

For a diagnostic that fires above its threshold t, run i fires iff v_i > t, so its flag changes
exactly at t = v_i: the step functions below are constant on [v_(k), v_(k+1)). For one that fires
below, it fires iff v_i < t and they are constant on (v_(k), v_(k+1)].
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from msgspec import structs

from fa_core.analysis import Result
from fa_core.analysis.method_groups import GROUPS, baseline_hint, controls_note, split_groups
from fa_core.formats.table import AuditTable, Floats, Indices, read_only
from fa_core.report.diagnostics import BIT, DIAGNOSTICS, LETTERS, Diagnostic
from fa_core.report.numbers import median
from fa_core.report.thresholds import DiagnosticThresholds


def plateau(table: AuditTable, letter: str, value: float) -> tuple[float, float]:
    """The widest interval around a threshold in which no verdict flips; O(n), no sort.

    Args:
        table: n runs.
        letter: whose threshold it is.
        value: the threshold.

    Returns:
        (lo, hi): flip points of the table or ±inf. Closed at lo for (a) and (c), at hi for (b) and
        (d).

    Raises:
        ValueError: the threshold is NaN.
    """
    if math.isnan(value):
        raise ValueError("a threshold cannot be NaN")
    values, finite, _ = table.judged(letter)
    points = values[finite]
    below = points < value
    if DIAGNOSTICS[letter].fires_above:
        below = points <= value
    lo = np.max(points, initial=-math.inf, where=below)
    hi = np.min(points, initial=math.inf, where=~below)
    return float(lo), float(hi)


class VerdictCurve(Result, frozen=True, kw_only=True):
    """Numbers of runs that fire and of walk-backs as functions of one threshold.

    Attributes:
        letter: whose threshold moves; the other three stay.
        points: the flip points v_1 < … < v_k, float64 (k,); all three arrays are read-only.
        fired: number of runs this diagnostic fires on, per interval between the points, int64
            (k+1,).
        walk_backs: number of runs that any diagnostic fires on, int64 (k+1,).
        closed: the closed end of the intervals: ``"left"`` (a, c) or ``"right"`` (b, d).
    """

    letter: str
    points: Floats
    fired: Indices
    walk_backs: Indices
    closed: str

    def at(self, value: float) -> tuple[int, int]:
        """(fired, walk_backs) at one threshold."""
        step = self._step(value)
        return int(self.fired[step]), int(self.walk_backs[step])

    def unchanged(self, value: float) -> tuple[float | None, float | None]:
        """The interval around a threshold in which no verdict changes; None for an open end."""
        # counts are monotone: equal counts mean equal verdicts
        same = np.flatnonzero(self.walk_backs == self.walk_backs[self._step(value)])
        ends = [None, *self.points.tolist(), None]
        return ends[same[0]], ends[same[-1] + 1]

    def _step(self, value: float) -> int:
        if self.closed == "left":
            return int(np.searchsorted(self.points, value, side="right"))
        return int(np.searchsorted(self.points, value, side="left"))


def verdict_curve(table: AuditTable, letter: str, thresholds: DiagnosticThresholds) -> VerdictCurve:
    """Verdict counts as an exact step function of one threshold.

    Args:
        table: n runs.
        letter: whose threshold moves.
        thresholds: the other three.

    Controls make no claim and are not counted.

    Source: with F the empirical distribution of the finite values, fired(t) = n·(1 − F(t)) +
    (always) for a diagnostic that fires above, n·F(t⁻) + (always) for one that fires below.
    """
    claims = ~table.controls
    diagnostic = DIAGNOSTICS[letter]
    values, finite, always = table.judged(letter)
    values, finite, always = values[claims], finite[claims], always[claims]
    # runs on which none of the other diagnostics fires
    undecided = (table.flags(thresholds)[claims] & (0b1111 ^ BIT[letter])) == 0
    points = read_only(np.unique(values[finite]))
    fired = _steps(diagnostic, values[finite], points) + int(always.sum())
    decided = int((always | ~undecided).sum())
    walk_backs = _steps(diagnostic, values[finite & undecided], points) + decided
    return VerdictCurve(
        letter=letter,
        points=points,
        fired=read_only(fired),
        walk_backs=read_only(walk_backs),
        closed="left" if diagnostic.fires_above else "right",
    )


def _steps(diagnostic: Diagnostic, values: Floats, points: Floats) -> Indices:
    """Number of values that fire, per interval between the points."""
    below: Indices = np.append(np.searchsorted(np.sort(values), points), len(values))
    if diagnostic.fires_above:
        return len(values) - below
    return below


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
    """

    methods: tuple[str, ...]
    runs: int
    measured: int
    nonfinite: int
    min: float | None = None
    median: float | None = None
    max: float | None = None
    fired: int = 0


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
        gap: ratio ((a) and (b)) or difference ((c) and (d)) of the groups' nearest values; None if
            not separable.
        gap_interval: the two nearest values.
        plateau: interval of thresholds with unchanged letters; None for an open end. None if no run
            has a finite value.
        skipped: what is assumed, what could not be said, and the missing inputs.
    """

    letter: str
    name: str
    unit: str
    threshold: float
    healthy: Spread
    degenerate: Spread
    every: Spread
    neither: tuple[str, ...] = ()
    separable: bool | None = None
    gap: float | None = None
    gap_interval: tuple[float, float] | None = None
    plateau: tuple[float | None, float | None] | None = None
    skipped: tuple[str, ...] = ()

    @property
    def grouped(self) -> bool:
        """Whether both groups hold runs."""
        return bool(self.healthy.runs and self.degenerate.runs)


def sensitivity(
    table: AuditTable,
    letter: str,
    thresholds: DiagnosticThresholds | None = None,
    healthy: Sequence[str] | None = None,
    degenerate: Sequence[str] | None = None,
) -> Sensitivity:
    """Separation and plateau of one diagnostic, exact from the sorted values.

    For a diagnostic that fires above, the groups are separable iff max(healthy) < min(degenerate),
    and gap = min(degenerate)/max(healthy), or their difference on a linear scale; mirrored for one
    that fires below. Between these two values every threshold separates. Controls, which make no
    claim, are left out.

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
    limit = diagnostic.limit(thresholds or DiagnosticThresholds())
    controls = controls_note(table.method)
    table = table.select(~table.controls)
    masks = split_groups(table, healthy, degenerate)
    good, bad = (_spread(table.select(mask), diagnostic, limit) for mask in masks)
    every = _spread(table, diagnostic, limit)
    left_out = table.method[~masks[0] & ~masks[1]].tolist()
    separable, interval = _separation(diagnostic, good, bad)
    unchanged = None
    if every.max is not None:
        lo, hi = plateau(table, letter, limit)
        unchanged = (_bounded(lo), _bounded(hi))
    assumed: tuple[str, ...] = ()
    if letter == "d":
        assumed = table.assumed_notes
    return Sensitivity(
        letter=letter,
        name=diagnostic.quantity.words,
        unit=diagnostic.quantity.unit,
        threshold=limit,
        healthy=good,
        degenerate=bad,
        every=every,
        neither=tuple(dict.fromkeys(left_out)),
        separable=separable,
        gap=diagnostic.distance(*interval) if separable and interval else None,
        gap_interval=interval if separable else None,
        plateau=unchanged,
        skipped=(*assumed, *controls, *_skipped(table, diagnostic, good, bad, separable)),
    )


def sensitivities(
    table: AuditTable,
    thresholds: DiagnosticThresholds | None = None,
    healthy: Sequence[str] | None = None,
    degenerate: Sequence[str] | None = None,
) -> tuple[Sensitivity, ...]:
    """`sensitivity` of every diagnostic."""
    return tuple(sensitivity(table, letter, thresholds, healthy, degenerate) for letter in LETTERS)


def _spread(runs: AuditTable, diagnostic: Diagnostic, limit: float) -> Spread:
    values, finite, always = runs.judged(diagnostic.letter)
    inside = np.sort(values[finite])
    nonfinite = int(always.sum())
    spread = Spread(
        methods=tuple(runs.methods),
        runs=len(runs),
        measured=len(inside) + nonfinite,
        nonfinite=nonfinite,
        fired=int(diagnostic.beyond(inside, limit).sum()) + nonfinite,
    )
    if not len(inside):
        return spread
    return structs.replace(
        spread, min=float(inside[0]), median=median(inside.tolist()), max=float(inside[-1])
    )


def _separation(
    diagnostic: Diagnostic, good: Spread, bad: Spread
) -> tuple[bool | None, tuple[float, float] | None]:
    """Whether a threshold separates the groups, and their nearest values (low, high)."""
    if not good.measured or not bad.measured:
        return None, None
    if good.nonfinite or good.max is None or good.min is None:
        return False, None
    if bad.min is None or bad.max is None:
        return True, None
    low, high = bad.max, good.min
    if diagnostic.fires_above:
        low, high = good.max, bad.min
    return low < high, (low, high)


_CHOOSE = "choose the groups with --healthy and --degenerate"


def _bounded(end: float) -> float | None:
    if math.isfinite(end):
        return end
    return None


def _skipped(
    table: AuditTable, diagnostic: Diagnostic, good: Spread, bad: Spread, separable: bool | None
) -> tuple[str, ...]:
    if not good.runs and not bad.runs:
        return (f"no method is in a group: nothing to separate ({_CHOOSE})",)
    letter = diagnostic.letter
    notes = []
    why = ""
    if letter == "d":
        why = baseline_hint(table)
    for name, group in zip(GROUPS, (good, bad), strict=True):
        count = group.nonfinite
        if not group.runs:
            notes.append(f"the {name} group is empty: no separation ({_CHOOSE})")
        elif not group.measured:
            notes.append(f"({letter}) was not measured on any {name} run: no separation{why}")
        elif count == 1:
            notes.append(f"1 {name} run is NaN or inf: it fires at every threshold")
        elif count:
            notes.append(f"{count} {name} runs are NaN or inf: they fire at every threshold")
    if separable is False:
        notes.append("not separable: the groups overlap, no threshold parts them")
    return tuple(notes)
