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
        self._row_shown: int | None = None
        self._detail_due = False
        self._quantity_shown = ""
        self._said = ("", "")
        self._progress: list[tuple[str, str]] = []

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
        self.show_counts()
        self._show_detail()
        self.call_after_refresh(self.app.painted)

    # The run under the cursor.

    @property
    def row(self) -> int | None:
        """The index of the run under the cursor."""
        return self.matrix.row

    @on(LineTable.Moved)
    def _moved(self) -> None:
        if not self._detail_due:
            self._detail_due = True
            self.set_timer(_FLUSH_SECONDS, self._show_detail)

    def _show_detail(self) -> None:
        self._detail_due = False
        row = self.row
        self.detail.show(None if row is None else self._session.rows[row], self._session.thresholds)

    # Thresholds.

    @on(ThresholdsChanged)
    def _thresholds_changed(self, message: ThresholdsChanged) -> None:
        flips = self._session.set_thresholds(message.thresholds)
        self.matrix.verdicts_changed(flips)
        self.show_counts(flips)
        self._show_detail()

    def show_counts(self, flips: Sequence[Flip] = ()) -> None:
        """Say how many runs are walked back, and what just flipped."""
        session = self._session
        measured, walked = session.measured(), session.walk_backs()
        count = f"{walked} of {measured} walk back"
        if len(session) > measured:
            count += f", {len(session) - measured} not measured"
        self.sliders.set_summary(count, f"flipped: {flip_text(session, flips)}" if flips else "")

    def show_rugs(self) -> None:
        """Put every run's number on the sliders' tracks."""
        for letter in LETTERS:
            self.sliders.set_runs(letter, self._session.values(letter))

    def action_slider(self, letter: str) -> None:
        """Go to one threshold."""
        self.sliders.slider(letter).focus()

    def action_matrix(self) -> None:
        """Back to the matrix."""
        self.matrix.focus()

    # Rows and jobs.

    def row_changed(self, index: int) -> None:
        """A run was measured: show its verdict everywhere."""
        self.matrix.row_changed(index)
        self.show_counts()
        self.show_rugs()
        if index == self.row:
            self._show_detail()

    def action_measure(self) -> None:
        """Measure the marked runs, or the one under the cursor."""
        chosen = sorted(self._session.marked) or ([] if self.row is None else [self.row])
        self.app.measure(chosen)

    def marks_changed(self) -> None:
        """Marks were taken away elsewhere."""
        self.matrix.refresh()
        self._show_title()

    def say(self, text: str, tone: str = "") -> None:
        """One line about what just happened."""
        self._said = (text, tone)
        self._show_status()

    def jobs_changed(self, jobs: Sequence[JobView]) -> None:
        """Show how far the jobs are."""
        self._progress = progress_line(jobs, self.app.measuring.name)
        self._show_status()

    def _show_status(self) -> None:
        gap = "   " if self._progress and self._said[0] else ""
        self.status.set((" ", ""), *self._progress, (gap, ""), self._said)

    @on(Matrix.Marked)
    def _show_title(self) -> None:
        session = self._session
        pieces = [(" fa-tui ", "accent"), (f" {self._title} ", "strong"), (f" {len(session)} runs", "dim")]
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
