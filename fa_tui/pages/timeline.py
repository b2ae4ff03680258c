"""Timeline: the seeds of a method over their epochs, and where each diagnostic first fires."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from math import ceil

from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.widget import Widget

from fa_core.analysis.timeline import Replay, Timeline, by_condition
from fa_core.formats.trace import Trace
from fa_core.report.diagnostics import DIAGNOSTICS
from fa_core.report.report_facts import TRAINING
from fa_core.reporting.blocks import Grid, by_note
from fa_core.reporting.records import timeline_record
from fa_core.reporting.sections.analyses import timeline_blocks
from fa_tui.later import Later
from fa_tui.pages.page import Page
from fa_tui.session import Session
from fa_tui.share import Shared, Table, command_for
from fa_tui.views.epochs import traces_in_scope, traces_of, without_traces
from fa_tui.views.looks import SeedLooks
from fa_tui.views.words import filter_name, limit_words, title_facts
from fa_tui.widgets.chart import Canvas
from fa_tui.widgets.epoch_chart import SHOWN, epoch_chart, is_recorded
from fa_tui.widgets.line import Line, TabBar, TextLines
from fa_tui.widgets.painted import Row, hidden
from fa_tui.widgets.table import GridTable, LineTable

_BOTH = 120
"""Columns of the terminal from which a second quantity stands beside the first."""
_LEAST_CHART = 7
_MOST_DIM = 60
"""Other lines that are drawn; more would make each key slow."""


def _same(one: Timeline | Trace, other: Timeline | Trace) -> bool:
    """Whether both are of one run; a replayed one may have further axes."""
    named = (one.source, one.method, one.seed) == (other.source, other.method, other.seed)
    return named and {**one.axes, **other.axes} in (one.axes, other.axes)


def _name(run: Timeline) -> str:
    return run.key if run.seed is None else f"s{run.seed}"


class TimelinePage(Page):
    """A chart of one quantity, and the table of first fires, whose line the chart shows.

    Attributes:
        judge_later: finds the first fires again.
    """

    HELP = """
The runs over their epochs
Below, a line per method: the first epoch at which each diagnostic fires, a number per seed \
(–: never; ·: not measured; healed: seeds that pass at the end), (d) last: at the last epoch \
alone, where no epoch records a baseline of its own; what stopping at (a) or (b) would have saved, \
and the accuracy there and at the end (of the runs that stop, if any). \
Above, the seeds of the line under the cursor, each with its mark and colour, and dim the first \
seed of every other line; in a terminal of \
120 columns beside them the next quantity. ✗ is the epoch at which a seed first fires (∞ at the \
top: its value is not finite there). Dashed across: the threshold; of (d) each seed has its own. A \
mark whose place is taken stands further back on its curve. ~: undecided at the end. An epoch \
without intervals is judged by its numbers.

  1 to 5        ‖h_L‖, ‖g_L‖, growth, accuracy, training loss
  ↑ ↓ or k j    another method
  ← → or h l    the columns of the table
