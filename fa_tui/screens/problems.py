"""What could not be read, wholly or in part, and why: one line each."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen

from fa_tui.session import Session
from fa_tui.sharing.pieces import Piece, Shared
from fa_tui.terminal.glyphs import Glyphs
from fa_tui.views.words import problem_words
from fa_tui.widgets.keybar import KeyBar
from fa_tui.widgets.line import Line, TextLines


class ProblemsScreen(Screen[None]):
    """The paths that could not be opened, or only in part, and the settings that are wrong.

    Args:
        session: has the problems, each with its message.
        glyphs: characters to draw with.
    """

    help_text = """\
What could not be read
One line each: what is wrong, where, and what to do. Everything else is open; of a file that is read
in part only what the line names is left out, and of the settings only the one that is wrong.
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

    def __init__(self, session: Session, *, glyphs: Glyphs) -> None:
        super().__init__()
        self._problems = session.problems
        self._words = problem_words(session)
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
        self.query_one(Line).set((" problems ", "accent"), (f" {self._words or 'none'}", "strong"))
        pane = self.query_one(TextLines)
        pane.set_lines([problem.message for problem in self._problems] or ["Every path was read."])
        pane.focus()
