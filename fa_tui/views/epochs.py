"""The timeline's runs at one epoch, and its texts. No terminal code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from fa_core.analysis.timeline import EarlyStop, Replay, frozen_baselines
from fa_core.errors import UsageError
from fa_core.formats import Trace
from fa_core.formats.rows import AuditRow
from fa_core.formats.table import Bits
from fa_core.formats.trace import common_unit
from fa_core.option_values import listed
from fa_core.report.diagnostics import BOUND
from fa_core.report.names import named_place, run_place
from fa_core.report.numbers import count_text, short
from fa_core.report.quantities import BY_NAME
from fa_core.report.thresholds import DiagnosticThresholds
from fa_tui.session import Flip, Session, flipped
from fa_tui.views.grid import homes_of
from fa_tui.views.words import Pieces, run_name, runs_words


class EpochSession(Session):
    """A session whose rows are one epoch of a replay; scrubbing changes the epoch.

    Attributes:
        replay: all epochs of all runs; row i of the session is its run i.
        epoch: the shown one.

    Args:
        replay: with at least one run.
        thresholds: of the verdicts.
    """

    def __init__(self, replay: Replay, thresholds: DiagnosticThresholds) -> None:
        self.replay = replay
        self.epoch = replay.epochs[-1]
        self._fired_by: DiagnosticThresholds | None = None
        super().__init__(self._rows_now(), thresholds=thresholds, traces=replay.traces)

    def go_to(self, epoch: int) -> list[Flip]:
        """Show another epoch. Returns the runs whose letters change."""
        before = self.judgement
        self.epoch = epoch
        self._move()
        return flipped(before, self.judgement)

    def follow(self, replay: Replay) -> dict[int, int]:
        """Take another replay. The last epoch stays the last one.

        Returns:
            Old index of a run → its new one; without runs that are gone.
        """
        at_end = self.epoch == self.replay.epochs[-1]
        places = {_name(trace): run for run, trace in enumerate(replay.traces)}
        moved = {}
        for run, trace in enumerate(self.replay.traces):
            name = _name(trace)
            if name in places:
                moved[run] = places[name]
        self.replay = replay
        self._fired_by = None
        self.traces = replay.traces
        self.marked = {moved[run] for run in self.marked if run in moved}
        last = replay.epochs[-1]
        if at_end or self.epoch > last:
            self.epoch = last
        self._move()
        return moved

    def name(self, run: int) -> str:
        """A run's name among those with a trace."""
        return run_name(self, run)

    @property
    def unit(self) -> str:
        """What numbers the records: ``"epoch"`` or ``"step"``."""
        return common_unit(trace.unit for trace in self.replay.traces)

    def when(self, run: int) -> str:
        """The run's own epoch that is shown: ``at epoch 7``, ``at its last epoch, 16``."""
        numbers = self.replay.numbers(run)
        record = self.replay.record_at(run, self.epoch)
        if record is None:
            return f"before its first {self.unit}, {numbers[0]}"
        own = numbers[record - self.replay.records(run).start]
        if own == self.epoch:
            return f"at {self.unit} {own}"
        if own == numbers[-1]:
            return f"at its last {self.unit}, {own}"
        return f"at its {self.unit} {own}"

    @property
    def fired(self) -> Bits:
        """The diagnostics that fire, per record of the replay."""
        if self._fired_by != self.thresholds:
            self._fired: Bits = self.replay.flags(self.thresholds)
            self._fired_by = self.thresholds
        return self._fired

    def first_fires(self, run: int) -> dict[str, int | None]:
        """Measured letter → the first epoch at which it fires on a run, or None."""
        return self.replay.first_fires(run, self.fired)

    def kinds(self, run: int) -> dict[str, str]:
        """Letter → ``"bound"``, ``"proxy"`` or ``"assumed"``, for a run's inexact numbers."""
        records = self.replay.records(run)
        rows = np.arange(records.start, records.stop)
        return self.replay.table.select(rows).kinds

    def stops(self, stop_on: str) -> list[EarlyStop | None]:
        """Per run, the early stop at the first epoch at which one of the letters fires."""
        runs = range(len(self.rows))
        return [self.replay.stop(run, self.fired, stop_on) for run in runs]

    def saved_by(self, stops: Sequence[EarlyStop | None]) -> float:
        """The share of all epochs that early stops save, over all runs."""
        total = 0
        trained = 0
        for run, stop in enumerate(stops):
            epochs = self.replay.trained(run)
            total += epochs
            if stop is not None:
                epochs = stop.epochs_trained
            trained += epochs
        if total:
            return 1.0 - trained / total
        return 0.0

    def _move(self) -> None:
        self.rows = self._rows_now()
        self._forget_table()
        self._judge_all()

    def _rows_now(self) -> list[AuditRow]:
        rows = []
        for run in range(len(self.replay.traces)):
            row = self.replay.row_at(run, self.epoch)
            rows.append(replace(row, source=run_place(row.source)))
        return rows


