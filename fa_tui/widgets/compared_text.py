"""What stands in the columns of a comparison: bars, and names cut to fit."""

from __future__ import annotations

from fa_tui.views.fitting import cut, cut_start, width_of
from fa_tui.widgets.glyphs import Glyphs


def half_bar(fraction: float, cells: int, glyphs: Glyphs) -> str:
    """A bar of half cells: the smallest is one half.

    >>> from fa_tui.widgets.glyphs import UNICODE
    >>> half_bar(0.5, 3, UNICODE), half_bar(0.0, 3, UNICODE)
    ('━╸', '╸')
    """
    whole, half = ("━", "╸") if glyphs.braille else ("=", "-")
    halves = max(1, round(fraction * 2 * cells))
    return whole * (halves // 2) + half * (halves % 2)


def shortened(name: str, end: str, width: int, glyphs: Glyphs) -> str:
    """A name cut so that its end, which tells it from others, still fits.

    >>> from fa_tui.widgets.glyphs import UNICODE
    >>> shortened("state_bridge", " s42", 12, UNICODE)
    'state_b… s42'
    >>> shortened("dfa", " s42 d=128 λ=0.1", 12, UNICODE)
    '…d=128 λ=0.1'
    """
    name, end = glyphs.say(name), glyphs.say(end)
    if width_of(end) > width > len(glyphs.ellipsis):
        return cut_start(end, width, glyphs.ellipsis)
    return cut(cut(name, max(len(glyphs.ellipsis), width - width_of(end)), glyphs.ellipsis) + end, width)
