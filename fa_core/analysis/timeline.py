"""First fires of each diagnostic over the epochs, and the savings of stopping there.

Traces of many runs: their timelines, and what papers print of a method over its seeds.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any, TypeAlias

import msgspec
import numpy as np

from fa_core.analysis import Result
from fa_core.facts.run_names import named_place, run_names, run_place
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.judgement.baseline import FrozenBaseline, why_no_baseline
from fa_core.judgement.diagnostics import BIT, LETTERS, letters_of
from fa_core.judgement.gamma import deep_gamma, null_band
from fa_core.numbers import brief
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow
from fa_core.table import AuditTable, Bits, Mask
from fa_core.trace import Trace

STOP_ON = "ab"
"""The diagnostics that end a run early by default: both are collapses that do not heal."""

Baseline: TypeAlias = float | FrozenBaseline | None
"""What judges (d) where a trace records nothing: a measured accuracy (a fraction), one to assume,
or none."""


class EpochPoint(Result, frozen=True, kw_only=True):
    """One epoch as drawn: numbers, None where not recorded.

    Attributes:
        epoch: as the trace counts it.
        acc: test accuracy, a fraction.
        growth: (a)'s number.
        g_L: (b)'s number.
        stability: (c)'s number.
        margin_pp: (d)'s number.
        h_L: deepest residual norm.
        gamma: Γ_l per layer, None where undefined, or the one number that was logged; empty where
            none was.
        deep_gamma: their mean over l ≥ 1, without the layer whose credit comes free
            (`fa_core.judgement.gamma`).
        flags: letters that fire.
        coverage: letters measured.
    """

    epoch: int
    acc: float | None
    growth: float | None
    g_L: float | None
    stability: float | None
    margin_pp: float | None
    h_L: float | None
    flags: str
    coverage: str
    gamma: tuple[float | None, ...] = ()
    deep_gamma: float | None = None


class EarlyStop(Result, frozen=True, kw_only=True):
    """Ending a run at the first epoch at which one of the chosen diagnostics fires.

    Attributes:
        on: the letters that fire at that epoch, among those chosen.
        epoch: where.
        epochs_trained: epochs done by then.
        epochs_total: of the whole run.
        saved: share of the epochs not trained, 1 − trained/total.
        seconds_saved: wall time of those epochs, where the trace records it.
        acc: test accuracy there; None if not recorded.
        final_acc: test accuracy at the last epoch.
        acc_change: acc − final_acc (negative: the rest of the run still gained).
    """

    on: str
    epoch: int
    epochs_trained: int
    epochs_total: int
    saved: float
    seconds_saved: float | None
    acc: float | None
    final_acc: float | None
    acc_change: float | None


class Timeline(Result, frozen=True, kw_only=True):
    """One trace, judged epoch by epoch.

    Attributes:
        key: the run's name.
        method: canonical name.
        seed: None where the trace names none.
        axes: further coordinates.
        source: the file.
        epochs: how many records.
        first_fire: letter → the first epoch it fires at, None if never, for letters measured at
            all.
        lasting: letter → the first epoch of the stretch that fires up to the end, None if it ends
            passing.
        evidence: letter → ``"bound"``, ``"proxy"`` or ``"assumed"`` where not exact.
        stop: the early stop; None if nothing chosen fires.
        final_acc: test accuracy at the last epoch that records one.
        points: the epochs.
        null: mean and standard deviation of deep Γ under random feedback (`null_band`), by the
            audit of the same run; None without one.
        unfinished: the trace was still being written.
        skipped: what could not be judged, and which input is missing; and what the trace's `notes`
            say.
    """

    key: str
    method: str
    seed: int | None
    axes: dict[str, Any]
    source: str
    epochs: int
    first_fire: dict[str, int | None]
    lasting: dict[str, int | None]
    evidence: dict[str, str]
    stop: EarlyStop | None
    final_acc: float | None
    points: tuple[EpochPoint, ...]
    null: tuple[float, float] | None = None
    unfinished: bool = False
    skipped: tuple[str, ...] = ()

    @property
    def gamma_per_layer(self) -> bool:
        """Whether some epoch has Γ layer by layer."""
        return any(len(point.gamma) > 1 for point in self.points)


def timeline(
    trace: Trace,
    thresholds: DiagnosticThresholds | None = None,
    stop_on: str = STOP_ON,
    frozen_baseline: Baseline = None,
    total_epochs: int | None = None,
) -> Timeline:
    """Replay one trace through the verdict's own rule.

    Args:
        trace: a run over its epochs.
        thresholds: default: the protocol's.
        stop_on: letters that end the run.
        frozen_baseline: accuracy with frozen blocks, a fraction, for epochs that record none; as a
            `FrozenBaseline`, one that is only assumed.
        total_epochs: length the run was planned for; default: what the trace holds.

    Note:
        (d) fires on every run that has not yet learned, so its first fire says little; see
        ``lasting``.

    Source: docs/protocol.md §9, temporal.
    """
    replay = Replay([trace], [frozen_baseline])
    table, fired = replay.table, replay.flags(thresholds)
    numbers = [epoch.epoch for epoch in trace.epochs]
    measured = letters_of(int(np.bitwise_or.reduce(table.coverage, initial=0)))
    accs = [epoch.test_acc for epoch in trace.epochs if epoch.test_acc is not None]
    return Timeline(
        **{
            name: getattr(trace, name)
            for name in ("key", "method", "seed", "axes", "source", "unfinished")
        },
        epochs=len(numbers),
        first_fire=replay.first_fires(0, fired) if numbers else {},
        lasting={
            x: _lasting(numbers, (fired & BIT[x]) != 0, (table.coverage & BIT[x]) != 0)
            for x in measured
        },
        evidence={x: kind for x, kind in table.kinds.items() if x in measured},
        stop=replay.stop(0, fired, stop_on, total_epochs) if numbers else None,
        final_acc=accs[-1] if accs else None,
        points=_points(trace, table, fired),
        skipped=_skipped(trace, table, measured, stop_on),
    )


def _lasting(numbers: Sequence[int], fired: Mask, measured: Mask) -> int | None:
    """Start of the unbroken firing that reaches the last epoch it was measured at."""
    passing = np.flatnonzero(measured & ~fired)
    start = int(passing[-1]) if len(passing) else 0
    later: list[int] = np.flatnonzero(fired[start:]).tolist()
    if later:
        return numbers[start + later[0]]
    return None


def _points(trace: Trace, table: AuditTable, fired: Bits) -> tuple[EpochPoint, ...]:
    names = ("acc", "growth", "g_L", "stability", "margin_pp", "h_L")
    columns = [table.numbers(name) for name in names]
    points = []
    for i, epoch in enumerate(trace.epochs):
        numbers = [column[i] for column in columns]
        point = EpochPoint(
            epoch=epoch.epoch,
            gamma=tuple(epoch.gamma),
            deep_gamma=_mean([deep_gamma({"gamma": epoch.gamma}, trace.method)]),
            flags=letters_of(int(fired[i])),
            coverage=letters_of(int(table.coverage[i])),
            **dict(zip(names, numbers, strict=True)),
        )
        points.append(point)
    return tuple(points)


def epochs_done(trace: Trace, index: int) -> int:
    """Epochs trained when a record was written.

    A trace that counts from 1 says so itself. One that counts from 0 and whose first record has a
    loss or a training time numbers finished epochs 0, 1, …; without them record 0 is the untrained
    net.
    """
    first, number = trace.epochs[0], trace.epochs[index].epoch
    counts_from_zero = first.epoch == 0 and (first.loss is not None or bool(first.seconds))
    if counts_from_zero:
        return number + 1
    return number


def _skipped(trace: Trace, table: AuditTable, measured: str, stop_on: str) -> tuple[str, ...]:
    if not trace.epochs:
        return ("no complete epoch in the trace: nothing to replay",)
    has_acc = bool(table.measured("acc").any())
    wants = {
        "a": "residual norms of every layer",
        "b": "BP gradient norms",
        "c": "the cross-batch cosine",
        "d": "a frozen baseline (--frozen-baseline)" if has_acc else "test accuracy",
    }
    why = {x: f"the trace lacks {what}" for x, what in wants.items()} | trace.epochs[-1].unmeasured
    why["d"] = why_no_baseline(trace.method) or why["d"]
    judged = table.baseline[table.assumed]
    said = [
        f"(d) is assumed, not measured: against a frozen baseline of {brief(acc)}"
        for acc in judged[:1]
    ]
    said += [f"({x}) not judged: {why[x]}" for x in LETTERS if x not in measured]
    if not set(stop_on) & set(measured):
        said.append(f"no early stop: none of ({', '.join(stop_on)}) is in the trace")
    if not has_acc:
        said.append("no test accuracy in the trace: accuracy at the stop is unknown")
    return (*said, *trace.notes)


def timelines(
    traces: Sequence[Trace],
    table: AuditTable,
    thresholds: DiagnosticThresholds | None = None,
    stop_on: str = STOP_ON,
    total_epochs: int | None = None,
    assumed: FrozenBaseline | None = None,
) -> list[Timeline]:
    """`timeline` of many runs, each by a name of its own (`run_names`).

    Args:
        traces: the runs.
        table: audits; one of the same file or run folder lends its frozen baseline to a trace that
            records none.
        thresholds: default: the protocol's.
        stop_on: letters that end a run.
        total_epochs: length the runs were planned for.
        assumed: see `frozen_baselines`.
    """
    names = run_names([trace.key for trace in traces], [trace.source for trace in traces])
    baselines = frozen_baselines(traces, table, assumed)
    nulls = null_bands(traces, table)
    found = []
    for trace, name, baseline, null in zip(traces, names, baselines, nulls, strict=True):
        replayed = timeline(trace, thresholds, stop_on, baseline, total_epochs)
        if all(point.deep_gamma is None for point in replayed.points):
            null = None
        found.append(msgspec.structs.replace(replayed, key=name, null=null))
    return found


def null_bands(traces: Sequence[Trace], table: AuditTable) -> list[tuple[float, float] | None]:
    """Of each trace's run `fa_core.judgement.gamma.null_band`, as its audit gives it; None where no
    audit is surely the run's."""
    audits = _audits(table)
    found: list[tuple[float, float] | None] = []
    for trace in traces:
        audit = _audit_of(trace, audits)
        if audit is None:
            found.append(None)
        else:
            report = table.report(audit)
            found.append(null_band(report.credit, trace.method, report.provenance))
    return found


