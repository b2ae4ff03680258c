"""The jobs: queue, progress, what the worker says; cancel and retry."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.segment import Segment
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import Screen

from fa_tui.widgets.glyphs import UNICODE, Glyphs
from fa_tui.widgets.keybar import KeyBar
from fa_tui.widgets.line import Line
from fa_tui.widgets.line_table import LineTable
from fa_tui.widgets.text_lines import TextLines

if TYPE_CHECKING:
    from fa_core.engine import JobView
    from fa_tui.measuring import Measuring

_TONES = {"queued": "dim", "running": "text", "done": "good", "failed": "bad", "cancelled": "warn"}
_COLUMNS = (("state", 11), ("progress", 24), ("device", 9), ("what it says", 60))
_BAR = 12


class JobsTable(LineTable):
    """One line per job."""

    help_text = """\
The jobs: one line per run that is or was to be measured.
Finished runs are on disk as soon as their line says done. A worker that dies fails its one job.
"""

    def __init__(self, measuring: Measuring, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id="jobs")
        self._measuring = measuring
        self._glyphs = glyphs
        self._jobs: list[JobView] = []

    def set_jobs(self, jobs: Sequence[JobView]) -> None:
        """Show other jobs; only lines that changed are painted again."""
        before, self._jobs = self._jobs, list(jobs)
        if len(before) != len(self._jobs) or not self.column_count:
            names = [len(self._measuring.name(view.job.id)) for view in jobs]
            self.set_widths(max([10, *names]) + 3, [width for _, width in _COLUMNS])
            return
        for line, (old, new) in enumerate(zip(before, self._jobs, strict=True)):
            if old != new:
                self.refresh_frozen([line])
                self.refresh_cells([(line, column) for column in range(len(_COLUMNS))])

    @property
    def job(self) -> JobView | None:
        """The job under the cursor."""
        return self._jobs[self.line] if self._jobs else None

    def line_count(self) -> int:
        return len(self._jobs)

    def frozen(self, line: int | None) -> list[Segment]:
        if line is None:
            return [Segment(" run".ljust(self.frozen_width), self.style_of("header"))]
        name = f" {self._measuring.name(self._jobs[line].job.id)}".ljust(self.frozen_width)
        chosen = line == self.line
        return [Segment(name, self.style_of("cursor" if chosen and self.has_focus else "text"))]

    def cell(self, line: int | None, column: int) -> list[Segment]:
        name, width = _COLUMNS[column]
        if line is None:
            return [Segment(name.ljust(width), self.style_of("header"))]
        view = self._jobs[line]
        state = view.state.value
        text = (state, self._progress(view), view.device, self._glyphs.say(_words(view)))[column]
        tone = _TONES[state] if column == 0 or (column == 3 and view.error) else "text"
        return [Segment(text[: width - 1].ljust(width), self.style_of(tone))]

    def repaint_cursor(self, before: tuple[int, int]) -> None:
        self.refresh_frozen({before[0], self.line})

    def _progress(self, view: JobView) -> str:
        if not view.total:
            return ""
        filled = round(_BAR * view.done / view.total)
        on, off = ("━", "─") if self._glyphs.braille else ("=", "-")
        return f"{on * filled}{off * (_BAR - filled)} {view.done}/{view.total}"


class JobsScreen(Screen[None]):
    """The jobs, and below them the log of the one under the cursor.

    Args:
        measuring: the jobs.
        glyphs: characters to draw with.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,J", "dismiss", "Back", key_display="esc"),
        Binding("x,delete", "cancel", "Cancel", key_display="x", tooltip="cancel the job under the cursor"),
        Binding("r", "retry", "Retry", tooltip="queue a failed or cancelled job again"),
        Binding("X", "cancel_all", "Cancel all", key_display="X", tooltip="cancel everything that is not finished"),
    ]

    DEFAULT_CSS = """
    JobsScreen {
        & #title { background: $panel; }
        & JobsTable { height: 1fr; }
        & #log-title { background: $panel; }
        & #log { height: 40%; padding: 0 1; color: $text-muted; }
    }
    """

    def __init__(self, measuring: Measuring, *, glyphs: Glyphs) -> None:
        super().__init__()
        self._measuring = measuring
        self._glyphs = glyphs

    def compose(self) -> ComposeResult:
        yield Line(self._glyphs, id="title")
        yield JobsTable(self._measuring, self._glyphs)
        with Vertical(id="log-pane"):
            yield Line(self._glyphs, id="log-title")
            yield TextLines(self._glyphs, follow=True, id="log")
        yield KeyBar(self._glyphs)

    def on_mount(self) -> None:
        self.query_one(JobsTable).focus()
        self.jobs_changed(self._measuring.jobs())

    def jobs_changed(self, jobs: Sequence[JobView]) -> None:
        """Show how the jobs stand."""
        self.query_one(JobsTable).set_jobs(jobs)
        active = sum(1 for view in jobs if not view.state.final)
        words = f" {len(jobs)} in all, {active} to go" if jobs else " none yet: mark runs with space, then press m"
        self.query_one("#title", Line).set((" jobs ", "accent"), (words, "strong"))
        self._show_log()

    def on_line_table_moved(self) -> None:
        self._show_log()

    def action_cancel(self) -> None:
        """Cancel the job under the cursor."""
        view = self.query_one(JobsTable).job
        if view is not None and not view.state.final:
            self._measuring.cancel(view.job.id)

    def action_cancel_all(self) -> None:
        """Cancel every job that is not finished."""
        for view in reversed(self._measuring.jobs()):
            if not view.state.final:
                self._measuring.cancel(view.job.id)

    def action_retry(self) -> None:
        """Queue the job under the cursor again, if it failed or was cancelled."""
        view = self.query_one(JobsTable).job
        if view is not None and view.state.value in ("failed", "cancelled"):
            self._measuring.retry(view.job.id)

    def _show_log(self) -> None:
        from fa_core.engine.process import log_tail

        view = self.query_one(JobsTable).job
        log = view.log if view is not None else ""
        self.query_one("#log-title", Line).set((" log ", "dim"), (log, "dim"))
        said = [view.error] if view is not None and view.error else []
        self.query_one("#log", TextLines).set_lines([*(log_tail(Path(log), 200) if log else []), *said])


def _words(view: JobView) -> str:
    """What a job has to say, without the path that its line names already."""
    return view.error.removeprefix(f"{view.job.checkpoint}: ") or view.note
