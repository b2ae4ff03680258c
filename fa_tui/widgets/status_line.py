"""The explorer's lowest line but one: what just happened, or how to read the matrix."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style

from fa_tui.views.cells import ASCII_LEGEND, LEGEND
from fa_tui.views.heat import SHADES, Scale
from fa_tui.views.quantities import Quantity
from fa_tui.widgets.glyphs import Glyphs
from fa_tui.widgets.line import Line
from fa_tui.widgets.matrix import Matrix
from fa_tui.widgets.run_cells import RunCells

_SHADE = "shade-"
_WITHOUT_SHADES = ".."


class StatusLine(Line):
    """A `Line` that explains the matrix while there is nothing to say; it can show the matrix' shades.

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
        """Say what just happened; nothing brings the explanation back."""
        self._said = (text, tone)
        self.show()

    def show_progress(self, pieces: Sequence[tuple[str, str]]) -> None:
        """How far the jobs are; nothing where there are none."""
        self._progress = pieces
        self.show()

    def show(self) -> None:
        """Say, or explain, anew."""
        if self._progress or self._said[0]:
            gap = "   " if self._progress and self._said[0] else ""
            self.set((" ", ""), *self._progress, (gap, ""), self._said)
        elif self._matrix.quantity is None or not self.explains_numbers:
            self.set((f" {LEGEND if self._glyphs.name == 'unicode' else ASCII_LEGEND}", "dim"))
        else:
            self._explain(self._matrix.quantity, self._matrix.cells)

    def get_component_rich_style(self, *names: str, partial: bool = False, default: Style | None = None) -> Style:
        """Also of ``line--shade-0`` .. ``line--shade-7``."""
        _, found, number = names[0].partition(_SHADE)
        if found:
            return self._matrix.shade(int(number)) or Style()
        return super().get_component_rich_style(*names, partial=partial, default=default)

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
        swatches = [(" ", f"{_SHADE}{number}") for number in range(SHADES)]
        if self._matrix.shade(0) is None:
            swatches = [(_WITHOUT_SHADES, "dim")]
        return [
            (f" {quantity.label} ", "strong"),
            (f"{quantity.say(scale.low)} ", ""),
            *swatches,
            (f" {quantity.say(scale.high)}", ""),
            (" log" if scale.log else "", "dim"),
        ]


def _marks(quantity: Quantity, several: bool) -> Sequence[tuple[str, str]]:
    return [
        (f"   ({quantity.letter}) fires" if quantity.letter else "", "bad"),
        ("   ×3 median of 3" if several else "", "dim"),
        ("   · not measured", "dim"),
    ]
