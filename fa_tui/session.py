"""State of the explorer: a snapshot of what is open and how it is judged, and the history of them.

No terminal code, no torch, and NumPy only for a table of columns.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache, cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from fa_core.files.opening import is_file
from fa_core.formats.frozen_runs import with_measured_baselines
from fa_core.formats.rows import (
    AuditRow,
    Problem,
    conditions_of,
    uneven,
)
from fa_core.formats.scan import bare_place, twins_of
from fa_core.report.baseline import FrozenBaseline
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.diagnostics import BIT, NOT_MEASURED, cell_text, judgement_of, letters_of
from fa_core.report.judge import ALL, Judge
from fa_core.report.names import run_place
from fa_core.report.report_facts import DiagnosticThresholds

if TYPE_CHECKING:
    from fa_core.formats import Trace
    from fa_core.formats.run_folder import RunProgress
    from fa_core.formats.table import AuditTable
    from fa_core.formats.trace import TraceEpoch
    from fa_tui.follow import Reading
    from fa_tui.options import Log
    from fa_tui.views.filters import Filter


class Flip(NamedTuple):
    """A changed cell: index of the row, and the masks of its firing and undecided letters before
    and after.
    """

    row: int
    before: tuple[int, int]
    after: tuple[int, int]


class News(NamedTuple):
    """Changes after reading places again: indices of rows."""

    added: list[int]
    changed: list[int]
    gone: list[int]
    back: list[int]


class UnreadTraces(Sequence["Trace"]):
    """Traces that are read on first use.

    Args:
        read: reads them.
    """

    def __init__(self, read: Callable[[], Sequence[Trace]]) -> None:
        self._read = cache(read)

    @property
    def is_read(self) -> bool:
        """Whether they were read."""
        return self._read.cache_info().currsize > 0

    def __len__(self) -> int:
        return len(self._read())

    def __getitem__(self, place: Any) -> Any:
        return self._read()[place]


class Runs:
    """All runs, completed by what is assumed of them, and what follows from them alone.

    Args:
        rows: the runs.
        twins: records that are not shown → the one that is (`twins_of`).
        unlike: lines on those that are not alike.

    Attributes:
        shown: indices of all others.
    """

    def __init__(
        self,
        rows: Sequence[AuditRow],
        twins: Mapping[int, int] = {},
        unlike: Sequence[Problem] = (),
    ) -> None:
        self.rows, self.twins, self.unlike = rows, twins, unlike
        self.shown = sorted({*range(len(rows))} - twins.keys())

    @cached_property
    def judge(self) -> Judge:
        """Judges them by any thresholds."""
        return Judge([row.report for row in self.rows])

    @cached_property
    def table(self) -> AuditTable:
        """The runs as columns."""
        from fa_core.formats.table import AuditTable  # imports NumPy: after the first paint

        return AuditTable.from_rows(self.rows)

    @cached_property
    def void(self) -> frozenset[int]:
        """Those that tables over seeds leave out: of files that changed since, or gone."""
        return frozenset(n for n, row in enumerate(self.rows) if row.no_claim == NOT_MEASURED)

    @cached_property
    def places(self) -> dict[str, dict[str, int]]:
        """Source → key → index."""
        found: dict[str, dict[str, int]] = {}
        for index, row in enumerate(self.rows):
            found.setdefault(row.source, {})[row.key] = index
        return found


class Scope:
    """The runs that pass the filter, and what follows from them at any thresholds.

    Args:
        runs: all runs.
        indices: of those in scope, rising.

    Attributes:
        values: letter → a diagnostic's numbers of the compared runs, rising, then a NaN for each
            run that fires at every threshold.
        points: letter → the thresholds at which it changes on a compared run, rising: the ends of
            intervals, and the numbers without one.
    """

    def __init__(self, runs: Runs, indices: Sequence[int]) -> None:
        self._runs = runs
        self.indices = indices
        self.values = cache(lambda letter: runs.judge.values(letter, self.compared))
        self.points = cache(lambda letter: runs.judge.points(letter, self.compared))

    @cached_property
    def runs(self) -> Sequence[AuditRow]:
        """The runs themselves."""
        return [self._runs.rows[row] for row in self.indices]

    @cached_property
    def counted(self) -> Sequence[int]:
        """The runs that make a claim (`AuditRow.no_claim`)."""
        return [row for row in self.indices if not self._runs.rows[row].no_claim]

    @cached_property
    def controls(self) -> int:
        """Number of controls."""
        return sum(row.is_control for row in self.runs)

    @cached_property
    def uneven(self) -> Sequence[str]:
        """Notes on settings that differ between them (`fa_core.formats.rows.uneven`)."""
        return uneven(Counter(conditions_of(row.report) for row in self.runs))

    @property
    def compared(self) -> Sequence[int]:
        """The runs that thresholds are set by: the counted ones, or where none is, all."""
        return self.counted or self.indices


class Session(msgspec.Struct, frozen=True, dict=True, eq=False):
    """An immutable snapshot: what is open, and how it is judged. Everything shown is derived from
    it, on first use.

    Attributes:
        read: all records of runs, in reading order.
        frozen: the frozen runs that judge those without a baseline (`at_hand`).
        thresholds: judge the runs.
        baseline: assumed frozen-baseline accuracies.
        log: what logs do not say.
        problems: paths that could not be opened, with reasons.
        traces: of the runs.
        marked: indices of marked rows.
        filter: limits the scope.
        filters: those that a key brings back: the first one, and the last.
        gone: indices of rows whose file or folder was removed; still shown.
        work: row → what another process does with it, or did before it failed or died.
        states: row → ``queued``, ``running``, or, measured again, ``agrees``, ``deviates``
            or ``unchecked``.
        since: the snapshot before the last step, from which flips are counted; None: there are
            none.
    """

    read: Sequence[AuditRow] = ()
    frozen: Sequence[AuditRow] = []
    thresholds: DiagnosticThresholds = DiagnosticThresholds()
    baseline: FrozenBaseline = FrozenBaseline()
    log: Log | None = None
    problems: Sequence[Problem] = ()
    traces: Sequence[Trace] = ()
    marked: frozenset[int] = frozenset()
    filter: Filter | None = None
    filters: Sequence[Filter] = ()
    gone: frozenset[int] = frozenset()
    work: Mapping[int, RunProgress] = {}
    states: Mapping[int, str] = {}
    since: Session | None = None

    def but(self, **changes: object) -> Session:
        """A later snapshot, which shares what does not depend on the changes."""
        changes = {
            name: value for name, value in changes.items() if value is not getattr(self, name)
        }
        later = replace(self, **changes)
        shared = vars(later)
        if changes.keys().isdisjoint(("read", "gone", "frozen", "baseline", "log")):
            shared["runs"] = self.runs
            if "thresholds" not in changes:
                shared["_judged"] = self._judged
            depends = "filter" in changes or (self.filter is not None and self.filter.live)
            if not depends or later.in_scope == self.in_scope:
                shared["seen"] = self.seen
        return later

    @cached_property
    def runs(self) -> Runs:
        """All runs with the given baselines and facts. Of two records of one measurement that are
        not alike none is judged, nor is one that is gone."""
        rows = [*with_measured_baselines(self.read, self.frozen)]
        unlike: Sequence[Problem] = ()
        if twins := twins_of(rows, self.gone):
            from fa_core.analysis.difference import mark_unlike  # where there are some

            unlike = mark_unlike(rows, twins)
        for row in self.gone:
            rows[row] = rows[row].marked("its record is gone")
        if self.log:
            rows = self.log.apply(rows)
        if self.baseline:
            rows = [row.judged_by(self.baseline) for row in rows]
        return Runs(rows, twins, unlike)

    @cached_property
    def seen(self) -> Scope:
        """The runs in scope."""
        rows = self.runs.shown
        if self.filter is not None:
            rows = sorted({*rows}.intersection(self.filter.rows(self)))
        return Scope(self.runs, rows)

    @cached_property
    def _judged(self) -> tuple[bytearray, bytearray]:
        return self.runs.judge.at(self.thresholds)

    def __len__(self) -> int:
        return len(self.read)

    @property
    def wrong(self) -> Sequence[Problem]:
        """The problems, and the runs of which two records are not alike."""
        return [*self.problems, *self.runs.unlike]

    @property
    def rows(self) -> Sequence[AuditRow]:
        """All runs, completed."""
        return self.runs.rows

    @property
    def flags(self) -> Sequence[int]:
        """Per row, the mask of diagnostics that fire."""
        return self._judged[0]

    @property
    def coverage(self) -> Sequence[int]:
        """Per row, the mask of diagnostics that were measured."""
        return self.runs.judge.coverage

    @property
    def undecided(self) -> Sequence[int]:
        """Per row, the mask of diagnostics that neither fire nor pass for sure."""
        return self._judged[1]

    @property
    def scope_text(self) -> str:
        """The typed text of the filter; ``""`` without one."""
        return "" if self.filter is None else self.filter.text

    @property
    def in_scope(self) -> Sequence[int]:
        """Indices of the rows in scope, rising."""
        return self.seen.indices

    @property
    def scoped(self) -> Sequence[AuditRow]:
        """The rows in scope."""
        return self.seen.runs

    @cached_property
    def flips(self) -> Sequence[Flip]:
        """The rows whose cells the last step changed, among those in scope then or now."""
        if self.since is None or self.since._judged == self._judged:
            return ()
        rows = sorted({*self.in_scope, *self.since.in_scope})
        differ = _differing(self.since, self)
        return [Flip(row, self.since.masks(row), self.masks(row)) for row in rows if differ[row]]

    def masks(self, row: int) -> tuple[int, int]:
        """The masks of a run's firing and undecided letters."""
        return self.flags[row], self.undecided[row]

    def is_step_from(self, before: Session) -> bool:
        """Whether only thresholds moved since an earlier snapshot; the scope stayed."""
        return self.thresholds is not before.thresholds and self.seen is before.seen

    @cached_property
    def flipped_rows(self) -> frozenset[int]:
        """Indices of the runs that flipped with the last step."""
        return frozenset(flip.row for flip in self.flips)

    def counts(self) -> Counts:
        """Runs in scope without controls, by what is known of them."""
        flags, undecided, coverage = self.flags, self.undecided, self.coverage
        walked = measured = doubtful = 0
        for row in self.seen.counted:
            walked += bool(flags[row])
            measured += bool(coverage[row])
            doubtful += bool(undecided[row] and not flags[row])
        trained = [row for row in self.work if self.is_trained(row) and row in self.in_scope]
        controls = sum(self.rows[row].is_control for row in trained)
        return Counts(walked, measured, doubtful, len(trained), controls)

    def deciding(self, letter: str) -> Sequence[float]:
        """The `points` at which a judgement changes: no other diagnostic fires on the run, and
        where another one is undecided, this one fires beyond them."""
        others = ALL & ~BIT[letter]
        sure, possible = self.runs.judge.ends[letter]
        found = set[float]()
        for row in self.seen.compared:
            if not self.flags[row] & others:
                found.add(sure[row])
                if not self.undecided[row] & others:
                    found.add(possible[row])
        return sorted(filter(math.isfinite, found))

    def measurable(self, indices: Iterable[int]) -> list[int]:
        """Those of the rows that have a checkpoint to measure, of a run that is not in training."""
        return [
            index
            for index in indices
            if self.rows[index].checkpoint is not None
            and index not in self.gone
            and not self.is_trained(index)
        ]

    def is_trained(self, index: int) -> bool:
        """Whether another process trains a run now."""
        work = self.work.get(index)
        return work is not None and work.doing == "training" and not work.ended

    def is_begun(self, index: int) -> bool:
        """Whether a run is in training and has no audit yet."""
        return self.is_trained(index) and not self.coverage[index]

    def epochs_of(self, index: int) -> Sequence[TraceEpoch]:
        """The epochs in the trace of a run folder; empty without a trace."""
        for trace in self.traces:
            if run_place(trace.source) == self.rows[index].source:
                return trace.epochs
        return []

    def judgement(self, index: int) -> str:
        """A run's judgement, by masks: a filter asks it of every run."""
        return judgement_of(
            self.flags[index],
            self.coverage[index],
            self.undecided[index],
            self.rows[index].no_claim,
        )

    def judged(self, index: int) -> DiagnosticReport:
        """A run's report as the thresholds judge it."""
        return self.rows[index].report.with_thresholds(self.thresholds)

    def cell(self, index: int) -> str:
        """A run's judgement in five characters (`cell_text`)."""
        return cell_text(
            letters_of(self.flags[index]),
            letters_of(self.coverage[index]),
            letters_of(self.undecided[index]),
            self.rows[index].no_claim,
        )

    def alike(self, index: int) -> list[int]:
        """The rows in scope with this row's method and seed, and the row itself."""
        named, rows = attrgetter("method", "seed"), self.rows
        alike = (place for place in self.in_scope if named(rows[place]) == named(rows[index]))
        return sorted({index, *alike})

    def label(self, index: int) -> str:
        """A run's short name, e.g. ``dfa s42``."""
        row = self.rows[index]
        if row.seed is None:
            return row.method
        return f"{row.method} s{row.seed}"


