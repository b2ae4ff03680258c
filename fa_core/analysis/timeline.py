"""First fires of each diagnostic over the epochs, and savings of early stops."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain
from statistics import fmean
from typing import TypeAlias

import numpy as np
from msgspec.structs import replace

from fa_core.analysis import Result
from fa_core.analysis.method_groups import collections, conditions
from fa_core.analysis.seeds import AVERAGED
from fa_core.files.decode import Json
from fa_core.formats.rows import AuditRow
from fa_core.formats.table import AuditTable, Bits, having
from fa_core.formats.trace import Trace
from fa_core.report.baseline import FrozenBaseline, why_no_baseline
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.diagnostics import LETTERS, letters_of, mask_of
from fa_core.report.gamma import deep_over_epochs, null_gamma, per_layer
from fa_core.report.names import named_place, run_names, run_place
from fa_core.report.numbers import brief
from fa_core.report.provenance import TRAINED_ON
from fa_core.report.report_facts import PROTOCOL, TRAINING, DiagnosticThresholds

Fires: TypeAlias = dict[str, int | None]
"""Letter → the epoch at which a diagnostic fires; None if it does not."""

STOP_ON = "ab"
"""Default diagnostics of early stops: both are collapses that do not heal."""


class EpochPoint(Result, frozen=True, kw_only=True):
    """One epoch in a figure: numbers, None if not recorded.

    Attributes:
        epoch: as the trace counts it.
        acc: test accuracy, a fraction.
        growth: (a)'s number.
        g_L: (b)'s number.
        stability: (c)'s number.
        margin_pp: (d)'s number.
        h_L: deepest residual norm.
        loss: training loss.
        gamma: Γ_l per layer (None if undefined), the only number logged, or empty.
        deep_gamma: deep Γ, over the same layers at every epoch (`deep_over_epochs`).
        flags: letters that fire.
        undecided: letters that neither fire nor pass.
        coverage: letters measured.
    """

    epoch: int
    acc: float | None
    growth: float | None
    g_L: float | None
    stability: float | None
    margin_pp: float | None
    h_L: float | None
    loss: float | None
    flags: str
    undecided: str
    coverage: str
    gamma: tuple[float | None, ...]
    deep_gamma: float | None


class EarlyStop(Result, frozen=True, kw_only=True):
    """Ending a run at the first epoch at which one of the chosen diagnostics fires.

    Attributes:
        on: the letters that fire at that epoch, among those chosen.
        epoch: where.
        epochs_trained: epochs done by then.
        epochs_total: of the whole run.
        saved: share of the epochs not trained, 1 − trained/total.
        acc: test accuracy there; None if not recorded.
        final_acc: test accuracy at the last epoch.
    """

    on: str
    epoch: int
    epochs_trained: int
    epochs_total: int
    saved: float
    acc: float | None
    final_acc: float | None


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
        lasting: letter → the first epoch since which it fires to the end, None if it does not.
        healed: letters that fire, and pass at the last epoch they were measured at.
        undecided: letters that are undecided at that epoch.
        evidence: letter → ``"bound"``, ``"proxy"`` or ``"assumed"`` where not exact.
        stop: the early stop; None if nothing chosen fires.
        final_acc: test accuracy at the last epoch that records one.
        points: the epochs.
        null: mean and standard deviation of deep Γ under random feedback, from the run's audit;
            None where none was drawn.
        null_gamma: Γ_l under random feedback, from the run's audit; empty without one.
        unfinished: whether the trace was still being written.
        skipped: what could not be judged, the missing inputs, and the trace's `notes`.
        unit: what numbers the records, see `Trace`.
    """

    key: str
    method: str
    seed: int | None
    axes: Json
    source: str
    epochs: int
    first_fire: Fires
    lasting: Fires
    healed: str
    undecided: str
    evidence: dict[str, str]
    stop: EarlyStop | None
    final_acc: float | None
    points: tuple[EpochPoint, ...]
    null: tuple[float, float] | None = None
    null_gamma: tuple[float | None, ...] = ()
    unfinished: bool
    skipped: tuple[str, ...]
    unit: str

    @property
    def gamma_per_layer(self) -> bool:
        """Whether some epoch has Γ per layer."""
        return any(len(point.gamma) > 1 for point in self.points)


