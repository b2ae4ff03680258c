"""Dialogs of the explorer: export, presets, baselines; and copies."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from textual.suggester import Suggester

from fa_core.errors import FaError, UnreadableInput, UsageError
from fa_core.files.opening import exists, is_folder, real_path, typed_path
from fa_core.formats import scan
from fa_core.option_values import check_data_set, network_spec
from fa_core.report.diagnostics import DIAGNOSTICS, LETTERS
from fa_core.report.numbers import listed
from fa_core.report.report_facts import DiagnosticThresholds
from fa_core.sanitize import WHITE_SPACE, sanitize
from fa_tui.options import parse_frozen_baseline
from fa_tui.screens.help import ReadScreen
from fa_tui.screens.questions import Choice, Dismissed, EntryScreen, ask, choose
from fa_tui.session import Session
from fa_tui.settings import (
    PROTOCOL,
    MeasureAnswer,
    load_presets,
    preset_problem,
    presets_file,
    recent_places,
    remember_answer,
    remembered_answer,
    remove_preset,
    save_preset,
)
from fa_tui.share import (
    DATA,
    REPORTS,
    TABLES,
    Shared,
    baseline_text,
    command_for,
    free_name,
    hand_to_tmux,
    name_problem,
    typed,
    write_data,
)
from fa_tui.views.text import briefly, short_paths, width_of
from fa_tui.views.words import (
    flip_text,
    limit_words,
    run_name,
    runs_words,
)

if TYPE_CHECKING:
    from fa_tui.app import ExplorerApp


async def copy_shared(app: ExplorerApp, *, command: bool = False) -> None:
    """Copy the value under the cursor, or the command that prints what is shown.

    By the terminal, over SSH too (OSC 52); tmux takes only what it is handed.
    """
    shared = app.explorer.page.shared()
    text = "" if command else shared.value
    if not text and shared.command:
        text = typed(shared.command)
    if not text:
        app.say("nothing to copy here", "dim")
        return
    if sanitize(text, WHITE_SPACE) != text:
        # a shell takes control characters for keys, quoted or not
        app.say("not copied: it is not printable as it stands", "bad")
        return
    app.copy_to_clipboard(text)
    if os.environ.get("TMUX"):
        app.run_worker(partial(hand_to_tmux, text), thread=True, group="copy")
    [first, *others] = text.splitlines()
    said = f"copied, if the terminal allows it: {first.expandtabs()}"
    if others or width_of(said) < app.size.width:
        app.say(said, "good")
    else:
        app.push_screen(ReadScreen([("copied, if the terminal allows it", "accent")], [text]))


async def export_something(app: ExplorerApp) -> None:
    """Ask for a file's name, whose ending says what it holds, and write it."""
    shared = app.explorer.page.shared()
    if not shared.rows and shared.table is None:
        app.say("nothing to export here", "dim")
        return
    data = TABLES if shared.table else DATA
    holds = "this table" if shared.table else runs_words(len(shared.rows))
    reports = [ending for ending in REPORTS if ending not in data]
    every = runs_words(len(app.session.in_scope))
    question = EntryScreen(
        "export to",
        text=str(free_name(Path("fa-tui.csv"))),
        hint=f"{' '.join(data)}: {holds}; {' '.join(reports)}: a report of {every}",
        check=name_problem,
    )
    path = typed_path(await ask(app, question))
    if path.suffix.lower() in data:
        write = partial(_export, app, path, shared, app.session.thresholds)
        app.run_worker(write, thread=True, group="export")
        return
    words = command_for(app, "report", "--out", str(path))
    if not words:
        raise UsageError("no filter names these runs: a report takes all, or those of a filter")
    app.jobs.writings.start(path, words)
    app.say(f"{path.name}: J lists it, x there ends it", "dim")


def _export(app: ExplorerApp, path: Path, shared: Shared, thresholds: DiagnosticThresholds) -> None:
    """Write a file of data, in a thread of its own."""
    try:
        note = write_data(path, shared, thresholds)
    except FaError as error:
        app.post_call(app.say, str(error), "bad")
    else:
        app.post_call(app.say, f"saved {real_path(path)}{note}", "good")


