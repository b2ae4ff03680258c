"""The audit table: numbers in columns, a row per run.

The rules are those of `fa_core.report`, over columns; a property test keeps the two equal.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import chain
from operator import attrgetter
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from fa_core.decode import Json
from fa_core.facts.controls import CONTROLS
from fa_core.facts.provenance import has_gamma
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.judgement.diagnostics import (
    BIT,
    BOUND,
    DIAGNOSTICS,
    LETTERS,
    NORM_RATIO_EPS,
    letters_of,
)
from fa_core.judgement.gamma import CREDIT, credit_numbers
from fa_core.judgement.verdict import NOT_MEASURED, standing, verdict_text
from fa_core.numbers import brief
from fa_core.option_values import listed
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow, Problem, conditions_of, uneven


def _of_rows(name: str) -> cached_property[Objects]:
    """A column of an attribute of the rows."""
    return cached_property(
        lambda table: read_only(objects(list(map(attrgetter(name), table._rows.tolist()))))
    )


def _of_credit(name: str) -> property:
    """A column of a number of `CREDIT`; NaN for runs without it."""
    place = list(CREDIT).index(name)
    return property(
        lambda table: (
            table.credit[:, place] if table.credit.shape[1] else np.full(len(table), np.nan)
        )
    )


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class AuditTable:
    """Runs in rows, numbers in columns. Immutable: the arrays cannot be written, methods return new
    tables.

    Attributes:
        source, key, method, seed, axes: as in `AuditRow` (arrays of objects, created on first use).
        recorded_verdict: the verdict text found in the file, or None.
        residual_norms: ‖h_l‖ per row. bp_grad_norms: ‖g_l‖ per row.
        growth: (a)'s number; NaN where not measured or not finite (see `coverage` and `nonfinite`).
        h_L, g_L: deepest norms; (b) judges g_L.
        stability: (c)'s mean pairwise cosine.
        acc, baseline: headline and frozen baseline accuracy, fractions.
        margin_pp: (d)'s number, percentage points.
        coverage: bits of the diagnostics that were measured.
        nonfinite: bits of the diagnostics with a NaN or ±inf among their values; these fire.
        unproven: bits of the diagnostics whose number is a lower bound, and of (a) where the stream
            is 0 (`DiagnosticReport.unproven`); one that does not fire does not pass either.
        low, high: (n, 5), the ends of the intervals of (a) to (d) and of the accuracy; NaN where a
            number has none, (n, 0) where none has any.
        classes: C, as measured; NaN where a report does not say.
        credit: (n, 6), the numbers of `CREDIT`, columns by their names too; NaN for none, (n, 0)
            without any credit.
        has_gamma: where Γ was measured in some layer.
        problems: unreadable paths.
    """

    source, key, method, seed, axes = map(_of_rows, ("source", "key", "method", "seed", "axes"))
    mean_gamma, deep_gamma, null_gamma, deep_rho, deep_nudge, collapse = map(_of_credit, CREDIT)

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
    unproven: Bits
    low: Floats
    high: Floats
    classes: Floats
    credit: Floats
    has_gamma: Mask
    problems: tuple[Problem, ...] = ()
    _has_acc: Mask
    _has_baseline: Mask
    _rebased: Mask
    _inexact: Mask
    _conditions: Objects
    _rows: Objects

    def __post_init__(self) -> None:
        for column in self._columns().values():
            if isinstance(column, np.ndarray):
                read_only(column)

    @classmethod
    def from_rows(cls, rows: Iterable[AuditRow], problems: Iterable[Problem] = ()) -> AuditTable:
        """A table of rows, measured or not."""
        rows = list(rows)
        numbers = cls.of_reports([row.report for row in rows])
        return dataclasses.replace(numbers, problems=tuple(problems), _rows=objects(rows))

    @classmethod
    def of_reports(cls, reports: Sequence[DiagnosticReport]) -> AuditTable:
        """A table of reports without rows."""

        def column(name: str) -> list[Any]:
            return list(map(attrgetter(name), reports))

        residual = Ragged.of(column("residual_norms"))
        gradient = Ragged.of(column("bp_grad_norms"))
        bounds, has_bound = optional(column("growth_bound"))
        stability, has_stability = optional(column("cross_batch_stability"))
        acc, has_acc = optional(column("headline_acc"))
        assumed, rebased = optional(column("assumed_baseline_acc"))
        frozen, has_frozen = optional(column("frozen_baseline_acc"))
        baseline, has_baseline = np.where(rebased, assumed, frozen), rebased | has_frozen
        nonfinite = bits_of(
            a=residual.any_nonfinite() | (has_bound & ~np.isfinite(bounds)),
            b=gradient.any_nonfinite(),
            c=has_stability & ~np.isfinite(stability),
            d=(has_acc & ~np.isfinite(acc)) | (has_baseline & ~np.isfinite(baseline)),
        )
        measured = bits_of(
            a=(residual.lengths >= 2) | has_bound,
            b=gradient.lengths > 0,
            c=has_stability,
            d=has_acc & has_baseline,
        )
        low, high = (
            _with_margins(ends, baseline, rebased) for ends in _ends_of(column("intervals"))
        )
        return cls(
            recorded_verdict=_shared(column("recorded_verdict")),
            residual_norms=residual,
            bp_grad_norms=gradient,
            growth=growth_of(residual, bounds),
            h_L=residual.last(),
            g_L=gradient.last(),
            stability=stability,
            acc=acc,
            baseline=baseline,
            margin_pp=margin_of(acc, baseline),
            coverage=nonfinite | measured,
            nonfinite=nonfinite,
            unproven=np.fromiter(map(_bounded, column("evidence")), np.uint8, len(reports))
            | bits_of(a=(residual.lengths >= 2) & residual.any_below(NORM_RATIO_EPS)),
            low=low,
            high=high,
            classes=optional(list(map(_classes, column("provenance"))))[0],
            credit=_credit_of(column("credit"), column("method_name")),
            has_gamma=np.fromiter(map(has_gamma, column("credit")), np.bool_, len(reports)),
            _has_acc=has_acc,
            _has_baseline=has_baseline,
            _rebased=rebased,
            _inexact=rebased | np.array(list(map(bool, column("evidence"))), np.bool_),
            _conditions=_shared(list(map(conditions_of, reports))),
            _rows=objects([None] * len(reports)),
        )

    @classmethod
    def concat(cls, tables: Sequence[AuditTable]) -> AuditTable:
        """The rows of all tables, one after another."""
        if not tables:
            return cls.of_reports([])
        if len(tables) == 1:
            return tables[0]
        columns: Json = {}
        parts_of = [table._columns() for table in tables]
        for name, column in parts_of[0].items():
            parts = [columns_of[name] for columns_of in parts_of]
            if name in ("low", "high", "credit"):
                width = max(part.shape[1] for part in parts)
                parts = [
                    part if part.shape[1] else np.full((len(part), width), np.nan) for part in parts
                ]
            columns[name] = (
                Ragged.concat(parts) if isinstance(column, Ragged) else np.concatenate(parts)
            )
        problems = tuple(problem for table in tables for problem in table.problems)
        return cls(**columns, problems=problems)

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

    @property
    def seeds(self) -> list[int | None]:
        """The seeds in increasing order, None last."""
        return sorted(set(self.seed.tolist()), key=lambda seed: (seed is None, seed))

    @property
    def controls(self) -> Mask:
        """Controls (n,): runs that methods are compared with, and that make no claim."""
        found: Mask = np.isin(self.method, CONTROLS)
        return found

    def flags(self, thresholds: DiagnosticThresholds | None = None) -> Bits:
        """The diagnostics that fire, as bits per row (shape (n,)). One pass over four columns, no
        loop over rows."""
        t = thresholds or DiagnosticThresholds()
        fired: Bits = self.nonfinite.copy()
        for letter, diagnostic in DIAGNOSTICS.items():
            fires = diagnostic.beyond(self._column(diagnostic.column), diagnostic.limit(t))
            fired |= bits_of(**{letter: fires})
        return fired

    def undecided(self, thresholds: DiagnosticThresholds | None = None) -> Bits:
        """The diagnostics that neither fire nor pass for sure (`DiagnosticReport.undecided`), as
        bits per row."""
        t = thresholds or DiagnosticThresholds()
        found: Bits = np.zeros(len(self), np.uint8)
        if self.unproven.any():
            found = self.unproven & ~self.flags(t)
        if not self.low.shape[1]:
            return found & self.coverage & ~self.nonfinite
        for place, (letter, diagnostic) in enumerate(DIAGNOSTICS.items()):
            limit = diagnostic.limit(t)
            at_low = diagnostic.beyond(self.low[:, place], limit)
            at_high = diagnostic.beyond(self.high[:, place], limit)
            found |= bits_of(**{letter: at_low != at_high})
        return found & self.coverage & ~self.nonfinite

    def standings(self, thresholds: DiagnosticThresholds | None = None) -> Counter[str]:
        """Number of rows by standing (`fa_core.judgement.verdict.standing`)."""
        t = thresholds or DiagnosticThresholds()
        masks = (self.flags(t), self.coverage, self.undecided(t), self.controls)
        counts: Counter[str] = Counter()
        alike = Counter(zip(*(mask.tolist() for mask in masks), strict=True))
        for (*bits, control), runs in alike.items():
            counts[standing(*map(letters_of, bits), control=control)] += runs
        return counts

    def judged(self, letter: str) -> tuple[Floats, Mask, Mask]:
        """A diagnostic's numbers, with masks of the runs they judge.

        Returns:
            values (n,); finite: measured, and a threshold decides; always: measured as NaN or ±inf
            in some layer, which fires at every threshold.
        """
        values = self._column(DIAGNOSTICS[letter].column)
        measured = (self.coverage & BIT[letter]) != 0
        always = (self.nonfinite & BIT[letter]) != 0
        return values, measured & ~always & np.isfinite(values), always

    def verdicts(self, thresholds: DiagnosticThresholds | None = None) -> list[str]:
        """The verdict text of each row."""
        t = thresholds or DiagnosticThresholds()
        texts = [verdict_text(letters_of(mask), LETTERS) for mask in range(1 << len(LETTERS))]
        verdicts = []
        for flags, coverage in zip(self.flags(t).tolist(), self.coverage.tolist(), strict=True):
            verdicts.append(texts[flags] if coverage else NOT_MEASURED)
        return verdicts

    def numbers(self, name: str) -> list[float | None]:
        """A column as Python numbers: None if unmeasured (a measured NaN is kept).

        Args:
            name: ``growth``, ``h_L``, ``g_L``, ``stability``, ``acc``, ``baseline``, ``margin_pp``
                or of `CREDIT`.
        """
        values, measured = self._column(name).tolist(), self.measured(name).tolist()
        return [value if known else None for value, known in zip(values, measured, strict=True)]

    def _column(self, name: str) -> Floats:
        """A column of numbers by its name."""
        values: Floats = getattr(self, name)
        return values

    def measured(self, name: str) -> Mask:
        """Mask of measured values of a column (names as for `numbers`)."""
        if name in CREDIT:
            return np.isfinite(self._column(name))
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
        """Mask of runs with (d) judged by an assumed baseline."""
        found: Mask = self._rebased & ((self.coverage & BIT["d"]) != 0)
        return found

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
        pairs = zip(self.baseline[where].tolist(), self.method[where].tolist(), strict=True)
        for acc, method in dict.fromkeys(pairs):
            methods.setdefault(acc, []).append(method)
        if not methods:
            return ()
        by = " and ".join(f"{brief(acc)} ({listed(names)})" for acc, names in methods.items())
        runs = f"on {int(where.sum())} of {len(self)} runs"
        return (f"(d) is assumed, not measured, {runs}: against a frozen baseline of {by}",)

    @property
    def uneven_notes(self) -> tuple[str, ...]:
        """Notes on conditions that differ between runs (`uneven`)."""
        return tuple(uneven(Counter(self._conditions.tolist())))

    def row(self, index: int) -> AuditRow:
        """One row with its whole report."""
        row: AuditRow = self._rows[index]
        return row

    def report(self, index: int) -> DiagnosticReport:
        """One row's report."""
        return self.row(index).report

    @property
    def kinds(self) -> dict[str, str]:
        """`DiagnosticReport.kinds` of all rows merged; the last inexact row counts.

        Only reports with inexact numbers are read.
        """
        inexact = np.flatnonzero(self._inexact).tolist()
        return {letter: kind for i in inexact for letter, kind in self.report(i).kinds.items()}

    def rows(self) -> Iterator[AuditRow]:
        """All rows, in order."""
        return map(self.row, range(len(self)))

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
        # length first: an analysis of many groups must not compare all rows for each of them
        if len(indices) == len(self) and np.array_equal(indices, np.arange(len(self))):
            return self
        columns: Json = {
            name: column.take(indices) if isinstance(column, Ragged) else column[indices]
            for name, column in self._columns().items()
        }
        return dataclasses.replace(self, **columns)

    def _columns(self) -> Json:
        """All columns by name."""
        return {
            field.name: vars(self)[field.name]
            for field in dataclasses.fields(self)
            if field.name != "problems"
        }


