"""The left part of the matrix: what its lines are, and how many of their runs walk back."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Sequence

from rich.segment import Segment

from fa_tui.session import Session
from fa_tui.views.axes import sign
from fa_tui.views.fitting import cut_start, padded
from fa_tui.views.grid_parts import GridLine
from fa_tui.views.name_column import NameColumn
from fa_tui.widgets.glyphs import Glyphs
from fa_tui.widgets.line_view import LineView

_COUNT_TITLE = "walk back"


class LineNames:
    """Paints the names of a table's lines and their counts.

    Args:
        table: whose styles to use.
        session: the runs and what judges them.
        glyphs: characters to draw with.
        lead: cells before a name.
    """

    def __init__(self, table: LineView, session: Session, glyphs: Glyphs, lead: int) -> None:
        self._table, self._session, self._glyphs, self._lead = table, session, glyphs, lead
        self._lines: Sequence[GridLine] = ()
        self._names = NameColumn({}, 0, glyphs.ellipsis)
        self._headings: list[int] = []
        self._counts: dict[int, str] = {}
        self._name_width = self._count_width = 0

    def set_lines(self, lines: Sequence[GridLine]) -> None:
        """Name other lines."""
        self._lines = lines
        self._counts.clear()
        self._headings = [number for number, line in enumerate(lines) if line.is_heading]
        labels = {number: self._glyphs.say(line.label) for number, line in enumerate(lines) if not line.is_heading}
        self._names = NameColumn(labels, self._lead + 1, self._glyphs.ellipsis)
        fullest = max((len(line.runs()) for line in lines), default=0)
        self._count_width = max(len(_COUNT_TITLE), len(f"{fullest}/{fullest} MIXED")) + 2

    @property
    def natural(self) -> int:
        """The width in which no name is cut."""
        return self._names.natural + self._count_width

    def fit(self, room: int, at_most: int) -> int:
        """Write names and counts in the room that there is for them, and say how much they take.

        Args:
            room: what all columns leave on screen.
            at_most: what they may take where the columns have to scroll anyway.
        """
        self._name_width = self._names.width_in(room - self._count_width, at_most=at_most - self._count_width)
        return self._name_width + self._count_width

    def paint(self, line: int) -> list[Segment]:
        """A line's name and count."""
        label = self._names.written(self._name_width)[line]
        count = self._counts.get(line)
        if count is None:
            count = self._counts[line] = count_text(self._lines[line], self._session)
        tone = "warn" if count.endswith("MIXED") else "dim" if count.startswith(("0/", "-")) else "bad"
        return [
            Segment(padded(f"{' ' * self._lead}{label}", self._name_width), self._table.style_of("text")),
            Segment(count.ljust(self._count_width), self._table.style_of(tone)),
        ]

    def heading(self, line: int, width: int) -> list[Segment] | None:
        """The source of the lines below, on a line of its own."""
        entry = self._lines[line]
        if not entry.is_heading:
            return None
        return [Segment(f" {clipped(entry.label, width - 2, self._glyphs)}", self._table.style_of("heading"))]

    def corner(self, axis: str, top: int) -> list[Segment]:
        """What the lines are and how many walk back; or their source, when its heading has scrolled away.

        Args:
            axis: what the lines are.
            top: the first line on screen.
        """
        above = bisect_right(self._headings, top)
        if above and self._headings[above - 1] < top:
            source = self._lines[self._headings[above - 1]].label.partition("  ")[0]
            width = self._name_width + self._count_width
            text = f" {clipped(source, width - 2, self._glyphs)}"
            return [Segment(padded(text, width), self._table.style_of("heading"))]
        title = padded(f" {self._glyphs.say(sign(axis))}", self._name_width)
        return [Segment(title + _COUNT_TITLE.ljust(self._count_width), self._table.style_of("header"))]

    def forget(self, line: int) -> None:
        """Count a line's runs anew when it is painted."""
        self._counts.pop(line, None)

    def forget_all_but(self, lines: Collection[int]) -> None:
        """Count anew all but these: they are off screen."""
        self._counts = {line: text for line, text in self._counts.items() if line in lines}

    def stale(self, lines: Iterable[int]) -> list[int]:
        """Those of some lines whose count is another now; it is forgotten."""
        found = [line for line in lines if count_text(self._lines[line], self._session) != self._counts.get(line)]
        for line in found:
            self.forget(line)
        return found


def count_text(line: GridLine, session: Session) -> str:
    """``1/3 MIXED``: how many of a line's measured runs are walked back, and whether they disagree."""
    measured = [row for row in line.runs() if session.coverage[row]]
    if not measured:
        return "-"
    walked = sum(1 for row in measured if session.flags[row])
    return f"{walked}/{len(measured)}" + (" MIXED" if 0 < walked < len(measured) else "")


def clipped(text: str, width: int, glyphs: Glyphs) -> str:
    """Text cut to a width from the left: the end of a path is what tells it apart."""
    return cut_start(glyphs.say(text), width, glyphs.ellipsis)
