"""The analysis screen: sweep, utility and seeds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from textual import on
from textual.binding import Binding
from textual.widget import Widget

from fa_core.analysis.seeds import SeedTable, over_seeds
from fa_core.analysis.threshold_sweep import Sensitivity, sensitivities, verdict_curve
from fa_core.analysis.utility import Utility, decision_utility
from fa_core.errors import FaError
from fa_core.formats.table import AuditTable
from fa_core.report.thresholds import DiagnosticThresholds
from fa_core.reporting.blocks import Block, Grid
from fa_core.reporting.records import sweep_record
from fa_core.reporting.sections.analyses import (
    NO_LETTER_CHANGES,
    seeds_blocks,
    sensitivity_blocks,
    utility_blocks,
)
from fa_tui.screens.dialogs import command_for
from fa_tui.screens.questions import Choice, SeveralScreen
from fa_tui.screens.threshold_screen import JudgedScreen
from fa_tui.session import Session
from fa_tui.settings import GROUPS, remember_groups, remembered_groups
from fa_tui.share import Shared, Table
from fa_tui.views import analysed
from fa_tui.views.words import runs_words, scope_pieces, with_keys
from fa_tui.widgets.chart import Canvas, curve_chart
from fa_tui.widgets.line import Line, TabLine, TextLines
from fa_tui.widgets.table import GridTable, LineTable

NAMES = ("sweep", "utility", "seeds")

_NO_RUNS = (
    "No run is open, so there is nothing to analyse. Runs written to an open folder "
    "appear by themselves."
)
_NONE_PASSES = (
    "No run passes the filter, so there is nothing to analyse. f takes all runs; Esc "
    "and / change it."
)


class AnalysisScreen(JudgedScreen):
    """Three tabs with a table each, and details of the line under the cursor.

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
        Binding(
            "M",
            "healthy",
            "Groups",
            tooltip="which methods should pass, fire, or are left out of the sweep",
        ),
        Binding("tab", "turn(1)", "Next", show=False),
        Binding("shift+tab", "turn(-1)", "Previous", show=False),
        Binding(
            "enter",
            "threshold",
            "Threshold",
            show=False,
            tooltip="in the sweep: go to the slider of the line's diagnostic",
        ),
        Binding("A", "dismiss", "Back", show=False),
    ]

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        if session.groups is None:
            session.groups = remembered_groups(self.app.paths)
        self.runs = analysed.Analysed(session)
        self._open = 0
        self._lines = [0] * len(NAMES)
        self._notes: list[str] = []
        self._blocks: list[Block] = []
        self._found: Sequence[Sensitivity] | Utility | SeedTable = ()

    def body(self) -> Iterable[Widget]:
        self.tabs, self.table, self.about = TabLine(NAMES), GridTable(), TextLines(id="about")
        self.curve_title, self.curve = Line(id="curve-title"), Canvas(id="curve")
        return (self.tabs, self.table, self.curve_title, self.curve, self.about)

    def on_mount(self) -> None:
        self.action_open(0)

    def on_unmount(self) -> None:
        self._found, self._blocks = (), []

    def reread(self) -> None:
        self.runs.read()
        self._say_title()

    def action_turn(self, step: int) -> None:
        """Open the next or previous analysis."""
        self.action_open((self._open + step) % len(NAMES))

    def action_open(self, place: int) -> None:
        """Open an analysis; its cursor is kept."""
        self._lines[self._open] = self.table.line
        self._open = place
        for number, name in enumerate(NAMES):
            self.set_class(number == place, f"-{name}")
        self.tabs.open(place)
        self.refresh_bindings()
        self.table.scroll_to(0, 0, animate=False, immediate=True)
        self.judge()
        self.table.move_to(self._lines[place])
        self.table.focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Groups of methods exist for the sweep only."""
        return action != "healthy" or (self._open == 0 and len(self.session) > 0)

    def action_threshold(self) -> None:
        """Go to the slider of the sweep's line."""
        found = self._found
        if isinstance(found, (Utility, SeedTable)) or not found:
            self.app.say("a line of this table opens nothing; esc goes back", "dim")
        else:
            self.action_slider(found[self.table.line].letter)

    def action_healthy(self) -> None:
        """Choose the methods that should pass."""
        title = "Methods: healthy ones should pass, degenerate ones fire"
        self.app.push_screen(SeveralScreen(title, self._group_choices, self._next_group))

    def _group_choices(self) -> Iterator[Choice]:
        """A line per method with its group, and one for the default."""
        for number, (name, (some, every)) in enumerate(self.runs.counts().items(), 1):
            if some == every:
                note = runs_words(every)
            else:
                note = f"{some} of {runs_words(every)}"
            yield Choice(
                str(number) if number < 10 else "",
                f"{self.runs.group_of(name):10}  {name}",
                note,
                name,
            )
        yield Choice("0", "the default", "as they are without a choice", "")

    def _next_group(self, method: str) -> None:
        """Put a method into the next group, or all (``""``) into their default groups."""
        chosen = {
            name: self.runs.group_of(name, chosen=bool(method)) for name in self.runs.counts()
        }
        if method:
            chosen[method] = GROUPS[(GROUPS.index(chosen[method]) + 1) % len(GROUPS)]
        self.session.groups = {**(self.session.groups or {}), **chosen}
        try:
            remember_groups(self.app.paths, self.session.groups)
        except FaError as error:
            self.app.say(str(error), "warn")
        self.judge()

    def _say_title(self) -> None:
        name = (f" {NAMES[self._open]} ", "strong")
        self.set_title(
            (" analysis ", "accent"),
            name,
            *scope_pieces(self.session),
        )

    def on_resize(self) -> None:
        # only the table of utility depends on the width
        if self._open == 1:
            self.soon()

    def judge(self) -> None:
        self.runs.judge()
        table, thresholds = self.runs.table, self.session.thresholds
        if self._open == 0:
            self._found = sensitivities(table, thresholds, *self.runs.groups())
            blocks = sensitivity_blocks(self._found)
        elif self._open == 1:
            self._found = decision_utility(table, thresholds)
            blocks = utility_blocks(self._found)
        else:
            self._found = over_seeds(table, thresholds)
            blocks = seeds_blocks(self._found)
        self._say_title()
        self._blocks = list(blocks)
        grid, self._notes = analysed.parts(self._blocks)
        if self._open == 0:
            # a narrow screen shows the most important columns
            grid = analysed.reordered(grid, ("fires when", "gap", NO_LETTER_CHANGES))
        elif isinstance(self._found, Utility):
            grid = analysed.with_methods(
                grid, self._found, self.runs.measured(), self.table.view.width
            )
        elif self._open == 2:
            # source, verdict and accuracy first as well
            grid = analysed.reordered(
                grid, ("method", "from", "verdict", "acc", "fires on"), lines_up=False
            )
        self._notes = [
            *self.runs.left_out_words(groups=self._open == 0),
            *map(with_keys, self._notes),
        ]
        self.set_class(not len(table), "-empty")
        if not len(table):
            grid, self._notes = (
                Grid(headings=("",), rows=()),
                [_NONE_PASSES if len(self.session) else _NO_RUNS],
            )
        self.table.set_grid(grid)
        self._tell()

    def shared(self) -> Shared:
        """The open table and its runs."""
        name, rows = NAMES[self._open], self.session.scoped
        options: list[str] = []
        if name == "sweep":
            groups = zip(("--healthy", "--degenerate"), self.runs.groups(), strict=True)
            for option, methods in groups:
                if methods is not None:
                    options += [option, ",".join(methods) or "none"]
        grids = [block for block in self._blocks if isinstance(block, Grid)]
        table = None
        if grids:
            judged = self.runs.table, self.session.thresholds, self.runs.groups()
            table = Table(grids[0], partial(_record, self._found, *judged))
        return Shared(self.table.text_here, command_for(self.app, name, *options), rows, table)

    @on(LineTable.Moved)
    def _tell(self) -> None:
        """Show details of the line under the cursor."""
        found, line = self._found, self.table.line
        about: list[str] = []
        if not len(self.runs):
            pass
        elif isinstance(found, Utility):
            about = list(
                analysed.strategy_words(found.strategies[line], found.strategies[-1], found)
            )
        elif isinstance(found, SeedTable):
            about = list(analysed.group_words(found.groups[line])) if found.groups else []
        elif found:
            curve = verdict_curve(self.runs.table, found[line].letter, self.session.thresholds)
            counted = int((~self.runs.table.controls).sum())
            self.curve.set_chart(curve_chart(curve, found[line].threshold, counted))
            self.curve_title.set(*analysed.curve_words(curve, found[line]))
        if about and self._notes:
            gap = [""]
        else:
            gap = []
        self.about.set_lines([*map(with_keys, about), *gap, *self._notes])


def _record(
    found: Sequence[Sensitivity] | Utility | SeedTable,
    table: AuditTable,
    thresholds: DiagnosticThresholds,
    groups: tuple[tuple[str, ...] | None, tuple[str, ...] | None],
) -> object:
    """The JSON record of an analysis, as its command prints it."""
    if isinstance(found, (Utility, SeedTable)):
        return found.to_dict()
    return sweep_record(table, thresholds, sensitivities(table, thresholds, *groups))
