"""A form for a command: its options, the command line they make, and what the command says to them.

Starting a command from the explorer: which, with what in its form at first.
"""

from __future__ import annotations

import asyncio
import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal, Vertical, VerticalScroll
from textual.suggester import SuggestFromList
from textual.widgets import Input

from fa_core.errors import UnreadableInput
from fa_core.rows import AuditRow
from fa_core.runs import is_run
from fa_tui import options
from fa_tui.jobs.form import Fault, Field, Planned, command_words, fields_of, names_for, plan, shell_line
from fa_tui.screens.questions import Choice, Question, choose
from fa_tui.sharing.clipboard import copy
from fa_tui.sharing.export import free_name
from fa_tui.widgets.line import KeyBar, Line, Pick, TextLines

if TYPE_CHECKING:
    from fa_tui.app import ExplorerApp


class FieldRow(Vertical):
    """One field: its name, what is typed or picked, and below it what is wrong with it."""

    def __init__(self, field: Field, value: str) -> None:
        super().__init__()
        self.field, self._name_line, self._fault = field, Line(), TextLines()
        self._fault.can_focus = False
        suggester = SuggestFromList(names_for(field.name), case_sensitive=True)
        self.entry = Pick(field.values, value) if field.values else Input(value, suggester=suggester)

    def compose(self) -> ComposeResult:
        with Horizontal():
            yield self._name_line
            yield self.entry
        yield self._fault

    def say_fault(self, text: str) -> None:
        """Say what is wrong with it, or nothing."""
        self._name_line.set((f" {self.field.label}", "warn" if text else "strong" if self.field.required else ""))
        self.set_class(bool(text), "-wrong")
        self._fault.set_lines([text] if text else [])


class StartScreen(Question[Planned | None]):
    """Returns what to start, or None after Esc.

    Args:
        command: ``train`` or ``audit``, as click holds it.
        fields: of that command.
        values: what is in the fields at first, by name; what is missing is the default.
    """

    BINDINGS = [
        Binding("ctrl+s,f5", "start", "Start", key_display="^s", tooltip="start the command", priority=True),
        Binding("ctrl+y", "copy", "Copy", key_display="^y", tooltip="copy the command line", priority=True),
        Binding("enter,down", "app.focus_next", "Next", key_display="enter", tooltip="the next field", priority=True),
        Binding("up", "app.focus_previous", "Before", show=False, tooltip="the field before", priority=True),
        Binding("f1,question_mark", "app.help", "Help", key_display="F1", tooltip="what this form does and its keys"),
        Binding("escape,ctrl+c,ctrl+q", "dismiss(None)", "Cancel", key_display="esc", priority=True),
    ]

    def __init__(self, command: Any, fields: Sequence[Field], values: Mapping[str, str]) -> None:
        super().__init__()
        self._command, self._fields = command, list(fields)
        self._rows = [FieldRow(field, values.get(field.name, field.default)) for field in fields]
        self._plan: Planned | Fault = Fault("")
        self.line = ""

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Line(id="start-title")
            with VerticalScroll(can_focus=False):
                yield from self._rows
            yield TextLines(id="start-help")
            yield TextLines(id="start-command")
            yield Line(id="start-note")
            yield KeyBar()

    def on_mount(self) -> None:
        for pane in self.query(TextLines):
            pane.can_focus = False
        what = "a training run" if self._command.name == "train" else "an audit"
        self.query_one("#start-title", Line).set((f" {self._command.name} ", "accent"), (f" start {what}", "strong"))
        empty = [row for row in self._rows if row.field.required and not row.entry.value]
        self.set_focus((empty or self._rows)[0].entry)
        self._show()

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        focused = [row.field for row in self._rows if row.entry is event.widget]
        about = [field.help or "Audit files, runs, checkpoints." for field in focused]
        self.query_one("#start-help", TextLines).set_lines(about)

    @on(Input.Changed)
    @on(Pick.Changed)
    def _show(self) -> None:
        """Show the command line, and what is wrong with it."""
        try:
            values = {row.field.name: row.entry.value for row in self._rows}
            words = command_words(self._command.name, self._fields, values)
        except ValueError as error:
            self._plan = Fault(f"paths: {error}", "paths")
        else:
            self.line = shell_line(words)
            self._plan = plan(self._command, words)
        self.query_one("#start-command", TextLines).set_lines([self.line])
        fault = self._plan if isinstance(self._plan, Fault) else Fault("")
        for row in self._rows:
            row.say_fault(fault.text if row.field.name == fault.field else "")
        # of what is shown below its field only where that is
        places = [row.field.label for row in self._rows if row.field.name == fault.field]
        wrong = f"cannot start yet: see {places[0]}" if places else fault.text
        note = (_says(self._plan), "good") if isinstance(self._plan, Planned) else (wrong, "warn")
        self.query_one("#start-note", Line).set((" ", ""), note)

    def action_start(self) -> None:
        """Start the command, if nothing is wrong with it."""
        # what is there may have changed since the last key
        self._show()
        if isinstance(self._plan, Planned):
            self.dismiss(self._plan)
            return
        for row in self._rows:
            if row.field.name == self._plan.field:
                row.entry.focus()
        self.app.bell()

    async def action_copy(self) -> None:
        """Copy the command line."""
        app = self.app
        copied = await asyncio.to_thread(copy, self.line, app.send_soon)
        verb = "copied to" if copied.in_clipboard else "written to"
        note = self.query_one("#start-note", Line)
        note.set((f" command line {verb} {copied.where}", "good" if copied.in_clipboard else "warn"))


def _says(planned: Planned) -> str:
    """What a command would write."""
    if not planned.runs:
        return f"writes {planned.out}"
    names = ", ".join(run.name for run in planned.runs[:3]) + (", ..." if len(planned.runs) > 3 else "")
    return f"{len(planned.runs)} {'run' if len(planned.runs) == 1 else 'runs'} into {planned.out}: {names}"


async def start_something(app: ExplorerApp) -> None:
    """Ask for a command and its options, and start it."""
    session = app.session
    marked = [session.rows[index] for index in session.measurable(sorted(session.marked))]
    of = f"of {len(marked)} marked" if marked else "of what is open"
    training = Choice("t", "training run", "method, seed, width, ... into run folders", "train")
    audit = Choice("a", "audit", f"{of}, with all its options, into one table", "audit")
    name = await choose(app, "Start", [training, audit])
    with app.keys.asking_more():
        command = await asyncio.to_thread(options.command, name)
        fields = await asyncio.to_thread(fields_of, command)
        values = first_values(name, app.paths, marked)
        planned = await app.push_screen_wait(StartScreen(command, fields, values))
    if planned is not None:
        app.jobs.start(planned)


def first_values(command: str, paths: Sequence[Path], marked: Sequence[AuditRow]) -> Mapping[str, str]:
    """The fields that do not start with their default.

    Args:
        command: ``train`` or ``audit``.
        paths: what is open.
        marked: the runs to audit; none = what is open.
    """
    if command == "train":
        folders = [path for path in paths if path.is_dir() and not is_run(path)]
        with suppress(UnreadableInput):
            # the runs that come with the program are no place to write into
            samples = options.sample_runs().resolve()
            folders = [path for path in folders if not path.resolve().is_relative_to(samples)]
        return {"out": str(next(iter(folders), "runs"))}
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
