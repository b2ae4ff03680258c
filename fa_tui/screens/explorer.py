"""The main screen: the matrix (or the long view), the run under the cursor, the sliders, what happens now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.screen import Screen

from fa_core.report import LETTERS, DiagnosticThresholds
from fa_tui.cells import LEGEND
from fa_tui.session import Flip, Session, flip_text
from fa_tui.widgets.detail import DetailPane
from fa_tui.widgets.glyphs import Glyphs
from fa_tui.widgets.keybar import KeyBar
from fa_tui.widgets.line import Line
from fa_tui.widgets.line_table import LineTable
from fa_tui.widgets.matrix import Matrix
from fa_tui.widgets.sliders_panel import SlidersPanel, ThresholdsChanged

if TYPE_CHECKING:
    from fa_core.engine import JobView
    from fa_tui.app import ExplorerApp
    from fa_tui.filters import Filter
    from fa_tui.widgets.filter_line import FilterLine
    from fa_tui.widgets.run_table import RunTable

_FLUSH_SECONDS = 0.001


class ExplorerScreen(Screen[None]):
    """Wires the matrix, the detail, the sliders and the status line to the session.

    Args:
        session: the runs and what judges them.
        title: what is open, for the top line.
        glyphs: characters to draw with.
    """

    app: ExplorerApp

    HORIZONTAL_BREAKPOINTS = [(0, "-tiny"), (40, "-narrow"), (100, "-wide")]
    VERTICAL_BREAKPOINTS = [(0, "-flat"), (10, "-short"), (30, "-tall")]

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "measure", "Measure", tooltip="measure the marked runs, or the one under the cursor"),
        *(
            Binding(letter, f"slider('{letter}')", f"Slider {letter}", show=False, tooltip="go to this threshold")
            for letter in LETTERS
        ),
        Binding("t", "toggle_table", "Table", tooltip="the long view: all columns of all runs; again: the matrix"),
        Binding("slash", "filter", "Filter", key_display="/", tooltip="show only the runs that match what you type"),
        Binding("escape", "matrix", "Matrix", show=False, tooltip="back to the matrix"),
        Binding("J", "app.show_jobs", "Jobs", key_display="J", tooltip="queue, progress, logs, cancel, retry"),
        Binding("P", "app.show_problems", "Problems", key_display="P", tooltip="what could not be opened, and why"),
    ]

    def __init__(self, session: Session, *, title: str, glyphs: Glyphs) -> None:
        super().__init__()
        self._session = session
        self._title = title
        self._glyphs = glyphs
        self._pending: DiagnosticThresholds | None = None
        self._detail_due = False
        self._can_measure = False
        self._quantity_shown = ""
        self._flipped = ""
        self._said = ("", "")
        self._progress: list[tuple[str, str]] = []
        self._table: RunTable | None = None
        self._filter: Filter | None = None
        self._shown_count = 0

    def compose(self) -> ComposeResult:
        glyphs = self._glyphs
        yield Line(glyphs, id="title")
        with Horizontal(id="body"):
            yield Matrix(self._session, glyphs=glyphs, id="matrix")
            yield DetailPane(glyphs=glyphs, id="detail")
        yield SlidersPanel(self._session.thresholds, glyphs=glyphs, id="sliders")
        yield Line(glyphs, id="status")
        yield KeyBar(glyphs)
        yield Line(glyphs, id="too-small")

    def on_mount(self) -> None:
        self.matrix = self.query_one(Matrix)
        self.detail = self.query_one(DetailPane)
        self.sliders = self.query_one(SlidersPanel)
        self.status = self.query_one("#status", Line)
        self.query_one("#too-small", Line).set(("too small: ", "warn"), ("40x10 at least", ""))
        self.matrix.focus()
        self._show_title()
        self._show_status()
        self.show_counts()
        self._show_detail()
        self.call_after_refresh(self.app.painted)

    # The run under the cursor.

    @property
    def row(self) -> int | None:
        """The index of the run under the cursor."""
        return self.runs.row

    @property
    def runs(self) -> Matrix | RunTable:
        """The view of the runs that is on screen."""
        return self._table if self._table is not None and self._table.display else self.matrix

    @on(LineTable.Moved)
    def _moved(self) -> None:
        if not self._detail_due:
            self._detail_due = True
            self.set_timer(_FLUSH_SECONDS, self._show_detail)

    def _show_detail(self) -> None:
        self._detail_due = False
        row = self.row
        self.detail.show(None if row is None else self._session.rows[row], self._session.thresholds)
        self._offer_measuring()

    def _offer_measuring(self) -> None:
        """Show the key only where it would do something."""
        offered = bool(self._session.measurable(self._chosen()))
        if offered != self._can_measure:
            self._can_measure = offered
            self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        return action != "measure" or self._can_measure

    # Thresholds.

    @on(ThresholdsChanged)
    def _thresholds_changed(self, message: ThresholdsChanged) -> None:
        flips = self._session.set_thresholds(message.thresholds)
        if flips and self._filter is not None and self._filter.live:
            self.apply_filter(self._filter)
        else:
            self.runs.verdicts_changed(flips)
        self.show_counts(flips)
        self._show_detail()

    def show_counts(self, flips: Sequence[Flip] = ()) -> None:
        """Say how many runs are walked back, and what just flipped."""
        session = self._session
        measured, walked = session.measured(), session.walk_backs()
        count = f"{walked} of {measured} walk back"
        if len(session) > measured:
            count += f", {len(session) - measured} not measured"
        if flips:
            self._flipped = f"flipped: {flip_text(session, flips)}"
        self.sliders.set_summary(count, self._flipped)

    def show_rugs(self) -> None:
        """Put every run's number on the sliders' tracks."""
        for letter in LETTERS:
            self.sliders.set_runs(letter, self._session.values(letter))

    def action_slider(self, letter: str) -> None:
        """Go to one threshold."""
        self.sliders.slider(letter).focus()

    def action_matrix(self) -> None:
        """Back to the runs."""
        self.runs.focus()

    # The long view and the filter.

    async def action_toggle_table(self) -> None:
        """Show the long view instead of the matrix, or the matrix again; the cursor stays on its run."""
        row = self.row
        if self._table is None:
            from fa_tui.widgets.run_table import RunTable

            self._table = RunTable(self._session, glyphs=self._glyphs, id="table")
            self._table.display = False
            await self.query_one("#body").mount(self._table)
        to_table = not self._table.display
        self._table.display = to_table
        self.matrix.display = self.detail.display = not to_table
        self.runs.lay_out(None if self._filter is None else self._filter.rows(self._session))
        if row is not None:
            self.runs.go_to(row)
        self.runs.focus()

    async def action_filter(self) -> None:
        """Open the line to type a filter in."""
        from fa_tui.widgets.filter_line import FilterLine

        if not self.query(FilterLine):
            line = FilterLine(self._filter.text if self._filter else "")
            await self.mount(line, after=self.query_one("#sliders"))

    def apply_filter(self, chosen: Filter) -> None:
        """Show only the runs that pass."""
        shown = chosen.rows(self._session)
        self._filter = None if shown is None else chosen
        self._shown_count = len(self._session) if shown is None else len(shown)
        self.runs.lay_out(shown)
        self._show_title()
        self._show_detail()

    def on_filter_line_changed(self, message: FilterLine.Changed) -> None:
        self.apply_filter(message.filter)

    def on_filter_line_closed(self) -> None:
        self.runs.focus()

    # Rows and jobs.

    def row_changed(self, index: int) -> None:
        """A run was measured: show its verdict everywhere."""
        self.runs.row_changed(index)
        self.show_counts()
        self.show_rugs()
        if index == self.row:
            self._show_detail()

    def action_measure(self) -> None:
        """Measure the marked runs, or the one under the cursor."""
        self.app.measure(self._chosen())

    def _chosen(self) -> list[int]:
        return sorted(self._session.marked) or ([] if self.row is None else [self.row])

    def marks_changed(self) -> None:
        """Marks were taken away elsewhere."""
        self.runs.refresh()
        self._marked()

    def say(self, text: str, tone: str = "") -> None:
        """One line about what just happened."""
        self._said = (text, tone)
        self._show_status()

    def jobs_changed(self, jobs: Sequence[JobView]) -> None:
        """Show how far the jobs are."""
        self._progress = progress_line(jobs, self.app.measuring.name)
        self._show_status()

    def _show_status(self) -> None:
        if not self._progress and not self._said[0]:
            self.status.set((f" {LEGEND}", "dim"))
            return
        gap = "   " if self._progress and self._said[0] else ""
        self.status.set((" ", ""), *self._progress, (gap, ""), self._said)

    @on(LineTable.Marked)
    def _marked(self) -> None:
        self._show_title()
        self._offer_measuring()

    def _show_title(self) -> None:
        session = self._session
        count = f" {len(session)} runs"
        if self._filter is not None:
            count = f" {self._shown_count} of{count}: {self._filter.text} (/)"
        pieces = [(" fa-tui ", "accent"), (f" {self._title} ", "strong"), (count, "dim")]
        if session.marked:
            pieces.append((f"  {len(session.marked)} marked", "accent"))
        if session.problems:
            pieces.append((f"  {len(session.problems)} not opened (P)", "warn"))
        if self._quantity_shown:
            pieces.append((f"  showing {self._quantity_shown} (v)", "accent"))
        self.query_one("#title", Line).set(*pieces)

    @on(Matrix.ShowsChanged)
    def _shows_changed(self, message: Matrix.ShowsChanged) -> None:
        self._quantity_shown = message.quantity.label if message.quantity else ""
        self._show_title()


def progress_line(jobs: Sequence[JobView], name: Callable[[str], str]) -> list[tuple[str, str]]:
    """How far the jobs are, as pieces of one line; nothing once all are done and none failed."""
    states = Counter(view.state.value for view in jobs)
    pieces: list[tuple[str, str]] = []
    running = [view for view in jobs if view.state.value == "running"]
    if running:
        first = running[0]
        done = f"{first.done}/{first.total}" if first.total else "starting"
        pieces.append((f"measuring {name(first.job.id)} {done}", "accent"))
        if len(running) > 1:
            pieces.append((f" and {len(running) - 1} more", "accent"))
    if states["queued"]:
        pieces.append((f"{', ' if pieces else ''}{states['queued']} queued", "dim"))
    if pieces and states["done"]:
        pieces.append((f", {states['done']} done", "dim"))
    if states["failed"]:
        pieces.append((f"{', ' if pieces else ''}{states['failed']} failed (J)", "bad"))
    return pieces
