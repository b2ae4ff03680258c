"""The explorer's lowest line but one: what just happened, or how to read the matrix."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.style import Style

from fa_tui.views.cells import ASCII_LEGEND, LEGEND
from fa_tui.views.heat import SHADES, Scale
from fa_tui.views.quantities import Quantity
from fa_tui.widgets.glyphs import Glyphs
from fa_tui.widgets.line import Line

_SHADE = "shade-"
_WITHOUT_SHADES = ".."


class StatusLine(Line):
    """A `Line` that can show the shades of the matrix.

    Args:
        glyphs: characters to draw with.
        shade: the style of a shade, None where the terminal chooses the colours.
        id: of the widget.
    """

    def __init__(self, glyphs: Glyphs, shade: Callable[[int], Style | None], *, id: str | None = None) -> None:
        super().__init__(glyphs, id=id)
        self._shade = shade

    def get_component_rich_style(self, *names: str, partial: bool = False, default: Style | None = None) -> Style:
        """Also of ``line--shade-0`` .. ``line--shade-7``."""
        _, found, number = names[0].partition(_SHADE)
        if found:
            return self._shade(int(number)) or Style()
        return super().get_component_rich_style(*names, partial=partial, default=default)

    def explain_letters(self) -> None:
        """How to read the verdict cells."""
        self.set((f" {LEGEND if self._glyphs.name == 'unicode' else ASCII_LEGEND}", "dim"))

    def explain_numbers(self, quantity: Quantity, scale: Scale | None, *, known: int, several: bool) -> None:
        """How to read numbers and their shades.

        Args:
            quantity: what is shown.
            scale: from the lowest number to the highest; None where no two differ.
            known: how many runs have it.
            several: whether some cells stand for several runs.
        """
        if known:
            self.set(*self._scale_words(quantity, scale), *_marks(quantity, several))
        else:
            self.set((f" {quantity.label}", "strong"), (" was measured on no run here", "warn"))

    def _scale_words(self, quantity: Quantity, scale: Scale | None) -> Sequence[tuple[str, str]]:
        if scale is None:
            return [(f" {quantity.label}", "strong"), (": no two runs differ", "dim")]
        swatches = [(" ", f"{_SHADE}{number}") for number in range(SHADES)]
        if self._shade(0) is None:
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
        ("   ×3 median of 3 runs" if several else "", "dim"),
        ("   · not measured", "dim"),
    ]
