"""Cells of the matrix: the verdict or a number of a run."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from textual.binding import Binding

from fa_tui.session import Session
from fa_tui.views.epochs import cell_so_far
from fa_tui.views.glyphs import Glyphs
from fa_tui.views.looks import SeedLooks, tone_of
from fa_tui.views.sparklines import MOST_BARS, Scales, norm_bars, norm_scales
from fa_tui.views.words import parted
from fa_tui.widgets.painted import Row, hidden, joined
from fa_tui.widgets.table import LineTable

if TYPE_CHECKING:
    from fa_tui.app import ExplorerApp


def verdict_pieces(cell: str, own: str) -> Row:
    """A verdict's five characters in pieces of one tone, the letters in the verdict's own.

    >>> verdict_pieces("✗a-~·", "bad")
    [('✗a', 'bad'), ('-', 'dim'), ('~', 'warn'), ('·', 'dim')]
    """
    tones = [own if sign.isalpha() else "warn" if sign == "~" else "dim" for sign in cell]
    return joined(zip(cell, [own, *tones[1:]], strict=True))


def verdict_row(session: Session, row: int, glyphs: Glyphs) -> Row:
    """A run's cell: the mark and the letters in the judgement's tone."""
    if session.is_begun(row):
        return [(glyphs.say(cell_so_far(session, row)), "accent")]
    return verdict_pieces(glyphs.say(session.cell(row)), tone_of(session.judgement(row)))


def as_flipped(session: Session, row: int, cell: Row) -> Row:
    """The cell, highlighted if its run flipped with the last step."""
    if row in session.flipped_rows:
        return [(text, f"{tone}+flipped") for text, tone in cell]
    return cell


def mark_of(session: Session, row: int, glyphs: Glyphs) -> str:
    """The sign after a run, of the first state that applies; ``""`` for none."""
    if row in session.marked:
        return glyphs.marked
    if row in session.flipped_rows:
        return glyphs.flipped
    if row in session.gone:
        return glyphs.gone
    states = {session.states.get(row), "deviates" if session.rows[row].report.changed else None}
    if row in session.work:
        states.add(session.work[row].state)
    signs = {
        "running": glyphs.running,
        "queued": glyphs.queued,
        "deviates": glyphs.deviates,
        "unchecked": glyphs.unknown,
        "agrees": glyphs.agrees,
        "ended": glyphs.ended,
    }
    for state, sign in signs.items():
        if state in states:
            return sign
    return ""


FEW_FLIPS = 20
"""Steps with more flips do not scroll the view, which the next step would move again."""


class RunsView(LineTable):
    """A table of runs that highlights the flips of the last step.

    Args:
        session: the runs.

    Attributes:
        session: the shown snapshot.
    """

    app: ExplorerApp

    BINDINGS = [
        Binding("space", "mark", "Mark", tooltip="mark the run for measuring"),
        hidden(
            "plus",
            "mark_all",
            "Mark shown",
            key_display="+",
            tooltip="mark every run that passes the filter",
        ),
        hidden(
            "asterisk",
            "mark_open",
            "Mark all",
            tooltip="mark all runs that are not measured yet, or none",
        ),
    ]

    def __init__(self, session: Session, *, id: str) -> None:
        super().__init__(id=id)
        self.session = session

    def show_changed(self, rows: Collection[int], *, is_step: bool) -> None:
        """Repaint runs whose cells changed; after a step bring the first of a few flipped runs into
        view, as the message names it first."""
        self.refresh_runs(rows)
        if is_step and 0 < len(self.session.flips) <= FEW_FLIPS:
            flips = chain(*parted(self.session))
            for place in [*filter(None, (self.place_of(flip.row) for flip in flips))][:1]:
                self.bring_into_view(*place)

    def lay_out(self) -> None:
        """Lay the runs in scope out again."""
        raise NotImplementedError

    @property
    def row(self) -> int | None:
        """The index of the run under the cursor."""
        raise NotImplementedError

    @property
    def rows_on_line(self) -> list[int]:
        """The indices of the runs on the line under the cursor."""
        return [] if self.row is None else [self.row]

    def place_of(self, row: int) -> tuple[int, int] | None:
        """Line and column of a run, if it is shown."""
        raise NotImplementedError

    def go_to(self, row: int) -> None:
        """Put the cursor on a run, if it is shown."""
        if place := self.place_of(row):
            self.move_to(*place)

    def refresh_runs(self, rows: Collection[int]) -> None:
        """Repaint some runs, if they are on screen, after their verdicts changed."""
        raise NotImplementedError

    def action_mark(self) -> None:
        """Mark or unmark the run under the cursor, and move down."""
        row = self.row
        if row is not None:
            # first, as a filter may take the marked run away
            self.action_cursor(1, 0)
            self._mark(self.session.marked ^ {row})

    def action_mark_open(self) -> None:
        """Mark every unmeasured run in scope that can be measured, or unmark all."""
        session = self.session
        measurable = session.measurable(session.in_scope)
        unmeasured = [row for row in measurable if not session.coverage[row]]
        if session.marked or unmeasured:
            self._mark([] if session.marked else unmeasured)
        else:
            why = "every run here is measured or has no checkpoint (open run folders); + marks all"
            self.app.say(why, "dim")

    def action_mark_all(self) -> None:
        """Mark every run in scope."""
        self._mark(self.session.in_scope)

    def _mark(self, rows: Iterable[int]) -> None:
        self.app.show(self.session.but(marked=frozenset(rows)))

    def empty_words(self) -> str:
        if self.session.rows:
            return "no run matches; / changes the filter"
        if self.session.traces:
            return "no audits here: T shows the traces"
        return "no runs here yet: they appear by themselves; o opens another folder"


class NormBars:
    """Bars of ‖h‖ and ‖g‖ in cells, on one scale each for all runs in scope.

    Args:
        session: the runs.
        glyphs: characters to draw with.
        looks: of the seeds.
    """

    def __init__(self, session: Session, glyphs: Glyphs, looks: SeedLooks) -> None:
        self._session = session
        self._glyphs = glyphs
        self._looks = looks

    @cached_property
    def scales(self) -> Scales:
        """The scales of the bars."""
        return norm_scales(self._session.scoped)

    @cached_property
    def cells(self) -> int:
        """Cells of one norm: the bars of the deepest run, at most `MOST_BARS`."""
        depths = [len(row.report.residual_norms) for row in self._session.scoped]
        return min(MOST_BARS, max([1, *depths]))

    def both(self, session: Session, row: int) -> Row:
        """A run's verdict sign, then ‖h‖ and ‖g‖ in the colour of its seed."""
        [(verdict, tone), *_] = verdict_row(session, row, self._glyphs)
        run = session.rows[row]
        look = self._looks.of(run)
        bars = norm_bars(run.report, self.scales, self._glyphs, self.cells)
        return [(verdict[:1], tone), (" ".join(bars), "bar" if look is None else look.style)]

    def legend(self) -> Row:
        """What the bars mean: their scales, the same for all runs."""
        glyphs = self._glyphs
        spans = []
        for name, scale in zip(("‖h‖", "‖g‖"), self.scales, strict=True):
            span = "not measured"
            if scale is not None:
                span = f"{scale.tick(scale.lo, glyphs)}…{scale.tick(scale.hi, glyphs)}"
            spans.append(f"{name} {span}")
        about = f"{glyphs.bars[0]} to {glyphs.bars[-1]} log, for all runs alike; a bar per layer"
        if self.cells == MOST_BARS:
            about += " or for the largest of several"
        return [("  ".join(spans), "strong"), (f"   {about}", "dim")]