def _differing(then: Session, now: Session) -> bytes:
    """Per row, whether letters or undecided ones differ between snapshots of the same runs."""
    either = 0
    for before, after in zip(then._judged, now._judged, strict=True):
        either |= int.from_bytes(before, "little") ^ int.from_bytes(after, "little")
    return either.to_bytes(len(now), "little")


def changed_cells(then: Session, now: Session) -> set[int]:
    """The rows whose letters or marks differ between two snapshots of the same runs."""
    rows = {*(then.marked ^ now.marked), *(then.gone ^ now.gone)}
    for before, after in ((then.work, now.work), (then.states, now.states)):
        if before is not after:
            rows |= {row for row in {*before, *after} if before.get(row) != after.get(row)}
    if then.runs is not now.runs:
        rows |= {row for row in range(len(now)) if then.judgement(row) != now.judgement(row)}
    if then._judged != now._judged:
        rows |= {row for row, differs in enumerate(_differing(then, now)) if differs}
    if then.since is not now.since:
        rows |= then.flipped_rows | now.flipped_rows
    return rows


class Counts(NamedTuple):
    """Numbers of runs in scope; controls are not counted, except in training.

    Attributes:
        walked: need walk-back.
        measured: have at least one measured diagnostic.
        doubtful: nothing fires on them, and some diagnostic is open.
        training: another process trains them now.
        trained_controls: the controls among those.
    """

    walked: int
    measured: int
    doubtful: int
    training: int
    trained_controls: int


