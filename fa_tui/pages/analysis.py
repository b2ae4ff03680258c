"""Analysis: the tables of `fa-tui sweep` and `fa-tui seeds`, live under the sliders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from textual.app import ComposeResult
from textual.binding import Binding
from textual.widget import Widget

from fa_core.analysis.method_groups import published_groups
from fa_core.analysis.seeds import over_seeds
from fa_core.analysis.threshold_sweep import sensitivities
from fa_core.formats.table import AuditTable
from fa_core.reporting.blocks import Block, Grid, bullets
from fa_core.reporting.sections.analyses import seeds_blocks, sensitivity_blocks
from fa_tui.later import Later
from fa_tui.pages.page import Page
from fa_tui.session import Session
from fa_tui.share import Shared, Table, command_for
from fa_tui.views.printed import lines_of
from fa_tui.views.words import left_out_words, scope_pieces
from fa_tui.widgets.line import TabBar, TextLines
from fa_tui.widgets.painted import Row, hidden
from fa_tui.widgets.table import GridTable

_KEYS = {"sweep": "1", "seeds": "2"}
_ROOMY = 40
"""Lines of the terminal from which there is room for both."""
_NO_RUNS = (
    "No run is open, so there is nothing to analyse. Runs written to an open folder "
    "appear by themselves."
)
_NONE_PASSES = (
    "No run passes the filter, so there is nothing to analyse. f takes all runs; / changes it."
)


def _one_table(grids: Sequence[Grid]) -> Grid:
    """The tables of the same lines side by side, each line named once."""
    columns: dict[str, Sequence[str]] = {}
    for grid in grids:
        for heading, *cells in zip(grid.headings, *grid.rows, strict=True):
            is_second = heading in columns and heading != grid.headings[0]
            columns[f"{heading} min … max" if is_second else heading] = cells
    rows = zip(*columns.values(), strict=True)
    return Grid(tuple(columns), tuple(rows), words=grids[0].words, marked=grids[0].marked)


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
disagree. The verdict is that of all seeds; if they differ MIXED where some need walk-back and \
others are trustworthy, else undecided. ← → go to further columns.

  1 2, tab    choose an analysis
  f           all runs; again: those of the first filter, of the last one; a frozen baseline \
belongs to its run: no filter takes it away
"""
    # text is as wide as its tables: a scrollbar must not come later
    DEFAULT_CSS = """
    AnalysisPage {
        & TextLines { height: 1fr; padding: 0 1; scrollbar-gutter: stable; }
        & GridTable { display: none; height: 1fr; }
        &.-table GridTable { display: block; }
        &.-table TextLines { height: auto; max-height: 45%; }
        &.-table.-notes TextLines { max-height: 4; }
    }
    """

    BINDINGS = [
        *(
            Binding(key, f"open({name!r})", name.capitalize(), tooltip=f"the analysis {name}")
            for name, key in _KEYS.items()
        ),
        hidden("tab,shift+tab", "turn", "Next"),
    ]

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._open = "sweep"
        self.tabs = TabBar(_KEYS, self._open, self.action_open)
        self.table, self.text = GridTable(), TextLines()
        self._blocks: list[Block] = []
        self.judge_later = Later(self, self._judge)

    def compose(self) -> ComposeResult:
        yield self.tabs
        yield self.table
        yield self.text

    @property
    def main(self) -> Widget:
        return self.table if self._open == "seeds" and self.table.line_count() else self.text

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
        self.screen.set_focus(self.main)
        self.app.explorer.describe()

    def on_resize(self) -> None:
        self._judge()

    def title(self) -> Row:
        return [(f" {self._open} ", "strong"), *scope_pieces(self.session)]

    @property
    def _table(self) -> AuditTable:
        """The runs in scope."""
        return self.session.runs.table.select(self.session.in_scope)

    def _judge(self) -> None:
        self._blocks = list(self._analysed(self._open))
        is_open, grids = self._open == "seeds", list[Grid]()
        if is_open or self.app.size.height >= _ROOMY:
            blocks = self._blocks if is_open else self._analysed("seeds")
            grids = [block for block in blocks if isinstance(block, Grid)]
        self.set_class(bool(grids), "-table")
        self.set_class(is_open, "-notes")
        if grids:
            self.table.set_grid(_one_table(grids))
        width = self.text.scrollable_content_region.width
        if not self.session.in_scope:
            self.text.set_lines([_NONE_PASSES if len(self.session) else _NO_RUNS])
        elif width:
            said = [block for block in self._blocks if not (is_open and isinstance(block, Grid))]
            self.text.set_lines([line.text for line in lines_of(said, width)])

    def _analysed(self, name: str) -> Iterator[Block]:
        table, thresholds = self._table, self.session.thresholds
        if name == "sweep":
            yield from sensitivity_blocks(sensitivities(table, thresholds))
        else:
            yield from seeds_blocks(over_seeds(table, thresholds))
        yield from bullets(self._left_out())

    def _left_out(self) -> Iterator[str]:
        """Warnings about runs that the analysis would need and the filter leaves out."""
        every = self.session.runs.table.select(self.session.runs.shown)
        groups = published_groups(every) if self._open == "sweep" else {}
        kept = self._table.method.tolist()
        return left_out_words(kept, every.method.tolist(), groups, " (f: all runs)")

    def _record(self) -> object:
        """The JSON record of the open analysis, as its command prints it."""
        table, thresholds = self._table, self.session.thresholds
        if self._open == "sweep":
            return [one.to_dict() for one in sensitivities(table, thresholds)]
        return over_seeds(table, thresholds).to_dict()

    def shared(self) -> Shared:
        """The open table and its runs."""
        grids = [block for block in self._blocks if isinstance(block, Grid)]
        if not grids:
            return Shared()
        command = command_for(self.app, self._open)
        table = Table(grids[0], self._record)
        return Shared(command=command, rows=self.session.scoped, table=table)