class Replay:
    """The epochs of many runs in one table, judged as thresholds move; each has a unique name
    (`run_names`).

    (d) is judged at the last epoch, as its baseline is the accuracy of a finished frozen run; at
    every epoch that records a baseline of its own.

    Args:
        traces: runs over epochs.
        table: audits. The one of a trace's run folder or name lends its frozen baseline to a
            last epoch that records none and has its accuracy, and its Γ under random feedback.
        assumed: frozen baselines to assume: of a method before that of its audit, for all after it.

    Source: docs/protocol.md §9, temporal.
    """

    def __init__(
        self,
        traces: Sequence[Trace],
        table: AuditTable,
        assumed: FrozenBaseline = FrozenBaseline(),  # noqa: B008 (immutable)
    ) -> None:
        names = run_names(traces)
        self._runs = []
        rows: list[AuditRow] = []
        self._deep: list[float] = []
        parted = [(one.axes, rows) for one, rows in conditions(table)]
        shared = {(table.source[n], table.key[n]): axes for axes, rows in parted for n in rows}
        for trace, name, run in zip(traces, names, _audits_of(traces, table), strict=True):
            axes = dict(trace.axes)
            notes = trace.notes
            audit = None
            if run is not None:
                audit = run.report
                axes |= shared[run.source, run.key]
                notes = (*notes, *filter(None, [audit.unmeasured.get(TRAINING)]))
            deep = deep_over_epochs([epoch.gamma for epoch in trace.epochs], trace.method)
            nulls = _nulls(trace.method, audit)
            records = slice(len(rows), len(rows) + len(trace.epochs))
            one = replace(trace, key=name, axes=axes, notes=notes)
            self._runs.append((one, records, nulls))
            self._deep += deep
            for epoch in trace.epochs:
                report = epoch.report(trace.method, trace.seed)
                if epoch is trace.epochs[-1]:
                    report = _with_baseline(report, trace.method, audit, assumed)
                row = AuditRow(source=trace.source, key="", method=trace.method, report=report)
                rows.append(row)
        self._table = AuditTable.from_rows(rows)
        self._numbers = {number.column: self._table.numbers(number) for number in AVERAGED}

    def timelines(
        self,
        thresholds: DiagnosticThresholds = PROTOCOL,
        stop_on: str = STOP_ON,
    ) -> list[Timeline]:
        """Every run, judged epoch by epoch.

        Args:
            thresholds: default: the protocol's.
            stop_on: letters that end a run.
        """
        fired = self._table.flags(thresholds)
        undecided = self._table.undecided(thresholds)
        found = []
        for trace, records, nulls in self._runs:
            bits = fired[records], undecided[records], self._table.coverage[records]
            stop = _stop(trace, bits[0], stop_on)
            found.append(self._judged(trace, records, bits, {**nulls, "stop": stop}))
        return found

    def _judged(
        self, trace: Trace, records: slice, bits: tuple[Bits, Bits, Bits], more: Json
    ) -> Timeline:
        """One run; ``more``: its other fields."""
        table = self._table.select(np.arange(records.start, records.stop))
        fired, undecided, coverage = bits
        measured = letters_of(int(np.bitwise_or.reduce(coverage, initial=0)))
        numbers = [epoch.epoch for epoch in trace.epochs]
        first_fire: Fires = {}
        lasting: Fires = {}
        ends_undecided = healed = ""
        for letter in measured:
            known = having(coverage, letter)
            is_fired = having(fired, letter)
            fires = np.flatnonzero(is_fired)
            passes = np.flatnonzero(known & ~is_fired)
            last = fires[fires >= passes.max(initial=0)]
            first_fire[letter] = lasting[letter] = None
            if len(fires):
                first_fire[letter] = numbers[fires[0]]
            if len(last):
                lasting[letter] = numbers[last[0]]
            if having(undecided, letter)[known][-1]:
                ends_undecided += letter
            elif len(fires) > len(last) == 0:
                healed += letter
        return Timeline(
            key=trace.key,
            method=trace.method,
            seed=trace.seed,
            axes=trace.axes,
            source=trace.source,
            epochs=len(numbers),
            first_fire=first_fire,
            lasting=lasting,
            healed=healed,
            undecided=ends_undecided,
            evidence={letter: kind for letter, kind in table.kinds.items() if letter in measured},
            final_acc=_final_acc(trace),
            points=tuple(self._points(trace, records, bits)),
            unfinished=trace.unfinished,
            skipped=_skipped(trace, table, measured),
            unit=trace.unit,
            **more,
        )

    def _points(
        self, trace: Trace, records: slice, bits: tuple[Bits, Bits, Bits]
    ) -> Iterator[EpochPoint]:
        columns = {name: column[records] for name, column in self._numbers.items()}
        for i, (epoch, deep) in enumerate(zip(trace.epochs, self._deep[records], strict=True)):
            flags, undecided, coverage = (letters_of(int(masks[i])) for masks in bits)
            yield EpochPoint(
                epoch=epoch.epoch,
                gamma=tuple(epoch.gamma),
                deep_gamma=_mean([deep]),
                loss=epoch.loss,
                flags=flags,
                undecided=undecided,
                coverage=coverage,
                **{name: column[i] for name, column in columns.items()},
            )


