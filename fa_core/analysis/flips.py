"""Where verdicts flip when one threshold moves, exactly: from the sorted values, never from a grid.

For a diagnostic that fires above its threshold t, run i fires iff v_i > t, so its flag changes
exactly at t = v_i: the step functions below are constant on [v_(k), v_(k+1)). For one that fires
below, it fires iff v_i < t and they are constant on (v_(k), v_(k+1)].
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from fa_core.analysis.result import Result
from fa_core.columns import Floats, Indices, Mask, read_only
from fa_core.diagnostics import BIT, DIAGNOSTICS, Diagnostic, DiagnosticThresholds
from fa_core.table import AuditTable


class Plateau(NamedTuple):
    """Thresholds between which no verdict changes; ±inf where nothing bounds them."""

    lo: float
    hi: float


def flip_points(table: AuditTable, letter: str, thresholds: DiagnosticThresholds | None = None) -> Floats:
    """All thresholds at which some verdict flips, sorted, each once.

    Args:
        table: n runs.
        letter: whose threshold moves.
        thresholds: None counts every change of a verdict's text. Given, only changes between
            trustworthy and walk-back count: runs that another diagnostic fires on at these are left out.

    Returns:
        The distinct finite values (k,), k ≤ n, not to be written. Runs whose value is NaN or ±inf never flip.

    Source: definition of the verdict; O(n log n).
    """
    values, finite, _ = table.judged(letter)
    if thresholds is not None:
        finite = finite & _undecided(table, letter, thresholds)
    return read_only(np.unique(values[finite]))


def plateau(table: AuditTable, letter: str, value: float, thresholds: DiagnosticThresholds | None = None) -> Plateau:
    """The widest interval around a threshold in which no verdict flips; O(n), no sort.

    Args:
        table: n runs.
        letter: whose threshold it is.
        value: the threshold.
        thresholds: as in `flip_points`.

    Returns:
        (lo, hi): flip points of the table or ±inf. Closed at lo for (a) and (c), at hi for (b) and (d).

    Raises:
        ValueError: the threshold is NaN.
    """
    if math.isnan(value):
        raise ValueError("a threshold cannot be NaN")
    values, finite, _ = table.judged(letter)
    if thresholds is not None:
        finite = finite & _undecided(table, letter, thresholds)
    points = values[finite]
    below = points <= value if DIAGNOSTICS[letter].fires_above else points < value
    return Plateau(
        float(np.max(points, initial=-math.inf, where=below)), float(np.min(points, initial=math.inf, where=~below))
    )


class VerdictCurve(Result, frozen=True, kw_only=True):
    """How many runs fire, and how many need walk-back, as a function of one threshold.

    Attributes:
        letter: whose threshold moves; the other three stay.
        points: the flip points v_1 < … < v_k, float64 (k,), as all three arrays not to be written.
        fired: counts of runs this diagnostic fires on, one per interval between the points, int64 (k+1,).
        walk_backs: counts of runs that any diagnostic fires on, int64 (k+1,).
        closed: the end at which the intervals include their point: ``"left"`` (a, c) or ``"right"`` (b, d).
    """

    letter: str
    points: Floats
    fired: Indices
    walk_backs: Indices
    closed: str

    def at(self, value: float) -> tuple[int, int]:
        """(fired, walk_backs) at one threshold."""
        side = "right" if self.closed == "left" else "left"
        step = int(np.searchsorted(self.points, value, side=side))  # type: ignore[call-overload]
        return int(self.fired[step]), int(self.walk_backs[step])


def verdict_curve(table: AuditTable, letter: str, thresholds: DiagnosticThresholds) -> VerdictCurve:
    """Verdict counts as an exact step function of one threshold.

    Args:
        table: n runs.
        letter: whose threshold moves.
        thresholds: the other three.

    Source: with F the empirical distribution of the finite values, fired(t) = n·(1 − F(t)) + (always)
    for a diagnostic that fires above, n·F(t⁻) + (always) for one that fires below.
    """
    diagnostic = DIAGNOSTICS[letter]
    values, finite, always = table.judged(letter)
    undecided = _undecided(table, letter, thresholds)
    ordered = np.sort(values[finite])
    is_first = np.ones(len(ordered), np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=is_first[1:])
    points = ordered[is_first]
    fired = _steps(diagnostic, np.flatnonzero(is_first), len(ordered)) + int(always.sum())
    fixed = int((always | ~undecided).sum())
    ordered = np.sort(values[finite & undecided])
    walk_backs = _steps(diagnostic, np.searchsorted(ordered, points), len(ordered)) + fixed
    return VerdictCurve(
        letter=letter,
        points=read_only(points),
        fired=read_only(fired),
        walk_backs=read_only(walk_backs),
        closed="left" if diagnostic.fires_above else "right",
    )


def _steps(diagnostic: Diagnostic, before: Indices, count: int) -> Indices:
    """Counts per interval between the points, from how many of all values lie before each point."""
    below: Indices = np.append(before, count)
    return count - below if diagnostic.fires_above else below


def _undecided(table: AuditTable, letter: str, thresholds: DiagnosticThresholds) -> Mask:
    """Runs on which none of the *other* diagnostics fires."""
    undecided: Mask = (table.flags(thresholds) & (0b1111 ^ BIT[letter])) == 0
    return undecided
