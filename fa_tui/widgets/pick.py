"""Lines of a few values: a field that is set to one of them, and tabs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from fa_tui.terminal.glyphs import Glyphs
from fa_tui.widgets.painted import PaintedWidget, Row


class Pick(PaintedWidget, can_focus=True):
    """Shows the value that is picked; posts `Changed`.

    Args:
        values: what can be picked; ``""`` is shown as ``default``.
        value: what is picked at first.
        glyphs: characters to draw with.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space,right,l", "step(1)", "Change", key_display="space", tooltip="the next value"),
        Binding("left,h", "step(-1)", "Back", show=False, tooltip="the value before"),
    ]

    DEFAULT_CSS = "Pick { height: 1; }"

    class Changed(Message):
        """Another value."""

    def __init__(self, values: Sequence[str], value: str, glyphs: Glyphs, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._values = list(values)
        self._glyphs = glyphs
        self.value = value if value in values else self._values[0]

    def draw(self, width: int, height: int) -> Sequence[Row]:
        row: Row = []
        for value in self._values:
            style = "dim" if value != self.value else "cursor" if self.has_focus else "text"
            row.append((self._label(value), style))
        return [row]

    def _label(self, value: str) -> str:
        mark = "*" if value == self.value and not self.has_focus else " "
        return f"{mark}{value or 'default'} "

    def action_step(self, by: int) -> None:
        """Pick another value."""
        self._take(self._values[(self._values.index(self.value) + by) % len(self._values)])

    def _take(self, value: str) -> None:
        self.value = value
        self.repaint()
        self.post_message(self.Changed())

    def on_click(self, event: events.Click) -> None:
        offset = event.get_content_offset(self)
        if offset is not None and self.piece_at(offset.x) < len(self._values):
            self._take(self._values[self.piece_at(offset.x)])


class TabLine(PaintedWidget):
    """Names with the number keys that choose them; posts `TabLine.Chosen`.

    Args:
        names: of the tabs.
    """

    DEFAULT_CSS = "TabLine { height: 1; }"

    class Chosen(Message):
        """A tab was clicked."""

        def __init__(self, place: int) -> None:
            super().__init__()
            self.place = place

    def __init__(self, names: Sequence[str], *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._names = list(names)
        self._open = 0

    def open(self, place: int) -> None:
        """Show which one is open."""
        self._open = place
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        row: Row = []
        for place, name in enumerate(self._names):
            row += [
                (f" {place + 1} ", "accent"),
                (name, "entry" if place == self._open else "dim"),
                ("  ", ""),
            ]
        return [row]

    def on_click(self, event: events.Click) -> None:
        place = self.piece_at(event.x) // 3
        if place < len(self._names):
            self.post_message(self.Chosen(place))