def replay_of(session: Session) -> Replay:
    """The traces of the runs in scope, with their recorded or assumed frozen baselines."""
    # sorted by name: a trace that grows must not move to another line
    chosen = session.traces
    if session.scope is not None:
        chosen = traces_of(session.scoped, chosen)
    if session.log:
        chosen = session.log.apply_to_traces(chosen)
    traces = sorted(chosen, key=_name)
    baselines = frozen_baselines(traces, session.table, session.baseline)
    return Replay(traces, baselines)


def run_of(replay: Replay, session: Session, row: int) -> int | None:
    """The replay's run that a row of the session is the audit of; None without a trace."""
    own = traces_of([session.rows[row]], replay.traces)
    if own:
        return replay.traces.index(own[0])
    return None


def traces_of(rows: Sequence[AuditRow], traces: Sequence[Trace]) -> list[Trace]:
    """The traces of some runs: in a run's folder or its checkpoint's, or under its key in a file of
    several runs or next to it.

    Args:
        rows: the runs.
        traces: of these runs and others.
    """
    places = set()
    named = set()
    for row in rows:
        named.add(named_place(row.source, row.key))
        places.add(run_place(row.source))
        if row.checkpoint:
            places.add(run_place(row.checkpoint))

    def is_own(trace: Trace) -> bool:
        if named_place(trace.source, trace.key) in named:
            return True
        folder = Path(trace.source).parent
        return str(folder) in places or str(folder.absolute()) in places

    return [trace for trace in traces if is_own(trace)]


def without_traces(session: Session) -> UsageError:
    """The error for a scope without traces; its hint names runs with some."""
    places = [run_place(trace.source) for trace in session.traces]
    homes = list(dict.fromkeys(homes_of(places)))
    if not homes:
        hint = "open run folders or logs that hold epochs, such as trace.jsonl"
        return UsageError("no traces here", hint=hint)
    hint = f"f takes all runs; {listed(homes, 3)} have some"
    return UsageError(f"no traces in {session.scope_text}", hint=hint)


def _name(trace: Trace) -> tuple[str, str]:
    """A run's identity, which stays as its trace grows."""
    return trace.source, trace.key


def title_words(
    epochs: EpochSession,
    runs: int,
    drawn: int | None,
    quantity: str,
    skipped: int,
    scope: str = "",
    missing: str = "",
) -> Pieces:
    """The timeline's title: what is replayed and drawn.

    Args:
        epochs: the runs with a trace.
        runs: number of open runs.
        drawn: number of curves, if known.
        quantity: shown in the matrix instead of letters, or ``""``.
        skipped: number of unreadable lines in these traces.
        scope: the filter.
        missing: the requested run, if it has no trace.
    """
    numbers = epochs.replay.epochs
    count = len(epochs.rows)
    span = f"{epochs.unit} {numbers[0]}"
    if len(numbers) > 1:
        span = f"{epochs.unit}s {numbers[0]}…{numbers[-1]}"
    growing = sum(trace.unfinished for trace in epochs.replay.traces)
    pieces = [
        (" timeline ", "accent"),
        (f" {runs_words(count)}, {span} ", "strong"),
    ]
    if missing:
        pieces.append((f" no trace of {missing}, another run is shown ", "warn"))
    if scope:
        pieces.append((f" {scope} ", "dim"))
    if runs > count:
        pieces.append((f" {runs - count} without a trace", "dim"))
    if growing:
        pieces.append((f"  {growing} still growing", "accent"))
    if skipped:
        pieces.append((f"  {count_text(skipped, 'line')} of traces skipped", "warn"))
    if epochs.replay.table.assumed.any():
        pieces.append(("  (d) by an assumed baseline", "warn"))
    if drawn is not None and drawn < count:
        pieces.append((f"  {drawn} drawn", "dim"))
    if quantity:
        pieces.append((f"  showing {quantity} (v)", "accent"))
    return pieces


