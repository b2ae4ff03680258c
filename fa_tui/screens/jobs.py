"""The jobs: queue, progress, what they say, how busy the machine is; cancel, retry, order, log."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, partialmethod
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import Screen

from fa_core.reporting.blocks import Grid
from fa_tui.jobs.listing import (
    Listed,
    Machine,
    MachineWatch,
    machine_lines,
    rate_words,
    share_bar,
    size_words,
    time_words,
)
from fa_tui.sharing.pieces import Piece, Shared, Table, command_piece, table_pieces
from fa_tui.views.text import cut, padded, width_of
from fa_tui.widgets.line import KeyBar, Line, TextLines
from fa_tui.widgets.painted import Row
from fa_tui.widgets.table import LineTable

if TYPE_CHECKING:
    from fa_tui.app import ExplorerApp
    from fa_tui.jobs.control import JobControl


_TONES = {"queued": "dim", "running": "text", "done": "good", "failed": "bad", "cancelled": "warn"}
_HEADINGS = ("state", "progress", "left/took", "device", "pid, memory, rate", "what it says")
_STATE = _TIME = 10
_COUNTS = range(7, 18)
"""Cells that ``done/total`` and the blanks around it get; a bar is before them."""
_BARS = range(6, 41)
_USUAL_BAR = 10
"""A bar is shorter where a name or what a job says would be cut."""
_NAMES = range(9, 31)
_AROUND_NAME = 3
_DEVICES = range(8, 25)
"""A cluster's names its machine, too."""
_WIDE = 100
"""Cells beyond which there is room for that."""
_PROCESS, _ROOMY = 26, 120
"""Cells for a process, its memory and rate, in a window of so many; in a smaller one the log's title has them."""
_ORDER = {"running": 0, "queued": 1, "failed": 2}
"""What is at work comes first, then what failed; what is over comes last, and of that the latest first."""
_WORDS, _FEW_WORDS = 20, 12
"""Cells that what a job says gets before its name is cut, and that it gets in any case."""
_SENTENCE = 60
"""Cells that what a job says gets, before longer names are whole and bars grow."""