def _classes(provenance: Mapping[str, object]) -> float | None:
    found = provenance.get("classes")
    if isinstance(found, int) and found > 0:
        return float(found)
    return None


def _credit_of(tables: Sequence[Json | None], methods: Sequence[str]) -> Floats:
    """The numbers of `CREDIT` per run."""
    if not any(tables):
        return np.empty((len(tables), 0))
    return np.array(
        [credit_numbers(*each) for each in zip(tables, methods, strict=True)], np.float64
    )


def _bounded(evidence: Mapping[str, str]) -> int:
    if not evidence:
        return 0
    return sum(BIT[letter] for letter, kind in evidence.items() if kind == BOUND and letter in BIT)


_ENDS = (*(diagnostic.column for diagnostic in DIAGNOSTICS.values()), "acc")
"""Names of the columns of `AuditTable.low` and `high`."""
_MARGIN, _ACC = _ENDS.index("margin_pp"), _ENDS.index("acc")


def _ends_of(intervals: Sequence[Mapping[str, tuple[float, float]]]) -> tuple[Floats, Floats]:
    """The lower and upper ends of the intervals of some reports, each (n, 5)."""
    width = len(_ENDS) if any(intervals) else 0
    low, high = np.full((2, len(intervals), width), np.nan)
    for row, found in enumerate(intervals):
        for name, ends in found.items():
            if name in _ENDS:
                place = _ENDS.index(name)
                low[row, place], high[row, place] = ends
    return low, high


