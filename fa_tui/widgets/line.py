"""Lines of plain text: a single one, several that scroll (help, logs, problems), and the explorer's status line."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import ClassVar

from rich.style import Style
from textual.binding import BindingType

from fa_tui.terminal.glyphs import UNICODE, Glyphs
from fa_tui.views.columns import SHADES, Quantity
from fa_tui.views.scale import Scale
from fa_tui.views.text import wrapped
from fa_tui.views.words import ASCII_LEGEND, LEGEND
from fa_tui.widgets.matrix import Matrix
from fa_tui.widgets.painted import SCROLL_KEYS, PaintedScroll, PaintedWidget, Row, ending
from fa_tui.widgets.run_cells import RunCells


class Line(PaintedWidget):
    """One line made of pieces, each with a tone.

    Args:
        glyphs: characters to draw with; what does not fit ends in its ellipsis.
    """

    DEFAULT_CSS = "Line { height: 1; }"

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
        self._pieces = [(say(text), tone) for text, tone in pieces if text]
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        return [ending(self._pieces, width, self._glyphs.ellipsis, "dim")]


_wrapped = lru_cache(maxsize=4096)(wrapped)
"""Most lines stay when some change."""


class TextLines(PaintedScroll, can_focus=True):
    """Lines of text, wrapped to the width. A line that starts with ``# `` is a heading.

    Args:
        glyphs: characters to draw with.
        follow: stay at the end when lines are added (a log).
    """

    BINDINGS: ClassVar[list[BindingType]] = SCROLL_KEYS

    DEFAULT_CSS = "TextLines { overflow-x: hidden; scrollbar-size-vertical: 1; }"

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
            rows.extend([(part, "accent" if heading else "")] for part in _wrapped(text, width))
        return rows


class StatusLine(Line):
    """A `Line` that explains the matrix while there is no message; it can show the matrix' shades.

    Args:
        glyphs: characters to draw with.
        matrix: what it explains.
        id: of the widget.

    Attributes:
        explains_numbers: whether the matrix is on screen, and with it numbers and shades.
    """

    def __init__(self, glyphs: Glyphs, matrix: Matrix, *, id: str | None = None) -> None:
        super().__init__(glyphs, id=id)
        self._matrix = matrix
        self._said = ("", "")
        self._progress: Sequence[tuple[str, str]] = ()
        self.explains_numbers = True

    def say(self, text: str, tone: str = "") -> None:
        """Show what just happened; an empty text brings the explanation back."""
        self._said = (text, tone)
        self.show()

    def show_progress(self, pieces: Sequence[tuple[str, str]]) -> None:
        """How far the jobs are; nothing where there are none."""
        self._progress = pieces
        self.show()

    def show(self) -> None:
        """Show the message and the progress, else the explanation."""
        if self._progress or self._said[0]:
            gap = "   " if self._progress and self._said[0] else ""
            self.set((" ", ""), *self._progress, (gap, ""), self._said)
        elif self._matrix.quantity is None or not self.explains_numbers:
            self.set((f" {LEGEND if self._glyphs.name == 'unicode' else ASCII_LEGEND}", "dim"))
        else:
            self._explain(self._matrix.quantity, self._matrix.cells)

    def mixed(self, tone: str) -> Style:
        return self._matrix.style_of(tone) if tone.startswith("shade-") else super().mixed(tone)

    def _explain(self, quantity: Quantity, cells: RunCells) -> None:
        """How to read numbers and their shades."""
        if cells.known(quantity):
            words = self._scale_words(quantity, cells.scale_of(quantity))
            self.set(*words, *_marks(quantity, several=cells.suffix_width > 0))
        else:
            self.set((f" {quantity.label}", "strong"), (" was measured on no run here", "warn"))

    def _scale_words(self, quantity: Quantity, scale: Scale | None) -> Sequence[tuple[str, str]]:
        if scale is None:
            return [(f" {quantity.label}", "strong"), (": no two runs differ", "dim")]
        swatches = [(" ", f"shade-{number}") for number in range(SHADES)]
        if not self._matrix.style_of("shade-0"):
            swatches = [("..", "dim")]
        return [
            (f" {quantity.label} ", "strong"),
            (f"{quantity.say(scale.lo)} ", ""),
            *swatches,
            (f" {quantity.say(scale.hi)}", ""),
            (" log" if scale.log else "", "dim"),
        ]


def _marks(quantity: Quantity, several: bool) -> Sequence[tuple[str, str]]:
    return [
        (f"   ({quantity.letter}) fires" if quantity.letter else "", "bad"),
        ("   ×3 median of 3" if several else "", "dim"),
        ("   · not measured", "dim"),
    ]
