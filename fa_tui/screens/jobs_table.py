"""The list of jobs: one line each."""

from __future__ import annotations

from collections.abc import Sequence

from rich.segment import Segment

from fa_tui.jobs.listing import Listed, share_bar
from fa_tui.jobs.pace import time_words
from fa_tui.terminal.glyphs import UNICODE, Glyphs
from fa_tui.views.text import cut, padded, width_of
from fa_tui.widgets.table import LineTable

_TONES = {"queued": "dim", "running": "text", "done": "good", "failed": "bad", "cancelled": "warn"}
_HEADINGS = ("state", "progress", "left/took", "device", "what it says")
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
_WORDS, _FEW_WORDS = 20, 12
"""Cells that what a job says gets before its name is cut, and that it gets in any case."""
_SENTENCE = 60
"""Cells that what a job says gets, before longer names are whole and bars grow."""


class JobsTable(LineTable):
    """One line per job; the cursor stays on its job when their order changes."""

    def __init__(self, glyphs: Glyphs = UNICODE) -> None:
        super().__init__(id="jobs")
        self._glyphs = glyphs
        self._jobs: list[Listed] = []
        self._bar = _USUAL_BAR
        self._fitted = (0, 0)

    def set_jobs(self, jobs: Sequence[Listed]) -> None:
        """Show other jobs; only lines that changed are painted again."""
        here = self.job
        before, self._jobs = self._jobs, list(jobs)
        others = [job.id for job in before] != [job.id for job in jobs]
        if others or self._fitted != (self._count_width(), self._device_width()):
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
        """What a job says gets what the other columns leave, and names give way to it; on a wide screen bars grow."""
        counts, device = self._fitted = (self._count_width(), self._device_width())
        # for the name, the bar and what the job says
        room = self.view.width - (_STATE + counts + _TIME + device)
        longest = max([width_of(self._glyphs.say(job.name)) for job in self._jobs], default=0)
        wanted = max(_NAMES.start, min(longest, max(_NAMES.stop - 1, room - _USUAL_BAR - _SENTENCE - _AROUND_NAME)))
        self._bar = max(_BARS.start, min(_USUAL_BAR, room - wanted - _AROUND_NAME - _WORDS))
        name = max(_NAMES.start, min(wanted, room - self._bar - _WORDS - _AROUND_NAME)) + _AROUND_NAME
        self._bar += max(0, min(room - name - self._bar - _SENTENCE, _BARS.stop - 1 - self._bar))
        says = max(_FEW_WORDS, room - name - self._bar)
        self.set_widths(name, [_STATE, self._bar + counts, _TIME, device, says])

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

    def frozen(self, line: int | None) -> list[Segment]:
        if line is None:
            return [Segment(" job".ljust(self.frozen_width), self.style_of("head"))]
        name = self._short(self._jobs[line].name, self.frozen_width - _AROUND_NAME)
        chosen = line == self.line
        text = padded(f" {name}", self.frozen_width)
        return [Segment(text, self.style_of("cursor" if chosen and self.has_focus else "text"))]

    def cell(self, line: int | None, column: int) -> list[Segment]:
        width = self.width_of(column)
        if line is None:
            return [Segment(_HEADINGS[column].ljust(width), self.style_of("head"))]
        job = self._jobs[line]
        if column == 1:
            return self._progress(job, width)
        seconds = job.took if job.over else job.left
        lasts = "" if seconds is None else time_words(seconds)
        text = self._short((job.state, "", lasts, job.device, job.words)[column], width - 1)
        tone = _TONES[job.state] if column == 0 or (column == 4 and job.error) else "text"
        return [Segment(padded(text, width), self.style_of(tone))]

    def repaint_cursor(self, before: tuple[int, int]) -> None:
        self.refresh_frozen({before[0], self.line})

    def _progress(self, job: Listed, width: int) -> list[Segment]:
        if not job.total:
            return [Segment(" " * width, self.style_of("text"))]
        bar = share_bar((job.done + job.part) / job.total, self._bar, self._glyphs)
        filled = len(bar.rstrip(bar[-1])) if job.done < job.total else self._bar
        tone = "accent" if job.state == "running" else _TONES[job.state]
        return [
            Segment(bar[:filled], self.style_of(tone)),
            Segment(bar[filled:], self.style_of("dim")),
            Segment(
                f" {self._short(f'{job.done}/{job.total}', width - self._bar - 2)}".ljust(width - self._bar),
                self.style_of("text"),
            ),
        ]

    def _short(self, text: str, width: int) -> str:
        return cut(self._glyphs.say(text), width, self._glyphs.ellipsis)
