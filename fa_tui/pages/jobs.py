"""Jobs: queue, progress, notes, log; cancel and retry."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partialmethod
from pathlib import Path

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.widget import Widget

from fa_core.audit.messages import log_tail
from fa_core.reporting.blocks import Grid
from fa_tui.jobs.listing import Listed, time_words
from fa_tui.pages.page import Page
from fa_tui.screens.questions import SureScreen
from fa_tui.session import Session
from fa_tui.share import Shared
from fa_tui.widgets.line import TextLines, Title
from fa_tui.widgets.painted import Row
from fa_tui.widgets.table import GridTable, LineTable

_HEADINGS = ("job", "state", "progress", "time left", "what it says")
_ORDER = {"running": 0, "queued": 1, "failed": 2}
"""Order of states: running first, then failed; finished last, latest first."""


def jobs_grid(jobs: Sequence[Listed]) -> Grid:
    """A line per job; failed ones stand out."""
    rows = []
    for job in jobs:
        progress = f"{job.done}/{job.total}" if job.total else ""
        left = "" if job.left is None else time_words(job.left)
        rows.append((job.name, job.state, progress, left, job.words))
    failed = frozenset(place for place, job in enumerate(jobs) if job.state == "failed")
    return Grid(_HEADINGS, tuple(rows), words=len(_HEADINGS), marked=failed)


_NONE_YET = """\
  space    in the matrix marks runs; m then measures them, or the one under the cursor

  Training is started in a shell: fa-tui train --method dfa --out DIR.
  Runs in an open folder appear by themselves.

  Each job gets a line here: how far it is, the time left, what it says last.
"""


class JobLog(TextLines):
    """A job's log."""


