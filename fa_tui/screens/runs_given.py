"""What the explorer's main screen has to give away: to copy, and to export."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from fa_tui.screens.giving import reopening, reproducing
from fa_tui.screens.runs_shown import RunsShown
from fa_tui.session import Session
from fa_tui.sharing.shared import Shared, cell_piece, run_pieces, runs_words, traces_of
from fa_tui.views.filters import picking
from fa_tui.views.look import Look

if TYPE_CHECKING:
    from fa_tui.app import ExplorerApp

_UNNAMED = "of all runs: no filter names the marked ones"


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
    look = look_given(session, shown)
    commands = [reproducing(app, "show", *Look(filter=look.filter, sort=look.sort).options()), reopening(app, look)]
    if shown.look.filter and not look.filter:
        commands = [piece._replace(note=_UNNAMED) for piece in commands]
    return Shared(
        [
            *cell_piece(shown.cell_text()),
            *run_pieces(rows, name, session.thresholds),
            *commands,
        ],
        exported,
        runs_words(len(exported)),
        session.thresholds,
        lambda: session.traces if indices is None else traces_of(exported, session.traces),
    )


def look_given(session: Session, shown: RunsShown) -> Look:
    """The look of what is on screen, so that a command understands it."""
    look = shown.look
    if "is:marked" in look.filter:
        # a command knows no marks
        look = look._replace(filter=picking(session.rows, shown.rows or ()))
    return look