def with_rows(session: Session, rows: Mapping[int, AuditRow]) -> Session:
    """The session with some rows replaced by newly measured ones."""
    read = list(session.read)
    for index, row in rows.items():
        read[index] = row
    return session.but(read=read, since=None)


def with_work(session: Session, changed: Mapping[str, RunProgress | None]) -> Session:
    """The session with what processes do with run folders now."""
    work = dict(session.work)
    for place, now in changed.items():
        for row in session.runs.places.get(place, {}).values():
            if now is None:
                work.pop(row, None)
            else:
                work[row] = now
    return session.but(work=work)


def merged(session: Session, readings: Iterable[Reading]) -> tuple[Session, News]:
    """The session with changed places. Indices are stable: removed rows stay, new ones are
    appended. A bare checkpoint and its audit are one row."""
    news = News([], [], [], [])
    read, gone = list(session.read), set(session.gone)
    places = {place: dict(keys) for place, keys in session.runs.places.items()}
    there = {
        bare_place(row) or row.checkpoint: index
        for index, row in enumerate(read)
        if index not in gone
    }
    for reading in readings:
        known = places.setdefault(reading.place, {})
        missing = set(known.values())
        for row in reading.rows:
            bare = bare_place(row)
            one = there.get(bare or row.checkpoint)
            if one is not None and bare != bare_place(read[one]):
                if bare:  # its audit is shown
                    missing.clear()
                    continue
                known[row.key] = one
            index = known.setdefault(row.key, len(read))
            there[bare or row.checkpoint] = index
            if index == len(read):
                news.added.append(index)
            elif row != read[index]:
                news.changed.append(index)
            if index in gone:
                news.back.append(index)
            missing.discard(index)
            gone.discard(index)
            read[index : index + 1] = [row]
        news.gone.extend(sorted(missing - gone))
        gone |= missing
        session = _with_others(session, reading)
    if news.added or news.changed:
        session = session.but(read=read, since=None)
    if gone != session.gone:
        session = session.but(gone=frozenset(gone))
    return session, news