class JobsPage(Page):
    """The jobs, and the log of the job under the cursor."""

    HELP = """
The jobs: runs that are measured here, files that are written, what other shells train or measure
Finished runs are on disk as soon as their line says done. A worker that dies fails its one job. \
x ends a job of this explorer, after a question; what another shell began is ended there (kill, \
with its process). \
A file that is ended leaves nothing behind. A run that was measured again shows =, or ≠ and \
the first value that differs, or ? and what was not checked. \
R begins again one that failed or was ended. \
The time left is shown once there is a rate to compute it from. \
What runs is on top, what failed stands out; the cursor stays on its job. Above the log: its \
device and process. ← → show the end of a long line.
"""
    DEFAULT_CSS = """
    JobsPage {
        & GridTable { height: 1fr; min-height: 4; }
        & #log-pane { height: 40%; }
        & #none-yet { display: none; height: 1fr; padding: 1 1; }
        &.-none {
            & GridTable, & #log-pane { display: none; }
            & #none-yet { display: block; }
        }
        & #log-title { background: $panel; }
        & #log { height: 1fr; padding: 0 1; color: $text-muted; }
    }
    """

    BINDINGS = [
        Binding(
            "x,delete",
            "cancel",
            "End",
            key_display="x",
            tooltip="end the job under the cursor, after a question",
        ),
        Binding("enter", "go", "Go there", tooltip="to the job's run in the matrix"),
        Binding("R", "retry", "Again", tooltip="begin a failed or ended job again"),
        Binding(
            "X",
            "cancel_all",
            "End all",
            key_display="X",
            tooltip="end everything that is not finished, after a question",
        ),
    ]

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._jobs = self.app.jobs
        # created here: jobs change even while the page closes
        self.table, self.written = GridTable(id="jobs"), JobLog(id="log")
        self.none_yet = TextLines(_NONE_YET.splitlines(), id="none-yet")
        self._log_title = Title(id="log-title")
        self._listed: Sequence[Listed] = ()
        self.table.set_grid(jobs_grid(()))
        self._log: Sequence[str] = ()

    def compose(self) -> ComposeResult:
        yield self.table
        yield self.none_yet
        with Vertical(id="log-pane"):
            yield self._log_title
            yield self.written

    def on_mount(self) -> None:
        self._timer = self.set_interval(1.0, self.jobs_changed, pause=True)

    def on_show(self) -> None:
        self.jobs_changed()
        # the times left are others
        self._timer.resume()

    def on_hide(self) -> None:
        self._timer.pause()

    @property
    def main(self) -> Widget:
        return self.table if self.table.line_count() else self.none_yet

    def show(self, now: Session) -> None:
        self.session = now
        self.jobs_changed()

    def title(self) -> Row:
        jobs = self._jobs.listed()
        active = sum(not job.over for job in jobs)
        words = f" {len(jobs)} in all, {active} to go" if jobs else " none yet"
        return [(words, "strong")]

    def jobs_changed(self) -> None:
        """Show the jobs."""
        here, had = self.job, bool(self._listed)
        jobs = list(enumerate(self._jobs.listed()))
        jobs.sort(key=lambda each: (_ORDER.get(each[1].state, 3), -each[0] if each[1].over else 0))
        self._listed = [job for _, job in jobs]
        self.table.set_grid(jobs_grid(self._listed))
        ids = [job.id for job in self._listed]
        if here is not None and here.id in ids:
            self.table.move_to(ids.index(here.id))
        self.set_class(not jobs, "-none")
        if bool(jobs) != had and self.has_focus_within:
            self.screen.set_focus(self.main)
        self._show_job()
        self.app.explorer.describe()

    @property
    def job(self) -> Listed | None:
        """The job under the cursor."""
        return self._listed[self.table.line] if self._listed else None

    def _targets(self, action: str) -> list[Listed]:
        """The jobs that an action applies to."""
        own = [job for job in self._jobs.listed() if not job.elsewhere]
        if action == "cancel_all":
            return [job for job in own if not job.over][::-1]
        # the line may be a tenth of a second old
        here = [job for job in own if self.job and job.id == self.job.id]
        return [job for job in here if (job.can_retry if action == "retry" else not job.over)]

    def _aimed_at(self, action: str) -> list[Listed]:
        """The same; without any it is said why."""
        jobs, under = self._targets(action), self.job
        if not jobs and under is not None:
            where = " in another shell" if under.elsewhere else ""
            done = "run again" if action == "retry" else "ended"
            self.app.say(f"{under.name} cannot be {done}: it is {under.state}{where}", "dim")
        return jobs

    def shared(self) -> Shared:
        """The log of the job under the cursor."""
        return Shared(self.written.text if self.job else "")

    @property
    def row(self) -> int | None:
        job = self.job
        _, _, row = job.id.rpartition(" ") if job else ("", "", "")
        if job is None or job.doing != "measuring" or not row.isdecimal():
            return None
        return int(row)

    def action_cancel(self, which: str = "cancel") -> None:
        """End the job under the cursor, or all unfinished jobs of this explorer, after a
        question."""
        jobs = self._aimed_at(which)
        what = jobs[0].name if len(jobs) == 1 else f"{len(jobs)} jobs"

        def end(answer: bool | None) -> None:
            for job in jobs if answer else ():
                self._jobs.cancel(job.id)

        note = "Finished runs are kept; R begins an ended one again."
        asks = SureScreen(f"End {what}?", note, lambda: self._targets(which))
        if jobs:
            self.app.push_screen(asks, end)

    action_cancel_all = partialmethod(action_cancel, "cancel_all")

    def action_retry(self) -> None:
        """Retry the failed or cancelled job under the cursor."""
        for job in self._aimed_at("retry"):
            self._jobs.measuring.retry(job.id)

    @on(LineTable.Moved)
    def _show_job(self) -> None:
        """Show the log of the job under the cursor."""
        job = self.job
        at_work = ""
        written: Sequence[str] = ()
        lines: list[str] = []
        if job is not None:
            at_work = f" {job.device} " + (f"process {job.pid} " if job.pid else "")
            # notes that the line has no room for, e.g. the reason of a retry
            reason = job.error or ("" if job.state == "done" else job.words)
            written = log_tail(Path(job.log), 200) if job.log else []
            lines = [*written, *filter(None, [reason])]
            lines = lines or ["no log" if job.over else "no log yet"]
        self._log_title.set((at_work, ""), (f" log {job.log}" if job and written else "", "dim"))
        if lines != self._log:
            self._log = lines
            self.written.set_lines(lines)
            self.written.scroll_end(animate=False, immediate=True)