def frozen_baselines(
    traces: Sequence[Trace], table: AuditTable, assumed: FrozenBaseline | None = None
) -> list[Baseline]:
    """What each trace's (d) is judged by, where the trace records nothing.

    What is assumed for the method comes first, then the audit of the trace's own run, then what is
    assumed for all.

    Args:
        traces: the runs.
        table: audits.
        assumed: frozen baselines to assume.
    """
    for_all = assumed or FrozenBaseline()
    audits = _audits(table)
    found: list[Baseline] = []
    for trace in traces:
        row = _audit_of(trace, audits)
        acc = math.nan if row is None else float(table.baseline[row])
        if trace.method in for_all.by_method or not math.isfinite(acc):
            found.append(for_all)
        elif table.assumed[row]:
            found.append(FrozenBaseline(by_method={trace.method: acc}))
        else:
            found.append(acc)
    return found


def _audits(table: AuditTable) -> dict[str, int]:
    """Place of a run → the row of its audit, where one audit is of that place: no other is surely
    the run's.

    An audit in a table counts as one of the run folder of its name beside the table.
    """
    sources, keys = table.source.tolist(), table.key.tolist()
    named = map(named_place, sources, keys)
    return {**_unshared(named), **_unshared(map(run_place, sources))}


def _unshared(places: Iterable[str]) -> dict[str, int]:
    """Place → its row, for the places of one row."""
    listed = list(places)
    runs_in = Counter(listed)
    return {place: row for row, place in enumerate(listed) if runs_in[place] == 1}


