"""Copy and export what the open screen shows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fa_tui.screens.questions import Choice, ask, choose
from fa_tui.sharing import export as exporting
from fa_tui.sharing.clipboard import copy
from fa_tui.sharing.pieces import (
    Piece,
    Shared,
    Sharing,
    cell_piece,
    command_line,
    command_piece,
    opening_piece,
    run_pieces,
    runs_words,
    traces_of,
)
from fa_tui.views.filters import Look, picking

if TYPE_CHECKING:
    from fa_tui.app import ExplorerApp


def shared_by(app: ExplorerApp) -> Shared:
    """What can be copied from the open screen; of one without `shared`, its picture alone."""
    return app.screen.shared() if isinstance(app.screen, Sharing) else Shared([])


def reproducing(app: ExplorerApp, command: str = "show", *options: str) -> Piece:
    """The command line that prints what a screen shows.

    Args:
        app: whose paths, thresholds and baseline it names.
        command: the command.
        options: what else the screen depends on.
    """
    session = app.session
    return command_piece(command_line(app.paths, session.thresholds, app.session.baseline, command, options))


def reopening(app: ExplorerApp, look: Look) -> Piece:
    """The command line that opens the explorer as it is, here and where nothing is set.

    Args:
        app: whose paths, thresholds, baseline and ways to measure it names.
        look: of its runs.
    """
    thresholds, prefers = app.session.thresholds, app.settings
    options = [*look.options(prefers.show), *app.setup.as_options()]
    line = command_line(app.paths, thresholds, app.session.baseline, "open", options, usual=prefers.thresholds)
    return opening_piece(line)


def look_now(app: ExplorerApp) -> Look:
    """The look of the main screen, as a command understands it: a command knows no marks."""
    shown = app.explorer.shown_runs
    if "is:marked" in shown.filter_text:
        return shown.look._replace(filter=picking(app.session.rows, shown.rows or ()))
    return shown.look


def commands(app: ExplorerApp, look: Look, unnamed: str) -> list[Piece]:
    """The command lines that print and open the runs of a look.

    Args:
        app: as for `reproducing`.
        look: whose filter names the runs, if one can.
        unnamed: what to call runs that no filter names, or ``""``.
    """
    lines = [reproducing(app, "show", *Look(filter=look.filter, sort=look.sort).options()), reopening(app, look)]
    if unnamed and not look.filter:
        return [line._replace(note=f"of all runs: no filter names the {unnamed} ones") for line in lines]
    return lines


def given_runs(app: ExplorerApp, chosen: Sequence[int]) -> Shared:
    """Copies of the chosen runs; exports of the marked ones, or of all that are shown.

    Args:
        app: whose main screen shows them.
        chosen: the marked runs, or the one under the cursor.
    """
    session, shown = app.session, app.explorer.shown_runs
    rows = [session.rows[index] for index in chosen]
    name = session.label(chosen[0]) if len(chosen) == 1 else f"{len(chosen)} marked runs"
    indices = sorted(session.marked) or shown.rows
    exported = list(session.rows) if indices is None else [session.rows[index] for index in indices]
    return Shared(
        [
            *cell_piece(shown.cell_text()),
            *run_pieces(rows, name, session.thresholds),
            *commands(app, look_now(app), "marked" if shown.filter_text else ""),
        ],
        exported,
        runs_words(len(exported)),
        session.thresholds,
        lambda: session.traces if indices is None else traces_of(exported, session.traces),
    )


async def copy_something(app: ExplorerApp) -> None:
    """Ask what to copy, and copy it."""
    text = "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips(app.screen.size))
    pieces = [*shared_by(app).pieces, Piece("s", "this screen as text", "", lambda: text)]
    key = await choose(app, "Copy", [Choice(piece.key, piece.what, piece.note, piece.key) for piece in pieces])
    piece = next((piece for piece in pieces if piece.key == key), None)
    if piece is None:
        return
    made = await asyncio.to_thread(piece.text)
    copied = await asyncio.to_thread(copy, made, app.send_soon)
    verb = "copied to" if copied.in_clipboard else "written to"
    app.say(f"{piece.what} {verb} {copied.where}", "good" if copied.in_clipboard else "warn")


async def export_something(app: ExplorerApp) -> None:
    """Ask for a kind of file and its name, and write it."""
    shared = shared_by(app)
    kinds = exporting.kinds_of(shared)
    notes = {kind: kind.ending + (f" of {shared.names}" if kind in exporting.OF_RUNS else "") for kind in kinds}
    key = await choose(app, "Export", [Choice(kind.key, kind.what, notes[kind], kind.key) for kind in kinds])
    kind = next((kind for kind in kinds if kind.key == key), None)
    if kind is None:
        return
    name = await ask(
        app,
        f"export {kind.endings} to",
        text=exporting.free_name(kind, Path()),
        hint=f"a file name; {kind.what}",
        check=lambda text: exporting.name_problem(kind, text),
    )
    if name is None:
        return
    if kind is exporting.SCREEN:
        files = exporting.export_text(kind, name, app.export_screenshot(title=app.title))
    else:
        files = await asyncio.to_thread(exporting.export, kind, name, shared)
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    left_out = exporting.left_out_words(kind, shared)
    app.say(f"saved {files[0].resolve()}{more}{left_out and f': {left_out}'}", "good")
