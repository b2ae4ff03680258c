"""A run's verdict as five styled characters, the same in the matrix and in the long view."""

from __future__ import annotations

from functools import lru_cache

from rich.segment import Segment

from fa_tui.cells import cell_text
from fa_tui.session import letters_of
from fa_tui.widgets.glyphs import Glyphs
from fa_tui.widgets.line_table import LineTable

WIDTH = 5


@lru_cache(maxsize=512)
def verdict_cell(flags: int, coverage: int, ascii_only: bool) -> str:
    """The text of a verdict cell for the masks of fired and measured diagnostics.

    >>> verdict_cell(1, 3, False)
    '✗a-··'
    """
    return cell_text(letters_of(flags), letters_of(coverage), ascii_only=ascii_only)


def verdict_segments(flags: int, coverage: int, table: LineTable, glyphs: Glyphs) -> list[Segment]:
    """The cell, painted: the glyph and the letters in the verdict's colour, the rest dimmed."""
    text = verdict_cell(flags, coverage, glyphs.name == "ascii")
    tone = table.style_of("bad" if flags else "good" if coverage else "dim")
    dim = table.style_of("dim")
    return [Segment(sign, tone if place == 0 or sign.isalpha() else dim) for place, sign in enumerate(text)]
