"""From reports to columns, a few thousand at a time, so that only so many reports are alive at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

import numpy as np

from fa_core.columns import Mask, Objects, growth_of, joined, margin_of, narrow, objects
from fa_core.formats.lean import recorded_verdicts
from fa_core.formats.many_rows import ManyRows
from fa_core.formats.sliced import SlicedRows
from fa_core.formats.stored import StoredRows
from fa_core.formats.stored_row import StoredRow
from fa_core.heap import give_back
from fa_core.report_columns import NAMES, Numbers, ReportColumns, inexact_of
from fa_core.rows import AuditRow, Problem
from fa_core.table import AuditTable, bits_of, depth_utility_bits

_CHUNK = 2000
_MANY = 10_000
"""Rows from which what was freed on the way is worth giving back: a fifth of the table's own memory."""


class TableBuilder:
    """Takes rows; `build` makes the table.

    Attributes:
        problems: what could not be read, for the table.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._single: list[AuditRow] = []
        self._parts: list[ReportColumns] = []
        self._sources: list[Objects] = []
        self._stores: list[Sequence[AuditRow]] = []
        self._assumed: list[Mask] = []

    def add_row(self, row: AuditRow) -> None:
        """Take one row."""
        self._single.append(row)

    def add_rows(self, rows: Iterable[AuditRow]) -> None:
        """Take rows; those of a big table as the columns they are."""
        for part in rows.parts if isinstance(rows, ManyRows) else [rows]:
            if isinstance(part, SlicedRows):
                self.add_sliced(part)
            else:
                self._single.extend(part)

    def add_sliced(self, rows: SlicedRows) -> None:
        """Take the rows of a big audit table."""
        self._take_singles()
        self._append(rows.columns, objects([rows.source] * len(rows)), rows)

    def add_stored(self, rows: StoredRows) -> None:
        """Take the rows of an audit table; those that cannot be read become problems."""
        self._take_singles()
        for start in range(0, len(rows), _CHUNK):
            chunk = rows[start : start + _CHUNK]
            if self._take_stored(chunk):
                continue
            for row in chunk.checked():
                if isinstance(row, Problem):
                    self.problems.append(row)
                else:
                    self._single.append(row)
            self._take_singles()

    def build(self) -> AuditTable:
        """The table of everything added."""
        self._take_singles()
        whole = ReportColumns.concat(self._parts)
        residual, gradient, scalars = whole.numbers
        (bounds, has_bound), (stability, has_stability), (acc, has_acc), (baseline, has_baseline) = scalars
        bad_a = residual.any_nonfinite() | (has_bound & ~np.isfinite(bounds))
        nonfinite = bits_of(a=bad_a, b=gradient.any_nonfinite(), c=has_stability & ~np.isfinite(stability))
        measured = bits_of(a=(residual.lengths >= 2) | has_bound, b=gradient.lengths > 0, c=has_stability)
        nonfinite, coverage = depth_utility_bits(nonfinite, nonfinite | measured, acc, baseline, has_acc, has_baseline)
        counts = [len(store) for store in self._stores]
        table = AuditTable(
            source=joined(self._sources),
            **dict(zip(NAMES, whole.names(), strict=True)),
            residual_norms=residual,
            bp_grad_norms=gradient,
            growth=growth_of(residual, bounds),
            h_L=residual.last(),
            g_L=gradient.last(),
            stability=stability,
            acc=acc,
            baseline=baseline,
            margin_pp=margin_of(acc, baseline),
            coverage=coverage,
            nonfinite=nonfinite,
            problems=tuple(self.problems),
            _has_acc=has_acc,
            _has_baseline=has_baseline,
            _rebased=np.concatenate([np.zeros(0, np.bool_), *self._assumed]),
            _inexact=whole.inexact,
            _store=np.repeat(narrow(np.arange(len(counts))), counts),
            _slot=np.concatenate([np.zeros(0, np.int32), *(narrow(np.arange(count)) for count in counts)]),
            _stores=tuple(self._stores),
        )
        if len(table) >= _MANY:
            give_back()
        return table

    def _take_singles(self) -> None:
        rows, self._single = self._single, []
        for store, group in groupby(rows, _sliced):
            self._take_rows(list(group), store)

    def _take_rows(self, rows: list[AuditRow], store: SlicedRows | None) -> None:
        """Take rows, their numbers and recorded verdicts from the columns of their store if they have one."""
        assumed = None
        if store is None:
            reports = [row.report for row in rows]
            numbers = Numbers.of(reports)
            assumed = np.array([report.assumed_baseline_acc is not None for report in reports], np.bool_)
            if assumed.any():
                numbers = numbers.against([report.baseline_acc for report in reports])
            recorded = objects([report.recorded_verdict for report in reports])
            inexact = inexact_of(reports)
        else:
            slots = np.array([row.slot for row in rows if isinstance(row, StoredRow)], np.int64)
            whole = len(slots) == len(store) and bool((slots == np.arange(len(store))).all())
            numbers = store.columns.numbers if whole else store.columns.numbers.take(slots)
            recorded = store.columns.recorded_verdict[slots]
            inexact = store.columns.inexact[slots]
        columns = ReportColumns(
            key=objects([row.key for row in rows]),
            method=objects([row.method for row in rows]),
            seed=objects([row.seed for row in rows]),
            checkpoint=objects([row.checkpoint for row in rows]),
            axes=objects([row.axes for row in rows]),
            recorded_verdict=recorded,
            numbers=numbers,
            inexact=inexact,
        )
        self._append(columns, objects([row.source for row in rows]), rows, assumed)

    def _take_stored(self, chunk: StoredRows) -> bool:
        """Take a chunk in which surely nothing is wrong; False, and nothing taken, where something may be."""
        reports = chunk.decoded()
        if reports is None or not (numbers := Numbers.of(reports)).surely_valid():
            return False
        columns = ReportColumns.of(chunk.keys, reports, recorded_verdicts(reports), numbers)
        self._append(columns, objects([chunk.source] * len(chunk)), chunk)
        return True

    def _append(
        self, columns: ReportColumns, sources: Objects, store: Sequence[AuditRow], assumed: Mask | None = None
    ) -> None:
        self._assumed.append(np.zeros(len(columns), np.bool_) if assumed is None else assumed)
        self._parts.append(columns)
        self._sources.append(sources)
        self._stores.append(store)


def _sliced(row: AuditRow) -> SlicedRows | None:
    """Where a row's numbers stand in columns already."""
    if isinstance(row, StoredRow) and row.is_as_stored and isinstance(row.store, SlicedRows):
        return row.store
    return None