async def choose_preset(app: ExplorerApp) -> None:
    """Choose a preset to use, save or remove."""
    known, problem = load_presets()
    choices = [
        Choice(name, _values(thresholds), (name, thresholds)) for name, thresholds in known.items()
    ]
    choices.append(Choice("save as ...", f"now: {_values(app.session.thresholds)}", "save"))
    if len(known) > 1:
        choices.append(Choice("remove ...", "", "remove"))
    if problem:
        app.say(briefly(problem), "warn")
    answer = await choose(app, "Thresholds", choices)
    if answer == "save":
        await _save_preset(app, known)
    elif answer == "remove":
        mine = [Choice(name, _values(known[name]), name) for name in known if name != PROTOCOL]
        name = await choose(app, "Remove", mine)
        remove_preset(name)
        app.say(f"preset {name} removed; it was {_values(known[name])}", "good")
    else:
        name, thresholds = answer
        # one step of undo
        app.step(app.session.but(thresholds=thresholds), words=f"thresholds: {name}")


async def _save_preset(app: ExplorerApp, known: Mapping[str, DiagnosticThresholds]) -> None:
    def check(text: str) -> str:
        if text in known and text != PROTOCOL:
            return f"there is one called {text}: remove it first"
        return preset_problem(text)

    hint = _values(app.session.thresholds)
    name = await ask(app, EntryScreen("save thresholds as", hint=hint, check=check))
    save_preset(name, app.session.thresholds)
    app.say(f"preset {name} saved in {presets_file()}", "good")


async def ask_what_if(app: ExplorerApp) -> None:
    """Enter assumed frozen-baseline accuracies, and judge the runs by them."""
    now = baseline_text(app.session.baseline)
    check = partial(_baseline_problem, app.session)
    hint = "0.349: all without one; ep=0.31: all of ep; empty: as recorded"
    asks = "what if the frozen baseline were"
    text = await ask(app, EntryScreen(asks, text=now, hint=hint, check=check))
    baseline = parse_frozen_baseline([text])
    assumed = app.session.but(baseline=baseline)
    if baseline and all(row.report.assumed_baseline_acc is None for row in assumed.rows):
        raise UsageError("nothing changed: no run is without one; METHOD=ACCURACY overrides it")
    app.step(assumed)
    app.say(baseline_words(app.session), "accent")


def baseline_words(session: Session) -> str:
    """The assumed frozen baselines, and what flipped by them."""
    text = baseline_text(session.baseline)
    name = f"frozen baseline {text}" if text else "frozen baselines as recorded"
    return f"{name}: {flip_text(session) or 'no verdict flips'}"


async def ask_measure(app: ExplorerApp) -> None:
    """Ask for the data and network of checkpoints that no manifest describes, folder by folder, and
    measure."""
    session, chosen = app.session, app.explorer.chosen
    folders: dict[Path, list[int]] = {}
    for index in app.jobs.unknown(chosen):
        folder = real_path(session.rows[index].checkpoint or "").parent
        folders.setdefault(folder, []).append(index)
    for folder, rows in folders.items():
        what = run_name(session, rows[0])
        if len(rows) > 1:
            what = f"{len(rows)} checkpoints in {short_paths([folder])}"
        answer = await _measured_on(app, what, folder)
        app.jobs.answers.update(dict.fromkeys(rows, answer))
    app.jobs.measure(chosen)


