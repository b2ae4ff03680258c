"""Judge of many runs: firing and undecided diagnostics as thresholds move.

Per diagnostic the runs are sorted by their number, so that those which fire are a part of that
order. The bytes of all runs are one number; a slider's step makes that of one diagnostic again.
Pure Python: the explorer needs no NumPy.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Collection, Sequence
from itertools import count

from fa_core.report.diagnostics import (
    BIT,
    DIAGNOSTICS,
    LETTERS,
    Diagnostic,
    finite,
    mask_of,
)
from fa_core.report.judged_run import JudgedRun
from fa_core.report.report_facts import DiagnosticThresholds

ALL = mask_of(LETTERS)


class Order:
    """Values in rising order with their runs.

    Args:
        diagnostic: owner of the threshold.
        values: per run; NaN where the diagnostic was not measured.
    """

    def __init__(self, diagnostic: Diagnostic, values: Sequence[float]) -> None:
        self.values = array("d")
        self.runs = array("l")
        measured = (pair for pair in zip(values, count()) if not math.isnan(pair[0]))
        for value, run in sorted(measured):
            self.values.append(value)
            self.runs.append(run)
        self._diagnostic = diagnostic
        # runs above a threshold fire from its place on, runs below it up to its place
        self._place = diagnostic.place(self.values, diagnostic.always)
        self._masks = bytearray(len(values))
        self._number = 0

    def firing(self, threshold: float) -> int:
        """The diagnostic's bit in the byte of every run whose value fires.

        Only the runs between the last threshold and this one are judged.
        """
        place = self._diagnostic.place(self.values, finite(threshold))
        if place != self._place:
            bit = BIT[self._diagnostic.letter]
            for run in self.runs[min(place, self._place) : max(place, self._place)]:
                self._masks[run] ^= bit
            self._place = place
            self._number = int.from_bytes(self._masks, "little")
        return self._number


class Judge:
    """Flags, coverage and undecided diagnostics of many runs, as bit masks per run.

    Args:
        runs: as read; their own thresholds are not used.

    Attributes:
        coverage: measured diagnostics.
        nonfinite: diagnostics that fire at every threshold, for a NaN or ±inf.
        ends: letter → per run, the end that fires for sure and the one that may
            (`JudgedRun.reach`); NaN where the diagnostic was not measured.
    """

    def __init__(self, runs: Sequence[JudgedRun]) -> None:
        self.coverage = bytearray(len(runs))
        self.nonfinite = bytearray(len(runs))

        def unmeasured() -> array[float]:
            return array("d", [math.nan]) * len(runs)

        self._rising: dict[str, list[tuple[float, int]]] = {letter: [] for letter in LETTERS}
        self.ends = {letter: (unmeasured(), unmeasured()) for letter in LETTERS}
        for place, run in enumerate(runs):
            self.coverage[place] = mask_of(run.reach)
            self.nonfinite[place] = mask_of(run.nonfinite)
            for letter, reach in run.reach.items():
                sure, possible = self.ends[letter]
                sure[place], possible[place] = reach
                number = run.numbers[letter]
                if number is None or letter in run.nonfinite:
                    number = math.nan
                self._rising[letter].append((number, place))
        self._orders: dict[str, list[Order]] = {}
        for letter, rising in self._rising.items():
            rising.sort(key=lambda one: (math.isnan(one[0]), one[0]))
            self._orders[letter] = [Order(DIAGNOSTICS[letter], ends) for ends in self.ends[letter]]

    def at(self, thresholds: DiagnosticThresholds) -> tuple[bytearray, bytearray]:
        """Per run, the diagnostics that fire, and those that neither fire nor pass."""
        flags = either = 0
        for letter, (sure, possible) in self._orders.items():
            limit = DIAGNOSTICS[letter].limit(thresholds)
            flags |= sure.firing(limit)
            either |= possible.firing(limit)
        runs = len(self.coverage)
        undecided = either & ~flags
        return bytearray(flags.to_bytes(runs, "little")), bytearray(
            undecided.to_bytes(runs, "little")
        )

    def values(self, letter: str, chosen: Collection[int]) -> array[float]:
        """A diagnostic's numbers, rising; then a NaN for each run that fires at every threshold.

        Args:
            letter: the diagnostic.
            chosen: indices of runs.
        """
        wanted = set(chosen)
        return array("d", [value for value, run in self._rising[letter] if run in wanted])

    def points(self, letter: str, chosen: Collection[int] | None = None) -> array[float]:
        """The thresholds at which a run's state changes, rising, each once: the ends of intervals,
        and the numbers without one.

        Args:
            letter: the diagnostic.
            chosen: indices of runs; None for all.
        """
        rows = range(len(self.coverage)) if chosen is None else chosen
        found = {column[row] for column in self.ends[letter] for row in rows}
        return array("d", sorted(filter(math.isfinite, found)))
