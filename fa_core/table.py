"""The audit table: measured numbers in columns, one row per run. Everything shown is a function of it and thresholds.

The rules are those of `fa_core.report`, over columns; a property test keeps the two equal.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from fa_core.columns import Bits, Floats, Indices, Mask, Objects, Ragged, margin_of, narrow, read_only
from fa_core.errors import UsageError
from fa_core.naming import unknown_name
from fa_core.report import LETTERS, DiagnosticReport, DiagnosticThresholds, verdict_text
from fa_core.rows import AuditRow, Problem, canonical_method
from fa_core.runs import WITHOUT_BASELINE

BIT: Mapping[str, int] = {letter: 1 << position for position, letter in enumerate(LETTERS)}
"""A diagnostic's bit in `AuditTable.flags`, `coverage` and `nonfinite`: a=1, b=2, c=4, d=8."""


def letters_of(mask: int) -> str:
    """The diagnostics of a bit mask, in order.

    >>> letters_of(11)
    'abd'
    """
    return "".join(letter for letter in LETTERS if mask & BIT[letter])


_UNMEASURED = 1 << len(LETTERS)
_VERDICTS = np.array([*(verdict_text(letters_of(mask), LETTERS) for mask in range(16)), verdict_text("", "")], object)


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class AuditTable:
    """Runs in rows, numbers in columns. Immutable: the arrays cannot be written, methods return new tables.

    Attributes:
        source, key, method, seed, checkpoint, axes: as in `AuditRow` (arrays of objects).
        recorded_verdict: the verdict text found in the file, or None.
        residual_norms: ‖h_l‖ per row. bp_grad_norms: ‖g_l‖ per row.
        growth: (a)'s number; NaN where not measured or not finite (see `coverage` and `nonfinite`).
        h_L, g_L: deepest norms; (b) judges g_L.
        stability: (c)'s mean pairwise cosine.
        acc, baseline: headline and frozen baseline accuracy, fractions.
        margin_pp: (d)'s number, percentage points.
        coverage: bits of the diagnostics that were measured.
        nonfinite: bits of the diagnostics with a NaN or ±inf among their values; these fire.
        problems: what could not be read.
    """

    source: Objects
    key: Objects
    method: Objects
    seed: Objects
    checkpoint: Objects
    axes: Objects
    recorded_verdict: Objects
    residual_norms: Ragged
    bp_grad_norms: Ragged
    growth: Floats
    h_L: Floats
    g_L: Floats
    stability: Floats
    acc: Floats
    baseline: Floats
    margin_pp: Floats
    coverage: Bits
    nonfinite: Bits
    problems: tuple[Problem, ...] = ()
    _has_acc: Mask
    _has_baseline: Mask
    _rebased: Mask
    _inexact: Mask
    _store: Indices
    _slot: Indices
    _stores: tuple[Sequence[AuditRow], ...]

    def __post_init__(self) -> None:
        for column in self._columns().values():
            if isinstance(column, np.ndarray):
                read_only(column)

    @classmethod
    def from_rows(cls, rows: Iterable[AuditRow], problems: Iterable[Problem] = ()) -> AuditTable:
        """A table of all the rows given, measured or not."""
        from fa_core.table_builder import TableBuilder

        builder = TableBuilder()
        builder.problems.extend(problems)
        builder.add_rows(rows)
        return builder.build()

    @classmethod
    def concat(cls, tables: Sequence[AuditTable]) -> AuditTable:
        """The rows of all tables, one after another."""
        if not tables:
            return cls.from_rows([])
        columns: dict[str, Any] = {}
        for name, column in tables[0]._columns().items():
            parts = [getattr(table, name) for table in tables]
            columns[name] = Ragged.concat(parts) if isinstance(column, Ragged) else np.concatenate(parts)
        before = np.cumsum([0, *(len(table._stores) for table in tables[:-1])])
        columns["_store"] = np.concatenate(
            [table._store + first for table, first in zip(tables, narrow(before), strict=True)]
        )
        return dataclasses.replace(
            tables[0],
            **columns,
            problems=tuple(problem for table in tables for problem in table.problems),
            _stores=tuple(store for table in tables for store in table._stores),
        )

    def __len__(self) -> int:
        return len(self.key)

    def __repr__(self) -> str:
        return f"AuditTable({len(self)} runs, methods {', '.join(self.methods)}, {len(self.problems)} problems)"

    @property
    def methods(self) -> list[str]:
        """The methods, in order of appearance."""
        return list(dict.fromkeys(self.method.tolist()))

    @property
    def seeds(self) -> list[int | None]:
        """The seeds in increasing order, None last."""
        return sorted(set(self.seed.tolist()), key=lambda seed: (seed is None, seed))

    def flags(self, thresholds: DiagnosticThresholds | None = None) -> Bits:
        """The diagnostics that fire, as bits per row (shape (n,)). One pass over four columns, no loop over rows."""
        t = thresholds or DiagnosticThresholds()
        fired: Bits = self.nonfinite.copy()
        fired |= (self.growth > t.h_norm_explosion_ratio).view(np.uint8) * np.uint8(BIT["a"])
        fired |= (self.g_L < t.g_norm_floor).view(np.uint8) * np.uint8(BIT["b"])
        fired |= (self.stability > t.stability_drift_ceiling).view(np.uint8) * np.uint8(BIT["c"])
        fired |= (self.margin_pp < t.frozen_acc_margin_pp).view(np.uint8) * np.uint8(BIT["d"])
        return fired

    def verdicts(self, thresholds: DiagnosticThresholds | None = None) -> list[str]:
        """The verdict text of each row."""
        flags = self.flags(thresholds)
        texts: list[str] = _VERDICTS[np.where(flags | self.coverage, flags, _UNMEASURED)].tolist()
        return texts

    def numbers(self, name: str) -> list[float | None]:
        """A measured column as plain numbers: None where nobody measured it (a NaN that was measured stays one).

        Args:
            name: ``growth``, ``h_L``, ``g_L``, ``stability``, ``acc``, ``baseline`` or ``margin_pp``.
        """
        values: list[float | None] = getattr(self, name).tolist()
        for index in np.flatnonzero(~self.measured(name)).tolist():
            values[index] = None
        return values

    def measured(self, name: str) -> Mask:
        """Where somebody measured a column (named as for `numbers`)."""
        measured: Mask = {
            "growth": (self.coverage & BIT["a"]) != 0,
            "h_L": self.residual_norms.lengths > 0,
            "g_L": self.bp_grad_norms.lengths > 0,
            "stability": (self.coverage & BIT["c"]) != 0,
            "acc": self._has_acc,
            "baseline": self._has_baseline,
            "margin_pp": self._has_acc & self._has_baseline,
        }[name]
        return measured

    @property
    def assumed(self) -> Mask:
        """Where (d) is judged by a baseline that is assumed: nobody measured it."""
        found: Mask = self._rebased & ((self.coverage & BIT["d"]) != 0)
        return found

    def row(self, index: int) -> AuditRow:
        """One row with its whole report, its baseline as in this table."""
        row: AuditRow = self._stores[self._store[index]][int(self._slot[index])]
        if not self._rebased[index]:
            return row
        report = row.report.with_assumed_baseline(float(self.baseline[index]))
        return msgspec.structs.replace(row, report=report)

    def report(self, index: int) -> DiagnosticReport:
        """One row's report, its baseline as in this table."""
        return self.row(index).report

    def kinds(self, rows: Indices) -> dict[str, str]:
        """`DiagnosticReport.kinds` of some rows together, of each letter the last that is not exact.

        Reports are read only where they say something of it.
        """
        inexact = self._inexact[rows]
        assumed = np.flatnonzero(self._rebased[rows] & ~inexact)  # they all say the same: the ends tell
        telling = np.union1d(np.flatnonzero(inexact), assumed[[0, -1]] if len(assumed) else assumed)
        return {letter: kind for i in rows[telling].tolist() for letter, kind in self.report(i).kinds.items()}

    def rows(self) -> Iterator[AuditRow]:
        """All rows, in order."""
        return map(self.row, range(len(self)))

    def select(self, which: Mask | Indices | Sequence[int] | Sequence[bool]) -> AuditTable:
        """Some of the rows.

        Args:
            which: a mask over all rows, or indices in the order wanted.
        """
        chosen = np.asarray(which)
        indices = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen.astype(np.int64)
        columns: dict[str, Any] = {
            name: column.take(indices) if isinstance(column, Ragged) else column[indices]
            for name, column in self._columns().items()
        }
        return dataclasses.replace(self, **columns)

    def order_by(self, name: str, *, descending: bool = False) -> AuditTable:
        """The rows sorted by a column or axis (``"growth"``, ``"seed"``, ``"lam"``); ties keep their order.

        What is missing or NaN comes last either way.

        Raises:
            UsageError: no such column or axis.
        """
        axes = {axis for axes in self.axes for axis in axes}
        sortable = {key for key, column in self._columns().items() if isinstance(column, np.ndarray) and key[0] != "_"}
        if name in axes and name not in sortable:
            values = [axes.get(name) for axes in self.axes]
        elif name in sortable - {"axes"}:
            values = getattr(self, name).tolist()
        else:
            raise unknown_name("column", name, (sortable - {"axes"}) | axes)
        missing = [index for index, value in enumerate(values) if value is None or value != value]
        present = sorted(set(range(len(self))) - set(missing))
        present.sort(key=lambda index: _comparable(values[index]), reverse=descending)
        return self.select([*present, *missing])

    def with_frozen_baseline(
        self, default: float | None = None, by_method: Mapping[str, float] | None = None
    ) -> AuditTable:
        """The same measurements against frozen baselines that are assumed (see `assumed`).

        Args:
            default: accuracy for every run without a baseline, but for the controls that get none; None for no change.
            by_method: accuracy for all runs of a method, in place of a recorded one too.

        Raises:
            UsageError: an accuracy outside [0, 1], or a method that no run has.
        """
        aimed = {canonical_method(method): acc for method, acc in (by_method or {}).items()}
        for acc in [*([] if default is None else [default]), *aimed.values()]:
            if not 0.0 <= acc <= 1.0:
                raise UsageError(f"frozen baseline {acc} is no fraction", hint="give an accuracy in [0, 1], e.g. 0.349")
        baseline, given = self.baseline.copy(), np.zeros(len(self), np.bool_)
        if default is not None:
            given |= ~self._has_baseline & ~np.isin(self.method, list(WITHOUT_BASELINE))
            baseline[given] = default
        for method, acc in aimed.items():
            of_method = self.method == method
            if not of_method.any():
                raise unknown_name("method", method, self.methods)
            baseline[of_method] = acc
            given |= of_method
        has_baseline = self._has_baseline | given
        nonfinite, coverage = depth_utility_bits(
            self.nonfinite, self.coverage, self.acc, baseline, self._has_acc, has_baseline
        )
        return dataclasses.replace(
            self,
            baseline=baseline,
            margin_pp=margin_of(self.acc, baseline),
            nonfinite=nonfinite,
            coverage=coverage,
            _has_baseline=has_baseline,
            _rebased=self._rebased | given,
        )

    def _columns(self) -> dict[str, Any]:
        """Everything that has one entry per row (typed by name, in the class)."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in ("problems", "_stores")
        }


def depth_utility_bits(
    nonfinite: Bits, coverage: Bits, acc: Floats, baseline: Floats, has_acc: Mask, has_baseline: Mask
) -> tuple[Bits, Bits]:
    """`nonfinite` and `coverage` with (d)'s bit set anew."""
    bad = bits_of(d=(has_acc & ~np.isfinite(acc)) | (has_baseline & ~np.isfinite(baseline)))
    others = np.uint8(~BIT["d"] & 0xFF)
    return nonfinite & others | bad, coverage & others | bad | bits_of(d=has_acc & has_baseline)


def bits_of(**masks: Mask) -> Bits:
    """Masks by letter as one column of bits."""
    columns = [mask.view(np.uint8) * np.uint8(BIT[letter]) for letter, mask in masks.items()]
    return np.bitwise_or.reduce(columns)  # type: ignore[no-any-return]  # typed by NumPy as any


def _comparable(value: object) -> tuple[str, object]:
    """A key that orders numbers among numbers and text among text."""
    return ("", value) if isinstance(value, (int, float)) else (type(value).__name__, str(value))
