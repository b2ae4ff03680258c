"""Memory given back a moment after much was done with many runs.

Asks how the runs are laid out: which axes the matrix has, what the long view is sorted by.

Which runs are on screen, and how: the matrix or the long view, both under one filter.

What stands around the runs on the main screen: it comes after the first paint.

What the explorer's main screen has to give away: to copy, and to export.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from textual.message_pump import MessagePump
from textual.screen import Screen
from textual.widget import Widget

from fa_core.diagnostics import LETTERS
from fa_tui.screens.copy_export import reopening, reproducing
from fa_tui.screens.questions import Choice, choose
from fa_tui.session import Flip, Session
from fa_tui.sharing.pieces import Shared, cell_piece, run_pieces, runs_words, traces_of
from fa_tui.terminal.glyphs import Glyphs
from fa_tui.views.axes import METHODS_BY_SEEDS, axes_of, plural, value_on
from fa_tui.views.columns import every_column
from fa_tui.views.filters import picking
from fa_tui.views.grid import homes_of
from fa_tui.views.look import CELL_LETTERS, Look, filter_of
from fa_tui.views.quantities import BY_NAME
from fa_tui.views.words import Overview, count_words, flipped_words
from fa_tui.widgets.matrix import Matrix
from fa_tui.widgets.run_table import RunTable

if TYPE_CHECKING:
    from fa_core.diagnostics import DiagnosticThresholds
    from fa_tui.app import ExplorerApp
    from fa_tui.views.filters import Filter
    from fa_tui.widgets.detail import DetailPane
    from fa_tui.widgets.layer_charts import LineCharts
    from fa_tui.widgets.sliders_panel import Judging, SlidersPanel, ThresholdHistory


_MANY = 10_000
"""Runs from which it is worth it."""
_PAUSE_SECONDS = 0.4
"""Behind the frame that shows what was done, and the next key of a word that is typed."""


def tidy_soon(node: MessagePump, session: Session) -> None:
    """Give back what was freed, a moment later.

    Args:
        node: what lives on until then.
        session: the runs.
    """
    if len(session) >= _MANY:
        # from its own queue: a timer set by a screen that closes would keep that screen
        node.call_later(node.set_timer, _PAUSE_SECONDS, _tidy)


def _tidy() -> None:
    from fa_core.table import give_back

    give_back(cycles=True)


_KEYS = "123456789abcdefgilmnopqrstuvwxyz"
"""Without h j k, which move the cursor in lists."""


async def choose_axis(app: ExplorerApp, place: str) -> None:
    """Ask what the columns or the lines of the matrix are."""
    session, matrix = app.session, app.explorer.matrix
    other, now = (matrix.axes.lines, matrix.axes.columns)[:: 1 if place == "columns" else -1]
    homes = homes_of(session.rows, range(len(session)))
    choices = []
    for key, axis in zip(_KEYS, axes_of(session.rows), strict=False):
        count = len({value_on(axis, row, homes[index]) for index, row in enumerate(session.rows)})
        values = f"{count} value{'' if count == 1 else 's'}"
        note = "now" if axis == now else f"changes places with {plural(now)}" if axis == other else values
        choices.append(Choice(key, plural(axis), note, axis))
    chosen = await choose(app, f"The {place} of the matrix", choices)
    if chosen is not None:
        app.explorer.lay_out_along(matrix.axes if chosen == now else matrix.axes.having(place, chosen))


async def choose_order(app: ExplorerApp) -> None:
    """Ask what the long view is sorted by."""
    table = app.explorer.runs
    if not isinstance(table, RunTable):
        return
    choices = [Choice("0", "as the runs were read", "" if table.order else "now", "")]
    for key, column in zip(_KEYS, every_column(app.session), strict=False):
        note = {column.name: "now; again turns it round", f"-{column.name}": "now, falling"}.get(table.order, "")
        choices.append(Choice(key, column.title, note, column.name))
    chosen = await choose(app, "Sort by", choices)
    if chosen is not None:
        table.sort_by(f"-{chosen}" if chosen and chosen == table.order else chosen)


class RunsShown:
    """The two views of the runs, of which one is on screen.

    Args:
        session: the runs.
        glyphs: characters to draw with.
        look: how they are shown at first.

    Attributes:
        matrix: methods × seeds, or other axes.
        table: the long view, once it was asked for.
        filter: what is left out, if anything is.
        rows: the indices that pass the filter, or None without one.
        count: how many runs the filter leaves.
    """

    def __init__(self, session: Session, glyphs: Glyphs, look: Look) -> None:
        self._session, self._glyphs = session, glyphs
        self.matrix = Matrix(session, axes=look.axes, quantity=BY_NAME.get(look.show), glyphs=glyphs, id="matrix")
        self.table: RunTable | None = self._long_view(look.sort) if look.long else None
        self.matrix.display = self.table is None
        self.filter: Filter | None = filter_of(look, session) if look.filter else None
        self.rows: list[int] | None = None
        self.count = len(session)
        if self.filter is not None:
            self.lay_out()

    def _long_view(self, order: str) -> RunTable:
        # after the first paint, unless it is what is painted
        from fa_tui.widgets.run_table import RunTable

        return RunTable(self._session, order=order, glyphs=self._glyphs, id="table")

    @property
    def in_table(self) -> bool:
        """Whether the long view is on screen."""
        return self.table is not None and self.table.display

    @property
    def views(self) -> Iterator[Matrix | RunTable]:
        """Both, as far as they are made."""
        yield self.matrix
        if self.table is not None:
            yield self.table

    @property
    def view(self) -> Matrix | RunTable:
        """What is on screen."""
        return self.table if self.table is not None and self.table.display else self.matrix

    @property
    def look(self) -> Look:
        """How the runs are shown now."""
        matrix = self.matrix
        return Look(
            show=matrix.quantity.name if matrix.quantity else CELL_LETTERS,
            rows=matrix.axes.lines,
            columns=matrix.axes.columns,
            filter=self.filter_text,
            sort=self.order,
            long=self.in_table,
        )

    @property
    def row(self) -> int | None:
        """The index of the run under the cursor."""
        return self.view.row

    @property
    def filter_text(self) -> str:
        """The filter as it was typed, ``""`` without one."""
        return "" if self.filter is None else self.filter.text

    async def toggle(self, body: Widget) -> None:
        """Show the other view; the cursor stays on its run."""
        row = self.row
        if self.table is None:
            self.table = self._long_view("")
            self.table.display = False
            await body.mount(self.table)
        self.table.display = not self.table.display
        self.matrix.display = not self.table.display
        self.lay_out()
        if row is not None:
            self.view.go_to(row)

    def apply(self, chosen: Filter, rows: list[int] | None) -> None:
        """Show only the runs that pass: these."""
        self.filter = chosen if chosen.text else None
        self._show(rows)

    def lay_out(self) -> None:
        """Lay the runs out anew."""
        self._show(None if self.filter is None else self.filter.rows(self._session))

    def _show(self, rows: list[int] | None) -> None:
        self.rows = rows
        self.count = len(self._session) if rows is None else len(rows)
        self.view.lay_out(rows)
        if self.view.is_attached:
            # what was laid out before is as large as what is now
            tidy_soon(self.view, self._session)

    def verdicts_changed(self, flips: Sequence[Flip]) -> bool:
        """Show verdicts that flipped; whether other runs are shown now."""
        if flips and self.filter is not None and self.filter.live:
            self.lay_out()
            return True
        self.view.verdicts_changed(flips)
        return False

    def marks_changed(self) -> bool:
        """Other runs are marked; whether other runs are shown for it."""
        if self.filter is None or not self.filter.live:
            return False
        self.lay_out()
        return True

    def rows_changed(self, only: Sequence[int] | None) -> None:
        """Show rows that came or changed; only these, where none came."""
        if only is None or self.filter is not None:
            self.lay_out()
        else:
            for index in only:
                self.view.row_changed(index)

    @property
    def order(self) -> str:
        """What the long view is sorted by, as `--sort` takes it: ``growth``, ``-growth``; ``""`` in reading order."""
        return self.table.order if self.table is not None and self.in_table else ""

    @property
    def order_words(self) -> str:
        """The same in words, with an arrow."""
        if not self.order:
            return ""
        return f"{self.order.lstrip('-')} {'↓' if self.order.startswith('-') else '↑'}"

    def overview(self) -> Overview:
        """What the top line tells of it."""
        matrix = self.matrix
        return Overview(
            self.count,
            filter=self.filter_text,
            axes="" if self.in_table or matrix.axes == METHODS_BY_SEEDS else str(matrix.axes),
            quantity=matrix.quantity.label if matrix.quantity and not self.in_table else "",
            order=self.order_words,
        )

    def cell_text(self) -> str:
        """What the cell under the cursor says."""
        view = self.view
        if self.row is None:
            return ""
        text = "".join(segment.text for segment in view.cell(view.line, view.column))
        return text.strip().rstrip(self._glyphs.marked + self._glyphs.gone).strip()


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
        from fa_tui.widgets.detail import DetailPane
        from fa_tui.widgets.layer_charts import LineCharts
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


_UNNAMED = "of all runs: no filter names the marked ones"


def given_runs(app: ExplorerApp, session: Session, shown: RunsShown, chosen: Sequence[int]) -> Shared:
    """Copies of the chosen runs; exports of the marked ones, or of all that are shown.

    Args:
        app: whose paths the command line names.
        session: the runs.
        shown: what is on screen.
        chosen: the marked runs, or the one under the cursor.
    """
    rows = [session.rows[index] for index in chosen]
    name = session.label(chosen[0]) if len(chosen) == 1 else f"{len(chosen)} marked runs"
    indices = sorted(session.marked) or shown.rows
    exported = list(session.rows) if indices is None else [session.rows[index] for index in indices]
    look = look_given(session, shown)
    commands = [reproducing(app, "show", *Look(filter=look.filter, sort=look.sort).options()), reopening(app, look)]
    if shown.look.filter and not look.filter:
        commands = [piece._replace(note=_UNNAMED) for piece in commands]
    return Shared(
        [
            *cell_piece(shown.cell_text()),
            *run_pieces(rows, name, session.thresholds),
            *commands,
        ],
        exported,
        runs_words(len(exported)),
        session.thresholds,
        lambda: session.traces if indices is None else traces_of(exported, session.traces),
    )


def look_given(session: Session, shown: RunsShown) -> Look:
    """The look of what is on screen, so that a command understands it."""
    look = shown.look
    if "is:marked" in look.filter:
        # a command knows no marks
        look = look._replace(filter=picking(session.rows, shown.rows or ()))
    return look
