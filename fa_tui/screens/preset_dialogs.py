"""Questions of the explorer and what it does with the answers: presets, another baseline, axes, orders."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from fa_core.diagnostics import DiagnosticThresholds
from fa_core.errors import FaError, UsageError
from fa_tui.options import FrozenBaseline, parse_frozen_baseline
from fa_tui.screens.copy_export import copy_something, export_something
from fa_tui.screens.questions import Choice, ask, choose
from fa_tui.session import Session
from fa_tui.settings import PROTOCOL, Presets, name_problem
from fa_tui.sharing.pieces import baseline_text
from fa_tui.views.columns import every_column
from fa_tui.views.grid import axes_of, homes_of, plural, value_on
from fa_tui.views.text import briefly
from fa_tui.views.words import flip_text
from fa_tui.widgets.run_table import RunTable
from fa_tui.widgets.sliders_panel import SlidersPanel, ThresholdsChanged

if TYPE_CHECKING:
    from fa_tui.app import ExplorerApp


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
        app.say(briefly(presets.problems[0]), "warn")
    answer = await choose(app, "Thresholds", choices)
    if answer == "save":
        await _save_preset(app, presets, known)
    elif answer == "remove":
        mine = [Choice("", name, _values(known[name]), name) for name in known if name != PROTOCOL]
        name = await choose(app, "Remove", mine)
        if name is not None:
            presets.remove(name)
            app.say(f"preset {name} removed", "good")
    elif answer is not None:
        use_preset(app, answer.removeprefix("use "), known[answer.removeprefix("use ")])


def use_preset(app: ExplorerApp, name: str, thresholds: DiagnosticThresholds) -> None:
    """Move the sliders of the screen; one step of undo brings them back."""
    for panel in app.screen.query(SlidersPanel):
        panel.set_thresholds(thresholds)
        panel.post_message(ThresholdsChanged(thresholds, f"thresholds: {name}"))


async def _save_preset(app: ExplorerApp, presets: Presets, known: Mapping[str, DiagnosticThresholds]) -> None:
    def check(text: str) -> str:
        taken = text.strip() in known and text.strip() != PROTOCOL
        return f"there is one called {text.strip()}: remove it first" if taken else name_problem(text)

    name = await ask(app, "save thresholds as", hint=_values(app.session.thresholds), check=check)
    if name is not None:
        presets.save(name, app.session.thresholds)
        app.say(f"preset {name.strip()} saved in {presets.path}", "good")


async def ask_what_if(app: ExplorerApp) -> None:
    """Ask for frozen-baseline accuracies to assume, and judge all runs by them."""
    text = await ask(
        app,
        "what if the frozen baseline were",
        text=baseline_text(app.session.baseline),
        hint="0.349: all without one but controls; ep=0.31: all of ep; empty: as recorded",
        check=partial(_baseline_problem, app.session),
    )
    if text is None:
        return
    baseline = parse_frozen_baseline([text])
    asked = baseline.default is not None or bool(baseline.by_method)
    for panel in app.screen.query(SlidersPanel):
        panel.set_baseline(baseline if asked else None)
    assume(app, baseline if asked else None)


def assume(app: ExplorerApp, baseline: FrozenBaseline | None) -> None:
    """Judge all runs by another frozen baseline (None: by those recorded), and say what flips."""
    flips = app.session.set_baseline(baseline)
    app.rows_changed(flips)
    text = baseline_text(app.session.baseline)
    said = f"frozen baseline {text}" if text else "frozen baselines as recorded"
    flipped = flip_text(app.session, flips, shown=app.explorer.shown_runs.rows)
    app.say(f"{said}: {flipped or 'no verdict flips'}", "accent")


_KEYS = "123456789abcdefgilmnopqrstuvwxyz"
"""Without h j k, which move the cursor in lists."""


async def choose_axis(app: ExplorerApp, place: str) -> None:
    """Ask what the columns or the lines of the matrix are."""
    session, matrix = app.session, app.explorer.matrix
    other, now = (matrix.axes.lines, matrix.axes.columns)[:: 1 if place == "columns" else -1]
    homes = homes_of(session.rows, range(len(session)))
    choices = []
    for key, axis in zip(_KEYS, axes_of(session.rows), strict=False):
        count = len({value_on(axis, row, homes[index]) for index, row in enumerate(session.rows)})
        values = f"{count} value{'' if count == 1 else 's'}"
        note = "now" if axis == now else f"changes places with {plural(now)}" if axis == other else values
        choices.append(Choice(key, plural(axis), note, axis))
    chosen = await choose(app, f"The {place} of the matrix", choices)
    if chosen is not None:
        app.explorer.lay_out_along(matrix.axes if chosen == now else matrix.axes.having(place, chosen))


async def choose_order(app: ExplorerApp) -> None:
    """Ask what the long view is sorted by."""
    table = app.explorer.runs
    if not isinstance(table, RunTable):
        return
    choices = [Choice("0", "as the runs were read", "" if table.order else "now", "")]
    for key, column in zip(_KEYS, every_column(app.session), strict=False):
        note = {column.name: "now; again turns it round", f"-{column.name}": "now, falling"}.get(table.order, "")
        choices.append(Choice(key, column.title, note, column.name))
    chosen = await choose(app, "Sort by", choices)
    if chosen is not None:
        table.sort_by(f"-{chosen}" if chosen and chosen == table.order else chosen)


DIALOGS: Mapping[str, Callable[[ExplorerApp], Awaitable[None]]] = {
    "copy": copy_something,
    "export": export_something,
    "presets": choose_preset,
    "what_if": ask_what_if,
    "columns": partial(choose_axis, place="columns"),
    "lines": partial(choose_axis, place="lines"),
    "order": choose_order,
}


async def converse(app: ExplorerApp, name: str) -> None:
    """One of `DIALOGS`; what goes wrong is said, not raised."""
    try:
        await DIALOGS[name](app)
    except FaError as error:
        app.say(str(error), "bad")


def _baseline_problem(session: Session, text: str) -> str:
    try:
        parse_frozen_baseline([text]).check(session.named("method", row) for row in range(len(session)))
    except UsageError as error:
        return str(error).removeprefix("--frozen-baseline ")
    return ""


def _values(thresholds: DiagnosticThresholds) -> str:
    """``a > 50  b < 1e-07  c > 0.3  d < 2``"""
    return (
        f"a > {thresholds.h_norm_explosion_ratio:g}  b < {thresholds.g_norm_floor:g}  "
        f"c > {thresholds.stability_drift_ceiling:g}  d < {thresholds.frozen_acc_margin_pp:g}"
    )
