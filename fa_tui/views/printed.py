"""Blocks of a report as text for a terminal of some width, as commands and pages show them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from fa_core.reporting.blocks import Block, Bullets, Figure, Grid, Heading
from fa_core.sanitize import sanitize
from fa_tui.views.text import fitted, folded, padded, padded_left, widest, width_of, wrapped

GAP = 2
"""Blanks between two columns of text."""
_LEAST_NAME = 20


class TextLine(NamedTuple):
    """A line of text, of a heading or a highlighted row bold."""

    text: str
    bold: bool = False


def lines_of(blocks: Iterable[Block | str], width: int) -> Iterator[TextLine]:
    """Blocks and lines as lines of at most `width` cells; a wider table continues below.

    Args:
        blocks: a report, or a part.
        width: cells.
    """
    for block in blocks:
        if isinstance(block, str):
            yield from map(TextLine, wrapped(sanitize(block), width))
        elif isinstance(block, Grid):
            yield from map(TextLine, _wrapped(block.caption, width))
            yield from _grid_lines(block, width)
        elif isinstance(block, Bullets):
            for item in block.items:
                yield from map(TextLine, _wrapped(f"- {item}", width))
        elif isinstance(block, Heading):
            yield TextLine("")
            yield from (TextLine(line, True) for line in _wrapped(block.text, width))
        elif not isinstance(block, Figure):
            for text in block.text.split("\n"):
                yield from map(TextLine, _wrapped(text, width))


def _wrapped(text: str, width: int) -> list[str]:
    return folded(sanitize(text), width)


def groups_of(widths: Sequence[int], room: int) -> list[list[int]]:
    """Groups of columns that fit side by side, each with the first column, which names the row.

    >>> groups_of([10, 30, 30, 5], 52)
    [[0, 1], [0, 2, 3]]
    """
    name, *others = widths
    gapped = [GAP + width for width in others]
    groups: list[list[int]] = []
    start = 1
    while start < len(widths):
        count = max(1, len(fitted(name, gapped[start - 1 :], room).shown))
        groups.append([0, *range(start, start + count)])
        start += count
    return groups or [[0]]


def _grid_lines(grid: Grid, width: int) -> Iterator[TextLine]:
    # names and notes of files must not steer the terminal
    rows = [tuple(map(sanitize, row)) for row in grid.rows]
    widths = [*map(widest, zip(grid.headings, *rows, strict=True))]
    # long names go on below themselves
    name = min(widths[0], max(_LEAST_NAME, width // 2))
    most = max(1, width - name - GAP)
    widths = [name, *(min(other, most) for other in widths[1:])]
    for columns in groups_of(widths, width):
        yield from (
            TextLine(text, True) for text in _row_lines(grid, grid.headings, columns, widths)
        )
        yield TextLine("─" * (sum(widths[i] + GAP for i in columns) - GAP))
        for number, row in enumerate(rows):
            for text in _row_lines(grid, row, columns, widths):
                yield TextLine(text, number in grid.marked)


def _row_lines(
    grid: Grid, row: Sequence[str], columns: Sequence[int], widths: Sequence[int]
) -> Iterator[str]:
    """A row, each of whose cells goes on below itself if it is wider than its column."""
    cells, left = [], grid.left
    for i in columns:
        is_whole = width_of(row[i]) <= widths[i]
        cells.append([row[i]] if is_whole else folded(row[i], widths[i]))
    for parts in zip_longest(*cells, fillvalue=""):
        texts = []
        for i, part in zip(columns, parts, strict=True):
            pad = padded if left[i] else padded_left
            texts.append(pad(part, widths[i]))
        yield (" " * GAP).join(texts).rstrip()
