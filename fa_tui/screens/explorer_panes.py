"""Panes of the main screen: the two views of the runs, and the detail pane."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from textual import events
from textual.widget import Widget

from fa_core.errors import FaError
from fa_tui.session import Flip, Session
from fa_tui.settings import remember
from fa_tui.views.columns import CELLS, NORMS
from fa_tui.views.filters import CELL_LETTERS, ViewState, filter_of
from fa_tui.views.glyphs import Glyphs
from fa_tui.views.grid import Grid
from fa_tui.views.words import Overview
from fa_tui.widgets.matrix import Matrix
from fa_tui.widgets.painted import Place

if TYPE_CHECKING:
    from fa_tui.widgets.run_table import RunTable


_LEAST_SIDE, _LEAST_RUNS = 24, 30
"""Minimum cells of the detail pane and of the runs left of it."""


class SidePane(Place):
    """Pane of the run under the cursor, beside the runs, or below them on a narrow screen.

    Dragging its left border changes its width, which is saved.

    Args:
        width: in cells; 0 = by the window's width.
    """

    def __init__(self, width: int) -> None:
        super().__init__(id="detail-place")
        self.chosen = width

    def on_mount(self) -> None:
        if self.chosen:
            self.widen(self.chosen)

    @property
    def is_below(self) -> bool:
        """Whether it is below the runs."""
        return self.screen.has_class("-narrow")

    def fit(self) -> None:
        """Take the chosen width, where the pane has one."""
        if self.is_below or self.screen.has_class("-run-alone"):
            self.styles.width = None
        else:
            self.styles.width = self.chosen or None

    def widen(self, width: int) -> None:
        """Set the width, limited by the window."""
        self.chosen = max(_LEAST_SIDE, min(width, self.screen.size.width - _LEAST_RUNS))
        self.screen.add_class("-divided")
        self.fit()

    def keep(self) -> None:
        """Save the width; errors are ignored."""
        with suppress(FaError, OSError):
            remember("side", self.chosen)

    def on_mouse_down(self, event: events.MouseDown) -> None:
        if event.button == 1 and event.x == 0 and not self.is_below:
            self.capture_mouse()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        if self.app.mouse_captured is self:
            self.widen(self.region.right - int(event.screen_x))

    def on_mouse_up(self) -> None:
        if self.app.mouse_captured is self:
            self.release_mouse()
            self.keep()


class RunsShown:
    """The two views of the runs, one of them visible.

    Args:
        session: the runs.
        glyphs: characters to draw with.
        look: initial view state.

    Attributes:
        matrix: methods × seeds.
        table: the long view, created on first use.
    """

    def __init__(self, session: Session, glyphs: Glyphs, look: ViewState) -> None:
        self._session, self._glyphs = session, glyphs
        self.matrix = Matrix(session, CELLS.get(look.show))
        self.matrix.id = "matrix"
        self.matrix.display = not look.long
        self.table: RunTable | None = self._long_view(look.sort) if look.long else None
        self._laid_out: dict[Widget, list[int] | None] = {self.view: None}
        if look.filter:
            session.narrow(filter_of(look, session))
            self.lay_out()

    def _long_view(self, order: str) -> RunTable:
        # after the first paint, unless the long view is painted first
        from fa_tui.widgets.run_table import RunTable

        bars = self.matrix.quantity is NORMS
        return RunTable(self._session, order=order, with_bars=bars, id="table")

    @property
    def in_table(self) -> bool:
        """Whether the long view is visible."""
        return self.view is not self.matrix

    @property
    def view(self) -> Matrix | RunTable:
        """The visible view."""
        if self.table is not None and self.table.display:
            return self.table
        return self.matrix

    @property
    def look(self) -> ViewState:
        """How the runs are shown now."""
        show = CELL_LETTERS
        if self.matrix.quantity:
            show = self.matrix.quantity.name
        if self.in_table and self.table is not None and self.table.with_bars:
            show = NORMS.name
        return ViewState(show, self._session.scope_text, self.order, self.in_table)

    async def toggle(self, body: Widget) -> None:
        """Toggle the view; the cursor stays on its run."""
        row = self.view.row
        if self.table is None:
            self.table = self._long_view("")
            self._laid_out[self.table] = None
            self.table.display = False
            await body.mount(self.table)
        self.table.display = not self.table.display
        self.matrix.display = not self.table.display
        # values of the order may have changed meanwhile
        if self.order or not self._is_laid_out:
            self._lay_out_view()
        self.matrix.cells.numbers_changed()
        if row is not None:
            self.view.go_to(row)

    @property
    def _is_laid_out(self) -> bool:
        """Whether the visible view is laid out for the current scope."""
        return self.view in self._laid_out and self._laid_out[self.view] == self._session.scope

    def lay_out(self) -> None:
        """Lay out the runs in scope again; the hidden view follows when it is shown."""
        self._laid_out.clear()
        self._lay_out_view()

    def _lay_out_view(self) -> None:
        scope = self._laid_out[self.view] = self._session.scope
        self.view.lay_out(scope)

    def numbers_changed(self) -> None:
        """Show new numbers of the same runs, which may change the order."""
        if self.in_table:
            self.lay_out()
        else:
            self.matrix.cells.numbers_changed()
            self.matrix.refresh()

    def verdicts_changed(self, flips: Sequence[Flip]) -> bool:
        """Show flipped verdicts; returns whether the scope changed."""
        others = not self._is_laid_out
        if others:
            self.lay_out()
        self.view.show_flips(flips)
        return others

    def rows_changed(self, only: Sequence[int] | None) -> None:
        """Show added or changed rows; only these, if none were added."""
        if only is None or self._session.scope is not None:
            self.lay_out()
        else:
            for index in only:
                self.view.row_changed(index)

    @property
    def order(self) -> str:
        """Order of the long view as in `--sort`: ``growth``, ``-growth``; ``""`` in reading
        order."""
        if self.table is not None and self.in_table:
            return self.table.order
        return ""

    @property
    def grid(self) -> Grid | None:
        """The matrix layout of the scope, if the matrix is visible."""
        if self.in_table:
            return None
        return self.matrix.grid

    def overview(self) -> Overview:
        """Texts of the top line."""
        matrix, order = self.matrix, self.order
        if matrix.quantity and not self.in_table:
            quantity = matrix.quantity.title
        else:
            quantity = ""
        return Overview(
            quantity, order and f"{order.lstrip('-')} {'↓' if order.startswith('-') else '↑'}"
        )

    def cell_text(self) -> str:
        """Text of the cell under the cursor."""
        view = self.view
        if view.row is None:
            return ""
        text = "".join(text for text, _ in view.cell(view.line, view.column))
        return text.strip().rstrip(self._glyphs.marked + self._glyphs.gone).strip()
