"""Two of the open files or folders compared run by run: before and after."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace
from textual import on
from textual.binding import Binding
from textual.widget import Widget

from fa_core.analysis.difference import CAME, CHANGED, WENT, RunDifference, differences
from fa_core.errors import UsageError
from fa_core.formats.rows import AuditRow
from fa_core.reporting.blocks import Grid
from fa_tui.screens.threshold_screen import JudgedScreen
from fa_tui.session import Session
from fa_tui.share import Shared, Table
from fa_tui.views.differences import change_text, difference_grid, difference_summary
from fa_tui.views.grid import homes_of
from fa_tui.widgets.line import TextLines
from fa_tui.widgets.table import GridTable, LineTable


def open_places(session: Session) -> list[str]:
    """The files and folders whose runs are in scope, in the order in which they were opened."""
    return list(dict.fromkeys(homes_of([row.source for row in session.scoped])))


class DifferencesScreen(JudgedScreen):
    """The runs that changed between two files or folders, that came or went.

    Args:
        session: the runs and what judges them.
        before: the first of `open_places` to compare.
        after: the second.

    Raises:
        UsageError: there are no two places to compare.
    """

    BINDINGS = [
        Binding("s", "swap", "Swap", tooltip="compare the other way round"),
        Binding("n", "next(1)", "Next", tooltip="the next of the open files or folders as B"),
        Binding("p", "next(-1)", "Previous", show=False, tooltip="the one before as B"),
        Binding("o", "same", "All runs", tooltip="the runs that are the same too, or only changes"),
        Binding("enter", "go", "Go there", tooltip="to the run in the matrix"),
        Binding("D", "dismiss", "Back", show=False),
    ]

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        places = open_places(session)
        if len(places) < 2:
            raise UsageError(
                "one file or folder is open: open two to compare them, fa-tui A B, or fa-tui diff"
            )
        self._before, self._after = places[0], places[1]
        self._shows_all = False
        self._runs: list[RunDifference] = []
        self._grid = Grid(("run",), ())

    def body(self) -> Iterable[Widget]:
        self.table, self.about = GridTable(), TextLines(id="about")
        return (self.table, self.about)

    def on_mount(self) -> None:
        self.judge()
        self.table.focus()

    def reread(self) -> None:
        """The runs are read again by `judge`."""

    def judge(self) -> None:
        every = differences(self._rows_of(self._before), self._rows_of(self._after))
        self._runs = every
        if not self._shows_all:
            self._runs = [run for run in every if run.state in (CHANGED, CAME, WENT)]
        self._grid = difference_grid(self._runs)
        self.set_title(
            (" before and after ", "accent"),
            (f" A {self._before}   B {self._after}   ", "strong"),
            (difference_summary(every), "dim"),
        )
        self.table.set_grid(self._grid)
        self._tell()

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
        if run is not None:
            lines = [change_text(change) for change in run.numbers]
            for name, row in (("A", run.before), ("B", run.after)):
                if row is not None:
                    lines.append(f"{name}  {row.words()}")
        self.about.set_lines(lines)

    def action_swap(self) -> None:
        """Compare the other way round."""
        self._before, self._after = self._after, self._before
        self.judge()

    def action_next(self, step: int) -> None:
        """Compare with the next of the open places."""
        places = [place for place in open_places(self.session) if place != self._before]
        place = (places.index(self._after) + step) % len(places)
        self._after = places[place]
        self.judge()

    def action_same(self) -> None:
        """Show the runs that are the same too, or only those that changed."""
        self._shows_all = not self._shows_all
        self.judge()

    def action_go(self) -> None:
        """Close, with the cursor on the run in the matrix."""
        run = self._here
        if run is not None:
            self.leave_to(run.row)

    def shared(self) -> Shared:
        """The table."""
        record = [run.to_dict() for run in self._runs]
        return Shared(self.table.text_here, table=Table(self._grid, lambda: record))
