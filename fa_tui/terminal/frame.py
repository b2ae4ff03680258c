"""Cells of the terminal, and the text that changes those of them that differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from unicodedata import category

from rich.cells import cell_len, get_character_cell_size, split_graphemes
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style

from fa_tui.terminal.sgr import PLAIN, Codes, change_of_colours, codes_of, shows_on_blanks

Cell = tuple[str, Codes]
"""A character and its colours; ``""`` = the cell is covered by the wide character before it."""

Piece = tuple[int, int, list[Segment]]
"""Text that starts at a cell (x, y)."""

_JOIN = 4
"""Maximum of unchanged cells sent between changed ones, instead of a cursor move."""

_Line = list[Cell | None]


class Frame:
    """The known cells of the terminal.

    Args:
        width, height: the terminal's size.
        colours: number of its colours.
    """

    def __init__(self, width: int, height: int, colours: ColorSystem) -> None:
        self.size = (width, height)
        self._colours = colours
        self._lines: list[_Line] = [[None] * width for _ in range(height)]

    def show(self, pieces: Sequence[Piece]) -> str:
        """The text that draws the pieces, as far as they change cells."""
        before: dict[int, _Line] = {}
        width, height = self.size
        for x, y, segments in pieces:
            # a piece off the screen was drawn before a resize
            if 0 <= x < width and 0 <= y < height:
                line = self._lines[y]
                before.setdefault(y, line[:])
                cells = self._cells(segments)
                line[x : x + len(cells)] = cells
                del line[width:]
                _blank_halves(line)
        out: list[str] = []
        pen: Codes | None = None
        for y, was in sorted(before.items()):
            for x, run in _runs(was, self._lines[y]):
                text, pen = _drawn(x, y, run, pen)
                out.append(text)
        if out:
            out.append("\x1b[0m")
        return "".join(out)

    def _cells(self, segments: Sequence[Segment]) -> list[Cell]:
        cells: list[Cell] = []
        for text, style, control in segments:
            if text and not control:
                cells += _cells_of(text, style, self._colours)
        return cells


def _blank_halves(line: _Line) -> None:
    """Turn what is left of a wide character that was half overwritten into a blank, as terminals
    do."""
    left = 0
    for x, cell in enumerate(line):
        sign, codes = cell or (" ", PLAIN)
        if left and sign:
            line[x - 1] = (" ", PLAIN)
            left = 0
        if not sign and not left:
            line[x] = (" ", codes)
        elif sign:
            left = 0 if _is_simple(sign) else cell_len(sign) - 1
        else:
            left -= 1


def _runs(was: _Line, now: _Line) -> Iterator[tuple[int, list[Cell]]]:
    """Stretches of changed cells in a line, each with its first column."""
    changed = [cell is not None and cell != old for cell, old in zip(now, was, strict=True)]
    for line in (was, now):
        for x, cell in enumerate(line):
            # half of a wide character changes with its other half
            if x and cell is not None and not cell[0] and changed[x] != changed[x - 1]:
                changed[x - 1] = changed[x] = True
    run: list[Cell] = []
    start = end = 0
    for x, cell in enumerate(now):
        if run and (cell is None or x - end >= _JOIN):
            yield start, run[: end + 1 - start]
            run = []
        if cell is not None and (run or changed[x]):
            if not run:
                start = x
            if changed[x]:
                end = x
            run.append(cell)
    if run:
        yield start, run[: end + 1 - start]


def _drawn(x: int, y: int, run: Sequence[Cell], pen: Codes | None) -> tuple[str, Codes | None]:
    """The text that draws a run, and the colours after it.

    Terminals disagree on the width of some characters: these are drawn over blanks, and the cursor
    is moved behind them.
    """
    parts = [_move(x, y)]
    for place, (text, codes) in enumerate(run, start=x):
        if text and codes != pen:
            parts.append(change_of_colours(pen, codes))
            pen = codes
        if _is_simple(text):
            parts.append(text)
        else:
            width = cell_len(text)
            parts += [" " * width, _move(place, y), text, _move(place + width, y)]
    return "".join(parts), pen


def _move(x: int, y: int) -> str:
    return f"\x1b[{y + 1};{x + 1}H"


@lru_cache(maxsize=4096)
def _is_simple(text: str) -> bool:
    """Whether all characters take one cell."""
    return text.isascii() or all(get_character_cell_size(character) == 1 for character in text)


@lru_cache(maxsize=4096)
def _cells_of(text: str, style: Style | None, colours: ColorSystem) -> tuple[Cell, ...]:
    """The cells of a text; control characters, which a file's name may contain, are left out."""
    codes = codes_of(style, colours) if style else PLAIN
    blank = codes
    if not shows_on_blanks(codes[0]):
        blank = ("", "39", codes[2])
    cells: list[Cell] = []
    text = "".join(sign for sign in text if category(sign) != "Cc")
    spans, _ = split_graphemes(text)
    for start, end, width in spans:
        sign = text[start:end]
        if width:
            cells.append((sign, blank if sign == " " else codes))
            cells += [("", codes)] * (width - 1)
    return tuple(cells)
