"""Two of the open files or folders compared run by run: before and after."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace
from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.widget import Widget

from fa_core.analysis.difference import CAME, CHANGED, WENT, RunDifference, differences
from fa_core.formats.rows import AuditRow
from fa_core.report.names import homes, short_paths
from fa_tui.pages.page import Page
from fa_tui.screens.questions import Choice, Dismissed, choose
from fa_tui.session import Session
from fa_tui.share import Shared, Table, command_for
from fa_tui.views.differences import (
    NOTHING,
    changes,
    difference_grid,
    difference_summary,
)
from fa_tui.views.looks import tone_of
from fa_tui.views.text import as_many
from fa_tui.widgets.line import TextLines
from fa_tui.widgets.painted import Row
from fa_tui.widgets.run_cells import verdict_pieces
from fa_tui.widgets.table import GridTable, LineTable


class DiffTable(GridTable):
    """Shows both verdicts of a run in their colours.

    Attributes:
        verdicts: of each line.
    """

    verdicts: Sequence[Sequence[Row]] = ()

    def cell(self, line: int | None, column: int) -> Row:
        if line is None or column > 1:
            return super().cell(line, column)
        return self.verdicts[line][column]

    def _text(self, line: int | None, column: int) -> str:
        text = super()._text(line, column)
        if line is None or column < len(self.text[0]) - 1:
            return text
        # the whole ones of many changes
        return as_many(text.split(", "), self.width_of(column - 1) - self.gap, ", ") or text


class DiffPage(Page):
    """The runs that changed between two files or folders, that came or went."""

    HELP = """
Before and after: two of the open files or folders, run by run
A run is the same in both if its method, seed and axes are. Numbers that differ by no more than \
rounding count as the \
same. A name stands out where the verdict changed; "none" is said of a run that the other \
lacks. Both are judged by the thresholds of the sliders. First on a line: the settings that are \
others (λ, epochs, B, K), a letter that only one of the two measured, whether the evaluation data \
are others, or unknown in one, and an interval that changed though its number did not. ✗ behind A \
and B: how many of their measured runs need walk-back. Of several opened paths each is a side.

  tab           A and B swapped
  v             choose A and B from a list of what is open
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
        Binding("tab,shift+tab", "swap", "Swap", key_display="tab", tooltip="A and B swapped"),
        Binding("v", "choose", "View", tooltip="choose A and B from a list of what is open"),
        Binding("enter", "go", "Go there", tooltip="to the run in the matrix"),
    ]

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.table, self.about = DiffTable(), TextLines(id="about")
        self._places: dict[str, list[AuditRow]] = {}
        self._names: dict[str, str] = {}
        self._pair: Sequence[str] = ()
        self._sides: Sequence[list[AuditRow]] = ()
        self._runs: list[RunDifference] = []
        self._every: list[RunDifference] = []

    def compose(self) -> ComposeResult:
        yield self.table
        yield self.about

    def on_mount(self) -> None:
        self.show(self.session)

    @property
    def main(self) -> Widget:
        return self.table

    def show(self, now: Session) -> None:
        self.session, self._places = now, {}
        shown, twins = {*now.in_scope}, now.runs.twins
        rows = [row for place, row in enumerate(now.read) if twins.get(place, place) in shown]
        opened = self.app.paths if len(self.app.paths) > 1 else ()
        for row, home in zip(rows, homes([row.source for row in rows]), strict=True):
            held = (str(path) for path in opened if Path(row.source).is_relative_to(path))
            self._places.setdefault(next(held, home), []).append(row)
        for rows in self._places.values():
            # each by itself, as `fa-tui diff` opens it
            own = Session(rows, now.frozen, now.thresholds, now.baseline, now.log)
            rows[:] = [replace(own.rows[row], report=own.judged(row)) for row in own.in_scope]
        self._names = short_paths(self._places)
        if not self._pair or any(place not in self._places for place in self._pair):
            self._pair = [*self._places][:2] if len(self._places) > 1 else ()
        self._sides = [self._places[place] for place in self._pair]
        self._every = differences(*self._sides) if self._sides else []
        self._runs = [run for run in self._every if run.state in (CHANGED, CAME, WENT)]
        self.table.verdicts = [
            [self._verdict(run.before), self._verdict(run.after)] for run in self._runs
        ]
        self.table.set_grid(difference_grid(self._runs))
        self._tell()
        self.app.explorer.describe()

    def _verdict(self, row: AuditRow | None) -> Row:
        """A run's cell, as the matrix shows it."""
        if row is None:
            return [(NOTHING, "dim")]
        cell = self.app.terminal.glyphs.say(row.report.cell())
        return verdict_pieces(cell, tone_of(row.report.claim))

    def title(self) -> Row:
        title: Row = []
        if not self._pair:
            return [(" one file or folder is open: nothing to compare it with", "strong")]
        for side, place, rows in zip("AB", self._pair, self._sides, strict=False):
            counted = [row.report for row in rows if row.report.coverage and not row.no_claim]
            walked = sum(bool(report.flags) for report in counted)
            count = (f" ✗ {walked} of {len(counted)} ", "dim")
            title += [(f" {side} ", ""), (self._names[place], "strong"), count]
        return title

    def counts(self) -> Sequence[str]:
        return difference_summary(self._every) if self._pair else super().counts()

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
        if not self._pair:
            lines = ["O opens a second one beside it; so does fa-tui A B"]
            if self.session.filter is not None:
                lines = ["f takes the runs of every file and folder that is open"]
        if run is not None:
            lines = changes(run)
            for name, row in (("A", run.before), ("B", run.after)):
                if row is not None:
                    lines.append(f"{name}  {row.report.words}")
        self.about.set_lines(lines)

    def action_swap(self) -> None:
        """Compare the other way round."""
        self._pair = self._pair[::-1]
        self.show(self.session)

    def action_choose(self) -> None:
        """Ask which two are compared."""
        if self._pair:
            self.run_worker(self._choose(), exclusive=True)
        else:
            self.app.say("O opens a second one to compare with", "dim")

    async def _choose(self) -> None:
        chosen: list[str] = []
        with suppress(Dismissed):
            for title in ("A: before", "B: after"):
                left = [place for place in self._places if place not in chosen]
                choices = [Choice(self._names[place], "", place) for place in left]
                chosen.append(await choose(self.app, title, choices))
            self._pair = chosen
            self.show(self.session)

    @property
    def row(self) -> int | None:
        run = self._here
        if run is None:
            return None
        places = self.session.runs.places
        shown = (row for row in (run.after, run.before) if row and row.source in places)
        return next((places[row.source][row.key] for row in shown), None)

    def shared(self) -> Shared:
        """The compared runs; in JSON with every number of both sides."""
        command: list[str] = []
        if self._pair:
            command = command_for(self.app, "diff", paths=list(map(Path, self._pair)))
        table = Table(difference_grid(self._runs), lambda: [run.to_dict() for run in self._runs])
        return Shared(self.table.text_here, command, table=table)
