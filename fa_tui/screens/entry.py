"""One line to type something in, at the bottom of the screen; what is wrong with it is said while it is typed."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.widgets import Input

from fa_tui.screens.dialog import Question
from fa_tui.views.fitting import width_of
from fa_tui.widgets.glyphs import Glyphs
from fa_tui.widgets.keybar import KeyBar
from fa_tui.widgets.line import Line

_NOTHING_WRONG: Callable[[str], str] = lambda text: ""  # noqa: E731


class EntryScreen(Question[str | None]):
    """Returns what was typed, or None after Esc.

    Args:
        asks: what to type.
        glyphs: characters to draw with.
        text: what stands there at first; typing replaces it.
        hint: said while nothing is wrong.
        check: what is wrong with a text, or ``""``; Enter takes only a text without fault.
    """

    help_text = """\
A line to type
What is wrong with it is said below while you type; Enter takes only what nothing is wrong with.
What stands there at first is selected: typing replaces it, an arrow key keeps it.
"""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "take", "Take", priority=True, tooltip="take what is typed"),
        Binding(
            "escape,ctrl+c,ctrl+q",
            "dismiss(None)",
            "Never mind",
            key_display="esc",
            priority=True,
            tooltip="leave everything as it was",
        ),
        Binding("f1", "app.help", "Help", key_display="F1", tooltip="what is typed here and its keys"),
    ]

    DEFAULT_CSS = """
    EntryScreen {
        background: transparent;
        &:ansi { background: transparent; }
        & > Vertical { dock: bottom; height: 3; background: $panel; }
        & Horizontal { height: 1; }
        & KeyBar { dock: none; }
        & #entry-asks { width: auto; min-width: 8; max-width: 60%; }
        & Input { width: 1fr; height: 1; border: none; padding: 0; background: $surface; }
        & Input:focus { border: none; }
    }
    """

    def __init__(
        self,
        asks: str,
        *,
        glyphs: Glyphs,
        text: str = "",
        hint: str = "",
        check: Callable[[str], str] = _NOTHING_WRONG,
    ) -> None:
        super().__init__()
        self._asks, self._text, self._hint, self._check = asks, text, hint, check
        self._glyphs = glyphs

    def compose(self) -> ComposeResult:
        with Vertical():
            with Horizontal():
                yield Line(self._glyphs, id="entry-asks")
                yield Input(self._text, select_on_focus=True)
            yield Line(self._glyphs, id="entry-note")
            yield KeyBar(self._glyphs)

    def on_mount(self) -> None:
        asks = self.query_one("#entry-asks", Line)
        asks.set((f" {self._asks} ", "accent"))
        asks.styles.width = width_of(asks.text)
        self.set_focus(self.query_one(Input))
        self._say(self._text)

    def on_input_changed(self, event: Input.Changed) -> None:
        self._say(event.value)

    def _say(self, text: str) -> None:
        wrong = self._check(text)
        note = (wrong, "warn") if wrong else (self._hint, "dim")
        self.query_one("#entry-note", Line).set((" ", ""), note)

    def action_take(self) -> None:
        """Return the text, if nothing is wrong with it."""
        text = self.query_one(Input).value
        if not self._check(text):
            self.dismiss(text)
