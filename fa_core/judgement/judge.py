"""The judge of many runs: what fires and what is undecided, as thresholds move.

Per diagnostic the runs are sorted by their number. A threshold is a place in that order, and a move
changes exactly the runs between the old place and the new one. Pure Python, one path for 15 runs
and for 100,000.
"""

from __future__ import annotations

import bisect
import math
from array import array
from collections.abc import Iterable, Sequence

from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.judgement.diagnostics import BIT, DIAGNOSTICS, LETTERS, Diagnostic, mask_of
from fa_core.judgement.judged_run import JudgedRun, nonfinite_in, numbers_of

ALL = mask_of(LETTERS)


class Order:
    """Values in rising order with the runs they are of, and a threshold's place among them.

    Args:
        diagnostic: whose threshold is placed.
        values: pairs of value and run.
    """

    def __init__(self, diagnostic: Diagnostic, values: Iterable[tuple[float, int]]) -> None:
        pairs = sorted(values)
        self.values = array("d", [value for value, _ in pairs])
        self.runs = array("l", [run for _, run in pairs])
        # a value equal to its threshold does not fire
        self._find = bisect.bisect_right if diagnostic.fires_above else bisect.bisect_left
        self._place = 0

    def move(self, threshold: float) -> Sequence[int]:
        """Move the threshold; the runs of the values that it passed."""
        before, self._place = self._place, self._find(self.values, threshold)
        return self.runs[min(before, self._place) : max(before, self._place)]


class Judge:
    """Flags, coverage and undecided diagnostics of many runs, as bit masks per run.

    Args:
        runs: as read; their own thresholds are not used.
        thresholds: what judges them.

    Attributes:
        coverage: the diagnostics that were measured.
        flags: the diagnostics that fire.
        undecided: the diagnostics that neither fire nor pass for sure.
        numbers: letter → values of all runs that a threshold decides, rising, with their runs.
        nonfinite: the diagnostics that fire at every threshold, for a NaN or ±inf.
    """

    def __init__(self, runs: Sequence[JudgedRun], thresholds: DiagnosticThresholds) -> None:
        self.coverage = bytearray(len(runs))
        self.nonfinite = bytearray(len(runs))
        self._inconclusive = bytearray(len(runs))
        numbers: dict[str, list[tuple[float, int]]] = {letter: [] for letter in LETTERS}
        ends: dict[str, list[tuple[float, int]]] = {letter: [] for letter in LETTERS}
        for place, run in enumerate(runs):
            self._take_up(place, run, numbers, ends)
        self.numbers = {letter: Order(DIAGNOSTICS[letter], numbers[letter]) for letter in LETTERS}
        self._ends = {letter: Order(DIAGNOSTICS[letter], ends[letter]) for letter in LETTERS}
        self._straddling = bytearray(len(runs))
        self.flags = bytearray(self.nonfinite)
        for letter, diagnostic in DIAGNOSTICS.items():
            # below every value: all of them fire, or none
            if diagnostic.fires_above:
                for place in self.numbers[letter].runs:
                    self.flags[place] |= BIT[letter]
        self.undecided = bytearray(len(runs))
        self.move(thresholds)
        for place in range(len(runs)):
            self._decide(place)

    def _take_up(
        self,
        place: int,
        run: JudgedRun,
        numbers: dict[str, list[tuple[float, int]]],
        ends: dict[str, list[tuple[float, int]]],
    ) -> None:
        # the functions, not the properties of the run: these would keep what they found
        nonfinite = nonfinite_in(run)
        coverage = 0
        for letter, value in zip(LETTERS, numbers_of(run), strict=True):
            if letter in nonfinite:
                coverage |= BIT[letter]
            elif value is not None:
                coverage |= BIT[letter]
                numbers[letter].append((value, place))
        self.coverage[place] = coverage
        self.nonfinite[place] = mask_of(nonfinite)
        if run.intervals:
            for letter in LETTERS:
                if coverage & BIT[letter] and letter not in nonfinite:
                    ends[letter] += [(end, place) for end in run.interval(letter) or ()]
        if run.evidence or run.is_dead:
            decided = coverage & ~self.nonfinite[place]
            self._inconclusive[place] = mask_of(run.inconclusive) & decided

    def move(self, thresholds: DiagnosticThresholds) -> set[int]:
        """Judge by other thresholds; the runs of which something may have changed."""
        touched: set[int] = set()
        for letter, diagnostic in DIAGNOSTICS.items():
            limit, bit = diagnostic.limit(thresholds), BIT[letter]
            for run in self.numbers[letter].move(limit):
                self.flags[run] ^= bit
                touched.add(run)
            # between its two ends, one fires and the other does not
            for run in self._ends[letter].move(limit):
                self._straddling[run] ^= bit
                touched.add(run)
        for run in touched:
            self._decide(run)
        return touched

    def _decide(self, run: int) -> None:
        unproven = self._inconclusive[run] & ~self.flags[run]
        self.undecided[run] = self._straddling[run] | unproven

    def values(self, letter: str, chosen: Iterable[int] | None = None) -> array[float]:
        """A diagnostic's numbers, rising; then a NaN for each run that fires at every threshold.

        Args:
            letter: the diagnostic.
            chosen: indices of runs; None for all.
        """
        order, bit = self.numbers[letter], BIT[letter]
        if chosen is None:
            values = array("d", order.values)
            always = sum(1 for mask in self.nonfinite if mask & bit)
        else:
            wanted = set(chosen)
            pairs = zip(order.values, order.runs, strict=True)
            values = array("d", [value for value, run in pairs if run in wanted])
            always = sum(1 for run in wanted if self.nonfinite[run] & bit)
        values.extend([math.nan] * always)
        return values
