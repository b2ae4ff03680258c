"""What could not be opened, and why: one line per path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from fa_core.rows import Problem
from fa_tui.sharing.shared import Piece, Shared
from fa_tui.widgets.glyphs import Glyphs
from fa_tui.widgets.keybar import KeyBar
from fa_tui.widgets.line import Line
from fa_tui.widgets.text_lines import TextLines


class ProblemsScreen(Screen[None]):
    """The paths that could not be opened.

    Args:
        problems: each with its message.
        glyphs: characters to draw with.
    """

    help_text = """\
What could not be opened
One line per path: what is wrong with it, where, and what to do. Everything else is open.
A file that is mended is read again by itself, and leaves this list the next time it is opened.
"""

    judges: ClassVar[bool] = False

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,P", "dismiss", "Back", key_display="esc", tooltip="back to the matrix")
    ]

    DEFAULT_CSS = """
    ProblemsScreen {
        & #title { background: $panel; }
        & TextLines { padding: 1 2; height: 1fr; }
    }
    """

    def __init__(self, problems: Sequence[Problem], *, glyphs: Glyphs) -> None:
        super().__init__()
        self._problems = problems
        self._glyphs = glyphs

    def shared(self) -> Shared:
        """The list."""
        text = self.query_one(TextLines).text
        return Shared([Piece("t", "list", f"{len(self._problems)} lines", lambda: f"{text}\n")])

    def compose(self) -> ComposeResult:
        yield Line(self._glyphs, id="title")
        yield TextLines(self._glyphs)
        yield KeyBar(self._glyphs)

    def on_mount(self) -> None:
        count = len(self._problems)
        self.query_one(Line).set((" problems ", "accent"), (f" {count} not opened" if count else " none", "strong"))
        pane = self.query_one(TextLines)
        pane.set_lines([problem.message for problem in self._problems] or ["Every path was opened."])
        pane.focus()
