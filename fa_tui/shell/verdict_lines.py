"""The verdict table for reading, line by line: its widths are found first, so that no table is held in memory."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fa_core.rows import AuditRow
from fa_tui.shell.remarks import Remarks
from fa_tui.shell.verdict_rows import HEADINGS, LEFT_OUT_FIRST, WORDS, line, named

_AT_ONCE = 500
"""Lines that are laid out together where the terminal is too narrow for the table."""

_Row: TypeAlias = tuple[str, tuple[str, ...]]
"""A style and the cells."""


def print_lines(rows: Sequence[AuditRow]) -> None:
    """Print rows and what there is to say of them."""
    # a pipe has no width: nothing is cut there
    console = Console(width=None if sys.stdout.isatty() else 10_000, highlight=False, markup=False, emoji=False)
    remarks = Remarks()
    if rows:
        widest = _widest(rows)
        places = _shown(widest, console.width)
        _print_body(console, [widest[place] for place in places], places, _styled(rows, places, remarks))
    for note in remarks.lines():
        console.print(note, soft_wrap=True)


def _widest(rows: Sequence[AuditRow]) -> list[str]:
    """The widest cell of every column, headings included."""
    widest = list(HEADINGS)
    widths = [cell_len(cell) for cell in widest]
    for row, label in named(rows):
        for place, cell in enumerate(line(row, label)):
            if (width := cell_len(cell)) > widths[place]:
                widest[place], widths[place] = cell, width
    return widest


def _shown(widest: Sequence[str], available: int) -> list[int]:
    """The columns that there is room for, by place."""
    shown = list(range(len(HEADINGS)))
    for heading in LEFT_OUT_FIRST:
        if sum(2 + cell_len(widest[place]) for place in shown) > available:
            shown.remove(HEADINGS.index(heading))
    return shown


def _styled(rows: Sequence[AuditRow], places: Sequence[int], remarks: Remarks) -> Iterator[_Row]:
    """Every row's style and cells, while the remarks take it up."""
    for row, label in named(rows):
        remarks.add(row, label)
        style = "dim" if not row.report.coverage else "bold" if row.report.flags else ""
        cells = line(row, label)
        yield style, tuple(cells[place] for place in places)


def _print_body(console: Console, widest: Sequence[str], places: Sequence[int], rows: Iterable[_Row]) -> None:
    """Print head and rows.

    Args:
        console: where to.
        widest: the widest cell of every column: a table that holds them is as wide as one of all rows.
        places: which columns these are.
        rows: style and cells of every row.
    """
    sample = ("", tuple(widest))
    heading, rule, whole, foot = _laid_out(console, places, [sample])
    for text in (heading, rule):
        console.print(text, soft_wrap=True)
    widths = [cell_len(cell) for cell in widest]
    if whole.plain != "".join(_parts(sample, places, widths)).rstrip():
        _print_cut(console, sample, places, rows)
    elif console.is_terminal:
        for row in rows:
            parts = _parts(row, places, widths)
            text = Text.assemble(*((part, row[0] if number % 3 else "") for number, part in enumerate(parts)))
            text.rstrip()
            console.print(text, soft_wrap=True)
    else:
        for row in rows:
            print("".join(_parts(row, places, widths)).rstrip())
    console.print(foot, soft_wrap=True)


def _parts(row: _Row, places: Sequence[int], widths: Sequence[int]) -> list[str]:
    """A row as `_laid_out` lays it out where there is room, in a hundredth of the time.

    Returns:
        For each cell what stands before it, the cell, and the blank behind it.
    """
    parts = []
    for cell, place, width in zip(row[1], places, widths, strict=True):
        blanks = " " * (width - cell_len(cell))
        parts += [" ", cell + blanks if HEADINGS[place] in WORDS else blanks + cell, " "]
    return parts


def _print_cut(console: Console, sample: _Row, places: Sequence[int], rows: Iterable[_Row]) -> None:
    """Print rows on a terminal too narrow for them, each as wide as if all were laid out together."""
    rows = iter(rows)
    while chunk := list(islice(rows, _AT_ONCE)):
        for text in _laid_out(console, places, [sample, *chunk])[3:-1]:
            console.print(text, soft_wrap=True)


def _laid_out(console: Console, places: Sequence[int], rows: Iterable[_Row]) -> list[Text]:
    """Head and rows as a table, which cuts cells where the terminal is too narrow."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    for place in places:
        heading = HEADINGS[place]
        table.add_column(heading, justify="left" if heading in WORDS else "right", no_wrap=True)
    for style, cells in rows:
        table.add_row(*cells, style=style)
    lines = []
    # the frame of the table is a blank line above it and blanks behind every row
    for parts in console.render_lines(table, pad=False)[1:]:
        text = Text.assemble(*((part.text, part.style or "") for part in parts))
        text.rstrip()
        lines.append(text)
    return lines
