"""Matrix: methods down, seeds across, with the run under the cursor."""

from __future__ import annotations

from fa_tui.pages.runs import RunsPage
from fa_tui.session import Session
from fa_tui.views.columns import CELLS, NORMS
from fa_tui.widgets.matrix import Matrix
from fa_tui.widgets.painted import Row


class MatrixPage(RunsPage):
    """The matrix, and the run under its cursor."""

    view: Matrix

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.view = Matrix(session, CELLS.get(self.app.begins.show))

    def shows(self) -> str:
        quantity = self.view.quantity
        return f"showing {quantity.title}" if quantity else ""

    def legend(self) -> Row:
        quantity = self.view.quantity
        if quantity is None:
            return self.cell_legend()
        if not self.view.values(quantity):
            return [(f" {quantity.title} ", "strong"), ("was measured on no run here", "warn")]
        if quantity is NORMS:
            return [(" ", ""), *self.view.bars.legend()]
        return self.view.legend(quantity)
