"""The analysis screen: sweep and seeds, as their commands print them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain

from textual.binding import Binding
from textual.widget import Widget

from fa_core.analysis.method_groups import published_groups
from fa_core.analysis.seeds import SeedTable, over_seeds
from fa_core.analysis.threshold_sweep import Sensitivity, sensitivities
from fa_core.formats.table import AuditTable
from fa_core.reporting.blocks import Block, Grid
from fa_core.reporting.records import sweep_record
from fa_core.reporting.sections.analyses import seeds_blocks, sensitivity_blocks
from fa_tui.screens.dialogs import command_for
from fa_tui.screens.threshold_screen import JudgedScreen
from fa_tui.session import Session
from fa_tui.share import Shared, Table
from fa_tui.views.analysed import left_out_words
from fa_tui.views.printed import lines_of
from fa_tui.views.words import scope_pieces, with_keys
from fa_tui.widgets.line import TabLine, TextLines

NAMES = ("sweep", "seeds")

_NO_RUNS = (
    "No run is open, so there is nothing to analyse. Runs written to an open folder "
    "appear by themselves."
)
_NONE_PASSES = (
    "No run passes the filter, so there is nothing to analyse. f takes all runs; Esc "
    "and / change it."
)


class AnalysisScreen(JudgedScreen):
    """Two tabs of text, recomputed as thresholds move.

    Args:
        session: the runs and what judges them.
    """

    tab = "Analysis"

    BINDINGS = [
        *(
            Binding(
                str(place), f"open({place - 1})", name.capitalize(), tooltip=f"the analysis {name}"
            )
            for place, name in enumerate(NAMES, 1)
        ),
        Binding("A", "dismiss", "Back", show=False),
    ]

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._open = 0
        self._blocks: list[Block] = []

    def body(self) -> Iterable[Widget]:
        self.tabs, self.text = TabLine(NAMES), TextLines(id="analysis")
        return (self.tabs, self.text)

    def on_mount(self) -> None:
        self.action_open(0)
        self.text.focus()

    def on_resize(self) -> None:
        self._write()

    def reread(self) -> None:
        """The table is read as it is judged."""

    @property
    def _table(self) -> AuditTable:
        """The runs in scope."""
        if self.session.scope is None:
            return self.session.table
        return self.session.table.select(self.session.scope)

    def action_open(self, place: int) -> None:
        """Open an analysis."""
        self._open = place
        self.tabs.open(place)
        self.text.scroll_home(animate=False, immediate=True)
        self.judge()

    def judge(self) -> None:
        session = self.session
        self.set_title(
            (" analysis ", "accent"), (f" {NAMES[self._open]} ", "strong"), *scope_pieces(session)
        )
        if NAMES[self._open] == "sweep":
            self._blocks = list(sensitivity_blocks(self._sweep()))
        else:
            self._blocks = list(seeds_blocks(self._seeds()))
        self._write()

    def _sweep(self) -> Sequence[Sensitivity]:
        return sensitivities(self._table, self.session.thresholds)

    def _seeds(self) -> SeedTable:
        return over_seeds(self._table, self.session.thresholds)

    def _write(self) -> None:
        width = self.text.scrollable_content_region.width
        if not self.session.in_scope:
            self.text.set_lines([_NONE_PASSES if len(self.session) else _NO_RUNS])
        elif width:
            lines = [line.text for line in lines_of(self._blocks, width)]
            self.text.set_lines([*map(with_keys, chain(lines, self._left_out()))])

    def _left_out(self) -> Iterable[str]:
        """Runs that the analysis would need and the filter leaves out."""
        if self.session.scope is None:
            return
        analysed = Counter(row.method for row in self.session.scoped)
        every = Counter(row.method for row in self.session.rows)
        counts = {name: (analysed[name], count) for name, count in every.items()}
        groups = {}
        if NAMES[self._open] == "sweep":
            groups = published_groups(self.session.table)
        for words in left_out_words(counts, groups, " (f: all runs)"):
            yield f"- {words}"

    def _record(self) -> object:
        """The JSON record that the command of the open analysis prints."""
        if NAMES[self._open] == "seeds":
            return self._seeds().to_dict()
        return sweep_record(self._table, self.session.thresholds, self._sweep())

    def shared(self) -> Shared:
        """The open table and its runs."""
        grids = [block for block in self._blocks if isinstance(block, Grid)]
        if not grids:
            return Shared()
        command = command_for(self.app, NAMES[self._open])
        return Shared(
            command=command, rows=self.session.scoped, table=Table(grids[0], self._record)
        )
