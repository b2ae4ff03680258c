"""The jobs: queue, progress, what they say, how busy the machine is; cancel, retry, order, log."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.screen import Screen

from fa_core.reporting.blocks import Grid
from fa_tui.jobs.listing import Jobs, Machine, MachineWatch, machine_lines
from fa_tui.jobs.pace import time_words
from fa_tui.screens.jobs_table import JobsTable
from fa_tui.sharing.pieces import Piece, Shared, Table, command_piece, table_pieces
from fa_tui.terminal.glyphs import Glyphs
from fa_tui.widgets.line import KeyBar, Line, TextLines

if TYPE_CHECKING:
    from fa_tui.app import ExplorerApp

_NONE_YET = """\
  space    in the matrix marks runs; m then measures them, or the one under the cursor
  N        starts a training run or an audit

  Each job gets a line here: how far it is, the time left, what it says last.
"""


@dataclass
class MachineSeen(Message):
    """How busy the machine is (posted from a thread)."""

    machine: Machine


class JobLog(TextLines):
    """What a job wrote; it stays at its end."""

    help_text = """\
The log of the job under the cursor
Everything that its process wrote, the last lines below; a job that failed ends with the reason.
The path of the file stands above it.

  ↑ ↓ or k j    scroll
  g G           its beginning, its end
"""


class JobsScreen(Screen[None]):
    """The jobs, how busy the machine is, and the log of the job under the cursor.

    Args:
        jobs: the jobs.
        glyphs: characters to draw with.
    """

    app: ExplorerApp

    help_text = """\
The jobs: runs that are measured here, then commands that were started from here.
Finished runs are on disk as soon as their line says done. A worker that dies fails its one job.
A training run that is cancelled keeps every complete epoch; trying it again goes on from there.
Cancelling a command twice ends it at once. R begins again all that failed or were cancelled.
The time left is told once there is a rate to tell it from; of a job that is over stands the time it took.
"""

    judges: ClassVar[bool] = False

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,J", "dismiss", "Back", key_display="esc", tooltip="back to the matrix"),
        Binding("x,delete", "cancel", "Cancel", key_display="x", tooltip="cancel the job under the cursor"),
        Binding("r", "retry", "Retry", tooltip="begin a failed or cancelled job again"),
        Binding("plus,shift+up", "move(-1)", "Sooner", key_display="+", tooltip="move a queued job up the queue"),
        Binding("minus,shift+down", "move(1)", "Later", key_display="-", tooltip="move a queued job down the queue"),
        Binding("N", "app.start", "New", key_display="N", tooltip="start a training run or an audit, with a form"),
        Binding("X", "cancel_all", "Cancel all", key_display="X", tooltip="cancel everything that is not finished"),
        Binding("R", "retry_all", "Retry all", key_display="R", tooltip="begin all failed and cancelled jobs again"),
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
        self._offered: set[str] = set()

    def compose(self) -> ComposeResult:
        yield Line(self._glyphs, id="title")
        yield TextLines(self._glyphs, id="machine")
        yield JobsTable(self._glyphs)
        yield TextLines(self._glyphs, id="none-yet")
        with Vertical(id="log-pane"):
            yield Line(self._glyphs, id="log-title")
            yield JobLog(self._glyphs, follow=True, id="log")
        yield KeyBar(self._glyphs)

    def on_mount(self) -> None:
        self.query_one(JobsTable).focus()
        self.query_one("#machine").can_focus = False
        self.query_one("#none-yet", TextLines).set_lines(_NONE_YET.splitlines())
        self.jobs_changed()
        self.machine_watch = MachineWatch(lambda machine: self.app.tell(MachineSeen(machine), self), self._jobs.pids)
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
        """Show the state of the jobs."""
        jobs = self._jobs.listed()
        self.query_one(JobsTable).set_jobs(jobs)
        active = sum(not job.over for job in jobs)
        words = f" {len(jobs)} in all, {active} to go" if jobs else " none yet"
        self.set_class(not jobs, "-none")
        self.query_one("#title", Line).set((" jobs ", "accent"), (words, "strong"))
        self._show_log()
        self._offer()

    def on_line_table_moved(self) -> None:
        self._show_log()
        self._offer()

    def _offer(self) -> None:
        """Show the keys that would do something to the job under the cursor."""
        offered = self._works_now()
        if offered != self._offered:
            self._offered = offered
            self.refresh_bindings()

    def _works_now(self) -> set[str]:
        """The actions that would do something."""
        jobs, shown = self._jobs.listed(), [table.job for table in self.query(JobsTable)]
        # the line under the cursor may be a tenth of a second old
        here = {job.id for job in shown if job is not None}
        job = next((job for job in jobs if job.id in here), None)
        works = {"cancel_all"} if any(not each.over for each in jobs) else set()
        works |= {"retry_all"} if any(each.can_retry for each in jobs) else set()
        if job is not None:
            works |= {"cancel"} if not job.over else {"retry"} if job.can_retry else set()
            works |= {"move"} if job.state == "queued" else set()
        return works

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only what works now: there is nothing to cancel of a job that is over."""
        conditional = ("cancel", "cancel_all", "retry", "retry_all", "move")
        return action not in conditional or action in self._works_now()

    def shared(self) -> Shared:
        """The log, the list, and the command line of the job under the cursor."""
        job, jobs = self.query_one(JobsTable).job, self._jobs.listed()
        log = self.query_one("#log", TextLines).text
        lines = tuple(
            (
                each.name,
                each.state,
                each.device,
                f"{each.done}/{each.total}",
                "" if each.took is None else time_words(each.took),
                each.words,
            )
            for each in jobs
        )
        grid = Grid(headings=("job", "state", "device", "done", "took", "says"), rows=lines, words=6)
        table = Table("jobs", [grid]) if jobs else None
        pieces = [Piece("g", "log", job.log, lambda: f"{log}\n")] if job is not None and log else []
        if job is not None and job.line:
            pieces.append(command_piece(job.line))
        return Shared([*pieces, *(table_pieces(table) if table is not None else ())], table=table)

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

    def action_retry_all(self) -> None:
        """Begin every job again that failed or was cancelled."""
        for job in self._jobs.listed():
            if job.can_retry:
                self._jobs.retry(job.id)

    def action_move(self, step: int) -> None:
        """Move the job under the cursor up or down the queue."""
        job = self.query_one(JobsTable).job
        if job is None:
            return
        if self._jobs.move(job.id, step):
            self.jobs_changed()

    def _show_log(self) -> None:
        from fa_core.engine.messages import log_tail

        job = self.query_one(JobsTable).job
        log = job.log if job is not None else ""
        said = [job.error] if job is not None and job.error else []
        nothing = [] if job is None else ["nothing was written" if job.over else "nothing written yet"]
        shown = (log, [*(log_tail(Path(log), 200) if log else []), *said] or nothing)
        if shown != self._log:
            self._log = shown
            self.query_one("#log-title", Line).set((" log ", "dim"), (log, "dim"))
            self.query_one("#log", TextLines).set_lines(shown[1])
