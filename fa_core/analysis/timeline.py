"""First fires of each diagnostic over the epochs, and savings of early stops."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from statistics import fmean
from typing import TypeAlias

import numpy as np
from msgspec.structs import replace

from fa_core.analysis import Result
from fa_core.analysis.method_groups import conditions
from fa_core.analysis.seeds import AVERAGED
from fa_core.files.decode import Json
from fa_core.files.opening import real_path
from fa_core.formats.rows import AuditRow
from fa_core.formats.table import AuditTable, Bits, having
from fa_core.formats.trace import EPOCH, STEP, Trace
from fa_core.report.baseline import FrozenBaseline, why_no_baseline
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.diagnostics import LETTERS, letters_of, mask_of
from fa_core.report.gamma import deep_over_epochs, null_gamma, per_layer
from fa_core.report.names import name_of, named_place, run_names, run_place
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
        axes: further coordinates, and what else tells its method's runs apart
            (`fa_core.analysis.method_groups.Condition`).
        collection: as there.
        source: the file.
        epochs: how many records.
        first_fire: letter → the first epoch it fires at, None if never, for letters measured at
            all.
        lasting: letter → the first epoch since which it fires to the end, None if it does not.
        healed: letters that fire, and pass at the last epoch they were measured at.
        undecided: letters that are undecided at that epoch.
        evidence: letter → ``"bound"``, ``"proxy"`` or ``"assumed"`` where not exact.
        stop: the early stop; None if nothing chosen fires.
        is_judged: whether it would stop, or would not: all that was chosen was measured.
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
    collection: str
    source: str
    epochs: int
    first_fire: Fires
    lasting: Fires
    healed: str
    undecided: str
    evidence: dict[str, str]
    stop: EarlyStop | None
    is_judged: bool
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


def common_unit(timelines: Iterable[Timeline]) -> str:
    """The unit of several traces: ``"step"`` if all have it, else ``"epoch"``."""
    return STEP if {one.unit for one in timelines} == {STEP} else EPOCH


class Replay:
    """The epochs of many runs in one table, judged as thresholds move; each has a unique name
    (`run_names`).

    (d) is judged at the last epoch, as its baseline is the accuracy of a finished frozen run; at
    every epoch that records a baseline of its own.

    Args:
        traces: runs over epochs.
        table: audits. The one of a trace's run (`_audits_of`) lends its frozen baseline to a last
            epoch that records none, its Γ under random feedback, and, where the trace has no
            manifest, what tells runs apart; unless it is `_unlike` the trace, which is noted.
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
        ends = []
        self._deep: list[float] = []
        for trace, name, audit in zip(traces, names, _audits_of(traces, table), strict=True):
            reports = [epoch.report(trace.method, trace.seed) for epoch in trace.epochs]
            *_, last = DiagnosticReport(), *reports
            notes = trace.notes
            if why := _unlike(last, audit):
                notes += (f"its audit lends nothing: {why}",)
                audit = DiagnosticReport()
            for report in reports[-1:]:
                reports[-1] = _with_baseline(report, trace.method, audit, assumed)
            self._deep += deep_over_epochs([epoch.gamma for epoch in trace.epochs], trace.method)
            one = replace(trace, key=name, notes=notes)
            records = slice(len(rows), len(rows) + len(reports))
            self._runs.append((one, records, _nulls(trace.method, audit)))
            row = AuditRow(source=trace.source, key="", method=trace.method, seed=trace.seed)
            rows += [replace(row, report=report) for report in reports]
            last = replace(last, provenance=trace.provenance or audit.provenance)
            ends.append(replace(row, axes=trace.axes, report=last))
        for (_, axes, place), members in conditions(AuditTable.from_rows(ends), but="source"):
            own = {"axes": {**traces[members[0]].axes, **axes}, "collection": place}
            for n in members:
                self._runs[n][-1].update(own)
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
        for trace, records, more in self._runs:
            bits = fired[records], undecided[records], self._table.coverage[records]
            found.append(self._judged(trace, records, bits, stop_on, more))
        return found

    def _judged(
        self,
        trace: Trace,
        records: slice,
        bits: tuple[Bits, Bits, Bits],
        stop_on: str,
        more: Json,
    ) -> Timeline:
        """One run; ``more``: its other fields."""
        table = self._table.select(np.arange(records.start, records.stop))
        fired, undecided, coverage = bits
        measured = letters_of(int(np.bitwise_or.reduce(coverage, initial=0)))
        numbers = [epoch.epoch for epoch in trace.epochs]
        stop = _stop(trace, fired, stop_on)
        first_fire: Fires = {}
        lasting: Fires = {}
        ends_undecided = healed = ""
        for letter in measured:
            fires = np.flatnonzero(having(fired, letter))
            passes = np.flatnonzero(having(coverage & ~fired, letter))
            last = fires[fires >= passes.max(initial=0)]
            first_fire[letter] = next((numbers[at] for at in fires), None)
            lasting[letter] = next((numbers[at] for at in last), None)
            if having(undecided, letter)[having(coverage, letter)][-1]:
                ends_undecided += letter
            elif len(fires) > len(last) == 0:
                healed += letter
        return Timeline(
            key=trace.key,
            method=trace.method,
            seed=trace.seed,
            source=trace.source,
            epochs=len(numbers),
            first_fire=first_fire,
            lasting=lasting,
            healed=healed,
            undecided=ends_undecided,
            evidence={letter: kind for letter, kind in table.kinds.items() if letter in measured},
            stop=stop,
            is_judged=bool(stop) or set(measured).issuperset(stop_on),
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
        epochs = zip(trace.epochs, *bits, strict=True)
        for at, (epoch, *masks) in enumerate(epochs, records.start):
            flags, undecided, coverage = (letters_of(int(mask)) for mask in masks)
            yield EpochPoint(
                epoch=epoch.epoch,
                gamma=tuple(epoch.gamma),
                deep_gamma=_mean([self._deep[at]]),
                loss=epoch.loss,
                flags=flags,
                undecided=undecided,
                coverage=coverage,
                **{name: column[at] for name, column in self._numbers.items()},
            )


def _audits_of(traces: Sequence[Trace], table: AuditTable) -> Iterator[DiagnosticReport]:
    """Per trace the audit in its run folder; else the last record elsewhere of which the checkpoint
    is that folder, or the one that a log of several runs names; else an empty report."""
    rows = [row for row in table.rows() if row.report.coverage]
    found = {
        run_place(named_place(row.source, row.checkpoint)): row.report
        for row in rows
        if row.checkpoint not in (None, row.source)
    }
    found |= {run_place(row.source): row.report for row in rows}
    for trace in traces:
        folder = run_place(trace.source)
        # a file's name is no proof
        named = named_place(trace.source, trace.key) * (name_of(trace.source).key != trace.key)
        places = folder, str(real_path(folder)), named
        yield next((found[place] for place in places if place in found), DiagnosticReport())


def _nulls(method: str, audit: DiagnosticReport) -> Json:
    """`Timeline.null` and `Timeline.null_gamma`."""
    drawn = null_gamma(audit.credit, method)
    return {
        "null": drawn if math.isfinite(sum(drawn)) else None,
        "null_gamma": tuple(per_layer((audit.credit or {}).get("null"))),
    }


def _with_baseline(
    report: DiagnosticReport,
    method: str,
    audit: DiagnosticReport,
    assumed: FrozenBaseline,
) -> DiagnosticReport:
    """The last epoch's report with its baseline, unless it records one; with the audit's interval
    of (d), if the audit is of this accuracy."""
    acc = audit.baseline_acc
    if report.frozen_baseline_acc is not None:
        return report
    if acc is None or not math.isfinite(acc) or method in assumed.by_method:
        return assumed.assumed_in(report, method)
    if "d" in audit.kinds:
        return report.with_assumed_baseline(acc)
    judged = report.with_frozen_baseline(acc)
    ends = audit.intervals.get("margin_pp")
    if ends and audit.headline_acc == report.headline_acc:
        judged = replace(judged, intervals={**judged.intervals, "margin_pp": ends})
    return judged


def _unlike(report: DiagnosticReport, audit: DiagnosticReport) -> str:
    """Why an audit is not of the network and data of an epoch; ``""`` as far as nothing says so."""
    facts = audit.provenance
    own, other = report.headline_acc, audit.headline_acc
    if facts.get(TRAINED_ON) not in (None, facts.get("data_hash")):
        return "it is on other data than the training"
    if own is not None and other is not None and abs(own - other) > SAME_ACC:
        return f"its accuracy is {brief(other)}, not {brief(own)}"
    return audit.changed


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
    return trace.epochs[index].epoch + bool(
        first.epoch == 0 and (first.loss is not None or first.seconds)
    )


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
    later = ""
    if any(note.startswith(TRAINING) for note in trace.notes):
        later = "done when its training is complete"
    for letter in LETTERS:
        if letter in measured:
            continue
        why = trace.epochs[-1].unmeasured.get(letter, f"the trace lacks {wants[letter]}")
        if letter == "d":
            why = why_no_baseline(trace.method) or later or why
        notes.append(f"({letter}) not judged: {why}")
    last = table.report(len(table) - 1)
    bare = ", ".join(f"({letter})" for letter in measured if last.interval(letter) is None)
    if bare:
        notes.append(f"{bare} judged by the number alone: no interval in the trace")
    return (*trace.notes, *notes)


def _stop(trace: Trace, fired: Bits, stop_on: str) -> EarlyStop | None:
    """Savings of ending a run at the first epoch at which a chosen diagnostic fires, or None."""
    chosen = fired & mask_of(set(stop_on))
    if not chosen.any():
        return None
    at = int(np.argmax(chosen > 0))
    trained, total = _epochs_done(trace, at), _epochs_done(trace, -1)
    return EarlyStop(
        on=letters_of(int(chosen[at])),
        epoch=trace.epochs[at].epoch,
        epochs_trained=trained,
        epochs_total=total,
        saved=1.0 - trained / total if total else 0.0,
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
        measured: letters measured at all, per seed.
        first_fire: letter → one epoch per seed, None if it never fires or was not measured.
        healed: letter → number of seeds on which it heals.
        undecided: letters that end undecided, per seed.
        evidence: letter → ``"bound"``, ``"proxy"`` or ``"assumed"``, if a number is inexact.
        saved: mean share saved over the runs that would stop; None if none would.
        stopped: runs that would stop.
        judged: of how many; of the others it is not known (`Timeline.is_judged`).
        acc_at_stop: mean accuracy there over runs that record it.
        final_acc: mean final accuracy over the same runs; over all, if none would stop.
    """

    method: str
    axes: Json
    seeds: tuple[int | None, ...]
    measured: tuple[str, ...]
    first_fire: dict[str, tuple[int | None, ...]]
    healed: dict[str, int]
    undecided: tuple[str, ...]
    saved: float | None
    stopped: int
    judged: int
    acc_at_stop: float | None
    final_acc: float | None
    evidence: dict[str, str]
    collection: str


def by_method(timelines: Sequence[Timeline]) -> tuple[MethodTimeline, ...]:
    """A record per condition (`by_condition`).

    Source: docs/protocol.md §11: "(b) at 4/4/3, seeds 42/123/456".
    """
    return tuple(map(_method, by_condition(timelines)))


def by_condition(timelines: Sequence[Timeline]) -> list[list[Timeline]]:
    """The runs of each method that share `Timeline.axes` and `Timeline.collection`, by seed."""
    members: dict[tuple[str, str, str], list[Timeline]] = defaultdict(list)
    for one in timelines:
        members[one.collection, one.method, str(one.axes)].append(one)
    for group in members.values():
        group.sort(key=lambda one: (one.seed is None, one.seed or 0))
    return list(members.values())


def _method(group: list[Timeline]) -> MethodTimeline:
    stops = [one.stop for one in group if one.stop]
    with_acc = [stop for stop in stops if stop.acc is not None]
    measured = tuple("".join(one.first_fire) for one in group)
    evidence = dict(chain.from_iterable(one.evidence.items() for one in group))
    return MethodTimeline(
        method=group[0].method,
        axes=group[0].axes,
        collection=group[0].collection,
        seeds=tuple(one.seed for one in group),
        measured=measured,
        first_fire={
            letter: tuple(one.first_fire.get(letter) for one in group)
            for letter in LETTERS
            if letter in "".join(measured)
        },
        healed=dict(Counter(chain.from_iterable(one.healed for one in group))),
        undecided=tuple(one.undecided for one in group),
        saved=_mean([stop.saved for stop in stops]),
        stopped=len(stops),
        judged=sum(one.is_judged for one in group),
        acc_at_stop=_mean([stop.acc for stop in stops]),
        final_acc=_mean([one.final_acc for one in with_acc or group]),
        evidence=evidence,
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None and math.isfinite(value)]
    return fmean(known) if known else None
