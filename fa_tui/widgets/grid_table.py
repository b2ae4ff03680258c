"""A report's table on screen: the same cells as the command prints, with a cursor."""

from __future__ import annotations

from rich.segment import Segment

from fa_core.reporting.blocks import Grid
from fa_tui.views.fitting import cut_middle, padded, padded_left, width_of
from fa_tui.widgets.glyphs import UNICODE, Glyphs
from fa_tui.widgets.line_table import LineTable

_GAP = 2
_LEAST_NAME = 20


class GridTable(LineTable):
    """Shows a `Grid`; posts `LineTable.Moved`. Lines that the grid marks stand out by their name.

    Args:
        glyphs: characters to draw with.
    """

    def __init__(self, *, glyphs: Glyphs = UNICODE, id: str | None = None) -> None:
        super().__init__(id=id)
        self._glyphs = glyphs
        self._headings: list[str] = []
        self._rows: list[list[str]] = []
        self._words = 1
        self._marked: frozenset[int] = frozenset()

    def set_grid(self, grid: Grid) -> None:
        """Show another table; the cursor stays on its line."""
        say = self._glyphs.say
        before = (self._headings, self._rows, self._marked)
        self._headings = [say(text) for text in grid.headings]
        self._rows = [[say(text) for text in row] for row in grid.rows]
        self._words, self._marked = grid.words, grid.marked
        if before == (self._headings, self._rows, self._marked):
            return
        self._fit()

    def _fit(self) -> None:
        name, *widths = [max(map(width_of, column)) for column in zip(self._headings, *self._rows, strict=True)]
        # names give way to what is told of them
        name = min(name, max(_LEAST_NAME, self.view.width // 2)) if self.view.width else name
        self.set_widths(1 + name + _GAP, [width + _GAP for width in widths])

    def on_resize(self) -> None:
        if self._headings:
            self._fit()

    @property
    def text(self) -> list[list[str]]:
        """The cells, the headings first."""
        return [self._headings, *self._rows]

    def line_count(self) -> int:
        return len(self._rows)

    def frozen(self, line: int | None) -> list[Segment]:
        name = self._headings[0] if line is None else self._rows[line][0]
        text = f" {cut_middle(name, self.frozen_width - _GAP - 1, self._glyphs.ellipsis)}"
        if line is None:
            tone = "header"
        elif line == self.line:
            tone = "cursor" if self.has_focus else "cursor-blurred"
        else:
            tone = "bad" if line in self._marked else "text"
        return [
            Segment(padded(text, self.frozen_width - _GAP), self.style_of(tone)),
            Segment(" " * _GAP, self.style_of("text")),
        ]

    def cell(self, line: int | None, column: int) -> list[Segment]:
        width = self.width_of(column) - _GAP
        text = (self._headings if line is None else self._rows[line])[column + 1]
        text = (padded if column + 1 < self._words else padded_left)(text, width)
        return [Segment(text + " " * _GAP, self.style_of("header" if line is None else "text"))]

    def action_cursor(self, down: int, right: int) -> None:
        """Another line, or another column at the left edge."""
        if right:
            first, _ = self._visible_columns()
            place = max(0, min(first + right, self.column_count - 1))
            self.scroll_to(self._edges[place], animate=False, immediate=True)
        else:
            super().action_cursor(down, right)

    def repaint_cursor(self, before: tuple[int, int]) -> None:
        self.refresh_frozen({before[0], self.line})

    def on_focus(self) -> None:
        self.refresh_frozen([self.line])

    def on_blur(self) -> None:
        self.refresh_frozen([self.line])
