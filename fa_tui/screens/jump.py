"""Jump mode: a letter on every pane; typing it goes there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.geometry import Offset, Size
from textual.screen import Screen
from textual.widget import Widget

from fa_tui.screens.questions import Question, leaving
from fa_tui.terminal.glyphs import Glyphs
from fa_tui.widgets.line import KeyBar
from fa_tui.widgets.slider import ThresholdSlider

_LETTERS = "sfghjkleriouwnmvtyxz"
"""The keys under the fingers first; a b c d are the sliders'."""


class JumpLabel(Widget):
    """The letter of one pane."""

    DEFAULT_CSS = """
    JumpLabel {
        position: absolute;
        width: 3; height: 1;
        background: $block-cursor-background; color: $block-cursor-foreground; text-style: $block-cursor-text-style;
    }
    """

    def __init__(self, letter: str, at: Offset) -> None:
        super().__init__()
        self.letter = letter
        self.styles.offset = (at.x, at.y)

    def render(self) -> Content:
        return Content(f"[{self.letter}]")


class JumpScreen(Question[Widget | None]):
    """Returns the pane whose letter was typed or clicked, or None.

    Args:
        targets: the panes by their letters.
        glyphs: characters to draw with.
    """

    help_text = """\
Jump mode
Every pane that takes keys has a letter at its corner: type it, or click it, and the keys go there.
The sliders have the letters of their diagnostics.
"""

    BINDINGS: ClassVar[list[BindingType]] = [
        leaving("escape,ctrl+o,ctrl+c,ctrl+q", "stay where you are"),
        Binding("question_mark,f1", "app.help", "Help", key_display="?", tooltip="what the letters are"),
    ]

    DEFAULT_CSS = """
    JumpScreen {
        background: transparent;
        &:ansi { background: transparent; }
    }
    """

    def __init__(self, targets: Sequence[tuple[str, Widget]], *, glyphs: Glyphs) -> None:
        super().__init__()
        self._glyphs = glyphs
        self._targets = dict(targets)
        self._opened_at: Size | None = None

    def compose(self) -> ComposeResult:
        for letter, pane in self._targets.items():
            yield JumpLabel(letter, pane.region.offset)
        yield KeyBar(self._glyphs)

    def on_key(self, event: events.Key) -> None:
        if event.character in self._targets:
            event.stop()
            self.dismiss(self._targets[event.character])

    def on_click(self, event: events.Click) -> None:
        if isinstance(event.widget, KeyBar):
            return
        self.dismiss(self._targets[event.widget.letter] if isinstance(event.widget, JumpLabel) else None)

    def on_resize(self, event: events.Resize) -> None:
        self._opened_at = self._opened_at or event.size
        self._close_if_moved()

    def on_screen_resume(self) -> None:
        self._close_if_moved()

    def _close_if_moved(self) -> None:
        """The panes have moved with the terminal's size, their letters have not."""
        if self._opened_at not in (None, self.app.size):
            self.dismiss(None)


def targets_of(screen: Screen[object]) -> Iterator[tuple[str, Widget]]:
    """The panes of a screen that can have the focus, each with a letter: a slider its own."""
    letters = iter(_LETTERS)
    for pane in screen.focus_chain:
        if pane.region.area:
            letter = pane.letter if isinstance(pane, ThresholdSlider) else next(letters, None)
            if letter is not None:
                yield letter, pane
