"""Backgrounds from a widget's own colour towards its theme's first: darker or lighter, never another hue.

One hue by lightness reads the same for every kind of colour vision. It ends well before the full
colour, so that text in the verdict's colours stays readable on the highest shade.
"""

from __future__ import annotations

from rich.style import Style
from textual.color import Color
from textual.widget import Widget

from fa_tui.views.heat import SHADES

_FULL = 0.34


class Shades:
    """The shades behind the cells of a widget; none where the terminal chooses the colours.

    Args:
        widget: whose background the lowest shade starts from.
        towards: the component class whose colour the highest goes towards.
    """

    def __init__(self, widget: Widget, towards: str) -> None:
        self._widget, self._towards = widget, towards
        self._styles: list[Style] | None = None

    def behind(self, style: Style, shade: int | None) -> Style:
        """A style with a shade behind it."""
        found = None if shade is None else self.style(shade)
        return style if found is None else style + found

    def style(self, shade: int) -> Style | None:
        """A shade alone; None where the terminal chooses the colours."""
        if self._styles is None:
            self._styles = self._made()
        return self._styles[shade] if self._styles else None

    def clear(self) -> None:
        """The theme changed."""
        self._styles = None

    def _made(self) -> list[Style]:
        low = self._widget.background_colors[1]
        high = self._widget.get_component_styles(self._towards).color
        if self._widget.app.ansi_color or low.ansi is not None or high.ansi is not None:
            return []
        return [Style(bgcolor=shade_colour(low, high, number).rich_color) for number in range(SHADES)]


def shade_colour(low: Color, high: Color, number: int) -> Color:
    """The colour of one shade; the lowest is the background itself."""
    return low.blend(high, _FULL * number / (SHADES - 1), alpha=1.0)