def _audit_of(trace: Trace, audits: Mapping[str, int]) -> int | None:
    """The row of a trace's audit, None without one: of its run folder, or of its name."""
    row = audits.get(run_place(trace.source))
    if row is None:
        row = audits.get(named_place(trace.source, trace.key))
    return row


class MethodTimeline(Result, frozen=True, kw_only=True):
    """First fires of one method over its seeds, as papers print them.

    Attributes:
        method: canonical name.
        axes: shared coordinates.
        seeds: in increasing order, None last.
        first_fire: letter → one epoch per seed, None where it never fires (or was not measured
            there).
        evidence: letter → ``"bound"``, ``"proxy"`` or ``"assumed"`` where some run's number is not
            exact.
        saved: mean share saved over the runs that would stop; None if none would.
        stopped: runs that would stop.
        acc_at_stop: mean accuracy there over runs that record it.
        final_acc: mean final accuracy over all runs that record one, stopped or not.
    """

    method: str
    axes: dict[str, Any]
    seeds: tuple[int | None, ...]
    first_fire: dict[str, tuple[int | None, ...]]
    saved: float | None
    stopped: int
    acc_at_stop: float | None
    final_acc: float | None
    evidence: dict[str, str] = {}


def by_method(timelines: Sequence[Timeline]) -> tuple[MethodTimeline, ...]:
    """Timelines of the same method and axes, put together over seeds.

    Source: docs/protocol.md §11: "(b) at 4/4/3, seeds 42/123/456".
    """
    members: dict[tuple[str, str], list[Timeline]] = defaultdict(list)
    for one in timelines:
        members[(one.method, repr(sorted(one.axes.items(), key=str)))].append(one)
    return tuple(_method(sorted(group, key=_seed_order)) for group in members.values())


