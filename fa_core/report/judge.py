"""Judge of many runs: firing and undecided diagnostics as thresholds move.

Per diagnostic the runs are sorted by their number. A threshold has a position in that order, and a
move changes exactly the runs between the old position and the new one. Pure Python: the explorer
needs no NumPy.
"""

from __future__ import annotations

import bisect
import math
from array import array
from collections.abc import Container, Iterable, Sequence
from typing import TypeAlias

from fa_core.report.diagnostics import BIT, DIAGNOSTICS, LETTERS, Diagnostic, mask_of
from fa_core.report.judged_run import JudgedRun, nonfinite_in, numbers_of
from fa_core.report.thresholds import DiagnosticThresholds

ALL = mask_of(LETTERS)

Placed: TypeAlias = list[tuple[float, int]]
"""Pairs of value and index of its run."""


class Order:
    """Values in rising order with their runs, and a threshold's position among them.

    Args:
        diagnostic: owner of the threshold.
        values: in any order.
    """

    def __init__(self, diagnostic: Diagnostic, values: Placed) -> None:
        self.values = array("d")
        self.runs = array("l")
        for value, run in sorted(values):
            self.values.append(value)
            self.runs.append(run)
        # a value equal to its threshold does not fire
        self._fires_above = diagnostic.fires_above
        if diagnostic.fires_above:
            self._find = bisect.bisect_right
        else:
            self._find = bisect.bisect_left
        self._place = 0

    def firing(self, threshold: float) -> Sequence[int]:
        """The runs of the values that fire at a threshold; moves nothing."""
        place = self._find(self.values, threshold)
        if self._fires_above:
            return self.runs[place:]
        return self.runs[:place]

    def move(self, threshold: float) -> Sequence[int]:
        """Move the threshold; returns the runs of the values it passed."""
        before = self._place
        self._place = self._find(self.values, threshold)
        first, last = sorted([before, self._place])
        return self.runs[first:last]


class Judge:
    """Flags, coverage and undecided diagnostics of many runs, as bit masks per run.

    Args:
        runs: as read; their own thresholds are not used.
        thresholds: judge the runs.

    Attributes:
        coverage: measured diagnostics.
        flags: firing diagnostics.
        undecided: diagnostics that neither fire nor pass with confidence.
        numbers: letter → finite values of all runs, rising, with their runs.
        nonfinite: diagnostics that fire at every threshold, for a NaN or ±inf.
    """

    def __init__(self, runs: Sequence[JudgedRun], thresholds: DiagnosticThresholds) -> None:
        self.coverage = bytearray(len(runs))
        self.nonfinite = bytearray(len(runs))
        self._inconclusive = bytearray(len(runs))
        numbers: dict[str, Placed] = {letter: [] for letter in LETTERS}
        ends: dict[str, Placed] = {letter: [] for letter in LETTERS}
        for place, run in enumerate(runs):
            self._add(place, run, numbers, ends)
        self.numbers: dict[str, Order] = {}
        self._ends: dict[str, Order] = {}
        for letter in LETTERS:
            self.numbers[letter] = Order(DIAGNOSTICS[letter], numbers[letter])
            self._ends[letter] = Order(DIAGNOSTICS[letter], ends[letter])
        for letter, diagnostic in DIAGNOSTICS.items():
            self.numbers[letter].move(diagnostic.limit(thresholds))
            self._ends[letter].move(diagnostic.limit(thresholds))
        self.flags, self._straddling = self._fired(thresholds)
        self.undecided = self._decided(self.flags, self._straddling)

    def at(self, thresholds: DiagnosticThresholds) -> tuple[bytearray, bytearray]:
        """Flags and undecided diagnostics of all runs under other thresholds; moves nothing."""
        flags, straddling = self._fired(thresholds)
        return flags, self._decided(flags, straddling)

    def _fired(self, thresholds: DiagnosticThresholds) -> tuple[bytearray, bytearray]:
        """Diagnostics that fire, and those of which one end of the interval fires alone."""
        flags = bytearray(self.nonfinite)
        straddling = bytearray(len(flags))
        for letter, diagnostic in DIAGNOSTICS.items():
            limit = diagnostic.limit(thresholds)
            for run in self.numbers[letter].firing(limit):
                flags[run] |= BIT[letter]
            for run in self._ends[letter].firing(limit):
                straddling[run] ^= BIT[letter]
        return flags, straddling

    def _decided(self, flags: bytearray, straddling: bytearray) -> bytearray:
        undecided = bytearray(straddling)
        for run, inconclusive in enumerate(self._inconclusive):
            undecided[run] |= inconclusive & ~flags[run]
        return undecided

    def _add(
        self, place: int, run: JudgedRun, numbers: dict[str, Placed], ends: dict[str, Placed]
    ) -> None:
        # functions instead of the run's cached properties: 10,000 caches take 10 MB
        nonfinite = nonfinite_in(run)
        self.nonfinite[place] = mask_of(nonfinite)
        decided = 0
        for letter, value in zip(LETTERS, numbers_of(run), strict=True):
            if value is None or letter in nonfinite:
                continue
            decided |= BIT[letter]
            numbers[letter].append((value, place))
            for end in run.interval(letter) or ():
                ends[letter].append((end, place))
        self.coverage[place] = decided | self.nonfinite[place]
        if run.evidence or run.is_dead:
            self._inconclusive[place] = mask_of(run.inconclusive) & decided

    def move(self, thresholds: DiagnosticThresholds) -> set[int]:
        """Move the thresholds; returns the runs that may have changed."""
        touched: set[int] = set()
        for letter, diagnostic in DIAGNOSTICS.items():
            limit = diagnostic.limit(thresholds)
            bit = BIT[letter]
            for run in self.numbers[letter].move(limit):
                self.flags[run] ^= bit
                touched.add(run)
            # between the two ends of an interval, one fires and the other does not
            for run in self._ends[letter].move(limit):
                self._straddling[run] ^= bit
                touched.add(run)
        for run in touched:
            unproven = self._inconclusive[run] & ~self.flags[run]
            self.undecided[run] = self._straddling[run] | unproven
        return touched

    def values(self, letter: str, chosen: Iterable[int] | None = None) -> array[float]:
        """A diagnostic's numbers, rising; then a NaN for each run that fires at every threshold.

        Args:
            letter: the diagnostic.
            chosen: indices of runs; None for all.
        """
        order = self.numbers[letter]
        bit = BIT[letter]
        if chosen is None:
            wanted: Container[int] = range(len(self.flags))
        else:
            wanted = set(chosen)
        values = array("d")
        for value, run in zip(order.values, order.runs, strict=True):
            if run in wanted:
                values.append(value)
        for run, mask in enumerate(self.nonfinite):
            if mask & bit and run in wanted:
                values.append(math.nan)
        return values
