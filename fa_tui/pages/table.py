"""Table: all columns of all runs, sorted by any of them."""

from __future__ import annotations

from collections.abc import Sequence

from textual import on
from textual.binding import Binding

from fa_tui.pages.runs import RunsPage
from fa_tui.session import Session
from fa_tui.widgets.painted import Row
from fa_tui.widgets.run_table import RunTable
from fa_tui.widgets.table import LineTable


class TablePage(RunsPage):
    """The table, and instead of it, opened, the run under the cursor."""

    BINDINGS = [Binding("enter", "open_run", "Details", tooltip="the run on all of the width")]

    view: RunTable

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.view = RunTable(session, order=self.app.begins.sort)

    @on(LineTable.Moved)
    def _described(self) -> None:
        """Name the run under the cursor, and the order, which may have changed."""
        self.app.explorer.describe()

    def shows(self) -> str:
        name = self.view.order.lstrip("-")
        return name and f"by {name} {self.view.arrow(name)}"

    def options(self) -> Sequence[str]:
        return ["--sort", self.view.order] if self.view.order else []

    def legend(self) -> Row:
        """The whole name under the cursor where the column cuts it; else what cells mean."""
        name = self.view.cut_name
        return [(f" {name}", "strong")] if name else self.cell_legend()
