"""A run's verdict as five styled characters, the same in the matrix and in the long view; several runs' as a count."""

from __future__ import annotations

from functools import lru_cache
from itertools import groupby

from rich.segment import Segment

from fa_tui.session import letters_of
from fa_tui.views.cells import cell_text
from fa_tui.widgets.glyphs import Glyphs
from fa_tui.widgets.line_table import LineTable

WIDTH = 5


@lru_cache(maxsize=512)
def verdict_pieces(flags: int, coverage: int, ascii_only: bool) -> tuple[tuple[bool, str], ...]:
    """The cell for the masks of fired and measured diagnostics, in pieces that speak for the verdict or do not.

    >>> verdict_pieces(1, 3, False)
    ((True, '✗a'), (False, '-··'))
    """
    text = cell_text(letters_of(flags), letters_of(coverage), ascii_only=ascii_only)
    speaks = [place == 0 or sign.isalpha() for place, sign in enumerate(text)]
    pieces = groupby(zip(speaks, text, strict=True), key=lambda pair: pair[0])
    return tuple((speaking, "".join(sign for _, sign in pair)) for speaking, pair in pieces)


def verdict_segments(flags: int, coverage: int, table: LineTable, glyphs: Glyphs) -> list[Segment]:
    """The cell, painted: the glyph and the letters in the verdict's colour, the rest dimmed."""
    tone = table.style_of("bad" if flags else "good" if coverage else "dim")
    dim = table.style_of("dim")
    pieces = verdict_pieces(flags, coverage, glyphs.name == "ascii")
    return [Segment(text, tone if speaking else dim) for speaking, text in pieces]


def several_text(walked: int, measured: int, runs: int, glyphs: Glyphs) -> str:
    """Several runs in one cell: how many of those measured are walked back.

    >>> from fa_tui.widgets.glyphs import UNICODE
    >>> [several_text(*counts, 3, UNICODE) for counts in ((2, 3), (0, 2), (0, 0))]
    ['✗ 2/3', '✓ 0/2', '? -/3']
    """
    if not measured:
        return f"{glyphs.unknown} -/{runs}"
    return f"{glyphs.fires if walked else glyphs.passes} {walked}/{measured}"


def several_tone(fired: int, measured: int) -> str:
    """The style of several runs: ``warn`` where they disagree."""
    if 0 < fired < measured:
        return "warn"
    return "bad" if fired else "good" if measured else "dim"
