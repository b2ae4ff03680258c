"""Output on stdout and stderr, which may be closed, full, gone, or without Unicode.

Results are JSON with every digit, or tables for reading.
"""

from __future__ import annotations

import codecs
import errno
import io
import json
import math
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from fa_core.errors import FaError, UsageError
from fa_core.files.opening import real_path
from fa_core.sanitize import sanitize

if TYPE_CHECKING:
    from rich.console import Console

    from fa_core.reporting.blocks import Block, Grid
    from fa_tui.options import Form


_STAND_INS = str.maketrans("▫✗✓·‖–—‘’“”→≠≤≥×…−", "o!+.|--''\"\">!<>x.-") | {ord("≈"): "~="}
NO_ROOM = frozenset({errno.ENOSPC, errno.EIO, errno.EFBIG, errno.EDQUOT})


def prepare(*, silent: bool) -> None:
    """Prepare both streams for printing.

    Args:
        silent: whether the command is useful without output, so that stdout may be closed.

    Raises:
        FaError: stdout is closed.
    """
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 (open until the end)
    if sys.stdout is None:
        if not silent:
            raise FaError("stdout is closed: there is nowhere to print to")
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 (open until the end)
    if isinstance(sys.stdout, io.TextIOWrapper):
        codecs.register_error("stand-in", _stand_in)
        sys.stdout.reconfigure(errors="backslashreplace" if speaks_unicode() else "stand-in")


def speaks_unicode() -> bool:
    """Whether stdout can print every character."""
    return "utf" in (sys.stdout.encoding or "utf").lower()


def silence() -> None:
    """Discard unprinted output, about which Python would complain at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _stand_in(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_STAND_INS)
    return text.encode("ascii", "replace").decode(), error.end


def check_folder(out: Path) -> None:
    """Refuse a file in a missing folder: commands create no folders for reports.

    Raises:
        UsageError: no such folder.
    """
    if not out.parent.is_dir():
        raise UsageError(
            "no such folder", where=out.parent, hint="make it first, or write elsewhere"
        )


def link(file: Path, to: TextIO | None = None) -> str:
    """The name of a written file, clickable on a terminal (OSC 8; default: stdout)."""
    name = sanitize(str(file))
    if (to or sys.stdout).isatty():
        return f"\x1b]8;;{real_path(file).as_uri()}\x1b\\{name}\x1b]8;;\x1b\\"
    return name


def say_written(file: Path) -> None:
    """Print the name of a written file, on a terminal only."""
    if sys.stderr.isatty():
        print(f"fa-tui: wrote {link(file, sys.stderr)}", file=sys.stderr)


PIPE_WIDTH = 10_000
"""Width of a pipe: lines are never wrapped."""

_LEAST_NAME = 20


def print_json(value: object) -> None:
    """JSON as Python writes it: NaN and Infinity where a measured number is one, unless
    ``--strict-json`` is given."""
    json.dump(as_printed(value), sys.stdout, indent=1, ensure_ascii=False)
    print()


strict_json = False
"""Whether ``--strict-json`` was given."""


def as_printed(value: object) -> object:
    """A value for JSON: under ``--strict-json`` without NaN and infinities (`finite`)."""
    if strict_json:
        return finite(value)
    return value


def finite(value: object) -> object:
    """A value with null for NaN and infinities, which JSON has no words for.

    The object that holds them names them in ``not_finite``.

    >>> finite({"g": [1.0, math.inf], "c": 0.5})
    {'g': [1.0, None], 'c': 0.5, 'not_finite': {'g[1]': 'inf'}}
    """
    if isinstance(value, dict):
        lost: dict[str, str] = {}
        plain = {name: _finite_in(member, str(name), lost) for name, member in value.items()}
        if lost:
            plain["not_finite"] = lost
        return plain
    return _finite_in(value, "", {})


def _finite_in(value: object, place: str, lost: dict[str, str]) -> object:
    """A member without NaN and infinities; `lost` gets their places and names."""
    if isinstance(value, float) and not math.isfinite(value):
        lost[place] = str(value)
        return None
    if isinstance(value, dict):
        return finite(value)
    if isinstance(value, (list, tuple)):
        return [_finite_in(member, f"{place}[{at}]", lost) for at, member in enumerate(value)]
    return value


def print_result(form: Form, record: object, blocks: Iterable[Block | str]) -> None:
    """Print a result as JSON with every digit, or as blocks and lines for reading."""
    if form == "json":
        print_json(record)
    else:
        print_blocks(blocks)


def print_blocks(blocks: Iterable[Block | str]) -> None:
    """Print blocks and lines; a table too wide for a terminal continues below, in a pipe never."""
    from rich.console import Console

    from fa_core.reporting.blocks import Bullets, Figure, Grid, Heading

    terminal = sys.stdout.isatty()
    console = Console(width=None if terminal else PIPE_WIDTH, highlight=False, markup=False)
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


GAP = 2
"""Blanks between two columns of text."""


def fitting(widths: Sequence[int], available: int) -> list[list[int]]:
    """Groups of columns that fit side by side, each with the first column, which names the row.

    >>> fitting([10, 30, 30, 5], 52)
    [[0, 1], [0, 2, 3]]
    """
    groups: list[list[int]] = []
    used = 0
    for i in range(1, len(widths)):
        needed = widths[i] + GAP
        if not groups or used + needed > available:
            groups.append([0])
            used = widths[0]
        groups[-1].append(i)
        used += needed
    return groups or [[0]]


def _print_grid(console: Console, grid: Grid) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.cells import cell_len
    from rich.table import Table

    if grid.caption:
        console.print(grid.caption)
    # names and notes of files must not steer the terminal
    rows = [tuple(map(sanitize, row)) for row in grid.rows]
    widths = [max(map(cell_len, column)) for column in zip(grid.headings, *rows, strict=True)]
    # long names are folded
    widths[0] = min(widths[0], max(_LEAST_NAME, console.width // 2))
    for columns in fitting(widths, console.width):
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
