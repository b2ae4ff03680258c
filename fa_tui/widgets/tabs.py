"""One line of tabs; a click chooses one."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events
from textual.message import Message

from fa_tui.widgets.painted import PaintedWidget, Row


class TabLine(PaintedWidget):
    """Names with the number keys that choose them; posts `TabLine.Chosen`.

    Args:
        names: of the tabs.
    """

    COMPONENT_CLASSES = {"tabs--key", "tabs--name", "tabs--open"}

    DEFAULT_CSS = """
    TabLine {
        height: 1;
        & > .tabs--key { color: $accent; text-style: bold; }
        & > .tabs--name { color: $text-muted; }
        & > .tabs--open { color: $foreground; text-style: bold underline; }
    }
    """

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
                (f" {place + 1} ", "tabs--key"),
                (name, "tabs--open" if place == self._open else "tabs--name"),
                ("  ", ""),
            ]
        return [row]

    def on_click(self, event: events.Click) -> None:
        end = 0
        for place, name in enumerate(self._names):
            end += len(name) + 5
            if event.x < end:
                self.post_message(self.Chosen(place))
                return