class JobsTable(LineTable):
    """One line per job; the cursor stays on its job when their order changes."""

    highlights_cell = False

    def __init__(self) -> None:
        super().__init__(id="jobs")
        self._jobs: list[Listed] = []
        self._bar = _USUAL_BAR
        self._fitted = (0, 0)
        self.memory: Mapping[int, int] = {}

    def set_jobs(self, jobs: Sequence[Listed]) -> None:
        """Show other jobs; only lines that changed are painted again."""
        here = self.job
        places = {job.id: place for place, job in enumerate(jobs)}
        first = sorted(jobs, key=lambda job: (_ORDER.get(job.state, 3), -places[job.id] if job.over else 0))
        before, self._jobs = self._jobs, first
        others = [job.id for job in before] != [job.id for job in first]
        if others or self._fitted != (self._count_width(), self._device_width()):
            self._fit()
            self.move_to(self._line_of(here))
            return
        for line, (old, new) in enumerate(zip(before, self._jobs, strict=True)):
            if old != new:
                self.refresh_cells([(line, column) for column in range(self.column_count)])

    def _line_of(self, here: Listed | None) -> int:
        """Where a job went; from one that was at work and is over the cursor goes on to the next one at work."""
        now = next((line for line, job in enumerate(self._jobs) if here and job.id == here.id), 0)
        ended = here is not None and here.state == "running" and bool(self._jobs) and self._jobs[now].over
        return 0 if ended and not self._jobs[0].over else now

    def _fit(self) -> None:
        """What a job says gets what the other columns leave, and names give way to it; on a wide screen bars grow."""
        counts, device = self._fitted = (self._count_width(), self._device_width())
        # for the name, the bar and what the job says
        process = _PROCESS if self.view.width >= _ROOMY else 0
        room = self.view.width - (_STATE + counts + _TIME + device + process)
        longest = max([width_of(self._glyphs.say(job.name)) for job in self._jobs], default=0)
        wanted = max(_NAMES.start, min(longest, max(_NAMES.stop - 1, room - _USUAL_BAR - _SENTENCE - _AROUND_NAME)))
        self._bar = max(_BARS.start, min(_USUAL_BAR, room - wanted - _AROUND_NAME - _WORDS))
        name = max(_NAMES.start, min(wanted, room - self._bar - _WORDS - _AROUND_NAME)) + _AROUND_NAME
        self._bar += max(0, min(room - name - self._bar - _SENTENCE, _BARS.stop - 1 - self._bar))
        says = max(_FEW_WORDS, room - name - self._bar)
        self.set_widths(name, [_STATE, self._bar + counts, _TIME, device, process, says])

    def _count_width(self) -> int:
        longest = 3 + max([2 * len(f"{job.total}") for job in self._jobs], default=0)
        return max(_COUNTS.start, min(longest, _COUNTS.stop - 1))

    def _device_width(self) -> int:
        longest = 1 + max([width_of(self._glyphs.say(job.device)) for job in self._jobs], default=0)
        most = _DEVICES.start + max(0, self.view.width - _WIDE)
        return max(_DEVICES.start, min(longest, most, _DEVICES.stop - 1))

    def on_resize(self) -> None:
        self._fit()
        self.scroll_to_cursor()

    @property
    def job(self) -> Listed | None:
        """The job under the cursor."""
        return self._jobs[self.line] if self._jobs else None

    def line_count(self) -> int:
        return len(self._jobs)

    def frozen(self, line: int | None) -> Row:
        if line is None:
            return [(" job".ljust(self.frozen_width), "head")]
        name = self._short(self._jobs[line].name, self.frozen_width - _AROUND_NAME)
        chosen = line == self.line
        text = padded(f" {name}", self.frozen_width)
        return [(text, "cursor" if chosen and self.has_focus else "text")]

    def cell(self, line: int | None, column: int) -> Row:
        width = self.width_of(column)
        if line is None:
            return [(_HEADINGS[column].ljust(width)[:width], "head")]
        job = self._jobs[line]
        if column == 1:
            return self._progress(job, width)
        seconds = job.took if job.left is None else job.left
        lasts = "" if seconds is None else time_words(seconds)
        process = process_words(job, self.memory)
        text = self._short((job.state, "", lasts, job.device, process, job.words)[column], width - 1) if width else ""
        tone = _TONES[job.state] if column == 0 or (column == 5 and job.error) else "text"
        return [(padded(text, width), tone)]

    def repaint_cursor(self, before: tuple[int, int]) -> None:
        self.refresh_frozen({before[0], self.line})

    def _progress(self, job: Listed, width: int) -> Row:
        if not job.total:
            return []
        bar = share_bar((job.done + job.part) / job.total, self._bar, self._glyphs)
        filled = len(bar.rstrip(bar[-1])) if job.done < job.total else self._bar
        tone = "accent" if job.state == "running" else _TONES[job.state]
        count = f" {self._short(f'{job.done}/{job.total}', width - self._bar - 2)}"
        return [(bar[:filled], tone), (bar[filled:], "dim"), (count.ljust(width - self._bar), "text")]

    def _short(self, text: str, width: int) -> str:
        return cut(self._glyphs.say(text), width, self._glyphs.ellipsis)


def process_words(job: Listed, memory: Mapping[int, int]) -> str:
    """A job's process, its memory and rate, as far as they are known.

    >>> process_words(Listed(id="1", name="x", state="running", pid=71, rate=2.5), {71: 400 << 20})
    '71  400 MiB  2.5/s'
    """
    used = memory.get(job.pid)
    return "  ".join(filter(None, [str(job.pid or ""), size_words(used) if used else "", rate_words(job.rate)]))


_NONE_YET = """\
  space    in the matrix marks runs; m then measures them, or the one under the cursor
  N        starts a training run or an audit

  Each job gets a line here: how far it is, the time left, what it says last.
"""


class JobLog(TextLines):
    """What a job wrote; it stays at its end."""

    follows = True


