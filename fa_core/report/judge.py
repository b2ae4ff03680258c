"""Judge of many runs: firing and undecided diagnostics as thresholds move.

Per diagnostic the runs are sorted by their number, so that those which fire are a part of that
order. The bytes of all runs are one number; a slider's step makes that of one diagnostic again.
Pure Python: the explorer needs no NumPy.
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
    """Values in rising order with their runs.

    Args:
        diagnostic: owner of the threshold.
        values: in any order.
        runs: number of all runs.
    """

    def __init__(self, diagnostic: Diagnostic, values: Placed, runs: int) -> None:
        self.values = array("d")
        self.runs = array("l")
        for value, run in sorted(values):
            self.values.append(value)
            self.runs.append(run)
        self._diagnostic = diagnostic
        self._none = bytes(runs)
        self._last = math.nan, 0

    def firing(self, threshold: float) -> int:
        """The diagnostic's bit in the byte of every run with an odd number of values that fire."""
        if threshold != self._last[0]:
            # a value equal to its threshold does not fire
            if self._diagnostic.fires_above:
                firing = self.runs[bisect.bisect_right(self.values, threshold) :]
            else:
                firing = self.runs[: bisect.bisect_left(self.values, threshold)]
            masks = bytearray(self._none)
            bit = BIT[self._diagnostic.letter]
            for run in firing:
                masks[run] ^= bit
            self._last = threshold, int.from_bytes(masks, "little")
        return self._last[1]


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
        for letter, diagnostic in DIAGNOSTICS.items():
            self.numbers[letter] = Order(diagnostic, numbers[letter], len(runs))
            self._ends[letter] = Order(diagnostic, ends[letter], len(runs))
        self.move(thresholds)

    def move(self, thresholds: DiagnosticThresholds) -> None:
        """Judge the runs by other thresholds."""
        self.flags, self.undecided = self.at(thresholds)

    def at(self, thresholds: DiagnosticThresholds) -> tuple[bytearray, bytearray]:
        """Flags and undecided diagnostics of all runs under other thresholds."""
        flags = int.from_bytes(self.nonfinite, "little")
        undecided = 0
        for letter, diagnostic in DIAGNOSTICS.items():
            limit = diagnostic.limit(thresholds)
            flags |= self.numbers[letter].firing(limit)
            # between the two ends of an interval, one fires and the other does not
            undecided |= self._ends[letter].firing(limit)
        undecided |= int.from_bytes(self._inconclusive, "little") & ~flags
        runs = len(self.coverage)
        return bytearray(flags.to_bytes(runs, "little")), bytearray(
            undecided.to_bytes(runs, "little")
        )

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
        self._inconclusive[place] = mask_of(run.inconclusive) & decided

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