def _with_margins(ends: Floats, baseline: Floats, rebased: Mask) -> Floats:
    """The ends with (d)'s derived from the accuracy's if missing or the baseline is assumed."""
    if not ends.shape[1]:
        return ends
    derived = 100 * (ends[:, _ACC] - baseline)
    ends = ends.copy()
    ends[:, _MARGIN] = np.where(rebased | np.isnan(ends[:, _MARGIN]), derived, ends[:, _MARGIN])
    return ends


def bits_of(**masks: Mask) -> Bits:
    """Masks by letter as one column of bits."""
    columns = [mask.view(np.uint8) * np.uint8(BIT[letter]) for letter, mask in masks.items()]
    return np.bitwise_or.reduce(columns)  # type: ignore[no-any-return]  # typed by NumPy as any


Floats: TypeAlias = NDArray[np.float64]
Bits: TypeAlias = NDArray[np.uint8]
Indices: TypeAlias = NDArray[np.int64]
Mask: TypeAlias = NDArray[np.bool_]
Objects: TypeAlias = NDArray[np.object_]

_Array = TypeVar("_Array", bound=NDArray[np.generic])
_PLACES = 9
_NEAR_TIE = 1e-3


class Ragged:
    """Rows of unequal length in one flat array: row i is ``flat[offsets[i]:offsets[i + 1]]``."""

    __slots__ = ("flat", "offsets")

    def __init__(self, flat: Floats, offsets: Indices) -> None:
        self.flat = read_only(flat)
        self.offsets = read_only(offsets)

    @classmethod
    def of(cls, rows: Sequence[Sequence[float]]) -> Ragged:
        """Rows given as sequences."""
        offsets = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum(np.fromiter(map(len, rows), np.int64, len(rows)), out=offsets[1:])
        return cls(np.fromiter(chain.from_iterable(rows), np.float64, int(offsets[-1])), offsets)

    @classmethod
    def concat(cls, parts: Sequence[Ragged]) -> Ragged:
        """The rows of all parts, one after another."""
        lengths = np.concatenate([np.zeros(1, np.int64), *(part.lengths for part in parts)])
        return cls(
            np.concatenate([np.zeros(0), *(part.flat for part in parts)]), np.cumsum(lengths)
        )

    @property
    def lengths(self) -> Indices:
        """The number of values in each row."""
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Floats:
        index = range(len(self))[index]
        row: Floats = self.flat[self.offsets[index] : self.offsets[index + 1]]
        return row

    def take(self, indices: Indices) -> Ragged:
        """Some of the rows, in the order given."""
        begins = self.offsets[:-1][indices]
        lengths = self.lengths[indices]
        offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])
        shifts = np.repeat(begins - offsets[:-1], lengths)
        positions = np.arange(offsets[-1]) + shifts
        return Ragged(self.flat[positions], offsets)

    def last(self) -> Floats:
        """The last value of each row; NaN for an empty one."""
        filled = self.lengths > 0
        values = np.full(len(self), np.nan)
        values[filled] = self.flat[self.offsets[1:][filled] - 1]
        return values

    def any_nonfinite(self) -> Mask:
        """Which rows hold a NaN or ±inf."""
        return self._rows_of(~np.isfinite(self.flat))

    def any_below(self, limit: float) -> Mask:
        """Which rows hold a value below a limit."""
        return self._rows_of(self.flat < limit)

    def _rows_of(self, values: Mask) -> Mask:
        """The rows in which some of these values lie."""
        found = np.zeros(len(self), np.bool_)
        found[np.searchsorted(self.offsets, np.flatnonzero(values), side="right") - 1] = True
        return found


