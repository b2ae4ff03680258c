"""The question before leaving while jobs run."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from fa_tui.widgets.glyphs import Glyphs
from fa_tui.widgets.keybar import KeyBar
from fa_tui.widgets.line import Line


class QuitScreen(ModalScreen[bool]):
    """Asks once; returns whether to leave.

    Args:
        jobs: how many are queued or running.
        glyphs: characters to draw with.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y,q,enter", "dismiss(True)", "Leave and cancel them", key_display="y"),
        Binding("n,escape", "dismiss(False)", "Stay", key_display="n"),
    ]

    DEFAULT_CSS = """
    QuitScreen {
        align: center middle;
        & > Vertical {
            width: 60; max-width: 100%; height: auto; padding: 1 2;
            background: $panel; border: round $warning;
        }
        & KeyBar { dock: none; margin-top: 1; }
    }
    """

    def __init__(self, jobs: int, *, glyphs: Glyphs) -> None:
        super().__init__()
        self._jobs = jobs
        self._glyphs = glyphs

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Line(self._glyphs, id="question")
            yield Line(self._glyphs, id="answer")
            yield KeyBar(self._glyphs)

    def on_mount(self) -> None:
        jobs = "1 job is" if self._jobs == 1 else f"{self._jobs} jobs are"
        self.query_one("#question", Line).set((f"{jobs} not finished. Leave?", "strong"))
        self.query_one("#answer", Line).set(("Finished runs are on disk already.", "dim"))
