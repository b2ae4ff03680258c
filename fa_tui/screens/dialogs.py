"""Dialogs of the explorer: export, presets, baselines, orders; and copies."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from fa_core.errors import FaError, UsageError
from fa_core.files.opening import real_path, typed_path
from fa_core.report.baseline import FrozenBaseline
from fa_core.report.diagnostics import DIAGNOSTICS, LETTERS
from fa_core.report.thresholds import DiagnosticThresholds
from fa_tui.options import parse_frozen_baseline
from fa_tui.screens.application import ApplicationScreen, ExplorerApplication
from fa_tui.screens.questions import Choice, Dismissed, ask, choose
from fa_tui.session import Session
from fa_tui.settings import (
    PROTOCOL,
    Presets,
    load_settings,
    named_values,
    preset_problem,
    remember,
    remember_answer,
    remembered_answer,
    settings_file,
    written,
)
from fa_tui.share import (
    DATA,
    REPORTS,
    Shared,
    baseline_text,
    command_line,
    free_name,
    hand_to_tmux,
    name_problem,
    write_data,
)
from fa_tui.views.columns import every_column
from fa_tui.views.filters import picking
from fa_tui.views.grid import homes_of
from fa_tui.views.text import briefly, short_path
from fa_tui.views.words import (
    change_words,
    disambiguate,
    flip_text,
    limit_words,
    run_name,
    runs_words,
)
from fa_tui.widgets.sliders_panel import SlidersPanel, ThresholdsChanged


def shared_by(app: ExplorerApplication) -> Shared:
    """What the open page gives; nothing from a screen without `shared`."""
    if isinstance(app.screen, ApplicationScreen):
        return app.screen.shared()
    return Shared()


def command_for(
    app: ExplorerApplication, command: str, *options: str, rows: Sequence[int] | None = None
) -> list[str]:
    """The words of a command on what is shown; none where no filter names the runs.

    Args:
        app: supplies paths, thresholds, baseline and filter.
        command: its name.
        options: of the command.
        rows: the runs (default: those in scope).
    """
    session = app.session
    wanted = session.scope_text
    # a command knows no marks
    if rows is not None or "is:marked" in wanted:
        wanted = picking(session.rows, session.in_scope if rows is None else rows)
        if not wanted:
            return []
    words = list(options)
    if wanted:
        words += ["--filter", wanted]
    if session.log is not None:
        words += session.log.arguments
    return command_line(command, app.paths, words, session.thresholds, session.baseline)


def copy_text(app: ExplorerApplication, text: str) -> None:
    """Copy a text by the terminal, over SSH too (OSC 52); tmux takes only what it is handed."""
    if not text:
        app.say("nothing to copy here", "dim")
        return
    app.copy_to_clipboard(text)
    if os.environ.get("TMUX"):
        app.run_worker(partial(hand_to_tmux, text), thread=True, group="copy")
    [first, *_] = text.splitlines()
    app.say(f"copied, if the terminal allows it: {first}", "good")


async def export_something(app: ExplorerApplication) -> None:
    """Ask for a file's name, whose ending says what it holds, and write it."""
    shared = shared_by(app)
    if not shared.rows and shared.table is None:
        app.say("nothing to export here", "dim")
        return
    hint = "the table, or the runs" if shared.table else runs_words(len(shared.rows))
    name = await ask(
        app,
        "export to",
        text=str(free_name(Path("fa-tui.csv"))),
        hint=f"{', '.join(DATA)}: {hint}; {', '.join(REPORTS)}: a report",
        check=name_problem,
    )
    path = typed_path(name.strip())
    if path.suffix.lower() in DATA:
        write = partial(_export, app, path, shared, app.session.thresholds)
        app.run_worker(write, thread=True, group="export")
        return
    words = command_for(app, "report", "--out", str(path))
    if not words:
        raise UsageError("no filter names these runs: a report takes all, or those of a filter")
    app.jobs.writings.start(path, words)
    app.say(f"{path.name}: J lists it, x there ends it", "dim", aloud=False)


def _export(
    app: ExplorerApplication, path: Path, shared: Shared, thresholds: DiagnosticThresholds
) -> None:
    """Write a file of data, in a thread of its own."""
    try:
        note = write_data(path, shared, thresholds)
    except FaError as error:
        app.post_call(app.say, str(error), "bad")
    else:
        app.post_call(app.say, f"saved {real_path(path)}{note}", "good")


async def choose_preset(app: ExplorerApplication) -> None:
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
        name = await choose(app, "Remove", mine)
        presets.remove(name)
        removed.append((name, known[name]))
        app.say(f"preset {name} removed: p r brings it back", "good")
    elif answer == "restore":
        presets.save(*removed.pop())
    else:
        use_preset(app, *answer)


def use_preset(app: ExplorerApplication, name: str, thresholds: DiagnosticThresholds) -> None:
    """Move the screen's sliders as one step of undo."""
    for panel in app.screen.query(SlidersPanel):
        panel.set_thresholds(thresholds)
        panel.post_message(ThresholdsChanged(thresholds, f"thresholds: {name}"))


