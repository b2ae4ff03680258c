"""Lines of plain text that scroll: help, logs, lists of problems."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

from textual.binding import Binding, BindingType

from fa_tui.views.wrapping import wrapped
from fa_tui.widgets.glyphs import UNICODE, Glyphs
from fa_tui.widgets.painted import PaintedScroll, Row

_wrapped = lru_cache(maxsize=4096)(wrapped)
"""Most lines stay when some change."""


class TextLines(PaintedScroll, can_focus=True):
    """Lines of text, wrapped to the width. A line that starts with ``# `` is a heading.

    Args:
        glyphs: characters to draw with.
        follow: stay at the end when lines are added (a log).
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "scroll_up", "Up", show=False),
        Binding("down,j", "scroll_down", "Down", show=False),
        Binding("pageup,ctrl+b", "page_up", "Page up", show=False),
        Binding("pagedown,ctrl+f", "page_down", "Page down", show=False),
        Binding("home,g", "scroll_home", "Top", show=False),
        Binding("end,G", "scroll_end", "Bottom", show=False),
    ]

    COMPONENT_CLASSES = {"text--heading", "text--dim"}

    DEFAULT_CSS = """
    TextLines {
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
        & > .text--heading { color: $accent; text-style: bold; }
        & > .text--dim { color: $text-muted; }
    }
    """

    def __init__(self, glyphs: Glyphs = UNICODE, *, follow: bool = False, id: str | None = None) -> None:
        super().__init__(id=id)
        self._glyphs = glyphs
        self._follow = follow
        self._lines: list[str] = []

    @property
    def text(self) -> str:
        """What is shown."""
        return "\n".join(self._lines)

    def set_lines(self, lines: Sequence[str]) -> None:
        """Show other lines."""
        self._lines = list(lines)
        self.repaint()
        if self._follow:
            self.scroll_end(animate=False, immediate=True)

    def draw(self, width: int) -> Sequence[Row]:
        rows: list[Row] = []
        for line in self._lines:
            heading = line.startswith("# ")
            text = self._glyphs.say(line.removeprefix("# ").expandtabs())
            rows.extend([(part, "text--heading" if heading else "")] for part in _wrapped(text, width))
        return rows