class JobsScreen(Screen[None]):
    """The jobs, how busy the machine is, and the log of the job under the cursor.

    Args:
        jobs: the jobs.
    """

    app: ExplorerApp

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

    def __init__(self, jobs: JobControl) -> None:
        super().__init__()
        self._jobs = jobs
        self.machine_watch: MachineWatch | None = None
        self._log: tuple[str, list[str]] = ("", [])
        self._offered: set[str] = set()

    def compose(self) -> ComposeResult:
        yield Line(id="title")
        yield TextLines(id="machine")
        yield JobsTable()
        yield TextLines(id="none-yet")
        with Vertical(id="log-pane"):
            yield Line(id="log-title")
            yield JobLog(id="log")
        yield KeyBar()

    def on_mount(self) -> None:
        self.query_one(JobsTable).focus()
        self.query_one("#machine").can_focus = False
        self.query_one("#none-yet", TextLines).set_lines(_NONE_YET.splitlines())
        self.jobs_changed()
        self.machine_watch = MachineWatch(partial(self.app.post_call, self.show_machine), self._jobs.pids)
        self.machine_watch.start()

    def on_unmount(self) -> None:
        if self.machine_watch is not None:
            self.machine_watch.stop()

    def show_machine(self, machine: Machine) -> None:
        """Show how busy the machine is, and the jobs: the times left are others."""
        for pane in self.query("#machine").results(TextLines):
            pane.set_lines(machine_lines(machine, self.app.terminal.glyphs))
            self.query_one(JobsTable).memory = {} if machine.workers is None else machine.workers.each
            self.jobs_changed()

    def jobs_changed(self) -> None:
        """Show the state of the jobs; nothing while the screen opens or closes and its table is not there."""
        if not self.query(JobsTable):
            return
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
        offered = {action for action, jobs in self._targets().items() if jobs}
        if offered != self._offered:
            self._offered = offered
            self.refresh_bindings()

    def _targets(self) -> dict[str, list[Listed]]:
        """The jobs that each action would do something to."""
        jobs, shown = self._jobs.listed(), [table.job for table in self.query(JobsTable)]
        # the line under the cursor may be a tenth of a second old
        under = {job.id for job in shown if job is not None}
        active, failed = [job for job in jobs if not job.over], [job for job in jobs if job.can_retry]
        return {
            "cancel": [job for job in active if job.id in under],
            "cancel_all": active[::-1],
            "retry": [job for job in failed if job.id in under],
            "retry_all": failed,
            "move": [job for job in active if job.id in under and job.state == "queued"],
        }

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Only what works now: there is nothing to cancel of a job that is over."""
        targets = self._targets()
        return action not in targets or bool(targets[action])

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

    def action_cancel(self, which: str = "cancel") -> None:
        """Cancel the job under the cursor, or every job that is not finished."""
        for job in self._targets()[which]:
            self._jobs.cancel(job.id)

    action_cancel_all = partialmethod(action_cancel, "cancel_all")

    def action_retry(self, which: str = "retry") -> None:
        """Begin the job under the cursor again, or every job that failed or was cancelled."""
        for job in self._targets()[which]:
            self._jobs.retry(job.id)

    action_retry_all = partialmethod(action_retry, "retry_all")

    def action_move(self, step: int) -> None:
        """Move the job under the cursor up or down the queue."""
        if any(self._jobs.move(job.id, step) for job in self._targets()["move"]):
            self.jobs_changed()

    def _show_log(self) -> None:
        from fa_core.engine.messages import log_tail

        table = self.query_one(JobsTable)
        job = table.job
        log = job.log if job is not None else ""
        # what its line has no room for, such as why it is tried again
        said = [text] if job and (text := job.error or ("" if job.state == "done" else job.words)) else []
        nothing = [] if job is None else ["nothing was written" if job.over else "nothing written yet"]
        at_work = process_words(job, table.memory) if job is not None else ""
        self.query_one("#log-title", Line).set((f" {at_work} " if at_work else "", ""), (f" log {log}", "dim"))
        shown = (log, [*(log_tail(Path(log), 200) if log else []), *said] or nothing)
        if shown != self._log:
            self._log = shown
            self.query_one("#log", TextLines).set_lines(shown[1])
