"""A row of bars on a given scale, so that several panes can share one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from fa_tui.widgets.glyphs import UNICODE, Glyphs
from fa_tui.widgets.painted import PaintedWidget, Row
from fa_tui.widgets.scale import Scale

_BRAILLE = 0x2800
_LEFT = (0x40, 0x44, 0x46, 0x47)
_RIGHT = (0x80, 0xA0, 0xB0, 0xB8)
"""Dots of a braille cell's columns filled to heights 1..4."""


def sparkline(values: Sequence[float | None], scale: Scale, glyphs: Glyphs = UNICODE, width: int = 0) -> str:
    """One character per value (or, in fewer cells, the largest of each group).

    Values below the scale show the lowest bar, above it the highest; NaN and ±inf show the glyph for
    non-finite, zeros on a log scale that for zero, None a blank.

    Args:
        values: in order.
        scale: shared by every sparkline that is to be compared.
        glyphs: characters to draw with.
        width: at most this many cells; 0 = one per value.

    >>> sparkline([1.0, 10.0, 1000.0, float("nan"), 0.0], Scale(1.0, 1000.0, log=True))
    '▁▃█∞0'
    """
    return "".join(_bar(value, scale, glyphs) for value in _grouped(values, width))


def braille_sparkline(values: Sequence[float | None], scale: Scale) -> str:
    """Two values per character, four heights each; what is not finite or not there is a gap.

    >>> braille_sparkline([0.0, 0.3, 0.6, 1.0], Scale(0.0, 1.0))
    '⣠⣾'
    """
    cells = []
    for index in range(0, len(values), 2):
        pair = [*values[index : index + 2], None][:2]
        dots = _BRAILLE
        for value, heights in zip(pair, (_LEFT, _RIGHT), strict=True):
            if value is not None and math.isfinite(value):
                dots |= heights[min(3, int(scale.fraction(value) * 4))]
        cells.append(chr(dots))
    return "".join(cells)


class Sparkline(PaintedWidget):
    """A `sparkline` as a widget of one line.

    Args:
        values: in order.
        scale: shared by every sparkline that is to be compared.
        glyphs: characters to draw with.
        braille: two values per cell, where the glyphs allow it.
    """

    DEFAULT_CSS = """
    Sparkline {
        height: 1;
        & > .sparkline--bars { color: $accent; }
    }
    """
    COMPONENT_CLASSES = {"sparkline--bars"}

    help_text = (
        "Bars on a scale shared with the sparklines beside it. ∞ marks NaN or an infinity, 0 a zero on a log scale."
    )

    def __init__(
        self,
        values: Sequence[float | None] = (),
        scale: Scale = Scale(0.0, 1.0),  # noqa: B008 (immutable)
        *,
        glyphs: Glyphs = UNICODE,
        braille: bool = False,
        name: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(name=name, id=id, classes=classes)
        self._values, self._scale = values, scale
        self._glyphs = glyphs
        self._braille = braille and glyphs.braille

    def set_values(self, values: Sequence[float | None], scale: Scale) -> None:
        """Show other values."""
        self._values, self._scale = values, scale
        self.repaint()

    def draw(self, width: int, height: int) -> Sequence[Row]:
        if self._braille:
            text = braille_sparkline(_grouped(self._values, 2 * width), self._scale)
        else:
            text = sparkline(self._values, self._scale, self._glyphs, width)
        return [[(text, "sparkline--bars")]]


def _grouped(values: Sequence[float | None], width: int) -> Sequence[float | None]:
    """At most `width` values: each the largest of its group, so that no peak is lost; a non-finite one wins."""
    if not width or len(values) <= width:
        return values
    bounds = [len(values) * cell // width for cell in range(width + 1)]
    return [_peak(values[start:end]) for start, end in itertools.pairwise(bounds)]


def _peak(values: Sequence[float | None]) -> float | None:
    present = [value for value in values if value is not None]
    strange = [value for value in present if not math.isfinite(value)]
    return strange[0] if strange else max(present, default=None)


def _bar(value: float | None, scale: Scale, glyphs: Glyphs) -> str:
    if value is None:
        return " "
    if not math.isfinite(value):
        return glyphs.nonfinite
    if scale.log and value == 0:
        return glyphs.zero
    return glyphs.bar(scale.fraction(value))
