"""Cells of the matrix: the verdict or a number of a run.

Numbers have shades from the widget's background towards the theme's primary colour. Lightness of
one hue suits every kind of colour vision. The shades end well before the full colour, so that text
in the verdict's colours stays readable.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import TYPE_CHECKING

from rich.style import Style
from textual.binding import Binding
from textual.color import Color
from textual.message import Message
from textual.widget import Widget

from fa_core.report.diagnostics import BIT
from fa_core.report.quantities import Quantity
from fa_tui.session import Flip, Session
from fa_tui.views.columns import (
    NORMS,
    NUMBER_CELLS,
    SHADES,
    Write,
    format_in,
    is_assumed,
    scale_of,
    values_of,
    written,
)
from fa_tui.views.glyphs import Glyphs
from fa_tui.views.looks import SeedLooks
from fa_tui.views.run_work import cell_so_far
from fa_tui.views.scale import Scale
from fa_tui.views.sparklines import Scales, bars_needed, norm_bars, norm_scales
from fa_tui.widgets.painted import Piece, Row, joined
from fa_tui.widgets.table import LineTable

if TYPE_CHECKING:
    from fa_tui.application import Application

_FULL = 0.34


def shade_style(widget: Widget, number: int) -> Style:
    """The style of one shade; empty if the terminal chooses the colours."""
    low = widget.background_colors[1]
    high = Color.parse(widget.app.theme_variables["primary"])
    if widget.app.ansi_color or low.ansi is not None or high.ansi is not None:
        return Style()
    return Style(bgcolor=shade_colour(low, high, number).rich_color)


def shade_colour(low: Color, high: Color, number: int) -> Color:
    """The colour of one shade; the lowest is the background itself."""
    return low.blend(high, _FULL * number / (SHADES - 1), alpha=1.0)


WIDTH = 5


@lru_cache(maxsize=512)
def verdict_pieces(cell: str) -> tuple[Piece, ...]:
    """A verdict's five characters in pieces of one tone; ``""`` is the verdict's own.

    >>> verdict_pieces("✗a-~·")
    (('✗a', ''), ('-', 'dim'), ('~', 'warn'), ('·', 'dim'))
    """
    return tuple(joined((sign, _sign_tone(place, sign)) for place, sign in enumerate(cell)))


def _sign_tone(place: int, sign: str) -> str:
    if place == 0 or sign.isalpha():
        return ""
    if sign == "~":
        return "warn"
    return "dim"


def verdict_row(session: Session, row: int, glyphs: Glyphs) -> Row:
    """A run's cell: the mark and the letters in the verdict's colour."""
    if not session.coverage[row] and session.is_trained(row):
        return [(cell_so_far(session, row, ascii_only=glyphs.name == "ascii"), "accent")]
    own = "dim"
    if session.coverage[row] and not session.rows[row].is_control:
        own = "bad" if session.flags[row] else "good"
    pieces = verdict_pieces(session.cell(row, ascii_only=glyphs.name == "ascii"))
    return [(text, tone or own) for text, tone in pieces]


def mark_of(session: Session, row: int, flipped: AbstractSet[int], glyphs: Glyphs) -> str:
    """The sign after a run, of the first state that applies; ``""`` for none."""
    if row in session.marked:
        return glyphs.marked
    if row in flipped:
        return glyphs.flipped
    states = {session.states.get(row)}
    if row in session.work:
        states.add(session.work[row].state)
    signs = {
        "running": glyphs.running,
        "queued": glyphs.queued,
        "deviates": glyphs.deviates,
        "agrees": glyphs.agrees,
        "ended": glyphs.ended,
    }
    for state, sign in signs.items():
        if state in states:
            return sign
    if row in session.gone:
        return glyphs.gone
    return ""


FEW_FLIPS = 20
"""Steps with more flips do not scroll the view, which the next step would move again."""


class RunsView(LineTable):
    """A table of runs that highlights the flips of the last step.

    Args:
        session: the runs.

    Attributes:
        flipped: indices of the flipped runs.
    """

    app: Application

    BINDINGS = [
        Binding(
            "enter",
            "open",
            "Details",
            show=False,
            tooltip="the run on all of the width; esc goes back",
        ),
        Binding("space", "mark", "Mark", tooltip="mark the run for measuring"),
        Binding(
            "plus",
            "mark_all",
            "Mark scope",
            show=False,
            key_display="+",
            tooltip="mark every run in scope",
        ),
        Binding(
            "asterisk",
            "mark_open",
            "Mark all",
            show=False,
            tooltip="mark all runs that are not measured yet, or none",
        ),
    ]

    class Opened(Message):
        """The run under the cursor is to be shown."""

    class ShowsChanged(Message):
        """Cells show something else: letters, a number, bars."""

    def __init__(self, session: Session, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.session = self._session = session
        self.flipped: set[int] = set()

    @property
    def row(self) -> int | None:
        """The index of the run under the cursor."""
        raise NotImplementedError

    def place_of(self, row: int) -> tuple[int, int] | None:
        """Line and column of a run, if it is shown."""
        raise NotImplementedError

    def refresh_runs(self, rows: Collection[int]) -> None:
        """Repaint some runs, if they are on screen, after their verdicts changed."""
        raise NotImplementedError

    def row_changed(self, row: int) -> None:
        """Repaint a run that was measured."""
        self.refresh_runs([row])

    def action_open(self) -> None:
        """Open the run under the cursor."""
        self.post_message(self.Opened())

    def show_flips(self, flips: Sequence[Flip]) -> None:
        """Highlight flipped runs until the next step; bring the first of a few into view."""
        changed = {flip.row for flip in flips}
        changed |= self.flipped
        self.flipped = {flip.row for flip in flips if flip.before != flip.after}
        self.refresh_runs(changed)
        if 0 < len(self.flipped) <= FEW_FLIPS:
            places = filter(None, map(self.place_of, self.flipped))
            first = min(places, default=None)
            if first is not None:
                self.bring_into_view(*first)

    def action_mark(self) -> None:
        """Mark or unmark the run under the cursor, and move down."""
        if self.row is not None:
            self._mark(self._session.marked ^ {self.row})
            self.action_cursor(1, 0)

    def action_mark_open(self) -> None:
        """Mark every unmeasured run in scope that can be measured, or unmark all."""
        session = self._session
        measurable = session.measurable(session.in_scope)
        unmeasured = {row for row in measurable if not session.coverage[row]}
        if session.marked:
            self._mark(set())
        elif unmeasured:
            self._mark(unmeasured)
        else:
            why = "every run here is measured or has no checkpoint (open run folders); + marks all"
            self.app.say(why, "dim")

    def action_mark_all(self) -> None:
        """Mark every run in scope."""
        self._mark({*self._session.in_scope})

    def _mark(self, rows: set[int]) -> None:
        changed = self._session.marked ^ rows
        self._session.marked = rows
        self.refresh_runs(changed)
        self.post_message(self.Marked())

    def empty_words(self) -> str:
        if self._session.rows:
            return "no run matches; / changes the filter"
        return "no audits here; T shows traces; new runs appear by themselves"


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
        self._made: tuple[Scales, int] | None = None

    @property
    def _shown(self) -> tuple[Scales, int]:
        """The scales, and the cells of one norm; made on first use."""
        if self._made is None:
            rows = self._session.scoped
            self._made = norm_scales(rows), bars_needed(rows)
        return self._made

    @property
    def scales(self) -> Scales:
        """The scales of the bars."""
        return self._shown[0]

    @property
    def cells(self) -> int:
        """Cells of one norm."""
        return self._shown[1]

    def bars_of(self, row: int) -> tuple[str, str]:
        """A run's ‖h‖ and ‖g‖."""
        report = self._session.rows[row].report
        return norm_bars(report, self.scales, self._glyphs, self.cells)

    def tone_of(self, row: int) -> str:
        """The colour of a run's seed."""
        look = self._looks.of(self._session.rows[row])
        if look is None:
            return "bar"
        return look.style

    def both(self, row: int) -> Row:
        """A run's verdict sign, ‖h‖ and ‖g‖."""
        [(verdict, tone), *_] = verdict_row(self._session, row, self._glyphs)
        h, g = self.bars_of(row)
        return [(verdict[:1], tone), (f"{h} {g}", self.tone_of(row))]


