"""The explorer's one state object: the runs, the thresholds that judge them, and what is marked.

No terminal code, no torch, and no NumPy before a table of columns is asked for.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, Protocol

from fa_core.facts.runs import run_place
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.judgement.diagnostics import BIT, letters_of
from fa_core.judgement.judge import ALL, Judge
from fa_core.judgement.verdict import standing, verdict_text
from fa_core.row_baselines import with_assumed_baseline
from fa_core.rows import AuditRow, Problem, conditions_of, differing_axes, uneven
from fa_core.text.verdict import doubt_text, verdict_words
from fa_core.text.verdict_cell import cell_text

if TYPE_CHECKING:
    from fa_core.formats import Trace
    from fa_core.judgement.baseline import FrozenBaseline
    from fa_core.run_progress import RunWork
    from fa_core.table import AuditTable
    from fa_core.trace import TraceEpoch
    from fa_tui.option_groups import Log
    from fa_tui.reading import Reading


class Flip(NamedTuple):
    """A run whose cell changed: the row's index, the letters that fire before and after.

    They are the same where only what is undecided changed.
    """

    row: int
    before: int
    after: int


class Judgement(NamedTuple):
    """What fires and what is undecided, a mask per row."""

    flags: bytes
    undecided: bytes


class RunFilter(Protocol):
    """Which runs are looked at.

    Attributes:
        text: the filter as it was typed.
        live: whether it depends on thresholds or marks.
    """

    text: str
    live: bool

    def rows(self, session: Session) -> list[int] | None:
        """The rows that pass, rising; None for all."""


class News(NamedTuple):
    """What reading places again brought: indices of rows; and whether other traces or problems."""

    added: list[int]
    changed: list[int]
    gone: list[int]
    back: list[int]
    others: bool

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.gone or self.back or self.others)


class Session:
    """Rows, thresholds, scope, marks; every change returns what it changed.

    Attributes:
        rows: all runs, in reading order.
        thresholds: what judges them.
        baseline: what fills in frozen-baseline accuracies.
        log: what bounds the growth of logs.
        problems: paths that could not be opened, with reasons.
        traces: per-epoch traces found next to the runs; a function that reads them is called when
            they are wanted.
        marked: indices of marked rows.
        groups: method → ``healthy`` (should pass), ``degenerate`` or ``neither``, where the user
            chose.
        filter: what narrows the scope, if anything does.
        wide: whether the filter is put aside.
        scope: indices of the rows that are looked at, rising; None for all.
        gone: indices of rows whose file or folder is no longer there; they are shown as they were.
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
        self.groups: dict[str, str] | None = None
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
        """Rows with what was given for them filled in; the same list, if nothing was."""
        if self.baseline:
            rows = with_assumed_baseline(rows, self.baseline)
        if self.log:
            return self.log.apply(rows)
        return rows

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
        """Per-epoch traces found next to the runs; read on first use."""
        if callable(self._traces):
            self._traces = self._traces()
        return list(self._traces)

    @traces.setter
    def traces(self, traces: Sequence[Trace]) -> None:
        self._traces = traces

    def problems_within(self, sources: Iterable[str]) -> int:
        """How many parts of these files could not be read."""
        files = set(sources)
        return sum(problem.path in files for problem in self.problems)

    def add_problems(self, problems: Iterable[Problem]) -> None:
        """Take up what else could not be read, each once."""
        self.problems += [problem for problem in problems if problem not in self.problems]

    @property
    def table(self) -> AuditTable:
        """The rows as columns, built on first use (this imports NumPy)."""
        if self._table is None:
            from fa_core.table import AuditTable

            self._table = AuditTable.from_rows(self.rows)
        return self._table

    def set_thresholds(self, thresholds: DiagnosticThresholds) -> list[Flip]:
        """Judge every run again; the runs whose cells changed."""
        if thresholds == self.thresholds:
            return []
        before, seen = self.judgement, self.scope
        self.thresholds = thresholds
        self._judge.move(thresholds)
        if self.filter is not None and self.filter.live:
            self.choose()
        return self.flipped(before, seen)

    def flipped(self, before: Judgement, seen: Sequence[int] | None = None) -> list[Flip]:
        """The rows in scope, now or before, whose cells differ.

        Args:
            before: what the thresholds made of every row then.
            seen: the scope then (default: as now).
        """
        rows = self.scope
        if rows is not None and seen is not None and seen != rows:
            rows = sorted({*rows, *seen})
        return flipped(before, self.judgement, rows)

    def narrow(
        self, filter: RunFilter | None, rows: list[int] | None = None, *, wide: bool = False
    ) -> None:
        """Look only at the runs that pass a filter (None: at all).

        Args:
            filter: what they have to pass.
            rows: those that do, where that is known.
            wide: put it aside at once.
        """
        self.filter, self.wide = filter, wide and filter is not None
        if rows is None or self.wide:
            self.choose()
        else:
            self._look_at(rows)

    def widen(self) -> None:
        """Look at all runs, or again at those that pass the filter."""
        self.wide = not self.wide
        self.choose()

    def choose(self) -> bool:
        """Apply the filter again; whether other runs are in scope now."""
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
        """The filter that narrows the scope now, as it was typed; ``""`` without one."""
        if self.filter is None or self.wide:
            return ""
        return self.filter.text

    @property
    def in_scope(self) -> Sequence[int]:
        """The indices of the rows that are looked at, rising."""
        if self.scope is None:
            return range(len(self.rows))
        return self.scope

    @property
    def scoped(self) -> Sequence[AuditRow]:
        """The rows that are looked at."""
        if self.scope is None:
            return self.rows
        return [self.rows[row] for row in self.scope]

    @property
    def uneven(self) -> Sequence[str]:
        """What was measured in another way on some rows in scope, a line each
        (`fa_core.rows.uneven`)."""
        if self._uneven is None:
            self._uneven = uneven(Counter(conditions_of(row.report) for row in self.scoped))
        return self._uneven

    @property
    def counted(self) -> Sequence[int]:
        """The rows in scope whose verdicts are counted: controls make no claim that could be walked
        back."""
        if self._counted is None:
            self._counted = [row for row in self.in_scope if not self.rows[row].is_control]
        return self._counted

    def _count(self, masks: Sequence[int]) -> int:
        """Of how many counted rows a mask is not empty."""
        return sum(1 for row in self.counted if masks[row])

    def set_baseline(self, baseline: FrozenBaseline | None) -> list[Flip]:
        """Fill in other frozen-baseline accuracies (None: only what was recorded); the runs that
        flip."""
        before, self.baseline = self.judgement, baseline
        self.rows = self._completed(self._as_read)
        self._forget_table()
        self._judge_all()
        return self.flipped(before)

    def replace_rows(self, rows: Mapping[int, AuditRow]) -> None:
        """Put newly measured runs in the places of the old ones."""
        for index, row in rows.items():
            self._put(index, row)
        self._forget_table()
        self._judge_all()

    def merge(self, readings: Iterable[Reading]) -> News:
        """Take in what places hold now. Rows never move: what is gone stays where it was, what is
        new comes last."""
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
            # also where it is alike: the old one would keep all the text of the file as it was
            self._put(index, row)
        news.gone.extend(sorted(missing - self.gone))
        self.gone |= missing
        self._sources()[reading.place] = known
        return news._replace(others=self._merge_others(reading) or news.others)

    def _merge_others(self, reading: Reading) -> bool:
        """Take in traces (not those of a place that is gone, and not before they are wanted) and
        problems."""
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
        """Put a row in its place, or behind the last one."""
        self._as_read[index : index + 1] = [row]
        if self.rows is not self._as_read:
            self.rows[index : index + 1] = self._completed([row])

    def assumes(self, index: int) -> bool:
        """Whether a run's frozen baseline is assumed."""
        return self.rows[index].report.assumed_baseline_acc is not None

    def walk_backs(self) -> int:
        """How many runs need walk-back."""
        return self._count(self.flags)

    def doubtful(self) -> int:
        """How many runs have a diagnostic that is undecided."""
        return self._count(self.undecided)

    def measured(self) -> int:
        """How many runs have at least one diagnostic measured."""
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
        """One diagnostic's number for every run in scope that has it, rising; then a NaN for each
        run that fires at every threshold.

        The sliders of all screens share what is returned.
        """
        if letter not in self._values:
            self._values[letter] = self._judge.values(letter, self.scope)
        return self._values[letter]

    def deciding(self, letter: str) -> Sequence[float]:
        """As `values`, of the runs whose verdict hangs on this diagnostic: no other one fires."""
        others = ALL & ~BIT[letter]
        rows = [row for row in self.in_scope if not self.flags[row] & others]
        return self._judge.values(letter, rows)

    def verdict(self, index: int) -> str:
        """The verdict text of a run under the thresholds."""
        fired, covered = letters_of(self.flags[index]), letters_of(self.coverage[index])
        return verdict_text(fired, covered)

    def standing(self, index: int) -> str:
        """What a run is counted as (`fa_core.judgement.diagnostics.standing`)."""
        control = self.rows[index].is_control
        return _standing(self.flags[index], self.coverage[index], self.undecided[index], control)

    def doubt(self, index: int) -> str:
        """What puts a run's verdict in doubt (`DiagnosticReport.doubt`)."""
        return doubt_text(letters_of(self.undecided[index]))

    def words(self, index: int) -> str:
        """The verdict of a run, on what it stands and what is undecided; of a control that it is
        one."""
        row = self.rows[index]
        return verdict_words(row.report.with_thresholds(self.thresholds), row.is_control)

    def cell(self, index: int, *, ascii_only: bool = False) -> str:
        """The verdict of a run in five characters, as `cell_text` gives it."""
        return cell_text(
            letters_of(self.flags[index]),
            letters_of(self.coverage[index]),
            letters_of(self.undecided[index]),
            control=self.rows[index].is_control,
            ascii_only=ascii_only,
        )

    @property
    def judgement(self) -> Judgement:
        """What the thresholds make of every row."""
        return Judgement(bytes(self.flags), bytes(self.undecided))

    def recorded_differs(self, index: int) -> bool:
        """Whether the file recorded another verdict than the thresholds give."""
        return self.rows[index].report.with_thresholds(self.thresholds).recorded_differs

    def recorded(self, index: int) -> str | None:
        """The verdict that the file recorded."""
        return self.rows[index].report.recorded_verdict

    def alike(self, index: int) -> list[int]:
        """The rows in scope, and this one, that have its method and seed."""
        method, seed = self.rows[index].method, self.rows[index].seed
        alike = {index}
        for place in self.in_scope:
            row = self.rows[place]
            if row.method == method and row.seed == seed:
                alike.add(place)
        return sorted(alike)

    def label(self, index: int) -> str:
        """A short name for one run, e.g. ``dfa s42``."""
        row = self.rows[index]
        if row.seed is None:
            return row.method
        return f"{row.method} s{row.seed}"

    @property
    def differing_axes(self) -> dict[str, list[str]]:
        """Method → the axes that differ among its runs, which their names have."""
        if self._differing is None:
            self._differing = differing_axes((row.method, row) for row in self.rows)
        return self._differing

    def _forget_table(self) -> None:
        self._table = self._counted = self._differing = None
        self._values.clear()

    def _judge_all(self) -> None:
        """Judge rows of which some are others."""
        self._uneven = None
        self._judge = Judge([row.report for row in self.rows], self.thresholds)
        self._values.clear()
        if self.filter is not None:
            self.choose()


@lru_cache(maxsize=4096)
def _standing(flags: int, coverage: int, undecided: int, control: bool) -> str:
    """`fa_core.judgement.diagnostics.standing` of masks: a filter asks it of every run."""
    return standing(letters_of(flags), letters_of(coverage), letters_of(undecided), control=control)


def flipped(before: Judgement, after: Judgement, rows: Sequence[int] | None = None) -> list[Flip]:
    """The rows (of these; default: of all) whose cells differ."""
    if before == after:
        return []
    flips = []
    for row in range(len(after.flags)) if rows is None else rows:
        flags, undecided = before.flags[row], before.undecided[row]
        if flags != after.flags[row] or undecided != after.undecided[row]:
            flips.append(Flip(row, flags, after.flags[row]))
    return flips
