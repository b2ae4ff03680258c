"""Starting a command from the explorer: which, with what in its form at first."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fa_core.rows import AuditRow
from fa_core.runs import is_run
from fa_tui.jobs.command_form import fields_of
from fa_tui.screens.choice import Choice, ChoiceScreen
from fa_tui.screens.start import StartScreen

if TYPE_CHECKING:
    from fa_tui.app import ExplorerApp


async def start_something(app: ExplorerApp) -> None:
    """Ask for a command and its options, and start it."""
    session, glyphs = app.session, app.terminal.glyphs
    marked = [session.rows[index] for index in session.measurable(sorted(session.marked))]
    of = f"of {len(marked)} marked" if marked else "of what is open"
    choices = [
        Choice("t", "training run", "method, seed, width, ... into run folders", "train"),
        Choice("a", "audit", f"{of}, with all its options, into one table", "audit"),
    ]
    command = await app.push_screen_wait(ChoiceScreen("Start", choices, glyphs=glyphs))
    if command is None:
        return
    fields = await asyncio.to_thread(fields_of, command)
    values = first_values(command, app.paths, marked)
    planned = await app.push_screen_wait(StartScreen(command, fields, values, glyphs=glyphs))
    if planned is not None:
        app.start(planned)


def first_values(command: str, paths: Sequence[Path], marked: Sequence[AuditRow]) -> Mapping[str, str]:
    """The fields that do not start with their default.

    Args:
        command: ``train`` or ``audit``.
        paths: what is open.
        marked: the runs to audit; none = what is open.
    """
    folder = next((path for path in paths if path.is_dir() and not is_run(path)), None)
    if command == "train":
        return {"out": str(folder or "runs")}
    places = [row.checkpoint for row in marked if row.checkpoint is not None] or [str(path) for path in paths]
    return {"paths": shlex.join(places), "out": str(free_name((folder or Path()) / "audit-table.json"))}


def free_name(path: Path) -> Path:
    """The path, numbered if there is something already."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_stem(f"{path.stem}-{number}")
    return free