async def _measured_on(app: ExplorerApp, what: str, folder: Path) -> MeasureAnswer:
    """Ask for the data and the network of checkpoints, offering what was typed before, and keep
    both for their folder; the data also where the second question is closed."""
    before = remembered_answer(folder)
    wrong_data = partial(
        _fault_of,
        check_data_set,
        empty="type one of synthetic, digits, cifar10:DIR, imagefolder:DIR, npz:FILE or "
        "module:make",
    )
    question = EntryScreen(
        f"data of {what}",
        text=before.data,
        hint="module:make returns test batches, or (train_x, train_y, test_x, test_y)",
        check=wrong_data,
    )
    data = await ask(app, question)
    remember_answer(folder, MeasureAnswer(data, before.model))
    asks, wrong = f"network of {what}", partial(_fault_of, network_spec)
    question = EntryScreen(
        asks,
        text=before.model,
        hint="empty: taken to be resmlp, studentnet, … by its tensors' names; "
        "resmlp(input_dim=128), timm:NAME, hf:FOLDER, module:Net",
        check=wrong,
    )
    answer = MeasureAnswer(data, await ask(app, question))
    remember_answer(folder, answer)
    return answer


def _fault_of(check: Callable[[str], object], text: str, empty: str = "") -> str:
    """What a check says against a text; ``""`` if nothing.

    Args:
        check: raises an error.
        text: as typed.
        empty: is said of no text.
    """
    if not text:
        return empty
    try:
        check(text)
    except FaError as error:
        return str(error)
    return ""


def completions(text: str) -> list[str]:
    """The names with which the last part of a typed path may go on; folders end with a slash."""
    head, slash, begun = text.rpartition("/")
    with suppress(OSError):
        entries = sorted(typed_path(head + slash or ".").iterdir())
        names = [
            entry.name + "/" * is_folder(entry) for entry in entries if entry.name.isprintable()
        ]
        return [name for name in names if name.startswith(begun) and (begun or name[0] != ".")]
    return []


class PathSuggester(Suggester):
    """Completes a typed path."""

    async def get_suggestion(self, value: str) -> str | None:
        head, slash, _ = value.rpartition("/")
        return next((head + slash + name for name in completions(value)), None)


def _path_problem(text: str) -> str:
    """Why a typed path cannot be opened, and how it may go on."""
    path = typed_path(text)
    if text and exists(path):
        whole = real_path(path).parent == real_path(path)
        return f"{path} is the whole disk: name a folder in it" if whole else ""
    return listed(completions(text), 5) or "no such file or folder (O opens one beside another)"


async def open_something(app: ExplorerApp, *, beside: bool = False) -> None:
    """Type a file or folder, or choose one that was open before, and open it instead of what is
    open, or beside it to compare them."""
    asks, where = ("open beside", "beside") if beside else ("open", "in place of")
    question = EntryScreen(
        asks,
        hint=f"enter opens it, {where} what is open",
        check=_path_problem,
        suggester=PathSuggester(use_cache=False, case_sensitive=True),
        earlier=[place for place in recent_places() if place.isprintable()],
    )
    path = typed_path(await ask(app, question))
    found = await asyncio.to_thread(scan, [path], run_traces=False)
    if found.problems and not (found.rows or found.traces or is_folder(path)):
        raise UnreadableInput(briefly(found.problems[0]))
    if not beside:
        app.leave_for(path)
        return
    app.paths.append(path)
    app.opened = ""
    await app.following.look()
    await app.explorer.open("Diff")


DIALOGS: Mapping[str, Callable[[ExplorerApp], Awaitable[None]]] = {
    "copy": copy_shared,
    "command": partial(copy_shared, command=True),
    "export": export_something,
    "presets": choose_preset,
    "what_if": ask_what_if,
    "measure": ask_measure,
    "open": open_something,
    "beside": partial(open_something, beside=True),
}


async def converse(app: ExplorerApp, name: str) -> None:
    """Run one of `DIALOGS`; errors become messages."""
    try:
        with suppress(Dismissed):
            await DIALOGS[name](app)
    except FaError as error:
        app.say(str(error), "bad")


def _baseline_problem(session: Session, text: str) -> str:
    def check(text: str) -> None:
        parse_frozen_baseline([text]).check(row.method for row in session.rows)

    return _fault_of(check, text).removeprefix("--frozen-baseline ")


def _values(thresholds: DiagnosticThresholds) -> str:
    """``a > 50  b < 1e-7  c > 0.3  d < 2``"""
    return "  ".join(limit_words(DIAGNOSTICS[letter], thresholds) for letter in LETTERS)