def _audits_of(traces: Sequence[Trace], table: AuditTable) -> Iterator[AuditRow | None]:
    """Per trace the row of its run folder, or of its name in a table next to it, if exactly one
    audit is there."""
    sources = table.source.tolist()
    rows: dict[str, int] = {}
    for places in (list(map(named_place, sources, table.key)), list(map(run_place, sources))):
        counts = Counter(places)
        rows |= {place: row for row, place in enumerate(places) if counts[place] == 1}
    for trace in traces:
        row = rows.get(run_place(trace.source), rows.get(named_place(trace.source, trace.key)))
        if row is None:
            yield None
        else:
            yield table.row(row)


def _nulls(method: str, audit: DiagnosticReport | None) -> Json:
    """`Timeline.null` and `Timeline.null_gamma`."""
    if audit is None or not audit.credit:
        return {}
    drawn = null_gamma(audit.credit, method)
    null = drawn if math.isfinite(sum(drawn)) else None
    return {"null": null, "null_gamma": tuple(per_layer(audit.credit.get("null")))}


def _with_baseline(
    report: DiagnosticReport,
    method: str,
    audit: DiagnosticReport | None,
    assumed: FrozenBaseline,
) -> DiagnosticReport:
    """The last epoch's report with its baseline, unless it records one; with the audit's interval
    of (d), if the audit is of this accuracy. An audit of another one, or on other data than those
    of the training, has none."""
    acc = None
    if audit is not None and _is_of_this(report, audit):
        acc = audit.baseline_acc
    if report.frozen_baseline_acc is not None:
        return report
    if audit is None or acc is None or not math.isfinite(acc) or method in assumed.by_method:
        return assumed.assumed_in(report, method)
    if "d" in audit.kinds:
        return report.with_assumed_baseline(acc)
    judged = report.with_frozen_baseline(acc)
    ends = audit.intervals.get("margin_pp")
    if ends is None or audit.headline_acc != report.headline_acc:
        return judged
    return replace(judged, intervals={**judged.intervals, "margin_pp": ends})


def _is_of_this(report: DiagnosticReport, audit: DiagnosticReport) -> bool:
    """Whether an audit is of the network and data of an epoch, as far as it says."""
    facts = audit.provenance
    own, other = report.headline_acc, audit.headline_acc
    if facts.get(TRAINED_ON) not in (None, facts.get("data_hash")):
        return False
    return own is None or other is None or abs(own - other) <= SAME_ACC


SAME_ACC = 5e-3
"""Largest difference of the accuracies of a run's last epoch and of its audit, for rounding and
other processors."""


def _final_acc(trace: Trace) -> float | None:
    """The last test accuracy that a trace records."""
    known = (epoch.test_acc for epoch in reversed(trace.epochs) if epoch.test_acc is not None)
    return next(known, None)


def _epochs_done(trace: Trace, index: int) -> int:
    """Epochs trained when a record was written.

    Record 0 is the untrained net, unless it has a loss or a training time: then finished epochs are
    counted from 0.
    """
    first = trace.epochs[0]
    number = trace.epochs[index].epoch
    if first.epoch == 0 and (first.loss is not None or first.seconds):
        return number + 1
    return number


def _skipped(trace: Trace, table: AuditTable, measured: str) -> tuple[str, ...]:
    if not trace.epochs:
        return ("no complete epoch in the trace: nothing to replay",)
    has_acc = _final_acc(trace) is not None
    wants = {
        "a": "residual norms of every layer",
        "b": "BP gradient norms",
        "c": "the cross-batch cosine",
        "d": "a frozen baseline (--frozen-baseline)" if has_acc else "test accuracy",
    }
    notes = []
    for acc in table.baseline[table.assumed][:1]:
        notes.append(f"(d) is assumed, not measured: against a frozen baseline of {brief(acc)}")
    unmeasured = trace.epochs[-1].unmeasured
    later = ""
    if any(note.startswith(TRAINING) for note in trace.notes):
        later = "done when its training is complete"
    for letter in LETTERS:
        if letter in measured:
            continue
        why = unmeasured.get(letter, f"the trace lacks {wants[letter]}")
        if letter == "d":
            why = why_no_baseline(trace.method) or later or why
        notes.append(f"({letter}) not judged: {why}")
    last = table.report(len(table) - 1)
    bare = [f"({letter})" for letter in measured if last.interval(letter) is None]
    if bare:
        notes.append(f"{', '.join(bare)} judged by the number alone: no interval in the trace")
    return (*trace.notes, *notes)


