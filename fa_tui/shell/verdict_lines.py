"""The verdict table for reading: its lines are kept as bare text until all are there, then printed one by one."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import TypeAlias

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fa_core.rows import AuditRow
from fa_tui.shell.kept_lines import KeptLines
from fa_tui.shell.remarks import Remarks
from fa_tui.shell.verdict_rows import HEADINGS, LEFT_OUT_FIRST, WORDS, line, named
from fa_tui.views.fitting import cut_middle, width_of

_AT_ONCE = 500
"""Lines that are laid out together where the terminal is too narrow for the table."""

_LEAST_NAME = 12
"""Cells that names keep where there is no room: it is they that give way to the numbers."""

_Row: TypeAlias = tuple[str, tuple[str, ...]]
"""A style and the cells."""


def print_lines(rows: Sequence[AuditRow]) -> None:
    """Print rows and what there is to say of them."""
    # a pipe has no width: nothing is cut there
    console = Console(width=None if sys.stdout.isatty() else 10_000, highlight=False, markup=False, emoji=False)
    remarks = Remarks()
    if rows:
        lines = KeptLines()
        for row, label in named(rows):
            remarks.add(row, label)
            style = "dim" if not row.report.coverage else "bold" if row.report.flags else ""
            lines.add(style, line(row, label))
        places = _shown(lines.widest, console.width)
        _print_body(console, lines, places)
    for note in remarks.lines():
        console.print(note, soft_wrap=True)


def _shown(widest: Sequence[str], available: int) -> list[int]:
    """The columns that there is room for, by place."""
    shown = list(range(len(HEADINGS)))
    for heading in LEFT_OUT_FIRST:
        if sum(2 + width_of(widest[place]) for place in shown) > available:
            shown.remove(HEADINGS.index(heading))
    return shown


def _print_body(console: Console, lines: KeptLines, places: Sequence[int]) -> None:
    """Print head and rows.

    Args:
        console: where to.
        lines: style and cells of every row; a table that holds their widest cells is as wide as one of all rows.
        places: which columns to print.
    """
    widest = lines.widest
    room = max(_LEAST_NAME, console.width - 2 - sum(2 + width_of(widest[place]) for place in places[1:]))
    body: Iterable[_Row] = lines
    if width_of(widest[0]) > room:
        widest = [cut_middle(widest[0], room, "…"), *widest[1:]]
        body = ((style, (cut_middle(cells[0], room, "…"), *cells[1:])) for style, cells in lines)
    sample = ("", tuple(widest[place] for place in places))
    heading, rule, whole, foot = _laid_out(console, places, [sample])
    for text in (heading, rule):
        console.print(text, soft_wrap=True)
    columns = [(place, width_of(widest[place]), HEADINGS[place] in WORDS) for place in places]
    if whole.plain != _joined(_padded(widest, columns)):
        rows = ((style, tuple(cells[place] for place in places)) for style, cells in body)
        _print_cut(console, sample, places, rows)
    elif console.is_terminal:
        for style, cells in body:
            pieces = [piece for cell in _padded(cells, columns) for piece in ((" ", ""), (cell, style), (" ", style))]
            text = Text.assemble(*pieces)
            text.rstrip()
            console.print(text, soft_wrap=True)
    else:
        printed = (_joined(_padded(cells, columns)) for _, cells in body)
        while chunk := list(islice(printed, _AT_ONCE)):
            print("\n".join(chunk))
    console.print(foot, soft_wrap=True)


def _padded(cells: Sequence[str], columns: Iterable[tuple[int, int, bool]]) -> list[str]:
    """The cells of some columns, each as wide as its column.

    Args:
        cells: of a row, under all headings.
        columns: of each the place, the width, and whether its cells stand at the left.
    """
    padded = []
    for place, width, left in columns:
        cell = cells[place]
        blanks = " " * (width - width_of(cell))
        padded.append(cell + blanks if left else blanks + cell)
    return padded


def _joined(padded: Iterable[str]) -> str:
    """A row as `_laid_out` lays it out where there is room, in a hundredth of the time."""
    return f" {'  '.join(padded)}".rstrip()


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
