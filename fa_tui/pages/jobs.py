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
from fa_tui.jobs import listing
from fa_tui.jobs.listing import Listed
from fa_tui.pages.page import Page
from fa_tui.screens.questions import SureScreen
from fa_tui.session import Session
from fa_tui.share import Shared
from fa_tui.views.fitted import fitted
from fa_tui.views.text import cut, padded, width_of
from fa_tui.widgets.line import Line, TextLines
from fa_tui.widgets.painted import Row
from fa_tui.widgets.table import LineTable

_TONES = {"queued": "dim", "running": "text", "done": "good", "failed": "bad", "cancelled": "warn"}
_HEADINGS = ("state", "progress", "time", "device", "pid, rate", "what it says")
_STATE, _BAR, _TIME = 10, 10, 12
_COUNTS = range(7, 18)
"""Cells of ``done/total`` with its blanks, after the bar."""
_DEVICES = range(8, 25)
"""Cells of a device on a cluster, which includes the machine."""
_WIDE = 100
"""Width of the window that has room for it."""
_PID, _PROCESS, _ROOMY = 9, 26, 120
"""Cells of a process; with its rate in a window of this width. The log's title has both."""
_SAYS = 20
_IMPORTANCE = (0, 1, 5, 2, 3, 4)
_ORDER = {"running": 0, "queued": 1, "failed": 2}
"""Order of states: running first, then failed; finished last, latest first."""
_AROUND_NAME = 3
_LEAST_NAME = 15


class JobsTable(LineTable):
    """A line per job; the cursor follows its job."""

    highlights_cell = False

    def __init__(self) -> None:
        super().__init__(id="jobs")
        self._jobs: list[Listed] = []

    def set_jobs(self, jobs: Sequence[Listed]) -> None:
        """Show other jobs."""
        here = self.job
        places = {job.id: place for place, job in enumerate(jobs)}
        self._jobs = sorted(
            jobs, key=lambda job: (_ORDER.get(job.state, 3), -places[job.id] if job.over else 0)
        )
        self._fit()
        self.move_to(self._line_of(here))

    def _line_of(self, here: Listed | None) -> int:
        """New line of a job; from a job that just finished the cursor goes to the next running
        one."""
        now = next((line for line, job in enumerate(self._jobs) if here and job.id == here.id), 0)
        ended = (
            here is not None
            and here.state == "running"
            and bool(self._jobs)
            and self._jobs[now].over
        )
        if ended and not self._jobs[0].over:
            return 0
        return now

    def _fit(self) -> None:
        """Leave what the other columns do not need to the notes."""
        width, say = self.view.width, self._glyphs.say
        counts = _within(_COUNTS, [3 + 2 * len(f"{job.total}") for job in self._jobs])
        devices = _DEVICES[: 1 + max(0, width - _WIDE)]
        device = _within(devices, [1 + width_of(say(job.device)) for job in self._jobs])
        name = _AROUND_NAME + max((width_of(say(job.name)) for job in self._jobs), default=0)
        process = _PROCESS if width >= _ROOMY else _PID
        widths = [_STATE, _BAR + counts, _TIME, device, process, _SAYS]
        name, shown = fitted(name, widths, width, least=_LEAST_NAME, order=_IMPORTANCE)
        widths = [cells if place in shown else 0 for place, cells in enumerate(widths)]
        widths[-1] = max(0, width - name - sum(widths[:-1]))
        self.set_widths(name, widths)

    def on_resize(self) -> None:
        self._fit()
        self.scroll_to_cursor()

    def watch_show_vertical_scrollbar(self) -> None:
        self._fit()

    @property
    def job(self) -> Listed | None:
        """The job under the cursor."""
        if self._jobs:
            return self._jobs[self.line]
        return None

    def line_count(self) -> int:
        return len(self._jobs)

    def frozen(self, line: int | None) -> Row:
        if line is None:
            return [(" job".ljust(self.frozen_width), "head")]
        name = self._short(self._jobs[line].name, self.frozen_width - _AROUND_NAME)
        if line == self.line and self.has_focus:
            tone = "cursor"
        else:
            tone = "text"
        return [(padded(f" {name}", self.frozen_width), tone)]

    def cell(self, line: int | None, column: int) -> Row:
        width = self.width_of(column)
        if line is None:
            heading = _HEADINGS[column]
            if len(heading) >= width:
                heading, _, _ = heading.partition(",")
            return [(heading.ljust(width)[:width], "head")]
        job = self._jobs[line]
        if column == 1:
            return self._progress(job, width)
        process = process_words(job)
        if width < _PROCESS:
            process = str(job.pid or "")
        texts = (job.state, "", listing.times_of(job), job.device, process, job.says)
        text = self._short(texts[column], width - 1) if width else ""
        if column == 0 or (column == 5 and job.error):
            tone = _TONES[job.state]
        else:
            tone = "text"
        if column == 5 and job.silent:
            tone = "warn"
        return [(padded(text, width), tone)]

    def repaint_cursor(self, before: tuple[int, int]) -> None:
        self.refresh_frozen({before[0], self.line})

    def _progress(self, job: Listed, width: int) -> Row:
        if not job.total or not width:
            return []
        on, off = listing.share_bar(job.done / job.total, _BAR, self._glyphs)
        if job.state == "running":
            tone = "accent"
        else:
            tone = _TONES[job.state]
        room = width - _BAR
        counts = self._short(f"{job.done}/{job.total}", room - 2)
        return [(on, tone), (off, "dim"), (f" {counts}".ljust(room), "text")]

    def _short(self, text: str, width: int) -> str:
        return cut(self._glyphs.say(text), width, self._glyphs.ellipsis)


