"""The two pages of all runs: a view of them, and the run under its cursor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widget import Widget

from fa_core.report.diagnostics import cell_legend
from fa_tui.later import Later
from fa_tui.pages.page import Page
from fa_tui.session import Session, changed_cells
from fa_tui.views.epochs import work_lines
from fa_tui.views.looks import SeedLooks
from fa_tui.views.text import as_many, short_paths
from fa_tui.views.words import title_pieces
from fa_tui.widgets.painted import Row, hidden, row_text
from fa_tui.widgets.table import LineTable

if TYPE_CHECKING:
    from fa_tui.share import Shared
    from fa_tui.widgets.chart import LayerCharts
    from fa_tui.widgets.detail import DetailPane
    from fa_tui.widgets.matrix import Matrix
    from fa_tui.widgets.run_table import RunTable


class RunsPage(Page):
    """A view of all runs, and the pane of the run under its cursor.

    Attributes:
        view: of the runs.
        side: holds the pane.
        detail: the pane, from its first use.
        curves: the norms of the run and of the other seeds of its line, where there is room.
        detail_later: shows the run under the cursor.
    """

    FOLDS_BELOW = 16
    BINDINGS = [
        hidden(
            "enter", "open_run", "Details", tooltip="the run on all of the width; esc goes back"
        ),
    ]

    view: Matrix | RunTable

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.side = Vertical(id="detail-place")
        self.detail: DetailPane | None = None
        self.curves: LayerCharts | None = None
        self.detail_later = Later(self, self.show_detail)

    def compose(self) -> ComposeResult:
        yield self.view
        yield self.side

    async def complete(self) -> None:
        from fa_tui.widgets.chart import LayerCharts  # after the first paint
        from fa_tui.widgets.detail import DetailPane

        self.detail, self.curves = DetailPane(id="detail"), LayerCharts()
        self.show_detail()
        await self.side.mount(self.detail, self.curves)

    @property
    def main(self) -> Widget:
        return self.view if self._alone is None else self._alone

    @property
    def row(self) -> int | None:
        return self.view.row

    def go_to(self, row: int) -> None:
        self.view.go_to(row)

    def show(self, now: Session) -> None:
        before, self.session = self.session, now
        self.view.session = now
        if now.seen is not before.seen:
            self.view.lay_out()
        elif rows := changed_cells(before, now):
            self.view.show_changed(rows, is_step=now.since is not before.since)
        if not now.is_step_from(before):
            self.show_detail()
        elif self.detail is not None and self.side.display:
            self.detail.judge(now)

    def show_detail(self) -> None:
        """Show the run under the cursor in its pane."""
        self.detail_later.cancel()
        row, now = self.row, self.session
        if self.detail is not None and self.side.display:
            work: list[tuple[str, str]] = []
            if row is not None:
                work = [*work_lines(now, row), *self.app.jobs.lines_on(row)]
            self.detail.show(now, row, work)
        if self.curves is not None and self.curves.display:
            shown = [now.rows[index] for index in self.view.rows_on_line]
            looks = SeedLooks(now.rows, self.app.terminal.glyphs)
            self.curves.show(shown, looks.drawn(shown))

    @on(LineTable.Moved)
    def _moved(self) -> None:
        self.detail_later()

    @property
    def _alone(self) -> DetailPane | None:
        """The pane, if the run has the whole page."""
        return self.detail if self.has_class("-run-alone") else None

    def action_open_run(self) -> None:
        """Show the run under the cursor on the whole page; Esc goes back."""
        if self.row is None or self.detail is None:
            self.app.say("no run here", "dim")
            return
        self.add_class("-run-alone")
        self.call_after_refresh(self._open)

    def _open(self) -> None:
        # Esc may have been typed ahead
        if self._alone is not None:
            self.show_detail()
            self.screen.set_focus(self._alone)

    def back(self) -> bool:
        if self._alone is not None:
            self._alone.scroll_to(y=0, animate=False)
            self.remove_class("-run-alone")
        elif self.view.has_focus:
            return False
        self.screen.set_focus(self.view)
        return True

    def on_resize(self) -> None:
        self.call_after_refresh(self.show_detail)

    def shows(self) -> str:
        """How the runs are shown, for the title; ``""``: as usual."""
        raise NotImplementedError

    def title(self) -> Row:
        app = self.app
        opened = app.opened or short_paths(app.paths)
        return title_pieces(self.session, self.shows(), app.size.width, opened)

    def cell_legend(self) -> Row:
        """The signs of a verdict's cell, as many as fit."""
        seen = self.session.seen
        signs = cell_legend(controls=seen.controls > 0)
        return [(f" {as_many(signs, self.app.size.width - 1, ' ')}", "dim")]

    def shared(self) -> Shared:
        """The cell under the cursor, and the runs in scope."""
        from fa_tui.share import Shared, command_for  # after the first paint

        command = command_for(self.app, "show", *self.options())
        return Shared(self.cell_text(), command, self.session.scoped)

    def options(self) -> Sequence[str]:
        """The options of `fa-tui show` for what is seen here."""
        return ()

    def cell_text(self) -> str:
        """Text of the cell under the cursor."""
        view, glyphs = self.view, self.app.terminal.glyphs
        if view.row is None:
            return ""
        text = row_text(view.cell(view.line, view.column)).strip()
        return text.rstrip(glyphs.marked + glyphs.gone).strip()