def read_only(array: _Array) -> _Array:
    """The array, made read-only."""
    array.setflags(write=False)
    return array


def optional(values: Sequence[float | None]) -> tuple[Floats, Mask]:
    """Numbers with NaN for None, and a mask of those that are not None."""
    if values.count(None) == len(values):
        return np.full(len(values), np.nan), np.zeros(len(values), np.bool_)
    numbers = np.fromiter(values, np.float64, len(values))  # None becomes NaN
    present = ~np.isnan(numbers)
    if not present.all():
        present = np.fromiter((value is not None for value in values), np.bool_, len(values))
    return numbers, present


def objects(values: Sequence[object]) -> Objects:
    """An array of objects (``np.array`` would unpack dicts and lists of equal length)."""
    return np.fromiter(values, object, len(values))


def _shared(values: Sequence[Hashable]) -> Objects:
    """Like `objects`, with equal objects shared."""
    known: dict[Hashable, Hashable] = {}
    return objects(list(map(known.setdefault, values, values)))


def growth_of(norms: Ragged, bounds: Floats) -> Floats:
    """Diagnostic (a)'s number per row, as `DiagnosticReport.max_per_block_growth`.

    growth = max_l ‖h_{l+1}‖/max(‖h_l‖, 1e-30).

    Args:
        norms: ‖h_l‖, l = 0..L, per row.
        bounds: per row, the number where there are fewer than two norms; NaN for nothing.

    Returns:
        Ratios; NaN where not measured and where a norm is non-finite.
    """
    growth: Floats = bounds.copy()
    several = norms.lengths >= 2
    if several.any():
        ratios = np.full(len(norms.flat), -np.inf)
        with np.errstate(over="ignore", invalid="ignore"):
            ratios[:-1] = norms.flat[1:] / np.maximum(norms.flat[:-1], NORM_RATIO_EPS)
        # from one row's end to the next row's start
        ratios[norms.offsets[1:][norms.lengths > 0] - 1] = -np.inf
        growth[several] = np.maximum.reduceat(ratios, norms.offsets[:-1][several])
    growth[norms.any_nonfinite()] = np.nan
    return growth


def margin_of(headline: Floats, baseline: Floats) -> Floats:
    """Diagnostic (d)'s number per row, as `DiagnosticReport.margin_pp`: 100·(headline − baseline),
    rounded to 1e-9.

    NumPy rounds by scaling, Python correctly: near ties Python decides.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        margin = 100.0 * (headline - baseline)
        scaled = margin * 10.0**_PLACES
        rounded = np.rint(scaled) / 10.0**_PLACES
        doubtful = (np.abs(scaled - np.floor(scaled) - 0.5) < _NEAR_TIE) | (
            np.abs(scaled) > 2.0**40
        )
    for index in np.flatnonzero(doubtful).tolist():
        rounded[index] = round(float(margin[index]), _PLACES)
    return rounded
