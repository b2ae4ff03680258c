"""What the explorer's main screen has to give away: to copy, and to export."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fa_tui.screens.giving import reproducing
from fa_tui.screens.runs_shown import RunsShown
from fa_tui.session import Session
from fa_tui.sharing.shared import Shared, cell_piece, run_pieces, runs_words, traces_of
from fa_tui.views.filters import picking_options

if TYPE_CHECKING:
    from fa_tui.app import ExplorerApp


def given_runs(app: ExplorerApp, session: Session, shown: RunsShown, chosen: Sequence[int]) -> Shared:
    """Copies of the chosen runs; exports of the marked ones, or of all that are shown.

    Args:
        app: whose paths the command line names.
        session: the runs.
        shown: what is on screen.
        chosen: the marked runs, or the one under the cursor.
    """
    rows = [session.rows[index] for index in chosen]
    name = session.label(chosen[0]) if len(chosen) == 1 else f"{len(chosen)} marked runs"
    indices = sorted(session.marked) or shown.rows
    exported = list(session.rows) if indices is None else [session.rows[index] for index in indices]
    return Shared(
        [
            *cell_piece(shown.cell_text()),
            *run_pieces(rows, name, session.thresholds),
            reproducing(app, "show", *show_options(session, shown)),
        ],
        exported,
        runs_words(len(exported)),
        session.thresholds,
        lambda: session.traces if indices is None else traces_of(exported, session.traces),
    )


def show_options(session: Session, shown: RunsShown) -> list[str]:
    """What makes `fa-tui show` print the runs that are on screen, in their order."""
    options = ["--filter", shown.filter_text] if shown.filter_text else []
    if "is:marked" in shown.filter_text:
        # a command knows no marks
        options = picking_options(session.rows, shown.rows or ())
    return [*options, "--sort", shown.order] if shown.order else options
