"""Dialogs of the explorer: copy, export, presets, baselines, axes, orders."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fa_core.errors import FaError, UsageError
from fa_core.files.opening import real_path
from fa_core.formats import Trace
from fa_core.formats.rows import AuditRow
from fa_core.report.diagnostics import DIAGNOSTICS, LETTERS
from fa_core.report.thresholds import DiagnosticThresholds
from fa_tui.jobs.measuring import lost_with, replace_record
from fa_tui.jobs.writing import saved_text
from fa_tui.options import parse_frozen_baseline
from fa_tui.screens.questions import Choice, Dismissed, ask, choose
from fa_tui.session import Session, with_rows
from fa_tui.settings import (
    PROTOCOL,
    Presets,
    load_settings,
    name_problem,
    named_values,
    remember,
    remember_answer,
    remembered_answer,
    settings_file,
    written,
)
from fa_tui.sharing import export as exporting
from fa_tui.sharing import pieces
from fa_tui.sharing.clipboard import copy
from fa_tui.sharing.export import Kind
from fa_tui.sharing.pieces import Piece, Shared, runs_words
from fa_tui.sharing.writer import order_of
from fa_tui.views.columns import every_column
from fa_tui.views.filters import ViewState, picking
from fa_tui.views.grid import axes_of, homes_of, plural, value_on
from fa_tui.views.text import briefly, short_path
from fa_tui.views.words import (
    change_words,
    disambiguate,
    flip_text,
    limit_words,
    moved_words,
    run_name,
)

if TYPE_CHECKING:
    from fa_tui.app import ExplorerApp


def look_now(app: ExplorerApp) -> ViewState:
    """The look of the pages, as a command understands it: a command knows no marks."""
    look = app.explorer.look
    if "is:marked" in app.session.scope_text:
        return look._replace(filter=picking(app.session.rows, app.session.in_scope))
    return look


def commands(app: ExplorerApp, look: ViewState, *printing: str, unnamed: str = "") -> list[Piece]:
    """Command lines that print the screen's content and reopen the explorer in its current state.

    Args:
        app: supplies paths, thresholds, baseline and measuring options.
        look: supplies the filter, if one selects the runs.
        printing: printing command with its options (default: ``show`` with those of the look).
        unnamed: text for runs that no filter selects, or ``""``.
    """
    session, prefers = app.session, app.settings
    command, *options = printing or (
        "show",
        *ViewState(filter=look.filter, sort=look.sort).options(),
    )
    if session.log is not None:
        log = session.log.arguments
    else:
        log = []
    line = partial(pieces.command_line, app.paths, session.thresholds, session.baseline)
    opening = line(
        "open",
        [*look.options(prefers.show), *log, *app.setup.as_options()],
        usual=prefers.thresholds,
    )
    lines = [pieces.command_piece(line(command, [*options, *log])), pieces.opening_piece(opening)]
    if unnamed and not look.filter:
        return [
            piece._replace(note=f"of all runs: no filter names the {unnamed} ones")
            for piece in lines
        ]
    return lines


def given_runs(app: ExplorerApp, chosen: Sequence[int]) -> Shared:
    """Copies of the chosen runs; exports of the marked ones, else of all shown.

    Args:
        app: the application.
        chosen: the marked runs, else the one under the cursor.
    """
    session, explorer = app.session, app.explorer
    rows = [session.rows[index] for index in chosen]
    if len(chosen) == 1:
        name = session.label(chosen[0])
    else:
        name = f"{len(chosen)} marked runs"
    indices = sorted(session.marked) or session.scope
    if indices is None:
        exported = list(session.rows)
    else:
        exported = [session.rows[index] for index in indices]
    judged, names = session.thresholds, runs_words(len(exported))
    copies = [*pieces.cell_piece(explorer.cell_text()), *pieces.run_pieces(rows, name, judged)]
    copies += commands(app, look_now(app), unnamed="marked" if session.scope_text else "")
    return Shared(
        copies,
        exported,
        names,
        judged,
        partial(shared_traces, session, None if indices is None else exported),
    )


def shared_traces(session: Session, rows: Sequence[AuditRow] | None) -> Sequence[Trace]:
    """The traces of some runs; None = of all, including runs without an audit."""
    if rows is None:
        return session.traces
    return pieces.traces_of(rows, session.traces)


async def copy_something(app: ExplorerApp) -> None:
    """Choose a copy and put it on the clipboard."""
    text = "\n".join(
        strip.text.rstrip() for strip in app.screen._compositor.render_strips(app.screen.size)
    )
    pieces = [*app.explorer.shared().pieces, Piece("s", "this screen as text", "", lambda: text)]
    choices = [Choice(piece.key, piece.what, piece.note, piece) for piece in pieces]
    piece = await choose(app, "Copy", choices, "Copy")
    # apart from the dialog, for which the next keys would wait
    app.run_worker(_copy(app, piece), group="copy", exclusive=True)


async def _copy(app: ExplorerApp, piece: Piece) -> None:
    """Make a text and copy it; errors become messages."""
    try:
        made = await asyncio.to_thread(piece.text)
        copied = await asyncio.to_thread(copy, made, app.send_soon)
    except FaError as error:
        app.say(str(error), "bad")
        return
    if copied.in_clipboard:
        app.say(f"{piece.what} copied to {copied.where}", "good")
    else:
        app.say(f"{piece.what} written to {copied.where}", "warn")


async def export_something(app: ExplorerApp) -> None:
    """Choose a kind of file and its name, and write it."""
    shared = app.explorer.shared()
    choices = []
    for kind in exporting.kinds_of(shared):
        note = kind.ending
        if kind in exporting.OF_RUNS:
            note = f"{note} of {shared.names}"
        choices.append(Choice(kind.key, kind.what, note, kind))
    kind = await choose(app, "Export", choices)
    free, hint = Path(kind.name + kind.ending), f"a file name; {kind.what}"
    free = exporting.free_name(free, partial(exporting.in_the_way, kind))
    check = partial(exporting.name_problem, kind)
    name = await ask(app, f"export {kind.endings} to", text=str(free), hint=hint, check=check)
    if exporting.is_slow(kind):
        _export_as_job(app, kind, exporting.target(kind, name), shared)
        return
    if kind is exporting.SCREEN:
        files = exporting.export_text(kind, name, app.export_screenshot(title=app.title))
    else:
        files = await asyncio.to_thread(exporting.export, kind, name, shared)
    app.say(saved_text(files, "", app.host), "good")


def _export_as_job(app: ExplorerApp, kind: Kind, path: Path, shared: Shared) -> None:
    """Begin to write a file that may take a while.

    Raises:
        UsageError: there are no runs.
    """
    what = kind.what
    if kind in exporting.OF_RUNS:
        what = shared.names
        if not shared.rows:
            raise UsageError("no runs to export: the filter leaves none")
    left_out = exporting.left_out_words(kind, shared)
    order = partial(order_of, kind, shared)
    app.jobs.writings.start("fa_tui.sharing.writer", real_path(path), order, left_out)
    app.say(f"{what} to {path}: J lists it, x there stops it", "dim", aloud=False)


async def choose_preset(app: ExplorerApp) -> None:
    """Choose a preset to use, save or remove."""
    presets = Presets()
    known, removed = presets.read(), app.removed_presets
    choices = [
        Choice(str(number) if number < 10 else "", name, _values(thresholds), (name, thresholds))
        for number, (name, thresholds) in enumerate(known.items(), 1)
    ]
    choices.append(Choice("s", "save as ...", f"now: {_values(app.session.thresholds)}", "save"))
    if len(known) > 1:
        choices.append(Choice("x", "remove ...", "", "remove"))
    if removed:
        choices.append(
            Choice("r", f"bring back {removed[-1][0]}", _values(removed[-1][1]), "restore")
        )
    if presets.problems:
        app.say(briefly(presets.problems[0]), "warn")
    answer = await choose(app, "Thresholds", choices)
    if answer == "save":
        await _save_preset(app, presets, known)
    elif answer == "remove":
        mine = [Choice("", name, _values(known[name]), name) for name in known if name != PROTOCOL]
        name = await choose(app, "Remove", mine, "Remove")
        presets.remove(name)
        removed.append((name, known[name]))
        app.say(f"preset {name} removed: p r brings it back", "good")
    elif answer == "restore":
        presets.save(*removed.pop())
    else:
        use_preset(app, *answer)


def use_preset(app: ExplorerApp, name: str, thresholds: DiagnosticThresholds) -> None:
    """Move the sliders as one step of undo."""
    app.step(app.session.but(thresholds=thresholds), words=f"thresholds: {name}")


async def _save_preset(
    app: ExplorerApp, presets: Presets, known: Mapping[str, DiagnosticThresholds]
) -> None:
    def check(text: str) -> str:
        taken = text.strip() in known and text.strip() != PROTOCOL
        if taken:
            return f"there is one called {text.strip()}: remove it first"
        return name_problem(text)

    name = await ask(app, "save thresholds as", hint=_values(app.session.thresholds), check=check)
    presets.save(name, app.session.thresholds)
    app.say(f"preset {name.strip()} saved in {presets.path}", "good")


async def change_setting(app: ExplorerApp) -> None:
    """Choose a setting and its value, which is saved and applies from the next start."""
    values = named_values(load_settings().settings)
    choices = [Choice("", name, written(value), name) for name, value in values.items()]
    name = await choose(app, "Settings", choices, "Change")
    text = await ask(
        app,
        name,
        text=written(values[name]).strip('"'),
        hint=str(settings_file()),
    )
    app.say(f"{name} = {text}, from the next start on, kept in {remember(name, text)}", "good")


async def ask_what_if(app: ExplorerApp) -> None:
    """Enter assumed frozen-baseline accuracies, and judge all runs by them."""
    now = pieces.baseline_text(app.session.baseline)
    check = partial(_baseline_problem, app.session)
    hint = "0.349: all without one but controls; ep=0.31: all of ep; empty: as recorded"
    text = await ask(app, "what if the frozen baseline were", text=now, hint=hint, check=check)
    given = parse_frozen_baseline([text])
    baseline = given if pieces.baseline_text(given) else None
    app.step(app.session.but(baseline=baseline))
    app.say(baseline_words(app.session), "accent")


def baseline_words(session: Session) -> str:
    """The assumed frozen baselines, and what flipped by them."""
    text = pieces.baseline_text(session.baseline)
    name = f"frozen baseline {text}" if text else "frozen baselines as recorded"
    return f"{name}: {flip_text(session, session.flips) or 'no verdict flips'}"


_KEYS = "123456789abcdefgilmnopqrstuvwxyz"
"""Keys of choices, without h j k, which move the cursor."""


async def choose_axis(app: ExplorerApp, place: str) -> None:
    """Choose the columns or lines of the matrix."""
    session, matrix = app.session, app.explorer.matrix
    if place == "columns":
        now, other = matrix.axes.columns, matrix.axes.lines
    else:
        now, other = matrix.axes.lines, matrix.axes.columns
    homes = homes_of([row.source for row in session.rows])
    choices = []
    for key, axis in zip(_KEYS, axes_of(session.rows), strict=False):
        if axis == now:
            note = "now"
        elif axis == other:
            note = f"changes places with {plural(now)}"
        else:
            count = len(set(map(partial(value_on, axis), session.rows, homes)))
            note = "1 value" if count == 1 else f"{count} values"
        choices.append(Choice(key, plural(axis), note, axis))
    chosen = await choose(app, f"The {place} of the matrix", choices)
    axes = matrix.axes
    if chosen != now:
        axes = axes.having(place, chosen)
    matrix.axes = axes
    matrix.lay_out()
    app.explorer.describe()


async def choose_order(app: ExplorerApp) -> None:
    """Choose the order of the long view."""
    table = app.explorer.table
    choices = [Choice("0", "as the runs were read", "" if table.order else "now", "")]
    for key, column in zip(_KEYS, every_column(app.session), strict=False):
        if table.order == column.name:
            note = "now; again turns it round"
        elif table.order == f"-{column.name}":
            note = "now, falling"
        else:
            note = ""
        choices.append(Choice(key, column.title, note, column.name))
    chosen = await choose(app, "Sort by", choices, "Sort")
    if chosen and chosen == table.order:
        chosen = f"-{chosen}"
    table.sort_by(chosen)


async def choose_flip(app: ExplorerApp) -> None:
    """List the runs that flipped with the last step, and go to the chosen one."""
    session, explorer = app.session, app.explorer
    turned = session.turned
    if not turned or session.since is None:
        app.say("no run flipped with the last step", "dim")
        return
    rows = [session.rows[flip.row] for flip in turned]
    names = [method + rest for method, rest in disambiguate(rows)]
    homes = homes_of([row.source for row in session.rows])
    choices = []
    for name, flip in zip(names, turned, strict=True):
        note = f"{session.cell(flip.row)}  {homes[flip.row]}  {session.words(flip.row)}"
        choices.append(Choice("", f"{name}  {change_words(flip)}", note, flip.row))
    title = "Flipped"
    moved = moved_words(session.thresholds, session.since.thresholds)
    if moved:
        title += f" at {moved}"
    row = await choose(app, title, choices, "Go there")
    explorer.select(row)


async def replace_audits(app: ExplorerApp) -> None:
    """Show how new measurements differ from the recorded audits, and offer to replace these."""
    explorer, again = app.explorer, app.jobs.again
    rows = [row for row in explorer.chosen if row in again]
    if not rows:
        app.say(
            "nothing measured again here: m measures a run with an audit again and compares", "dim"
        )
        return
    lost = sorted({name for row in rows for name in lost_with(again[row])})
    if len(rows) == 1:
        what, note = run_name(app.session, rows[0]), "the old file is kept"
    else:
        what, note = runs_words(len(rows)), "the old files are kept"
    if lost:
        note += f"; {' and '.join(lost)} only there"
    choices = [
        Choice("c", "keep the audit as it is", "", None),
        Choice("r", "replace it by the new one", note, rows),
    ]
    for row in rows:
        compared = again[row].comparison
        choices.append(Choice("", run_name(app.session, row), compared.headline, None))
        choices += [Choice("", "", line, None) for line in compared.lines()]
    await choose(app, f"{what} measured again", choices)
    for row in rows:
        app.following.own_rows.add(row)
        measured, kept = await asyncio.to_thread(replace_record, again.pop(row))
        states = {other: state for other, state in app.session.states.items() if other != row}
        app.show(with_rows(app.session.but(states=states), {row: measured}))
        message = f"{run_name(app.session, row)}: audit replaced"
        if kept:
            message += f", the old one is {short_path(str(kept))}"
        app.say(message, "good")
    app.following.own_rows.difference_update(rows)


async def ask_measure(app: ExplorerApp) -> None:
    """Ask for the data and network of checkpoints that no manifest describes, folder by folder, and
    measure."""
    from fa_tui.screens.measure_question import MeasureScreen

    session, chosen = app.session, app.explorer.chosen
    folders: dict[Path, list[int]] = {}
    for index in app.jobs.unknown(chosen):
        folder = Path(session.rows[index].checkpoint or "").parent
        folders.setdefault(folder, []).append(index)
    for folder, rows in folders.items():
        what = run_name(session, rows[0])
        if len(rows) > 1:
            what = f"{len(rows)} checkpoints in {short_path(str(folder))}"
        answer = await app.push_screen_wait(MeasureScreen(what, remembered_answer(folder)))
        if answer is None:
            raise Dismissed
        app.jobs.answers.update(dict.fromkeys(rows, answer))
        remember_answer(folder, answer)
    app.jobs.measure(chosen)


DIALOGS: Mapping[str, Callable[[ExplorerApp], Awaitable[None]]] = {
    "copy": copy_something,
    "export": export_something,
    "presets": choose_preset,
    "settings": change_setting,
    "what_if": ask_what_if,
    "columns": partial(choose_axis, place="columns"),
    "lines": partial(choose_axis, place="lines"),
    "order": choose_order,
    "flips": choose_flip,
    "replace": replace_audits,
    "measure": ask_measure,
}


async def converse(app: ExplorerApp, name: str) -> None:
    """Run one of `DIALOGS`; errors become messages."""
    try:
        with suppress(Dismissed):
            await DIALOGS[name](app)
    except FaError as error:
        app.say(str(error), "bad")


def _baseline_problem(session: Session, text: str) -> str:
    try:
        parse_frozen_baseline([text]).check(row.method for row in session.rows)
    except UsageError as error:
        return str(error).removeprefix("--frozen-baseline ")
    return ""


def _values(thresholds: DiagnosticThresholds) -> str:
    """``a > 50  b < 1e-7  c > 0.3  d < 2``"""
    return "  ".join(limit_words(DIAGNOSTICS[letter], thresholds) for letter in LETTERS)
