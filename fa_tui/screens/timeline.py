"""Timeline: the seeds of a method over their epochs, and where each diagnostic first fires."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from math import ceil

from textual import on
from textual.binding import Binding
from textual.containers import Horizontal
from textual.widget import Widget

from fa_core.analysis.timeline import Replay, Timeline, by_condition, frozen_baselines
from fa_core.formats.trace import Trace
from fa_core.report.diagnostics import DIAGNOSTICS
from fa_core.report.numbers import count_text
from fa_core.reporting.blocks import Grid
from fa_core.reporting.records import timeline_record
from fa_core.reporting.sections.analyses import timeline_blocks
from fa_tui.screens.dialogs import command_for
from fa_tui.screens.threshold_screen import JudgedScreen
from fa_tui.session import Session
from fa_tui.share import Shared, Table
from fa_tui.views.epochs import traces_in_scope, traces_of, without_traces
from fa_tui.views.looks import Look, SeedLooks
from fa_tui.views.words import limit_words
from fa_tui.widgets.chart import Canvas
from fa_tui.widgets.epoch_chart import SHOWN, epoch_chart, points_of
from fa_tui.widgets.line import Line, TabLine, TextLines
from fa_tui.widgets.table import GridTable, LineTable

_HOW_TO = (
    "# Where traces come from",
    "fa-tui train writes trace.jsonl into every run folder.",
    "A log with a value per epoch is a trace: CSV, JSON lines, TensorBoard, Weights & Biases.",
    "In your own training loop, ProtocolMonitor writes them.",
    "Open the folder or the log: fa-tui PATH.",
)


def _same(one: Timeline | Trace, other: Timeline | Trace) -> bool:
    """Whether both are of one run."""
    return (one.source, one.method, one.seed, one.axes) == (
        other.source,
        other.method,
        other.seed,
        other.axes,
    )


class TimelineScreen(JudgedScreen):
    """A chart of one quantity, and the table of first fires, whose line the chart shows.

    Args:
        session: runs, traces and thresholds.
        at: the run whose line is under the cursor at first.
    """

    tab = "Timeline"

    BINDINGS = [
        *(
            Binding(
                str(place),
                f"open({place - 1})",
                shown.label,
                show=False,
                tooltip=f"{shown.label} over the epochs",
            )
            for place, shown in enumerate(SHOWN, 1)
        ),
        Binding(
            "P",
            "app.show_problems",
            "Problems",
            show=False,
            tooltip="what was not read, or only in part",
        ),
        Binding("T", "dismiss", "Back", show=False),
    ]

    def __init__(self, session: Session, *, at: int | None = None) -> None:
        super().__init__(session)
        self._at = at
        self._shown = SHOWN[0]
        self._found: list[Timeline] = []
        self._lines: list[tuple[str, list[Timeline]]] = []

    def body(self) -> Iterable[Widget]:
        self.tabs = TabLine([shown.label for shown in SHOWN])
        self.about, self.canvas = Line(id="about"), Canvas()
        self.table, self.notes = GridTable(), TextLines(id="notes")
        yield Horizontal(self.tabs, self.about, id="quantities")
        yield self.canvas
        yield self.table
        yield self.notes

    def on_mount(self) -> None:
        self.reread()
        self.judge()
        if self._at is not None:
            self._go_to(traces_of([self.session.rows[self._at]], self._traces))
        self.table.focus()

    def on_resize(self) -> None:
        # a larger terminal has a larger chart, whatever else it shows
        self.canvas.styles.height = ceil(self.app.size.height / 2)

    def reread(self) -> None:
        """Read the traces of the runs in scope."""
        session = self.session
        self._traces = traces_in_scope(session)
        baselines = frozen_baselines(self._traces, session.table, session.baseline)
        self._replay = Replay(self._traces, baselines)
        self._looks = SeedLooks(session.rows, self.app.terminal.glyphs, self._traces)
        self.set_class(not self._traces, "-empty")

    def judge(self) -> None:
        # new runs may come before the line under the cursor
        chosen = self._lines[self.table.line][1] if self._lines else ()
        self._found = self._replay.timelines(self.session.thresholds)
        self._lines = by_condition(self._found)
        self._blocks = list(timeline_blocks(self._found))
        if self._found:
            first = self._blocks[0]
            assert isinstance(first, Grid)
            self.table.set_grid(first)
        self._go_to(chosen)
        self._draw()

    def _go_to(self, wanted: Sequence[Timeline | Trace]) -> None:
        """Put the cursor on the line of some runs."""
        for line, (_, runs) in enumerate(self._lines):
            if any(_same(run, one) for run in runs for one in wanted):
                self.table.move_to(line)
                return

    def action_open(self, place: int) -> None:
        """Draw another quantity."""
        self._shown = SHOWN[place]
        self.tabs.open(place)
        self._draw()

    @on(LineTable.Moved)
    def _draw(self) -> None:
        if not self._lines:
            self._say_empty()
            return
        _, runs = self._lines[self.table.line]
        looks = self._looks.drawn(runs)
        session = self.session
        self.canvas.set_chart(
            epoch_chart(self._shown, runs, looks, session.thresholds, self.app.terminal.glyphs)
        )
        self._say(runs, looks)
        self.about.set(*self._about(runs))
        notes = dict.fromkeys(note for run in runs for note in run.skipped)
        self.notes.set_lines(["; ".join(notes)])
        self.notes.set_class(not notes, "-empty")

    def _say(self, runs: Sequence[Timeline], looks: Sequence[Look]) -> None:
        """The title: the drawn runs with their looks."""
        names = [f"s{run.seed}" if run.seed is not None else run.key for run in runs]
        legend = [
            (f" {look.mark} {name} ", look.style) for look, name in zip(looks, names, strict=True)
        ]
        session = self.session
        skipped = session.problems_within(run.source for run in runs)
        more = []
        if session.scope_text:
            more.append((f" {session.scope_text}", "dim"))
        if any(run.unfinished for run in runs):
            more.append(("  still growing", "accent"))
        if skipped:
            more.append((f"  {count_text(skipped, 'line')} skipped (P)", "warn"))
        name = self.table.text[self.table.line + 1][0]
        self.set_title((" timeline ", "accent"), (f" {name} ", "strong"), *legend, *more)

    def _about(self, runs: Sequence[Timeline]) -> Iterable[tuple[str, str]]:
        """What the chart shows of the quantity."""
        shown = self._shown
        if not any(value == value for run in runs for _, value in points_of(run, shown)):
            yield "not recorded", "warn"
            return
        if shown.log:
            yield "log  ", "dim"
        if shown.letter or shown.marks == "d":
            one = DIAGNOSTICS[shown.marks]
            unit = " pp over frozen" if shown.marks == "d" else ""
            yield limit_words(one, self.session.thresholds) + unit, "bad"
        if any(run.first_fire.get(shown.marks) is not None for run in runs):
            yield f"  {self.app.terminal.glyphs.fires} ({shown.marks}) first fires", "bad"

    def _say_empty(self) -> None:
        none = without_traces(self.session)
        self.set_title((" timeline ", "accent"), (f" {none.what} ", "strong"))
        self.notes.set_class(False, "-empty")
        self.notes.set_lines([f"{none.hint}.", "", *_HOW_TO])

    def shared(self) -> Shared:
        """The runs with a trace, and the table of first fires."""
        grids = [block for block in self._blocks if isinstance(block, Grid)]
        if not grids:
            return Shared()
        table = Table(grids[0], partial(timeline_record, self._found))
        command = command_for(self.app, "timeline")
        return Shared(self.table.text_here, command, self.session.scoped, table)
