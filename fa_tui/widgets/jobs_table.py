"""The list of jobs: one line each."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment

from fa_tui.jobs.listing import Listed
from fa_tui.jobs.machine import share_bar
from fa_tui.jobs.remaining import time_words
from fa_tui.widgets.glyphs import UNICODE, Glyphs
from fa_tui.widgets.line_table import LineTable

_TONES = {"queued": "dim", "running": "text", "done": "good", "failed": "bad", "cancelled": "warn"}
_COLUMNS = (("state", 10), ("progress", 19), ("left", 8), ("device", 8))
_SAYS = "what it says"
_BAR = 10
_NAMES = range(9, 31)
_WORDS = 20
"""Cells that what a job says gets at least, before its name is cut."""


class JobsTable(LineTable):
    """One line per job; the cursor stays on its job when their order changes."""

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
            self.move_to(self._line_of(here))
            return
        for line, (old, new) in enumerate(zip(before, self._jobs, strict=True)):
            if old != new:
                self.refresh_cells([(line, column) for column in range(self.column_count)])

    def _line_of(self, here: Listed | None) -> int:
        """Where a job went; at first the cursor is on the job that is at work."""
        if here is not None:
            return next((line for line, job in enumerate(self._jobs) if job.id == here.id), self.line)
        return next((line for line, job in enumerate(self._jobs) if not job.over), 0)

    def _fit(self) -> None:
        """What a job says gets what the other columns leave, and names give way to it."""
        widths = [width for _, width in _COLUMNS]
        room = self.view.width - sum(widths)
        longest = max([len(job.name) for job in self._jobs], default=0)
        name = max(_NAMES.start, min(longest, _NAMES.stop - 1, room - _WORDS)) + 3
        self.set_widths(name, [*widths, max(_WORDS, room - name)])

    def on_resize(self) -> None:
        self._fit()
        self.scroll_to_cursor()

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
