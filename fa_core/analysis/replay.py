"""Traces as one table with a row per epoch, so that a threshold can move through all of them at screen speed.

`fa_core.analysis.timeline` says the same of one trace at fixed thresholds, report by report.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from fa_core.analysis.timeline import STOP_ON, EarlyStop, epochs_done, stopped_at
from fa_core.baseline import Baseline
from fa_core.columns import Bits, Mask
from fa_core.diagnostics import BIT, LETTERS, DiagnosticThresholds
from fa_core.rows import AuditRow
from fa_core.table import AuditTable
from fa_core.trace import Trace


class Replay:
    """The epochs of many runs.

    Attributes:
        traces: the runs; those without a single complete epoch are left out.
        table: one row per (run, epoch), run after run.
        epochs: all epoch numbers that some run records, sorted.

    Args:
        traces: runs over epochs.
        baselines: per trace a frozen-baseline accuracy (see `Baseline`) for epochs that record none, or None.
    """

    def __init__(self, traces: Sequence[Trace], baselines: Sequence[float | Baseline | None] | None = None) -> None:
        given = list(baselines) if baselines is not None else [None] * len(traces)
        told = [(trace, baseline) for trace, baseline in zip(traces, given, strict=True) if trace.epochs]
        self.traces = [trace for trace, _ in told]
        self.table = AuditTable.from_rows(row for trace, baseline in told for row in _rows(trace, baseline))
        self._starts = [0, *accumulate(len(trace.epochs) for trace in self.traces)]
        self._numbers = [[epoch.epoch for epoch in trace.epochs] for trace in self.traces]
        self.epochs: list[int] = sorted({number for numbers in self._numbers for number in numbers})

    def flags(self, thresholds: DiagnosticThresholds | None = None) -> Bits:
        """The diagnostics that fire, as bits per (run, epoch); shape (n,)."""
        return self.table.flags(thresholds)

    def records(self, run: int) -> slice:
        """The rows of one run."""
        return slice(self._starts[run], self._starts[run + 1])

    def numbers(self, run: int) -> list[int]:
        """The epoch numbers of one run, one per record."""
        return self._numbers[run]

    def trained(self, run: int) -> int:
        """For how many epochs a run was trained by its last record."""
        return epochs_done(self.traces[run], len(self._numbers[run]) - 1)

    def record_at(self, run: int, epoch: int) -> int | None:
        """The row of a run as it was at an epoch: its last record up to there; None before its first."""
        place = bisect_right(self._numbers[run], epoch)
        return self._starts[run] + place - 1 if place else None

    def row_at(self, run: int, epoch: int) -> AuditRow:
        """A run as it was at an epoch; before its first record nothing is measured."""
        record = self.record_at(run, epoch)
        if record is not None:
            return self.table.row(record)
        trace = self.traces[run]
        return AuditRow(source=trace.source, key=trace.key, method=trace.method, seed=trace.seed, axes=trace.axes)

    def first_fires(self, run: int, flags: Bits) -> dict[str, int | None]:
        """Letter → the first epoch at which it fires, None if never, for letters measured at all.

        Args:
            run: which.
            flags: of `flags`.
        """
        records = self.records(run)
        mine, measured = flags[records], int(np.bitwise_or.reduce(self.table.coverage[records], initial=0))
        return {x: self._first(run, (mine & BIT[x]) != 0) for x in LETTERS if measured & BIT[x]}

    def stop(self, run: int, flags: Bits, stop_on: str = STOP_ON, total_epochs: int | None = None) -> EarlyStop | None:
        """What ending the run at the first epoch at which one of the chosen diagnostics fires saves; None if none does.

        Args:
            run: which.
            flags: of `flags`.
            stop_on: letters that end the run.
            total_epochs: length the run was planned for; default: what its trace holds.
        """
        mine = flags[self.records(run)]
        fired = np.flatnonzero(mine & sum(BIT[x] for x in stop_on))
        if not len(fired):
            return None
        at = int(fired[0])
        on = "".join(x for x in stop_on if int(mine[at]) & BIT[x])
        return stopped_at(self.traces[run], at, "".join(sorted(on)), total_epochs)

    def flips(self, flags: Bits) -> list[int]:
        """The epochs at which some run's letters differ from those of its record before, sorted."""
        changed = np.flatnonzero(flags[1:] != flags[:-1]) + 1
        starts = set(self._starts)
        numbers = [number for run in self._numbers for number in run]
        return sorted({numbers[record] for record in changed.tolist() if record not in starts})

    def _first(self, run: int, fired: Mask) -> int | None:
        places = np.flatnonzero(fired)
        return self._numbers[run][int(places[0])] if len(places) else None


def _rows(trace: Trace, baseline: float | Baseline | None) -> list[AuditRow]:
    lent = Baseline.of(baseline)
    return [
        AuditRow(
            source=trace.source,
            key=trace.key,
            method=trace.method,
            seed=trace.seed,
            axes=trace.axes,
            report=report if lent is None else lent.given_to(report),
        )
        for report in (epoch.report(trace.method, trace.seed) for epoch in trace.epochs)
    ]