def _with_others(session: Session, reading: Reading) -> Session:
    """Merge problems, and traces (unless they are not read yet)."""
    kept = [problem for problem in session.problems if not reading.settles(problem)]
    problems = [*kept, *reading.problems]
    traces = session.traces
    if not isinstance(traces, UnreadTraces) or traces.is_read:
        # that of a run whose manifest is gone may be one by itself
        own = [
            trace
            for trace in traces
            if not reading.owns(trace.source) or (reading.gone and is_file(trace.source))
        ]
        traces = [*own, *reading.traces]
    return session.but(problems=problems, traces=traces)


_REPEAT_SECONDS = 0.15
"""Seconds within which a held key repeats; a key that is pressed again takes longer."""


class History:
    """The snapshots: the current one, those before its steps, and those that were undone.

    Args:
        now: the first one.

    >>> history = History(Session())
    >>> for limit, at in ((1e-6, 0.0), (1e-5, 0.1)):
    ...     thresholds = DiagnosticThresholds(g_norm_floor=limit)
    ...     history.record(history.now.but(thresholds=thresholds), "b", at=at)
    >>> [history.travel(where).thresholds.g_norm_floor for where in ("undo", "redo")]
    [1e-07, 1e-05]
    """

    def __init__(self, now: Session) -> None:
        self.now = now
        self.past: list[Session] = []
        self.future: list[Session] = []
        self._last: tuple[str | None, float] = None, 0.0

    def record(self, now: Session, series: str | None, at: float, *, is_drag: bool = False) -> None:
        """Take a step of thresholds or baseline.

        Args:
            now: the new snapshot.
            series: e.g. a slider's name; what a held key changes of it is one step. None: a
                separate change (a preset, a typed value).
            at: the time in seconds.
            is_drag: whether the series is one drag of the mouse, which is one step with its pauses.
        """
        before, then = self._last
        goes_on = series is not None and series == before
        if not goes_on or (at - then >= _REPEAT_SECONDS and not is_drag):
            self.past.append(self.now)
        origin = self.past[-1] if is_drag else self.now
        self.now = now.but(since=origin.but(since=None))
        self.future.clear()
        self._last = (series, at)

    def travel(self, where: str) -> Session:
        """Undo or redo a step, if there is one: judge as another snapshot does; what was read or
        marked since stays.

        Args:
            where: ``"undo"`` or ``"redo"``.
        """
        source, target = self.past, self.future
        if where == "redo":
            source, target = target, source
        if source:
            target.append(self.now)
            there = source.pop()
            self.now = self.now.but(
                thresholds=there.thresholds, baseline=there.baseline, since=None
            )
            self._last = (None, 0.0)
        return self.now
