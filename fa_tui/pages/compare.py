"""Compare: marked runs, or the seeds of a method, side by side on one scale."""

from __future__ import annotations

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.widget import Widget

from fa_core.report.notes import basis_text
from fa_core.report.numbers import short
from fa_tui.pages.page import Page
from fa_tui.session import Session
from fa_tui.share import Shared, command_for
from fa_tui.views.comparison import (
    MARKED,
    NOBODY,
    Group,
    agreement,
    column_labels,
    groups_of,
    place_of,
)
from fa_tui.views.looks import SeedLooks
from fa_tui.views.words import runs_words, scope_pieces
from fa_tui.widgets.chart import LayerCharts
from fa_tui.widgets.compare_view import CompareView
from fa_tui.widgets.line import Line
from fa_tui.widgets.painted import Row, hidden

_ROOMY = 48
"""Lines of the terminal from which there is room for charts."""


class ComparePage(Page):
    """Compares the lines of the matrix one after another with one key, the marked runs first."""

    HELP = """
Runs side by side
The marked ones (space marks in the matrix), or one method over its seeds; without those of which \
files changed since, or that are gone, as in seeds.
Ratio, mean and where they diverge are of all of them. Under each name stands where the run comes \
from, if not all come from one file.

  max/min      the largest of the line over its smallest; more than ×10 stands out
  ‹            the first layer at which the runs part (diverge): lie more than ×10 apart
  mean         of norms and growth the geometric mean and its factor, (×1.2), else \
mean ± sample std; only of seeds of one method: runs that differ in \
network, data or training have no mean
  red          a number on which a diagnostic fires; of growth, a block above the limit

  tab          the next method; shift+tab: the one before
  ↑ ↓ ← →      move (or h j k l); to the right come more runs, the ratio and the mean
  v            ‖h‖ and ‖g‖ as curves over the layers, or the table again
"""
    DEFAULT_CSS = """
    ComparePage {
        & CompareView { height: 1fr; }
        & LayerCharts { display: none; height: 1fr; }
        & #agreement, & #here { height: 1; }
        &.-roomy CompareView { height: auto; max-height: 50%; }
        &.-chart LayerCharts, &.-roomy LayerCharts { display: block; }
        /* not display: it keeps the focus */
        &.-chart CompareView { height: 0; }
    }
    """

    BINDINGS = [
        Binding("tab", "flip(1)", "Next", tooltip="compare the next method"),
        hidden("shift+tab", "flip(-1)", "Previous", tooltip="compare the method before"),
        Binding("v", "chart", "View", tooltip="‖h‖ and ‖g‖ over the layers, or the table"),
        Binding("enter", "go", "Go there", tooltip="to this run in the matrix"),
    ]

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.view, self.curves = CompareView(session), LayerCharts()
        self.agreement, self.here = Line(id="agreement"), Line(id="here")
        self._at = 0
        self._groups: list[Group] = []
        self._wanted = NOBODY
        self._read()

    def _read(self) -> None:
        """Take the groups and looks of the runs in scope."""
        session = self.session
        self._groups = groups_of(session)
        self._seeds = SeedLooks(session.rows, self.app.terminal.glyphs)

    def _choose(self, row: int | None) -> None:
        """Compare the marked runs, else the group of a run."""
        groups = enumerate(self._groups)
        found = (place for place, group in groups if group.name == MARKED or row in group.rows)
        self._at = next(found, 0)
        self._wanted = self.group
        self._show()

    def compose(self) -> ComposeResult:
        yield self.view
        yield self.curves
        yield self.agreement
        yield self.here

    def on_mount(self) -> None:
        self._choose(self.app.explorer.row)

    def on_resize(self) -> None:
        self.set_class(self.app.size.height >= _ROOMY, "-roomy")
        self.refresh_bindings()

    @property
    def main(self) -> Widget:
        return self.view

    @property
    def row(self) -> int | None:
        here = self.view.under_cursor
        if here is None or here[1] is None:
            return None
        return self.group.rows[here[1]]

    def go_to(self, row: int) -> None:
        if not self._groups:
            return
        if row not in self.group.rows:
            self._choose(row)
        if row in self.group.rows:
            self.view.move_to(self.view.line, self.group.rows.index(row))

    def show(self, now: Session) -> None:
        before, self.session = self.session, now
        self.view.session = now
        if now.seen is not before.seen or now.marked != before.marked:
            # the user's choice returns as soon as it is in scope
            self._read()
            self._at = place_of(self._wanted, self._groups, self._at)
            self._show()
        else:
            self.view.refresh()
            self._say()

    @property
    def group(self) -> Group:
        """The compared runs."""
        if self._groups:
            return self._groups[self._at]
        return NOBODY

    def action_flip(self, step: int) -> None:
        """Compare the next or previous line."""
        if self._groups:
            self._at = (self._at + step) % len(self._groups)
            self._wanted = self.group
            self._show()

    def action_chart(self) -> None:
        """Show the chart instead of the table, or the table again."""
        self.toggle_class("-chart")

    def shared(self) -> Shared:
        """The value under the cursor, and the compared runs."""
        group, session = self.group, self.session
        if not group.rows:
            return Shared()
        rows = [session.rows[row] for row in group.rows]
        command = "show" if group.name == MARKED else "seeds"
        words = command_for(self.app, command, rows=group.rows)
        return Shared(self.here.text.strip(), words, rows)

    def _show(self) -> None:
        group, session = self.group, self.session
        compared = [session.rows[row] for row in group.rows]
        looks = self._seeds.drawn(compared)
        self.view.compare(group.rows, column_labels(session, group), looks)
        self.curves.show(compared, looks)
        self._say()

    def _say(self) -> None:
        self.agreement.set(*(agreement(self.session, self.group) if self._groups else ()))
        self._say_here()
        self.app.explorer.describe()

    def title(self) -> Row:
        group = self.group
        if not group.rows:
            why = "no run passes the filter" if len(self.session) else "no runs"
            return [(f" nothing to compare: {why}", "strong")]
        seen = f" {runs_words(len(group.rows))}"
        place = f", method {self._at + 1} of {len(self._groups)}"
        more = ""
        if group.left_out:
            more = f", {group.left_out} more left out: mark some with space"
        if void := self.session.runs.void:
            more += f", {len(void)} of all changed or gone"
        home = f"{group.home} " if group.home else ""
        about = [(text, "dim") for text in (home, seen, more, place)]
        *_, scope = scope_pieces(self.session)
        return [(f" {group.name} ", "strong"), *about, (" ", ""), scope]

    @on(CompareView.Moved)
    def _say_here(self) -> None:
        """The value under the cursor with its significant digits, and its run's source."""
        here, rows, line = self.view.under_cursor, self.group.rows, self.here
        if here is None:
            line.set()
            return
        entry, column = here
        if column is None:
            line.set((f" max/min and mean are over all {len(rows)} runs", "dim"))
            return
        index = rows[column]
        row, value = self.session.rows[index], entry.spread.values[column] if entry.spread else None
        text = f"{entry.name} was not measured"
        if entry.kind == "verdict":
            text = self.session.judged(index).words
        elif value is not None:
            basis = entry.quantity and basis_text(row.report, entry.quantity.letter)
            text = f"{entry.name} = {short(value, 6)}" + (f" ({basis})" if basis else "")
        elif entry.kind in ("h", "g", "growth"):
            text = f"no {entry.name} in this run"
        line.set(
            (f" {self.session.label(index)}: ", "strong"), (text, ""), (f"   {row.source}", "dim")
        )
