"""Blocks of a report as text for a terminal of some width, as commands and pages show them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import StringIO

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table

from fa_core.reporting.blocks import Block, Bullets, Figure, Grid, Heading
from fa_core.sanitize import sanitize
from fa_tui.views.fitted import fitted

GAP = 2
"""Blanks between two columns of text."""
_LEAST_NAME = 20


def lines_of(blocks: Iterable[Block], width: int) -> list[str]:
    """Blocks as lines of at most `width` cells."""
    out = StringIO()
    print_on(Console(file=out, width=width, highlight=False, markup=False), blocks)
    return [line.rstrip() for line in out.getvalue().splitlines()]


def print_on(console: Console, blocks: Iterable[Block | str]) -> None:
    """Print blocks and lines; a table that is too wide continues below."""
    for block in blocks:
        if isinstance(block, str):
            print(block)
        elif isinstance(block, Grid):
            _print_grid(console, block)
        elif isinstance(block, Bullets):
            for item in block.items:
                console.print(f"- {sanitize(item)}")
        elif isinstance(block, Heading):
            console.print(f"\n{sanitize(block.text)}", style="bold")
        elif not isinstance(block, Figure):
            console.print("\n".join(map(sanitize, block.text.split("\n"))))


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


def _print_grid(console: Console, grid: Grid) -> None:
    if grid.caption:
        console.print(grid.caption)
    # names and notes of files must not steer the terminal
    rows = [tuple(map(sanitize, row)) for row in grid.rows]
    widths = [max(map(cell_len, column)) for column in zip(grid.headings, *rows, strict=True)]
    # long names are folded
    widths[0] = min(widths[0], max(_LEAST_NAME, console.width // 2))
    for columns in groups_of(widths, console.width):
        # a blank on the right and the box's own separate two columns: `GAP`
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
        for i in columns:
            most, is_word = None if i else widths[0], i < grid.words
            table.add_column(
                grid.headings[i],
                justify="left" if is_word else "right",
                overflow="fold",
                max_width=most,
            )
        for number, row in enumerate(rows):
            table.add_row(*(row[i] for i in columns), style="bold" if number in grid.marked else "")
        console.print(table)
