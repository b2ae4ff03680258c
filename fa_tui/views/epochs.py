"""The runs at an epoch of the timeline, and its texts. No terminal code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from msgspec.structs import replace

from fa_core.analysis.margins import BOUND
from fa_core.analysis.timeline import EarlyStop, Replay, frozen_baselines
from fa_core.errors import UsageError
from fa_core.facts.runs import named_place, run_place
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.formats import Trace
from fa_core.numbers import short
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
        moved = {
            run: places[_name(trace)]
            for run, trace in enumerate(self.replay.traces)
            if _name(trace) in places
        }
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

    def assumes(self, index: int) -> bool:
        """Whether a run's frozen baseline is assumed."""
        return self.rows[index].report.assumed_baseline_acc is not None

    def stops(self, stop_on: str) -> list[EarlyStop | None]:
        """Per run, what stopping at the first epoch at which one of the letters fires would have
        saved."""
        return [self.replay.stop(run, self.fired, stop_on) for run in range(len(self.rows))]

    def saved_by(self, stops: Sequence[EarlyStop | None]) -> float:
        """The share of all epochs that early stops save, runs that go on to their end included."""
        totals = [self.replay.trained(run) for run in range(len(self.rows))]
        trained = sum(
            total if stop is None else stop.epochs_trained
            for stop, total in zip(stops, totals, strict=True)
        )
        if sum(totals):
            return 1.0 - trained / sum(totals)
        return 0.0

    def _move(self) -> None:
        self.rows = self._rows_now()
        self._forget_table()
        self._judge_all()

    def _rows_now(self) -> list[AuditRow]:
        rows = (self.replay.row_at(run, self.epoch) for run in range(len(self.replay.traces)))
        return [replace(row, source=run_place(row.source)) for row in rows]


def replay_of(session: Session) -> Replay:
    """The traces of the runs in scope, with the frozen baselines that are known or assumed."""
    # in the order of a folder: a trace that grew must not move its run to another line
    if session.scope is None:
        chosen = session.traces
    else:
        chosen = traces_of(session.scoped, session.traces)
    if session.log:
        bounded = session.log.apply_to_traces(chosen)
    else:
        bounded = chosen
    traces = sorted(bounded, key=lambda trace: (trace.source, trace.key))
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
    places = {run_place(place) for row in rows for place in (row.source, row.checkpoint) if place}
    named = {named_place(row.source, row.key) for row in rows}

    def is_own(trace: Trace) -> bool:
        folder = Path(trace.source).parent
        return named_place(trace.source, trace.key) in named or not places.isdisjoint(
            (str(folder), str(folder.absolute()))
        )

    return [*filter(is_own, traces)]


def without_traces(session: Session) -> UsageError:
    """Why there is no timeline of the runs in scope, and which runs have one."""
    homes = [*dict.fromkeys(homes_of([run_place(trace.source) for trace in session.traces]))]
    if not homes:
        return UsageError(
            "no traces here", hint="open run folders or logs that hold epochs, such as trace.jsonl"
        )
    named = ", ".join(homes[:3]) + (f" and {len(homes) - 3} more" if len(homes) > 3 else "")
    return UsageError(
        f"no traces in {session.scope_text}", hint=f"f takes all runs; {named} have some"
    )


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
    facts = (
        (True, " timeline ", "accent"),
        (True, f" {runs_words(count)}, {span} ", "strong"),
        (missing, f" no trace of {missing}: choose another run ", "warn"),
        (scope, f" {scope} (f) ", "dim"),
        (runs > count, f" {runs - count} without a trace", "dim"),
        (growing, f"  {growing} still growing", "accent"),
        (
            skipped,
            f"  {skipped} {'line' if skipped == 1 else 'lines'} of traces skipped (P)",
            "warn",
        ),
        (epochs.replay.table.assumed.any(), "  (d) by an assumed baseline", "warn"),
        (drawn is not None and drawn < count, f"  {drawn} drawn", "dim"),
        (quantity, f"  showing {quantity} (v)", "accent"),
    )
    return [(text, tone) for holds, text, tone in facts if holds]


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
    shown = (
        (BY_NAME["growth"], 3),
        (BY_NAME["g_L"], 3),
        (BY_NAME["drift"], 3),
        (BY_NAME["acc"], 4),
    )
    texts = (
        f"{quantity.label if quantity.letter else 'acc'} "
        f"{short(value, digits)}{_kind(report.kinds, quantity.letter)}"
        for quantity, digits in shown
        if (value := quantity.of(report)) is not None
    )
    return [("  ".join(texts), "")]


def fire_words(fires: Mapping[str, int | None], kinds: Mapping[str, str]) -> Pieces:
    """The first epoch at which each diagnostic fires, and by what where that is not exact.

    >>> fire_words({"a": 3, "b": None}, {"b": "proxy"})
    [('first fires: ', 'dim'), ('(a) 3  (b) never [proxy]', '')]
    """
    epochs = {}
    for letter, epoch in fires.items():
        # a lower bound that does not fire leaves it open
        if kinds.get(letter) == BOUND:
            never = "undecided"
        else:
            never = "never"
        epochs[letter] = never if epoch is None else str(epoch)
    words = [f"({letter}) {epochs[letter]}{_kind(kinds, letter)}" for letter in fires]
    return [("first fires: ", "dim"), ("  ".join(words) or "nothing was judged", "")]


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
