"""One line of text that sends only the characters that changed."""

from __future__ import annotations

from collections.abc import Sequence

from fa_tui.widgets.glyphs import UNICODE, Glyphs
from fa_tui.widgets.painted import PaintedWidget, Row, ending


class Line(PaintedWidget):
    """One line made of pieces, each with a tone: ``""``, strong, good, bad, warn, dim or accent.

    Args:
        glyphs: characters to draw with; what does not fit ends in its ellipsis.
    """

    COMPONENT_CLASSES = {f"line--{tone}" for tone in ("strong", "good", "bad", "warn", "dim", "accent")}

    DEFAULT_CSS = """
    Line {
        height: 1;
        & .line--strong { color: $foreground; text-style: bold; }
        & .line--good { color: $success; }
        & .line--bad { color: $error; text-style: bold; }
        & .line--warn { color: $warning; text-style: bold; }
        & .line--dim { color: $text-muted; }
        & .line--accent { color: $accent; text-style: bold; }
    }
    """

    def __init__(self, glyphs: Glyphs = UNICODE, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._glyphs = glyphs
        self._pieces: Row = []

    @property
    def text(self) -> str:
        """What is shown, without styles."""
        return "".join(text for text, _ in self._pieces)

    def set(self, *pieces: tuple[str, str]) -> None:
        """Show other pieces (text, tone)."""
        say = self._glyphs.say
        self._pieces = [(say(text), f"line--{tone}" if tone else "") for text, tone in pieces if text]
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        return [ending(self._pieces, width, self._glyphs.ellipsis, "line--dim")]
