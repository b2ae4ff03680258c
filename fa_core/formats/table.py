"""The audit table: rows, and their numbers in columns as the judge has them."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from fa_core.errors import missing_package
from fa_core.formats.rows import AuditRow, Problem, conditions_of, recorded, uneven
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.diagnostics import judgement_of, mask_of
from fa_core.report.gamma import CREDIT, credit_numbers, deep_layers, per_layer
from fa_core.report.judge import Judge
from fa_core.report.names import run_names
from fa_core.report.numbers import brief, count_text, listed
from fa_core.report.quantities import Quantity, named
from fa_core.report.report_facts import PROTOCOL, DiagnosticThresholds

if TYPE_CHECKING:
    from pandas import DataFrame

NUMBERS = named("growth", "h_L", "g_L", "drift", "acc", "frozen", "margin", "gamma", "null")
"""The numbers that have columns."""


def _of_rows(name: str) -> cached_property[Objects]:
    """A column of an attribute of the rows."""
    return cached_property(
        lambda table: read_only(objects(list(map(attrgetter(name), table.rows()))))
    )


def _of_reports(number: Quantity) -> cached_property[Floats]:
    """The column of a number; NaN for unmeasured values."""
    return cached_property(
        lambda table: read_only(np.array(table.numbers(number), dtype=np.float64))
    )


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class AuditTable:
    """Runs in rows, numbers in columns. Immutable: the arrays, made on first use, cannot be
    written, methods return new tables.

    Attributes:
        source, key, method, seed, axes: as in `AuditRow`, arrays of objects.
        growth: (a)'s number; NaN where not measured or not finite (see `coverage` and `nonfinite`).
        h_L, g_L: deepest norms; (b) judges g_L.
        stability: (c)'s mean pairwise cosine.
        acc, baseline: headline and frozen baseline accuracy, fractions.
        margin_pp: (d)'s number, percentage points.
        deep_gamma, null_gamma: deep Γ, and its mean under random feedback.
        coverage: bits of the diagnostics that were measured.
        nonfinite: bits of the diagnostics with a NaN or ±inf among their values; these fire.
        classes: C, as measured; NaN where a report does not say.
        credit: (n, 5), the numbers of `CREDIT`; NaN for none.
        problems: unreadable paths.
    """

    _rows: tuple[AuditRow, ...]
    problems: tuple[Problem, ...] = ()

    source, key, method, seed, axes = map(_of_rows, ("source", "key", "method", "seed", "axes"))
    growth, h_L, g_L, stability, acc, baseline, margin_pp, deep_gamma, null_gamma = map(
        _of_reports, NUMBERS
    )

    @classmethod
    def from_rows(cls, rows: Iterable[AuditRow], problems: Iterable[Problem] = ()) -> AuditTable:
        """A table of rows, measured or not."""
        return cls(tuple(rows), tuple(problems))

    @cached_property
    def _judge(self) -> Judge:
        return Judge([row.report for row in self._rows])

    @cached_property
    def coverage(self) -> Bits:
        """Bits of the diagnostics that were measured, per row."""
        return as_bits(self._judge.coverage)

    @cached_property
    def nonfinite(self) -> Bits:
        """Bits of the diagnostics that fire at every threshold, per row."""
        return as_bits(self._judge.nonfinite)

    @cached_property
    def classes(self) -> Floats:
        """C per row; NaN where a report does not say."""
        return np.array([row.report.provenance.get("classes", math.nan) for row in self._rows])

    @cached_property
    def credit(self) -> Floats:
        """The numbers of `CREDIT` per row, (n, 5)."""
        numbers = np.full((len(self), len(CREDIT)), np.nan)
        for place, row in enumerate(self._rows):
            if row.report.credit:
                numbers[place] = credit_numbers(row.report.credit, row.report.method_name)
        return read_only(numbers)

    @cached_property
    def credit_layers(self) -> list[tuple[list[int], list[int]]]:
        """Per row the layers with Γ and those of deep Γ; empty for runs without."""
        found = []
        for row in self._rows:
            credit = row.report.credit
            known = [l for l, g in enumerate(per_layer(credit)) if g is not None]
            found.append((known, deep_layers(credit, row.report.method_name)))
        return found

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        return (
            f"AuditTable({len(self)} runs, methods {', '.join(self.methods)}, "
            f"{len(self.problems)} problems)"
        )

    @property
    def methods(self) -> list[str]:
        """The methods, in order of appearance."""
        return list(dict.fromkeys(self.method.tolist()))

    @cached_property
    def names(self) -> list[str]:
        """A unique name per row (`run_names`)."""
        return run_names(self._rows)

    @cached_property
    def no_claim(self) -> list[str]:
        """Per row, what it is where it makes no claim (`AuditRow.no_claim`)."""
        return [row.no_claim for row in self._rows]

    def claiming(self, but: Collection[str] = ("",)) -> tuple[AuditTable, tuple[str, ...]]:
        """The runs that make a claim, and notes on the others, which are left out.

        Args:
            but: kinds of `no_claim` that are kept.
        """
        found: dict[str, dict[str, None]] = {}
        for row, run, kind in zip(self._rows, self.names, self.no_claim, strict=True):
            if kind not in but:
                what, name = "controls", row.method
                if row.report.changed:
                    what, name = f"runs ({row.report.changed})", run
                found.setdefault(what, {})[name] = None
        notes = [f"{what} are left out: {', '.join(names)}" for what, names in found.items()]
        return self.select([kind in but for kind in self.no_claim]), tuple(notes)

    @property
    def unmeasured_notes(self) -> tuple[str, ...]:
        """The note that runs of which nothing was measured are left out, if there are any."""
        runs = count_text(int((self.coverage == 0).sum()), "unmeasured run")
        return () if self.coverage.all() else (f"{runs} left out (measure with `fa-tui audit`)",)

    def flags(self, thresholds: DiagnosticThresholds = PROTOCOL) -> Bits:
        """The diagnostics that fire, as bits per row (shape (n,))."""
        fired, _ = self._judge.at(thresholds)
        return as_bits(fired)

    def undecided(self, thresholds: DiagnosticThresholds = PROTOCOL) -> Bits:
        """The diagnostics that neither fire nor pass (`DiagnosticReport.undecided`), as bits per
        row."""
        _, undecided = self._judge.at(thresholds)
        return as_bits(undecided)

    def verdicts(self, thresholds: DiagnosticThresholds = PROTOCOL) -> list[str]:
        """The published verdict text of each row by numbers alone (`DiagnosticReport.verdict`), for
        callers of the library; `judgements` counts what they are sure of."""
        return [row.report.with_thresholds(thresholds).verdict for row in self._rows]

    def judgements(self, thresholds: DiagnosticThresholds = PROTOCOL) -> Counter[str]:
        """Count of rows by judgement, or controls (`fa_core.report.diagnostics.judgement_of`)."""
        fired, undecided = self._judge.at(thresholds)
        alike = Counter(zip(fired, self._judge.coverage, undecided, self.no_claim, strict=True))
        counts: Counter[str] = Counter()
        for state, runs in alike.items():
            counts[judgement_of(*state)] += runs
        return counts

    def ends(self, letter: str) -> tuple[Floats, Floats]:
        """Per row, the end of a diagnostic's number that fires for sure and the one that may
        (`JudgedRun.reach`); NaN where it was not measured."""
        sure, possible = map(np.array, self._judge.ends[letter])
        return sure, possible

    def points(self, letter: str) -> list[float]:
        """The thresholds at which a row's state changes, rising."""
        return self._judge.points(letter).tolist()

    def numbers(self, number: Quantity) -> list[float | None]:
        """A number of every row as Python has it: None if unmeasured (a measured NaN is kept)."""
        return [number.of(row.report) for row in self._rows]

    def column(self, number: Quantity) -> Floats:
        """A number of every row."""
        values: Floats = getattr(self, number.column)
        return values

    @property
    def assumed(self) -> Mask:
        """Mask of runs with (d) judged by an assumed baseline."""
        reports = (row.report for row in self._rows)
        return np.array([run.measured != run.coverage for run in reports], dtype=np.bool_)

    @property
    def assumed_notes(self) -> tuple[str, ...]:
        """Notes on assumed baselines of (d) and their runs; empty without any.

        >>> report = DiagnosticReport(headline_acc=0.4).with_assumed_baseline(0.349)
        >>> AuditTable.from_rows([AuditRow(source="", key="", method="ep",
        ...     report=report)]).assumed_notes
        ('(d) is assumed, not measured, on 1 of 1 runs: against a frozen baseline of 0.349 (ep)',)
        """
        where = self.assumed
        methods: dict[float, list[str]] = {}
        baselines = self.baseline[where].tolist()
        pairs = zip(baselines, self.method[where].tolist(), strict=True)
        for acc, method in dict.fromkeys(pairs):
            methods.setdefault(acc, []).append(method)
        if not methods:
            return ()
        texts = [f"{brief(acc)} ({listed(names)})" for acc, names in methods.items()]
        by = " and ".join(texts)
        runs = f"on {int(where.sum())} of {len(self)} runs"
        return (f"(d) is assumed, not measured, {runs}: against a frozen baseline of {by}",)

    @property
    def uneven_notes(self) -> tuple[str, ...]:
        """Notes on conditions that differ between runs (`uneven`)."""
        return tuple(uneven(Counter(conditions_of(row.report) for row in self._rows)))

    def row(self, index: int) -> AuditRow:
        """One row with its whole report."""
        return self._rows[index]

    def report(self, index: int) -> DiagnosticReport:
        """One row's report."""
        return self.row(index).report

    @property
    def kinds(self) -> dict[str, str]:
        """`DiagnosticReport.kinds` of all rows merged; the last inexact row counts."""
        return {letter: kind for row in self._rows for letter, kind in row.report.kinds.items()}

    def rows(self) -> Iterator[AuditRow]:
        """All rows, in order."""
        return iter(self._rows)

    def to_pandas(self, thresholds: DiagnosticThresholds = PROTOCOL) -> DataFrame:
        """The runs as a data frame, one row per run.

        Columns: `source`, `key`, `method`, `seed`, the numbers of `fa_core.formats.rows.RECORDED`
        (NaN where not measured), those of `judged_fields`, `coverage`, the axes by their names, and
        ``residual_norms`` and ``bp_grad_norms`` as lists.

        Args:
            thresholds: what judges (default: the protocol's).

        Raises:
            UsageError: pandas is not installed.
        """
        try:
            import pandas
        except ImportError:
            raise missing_package("pandas", "to_pandas()") from None
        records = []
        for row in self.rows():
            report = row.report.with_thresholds(thresholds)
            record = recorded(row, report)
            record |= record.pop("axes")
            record["residual_norms"] = list(report.residual_norms)
            record["bp_grad_norms"] = list(report.bp_grad_norms)
            records.append(record)
        return pandas.DataFrame(records)

    def select(self, which: Mask | Indices | Sequence[int] | Sequence[bool]) -> AuditTable:
        """A table of some rows; the table itself for all rows in order.

        Args:
            which: a mask over all rows, or indices in the order wanted.
        """
        chosen = np.asarray(which)
        if chosen.dtype == np.bool_:
            indices = np.flatnonzero(chosen)
        else:
            indices = chosen.astype(np.int64)
        if np.array_equal(indices, np.arange(len(self))):
            return self
        chosen_rows = tuple(self._rows[index] for index in indices.tolist())
        table = AuditTable(chosen_rows, self.problems)
        # judged once: a table is parted into many groups
        made = {**vars(self), "coverage": self.coverage, "nonfinite": self.nonfinite}
        for name, column in made.items():
            if isinstance(column, np.ndarray):
                vars(table)[name] = read_only(column[indices])
        return table


Floats: TypeAlias = NDArray[np.float64]
Bits: TypeAlias = NDArray[np.uint8]
Indices: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
Objects: TypeAlias = NDArray[np.object_]

_Array = TypeVar("_Array", bound=NDArray[np.generic])


def read_only(array: _Array) -> _Array:
    """The array, made read-only."""
    array.setflags(write=False)
    return array


def objects(values: Sequence[object]) -> Objects:
    """An array of objects (``np.array`` would unpack dicts and lists of equal length)."""
    return np.fromiter(values, object, len(values))


def having(bits: Bits, letters: str) -> Mask:
    """Mask of the rows with the bit of any of some diagnostics."""
    found: Mask = (bits & mask_of(letters)) != 0
    return found


def as_bits(masks: bytearray) -> Bits:
    """A mask per row as a read-only column."""
    return read_only(np.array(masks, dtype=np.uint8))
