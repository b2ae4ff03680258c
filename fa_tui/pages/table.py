"""Table: all columns of all runs, sorted by any of them."""

from __future__ import annotations

from collections.abc import Sequence

from textual import on
from textual.binding import Binding

from fa_core.report.verdict import cell_legend
from fa_tui.pages.runs import RunsPage
from fa_tui.session import Session
from fa_tui.views.columns import NORMS
from fa_tui.views.words import Overview
from fa_tui.widgets.painted import Row
from fa_tui.widgets.run_cells import RunsView, norm_legend
from fa_tui.widgets.run_table import RunTable
from fa_tui.widgets.table import LineTable


class TablePage(RunsPage):
    """The table, and instead of it, opened, the run under the cursor."""

    BINDINGS = [
        Binding("S", "app.ask('order')", "Sort by", show=False, tooltip="sort by any column"),
    ]

    view: RunTable

    def __init__(self, session: Session, row: int | None) -> None:
        super().__init__(session, row)
        look = self.app.begins
        bars = look.show == NORMS.name
        self.view = RunTable(session, order=look.sort, with_bars=bars, id="table")

    @on(LineTable.Ordered)
    @on(RunsView.ShowsChanged)
    def _changed(self) -> None:
        self.app.explorer.describe()

    def overview(self) -> Overview:
        order = self.view.order
        arrow = "↓" if order.startswith("-") else "↑"
        return Overview(order=order and f"{order.lstrip('-')} {arrow}")

    def options(self) -> Sequence[str]:
        return ["--sort", self.view.order] if self.view.order else []

    def legend(self) -> Row:
        if self.view.with_bars:
            return [(" ", ""), *norm_legend(self.view.bars, self.app.terminal.glyphs)]
        seen = self.session.seen
        controls = len(seen.counted) < len(seen.indices)
        return [(f" {cell_legend(controls=controls)}", "dim")]
