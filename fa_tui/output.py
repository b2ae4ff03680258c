"""Results on stdout: JSON with every digit, or tables for reading."""

from __future__ import annotations

import enum
import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from fa_core.reporting.blocks import Block, Grid


class Form(str, enum.Enum):
    """How an analysis is printed."""

    table = "table"
    json = "json"


FormOption = Annotated[Form, typer.Option("--format", help="A table for reading, or JSON with every digit.")]


def print_json(value: Any) -> None:
    """JSON as Python writes it: NaN and Infinity where a measured number is one."""
    json.dump(value, sys.stdout, indent=1, ensure_ascii=False)
    print()


def print_blocks(blocks: Iterable[Block]) -> None:
    """Blocks of a report as text: tables wrapped to the terminal, or as wide as they are in a pipe."""
    from rich.console import Console

    from fa_core.reporting.blocks import Bullets, Figure, Grid, Heading

    console = Console(width=None if sys.stdout.isatty() else 240, highlight=False, markup=False)
    for block in blocks:
        if isinstance(block, Grid):
            _print_grid(console, block)
        elif isinstance(block, Bullets):
            for item in block.items:
                console.print(f"- {item}", soft_wrap=not sys.stdout.isatty())
        elif isinstance(block, Heading):
            console.print(f"\n{block.text}", style="bold")
        elif not isinstance(block, Figure):
            console.print(block.text, soft_wrap=not sys.stdout.isatty())


def _print_grid(console: Console, grid: Grid) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    if grid.caption:
        console.print(grid.caption, soft_wrap=not sys.stdout.isatty())
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for number, heading in enumerate(grid.headings):
        words = number < grid.words
        table.add_column(heading, justify="left" if words else "right", overflow="fold")
    for number, row in enumerate(grid.rows):
        table.add_row(*row, style="bold" if number in grid.marked else "")
    console.print(table)
