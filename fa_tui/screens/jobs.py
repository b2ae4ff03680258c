"""The jobs: queue, progress, what they say, how busy the machine is; cancel, retry, order, log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.screen import Screen

from fa_tui.jobs.listing import Jobs, Listed
from fa_tui.jobs.machine import Machine, MachineWatch, machine_lines, share_bar
from fa_tui.jobs.remaining import time_words
from fa_tui.widgets.glyphs import UNICODE, Glyphs
from fa_tui.widgets.keybar import KeyBar
from fa_tui.widgets.line import Line
from fa_tui.widgets.line_table import LineTable
from fa_tui.widgets.text_lines import TextLines

if TYPE_CHECKING:
    from fa_tui.app import ExplorerApp

_TONES = {"queued": "dim", "running": "text", "done": "good", "failed": "bad", "cancelled": "warn"}
_COLUMNS = (("state", 10), ("progress", 19), ("left", 8), ("device", 8))
_SAYS = "what it says"
_BAR = 10
_NAMES = range(9, 31)
_WORDS = 20
"""Cells that what a job says gets at least, before its name is cut."""
_NONE_YET = """\
  space    in the matrix marks runs; m then measures them, or the one under the cursor
  N        starts a training run or an audit

  Each job gets a line here: how far it is, the time left, what it says last.
"""


class JobsTable(LineTable):
    """One line per job; the cursor stays on its job when their order changes."""

    help_text = """\
The jobs: runs that are measured here, then commands that were started from here.
Finished runs are on disk as soon as their line says done. A worker that dies fails its one job.
A training run that is cancelled keeps every complete epoch; trying it again goes on from there.
Cancelling a command twice ends it at once. The time left is told once there is a rate to tell it from.
"""

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id="jobs")
        self._glyphs = glyphs
        self._jobs: list[Listed] = []

    def set_jobs(self, jobs: Sequence[Listed]) -> None:
        """Show other jobs; only lines that changed are painted again."""
        here = self.job
        before, self._jobs = self._jobs, list(jobs)
        if [job.id for job in before] != [job.id for job in jobs] or not self.column_count:
            self._fit()
            if here is not None:
                self.move_to(next((line for line, job in enumerate(jobs) if job.id == here.id), self.line))
            return
        for line, (old, new) in enumerate(zip(before, self._jobs, strict=True)):
            if old != new:
                self.refresh_cells([(line, column) for column in range(self.column_count)])

    def _fit(self) -> None:
        """What a job says gets what the other columns leave, and names give way to it."""
        widths = [width for _, width in _COLUMNS]
        room = self.view.width - sum(widths)
        longest = max([len(job.name) for job in self._jobs], default=0)
        name = max(_NAMES.start, min(longest, _NAMES.stop - 1, room - _WORDS)) + 3
        self.set_widths(name, [*widths, max(_WORDS, room - name)])

    def on_resize(self) -> None:
        self._fit()

    @property
    def job(self) -> Listed | None:
        """The job under the cursor."""
        return self._jobs[self.line] if self._jobs else None

    def line_count(self) -> int:
        return len(self._jobs)

    def frozen(self, line: int | None) -> list[Segment]:
        if line is None:
            return [Segment(" job".ljust(self.frozen_width), self.style_of("header"))]
        name = self._short(self._jobs[line].name, self.frozen_width - 3)
        chosen = line == self.line
        text = f" {name}".ljust(self.frozen_width)
        return [Segment(text, self.style_of("cursor" if chosen and self.has_focus else "text"))]

    def cell(self, line: int | None, column: int) -> list[Segment]:
        width = self.width_of(column)
        if line is None:
            name = [*(name for name, _ in _COLUMNS), _SAYS][column]
            return [Segment(name.ljust(width), self.style_of("header"))]
        job = self._jobs[line]
        if column == 1:
            return self._progress(job, width)
        left = "" if job.left is None else time_words(job.left)
        text = self._short((job.state, "", left, job.device, job.words)[column], width - 1)
        tone = _TONES[job.state] if column == 0 or (column == 4 and job.error) else "text"
        return [Segment(text.ljust(width), self.style_of(tone))]

    def repaint_cursor(self, before: tuple[int, int]) -> None:
        self.refresh_frozen({before[0], self.line})

    def _progress(self, job: Listed, width: int) -> list[Segment]:
        if not job.total:
            return [Segment(" " * width, self.style_of("text"))]
        bar = share_bar(job.done / job.total, _BAR, self._glyphs)
        filled = len(bar.rstrip(bar[-1])) if job.done < job.total else _BAR
        tone = "mark" if job.state == "running" else _TONES[job.state]
        return [
            Segment(bar[:filled], self.style_of(tone)),
            Segment(bar[filled:], self.style_of("dim")),
            Segment(f" {job.done}/{job.total}"[: width - _BAR].ljust(width - _BAR), self.style_of("text")),
        ]

    def _short(self, text: str, width: int) -> str:
        text, mark = self._glyphs.say(text), self._glyphs.ellipsis
        return text if len(text) <= width else text[: width - len(mark)] + mark


class MachineSeen(Message):
    """How busy the machine is (posted from a thread)."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        super().__init__()


