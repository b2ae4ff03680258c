"""A `LineView` with a cursor, moved by keys and by the mouse."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from fa_tui.widgets.line_view import LineView


class LineTable(LineView, can_focus=True):
    """Lines × columns with a cursor on a cell; which lines it may rest on is `rests_on`."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "cursor(-1, 0)", "Up", show=False),
        Binding("down,j", "cursor(1, 0)", "Down", show=False),
        Binding("left,h", "cursor(0, -1)", "Left", show=False),
        Binding("right,l", "cursor(0, 1)", "Right", show=False),
        Binding("pageup,ctrl+b", "page(-1)", "Page up", show=False),
        Binding("pagedown,ctrl+f", "page(1)", "Page down", show=False),
        Binding("home,g", "edge(-1)", "First", show=False),
        Binding("end,G", "edge(1)", "Last", show=False),
    ]

    COMPONENT_CLASSES: ClassVar[set[str]] = {"table--cursor", "table--cursor-blurred", "table--mark"}

    DEFAULT_CSS = """
    LineTable {
        & .table--cursor {
            background: $block-cursor-background; color: $block-cursor-foreground; text-style: $block-cursor-text-style;
        }
        & .table--cursor-blurred { color: $foreground; text-style: reverse; }
        &:ansi .table--cursor-blurred { text-style: underline; }
        & .table--mark { color: $accent; text-style: bold; }
    }
    """

    class Moved(Message):
        """The cursor rests on another cell."""

        def __init__(self, table: LineTable) -> None:
            self.table = table
            super().__init__()

        @property
        def control(self) -> LineTable:
            return self.table

    class Marked(Message):
        """Runs were marked or unmarked."""

    class Ordered(Message):
        """Lines stand in another order."""

    def __init__(self, *, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self.line = 0
        self.column = 0

    def rests_on(self, line: int) -> bool:
        """Whether the cursor may rest on a line."""
        return True

    def set_widths(self, frozen_width: int, widths: Iterable[int]) -> None:
        super().set_widths(frozen_width, widths)
        self.line = max(0, min(self.line, self.line_count() - 1))
        self.column = max(0, min(self.column, self.column_count - 1))
        if self.line_count() and not self.rests_on(self.line):
            self.line = self._resting_line(self.line, 1)

    def move_to(self, line: int, column: int | None = None) -> None:
        """Put the cursor on a cell and scroll it into view."""
        if not self.line_count():
            return
        before = (self.line, self.column)
        line = max(0, min(line, self.line_count() - 1))
        self.line = line if self.rests_on(line) else self._resting_line(line, 1 if line >= self.line else -1)
        if column is not None and self.column_count:
            self.column = max(0, min(column, self.column_count - 1))
        if (self.line, self.column) == before:
            return
        self.repaint_cursor(before)
        self.scroll_to_cursor()
        self.post_message(self.Moved(self))

    def repaint_cursor(self, before: tuple[int, int]) -> None:
        """Repaint what a cursor move changes."""
        self.refresh_cells([before, (self.line, self.column)])

    def _resting_line(self, line: int, direction: int) -> int:
        """The nearest line the cursor may rest on, looking in one direction and then the other."""
        ahead = range(line, self.line_count()) if direction > 0 else range(line, -1, -1)
        behind = range(line, -1, -1) if direction > 0 else range(line, self.line_count())
        return next((place for scan in (ahead, behind) for place in scan if self.rests_on(place)), self.line)

    def scroll_to_cursor(self) -> None:
        """Bring the cursor into view."""
        scroll_x, scroll_y = self.scroll_offset
        rows = self.view.height - 1
        room = self.view.width - self.frozen_width
        if rows < 1:
            return
        top = min(self.line, max(scroll_y, self.line - rows + 1))
        # a heading right above the first line comes into view with it
        if top == self.line and top and not self.rests_on(top - 1):
            top -= 1
        left = scroll_x
        if self.column_count:
            left = min(self._edges[self.column], max(scroll_x, self._edges[self.column + 1] - room))
        if (left, top) != (scroll_x, scroll_y):
            self.scroll_to(left, top, animate=False, immediate=True)

    def action_cursor(self, down: int, right: int) -> None:
        """Move the cursor by some lines and columns."""
        line = self.line + down
        if down and 0 <= line < self.line_count() and not self.rests_on(line):
            line = self._resting_line(line, down)
        self.move_to(line, self.column + right)

    def action_page(self, pages: int) -> None:
        """Move the cursor by a screenful."""
        self.move_to(self.line + pages * max(1, self.view.height - 2))

    def action_edge(self, direction: int) -> None:
        """Move the cursor to the first or last line."""
        self.move_to(0 if direction < 0 else self.line_count() - 1)

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            return
        line, column = self.place_at(offset.x, offset.y)
        if line is None:
            self.header_clicked(column, offset.x)
        elif line < self.line_count() and self.rests_on(line):
            self.move_to(line, column)

    def header_clicked(self, column: int | None, x: int) -> None:
        """The header was clicked, above a column, or (None) at `x` above the frozen part."""

    def on_resize(self) -> None:
        self.call_after_refresh(self.scroll_to_cursor)

    def watch_show_horizontal_scrollbar(self) -> None:
        # it takes a line, maybe the one the cursor is on, and comes whenever the layout gets to it
        self.scroll_to_cursor()

    def on_focus(self) -> None:
        self.refresh_cells([(self.line, self.column)])

    def on_blur(self) -> None:
        self.refresh_cells([(self.line, self.column)])