def _within(bounds: range, wanted: Sequence[int]) -> int:
    """The largest number, clamped to bounds."""
    return max(bounds.start, min(max(wanted, default=0), bounds.stop - 1))


def process_words(job: Listed) -> str:
    """A job's process and rate, if known.

    >>> process_words(Listed(id="1", name="x", state="running", pid=71, rate=2.5))
    '71  2.5/s'
    """
    words = (str(job.pid or ""), listing.rate_words(job.rate))
    return "  ".join(filter(None, words))


_NONE_YET = """\
  space    in the matrix marks runs; m then measures them, or the one under the cursor

  Training is started in a shell: fa-tui train --method dfa --out DIR.
  Runs in an open folder appear by themselves.

  Each job gets a line here: how far it is, the time left, what it says last.
"""


class JobLog(TextLines):
    """A job's log, scrolled to its end."""

    follows = True


class JobsPage(Page):
    """The jobs, and the log of the job under the cursor."""

    HELP = """
The jobs: runs that are measured here, files that are written, what other shells train or measure
Finished runs are on disk as soon as their line says done. A worker that dies fails its one job. \
x ends a job of this explorer, after a question; what another shell began is ended there (kill, \
with its process). \
A file that is ended leaves nothing behind. A run that was measured again shows = or ≠ and \
the first value that differs. \
M begins again all that failed or were ended. \
The time left is shown once there is a rate to compute it from; of a job that is over, the time \
it took. \
What runs is on top, and the cursor goes on to what runs next. Above the log: its process and \
rate.
"""
    DEFAULT_CSS = """
    JobsPage {
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

    BINDINGS = [
        Binding(
            "x,delete",
            "cancel",
            "End",
            key_display="x",
            tooltip="end the job under the cursor, after a question",
        ),
        Binding("enter", "go", "Go there", show=False, tooltip="to the job's run in the matrix"),
        Binding("m", "retry", "Again", tooltip="begin a failed or ended job again"),
        Binding(
            "X",
            "cancel_all",
            "End all",
            key_display="X",
            tooltip="end everything that is not finished, after a question",
        ),
        Binding(
            "M",
            "retry_all",
            "All again",
            key_display="M",
            tooltip="begin all failed and ended jobs again",
        ),
    ]

    def __init__(self, session: Session, row: int | None) -> None:
        super().__init__(session, row)
        self._jobs = self.app.jobs
        # created here: jobs change even while the page closes
        self.table, self.written = JobsTable(), JobLog(id="log")
        self.none_yet = TextLines(_NONE_YET.splitlines(), id="none-yet")
        self._log_title = Line(id="log-title")
        self._log: tuple[str, list[str]] = ("", [])

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
        return [(" jobs ", "accent"), (words, "strong")]

    def jobs_changed(self) -> None:
        """Show the jobs."""
        jobs = self._jobs.listed()
        had = bool(self.table.line_count())
        self.table.set_jobs(jobs)
        self.set_class(not jobs, "-none")
        if bool(jobs) != had and self.has_focus_within:
            self.screen.set_focus(self.main)
        self._show_job()
        self.app.explorer.describe()

    def _targets(self) -> dict[str, list[Listed]]:
        """Action → jobs it applies to."""
        jobs, under = self._jobs.listed(), self.table.job
        active = [job for job in jobs if not (job.over or job.elsewhere)]
        failed = [job for job in jobs if job.can_retry]
        # the line may be a tenth of a second old
        here = under.id if under is not None else ""
        return {
            "cancel": [job for job in active if job.id == here],
            "cancel_all": active[::-1],
            "retry": [job for job in failed if job.id == here],
            "retry_all": failed,
        }

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable only actions that apply to some job."""
        targets = self._targets()
        return action not in targets or bool(targets[action])

    def shared(self) -> Shared:
        """The log of the job under the cursor."""
        return Shared(self.written.text if self.table.job else "")

    @property
    def row(self) -> int | None:
        job = self.table.job
        _, _, row = job.id.rpartition(" ") if job else ("", "", "")
        if job is None or job.doing != "measuring" or not row.isdecimal():
            return None
        return int(row)

    async def action_go(self) -> None:
        """Go to the job's run in the matrix."""
        if self.row is None:
            self.app.say("no run here", "dim")
        else:
            await self.app.explorer.open_at("Matrix", self.row)

    def action_cancel(self, which: str = "cancel") -> None:
        """End the job under the cursor, or all unfinished jobs of this explorer, after a
        question."""
        jobs = self._targets()[which]
        what = jobs[0].name if len(jobs) == 1 else f"{len(jobs)} jobs"

        def end(answer: bool | None) -> None:
            for job in jobs if answer else ():
                self._jobs.cancel(job.id)

        note = "Finished runs are kept; m begins an ended one again."
        self.app.push_screen(SureScreen(f"End {what}?", note), end)

    action_cancel_all = partialmethod(action_cancel, "cancel_all")

    def action_retry(self, which: str = "retry") -> None:
        """Retry the job under the cursor, or all failed and cancelled jobs."""
        for job in self._targets()[which]:
            self._jobs.retry(job.id)

    action_retry_all = partialmethod(action_retry, "retry_all")

    @on(LineTable.Moved)
    def _show_job(self) -> None:
        """Show the log of the job under the cursor, and the keys that apply to it."""
        job = self.table.job
        if job is not None:
            log = job.log
        else:
            log = ""
        # notes that the line has no room for, e.g. the reason of a retry
        if job and (text := job.error or ("" if job.state == "done" else job.says)):
            reason = [text]
        else:
            reason = []
        if job is None:
            nothing = []
        else:
            nothing = ["no log" if job.over else "no log yet"]
        if job is not None:
            at_work = process_words(job)
        else:
            at_work = ""
        self._log_title.set((f" {at_work} " if at_work else "", ""), (f" log {log}", "dim"))
        self.refresh_bindings()
        shown = (log, [*(log_tail(Path(log), 200) if log else []), *reason] or nothing)
        if shown != self._log:
            self._log = shown
            self.written.set_lines(shown[1])
