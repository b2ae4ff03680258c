"""Questions: screens over another one that are answered once; most are a framed box in the middle."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from textual.app import ComposeResult
from textual.await_complete import AwaitComplete
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widget import Widget

from fa_tui.widgets.glyphs import Glyphs
from fa_tui.widgets.keybar import KeyBar

ResultT = TypeVar("ResultT")


class Question(ModalScreen[ResultT]):
    """Closes with the first answer. One that comes while it closes, or while another screen covers it, does nothing.

    Textual would close the screen that is on top then: the one below, or the one that covers it.
    """

    _answered = False

    def dismiss(self, result: ResultT | None = None) -> AwaitComplete:
        if self._answered or self.app.screen is not self:
            return AwaitComplete()
        self._answered = True
        return super().dismiss(result)


class Dialog(Question[ResultT]):
    """A subclass gives the body; the keys that work stand below it, inside the frame.

    Args:
        glyphs: characters to draw with.
    """

    DEFAULT_CSS = """
    Dialog {
        align: center middle;
        & > Vertical {
            max-width: 100%; height: auto; max-height: 100%; padding: 0 1;
            background: $surface; border: round $accent;
        }
        &.-ascii > Vertical { border: ascii $accent; }
        & KeyBar { dock: none; }
    }
    """

    def __init__(self, *, glyphs: Glyphs) -> None:
        super().__init__(classes="-ascii" if glyphs.name == "ascii" else None)
        self.glyphs = glyphs

    def body(self) -> Iterable[Widget]:
        """What the frame holds."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        with Vertical():
            yield from self.body()
            yield KeyBar(self.glyphs)
