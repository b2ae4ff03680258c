"""The runs at an epoch of the timeline, and its texts. No terminal code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from fa_core.analysis.partial_audits import BOUND
from fa_core.analysis.timeline import EarlyStop, Replay, frozen_baselines
from fa_core.errors import UsageError
from fa_core.facts.runs import named_place, run_place
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.formats import Trace
from fa_core.numbers import count_text, short
from fa_core.option_values import listed
from fa_core.rows import AuditRow
from fa_core.table import Bits
from fa_tui.session import Flip, Session, flipped
from fa_tui.views.columns import BY_NAME
from fa_tui.views.grid import homes_of
from fa_tui.views.words import Pieces, among, runs_words


class EpochSession(Session):
    """A session whose rows are one epoch of a replay; scrubbing moves it to another.

    Attributes:
        replay: all epochs of all runs; row i of the session is its run i.
        epoch: the one that is shown.

    Args:
        replay: with at least one run.
        thresholds: what judges.
    """

    def __init__(self, replay: Replay, thresholds: DiagnosticThresholds) -> None:
        self.replay = replay
        self.epoch = replay.epochs[-1]
        self._fired: Bits = replay.flags(thresholds)
        self._fired_by = thresholds
        super().__init__(self._rows_now(), thresholds=thresholds, traces=replay.traces)

    def go_to(self, epoch: int) -> list[Flip]:
        """Show another epoch; the runs whose fired letters differ from those shown before."""
        before, self.epoch = self.judgement, epoch
        self._move()
        return flipped(before, self.judgement)

    def follow(self, replay: Replay) -> dict[int, int]:
        """Take longer traces, or other ones. From the last epoch it goes to the last one again.

        Returns:
            Run before → the same run now; those that are gone are missing.
        """
        at_end = self.epoch == self.replay.epochs[-1]
        places = {_name(trace): run for run, trace in enumerate(replay.traces)}
        moved = {}
        for run, trace in enumerate(self.replay.traces):
            if _name(trace) in places:
                moved[run] = places[_name(trace)]
        self.replay = replay
        self._fired = replay.flags(self.thresholds)
        self.traces = replay.traces
        self.marked = {moved[run] for run in self.marked if run in moved}
        if at_end:
            self.epoch = replay.epochs[-1]
        else:
            self.epoch = min(self.epoch, replay.epochs[-1])
        self._move()
        return moved

    def name(self, run: int) -> str:
        """What a run is called among those that have a trace."""
        return among(self.rows, self.rows[run])

    def when(self, run: int) -> str:
        """At which of its own epochs a run is shown: ``at epoch 7``, ``at its last epoch, 16``."""
        numbers, record = self.replay.numbers(run), self.replay.record_at(run, self.epoch)
        if record is None:
            return f"before its first epoch, {numbers[0]}"
        own = numbers[record - self.replay.records(run).start]
        if own == self.epoch:
            return f"at epoch {own}"
        if own == numbers[-1]:
            return f"at its last epoch, {own}"
        return f"at its epoch {own}"

    @property
    def fired(self) -> Bits:
        """The diagnostics that fire, per record of the replay."""
        if self._fired_by != self.thresholds:
            self._fired, self._fired_by = self.replay.flags(self.thresholds), self.thresholds
        return self._fired

    def first_fires(self, run: int) -> dict[str, int | None]:
        """Letter → the first epoch at which it fires on a run, None if never; only letters that
        were measured."""
        return self.replay.first_fires(run, self.fired)

    def kinds(self, run: int) -> dict[str, str]:
        """Letter → ``"bound"``, ``"proxy"`` or ``"assumed"`` where a run's numbers are not
        exact."""
        records = self.replay.records(run)
        return self.replay.table.select(np.arange(records.start, records.stop)).kinds

    def stops(self, stop_on: str) -> list[EarlyStop | None]:
        """Per run, what stopping at the first epoch at which one of the letters fires would have
        saved."""
        return [self.replay.stop(run, self.fired, stop_on) for run in range(len(self.rows))]

    def saved_by(self, stops: Sequence[EarlyStop | None]) -> float:
        """The share of all epochs that early stops save, runs that go on to their end included."""
        total, trained = 0, 0
        for run, stop in enumerate(stops):
            epochs = self.replay.trained(run)
            total += epochs
            trained += epochs if stop is None else stop.epochs_trained
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
    """The traces of the runs in scope, with the frozen baselines that are known or assumed."""
    # in the order of a folder: a trace that grew must not move its run to another line
    chosen = session.traces
    if session.scope is not None:
        chosen = traces_of(session.scoped, chosen)
    if session.log:
        chosen = session.log.apply_to_traces(chosen)
    traces = sorted(chosen, key=_name)
    return Replay(traces, frozen_baselines(traces, session.table, session.baseline))


def run_of(replay: Replay, session: Session, row: int) -> int | None:
    """The run of the replay that a row of the session is the audit of; None where it has no
    trace."""
    own = traces_of([session.rows[row]], replay.traces)
    if own:
        return replay.traces.index(own[0])
    return None


def traces_of(rows: Sequence[AuditRow], traces: Sequence[Trace]) -> list[Trace]:
    """The runs' own traces: in a run's folder, in that which its checkpoint names, of its key in a
    file of several or in one beside it.

    Args:
        rows: the runs.
        traces: of these runs and others.
    """
    places, named = set(), set()
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
    """Why there is no timeline of the runs in scope, and which runs have one."""
    places = [run_place(trace.source) for trace in session.traces]
    homes = list(dict.fromkeys(homes_of(places)))
    if not homes:
        return UsageError(
            "no traces here", hint="open run folders or logs that hold epochs, such as trace.jsonl"
        )
    hint = f"f takes all runs; {listed(homes, 3)} have some"
    return UsageError(f"no traces in {session.scope_text}", hint=hint)


def _name(trace: Trace) -> tuple[str, str]:
    """What distinguishes a run from the others while its trace grows."""
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
    """What is replayed, how much of it is drawn.

    Args:
        epochs: the runs that have a trace.
        runs: how many runs are open.
        drawn: how many have a curve, where that is known.
        quantity: what the matrix shows instead of letters, or ``""``.
        skipped: how many lines of these traces could not be read.
        scope: the filter that they pass.
        missing: the run that was asked for, if it has no trace.
    """
    numbers, count = epochs.replay.epochs, len(epochs.rows)
    if len(numbers) > 1:
        span = f"epochs {numbers[0]}…{numbers[-1]}"
    else:
        span = f"epoch {numbers[0]}"
    growing = sum(trace.unfinished for trace in epochs.replay.traces)
    pieces = [(" timeline ", "accent"), (f" {runs_words(count)}, {span} ", "strong")]
    if missing:
        pieces.append((f" no trace of {missing}: choose another run ", "warn"))
    if scope:
        pieces.append((f" {scope} (f) ", "dim"))
    if runs > count:
        pieces.append((f" {runs - count} without a trace", "dim"))
    if growing:
        pieces.append((f"  {growing} still growing", "accent"))
    if skipped:
        pieces.append((f"  {count_text(skipped, 'line')} of traces skipped (P)", "warn"))
    if epochs.replay.table.assumed.any():
        pieces.append(("  (d) by an assumed baseline", "warn"))
    if drawn is not None and drawn < count:
        pieces.append((f"  {drawn} drawn", "dim"))
    if quantity:
        pieces.append((f"  showing {quantity} (v)", "accent"))
    return pieces


def verdict_words(epochs: EpochSession, run: int, ascii_only: bool) -> Pieces:
    """The run, the epoch, its verdict there."""
    cell = epochs.cell(run, ascii_only=ascii_only)
    if epochs.flags[run]:
        tone = "bad"
    elif epochs.coverage[run]:
        tone = "good"
    else:
        tone = "dim"
    return [(f"{epochs.name(run)} ", "strong"), (f"{epochs.when(run)}: ", "dim"), (cell, tone)]


def number_words(epochs: EpochSession, run: int) -> Pieces:
    """What was measured on the run at the epoch."""
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
    """The first epoch at which each diagnostic fires, and by what where that is not exact.

    >>> fire_words({"a": 3, "b": None}, {"b": "proxy"})
    [('first fires: ', 'dim'), ('(a) 3  (b) never [proxy]', '')]
    """
    texts = []
    for letter, epoch in fires.items():
        if epoch is not None:
            when = str(epoch)
        elif kinds.get(letter) == BOUND:
            # a lower bound that does not fire leaves it open
            when = "undecided"
        else:
            when = "never"
        texts.append(f"({letter}) {when}{_kind(kinds, letter)}")
    return [("first fires: ", "dim"), ("  ".join(texts) or "nothing was judged", "")]


def stop_words(
    name: str, stop: EarlyStop | None, stop_on: str, epoch: int, kinds: Mapping[str, str]
) -> Pieces:
    """Whether a run would have been stopped, and what that saves.

    Args:
        name: the run.
        stop: where, or None.
        stop_on: the letters that stop a run.
        epoch: what is looked at.
        kinds: letter → what its numbers are, where they are not exact.
    """
    if stop is None:
        return [(f"{name}: never stopped on {' or '.join(stop_on)} (s)", "dim")]
    if stop.epoch == epoch:
        here = "here"
    else:
        here = f"at epoch {stop.epoch}"
    on = ", ".join(letter + _kind(kinds, letter) for letter in stop.on)
    if stop.saved:
        saves = f": saves {stop.saved:.0%}"
    else:
        saves = ": its last epoch so far"
    return [(f"{name} would have stopped {here} ", "warn"), (f"({on})", "bad"), (saves, "strong")]


def accuracy_words(stop: EarlyStop | None) -> str:
    """What stopping costs, where the trace says it."""
    if stop is None or stop.acc is None or stop.final_acc is None:
        return ""
    return f"accuracy {short(stop.acc, 4)} there, {short(stop.final_acc, 4)} at the end"


def all_words(stops: Sequence[EarlyStop | None], saved: float, stop_on: str) -> Pieces:
    """How many runs would have been stopped, and the share of all epochs that saves."""
    stopped = sum(stop is not None for stop in stops)
    share = (f", saves {saved:.0%} of all epochs", "strong" if stopped else "dim")
    return [
        (f"stop on {' or '.join(stop_on)} (s): ", "dim"),
        (f"{stopped} of {runs_words(len(stops))}", ""),
        share,
    ]


def _kind(kinds: Mapping[str, str], letter: str) -> str:
    """`` [proxy]``, as the detail pane says it; nothing where a number is exact."""
    if letter in kinds:
        return f" [{kinds[letter]}]"
    return ""
