"""State of the explorer: runs, thresholds, scope and marks.

No terminal code, no torch, and NumPy only for a table of columns.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

from fa_core.formats.row_baselines import with_assumed_baseline
from fa_core.formats.rows import AuditRow, Problem, conditions_of, uneven
from fa_core.report.diagnostics import BIT, letters_of
from fa_core.report.judge import ALL, Judge
from fa_core.report.names import differing_axes, run_place
from fa_core.report.thresholds import DiagnosticThresholds
from fa_core.report.verdict import standing, verdict_text
from fa_core.report.verdict_cell import cell_text
from fa_core.report.verdict_text import doubt_text, verdict_words

if TYPE_CHECKING:
    from fa_core.formats import Trace
    from fa_core.formats.log_columns import Given
    from fa_core.formats.run_progress import RunWork
    from fa_core.formats.table import AuditTable
    from fa_core.formats.trace import TraceEpoch
    from fa_core.report.baseline import FrozenBaseline
    from fa_tui.option_groups import Log
    from fa_tui.reading import Reading


class Flip(NamedTuple):
    """A changed cell: index of the row, letters that fire before and after, which are equal if only
    undecided letters changed.
    """

    row: int
    before: int
    after: int


class Judgement(NamedTuple):
    """Masks of firing and undecided diagnostics per row."""

    flags: bytes
    undecided: bytes


class RunFilter(Protocol):
    """A filter of runs.

    Attributes:
        text: the typed filter.
        live: whether it depends on thresholds or marks.
    """

    text: str
    live: bool

    def rows(self, session: Session) -> list[int] | None:
        """Indices of passing rows, rising; None for all."""


class News(NamedTuple):
    """Changes after reading places again: indices of rows; whether traces or problems changed."""

    added: list[int]
    changed: list[int]
    gone: list[int]
    back: list[int]
    others: bool

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.gone or self.back or self.others)


class Session:
    """Rows, thresholds, scope and marks; methods return the changes they make.

    Attributes:
        rows: all runs, in reading order.
        thresholds: judge the runs.
        baseline: assumed frozen-baseline accuracies.
        log: what logs do not say.
        problems: paths that could not be opened, with reasons.
        traces: traces of the runs, or a function that reads them on first use.
        marked: indices of marked rows.
        filter: limits the scope, if set.
        wide: whether the filter is suspended.
        scope: indices of the rows in scope, rising; None for all.
        gone: indices of rows whose file or folder was removed; still shown.
        work: row → what another process does with it, or did before it failed or died.
        states: row → ``queued``, ``running``, or, measured again, ``agrees`` or ``deviates``.
    """

    def __init__(
        self,
        rows: Iterable[AuditRow],
        *,
        thresholds: DiagnosticThresholds | None = None,
        baseline: FrozenBaseline | None = None,
        log: Log | None = None,
        problems: Sequence[Problem] = (),
        traces: Sequence[Trace] | Callable[[], Sequence[Trace]] = (),
    ) -> None:
        self.baseline = baseline
        self.log = log
        self._as_read = list(rows)
        self.rows = self._completed(self._as_read)
        self.thresholds = thresholds or DiagnosticThresholds()
        self.problems = list(problems)
        self._traces = traces
        self.marked: set[int] = set()
        self.diverges_at = 10.0  # fa_core.analysis.comparison.PARTS_AT, which needs NumPy
        self.gone: set[int] = set()
        self.states: dict[int, str] = {}
        self.work: dict[int, RunWork] = {}
        self.filter: RunFilter | None = None
        self.wide = False
        self.scope: list[int] | None = None
        self._counted: Sequence[int] | None = None
        self._differing: dict[str, list[str]] | None = None
        self._uneven: Sequence[str] | None = None
        self._by_source: dict[str, dict[str, int]] | None = None
        self._table: AuditTable | None = None
        self._values: dict[str, array[float]] = {}
        self._judge_all()

    def __len__(self) -> int:
        return len(self.rows)

    def _completed(self, rows: list[AuditRow]) -> list[AuditRow]:
        """The rows with given baselines and facts; the same list without any."""
        if self.baseline:
            rows = with_assumed_baseline(rows, self.baseline)
        if self.log:
            return self.log.apply(rows)
        return rows

    @property
    def columns(self) -> Given:
        """The columns of logs that the user named."""
        return {} if self.log is None else self.log.given

    @property
    def flags(self) -> Sequence[int]:
        """Per row, the mask of diagnostics that fire."""
        return self._judge.flags

    @property
    def coverage(self) -> Sequence[int]:
        """Per row, the mask of diagnostics that were measured."""
        return self._judge.coverage

    @property
    def undecided(self) -> Sequence[int]:
        """Per row, the mask of diagnostics that neither fire nor pass for sure."""
        return self._judge.undecided

    @property
    def traces(self) -> list[Trace]:
        """Traces of the runs, read on first use."""
        if callable(self._traces):
            self._traces = self._traces()
        return list(self._traces)

    @traces.setter
    def traces(self, traces: Sequence[Trace]) -> None:
        self._traces = traces

    def problems_within(self, sources: Iterable[str]) -> int:
        """Number of problems in these files."""
        files = set(sources)
        return sum(problem.path in files for problem in self.problems)

    def add_problems(self, problems: Iterable[Problem]) -> None:
        """Add problems, each once."""
        self.problems += [problem for problem in problems if problem not in self.problems]

    @property
    def table(self) -> AuditTable:
        """The rows as a table, built on first use (imports NumPy)."""
        if self._table is None:
            from fa_core.formats.table import AuditTable

            self._table = AuditTable.from_rows(self.rows)
        return self._table

    def set_thresholds(self, thresholds: DiagnosticThresholds) -> list[Flip]:
        """Judge all runs again; returns the flips."""
        if thresholds == self.thresholds:
            return []
        before, seen = self.judgement, self.scope
        self.thresholds = thresholds
        self._judge.move(thresholds)
        if self.filter is not None and self.filter.live:
            self.choose()
        return self.flipped(before, seen)

    def flipped(self, before: Judgement, seen: Sequence[int] | None = None) -> list[Flip]:
        """Flips among rows in the current or previous scope.

        Args:
            before: the previous judgement.
            seen: the previous scope (default: the current one).
        """
        rows = self.scope
        if rows is not None and seen is not None and seen != rows:
            rows = sorted({*rows, *seen})
        return flipped(before, self.judgement, rows)

    def narrow(
        self, filter: RunFilter | None, rows: list[int] | None = None, *, wide: bool = False
    ) -> None:
        """Set the filter (None = no filter).

        Args:
            filter: the filter.
            rows: the passing rows, if known.
            wide: suspend it at once.
        """
        self.filter, self.wide = filter, wide and filter is not None
        if rows is None or self.wide:
            self.choose()
        else:
            self._look_at(rows)

    def widen(self) -> None:
        """Suspend or resume the filter."""
        self.wide = not self.wide
        self.choose()

    def choose(self) -> bool:
        """Apply the filter again; returns whether the scope changed."""
        before = self.scope
        if self.filter is None or self.wide:
            self._look_at(None)
        else:
            self._look_at(self.filter.rows(self))
        return self.scope != before

    def _look_at(self, rows: list[int] | None) -> None:
        if rows != self.scope or self._counted is None:
            self.scope, self._counted, self._uneven = rows, None, None
            self._values.clear()

    @property
    def scope_text(self) -> str:
        """The typed text of the active filter; ``""`` without one."""
        if self.filter is None or self.wide:
            return ""
        return self.filter.text

    @property
    def in_scope(self) -> Sequence[int]:
        """Indices of the rows in scope, rising."""
        if self.scope is None:
            return range(len(self.rows))
        return self.scope

    @property
    def scoped(self) -> Sequence[AuditRow]:
        """The rows in scope."""
        if self.scope is None:
            return self.rows
        return [self.rows[row] for row in self.scope]

    @property
    def uneven(self) -> Sequence[str]:
        """Notes on settings that differ between rows in scope (`fa_core.formats.rows.uneven`)."""
        if self._uneven is None:
            self._uneven = uneven(Counter(conditions_of(row.report) for row in self.scoped))
        return self._uneven

    @property
    def counted(self) -> Sequence[int]:
        """The rows in scope without controls, which make no claim."""
        if self._counted is None:
            self._counted = [row for row in self.in_scope if not self.rows[row].is_control]
        return self._counted

    def _count(self, masks: Sequence[int]) -> int:
        """Number of counted rows with a nonzero mask."""
        return sum(1 for row in self.counted if masks[row])

    def set_baseline(self, baseline: FrozenBaseline | None) -> list[Flip]:
        """Assume frozen-baseline accuracies (None = the recorded ones); returns the flips."""
        before, self.baseline = self.judgement, baseline
        self.rows = self._completed(self._as_read)
        self._forget_table()
        self._judge_all()
        return self.flipped(before)

    def replace_rows(self, rows: Mapping[int, AuditRow]) -> None:
        """Replace rows by newly measured ones."""
        for index, row in rows.items():
            self._put(index, row)
        self._forget_table()
        self._judge_all()

    def merge(self, readings: Iterable[Reading]) -> News:
        """Merge changed places. Indices are stable: removed rows stay, new ones are appended."""
        news = News([], [], [], [], others=False)
        for reading in readings:
            news = self._merge_one(reading, news)
        if news.added or news.changed:
            self._forget_table()
            self._judge_all()
        return news

    def _merge_one(self, reading: Reading, news: News) -> News:
        known = self._sources().get(reading.place, {})
        missing = set(known.values())
        for row in reading.rows:
            index = known.setdefault(row.key, len(self.rows))
            if index == len(self.rows):
                news.added.append(index)
            elif row != self._as_read[index]:
                news.changed.append(index)
            if index in self.gone:
                news.back.append(index)
            missing.discard(index)
            self.gone.discard(index)
            self._put(index, row)
        news.gone.extend(sorted(missing - self.gone))
        self.gone |= missing
        self._sources()[reading.place] = known
        return news._replace(others=self._merge_others(reading) or news.others)

    def _merge_others(self, reading: Reading) -> bool:
        """Merge traces (unless their place was removed, or they are not read yet) and problems."""
        kept = [problem for problem in self.problems if not reading.settles(problem)]
        changed = [*kept, *reading.problems] != self.problems
        self.problems = [*kept, *reading.problems]
        if callable(self._traces) or reading.gone:
            return changed
        kept_traces = [trace for trace in self._traces if not reading.owns(trace.source)]
        others = len(kept_traces) < len(self._traces) or bool(reading.traces)
        self._traces = [*kept_traces, *reading.traces]
        return changed or others

    def take_work(self, changed: Mapping[str, RunWork | None]) -> list[int]:
        """Take in what processes do with run folders; the rows it concerns."""
        rows = []
        for place, work in changed.items():
            for row in self._sources().get(place, {}).values():
                rows.append(row)
                if work is None:
                    self.work.pop(row, None)
                else:
                    self.work[row] = work
        return rows

    def epochs_of(self, index: int) -> list[TraceEpoch]:
        """The epochs in the trace of a run folder; empty without a trace."""
        for trace in self.traces:
            if run_place(trace.source) == self.rows[index].source:
                return trace.epochs
        return []

    def training(self) -> int:
        """How many runs in scope are being trained now."""
        if not self.work:
            return 0
        return sum(map(self.is_trained, self.in_scope))

    def is_trained(self, index: int) -> bool:
        """Whether another process trains a run now."""
        return index in self.work and self.work[index].trains

    def _sources(self) -> dict[str, dict[str, int]]:
        """Source → key → index."""
        if self._by_source is None:
            self._by_source = {}
            for index, row in enumerate(self.rows):
                self._by_source.setdefault(row.source, {})[row.key] = index
        return self._by_source

    def _put(self, index: int, row: AuditRow) -> None:
        """Replace or append a row."""
        self._as_read[index : index + 1] = [row]
        if self.rows is not self._as_read:
            self.rows[index : index + 1] = self._completed([row])

    def assumes(self, index: int) -> bool:
        """Whether a run's frozen baseline is assumed."""
        return self.rows[index].report.assumed_baseline_acc is not None

    def walk_backs(self) -> int:
        """Number of runs that need walk-back."""
        return self._count(self.flags)

    def doubtful(self) -> int:
        """Number of runs that are undecided: nothing fires on them, and some diagnostic is open."""
        flags, undecided = self.flags, self.undecided
        return sum(1 for row in self.counted if undecided[row] and not flags[row])

    def measured(self) -> int:
        """Number of runs with at least one measured diagnostic."""
        return self._count(self.coverage)

    def measurable(self, indices: Iterable[int]) -> list[int]:
        """Those of the rows that have a checkpoint to measure, of a run that is not in training."""
        return [
            index
            for index in indices
            if self.rows[index].checkpoint is not None
            and index not in self.gone
            and not self.is_trained(index)
        ]

    def values(self, letter: str) -> Sequence[float]:
        """A diagnostic's numbers of the counted runs, rising, then a NaN for each run that fires at
        every threshold; cached for all screens.

        Where there are controls alone, theirs.
        """
        if letter not in self._values:
            self._values[letter] = self._judge.values(letter, self._compared)
        return self._values[letter]

    @property
    def _compared(self) -> Sequence[int]:
        """The rows that thresholds are set by: the counted ones, or where all are controls, all."""
        return self.counted or self.in_scope

    def values_in_scope(self, letter: str) -> Sequence[float]:
        """Like `values`, with controls."""
        return self._judge.values(letter, self.scope)

    def deciding(self, letter: str) -> Sequence[float]:
        """Like `values`, for runs whose verdict depends on this diagnostic: no other one fires."""
        others = ALL & ~BIT[letter]
        rows = [row for row in self._compared if not self.flags[row] & others]
        return self._judge.values(letter, rows)

    def verdict(self, index: int) -> str:
        """The verdict text of a run under the thresholds."""
        fired, covered = letters_of(self.flags[index]), letters_of(self.coverage[index])
        return verdict_text(fired, covered)

    def standing(self, index: int) -> str:
        """A run's standing (`fa_core.report.verdict.standing`)."""
        control = self.rows[index].is_control
        return _standing(self.flags[index], self.coverage[index], self.undecided[index], control)

    def doubt(self, index: int) -> str:
        """Doubts on a run's verdict (`DiagnosticReport.doubt`)."""
        return doubt_text(letters_of(self.undecided[index]))

    def words(self, index: int) -> str:
        """A run's verdict with its evidence and undecided diagnostics; for a control, a note that
        it is one."""
        row = self.rows[index]
        return verdict_words(row.report.with_thresholds(self.thresholds), row.is_control)

    def cell(self, index: int, *, ascii_only: bool = False) -> str:
        """A run's verdict in five characters (`cell_text`)."""
        return cell_text(
            letters_of(self.flags[index]),
            letters_of(self.coverage[index]),
            letters_of(self.undecided[index]),
            control=self.rows[index].is_control,
            ascii_only=ascii_only,
        )

    @property
    def judgement(self) -> Judgement:
        """The current judgement of all rows."""
        return Judgement(bytes(self.flags), bytes(self.undecided))

    def recorded_differs(self, index: int) -> bool:
        """Whether the file's recorded verdict differs from the current one."""
        return self.rows[index].report.with_thresholds(self.thresholds).recorded_differs

    def recorded(self, index: int) -> str | None:
        """The verdict that the file recorded."""
        return self.rows[index].report.recorded_verdict

    def alike(self, index: int) -> list[int]:
        """The rows in scope with this row's method and seed, and the row itself."""
        method, seed = self.rows[index].method, self.rows[index].seed
        alike = {index}
        for place in self.in_scope:
            row = self.rows[place]
            if row.method == method and row.seed == seed:
                alike.add(place)
        return sorted(alike)

    def label(self, index: int) -> str:
        """A run's short name, e.g. ``dfa s42``."""
        row = self.rows[index]
        if row.seed is None:
            return row.method
        return f"{row.method} s{row.seed}"

    @property
    def differing_axes(self) -> dict[str, list[str]]:
        """Method → axes that differ among its runs, used in their names."""
        if self._differing is None:
            self._differing = differing_axes((row.method, row.axes) for row in self.rows)
        return self._differing

    def _forget_table(self) -> None:
        self._table = self._counted = self._differing = None
        self._values.clear()

    def _judge_all(self) -> None:
        """Judge rows after some were replaced."""
        self._uneven = None
        self._judge = Judge([row.report for row in self.rows], self.thresholds)
        self._values.clear()
        if self.filter is not None:
            self.choose()


@lru_cache(maxsize=4096)
def _standing(flags: int, coverage: int, undecided: int, control: bool) -> str:
    """`fa_core.report.verdict.standing` of masks: a filter asks it of every run."""
    return standing(letters_of(flags), letters_of(coverage), letters_of(undecided), control=control)


def flipped(before: Judgement, after: Judgement, rows: Sequence[int] | None = None) -> list[Flip]:
    """The rows whose cells differ (among the given ones; default: all)."""
    if before == after:
        return []
    flips = []
    for row in range(len(after.flags)) if rows is None else rows:
        flags, undecided = before.flags[row], before.undecided[row]
        if flags != after.flags[row] or undecided != after.undecided[row]:
            flips.append(Flip(row, flags, after.flags[row]))
    return flips
