"""Analysis: the tables of `fa-tui sweep` and `fa-tui seeds`, live under the sliders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from textual.app import ComposeResult
from textual.binding import Binding
from textual.widget import Widget

from fa_core.analysis.method_groups import published_groups
from fa_core.analysis.seeds import over_seeds
from fa_core.analysis.threshold_sweep import sensitivities
from fa_core.formats.table import AuditTable
from fa_core.reporting.blocks import Block, Grid, bullets
from fa_core.reporting.records import sweep_record
from fa_core.reporting.sections.analyses import seeds_blocks, sensitivity_blocks
from fa_tui.later import Later
from fa_tui.pages.page import Page
from fa_tui.screens.dialogs import command_for
from fa_tui.session import Session
from fa_tui.share import Shared, Table
from fa_tui.views.analysed import left_out_words
from fa_tui.views.printed import lines_of
from fa_tui.views.words import scope_pieces, with_keys
from fa_tui.widgets.line import TabBar, TextLines
from fa_tui.widgets.painted import Row

_KEYS = {"sweep": "1", "seeds": "2"}
_FLUSH_SECONDS = 0.001
_NO_RUNS = (
    "No run is open, so there is nothing to analyse. Runs written to an open folder "
    "appear by themselves."
)
_NONE_PASSES = (
    "No run passes the filter, so there is nothing to analyse. f takes all runs; / changes it."
)


class AnalysisPage(Page):
    """Two analyses of the runs in scope, one at a time.

    Attributes:
        judge_later: analyses the runs again.
    """

    HELP = """
Analyses of the runs, as the commands of the same names print them
They follow the sliders and the filter.

  1 sweep     how far may each threshold move before a diagnostic changes on a run? \
Range, (median), runs that fire. Only the published audit's own runs have healthy and \
degenerate methods; of others fa-tui sweep --healthy bp,ep --degenerate dfa compares the two.
  2 seeds     every method over its seeds: mean and spread, what fires, and where seeds \
disagree.

  1 2, tab    choose an analysis
  f           all runs, or again only those that pass the filter; a frozen baseline belongs \
              to its run: no filter takes it away
"""
    # tables are as wide as the text: a scrollbar must not come later
    DEFAULT_CSS = """
    AnalysisPage TextLines { height: 1fr; padding: 0 1; scrollbar-gutter: stable; }
    """

    BINDINGS = [
        *(
            Binding(key, f"open({name!r})", name.capitalize(), tooltip=f"the analysis {name}")
            for name, key in _KEYS.items()
        ),
        Binding("tab,shift+tab", "turn", "Next", show=False),
    ]

    def __init__(self, session: Session, row: int | None) -> None:
        super().__init__(session, row)
        self._open = "sweep"
        self.tabs, self.text = TabBar(_KEYS, self._open), TextLines()
        self._blocks: list[Block] = []
        self.judge_later = Later(_FLUSH_SECONDS, self, self._judge)

    def compose(self) -> ComposeResult:
        yield self.tabs
        yield self.text

    @property
    def main(self) -> Widget:
        return self.text

    def show(self, now: Session) -> None:
        self.session = now
        # a held key must not queue work
        self.judge_later()

    def action_turn(self) -> None:
        """Open the other analysis."""
        self.action_open("seeds" if self._open == "sweep" else "sweep")

    def action_open(self, name: str) -> None:
        """Open an analysis."""
        self._open = name
        self.tabs.open(name)
        self.text.scroll_to(y=0, animate=False)
        self._judge()
        self.app.explorer.describe()

    def on_tab_bar_chosen(self, message: TabBar.Chosen) -> None:
        message.stop()
        self.action_open(message.name)

    def on_resize(self) -> None:
        self._judge()

    def title(self) -> Row:
        name = (f" {self._open} ", "strong")
        return [(" analysis ", "accent"), name, *scope_pieces(self.session)]

    @property
    def _table(self) -> AuditTable:
        """The runs in scope."""
        table, scope = self.session.table, self.session.scope
        return table if scope is None else table.select(scope)

    def _judge(self) -> None:
        self._blocks = list(self._analysed())
        width = self.text.scrollable_content_region.width
        if not self.session.in_scope:
            self.text.set_lines([_NONE_PASSES if len(self.session) else _NO_RUNS])
        elif width:
            lines = [line.text for line in lines_of(self._blocks, width)]
            self.text.set_lines([*map(with_keys, lines)])

    def _analysed(self) -> Iterator[Block]:
        table, thresholds = self._table, self.session.thresholds
        if self._open == "sweep":
            yield from sensitivity_blocks(sensitivities(table, thresholds))
        else:
            yield from seeds_blocks(over_seeds(table, thresholds))
        yield from bullets(self._left_out())

    def _left_out(self) -> Iterator[str]:
        """Warnings about runs that the analysis would need and the filter leaves out."""
        every, some = self.session.table, self._table
        kept = Counter(some.method.tolist())
        counts = {name: (kept[name], of) for name, of in Counter(every.method.tolist()).items()}
        groups = published_groups(every) if self._open == "sweep" else {}
        return left_out_words(counts, groups, " (f: all runs)")

    def _record(self) -> object:
        """The JSON record of the open analysis, as its command prints it."""
        table, thresholds = self._table, self.session.thresholds
        if self._open == "sweep":
            return sweep_record(table, thresholds, sensitivities(table, thresholds))
        return over_seeds(table, thresholds).to_dict()

    def shared(self) -> Shared:
        """The open table and its runs."""
        grids = [block for block in self._blocks if isinstance(block, Grid)]
        if not grids:
            return Shared()
        command = command_for(self.app, self._open)
        table = Table(grids[0], self._record)
        return Shared(command=command, rows=self.session.scoped, table=table)
