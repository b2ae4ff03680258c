"""The lines of a long table in little memory: a hundred thousand take 8 MB, and not 60.

The verdict table for reading: its lines are kept as bare text until all are there, then printed one by one.

The verdict table on stdout, in any of its forms.
"""

from __future__ import annotations

import csv
import enum
import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated, TypeAlias

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from fa_core.diagnostics import DiagnosticThresholds
from fa_core.report import ASSUMED
from fa_core.rows import AuditRow
from fa_tui import options
from fa_tui.commands.inputs import TRACES_HINT
from fa_tui.commands.output import speaks_unicode
from fa_tui.commands.verdict_rows import (
    COLUMNS,
    HEADINGS,
    LEFT_OUT_FIRST,
    WORDS,
    Judged,
    Remarks,
    evidence,
    flat,
    line,
    markdown,
    named,
    record,
)
from fa_tui.views.look import Look, arranged
from fa_tui.views.text import cut_middle, width_of

_TOGETHER = 500
_CELLS, _LINES = "\0", "\n"
"""Neither stands in a cell: names are escaped before they are shown (`fa_core.errors.printable`)."""


class KeptLines:
    """Lines under `HEADINGS`, kept as text.

    Attributes:
        widest: the widest cell of every column, headings included.
    """

    def __init__(self) -> None:
        self.widest = list(HEADINGS)
        self._widths = list(map(width_of, HEADINGS))
        self._packed: list[bytes] = []
        self._open: list[str] = []
        self._endings: dict[tuple[str, str], int] = {}

    def add(self, style: str, cells: Sequence[str]) -> None:
        """Keep one more line.

        Args:
            style: of the line.
            cells: under the headings; the last is one of a few texts, each kept once.
        """
        for place, cell in enumerate(cells):
            if (width := width_of(cell)) > self._widths[place]:
                self.widest[place], self._widths[place] = cell, width
        ending = self._endings.setdefault((style, cells[-1]), len(self._endings))
        self._open.append(_CELLS.join((*cells[:-1], str(ending))))
        if len(self._open) == _TOGETHER:
            self._packed.append(_LINES.join(self._open).encode())
            self._open.clear()

    def __iter__(self) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Every line's style and cells."""
        endings = list(self._endings)
        for packed in self._packed:
            yield from (_line(text, endings) for text in packed.decode().split(_LINES))
        yield from (_line(text, endings) for text in self._open)


def _line(text: str, endings: Sequence[tuple[str, str]]) -> tuple[str, tuple[str, ...]]:
    *cells, ending = text.split(_CELLS)
    style, last = endings[int(ending)]
    return style, (*cells, last)


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


class Format(str, enum.Enum):
    """How to print rows."""

    table = "table"
    json = "json"
    csv = "csv"
    markdown = "markdown"


FormatOption = Annotated[
    Format,
    typer.Option("--format", help="How to print the rows; in JSON NaN and Infinity stand as Python writes them."),
]


def print_table(
    paths: Sequence[Path] | None,
    thresholds: DiagnosticThresholds,
    baseline: options.FrozenBaseline,
    form: str,
    h0: float | None = None,
    blocks: int | None = None,
    look: Look = Look(),  # noqa: B008 (immutable)
) -> int:
    """Print the rows that the paths hold; returns the exit code (3 if a named path could not be opened)."""
    found = options.open_paths(paths)
    rows = found.rows
    if found.traces and not rows:
        print(f"fa-tui: only traces over epochs, no audit; {TRACES_HINT}", file=sys.stderr)
    baseline.check(row.method for row in rows)
    if h0 is not None or blocks is not None or look != Look():
        rows = arranged(look, options.bounded(baseline.apply(rows), h0, blocks), thresholds)
    print_rows(Judged(rows, thresholds, baseline), form)
    return 3 if options.named_path_failed(paths, found.problems) else 0


def print_rows(rows: Sequence[AuditRow], form: str) -> None:
    """Print rows in one of the forms of `Format`, as they come: of many, one is in memory at a time."""
    if form == "json":
        _print_json(rows)
    elif form == "csv":
        kinds = {kind for row in rows for kind in evidence(row).values()}
        more = [*(["evidence"] if kinds else []), *(["assumed_baseline_acc"] if ASSUMED in kinds else [])]
        writer = csv.DictWriter(sys.stdout, [*COLUMNS, *more], restval="", lineterminator="\n")
        writer.writeheader()
        writer.writerows(flat(record(row)) for row in rows)
    elif form == "markdown":
        for row_line in markdown(rows):
            print(row_line)
    else:
        # Rich takes its time to import

        print_lines(rows)


def _print_json(rows: Sequence[AuditRow]) -> None:
    """The rows as one list, as `json.dump` writes it with an indent of 1."""
    ascii_only = not speaks_unicode()
    between = "["
    for row in rows:
        text = json.dumps(record(row), indent=1, ensure_ascii=ascii_only)
        print(between, text.replace("\n", "\n "), sep="\n ", end="")
        between = ","
    print("[]" if between == "[" else "\n]")