"""
    DEFAULT_CSS = """
    TimelinePage {
        & #quantities { height: 1; }
        & TabBar { width: auto; background: $background; }
        & #about { width: 1fr; padding: 0 0 0 2; }
        & #charts Canvas { width: 1fr; }
        & #beside { margin: 0 0 0 1; }
        & GridTable { height: 1fr; }
        & #notes { display: none; height: 1fr; padding: 1 1; color: $text-muted; }
        &.-empty #quantities, &.-empty #charts, &.-empty GridTable { display: none; }
        &.-empty #notes { display: block; }
    }
    """

    BINDINGS = [
        hidden(
            str(place),
            f"open({shown.label!r})",
            shown.label,
            tooltip=f"{shown.label} over the epochs",
        )
        for place, shown in enumerate(SHOWN, 1)
    ]

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._shown = SHOWN[0]
        self._found: list[Timeline] = []
        self._lines: list[list[Timeline]] = []
        self._grids: list[Grid] = []
        keys = {shown.label: str(place) for place, shown in enumerate(SHOWN, 1)}
        self.tabs = TabBar(keys, self._shown.label, self.action_open)
        self.about, self.canvas, self.beside = Line(id="about"), Canvas(), Canvas(id="beside")
        self.charts = Horizontal(self.canvas, self.beside, id="charts")
        self.table, self.notes = GridTable(), TextLines(id="notes")
        self.judge_later = Later(self, self._judge)
        self._read()

    def compose(self) -> ComposeResult:
        yield Horizontal(self.tabs, self.about, id="quantities")
        yield self.charts
        yield self.table
        yield self.notes

    def on_mount(self) -> None:
        self._judge()

    def on_resize(self) -> None:
        # a larger terminal has a larger chart, whatever else it shows but a line of the table
        room = max(self.size.height - 3, _LEAST_CHART)
        self.charts.styles.height = min(ceil(self.app.size.height / 2), room)
        self._draw()

    @property
    def main(self) -> Widget:
        return self.table if self._traces else self.notes

    def show(self, now: Session) -> None:
        before, self.session = self.session, now
        if now.seen is not before.seen or now.traces is not before.traces:
            self._read()
        # a held key must not queue work
        self.judge_later()

    def _read(self) -> None:
        """Read the traces of the runs in scope."""
        session = self.session
        self._traces = traces_in_scope(session)
        self._replay = Replay(self._traces, session.runs.table, session.baseline)
        self._looks = SeedLooks(session.rows, self.app.terminal.glyphs, self._traces)

    def _judge(self) -> None:
        # new runs may come before the line under the cursor
        chosen = self._drawn
        self._found = self._replay.timelines(self.session.thresholds)
        self._lines = by_condition(self._found)
        blocks = timeline_blocks(self._found)
        self._grids = [block for block in blocks if isinstance(block, Grid)][:1]
        for grid in self._grids:
            self.table.set_grid(grid)
        # an empty table has no headings to draw
        self.set_class(not self._lines, "-empty")
        self._go_to(chosen)
        self._draw()
        if self.has_focus_within or self.screen.focused is None:
            self.screen.set_focus(self.main)

    def go_to(self, row: int) -> None:
        self._go_to(traces_of([self.session.rows[row]], self._traces))

    def _go_to(self, wanted: Sequence[Timeline | Trace]) -> None:
        """Put the cursor on the line of some runs."""
        for line, runs in enumerate(self._lines):
            if any(_same(run, one) for run in runs for one in wanted):
                self.table.move_to(line)
                return

    def action_open(self, label: str) -> None:
        """Draw another quantity."""
        self._shown = next(shown for shown in SHOWN if shown.label == label)
        self.tabs.open(label)
        self._draw()

    @property
    def _drawn(self) -> Sequence[Timeline]:
        """The runs of the line under the cursor."""
        if not self._lines:
            return ()
        return self._lines[self.table.line]

    @on(LineTable.Moved)
    def _draw(self) -> None:
        runs = self._drawn
        if runs:
            looks = self._looks.drawn(runs)
            session, glyphs = self.session, self.app.terminal.glyphs
            place = SHOWN.index(self._shown)
            other = SHOWN[place + 1] if self._shown is not SHOWN[-1] else SHOWN[place - 1]
            dim = [own[0] for own in self._lines if own is not runs][:_MOST_DIM]
            for canvas, shown in ((self.canvas, self._shown), (self.beside, other)):
                canvas.set_chart(epoch_chart(shown, runs, looks, session.thresholds, glyphs, dim))
            self.beside.display = self.app.size.width >= _BOTH and is_recorded(runs, other)
            self.about.set(*self._about(runs))
        else:
            self.notes.set_lines(without_traces(self.session)[1])
        self.app.explorer.describe()

    def legend(self) -> Row:
        rows, work = self.session.rows, self.session.work
        # how far a training was when it was read, and is
        live = {rows[row].report.unmeasured.get(TRAINING): now.text() for row, now in work.items()}
        notes = by_note(
            (_name(run), [live.get(note, note) for note in run.skipped]) for run in self._drawn
        )
        text = "; ".join(notes).replace("--frozen-baseline", "w")
        return [(f" {text}", "dim")] if text else super().legend()

    def title(self) -> Row:
        runs, session = self._drawn, self.session
        if not runs:
            return [(f" {without_traces(session)[0]} ", "strong")]
        looks = zip(runs, self._looks.drawn(runs), strict=True)
        legend = [(f" {look.mark} {_name(run)} ", look.style) for run, look in looks]
        more = []
        if session.filter is not None:
            more.append((f" {filter_name(session.filter)}", "dim"))
        if any(run.unfinished for run in runs):
            more.append(("  last line incomplete", "accent"))
        name = self.table.text[self.table.line + 1][0]
        return [(f" {name} ", "strong"), *legend, *more, *title_facts(session)]

    def _about(self, runs: Sequence[Timeline]) -> Iterable[tuple[str, str]]:
        """What the chart shows of the quantity."""
        shown = self._shown
        if not is_recorded(runs, shown):
            yield "not recorded", "warn"
            return
        if shown.log:
            yield "log  ", "dim"
        if shown.letter or shown.marks == "d":
            one = DIAGNOSTICS[shown.marks]
            unit = " pp over frozen" if shown.marks == "d" else ""
            yield limit_words(one, self.session.thresholds) + unit, "bad"
        if any(run.first_fire.get(shown.marks) is not None for run in runs):
            yield f"  {self.app.terminal.glyphs.fires} first", "bad"

    def shared(self) -> Shared:
        """The runs with a trace, and the table of first fires."""
        if not self._grids:
            return Shared()
        table = Table(self._grids[0], partial(timeline_record, self._found))
        command = command_for(self.app, "timeline")
        return Shared(self.table.text_here, command, self.session.scoped, table)