def _seed_order(one: Timeline) -> tuple[bool, int]:
    return one.seed is None, one.seed or 0


def _method(group: list[Timeline]) -> MethodTimeline:
    stops = [one.stop for one in group if one.stop is not None]
    with_acc = [stop for stop in stops if stop.acc is not None and stop.final_acc is not None]
    first_fire = {}
    for letter in LETTERS:
        if any(letter in one.first_fire for one in group):
            first_fire[letter] = tuple(one.first_fire.get(letter) for one in group)
    return MethodTimeline(
        method=group[0].method,
        axes=group[0].axes,
        seeds=tuple(one.seed for one in group),
        first_fire=first_fire,
        saved=_mean([stop.saved for stop in stops]),
        stopped=len(stops),
        acc_at_stop=_mean([stop.acc for stop in with_acc]),
        final_acc=_mean([one.final_acc for one in group]),
        evidence={x: kind for one in group for x, kind in one.evidence.items()},
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    if known:
        return math.fsum(known) / len(known)
    return None


class Replay:
    """The epochs of many runs.

    Attributes:
        traces: the runs; those without a single complete epoch are left out.
        table: one row per (run, epoch), run after run.
        epochs: all epoch numbers that some run records, sorted.

    Args:
        traces: runs over epochs.
        baselines: per trace what judges epochs that record no frozen baseline.
    """

    def __init__(
        self, traces: Sequence[Trace], baselines: Sequence[Baseline] | None = None
    ) -> None:
        pairs = zip(traces, baselines or [None] * len(traces), strict=True)
        kept = [(trace, baseline) for trace, baseline in pairs if trace.epochs]
        self.traces = [trace for trace, _ in kept]
        rows = []
        for trace, baseline in kept:
            for epoch in trace.epochs:
                report = epoch.report(trace.method, trace.seed)
                rows.append(_row(trace, _lent(baseline, report, trace.method)))
        self.table = AuditTable.from_rows(rows)
        self._starts = [0, *accumulate(len(trace.epochs) for trace in self.traces)]
        self._numbers = [[epoch.epoch for epoch in trace.epochs] for trace in self.traces]
        self.epochs: list[int] = sorted(set(chain.from_iterable(self._numbers)))

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
        """The row of a run as it was at an epoch: its last record up to there; None before its
        first."""
        place = bisect_right(self._numbers[run], epoch)
        if place:
            return self._starts[run] + place - 1
        return None

    def row_at(self, run: int, epoch: int) -> AuditRow:
        """A run as it was at an epoch; before its first record nothing is measured."""
        record = self.record_at(run, epoch)
        if record is not None:
            return self.table.row(record)
        return _row(self.traces[run], DiagnosticReport())

    def first_fires(self, run: int, flags: Bits) -> dict[str, int | None]:
        """Letter → the first epoch at which it fires, None if never, for letters measured at all.

        Args:
            run: which.
            flags: of `flags`.
        """
        records = self.records(run)
        measured = int(np.bitwise_or.reduce(self.table.coverage[records], initial=0))
        first: dict[str, int | None] = {}
        for letter in letters_of(measured):
            fired = np.flatnonzero(flags[records] & BIT[letter]).tolist()
            first[letter] = self._numbers[run][fired[0]] if fired else None
        return first

    def stop(
        self, run: int, flags: Bits, stop_on: str = STOP_ON, total_epochs: int | None = None
    ) -> EarlyStop | None:
        """What ending the run at the first epoch at which one of the chosen diagnostics fires
        saves; None if none does.

        Args:
            run: which.
            flags: of `flags`.
            stop_on: letters that end the run.
            total_epochs: length the run was planned for; default: what its trace holds.
        """
        trace = self.traces[run]
        chosen = flags[self.records(run)] & sum(BIT[x] for x in set(stop_on))
        if not chosen.any():
            return None
        at = int(np.flatnonzero(chosen)[0])
        epochs, trained = trace.epochs, epochs_done(trace, at)
        total = max(total_epochs or 0, self.trained(run))
        accs = [epoch.test_acc for epoch in epochs if epoch.test_acc is not None]
        acc = epochs[at].test_acc
        final = accs[-1] if accs else None
        later = [epoch.seconds for epoch in epochs[at + 1 :]]
        known = [seconds for seconds in later if seconds is not None]
        seconds_saved = acc_change = None
        if later and len(known) == len(later):
            seconds_saved = sum(known)
        if acc is not None and final is not None:
            acc_change = acc - final
        return EarlyStop(
            on=letters_of(int(chosen[at])),
            epoch=epochs[at].epoch,
            epochs_trained=trained,
            epochs_total=total,
            saved=1.0 - trained / total if total else 0.0,
            seconds_saved=seconds_saved,
            acc=acc,
            final_acc=final,
            acc_change=acc_change,
        )

    def flips(self, flags: Bits) -> list[int]:
        """The epochs at which some run's letters differ from those of its record before, sorted."""
        changed = np.flatnonzero(flags[1:] != flags[:-1]) + 1
        starts = set(self._starts)
        numbers = list(chain.from_iterable(self._numbers))
        return sorted({numbers[record] for record in changed.tolist() if record not in starts})


def _row(trace: Trace, report: DiagnosticReport) -> AuditRow:
    named = {name: getattr(trace, name) for name in ("source", "key", "method", "seed", "axes")}
    return AuditRow(**named, report=report)


def _lent(baseline: Baseline, report: DiagnosticReport, method: str) -> DiagnosticReport:
    """The report, judged by this baseline if it records none."""
    if baseline is None or report.frozen_baseline_acc is not None:
        return report
    if isinstance(baseline, FrozenBaseline):
        return baseline.assumed_in(report, method)
    return report.with_frozen_baseline(baseline)
