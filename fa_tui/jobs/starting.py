"""Starting a command from the explorer: which, with what in its form at first."""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fa_core.errors import UnreadableInput
from fa_core.rows import AuditRow
from fa_core.runs import is_run
from fa_tui.jobs.command_form import fields_of
from fa_tui.samples import sample_runs
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
    with app.asking_more():
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
    if command == "train":
        folders = (path for path in paths if path.is_dir() and not is_run(path) and not _are_samples(path))
        return {"out": str(next(folders, "runs"))}
    places = [row.checkpoint for row in marked if row.checkpoint is not None] or [str(path) for path in paths]
    return {"paths": shlex.join(places), "out": str(free_name(folder_outside(paths) / "audit-table.json"))}


def folder_outside(paths: Sequence[Path]) -> Path:
    """A folder to write a table of open runs into: inside an open one, every run would be shown twice.

    The current folder, else the nearest above it, else the home folder.
    """
    opened = [path.resolve() for path in paths]
    here = Path.cwd()
    for folder in (here, *here.parents, Path.home()):
        if not any(folder.is_relative_to(path) for path in opened) and os.access(folder, os.W_OK):
            return Path() if folder == here else folder
    return Path()


def free_name(path: Path) -> Path:
    """The path, numbered if there is something already."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_stem(f"{path.stem}-{number}")
    return free


def _are_samples(path: Path) -> bool:
    """Whether these are the runs that come with the program: no place to write into."""
    try:
        return path.resolve() == sample_runs().resolve()
    except UnreadableInput:
        return False
