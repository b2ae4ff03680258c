"""Runs over their epochs: their traces, and the work of others on them. No terminal code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter
from pathlib import Path

from fa_core.files.opening import real_path
from fa_core.formats.rows import AuditRow
from fa_core.formats.trace import Trace, TraceEpoch, without_copies
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.names import named_place, run_place
from fa_core.report.numbers import listed, short
from fa_tui.session import Session
from fa_tui.views.grid import homes_of


def traces_in_scope(session: Session) -> list[Trace]:
    """The traces of the runs in scope that hold an epoch, with what logs do not say."""
    chosen = session.traces
    if session.filter is not None:
        chosen = traces_of(session.scoped, chosen)
    if session.log:
        chosen = session.log.apply_to_traces(chosen)
    # by name: a trace that grows must not move to another line
    begun = (trace for trace in without_copies(chosen) if trace.epochs)
    return sorted(begun, key=attrgetter("source", "key"))


def traces_of(rows: Sequence[AuditRow], traces: Sequence[Trace]) -> list[Trace]:
    """The traces of some runs: in a run's folder or its checkpoint's, or under its key in a file of
    several runs or next to it.

    Args:
        rows: the runs.
        traces: of these runs and others.
    """
    places = {run_place(place) for row in rows for place in (row.source, row.checkpoint) if place}
    named = {named_place(row.source, row.key) for row in rows}
    own = []
    for trace in traces:
        folder = Path(trace.source).parent
        folders = {str(folder), str(real_path(folder))}
        if named_place(trace.source, trace.key) in named or folders & places:
            own.append(trace)
    return own


_HOW_TO = (
    "Open run folders or logs that hold epochs, such as trace.jsonl: o, or fa-tui PATH.",
    "",
    "# Where traces come from",
    "fa-tui train writes trace.jsonl into every run folder.",
    "A log with a value per epoch is a trace: CSV, JSON lines, TensorBoard, Weights & Biases.",
    "In your own training loop, ProtocolMonitor writes them.",
)


def without_traces(session: Session) -> tuple[str, Sequence[str]]:
    """What is said of a scope without traces, and what comes of it or is to be done."""
    trained = [session.label(row) for row in session.in_scope if session.is_trained(row)]
    if trained:
        return f"in the first epoch: {listed(trained, 3)}", ["A curve starts when it ends."]
    homes = dict.fromkeys(homes_of([run_place(trace.source) for trace in session.traces]))
    if homes:
        hint = f"f takes all runs; {listed([*homes], 3)} have some."
        return "no traces of the runs that pass the filter", [hint]
    return "no traces here", _HOW_TO


_EPOCHS_SHOWN = 4
"""Of the end of a run's trace."""


def cell_so_far(session: Session, row: int) -> str:
    """The letters of a run that `is_begun`, by the last epoch of its trace; a mark in front says
    that they are not its verdict: ``▸ab··``."""
    return "▸" + _letters(session, session.epochs_of(row)[-1:])


def _letters(session: Session, epochs: Sequence[TraceEpoch]) -> str:
    """The four letters of one epoch, or of none."""
    report = epochs[0].report() if epochs else DiagnosticReport()
    return report.with_thresholds(session.thresholds).cell()[1:]


def work_lines(session: Session, row: int) -> Iterator[tuple[str, str]]:
    """What is done with a run or its weights, each line with its tone; nothing where nothing is."""
    work = session.work.get(row)
    if work is None:
        return
    if not work.ended:
        yield work.text(), "accent"
        where = "here" if work.is_here else f"on {work.host}"
        yield f"process {work.pid} {where}; J lists it", "dim"
    else:
        yield work.text(), "warn"
        if work.doing == "training":
            yield "its own command with --resume goes on with it", "dim"
    if work.doing == "training":
        for epoch in session.epochs_of(row)[-_EPOCHS_SHOWN:]:
            yield _epoch_text(session, epoch), "dim"


def _epoch_text(session: Session, epoch: TraceEpoch) -> str:
    """``epoch 4  --··  loss 1.16  acc 0.523``."""
    parts = [f"epoch {epoch.epoch}", _letters(session, [epoch])]
    if epoch.loss is not None:
        parts.append(f"loss {short(epoch.loss)}")
    if epoch.test_acc is not None:
        parts.append(f"acc {epoch.test_acc:.3f}")
    return "  ".join(parts)
