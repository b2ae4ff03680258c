"""Timeline: runs over their epochs, thresholds, first fires, and the matrix at an epoch."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from textual import on
from textual.binding import Binding
from textual.containers import Horizontal, Vertical
from textual.widget import Widget

from fa_core.analysis.timeline import EarlyStop, null_bands, timelines
from fa_core.errors import UsageError
from fa_core.reporting.blocks import Grid
from fa_core.reporting.records import timeline_record
from fa_core.reporting.sections.analyses import timeline_blocks
from fa_tui.screens.dialogs import command_for
from fa_tui.screens.threshold_screen import JudgedScreen
from fa_tui.session import Session
from fa_tui.share import Shared, Table
from fa_tui.views import epochs as epoch_views
from fa_tui.views.words import Pieces, place_label
from fa_tui.widgets import epoch_chart, epoch_curves, scrubber
from fa_tui.widgets.line import Line, TextLines
from fa_tui.widgets.matrix import Matrix
from fa_tui.widgets.run_cells import RunsView
from fa_tui.widgets.table import LineTable

STOP_ON = ("ab", "a", "b", "abc", "abcd")

OTHERS = ("dimmed", "left out", "bright")
"""Curves of other methods than the one under the cursor."""
_MOST_ZOOM = 8


def timeline_screen(session: Session, *, at: int | None) -> JudgedScreen:
    """The timeline of the runs in scope, or what to do for one.

    Args:
        session: the runs.
        at: the run to select.
    """
    try:
        return TimelineScreen(session, at=at)
    except UsageError as none:
        return NoTimelineScreen(session, none)


class NoTimelineScreen(JudgedScreen):
    """Says that no run in scope has a trace, and what to do; gives way to the timeline.

    Args:
        session: the runs.
        why: there is no trace.
    """

    BINDINGS = [Binding("T", "dismiss", "Back", show=False)]

    def __init__(self, session: Session, why: UsageError) -> None:
        super().__init__(session)
        self._why = why

    def body(self) -> Iterable[Widget]:
        self.lines = TextLines(id="notes")
        yield self.lines

    def on_mount(self) -> None:
        self.set_title((" timeline ", "accent"), (f" {self._why.what} ", "strong"))
        about = f"Here each run is drawn over its epochs, but there are {self._why.what}."
        self.lines.set_lines([about, "", f"{self._why.hint}.", "", *_HOW_TO])

    def judge(self) -> None:
        """Nothing here depends on thresholds."""

    def reread(self) -> None:
        if epoch_views.replay_of(self.session).traces:
            self.dismiss()
            self.app.explorer.action_lens("timeline")


_HOW_TO = (
    "# Where traces come from",
    "fa-tui train writes trace.jsonl into every run folder.",
    "A log with a value per epoch is a trace: CSV, JSON lines, TensorBoard, Weights & Biases.",
    "In your own training loop, ProtocolMonitor writes them.",
    "Open the folder or the log: fa-tui PATH.",
)


class TimelineScreen(JudgedScreen):
    """Charts, or a single one, a scrubber, and the matrix at the scrubbed epoch.

    Args:
        session: runs, traces and thresholds.
        at: the run to select; if it has no trace, another one of its method.

    Raises:
        UsageError: there is no trace.
    """

    tab = "Timeline"

    BINDINGS = [
        Binding(
            "comma", "scrub(-1)", "Earlier", show=False, key_display=",", tooltip="one epoch back"
        ),
        Binding(
            "full_stop", "scrub(1)", "Later", show=False, key_display=".", tooltip="one epoch on"
        ),
        Binding(
            "left_square_bracket",
            "jump(-1)",
            "Previous change",
            show=False,
            key_display="[",
            tooltip="where letters changed",
        ),
        Binding(
            "right_square_bracket",
            "jump(1)",
            "Change",
            key_display="[ ]",
            tooltip="next change of letters",
        ),
        Binding(
            "n",
            "follow(1)",
            "Method",
            key_display="n p",
            tooltip="follow the next method",
        ),
        Binding("p", "follow(-1)", "Last method", show=False, tooltip="follow the last method"),
        *(
            Binding(
                str(place),
                f"only({place})",
                shown.title,
                show=False,
                tooltip=f"{shown.title} alone",
            )
            for place, shown in enumerate(epoch_curves.SHOWN, 1)
        ),
        Binding("0", "only(0)", "All charts", show=False, tooltip="all charts"),
        Binding(
            "o",
            "others",
            "Others",
            tooltip="the curves of other methods: dimmed, left out, bright",
        ),
        Binding(
            "plus,equals_sign",
            "zoom(1)",
            "Zoom",
            show=False,
            key_display="+ -",
            tooltip="fewer epochs around this one",
        ),
        Binding(
            "minus", "zoom(-1)", "Zoom out", show=False, key_display="-", tooltip="more epochs"
        ),
        Binding("s", "stop_on", "Stop on", tooltip="which diagnostics would have stopped a run"),
        Binding(
            "P",
            "app.show_problems",
            "Problems",
            show=False,
            tooltip="what was not read, or only in part",
        ),
        Binding("enter", "go", "Go there", show=False, tooltip="to this run in the matrix"),
        Binding("T", "dismiss", "Back", show=False),
    ]

    def __init__(self, session: Session, *, at: int | None = None) -> None:
        replay = epoch_views.replay_of(session)
        if not replay.traces:
            raise epoch_views.without_traces(session)
        super().__init__(session)
        self.judged = self._epochs = epoch_views.EpochSession(replay, session.thresholds)
        self._start = None
        self._missing = ""
        if at is not None:
            self._start = epoch_views.run_of(replay, session, at)
            if self._start is None:
                row = session.rows[at]
                self._missing = f"{session.label(at)} of {place_label(row)}"
                methods = [run.method for run in self._epochs.rows]
                if row.method in methods:
                    self._start = methods.index(row.method)
        self._stop_on = STOP_ON[0]
        self._others = OTHERS[0]
        self._only = self._zoom = 0
        self._drawn: int | None = None
        self._stops: list[EarlyStop | None] = []

    def body(self) -> Iterable[Widget]:
        self.charts = [
            epoch_chart.EpochChart(shown, self.app.terminal.glyphs) for shown in epoch_curves.SHOWN
        ]
        self.scrubber = scrubber.Scrubber(self._epochs.replay.epochs, self._epochs.unit)
        self.matrix = epoch_chart.EpochMatrix(self._epochs, self.session)
        yield Vertical(Horizontal(*self.charts[:2]), Horizontal(*self.charts[2:]), id="charts")
        yield self.scrubber
        self.lines = {
            name: Line(id=name) for name in ("run", "numbers", "fires", "stop", "stop-acc", "all")
        }
        for name in ("run", "numbers", "fires", "stop-acc"):
            self.lines[name].add_class("-wide-only")
        self.notes = TextLines(id="notes")
        yield Horizontal(
            self.matrix, Vertical(*self.lines.values(), self.notes, id="said"), id="below"
        )

    def on_mount(self) -> None:
        if not self.app.terminal.colours:
            # nothing would tell dimmed curves from bright ones
            self._others = OTHERS[1]
        self._read()
        self.action_only(0)
        if self._start is not None:
            self.matrix.go_to(self._start)
        self.scrubber.focus()
        self.judge()

    @property
    def _alone(self) -> bool:
        """Whether a single chart is visible."""
        return self._only > 0 or self.has_class("-narrow")

    @property
    def run_chosen(self) -> int | None:
        """The selected run, whose curve is on top; None on an empty cell."""
        return self.matrix.row

    def reread(self) -> None:
        replay = epoch_views.replay_of(self.session)
        if replay.traces:
            chosen = self.run_chosen
            now = self._epochs.follow(replay)
            self.matrix.lay_out()
            if chosen is not None:
                self.matrix.go_to(now.get(chosen, 0))
            self._read()
        elif self.session.scope_text:
            self.dismiss()
            self.app.say(str(epoch_views.without_traces(self.session)), "warn", aloud=False)

    def _read(self) -> None:
        self._points = {
            shown.name: epoch_curves.points_of(self._epochs.replay, shown)
            for shown in epoch_curves.SHOWN
        }
        self._nulls = null_bands(self._epochs.replay.traces, self.session.table)
        # a number without records has a chart only on request
        known = any(y == y for run in self._points["gamma"] for _, y in run)
        self.set_class(not known, "-no-gamma")

    # Movement

    @on(scrubber.Scrubbed)
    def _scrubbed(self, message: scrubber.Scrubbed) -> None:
        epoch = scrubber.nearest(self._epochs.replay.epochs, message.epoch)
        if epoch != self._epochs.epoch:
            self._go_to(epoch)

    def _go_to(self, epoch: int) -> None:
        flips = self._epochs.go_to(epoch)
        if self.matrix.quantity:
            self.matrix.cells.numbers_changed()
            self.matrix.refresh()
        else:
            self.matrix.refresh_runs({flip.row for flip in flips})
        if self.sliders.display:
            self.show_rugs()
        self.count(flips)
        self.soon()

    @on(RunsView.Opened)
    def action_go(self) -> None:
        """Close, with the cursor on this run in the matrix."""
        run = self.run_chosen
        if run is not None:
            self.leave_to(self._epochs.rows[run])

    @on(LineTable.Moved)
    @on(LineTable.Marked)
    def _chosen(self) -> None:
        if self.run_chosen != self._start:
            self._missing = ""
        self.soon()

    def on_picked(self, message: epoch_chart.Picked) -> None:
        self._missing = ""
        self.matrix.go_to(message.run)
        self.soon()

    def action_zoom(self, step: int) -> None:
        """Zoom: show half or twice as many epochs around this one."""
        self._zoom = max(0, min(self._zoom + step, _MOST_ZOOM))
        self.soon()

    def action_others(self) -> None:
        """Dim the curves of other methods, leave them out, or show them bright."""
        self._others = OTHERS[(OTHERS.index(self._others) + 1) % len(OTHERS)]
        self.soon()

    def _bright_runs(self) -> set[int]:
        """Runs with bright curves: the pinned ones, and those of the method under the cursor."""
        if self._others == "bright":
            return {*range(len(self._epochs.rows))}
        return {*self._epochs.marked, *self.matrix.rows_on_line}

    def action_choose(self, step: int) -> None:
        """Move down by so many runs."""
        self.matrix.action_cursor(step, 0)

    def action_follow(self, step: int) -> None:
        """Follow the next or previous method."""
        matrix = self.matrix
        lines = list(filter(matrix.rests_on, range(matrix.line_count())))
        place = (lines.index(matrix.line) + step) % len(lines)
        cells = matrix.grid.lines[lines[place]].cells
        [first, *_] = cells.values()
        matrix.go_to(cells.get(matrix.column, first))

    def action_scrub(self, step: int) -> None:
        """Go to the next or previous recorded epoch."""
        self.scrubber.action_step(step)

    def action_jump(self, direction: int) -> None:
        """Go to the next or previous epoch at which some run's letters change."""
        changes, now = self._epochs.replay.flips(self._epochs.fired), self._epochs.epoch
        ahead = [epoch for epoch in changes if (epoch - now) * direction > 0]
        if ahead:
            self._go_to(ahead[0 if direction > 0 else -1])

    def action_only(self, place: int) -> None:
        """Show a single chart (by number) or all (0); a narrow screen always shows one."""
        self._only = place
        self.set_class(place > 0, "-one")
        for number, chart in enumerate(self.charts, 1):
            chosen = number == max(1, place)
            chart.set_class(chosen, "-only")
            if chosen and chart.parent is not None:
                for row in self.query("#charts Horizontal"):
                    row.set_class(row is chart.parent, "-only")
        if self._stops:
            # a hidden chart is not drawn yet
            self.call_after_refresh(self.judge)

    def action_stop_on(self) -> None:
        """Change the diagnostics that stop the runs."""
        self._stop_on = STOP_ON[(STOP_ON.index(self._stop_on) + 1) % len(STOP_ON)]
        self.judge()

    def shared(self) -> Shared:
        """The runs with a trace, and the table of first fires."""
        session, replay = self.session, self._epochs.replay
        found = timelines(
            replay.traces,
            session.table,
            session.thresholds,
            self._stop_on,
            assumed=session.baseline,
        )
        grids = [block for block in timeline_blocks(found) if isinstance(block, Grid)]
        table = Table(grids[0], partial(timeline_record, found))
        command = command_for(self.app, "timeline", "--stop-on", self._stop_on)
        return Shared(command=command, rows=session.scoped, table=table)

    # Display

    def judge(self) -> None:
        epochs, chosen, replay = self._epochs, self.run_chosen, self._epochs.replay
        self._stops = epochs.stops(self._stop_on)
        fires: dict[str, int | None] = {}
        stop = null = stopped = None
        if chosen is not None:
            fires, null = epochs.first_fires(chosen), self._nulls[chosen]
            stop = self._stops[chosen]
        if stop is not None:
            stopped = stop.epoch
        bright = self._bright_runs()
        behind = epoch_chart.BEHIND_AT_MOST
        if self._alone:
            behind = epoch_chart.BEHIND_IN_ONE
        if self._others == "left out":
            behind = 0
        runs = epoch_chart.drawn_runs(range(len(epochs.rows)), bright, chosen, behind)
        last = max((replay.numbers(run)[-1] for run in bright or runs), default=replay.epochs[-1])
        x = scrubber.zoomed(scrubber.epoch_scale(replay.epochs[0], last), epochs.epoch, self._zoom)
        # nothing moves beyond the last drawn epoch
        shown = [epoch for epoch in replay.epochs if epoch <= last]
        self.scrubber.set(shown, x, min(epochs.epoch, shown[-1]), replay.flips(epochs.fired), fires)
        looks = [epoch_chart.DIMMED] * len(runs)
        own = self.matrix.looks_of_runs()
        for place, run in enumerate(runs):
            if run in bright:
                looks[place] = own[run]
        first = {run: epochs.first_fires(run) for run in runs}
        drawn = epoch_chart.Drawn(runs, looks, chosen, x, first, stopped, null)
        count = len(self.charts)
        for number, chart in enumerate(self.charts, 1):
            if chart.display:
                others = f"{number} of {count}, keys 1 to {count}" if self._alone else ""
                chart.show(
                    epochs, self._points[chart.shown.name], drawn, self.session.thresholds, others
                )
        self._drawn = len(runs)
        self._say_title()
        self._say(chosen, fires)
        self.matrix.refresh_frozen(self.matrix.visible_lines())

    @on(Matrix.ShowsChanged)
    def _say_title(self) -> None:
        showing = self.matrix.quantity.title if self.matrix.quantity else ""
        skipped = self.session.problems_within(trace.source for trace in self._epochs.replay.traces)
        runs, scope = len(self.session.in_scope), self.session.scope_text
        words = epoch_views.title_words(
            self._epochs, runs, self._drawn, showing, skipped, scope, self._missing
        )
        self.set_title(*words)

    def _say(self, chosen: int | None, fires: dict[str, int | None]) -> None:
        epochs = self._epochs
        there = notes = ""
        saved = epochs.saved_by(self._stops)
        texts: dict[str, Pieces] = {"all": epoch_views.all_words(self._stops, saved, self._stop_on)}
        if chosen is None:
            texts["run"] = [("no run here", "warn")]
        else:
            stop, kinds = self._stops[chosen], epochs.kinds(chosen)
            there = epoch_views.accuracy_words(stop)
            notes = "; ".join(epochs.replay.traces[chosen].notes)
            texts["run"] = epoch_views.verdict_words(epochs, chosen, not self.app.terminal.unicode)
            texts["numbers"] = epoch_views.number_words(epochs, chosen)
            texts["fires"] = epoch_views.fire_words(fires, kinds)
            texts["stop"] = epoch_views.stop_words(
                epochs.label(chosen), stop, self._stop_on, epochs, kinds
            )
            texts["stop-acc"] = [(f"  {there}", "dim")]
        for name, line in self.lines.items():
            line.set(*texts.get(name, ()))
        self.notes.set_lines([notes])
        self.lines["stop-acc"].set_class(not there, "-empty")
        self.notes.set_class(not notes, "-empty")