async def _save_preset(
    app: ExplorerApplication, presets: Presets, known: Mapping[str, DiagnosticThresholds]
) -> None:
    def check(text: str) -> str:
        taken = text.strip() in known and text.strip() != PROTOCOL
        if taken:
            return f"there is one called {text.strip()}: remove it first"
        return preset_problem(text)

    name = await ask(app, "save thresholds as", hint=_values(app.session.thresholds), check=check)
    presets.save(name, app.session.thresholds)
    app.say(f"preset {name.strip()} saved in {presets.path}", "good")


async def change_setting(app: ExplorerApplication) -> None:
    """Choose a setting and its value, which is saved and applies from the next start."""
    values = named_values(load_settings().settings)
    choices = [Choice("", name, written(value), name) for name, value in values.items()]
    name = await choose(app, "Settings", choices)
    text = await ask(
        app,
        name,
        text=written(values[name]).strip('"'),
        hint=str(settings_file()),
    )
    app.say(f"{name} = {text}, from the next start on, kept in {remember(name, text)}", "good")


async def ask_what_if(app: ExplorerApplication) -> None:
    """Enter assumed frozen-baseline accuracies, and judge all runs by them."""
    now = baseline_text(app.session.baseline)
    check = partial(_baseline_problem, app.session)
    hint = "0.349: all without one but controls; ep=0.31: all of ep; empty: as recorded"
    text = await ask(app, "what if the frozen baseline were", text=now, hint=hint, check=check)
    given = parse_frozen_baseline([text])
    baseline = given if baseline_text(given) else None
    for panel in app.screen.query(SlidersPanel):
        panel.set_baseline(baseline)
    assume(app, baseline)


def assume(app: ExplorerApplication, baseline: FrozenBaseline | None) -> None:
    """Judge all runs by another frozen baseline (None = the recorded ones), and report the
    flips."""
    flips = app.session.set_baseline(baseline)
    app.baseline_changed(flips)
    text = baseline_text(app.session.baseline)
    if text:
        message = f"frozen baseline {text}"
    else:
        message = "frozen baselines as recorded"
    app.say(f"{message}: {flip_text(app.session, flips) or 'no verdict flips'}", "accent")


async def ask_factor(app: ExplorerApplication) -> None:
    """Enter the factor from which compared runs diverge."""

    def check(text: str) -> str:
        with suppress(ValueError):
            if float(text) > 1:
                return ""
            return "a factor above 1, such as 10"
        return f"{text} is not a number"

    now, hint = f"{app.session.diverges_at:g}", "10: an order of magnitude"
    text = await ask(app, "runs diverge where max/min is above", text=now, hint=hint, check=check)
    app.session.diverges_at = float(text)
    app.rows_changed()


_KEYS = "123456789abcdefgilmnopqrstuvwxyz"
"""Keys of choices, without h j k, which move the cursor."""


async def choose_order(app: ExplorerApplication) -> None:
    """Choose the order of the long view."""
    # a key typed ahead may have left the long view
    table = app.explorer.shown_runs.table
    assert table is not None
    choices = [Choice("0", "as the runs were read", "" if table.order else "now", "")]
    for key, column in zip(_KEYS, every_column(app.session), strict=False):
        if table.order == column.name:
            note = "now; again turns it round"
        elif table.order == f"-{column.name}":
            note = "now, falling"
        else:
            note = ""
        choices.append(Choice(key, column.title, note, column.name))
    chosen = await choose(app, "Sort by", choices)
    if chosen and chosen == table.order:
        chosen = f"-{chosen}"
    table.sort_by(chosen)


async def choose_flip(app: ExplorerApplication) -> None:
    """List the runs that flipped with the last step, and go to the chosen one."""
    session, explorer = app.session, app.explorer
    if not explorer.turned:
        app.say("no run flipped with the last step", "dim")
        return
    rows = [session.rows[flip.row] for flip in explorer.turned]
    names = [method + rest for method, rest in disambiguate(rows)]
    homes = homes_of([row.source for row in session.rows])
    choices = []
    for name, flip in zip(names, explorer.turned, strict=True):
        note = f"{session.cell(flip.row)}  {homes[flip.row]}  {session.words(flip.row)}"
        choices.append(Choice("", f"{name}  {change_words(flip)}", note, flip.row))
    title = "Flipped"
    if explorer.moved:
        title += f" at {explorer.moved}"
    row = await choose(app, title, choices)
    explorer.runs.go_to(row)


async def ask_measure(app: ExplorerApplication) -> None:
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


DIALOGS: Mapping[str, Callable[[ExplorerApplication], Awaitable[None]]] = {
    "export": export_something,
    "presets": choose_preset,
    "settings": change_setting,
    "what_if": ask_what_if,
    "factor": ask_factor,
    "order": choose_order,
    "flips": choose_flip,
    "measure": ask_measure,
}


async def converse(app: ExplorerApplication, name: str) -> None:
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
