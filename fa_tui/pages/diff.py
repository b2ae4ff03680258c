"""Two of the open files or folders compared run by run: before and after."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

from msgspec.structs import replace
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.widget import Widget

from fa_core.analysis.difference import CAME, CHANGED, WENT, RunDifference, differences
from fa_core.formats.rows import AuditRow
from fa_core.report.names import homes
from fa_core.reporting.blocks import Grid
from fa_tui.pages.page import Page
from fa_tui.session import Session
from fa_tui.share import Shared, Table, command_for
from fa_tui.views.differences import change_text, difference_grid, difference_summary
from fa_tui.views.grid import homes_of
from fa_tui.widgets.line import TextLines
from fa_tui.widgets.painted import Row
from fa_tui.widgets.table import GridTable, LineTable


def open_places(session: Session) -> list[str]:
    """The files and folders whose runs are in scope, in the order in which they were opened."""
    return list(dict.fromkeys(homes_of([row.source for row in session.scoped])))


class DiffPage(Page):
    """The runs that changed between two files or folders, that came or went."""

    HELP = """
Before and after: two of the open files or folders, run by run
A run is the same in both if its method, seed and axes are. Numbers that differ by no more than \
rounding count as the \
same. A line stands out where one of the two walks the run back and the other does not; – is a \
run that the other \
lacks. Both are judged by the thresholds of the sliders.

  V             the next two: another of the open files or folders as B, or the other way round
  O             open one more file or folder beside what is open
  Enter         to the run in the matrix
"""
    DEFAULT_CSS = """
    DiffPage {
        & GridTable { height: 1fr; }
        & #about { height: auto; max-height: 40%; padding: 0 1; }
    }
    """

    BINDINGS = [
        Binding("V", "next", "Other", tooltip="another file or folder as B, or A and B swapped"),
        Binding("O", "app.ask('beside')", "Open B", tooltip="open one beside what is open"),
        Binding("enter", "go", "Go there", tooltip="to the run in the matrix"),
    ]

    def __init__(self, session: Session, row: int | None) -> None:
        super().__init__(session, row)
        self.table, self.about = GridTable(), TextLines(id="about")
        self._before, self._after = "", ""
        self._runs: list[RunDifference] = []
        self._every: list[RunDifference] = []
        self._grid = Grid(("run",), ())

    def compose(self) -> ComposeResult:
        yield self.table
        yield self.about

    def on_mount(self) -> None:
        self.show(self.session)

    @property
    def main(self) -> Widget:
        return self.table

    def show(self, now: Session) -> None:
        self.session = now
        places = open_places(now)
        if self._before not in places or self._after not in places:
            self._before, self._after = [*places, "", ""][:2]
        self._compare()

    def _compare(self) -> None:
        self._every = []
        if self._after:
            self._every = differences(self._rows_of(self._before), self._rows_of(self._after))
        self._runs = [run for run in self._every if run.state in (CHANGED, CAME, WENT)]
        self._grid = difference_grid(self._runs)
        self.table.set_grid(self._grid)
        self._tell()
        self.app.explorer.describe()

    def title(self) -> Row:
        name = (" before and after ", "accent")
        if not self._after:
            return [name, (" one file or folder is open: nothing to compare it with", "strong")]
        places = [(" A ", ""), (self._before, "strong"), ("  B ", ""), (self._after, "strong")]
        return [name, *places]

    def legend(self) -> Row:
        return [(f" {difference_summary(self._every)}", "dim")] if self._after else super().legend()

    def _rows_of(self, place: str) -> list[AuditRow]:
        """The runs in scope of a file or folder, judged."""
        session = self.session
        homes = homes_of([row.source for row in session.scoped])
        rows = []
        for row, home in zip(session.scoped, homes, strict=True):
            if home == place:
                report = row.report.with_thresholds(session.thresholds)
                rows.append(replace(row, report=report))
        return rows

    @property
    def _here(self) -> RunDifference | None:
        """The run under the cursor."""
        if self._runs:
            return self._runs[self.table.line]
        return None

    @on(LineTable.Moved)
    def _tell(self) -> None:
        """All that changed of the run under the cursor, a line each."""
        run = self._here
        lines: Sequence[str] = ["nothing changed: every run is the same in both"]
        if not self._after:
            lines = ["O opens a second one beside it; so does fa-tui A B"]
            if self.session.filter is not None:
                lines = ["f takes the runs of every file and folder that is open"]
        if run is not None:
            lines = [change_text(change) for change in run.numbers]
            for name, row in (("A", run.before), ("B", run.after)):
                if row is not None:
                    lines.append(f"{name}  {row.report.words}")
        self.about.set_lines(lines)

    def action_next(self) -> None:
        """Compare the next two of the open places."""
        pairs = [*permutations(open_places(self.session), 2)]
        if pairs:
            place = pairs.index((self._before, self._after)) + 1
            self._before, self._after = pairs[place % len(pairs)]
            self._compare()

    @property
    def row(self) -> int | None:
        run = self._here
        if run is None:
            return None
        return self.session.runs.places[run.row.source][run.row.key]

    def shared(self) -> Shared:
        """The table."""
        session, record = self.session, [run.to_dict() for run in self._runs]
        sources = [row.source for row in session.scoped]
        paths = dict(zip(homes_of(sources), homes(sources), strict=True))
        command: list[str] = []
        if self._after:
            both = [Path(paths[place]) for place in (self._before, self._after)]
            command = command_for(self.app, "diff", paths=both)
        return Shared(self.table.text_here, command, table=Table(self._grid, lambda: record))
