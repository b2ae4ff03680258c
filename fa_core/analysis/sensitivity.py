"""Does a threshold separate healthy runs from degenerate ones, and how much may it move?"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fa_core.analysis.flips import flip_points, plateau
from fa_core.analysis.groups import split_groups
from fa_core.analysis.result import Result
from fa_core.baseline import assumed_words
from fa_core.columns import Floats, Mask, Objects, read_only
from fa_core.diagnostics import DIAGNOSTICS, LETTERS, Diagnostic, DiagnosticThresholds
from fa_core.table import AuditTable


class Spread(Result, frozen=True, kw_only=True):
    """One diagnostic's numbers within one group.

    Attributes:
        methods: the group's methods.
        runs: runs in the group.
        measured: of these, measured (non-finite ones included).
        nonfinite: of these, NaN or ±inf: they fire at every threshold and are not in min, median, max.
        min: smallest finite value; None without one.
        median: the ordinary median over runs (mean of the two middle values of an even count).
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


_NO_POINTS = read_only(np.zeros(0))


class Sensitivity(Result, frozen=True, kw_only=True):
    """How one diagnostic separates two groups of runs, and how robust its threshold is.

    Attributes:
        letter: the diagnostic.
        name: in words.
        unit: of all values.
        threshold: where it stands now.
        healthy: the group that should pass.
        degenerate: the group that should fire.
        separable: a threshold exists that passes every healthy and fires on every degenerate measured
            run; None when a group has no measured run.
        gap: room between the groups' nearest runs: their ratio for (a) and (b), their difference for (c)
            and (d); None when not separable.
        gap_interval: the two nearest values.
        plateau: thresholds around the current one that leave every verdict unchanged; an end is None
            where nothing bounds it. None when no run has a finite value.
        flip_points: all thresholds at which some run's verdict text changes, sorted, float64 (k,), not to be written;
            none where nobody asked for them.
        skipped: what is assumed, what could not be said, and which input is missing.
    """

    letter: str
    name: str
    unit: str
    threshold: float
    healthy: Spread
    degenerate: Spread
    separable: bool | None = None
    gap: float | None = None
    gap_interval: tuple[float, float] | None = None
    plateau: tuple[float | None, float | None] | None = None
    flip_points: Floats = _NO_POINTS
    skipped: tuple[str, ...] = ()


def sensitivity(
    table: AuditTable,
    letter: str,
    thresholds: DiagnosticThresholds | None = None,
    healthy: Sequence[str] | None = None,
    *,
    points: bool = True,
) -> Sensitivity:
    """Separation and plateau of one diagnostic, exact from the sorted values.

    For a diagnostic that fires above, the groups are separable iff max(healthy) < min(degenerate), and
    gap = min(degenerate)/max(healthy), or their difference on a linear scale; mirrored for one that
    fires below. Between these two values every threshold separates.

    Args:
        table: n runs.
        letter: ``"a"`` to ``"d"``.
        thresholds: default: the protocol's.
        healthy: methods of the healthy group; default bp, fa, ep where present, the rest degenerate.
        points: whether to list the flip points: that is most of the time and of the memory.

    Raises:
        UsageError: a method named that is not in the table.

    Source: docs/protocol.md §9, threshold sensitivity.
    """
    diagnostic = DIAGNOSTICS[letter]
    limit = diagnostic.limit(thresholds or DiagnosticThresholds())
    values, finite, always = table.judged(letter)
    masks = split_groups(table, healthy)
    good, bad = (_spread(diagnostic, limit, values, finite & mask, always & mask, table.method[mask]) for mask in masks)
    separable, interval = _separation(diagnostic, good, bad)
    around = plateau(table, letter, limit) if finite.any() else None
    return Sensitivity(
        letter=letter,
        name=diagnostic.name,
        unit=diagnostic.unit,
        threshold=limit,
        healthy=good,
        degenerate=bad,
        separable=separable,
        gap=_gap(diagnostic, interval) if separable and interval else None,
        gap_interval=interval if separable else None,
        plateau=None if around is None else (_bounded(around.lo), _bounded(around.hi)),
        flip_points=flip_points(table, letter) if points else _NO_POINTS,
        skipped=(*_assumed(table, letter), *_skipped(diagnostic, good, bad, separable)),
    )


def sensitivities(
    table: AuditTable,
    thresholds: DiagnosticThresholds | None = None,
    healthy: Sequence[str] | None = None,
    *,
    points: bool = True,
) -> tuple[Sensitivity, ...]:
    """`sensitivity` of all four diagnostics."""
    return tuple(sensitivity(table, letter, thresholds, healthy, points=points) for letter in LETTERS)


def _spread(
    diagnostic: Diagnostic, limit: float, values: Floats, finite: Mask, always: Mask, methods: Objects
) -> Spread:
    inside = values[finite]
    n_always = int(always.sum())
    counts = {"runs": len(methods), "measured": len(inside) + n_always, "nonfinite": n_always}
    names = tuple(dict.fromkeys(methods.tolist()))
    if not len(inside):
        return Spread(methods=names, **counts, fired=n_always)
    return Spread(
        methods=names,
        **counts,
        min=float(inside.min()),
        median=_middle(inside),
        max=float(inside.max()),
        fired=int(diagnostic.beyond(inside, limit).sum()) + n_always,
    )


def _middle(values: Floats) -> float:
    """The median over runs; of an even count the mean of the middle two, as in the published figures."""
    ordered = np.sort(values)
    low, high = float(ordered[(len(ordered) - 1) // 2]), float(ordered[len(ordered) // 2])
    # halved before they are added: two norms of 1e308 have a mean too
    return low if low == high else low / 2 + high / 2


def _separation(diagnostic: Diagnostic, good: Spread, bad: Spread) -> tuple[bool | None, tuple[float, float] | None]:
    """Whether a threshold parts the groups, and their nearest values (low, high)."""
    if not good.measured or not bad.measured:
        return None, None
    if good.nonfinite or good.max is None or good.min is None:
        return False, None
    if bad.min is None or bad.max is None:
        return True, None
    interval = (good.max, bad.min) if diagnostic.fires_above else (bad.max, good.min)
    return interval[0] < interval[1], interval


def _gap(diagnostic: Diagnostic, interval: tuple[float, float]) -> float | None:
    low, high = interval
    if not diagnostic.log:
        return high - low
    return high / low if low > 0 else None


def _bounded(end: float) -> float | None:
    return end if math.isfinite(end) else None


def _assumed(table: AuditTable, letter: str) -> tuple[str, ...]:
    words = assumed_words(table) if letter == "d" else ""
    return (words,) if words else ()


def _skipped(diagnostic: Diagnostic, good: Spread, bad: Spread, separable: bool | None) -> tuple[str, ...]:
    said = []
    for name, group in (("healthy", good), ("degenerate", bad)):
        if not group.runs:
            said.append(f"the {name} group is empty: no separation (choose the groups with --healthy)")
        elif not group.measured:
            why = " (give a baseline with --frozen-baseline)" if diagnostic.letter == "d" else ""
            said.append(f"({diagnostic.letter}) was not measured on any {name} run: no separation{why}")
        elif group.nonfinite:
            one = group.nonfinite == 1
            who, they = ("run is", "it fires") if one else ("runs are", "they fire")
            said.append(f"{group.nonfinite} {name} {who} NaN or inf: {they} at every threshold")
    if separable is False:
        said.append("not separable: the groups overlap, no threshold parts them")
    return tuple(said)