class RunCells:
    """Paints the cells of a table.

    Args:
        session: the runs and thresholds.
        glyphs: characters to draw with.
    """

    def __init__(self, session: Session, glyphs: Glyphs) -> None:
        self._session = session
        self._glyphs = glyphs
        self._rows: list[int] = []
        self._scale: tuple[Quantity, Scale | None] | None = None
        self._written: tuple[Quantity, Write] | None = None
        self.looks = SeedLooks((), glyphs)
        self._bars: NormBars | None = None

    def set_runs(self, rows: list[int]) -> None:
        """Take all runs, whose numbers define the scale."""
        self._rows = rows
        self.numbers_changed()

    def numbers_changed(self) -> None:
        """Drop scales and formats after a run was measured again."""
        self._scale = self._written = self._bars = None

    @property
    def bars(self) -> NormBars:
        """Bars of ‖h‖ and ‖g‖."""
        if self._bars is None:
            self._bars = NormBars(self._session, self._glyphs, self.looks)
        return self._bars

    def width_of(self, quantity: Quantity | None) -> int:
        """The width of the widest cell."""
        if quantity is NORMS:
            return len("! ") + 2 * self.bars.cells
        if quantity:
            return NUMBER_CELLS
        return WIDTH

    def known(self, quantity: Quantity) -> int:
        """Number of runs with the quantity."""
        return sum(value is not None for value in values_of(quantity, self._session, self._rows))

    def paint(self, row: int, quantity: Quantity | None, width: int) -> Row:
        """A run's cell, at most `width` wide."""
        if quantity is NORMS:
            return self.bars.both(row)
        if quantity is None:
            return verdict_row(self._session, row, self._glyphs)
        return [self._number(quantity, row, width)]

    def _number(self, quantity: Quantity, row: int, width: int) -> Piece:
        [value] = values_of(quantity, self._session, [row])
        number = self._glyphs.say(written(value, self.format_of(quantity)))
        tone = self._tone(quantity, row)
        if value is not None:
            if is_assumed(quantity, self._session, row):
                number = f"{number[: width - 1]}?"
            scale = self.scale_of(quantity)
            if scale is not None and not math.isnan(value):
                tone += f"+shade-{scale.step(value, SHADES)}"
        return number.rjust(width), tone

    def format_of(self, quantity: Quantity) -> Write:
        """How the numbers of a quantity are written, all alike."""
        if self._written is None or self._written[0] is not quantity:
            self._written = quantity, format_in(self._session, quantity)
        return self._written[1]

    def scale_of(self, quantity: Quantity) -> Scale | None:
        """The scale from the lowest to the highest number; None unless two differ."""
        if self._scale is None or self._scale[0] is not quantity:
            numbers = values_of(quantity, self._session, self._rows)
            self._scale = quantity, scale_of(numbers, log=quantity.log)
        return self._scale[1]

    def _tone(self, quantity: Quantity, row: int) -> str:
        bit = BIT.get(quantity.letter)
        session = self._session
        if bit is None:
            return "text"
        if session.flags[row] & bit:
            return "bad"
        if session.coverage[row] & bit:
            return "text"
        return "dim"
