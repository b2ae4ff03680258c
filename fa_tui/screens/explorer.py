"""The main screen: matrix or long view, detail pane, sliders, status line."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.widget import Widget

from fa_core.errors import FaError
from fa_tui.screens.explorer_panes import RunsShown, SidePane
from fa_tui.screens.threshold_screen import SlidersScreen, classes_at
from fa_tui.session import Flip, Session
from fa_tui.share import Shared
from fa_tui.terminal.painting import after
from fa_tui.views.run_work import work_lines
from fa_tui.views.text import short_paths
from fa_tui.views.words import flip_words, title_pieces
from fa_tui.widgets.line import KeyBar, StatusLine, TabBar
from fa_tui.widgets.matrix import Matrix
from fa_tui.widgets.painted import Place, Uniform
from fa_tui.widgets.run_cells import RunsView
from fa_tui.widgets.table import LineTable

if TYPE_CHECKING:
    from fa_tui.jobs.listing import Listed
    from fa_tui.screens.threshold_screen import JudgedScreen
    from fa_tui.views.filters import ViewState
    from fa_tui.widgets.detail import DetailPane
    from fa_tui.widgets.filter_line import FilterLine
    from fa_tui.widgets.run_table import RunTable
    from fa_tui.widgets.sliders_panel import ThresholdsChanged


WIDTHS = [(0, "-tiny"), (40, "-slim"), (60, "-narrow"), (100, "-wide"), (168, "-widest")]
HEIGHTS = [(0, "-flat"), (10, "-short"), (16, "-low"), (34, "-high")]
"""Minimum cells → class."""


def is_too_small(size: Size) -> bool:
    """Whether a terminal of this size is too small."""
    return not {"-tiny", "-flat"}.isdisjoint(classes_at(size, WIDTHS, HEIGHTS))


EXPLORER_KEYS: list[BindingType] = [
    Binding(
        "a",
        "slider('a')",
        "Threshold",
        key_display="a b c d",
        tooltip="go to the slider of a threshold",
    ),
    Binding(
        "m",
        "measure",
        "Measure",
        tooltip="measure the marked runs, or this one; compare where there is an audit",
    ),
    Binding(
        "t",
        "toggle_table",
        "Table",
        show=False,
        tooltip="the long view: all columns of all runs; again: the matrix",
    ),
    Binding(
        "slash",
        "filter",
        "Filter",
        key_display="/",
        tooltip="show only the runs that match what you type",
    ),
    Binding(
        "n",
        "next_flip",
        "Next flip",
        show=False,
        tooltip="the next run that flipped with the last step",
    ),
    Binding(
        "F",
        "app.ask('flips')",
        "Flips",
        show=False,
        tooltip="every run that flipped with the last step",
    ),
    Binding("S", "ask('order')", "Sort by", show=False, tooltip="sort the long view by any column"),
    Binding(
        "less_than_sign",
        "divide(4)",
        "Wider",
        show=False,
        key_display="<",
        tooltip="the run's pane wider",
    ),
    Binding(
        "greater_than_sign",
        "divide(-4)",
        "Narrower",
        show=False,
        key_display=">",
        tooltip="its pane narrower",
    ),
    Binding(
        "escape",
        "back",
        "Back",
        show=False,
        tooltip="to the runs, or from the long view to the matrix",
    ),
    Binding(
        "C",
        "lens('compare')",
        "Compare",
        show=False,
        key_display="C",
        tooltip="marked runs, or those on this line, by layer",
    ),
    Binding(
        "T",
        "lens('timeline')",
        "Timeline",
        show=False,
        key_display="T",
        tooltip="the runs over their epochs",
    ),
    Binding(
        "D",
        "lens('differences')",
        "Before/after",
        show=False,
        tooltip="two of the open files or folders, run by run",
    ),
    Binding(
        "A",
        "lens('analysis')",
        "Analysis",
        show=False,
        key_display="A",
        tooltip="sweep, utility, seeds",
    ),
    Binding(
        "J",
        "app.show_jobs",
        "Jobs",
        show=False,
        key_display="J",
        tooltip="queue, progress, logs, cancel, retry",
    ),
    Binding(
        "P",
        "app.show_problems",
        "Problems",
        key_display="P",
        tooltip="files, settings not read, or only in part",
    ),
]


_FLUSH_SECONDS = 0.001
_SETTLE_SECONDS = 0.01
"""Seconds between checks for the first paint, before the other imports."""


class ExplorerScreen(Uniform, SlidersScreen):
    """Connects matrix, detail pane, sliders and status line to the session.

    Args:
        session: the runs and what judges them.
        title: name of the opened paths for the top line (default: the paths).
        look: initial view state.
        classes: as for any widget.

    Attributes:
        is_due: whether an update for the last key is pending.
    """

    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS

    BINDINGS = EXPLORER_KEYS

    def __init__(self, session: Session, *, title: str, look: ViewState, classes: str = "") -> None:
        super().__init__(session, classes=classes)
        self._title = title
        self.tabs = TabBar("Matrix")
        self.shown_runs = RunsShown(session, self.app.terminal.glyphs, look)
        self.matrix = self.shown_runs.matrix
        # set before mounting, so that the focus does not style the view a second time
        self.runs.set_reactive(Widget.has_focus, True)
        self.status = StatusLine(self.matrix, id="status")
        self._body, self._side = Place(id="body"), SidePane(self.app.settings.side)
        self._sliders_place, self._keys = Place(id="sliders-place"), KeyBar()
        self._show_view()
        self.detail: DetailPane | None = None
        self.is_due = False
        self._filter_line: FilterLine | None = None
        self._filter_from: int | None = None
        self.flips: Sequence[Flip] = ()

    def compose(self) -> ComposeResult:
        yield self.tabs
        yield self.head
        with self._body:
            yield self.matrix
            if self.shown_runs.table is not None:
                yield self.shown_runs.table
            yield self._side
        yield self._sliders_place
        yield self._keys

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        """Skip the first restyling: everything is already styled."""
        event.refresh_styles = self.stack_updates > 0

    def on_mount(self) -> None:
        self.set_focus(self.runs)
        self._show_title()
        self.status.show()
        after(_SETTLE_SECONDS, self, self._settle)

    async def _settle(self) -> None:
        """Fill the detail pane and the sliders after the first paint."""
        if not self._side.is_attached:
            return  # the app is closing
        if not self.app.painter.has_painted:
            after(_SETTLE_SECONDS, self, self._settle)
            return
        from fa_tui.widgets.detail import DetailPane
        from fa_tui.widgets.sliders_panel import SlidersPanel

        # current objects live until the end: exempt them from garbage collection
        gc.freeze()
        gc.enable()
        # styles of all other screens: a CSS_PATH of each would parse the whole sheet again
        self.app.stylesheet.read(Path(__file__).with_name("screens.tcss"))
        self.app.stylesheet.parse()
        self.detail = DetailPane(id="detail")
        self.sliders = SlidersPanel(self.app.history, id="sliders")
        self._show_detail()
        self.count(())
        self.show_rugs()
        with self.app.batch_update():
            await self._side.mount(self.detail)
            await self._sliders_place.mount(self.sliders, self.status)

    @on(LineTable.Ordered)
    def _show_around(self) -> None:
        """Update everything that depends on the shown runs and the cursor."""
        self.app.painter.hold()
        self._show_title()
        self.status.show()
        self._show_detail()

    @property
    def row(self) -> int | None:
        """Index of the run under the cursor."""
        return self.runs.row

    @property
    def runs(self) -> Matrix | RunTable:
        """The view of the runs that is on screen."""
        return self.shown_runs.view

    @property
    def takes_keys(self) -> bool:
        """Whether the screen is complete and the last closed widget is gone."""
        closing = self._filter_line is not None and self._filter_line.is_done
        return self.sliders is not None and self.sliders.is_mounted and not closing

    @on(LineTable.Moved)
    def _moved(self) -> None:
        if not self.is_due:
            self.is_due = True
            after(_FLUSH_SECONDS, self, self._show_detail)

    def _show_detail(self) -> None:
        """Show the run under the cursor in the detail pane, and the key to measure it
        if it can be."""
        self.is_due = False
        row = self.row
        if row is None:
            run = None
        else:
            run = self.session.rows[row]
        if self.detail is not None:
            work = []
            if row is not None:
                work = [*work_lines(self.session, row), *self.app.jobs.again_lines(row)]
            gone = row in self.session.gone
            self.detail.show(run, self.session.thresholds, gone=gone, work=work)
        self.show_intervals(run)
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        in_table = self.shown_runs.in_table
        offered = {
            "ask": in_table,
            "back": in_table or self.shows_run_alone or self.focused is not self.runs,
            "filter": self._filter_line is None or not self._filter_line.has_focus_within,
        }
        return offered.get(action, True)

    def on_thresholds_changed(self, message: ThresholdsChanged) -> None:
        flips = self.flips = self.judged_by(message)
        self.runs.refresh_runs(self.session.work)
        if self.shown_runs.verdicts_changed(flips):
            self.show_rugs()
            self._show_title()
            self._show_detail()
        elif self.detail is not None:
            self.detail.judge(self.session.thresholds)
        # an empty text clears the message of the last change
        self.status.say(message.words, "dim")

    async def action_back(self) -> None:
        """Go back: from a run or the sliders to the runs, from the long view to the matrix; a
        filter stays."""
        if self.shows_run_alone:
            self.remove_class("-run-alone")
            self._side.fit()
            self.set_focus(self.runs)
        elif self.focused is self.runs and self.shown_runs.in_table:
            await self.action_toggle_table()
        else:
            self.set_focus(self.runs)

    def action_divide(self, cells: int) -> None:
        """Move the border of the detail pane; its position is saved."""
        pane = self._side
        if pane.is_below:
            return
        pane.widen(pane.size.width + 2 + cells)
        after(0.5, self, pane.keep)

    @property
    def shows_run_alone(self) -> bool:
        """Whether the run's pane has all of the width."""
        return self.has_class("-run-alone")

    @on(RunsView.Opened)
    def action_open_run(self) -> None:
        """Show the run under the cursor on all of the width; Esc goes back."""
        if self.row is None or self.detail is None:
            self.say("no run here", "dim")
            return
        self.add_class("-run-alone")
        self._side.fit()
        self.call_after_refresh(self._focus_detail)

    def _focus_detail(self) -> None:
        # Esc may have been typed ahead
        if self.shows_run_alone and self.detail is not None:
            self.set_focus(self.detail)

    async def action_toggle_table(self) -> None:
        """Toggle between long view and matrix; the cursor stays on its run."""
        await self.shown_runs.toggle(self._body)
        self._show_view()
        self._show_around()
        self.set_focus(self.runs)

    def _show_view(self) -> None:
        """Mark the visible view in the tab bar, and explain what it shows."""
        in_table = self.shown_runs.in_table
        self.tabs.open("Table" if in_table else "Matrix")
        self.set_class(in_table, "-table")
        self.status.table = self.shown_runs.table if in_table else None

    def action_ask(self, what: str) -> None:
        """Choose the order of the long view."""
        self.app.action_ask(what)

    async def action_filter(self) -> None:
        """Open the filter line, or focus it."""
        from fa_tui.widgets.filter_line import FilterLine

        if self._filter_line is not None and not self._filter_line.is_done:
            self.set_focus(self._filter_line.entry)
            return
        line, self._filter_from = FilterLine(self.session), self.row
        self._filter_line = line
        await self.mount(line, after=self._sliders_place)
        self.set_focus(line.entry)

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Close the filter line when it loses the focus: no key would close it any more."""
        line = self._filter_line
        if line is not None and line not in event.widget.ancestors:
            line.leave()

    def on_filter_line_changed(self, message: FilterLine.Changed) -> None:
        before = self.session.scope
        self.session.narrow(message.filter, message.rows, wide=message.wide)
        if self.session.scope == before:
            # another filter with the same runs keeps the layout
            self._show_counts(())
        else:
            self.rows_changed()
        if self._filter_from is not None:
            # the cursor returns to its run once that is in scope again
            self.runs.go_to(self._filter_from)

    async def on_filter_line_closed(self) -> None:
        from fa_tui.widgets.filter_line import FilterLine

        # focus first: otherwise the removed widget's focus moves to a slider
        if self.focused is None or self._filter_line in self.focused.ancestors:
            self.set_focus(self.runs)
        await self.query(FilterLine).remove()
        self._filter_line = None
        self.refresh_bindings()

    def catch_up(self) -> None:
        """Show thresholds that were moved on another screen."""
        if self.sliders is not None:
            if self.sliders.thresholds != self.session.thresholds:
                # the flips were shown on that screen
                self._flipped, self.flips = "", ()
                self.runs.show_flips(())
            self.sliders.follow()
        self.shown_runs.verdicts_changed(self.flips)
        self.recount()
        self._show_around()

    def rows_changed(self, flips: Sequence[Flip] = (), only: Sequence[int] | None = None) -> None:
        """Show rows that were added, changed, removed or judged again.

        Args:
            flips: the flipped verdicts.
            only: the changed rows, if none were added; then the layout is kept.
        """
        self.shown_runs.rows_changed(only)
        if flips:
            self.flips = flips
            self.runs.show_flips(flips)
        self._show_counts(flips)

    def judged_otherwise(self, flips: Sequence[Flip]) -> None:
        """Show the same rows with new numbers of (d)."""
        self.shown_runs.numbers_changed()
        self.flips = flips
        self.shown_runs.verdicts_changed(flips)
        self._show_counts(flips)

    def _show_counts(self, flips: Sequence[Flip]) -> None:
        self.count(flips)
        self.show_rugs()
        self._show_around()

    def shared(self) -> Shared:
        """The cell under the cursor, and the runs in scope."""
        from fa_tui.screens.dialogs import command_for

        order = self.shown_runs.order
        command = command_for(self.app, "show", *(["--sort", order] if order else []))
        return Shared(self.shown_runs.cell_text(), command, self.session.scoped)

    def action_lens(self, name: str) -> None:
        """Open a screen of the same runs, imported then; a threshold moved there is moved here
        too."""
        try:
            self.app.push_screen(self._lens(name), lambda _: self.catch_up())
        except FaError as error:
            self.say(str(error), "warn")

    def _lens(self, name: str) -> JudgedScreen:
        if name == "compare":
            from fa_tui.screens.compare import CompareScreen

            return CompareScreen(self.session, at=self.row, grid=self.shown_runs.grid)
        if name == "timeline":
            from fa_tui.screens.timeline import TimelineScreen

            return TimelineScreen(self.session, at=self.row)
        if name == "differences":
            from fa_tui.screens.differences import DifferencesScreen

            return DifferencesScreen(self.session)
        from fa_tui.screens.analysis import AnalysisScreen

        return AnalysisScreen(self.session)

    def action_measure(self) -> None:
        """Measure the marked runs, or the one under the cursor; ask first what is not known."""
        if self.app.jobs.unknown(self.chosen):
            self.app.action_ask("measure")
        else:
            self.app.jobs.measure(self.chosen)

    def states_changed(self, rows: Iterable[int]) -> None:
        """Show runs whose measurement was queued, started or finished."""
        for row in rows:
            self.runs.row_changed(row)

    def work_changed(self, rows: Sequence[int]) -> None:
        """Show runs that another process trains or measures, or let go of."""
        self.states_changed(rows)
        self.recount()
        if self.row in rows:
            self._show_detail()

    def action_next_flip(self) -> None:
        """Go to the next run that flipped with the last step."""
        if not self.turned:
            self.say(
                "no run flipped with the last step: { } move a slider to the next verdict that "
                "does",
                "dim",
            )
            return
        rows = [flip.row for flip in self.turned]
        if self.row in rows:
            place = (rows.index(self.row) + 1) % len(rows)
        else:
            place = 0
        self.runs.go_to(rows[place])
        words = flip_words(self.session, self.turned[place])
        self.say(f"{place + 1} of {len(rows)} flipped: {words}", "accent")

    @property
    def turned(self) -> list[Flip]:
        """The runs whose letters changed with the last step."""
        return [flip for flip in self.flips if flip.before != flip.after]

    @property
    def chosen(self) -> list[int]:
        """The marked runs, or the one under the cursor."""
        return sorted(self.session.marked) or ([] if self.row is None else [self.row])

    def marks_changed(self) -> None:
        """Show that marks were removed by another screen."""
        self.runs.refresh()
        self._marked()

    def say(self, text: str, tone: str = "") -> None:
        """Show a message in the status line."""
        self.status.say(text, tone)

    def jobs_changed(self, jobs: Sequence[Listed]) -> None:
        """Show the progress of the jobs."""
        from fa_tui.jobs.listing import progress_line

        self.status.show_progress(progress_line(jobs))

    @on(LineTable.Marked)
    def _marked(self) -> None:
        if self.session.filter is not None and self.session.filter.live and self.session.choose():
            self.rows_changed()
        self._show_title()
        self.refresh_bindings()

    def on_resize(self) -> None:
        self._show_title()
        self.call_after_refresh(self._resized)

    def _resized(self) -> None:
        # a tiny terminal hid the focused widget: restore a focus for the keys
        if self.focused is None and not is_too_small(self.size):
            self.set_focus(self.runs)
        self._side.fit()

    def _show_title(self) -> None:
        if is_too_small(self.size):
            self.set_title(
                ("too small,", "warn"),
                (" < 40x10" if self.size.width < 24 else " 40x10 at least", ""),
            )
            return

        def opened(room: int) -> str:
            return self._title or short_paths(
                self.app.paths, room, self.app.terminal.glyphs.ellipsis
            )

        self.set_title(
            *title_pieces(self.shown_runs.overview(), self.session, self.size.width, opened)
        )

    @on(Matrix.ShowsChanged)
    def _shows_changed(self) -> None:
        self._show_title()
        self.status.say("")
