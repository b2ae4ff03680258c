"""From reports to columns, a few thousand at a time, so that only so many reports are alive at once."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from fa_core.columns import Floats, Mask, Objects, Ragged, growth_of, margin_of, optional
from fa_core.formats.reports import identity_of
from fa_core.formats.stored import StoredRows
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow, Problem
from fa_core.table import AuditTable, bits_of, depth_utility_bits

_CHUNK = 2000
_IDENTITY = ("source", "key", "method", "seed", "checkpoint", "axes", "recorded_verdict")
_SCALARS = ("growth_bound", "cross_batch_stability", "headline_acc", "frozen_baseline_acc")
_of_row = attrgetter(*(f"report.{name}" if name == "recorded_verdict" else name for name in _IDENTITY))
_of_report = attrgetter("residual_norms", "bp_grad_norms", *_SCALARS)


class _Measured(NamedTuple):
    """The numbers of some reports."""

    residual: Ragged
    gradient: Ragged
    scalars: list[tuple[Floats, Mask]]

    @classmethod
    def of(cls, reports: Sequence[DiagnosticReport]) -> _Measured:
        residual, gradient, *scalars = zip(*map(_of_report, reports), strict=True)
        return cls(Ragged.of(residual), Ragged.of(gradient), [optional(values) for values in scalars])

    def surely_valid(self) -> bool:
        """Whether every report holds something and passes `DiagnosticReport.check`; False when in doubt."""
        h, g, (_, (cosine, has_cosine), *accs) = self
        return bool(
            h.lengths.min() > 0
            and np.array_equal(h.lengths, g.lengths)
            and _within(h.flat, 0.0, np.inf)
            and _within(g.flat, 0.0, np.inf)
            and _within(cosine[has_cosine], -1.0, 1.0)
            and all(_within(acc[has_acc], 0.0, 1.0) for acc, has_acc in accs)
        )


class TableBuilder:
    """Takes rows; `build` makes the table.

    Attributes:
        problems: what could not be read, for the table.
    """

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self._single: list[AuditRow] = []
        self._identity: list[list[object]] = [[] for _ in _IDENTITY]
        self._residual: list[Ragged] = []
        self._gradient: list[Ragged] = []
        self._scalars: list[list[tuple[Floats, Mask]]] = [[] for _ in _SCALARS]
        self._stores: list[Sequence[AuditRow]] = []

    def add_row(self, row: AuditRow) -> None:
        """Take one row."""
        self._single.append(row)

    def add_stored(self, rows: StoredRows) -> None:
        """Take the rows of an audit table; those that cannot be read become problems."""
        self._take_singles()
        for start in range(0, len(rows), _CHUNK):
            chunk = rows[start : start + _CHUNK]
            reports = chunk.decoded()
            if reports is None or not self._take_stored(chunk, reports):
                for row in chunk.checked():
                    if isinstance(row, Problem):
                        self.problems.append(row)
                    else:
                        self._single.append(row)
                self._take_singles()

    def build(self) -> AuditTable:
        """The table of everything added."""
        self._take_singles()
        residual, gradient = Ragged.concat(self._residual), Ragged.concat(self._gradient)
        (bounds, has_bound), (stability, has_stability), (acc, has_acc), (baseline, has_baseline) = (
            _concatenated(parts) for parts in self._scalars
        )
        bad_a = residual.any_nonfinite() | (has_bound & ~np.isfinite(bounds))
        nonfinite = bits_of(a=bad_a, b=gradient.any_nonfinite(), c=has_stability & ~np.isfinite(stability))
        measured = bits_of(a=(residual.lengths >= 2) | has_bound, b=gradient.lengths > 0, c=has_stability)
        nonfinite, coverage = depth_utility_bits(nonfinite, nonfinite | measured, acc, baseline, has_acc, has_baseline)
        counts = [len(store) for store in self._stores]
        return AuditTable(
            **dict(zip(_IDENTITY, map(_objects, self._identity), strict=True)),
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
            _rebased=np.zeros(len(acc), np.bool_),
            _store=np.repeat(np.arange(len(counts)), counts).astype(np.int64),
            _slot=np.concatenate([np.zeros(0, np.int64), *(np.arange(count) for count in counts)]),
            _stores=tuple(self._stores),
        )

    def _take_singles(self) -> None:
        rows, self._single = self._single, []
        if rows:
            self._append(_Measured.of([row.report for row in rows]), rows)
            for column, values in zip(self._identity, zip(*map(_of_row, rows), strict=True), strict=True):
                column.extend(values)

    def _take_stored(self, chunk: StoredRows, reports: list[Any]) -> bool:
        """Take a chunk in which surely nothing is wrong; False, and nothing taken, where something may be."""
        measured = _Measured.of(reports)
        if not measured.surely_valid():
            return False
        self._append(measured, chunk)
        names = map(identity_of, chunk.keys, reports)
        method, seed, axes, checkpoint = zip(*names, strict=True)
        kept = [report.recorded_verdict if report.kept_verdict is None else report.kept_verdict for report in reports]
        source = [chunk.source] * len(chunk)
        for column, values in zip(
            self._identity, (source, chunk.keys, method, seed, checkpoint, axes, kept), strict=True
        ):
            column.extend(values)
        return True

    def _append(self, measured: _Measured, store: Sequence[AuditRow]) -> None:
        self._residual.append(measured.residual)
        self._gradient.append(measured.gradient)
        for parts, part in zip(self._scalars, measured.scalars, strict=True):
            parts.append(part)
        self._stores.append(store)


def _within(values: Floats, low: float, high: float) -> bool:
    """Whether all values lie in [low, high]; a NaN does not."""
    return bool(((values >= low) & (values <= high)).all())


def _concatenated(parts: Sequence[tuple[Floats, Mask]]) -> tuple[Floats, Mask]:
    return (
        np.concatenate([np.zeros(0), *(values for values, _ in parts)]),
        np.concatenate([np.zeros(0, np.bool_), *(present for _, present in parts)]),
    )


def _objects(values: Sequence[object]) -> Objects:
    """An array of the objects themselves (``np.array`` would unpack dicts and lists of equal length)."""
    return np.fromiter(values, object, len(values))
