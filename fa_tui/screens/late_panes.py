"""What stands around the runs on the main screen: it comes after the first paint."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual.screen import Screen
from textual.widget import Widget

from fa_core.report import LETTERS
from fa_tui.screens.runs_shown import RunsShown
from fa_tui.session import Flip, Session
from fa_tui.views.overview import count_words, flipped_words
from fa_tui.widgets.glyphs import Glyphs

if TYPE_CHECKING:
    from fa_core.report import DiagnosticThresholds
    from fa_tui.widgets.detail import DetailPane
    from fa_tui.widgets.line_charts import LineCharts
    from fa_tui.widgets.sliders_panel import Judging, SlidersPanel
    from fa_tui.widgets.threshold_history import ThresholdHistory


class LatePanes:
    """The run under the cursor, the sliders, the charts below the matrix. Until they are there nothing shows anything.

    Args:
        session: the runs and what judges them.
        shown: which of them are on screen.
        glyphs: characters to draw with.

    Attributes:
        detail: the run under the cursor.
        charts: the runs on its line, layer by layer.
        sliders: the thresholds.
    """

    def __init__(self, session: Session, shown: RunsShown, glyphs: Glyphs) -> None:
        self._session, self._shown, self._glyphs = session, shown, glyphs
        self.detail: DetailPane | None = None
        self.charts: LineCharts | None = None
        self.sliders: SlidersPanel | None = None
        self._flipped = ""

    async def come(self, screen: Screen[None], status: Widget, history: ThresholdHistory[Judging]) -> None:
        """Take the places that were kept free.

        Args:
            screen: with the places ``detail-place``, ``sliders-place`` and ``body``.
            status: what stands below the sliders.
            history: what judges the runs, now and before.
        """
        from fa_tui.screens.tidying import tidy_soon
        from fa_tui.widgets.detail import DetailPane
        from fa_tui.widgets.line_charts import LineCharts
        from fa_tui.widgets.sliders_panel import SlidersPanel

        # what is there now stays: later collections need not look at it
        gc.freeze()
        gc.enable()
        self.detail = DetailPane(glyphs=self._glyphs, id="detail")
        self.sliders = SlidersPanel(history, glyphs=self._glyphs, id="sliders")
        self.charts = LineCharts(self._session, self._shown.matrix, self._glyphs)
        self.show_run()
        self.show_counts()
        self.show_rugs()
        with screen.app.batch_update():
            await screen.query_one("#detail-place").mount(self.detail)
            await screen.query_one("#sliders-place").mount(self.sliders, status)
            await screen.query_one("#body").mount(self.charts)
        screen.call_after_refresh(self.draw_charts)
        tidy_soon(screen, self._session)

    def show_run(self) -> None:
        """Show the run under the cursor."""
        row = self._shown.row
        if self.detail is not None:
            run, gone = None if row is None else self._session.rows[row], row in self._session.gone
            self.detail.show(run, self._session.thresholds, gone=gone)
        self.draw_charts()

    def draw_charts(self) -> None:
        """Draw the line under the cursor, where there is room."""
        if self.charts is not None:
            self.charts.follow()

    def show_counts(self, flips: Sequence[Flip] | None = None, before: DiagnosticThresholds | None = None) -> None:
        """Say how many runs are walked back, and what just flipped.

        Args:
            flips: the runs; None where nothing was judged anew: what flipped last still holds.
            before: the thresholds until now, where it was they that changed.
        """
        if flips is not None:
            self._flipped = flipped_words(self._session, flips, before, self._shown.rows)
        if self.sliders is not None:
            self.sliders.set_summary(count_words(self._session, self._shown.rows), self._flipped)

    def show_rugs(self) -> None:
        """Put every run's number on the sliders' tracks."""
        if self.sliders is not None:
            for letter in LETTERS:
                self.sliders.set_runs(letter, self._session.values(letter))

    def follow_thresholds(self) -> None:
        """Move the sliders to where the thresholds are now; what flipped on the way was said elsewhere."""
        if self.sliders is not None:
            if self.sliders.thresholds != self._session.thresholds:
                self._flipped = ""
            self.sliders.follow()
