"""What a replay of training runs has to give away: the runs as they were at its epoch, and the table of first fires."""

from __future__ import annotations

from collections.abc import Sequence

from fa_core.analysis import timelines
from fa_core.reporting.sections.traces import timeline_blocks
from fa_tui.session import Session
from fa_tui.sharing.shared import Piece, Shared, Table, run_pieces, runs_words, table_pieces
from fa_tui.shell.options import FrozenBaseline
from fa_tui.views.epochs import EpochSession
from fa_tui.views.records import timeline_record


def timeline_table(session: Session, epochs: EpochSession, stop_on: str) -> Table:
    """What `fa-tui timeline` prints of the runs.

    Args:
        session: their audits.
        epochs: their replay.
        stop_on: the diagnostics that would end a run.
    """
    assumed = session.baseline if isinstance(session.baseline, FrozenBaseline) else FrozenBaseline()
    traces, given = epochs.replay.traces, (assumed.default, assumed.by_method)
    found = timelines(traces, session.table, session.thresholds, stop_on, None, *given)
    return Table("timeline", list(timeline_blocks(found)), record=lambda: timeline_record(found))


def shared_replay(epochs: EpochSession, chosen: int, table: Table, more: Sequence[Piece]) -> Shared:
    """Copies: of the marked runs, or of the chosen one; exports: of the marked runs, or of all.

    Args:
        epochs: the replay, at its epoch.
        chosen: the run under the cursor.
        table: of its first fires.
        more: what else can be copied.
    """
    runs = sorted(epochs.marked) or [chosen]
    rows = [epochs.rows[run] for run in runs]
    at = f"at epoch {epochs.epoch}"
    one = f"{epochs.name(runs[0])} {epochs.when(runs[0])}"
    named = one if len(runs) == 1 else f"{len(runs)} marked runs {at}"
    exported = rows if epochs.marked else epochs.rows
    traces = [epochs.replay.traces[run] for run in runs] if epochs.marked else list(epochs.replay.traces)
    return Shared(
        [*table_pieces(table), *run_pieces(rows, named, epochs.thresholds), *more],
        exported,
        f"{runs_words(len(exported))} {at}",
        epochs.thresholds,
        lambda: traces,
        table,
    )