def _stop(trace: Trace, fired: Bits, stop_on: str) -> EarlyStop | None:
    """Savings of ending a run at the first epoch at which a chosen diagnostic fires, or None."""
    chosen = fired & mask_of(set(stop_on))
    if not chosen.any():
        return None
    at = int(np.flatnonzero(chosen)[0])
    trained = _epochs_done(trace, at)
    total = _epochs_done(trace, -1)
    saved = 1.0 - trained / total if total else 0.0
    return EarlyStop(
        on=letters_of(int(chosen[at])),
        epoch=trace.epochs[at].epoch,
        epochs_trained=trained,
        epochs_total=total,
        saved=saved,
        acc=trace.epochs[at].test_acc,
        final_acc=_final_acc(trace),
    )


class MethodTimeline(Result, frozen=True, kw_only=True):
    """First fires of one method over its seeds, as in papers.

    Attributes:
        method: canonical name.
        axes: shared coordinates.
        collection: the runs' file or folder, if several hold the same runs; else ``""``.
        seeds: in increasing order, None last.
        first_fire: letter → one epoch per seed, None if it never fires or was not measured.
        healed: letter → number of seeds on which it heals.
        undecided: letters that end undecided, per seed.
        evidence: letter → ``"bound"``, ``"proxy"`` or ``"assumed"``, if a number is inexact.
        saved: mean share saved over the runs that would stop; None if none would.
        stopped: runs that would stop.
        acc_at_stop: mean accuracy there over runs that record it.
        final_acc: mean final accuracy over the same runs; over all, if none would stop.
    """

    method: str
    axes: Json
    seeds: tuple[int | None, ...]
    first_fire: dict[str, tuple[int | None, ...]]
    healed: dict[str, int]
    undecided: tuple[str, ...]
    saved: float | None
    stopped: int
    acc_at_stop: float | None
    final_acc: float | None
    evidence: dict[str, str]
    collection: str


def by_method(timelines: Sequence[Timeline]) -> tuple[MethodTimeline, ...]:
    """A record per condition (`by_condition`).

    Source: docs/protocol.md §11: "(b) at 4/4/3, seeds 42/123/456".
    """
    return tuple(_method(*one) for one in by_condition(timelines))


def by_condition(timelines: Sequence[Timeline]) -> list[tuple[str, list[Timeline]]]:
    """The runs of each method at each value of its axes, by seed, with their file or folder.

    Files and folders are told apart, and named, only if the same run is in two of them.
    """
    names = [(one.method, repr(sorted(one.axes.items(), key=str))) for one in timelines]
    seeds = [one.seed for one in timelines]
    sources = [one.source for one in timelines]
    places = collections(names, seeds, sources)
    members: dict[tuple[str, tuple[str, str]], list[Timeline]] = defaultdict(list)
    for place, name, one in zip(places, names, timelines, strict=True):
        members[place, name].append(one)
    for group in members.values():
        group.sort(key=lambda one: (one.seed is None, one.seed or 0))
    return [(place, group) for (place, _), group in members.items()]


def _method(collection: str, group: list[Timeline]) -> MethodTimeline:
    stops = [one.stop for one in group if one.stop is not None]
    with_acc = [stop for stop in stops if None not in (stop.acc, stop.final_acc)]
    first_fire = {}
    for letter in LETTERS:
        if any(letter in one.first_fire for one in group):
            first_fire[letter] = tuple(one.first_fire.get(letter) for one in group)
    evidence = dict(chain.from_iterable(one.evidence.items() for one in group))
    return MethodTimeline(
        method=group[0].method,
        axes=group[0].axes,
        collection=collection,
        seeds=tuple(one.seed for one in group),
        first_fire=first_fire,
        healed=dict(Counter(chain.from_iterable(one.healed for one in group))),
        undecided=tuple(one.undecided for one in group),
        saved=_mean([stop.saved for stop in stops]),
        stopped=len(stops),
        acc_at_stop=_mean([stop.acc for stop in with_acc]),
        final_acc=_mean([one.final_acc for one in with_acc or group]),
        evidence=evidence,
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return fmean(known) if known else None