def verdict_words(epochs: EpochSession, run: int, ascii_only: bool) -> Pieces:
    """A run, its epoch and its verdict there."""
    cell = epochs.cell(run, ascii_only=ascii_only)
    tone = "dim"
    if epochs.flags[run]:
        tone = "bad"
    elif epochs.coverage[run]:
        tone = "good"
    return [
        (f"{epochs.name(run)} ", "strong"),
        (f"{epochs.when(run)}: ", "dim"),
        (cell, tone),
    ]


def number_words(epochs: EpochSession, run: int) -> Pieces:
    """The run's measured numbers at the epoch."""
    report = epochs.rows[run].report
    texts = []
    for name in ("growth", "g_L", "drift"):
        quantity = BY_NAME[name]
        value = quantity.of(report)
        if value is not None:
            kind = _kind(report.kinds, quantity.letter)
            texts.append(f"{quantity.label} {short(value, 3)}{kind}")
    if report.headline_acc is not None:
        texts.append(f"acc {short(report.headline_acc, 4)}")
    return [("  ".join(texts), "")]


def fire_words(fires: Mapping[str, int | None], kinds: Mapping[str, str]) -> Pieces:
    """The first epoch at which each diagnostic fires, with the kind of inexact numbers.

    >>> fire_words({"a": 3, "b": None}, {"b": "proxy"})
    [('first fires: ', 'dim'), ('(a) 3  (b) never [proxy]', '')]
    """
    texts = []
    for letter, epoch in fires.items():
        when = "never"
        if epoch is not None:
            when = str(epoch)
        elif kinds.get(letter) == BOUND:
            # a lower bound below the threshold decides nothing
            when = "undecided"
        texts.append(f"({letter}) {when}{_kind(kinds, letter)}")
    text = "  ".join(texts) or "nothing was judged"
    return [("first fires: ", "dim"), (text, "")]


def stop_words(
    name: str, stop: EarlyStop | None, stop_on: str, epochs: EpochSession, kinds: Mapping[str, str]
) -> Pieces:
    """A run's early stop and its savings.

    Args:
        name: the run.
        stop: the early stop, or None.
        stop_on: the letters that stop a run.
        epochs: the runs at the shown epoch.
        kinds: letter → kind of its inexact numbers.
    """
    if stop is None:
        return [(f"{name}: never stopped on {' or '.join(stop_on)}", "dim")]
    here = f"at {epochs.unit} {stop.epoch}"
    if stop.epoch == epochs.epoch:
        here = "here"
    saves = f": its last {epochs.unit} so far"
    if stop.saved:
        saves = f": saves {stop.saved:.0%}"
    on = [letter + _kind(kinds, letter) for letter in stop.on]
    return [
        (f"{name} would have stopped {here} ", "warn"),
        (f"({', '.join(on)})", "bad"),
        (saves, "strong"),
    ]


def accuracy_words(stop: EarlyStop | None) -> str:
    """Accuracy at the stop and at the end, if both are recorded."""
    if stop is None or stop.acc is None or stop.final_acc is None:
        return ""
    there = short(stop.acc, 4)
    at_end = short(stop.final_acc, 4)
    return f"accuracy {there} there, {at_end} at the end"


def all_words(stops: Sequence[EarlyStop | None], saved: float, stop_on: str) -> Pieces:
    """Number of runs that would have stopped early, and the share of the training that saves."""
    stopped = len(stops) - stops.count(None)
    tone = "dim"
    if stopped:
        tone = "strong"
    return [
        (f"stop on {' or '.join(stop_on)}: ", "dim"),
        (f"{stopped} of {runs_words(len(stops))}", ""),
        (f", saves {saved:.0%} of the training", tone),
    ]


def _kind(kinds: Mapping[str, str], letter: str) -> str:
    """`` [proxy]``, as in the detail pane; ``""`` for an exact number."""
    if letter in kinds:
        return f" [{kinds[letter]}]"
    return ""
