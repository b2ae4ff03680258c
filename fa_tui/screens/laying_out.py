"""Asks how the runs are laid out: which axes the matrix has, what the long view is sorted by."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fa_tui.screens.asking import choose
from fa_tui.screens.choice import Choice
from fa_tui.views.axes import axes_of, plural, value_on
from fa_tui.views.columns import every_column
from fa_tui.views.grid import homes_of
from fa_tui.widgets.run_table import RunTable

if TYPE_CHECKING:
    from fa_tui.app import ExplorerApp

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
