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
_COLUMNS = (("state", 10), ("progress", 19), ("left", 8), ("device", 8), ("what it says", 100))
_BAR = 10
_WIDEST_NAME = 30


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
            names = [len(job.name) for job in jobs]
            self.set_widths(min(_WIDEST_NAME, max([8, *names])) + 3, [width for _, width in _COLUMNS])
            if here is not None:
                self.move_to(next((line for line, job in enumerate(jobs) if job.id == here.id), self.line))
            return
        for line, (old, new) in enumerate(zip(before, self._jobs, strict=True)):
            if old != new:
                self.refresh_cells([(line, column) for column in range(len(_COLUMNS))])

    @property
    def job(self) -> Listed | None:
        """The job under the cursor."""
        return self._jobs[self.line] if self._jobs else None

    def line_count(self) -> int:
        return len(self._jobs)

    def frozen(self, line: int | None) -> list[Segment]:
        if line is None:
            return [Segment(" job".ljust(self.frozen_width), self.style_of("header"))]
        name = self._jobs[line].name
        if len(name) > _WIDEST_NAME:
            name = name[: _WIDEST_NAME - len(self._glyphs.ellipsis)] + self._glyphs.ellipsis
        chosen = line == self.line
        text = f" {self._glyphs.say(name)}".ljust(self.frozen_width)
        return [Segment(text, self.style_of("cursor" if chosen and self.has_focus else "text"))]

    def cell(self, line: int | None, column: int) -> list[Segment]:
        name, width = _COLUMNS[column]
        if line is None:
            return [Segment(name.ljust(width), self.style_of("header"))]
        job = self._jobs[line]
        left = "" if job.left is None else time_words(job.left)
        text = (job.state, self._progress(job), left, job.device, self._glyphs.say(job.words))[column]
        tone = _TONES[job.state] if column == 0 or (column == 4 and job.error) else "text"
        return [Segment(text[: width - 1].ljust(width), self.style_of(tone))]

    def repaint_cursor(self, before: tuple[int, int]) -> None:
        self.refresh_frozen({before[0], self.line})

    def _progress(self, job: Listed) -> str:
        if not job.total:
            return ""
        return f"{share_bar(job.done / job.total, _BAR, self._glyphs)} {job.done}/{job.total}"


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
        with Vertical(id="log-pane"):
            yield Line(self._glyphs, id="log-title")
            yield TextLines(self._glyphs, follow=True, id="log")
        yield KeyBar(self._glyphs)

    def on_mount(self) -> None:
        self.query_one(JobsTable).focus()
        self.query_one("#machine").can_focus = False
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
        words = (
            f" {len(jobs)} in all, {active} to go"
            if jobs
            else " none yet: mark runs with space, then press m; N starts a command"
        )
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