class JobsScreen(Screen[None]):
    """The jobs, how busy the machine is, and the log of the job under the cursor.

    Args:
        jobs: the jobs.
        glyphs: characters to draw with.
    """

    app: ExplorerApp

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,J", "dismiss", "Back", key_display="esc"),
        Binding("x,delete", "cancel", "Cancel", key_display="x", tooltip="cancel the job under the cursor"),
        Binding("r", "retry", "Retry", tooltip="begin a failed or cancelled job again"),
        Binding("plus,shift+up", "move(-1)", "Sooner", key_display="+", tooltip="move a queued job up the queue"),
        Binding("minus,shift+down", "move(1)", "Later", key_display="-", tooltip="move a queued job down the queue"),
        Binding("N", "app.start", "New", key_display="N", tooltip="start a training run or an audit, with a form"),
        Binding("X", "cancel_all", "Cancel all", key_display="X", tooltip="cancel everything that is not finished"),
    ]

    DEFAULT_CSS = """
    JobsScreen {
        & #title { background: $panel; }
        & #machine { height: auto; max-height: 8; padding: 0 1; color: $text-muted; }
        & JobsTable { height: 1fr; min-height: 4; }
        & #log-pane { height: 40%; }
        & #none-yet { display: none; height: 1fr; padding: 1 1; }
        &.-none {
            & JobsTable, & #log-pane { display: none; }
            & #none-yet { display: block; }
        }
        & #log-title { background: $panel; }
        & #log { height: 1fr; padding: 0 1; color: $text-muted; }
    }
    """

    def __init__(self, jobs: Jobs, *, glyphs: Glyphs) -> None:
        super().__init__()
        self._jobs = jobs
        self._glyphs = glyphs
        self.machine_watch: MachineWatch | None = None
        self._log: tuple[str, list[str]] = ("", [])

    def compose(self) -> ComposeResult:
        yield Line(self._glyphs, id="title")
        yield TextLines(self._glyphs, id="machine")
        yield JobsTable(self._glyphs)
        yield TextLines(self._glyphs, id="none-yet")
        with Vertical(id="log-pane"):
            yield Line(self._glyphs, id="log-title")
            yield TextLines(self._glyphs, follow=True, id="log")
        yield KeyBar(self._glyphs)

    def on_mount(self) -> None:
        self.query_one(JobsTable).focus()
        self.query_one("#machine").can_focus = False
        self.query_one("#none-yet", TextLines).set_lines(_NONE_YET.splitlines())
        self.jobs_changed()
        self.machine_watch = MachineWatch(
            lambda machine: self.app.tell_screen(self, MachineSeen(machine)), self._jobs.pids
        )
        self.machine_watch.start()

    def on_unmount(self) -> None:
        if self.machine_watch is not None:
            self.machine_watch.stop()

    def on_machine_seen(self, message: MachineSeen) -> None:
        pane = self.query_one("#machine", TextLines)
        pane.set_lines(machine_lines(message.machine, self._glyphs))
        # a second has passed: the times left are others
        self.jobs_changed()

    def jobs_changed(self) -> None:
        """Show how the jobs stand."""
        jobs = self._jobs.listed()
        self.query_one(JobsTable).set_jobs(jobs)
        active = sum(not job.over for job in jobs)
        words = f" {len(jobs)} in all, {active} to go" if jobs else " none yet"
        self.set_class(not jobs, "-none")
        self.query_one("#title", Line).set((" jobs ", "accent"), (words, "strong"))
        self._show_log()

    def on_line_table_moved(self) -> None:
        self._show_log()

    def action_cancel(self) -> None:
        """Cancel the job under the cursor."""
        job = self.query_one(JobsTable).job
        if job is not None and not job.over:
            self._jobs.cancel(job.id)

    def action_cancel_all(self) -> None:
        """Cancel every job that is not finished."""
        for job in reversed(self._jobs.listed()):
            if not job.over:
                self._jobs.cancel(job.id)

    def action_retry(self) -> None:
        """Begin the job under the cursor again, if it failed or was cancelled."""
        job = self.query_one(JobsTable).job
        if job is not None:
            self._jobs.retry(job.id)

    def action_move(self, step: int) -> None:
        """Move the job under the cursor up or down the queue."""
        job = self.query_one(JobsTable).job
        if job is None:
            return
        if self._jobs.move(job.id, step):
            self.jobs_changed()
        elif job.state != "queued":
            self.app.say(f"{job.name} is {job.state}: only what is queued has a place in the queue", "warn")

    def _show_log(self) -> None:
        from fa_core.engine.process import log_tail

        job = self.query_one(JobsTable).job
        log = job.log if job is not None else ""
        said = [job.error] if job is not None and job.error else []
        shown = (log, [*(log_tail(Path(log), 200) if log else []), *said])
        if shown != self._log:
            self._log = shown
            self.query_one("#log-title", Line).set((" log ", "dim"), (log, "dim"))
            self.query_one("#log", TextLines).set_lines(shown[1])
