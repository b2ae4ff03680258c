"""What the explorer asks a person, and does with the answer: copy, export, presets, another baseline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from fa_core.errors import FaError, UsageError
from fa_core.report import DiagnosticThresholds
from fa_core.rows import AuditRow
from fa_tui.config.presets import PROTOCOL, Presets, name_problem
from fa_tui.screens.choice import Choice, ChoiceScreen
from fa_tui.screens.entry import EntryScreen
from fa_tui.session import flip_text
from fa_tui.sharing import export as exporting
from fa_tui.sharing.clipboard import copy
from fa_tui.sharing.reproduce import baseline_text, show_command
from fa_tui.shell.options import FrozenBaseline, parse_frozen_baseline
from fa_tui.views.axes import axes_of, plural, value_on
from fa_tui.views.grid import homes_of
from fa_tui.widgets.sliders_panel import SlidersPanel, ThresholdsChanged

if TYPE_CHECKING:
    from fa_tui.app import ExplorerApp

_SHOWN = 40


async def copy_something(app: ExplorerApp) -> None:
    """Ask what to copy, and copy it."""
    screen_text = "\n".join(strip.text.rstrip() for strip in app.screen._compositor.render_strips(app.screen.size))
    chosen, names = _chosen(app)
    command = show_command(app.paths, app.session.thresholds, _baseline(app))
    cell = app.explorer.cell_text() if app.screen is app.explorer else ""
    choices = [
        *([Choice("c", "cell", cell, "cell")] if cell else []),
        *(_of_runs("rows" if len(chosen) > 1 else "row", names) if chosen else []),
        Choice("l", "command line", _short(command), "command"),
        Choice("s", "this screen as text", "", "screen"),
    ]
    what = await _choose(app, "Copy", choices)
    if what is None:
        return
    rows = [app.session.rows[index] for index in chosen]
    makers: Mapping[str, Callable[[], str]] = {
        "cell": lambda: cell,
        "row": lambda: _table(rows, app.session.thresholds),
        "report": lambda: _report(rows, app.session.thresholds),
        "figure": lambda: _figure(rows, app.session.thresholds),
        "command": lambda: command,
        "screen": lambda: screen_text,
    }
    text = await asyncio.to_thread(makers[what])
    copied = await asyncio.to_thread(copy, text, lambda sequence: app.call_from_thread(app.send, sequence))
    verb = "copied to" if copied.in_clipboard else "written to"
    app.say(f"{what} {verb} {copied.where}", "good" if copied.in_clipboard else "warn")


async def export_something(app: ExplorerApp) -> None:
    """Ask for a kind of file and its name, and write it."""
    indices = sorted(app.session.marked) or app.explorer.shown
    rows = app.session.rows if indices is None else [app.session.rows[index] for index in indices]
    of = f"{len(rows)} {'run' if len(rows) == 1 else 'runs'}"
    choices = [
        Choice(kind.key, kind.what, kind.ending + ("" if kind is exporting.SCREEN else f" of {of}"), kind.key)
        for kind in exporting.KINDS
    ]
    key = await _choose(app, "Export", choices)
    kind = next((kind for kind in exporting.KINDS if kind.key == key), None)
    if kind is None:
        return
    name = await _ask(
        app,
        f"export {kind.ending} to",
        text=exporting.free_name(kind, Path()),
        hint=f"a file name; {kind.what}",
        check=lambda text: exporting.name_problem(kind, text),
    )
    if name is None:
        return
    if kind is exporting.SCREEN:
        files = exporting.export_screen(name, app.export_screenshot(title=app.title))
    else:
        traces = app.session.traces if kind.ending in (".md", ".html") else ()
        files = await asyncio.to_thread(exporting.export, kind, name, rows, app.session.thresholds, traces)
    more = f" and {len(files) - 1} more" if len(files) > 1 else ""
    app.say(f"saved {files[0].resolve()}{more}", "good")


async def choose_preset(app: ExplorerApp) -> None:
    """Ask for saved thresholds to use, to save or to remove."""
    presets = Presets()
    known = presets.read()
    choices = [
        Choice(str(number) if number < 10 else "", name, _values(thresholds), f"use {name}")
        for number, (name, thresholds) in enumerate(known.items(), 1)
    ]
    choices.append(Choice("s", "save as ...", f"now: {_values(app.session.thresholds)}", "save"))
    if len(known) > 1:
        choices.append(Choice("x", "remove ...", "", "remove"))
    if presets.problems:
        app.say(presets.problems[0].message, "warn")
    answer = await _choose(app, "Thresholds", choices)
    if answer == "save":
        await _save_preset(app, presets, known)
    elif answer == "remove":
        mine = [Choice("", name, _values(known[name]), name) for name in known if name != PROTOCOL]
        name = await _choose(app, "Remove", mine)
        if name is not None:
            presets.remove(name)
            app.say(f"preset {name} removed", "good")
    elif answer is not None:
        use_preset(app, answer.removeprefix("use "), known[answer.removeprefix("use ")])


def use_preset(app: ExplorerApp, name: str, thresholds: DiagnosticThresholds) -> None:
    """Move the sliders of the screen; one step of undo brings them back."""
    for panel in app.screen.query(SlidersPanel):
        panel.set_thresholds(thresholds)
        panel.post_message(ThresholdsChanged(thresholds))
        app.say(f"thresholds: {name}", "dim")


async def _save_preset(app: ExplorerApp, presets: Presets, known: Mapping[str, DiagnosticThresholds]) -> None:
    def check(text: str) -> str:
        taken = text.strip() in known and text.strip() != PROTOCOL
        return f"there is one called {text.strip()}: remove it first" if taken else name_problem(text)

    name = await _ask(app, "save thresholds as", hint=_values(app.session.thresholds), check=check)
    if name is not None:
        presets.save(name, app.session.thresholds)
        app.say(f"preset {name.strip()} saved in {presets.path}", "good")


async def ask_what_if(app: ExplorerApp) -> None:
    """Ask for frozen-baseline accuracies to assume, and judge all runs anew."""
    text = await _ask(
        app,
        "what if the frozen baseline were",
        text=baseline_text(_baseline(app)),
        hint="0.349: every run without one; ep=0.31: that method; empty: only what was recorded",
        check=_baseline_problem,
    )
    if text is None:
        return
    baseline = parse_frozen_baseline([text])
    asked = baseline.default is not None or bool(baseline.by_method)
    flips = app.session.set_baseline(baseline if asked else None)
    app.rows_changed(flips)
    said = f"frozen baseline {baseline_text(baseline)}" if asked else "frozen baselines as recorded"
    app.say(f"{said}: {flip_text(app.session, flips) if flips else 'no verdict flips'}", "accent")


async def choose_axis(app: ExplorerApp, place: str) -> None:
    """Ask what the columns or the lines of the matrix are."""
    session, matrix = app.session, app.explorer.matrix
    other, now = (matrix.axes.lines, matrix.axes.columns)[:: 1 if place == "columns" else -1]
    homes = homes_of(session.rows, range(len(session)))
    keys = iter("123456789")
    choices = []
    for axis in axes_of(session.rows):
        count = len({value_on(axis, row, homes[index]) for index, row in enumerate(session.rows)})
        note = "now" if axis == now else f"changes places with {plural(now)}" if axis == other else f"{count} values"
        choices.append(Choice(next(keys, ""), plural(axis), note, axis))
    chosen = await _choose(app, f"The {place} of the matrix", choices)
    if chosen is not None:
        app.explorer.lay_out_along(matrix.axes if chosen == now else matrix.axes.having(place, chosen))


DIALOGS: Mapping[str, Callable[[ExplorerApp], Awaitable[None]]] = {
    "copy": copy_something,
    "export": export_something,
    "presets": choose_preset,
    "what_if": ask_what_if,
    "columns": partial(choose_axis, place="columns"),
    "lines": partial(choose_axis, place="lines"),
}


async def converse(app: ExplorerApp, name: str) -> None:
    """One of `DIALOGS`; what goes wrong is said, not raised."""
    try:
        await DIALOGS[name](app)
    except FaError as error:
        app.say(str(error), "bad")


async def _choose(app: ExplorerApp, title: str, choices: Sequence[Choice]) -> str | None:
    return await app.push_screen_wait(ChoiceScreen(title, choices, glyphs=app.terminal.glyphs))


async def _ask(
    app: ExplorerApp, asks: str, *, text: str = "", hint: str = "", check: Callable[[str], str]
) -> str | None:
    return await app.push_screen_wait(EntryScreen(asks, glyphs=app.terminal.glyphs, text=text, hint=hint, check=check))


def _chosen(app: ExplorerApp) -> tuple[list[int], str]:
    """The marked runs, or the one under the cursor; and what to call them."""
    session = app.session
    chosen = sorted(session.marked) or ([] if app.explorer.row is None else [app.explorer.row])
    return chosen, session.label(chosen[0]) if len(chosen) == 1 else f"{len(chosen)} marked runs"


def _baseline(app: ExplorerApp) -> FrozenBaseline | None:
    baseline = app.session.baseline
    return baseline if isinstance(baseline, FrozenBaseline) else None


def _baseline_problem(text: str) -> str:
    try:
        parse_frozen_baseline([text])
    except UsageError as error:
        return str(error).removeprefix("--frozen-baseline ")
    return ""


def _values(thresholds: DiagnosticThresholds) -> str:
    """``a > 50  b < 1e-07  c > 0.3  d < 2``"""
    return (
        f"a > {thresholds.h_norm_explosion_ratio:g}  b < {thresholds.g_norm_floor:g}  "
        f"c > {thresholds.stability_drift_ceiling:g}  d < {thresholds.frozen_acc_margin_pp:g}"
    )


def _of_runs(rows: str, names: str) -> list[Choice]:
    return [
        Choice("r", rows, f"{names}, as a Markdown table", "row"),
        Choice("m", "report in Markdown", names, "report"),
        Choice("f", "figure as SVG", names, "figure"),
    ]


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"...{text[3 - _SHOWN :]}"


def _table(rows: Sequence[AuditRow], thresholds: DiagnosticThresholds) -> str:
    from fa_tui.commands.show import judged, markdown

    return "\n".join(markdown(judged(rows, thresholds))) + "\n"


def _report(rows: Sequence[AuditRow], thresholds: DiagnosticThresholds) -> str:
    from fa_core.reporting import reporting_form, to_markdown
    from fa_core.table import AuditTable

    return to_markdown(reporting_form(AuditTable.from_rows(rows), thresholds))


def _figure(rows: Sequence[AuditRow], thresholds: DiagnosticThresholds) -> str:
    from fa_core.reporting import audit_figure
    from fa_core.table import AuditTable

    return audit_figure(AuditTable.from_rows(rows), thresholds)
