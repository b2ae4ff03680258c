"""Cells of the terminal, and the text that changes those of them that differ."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from unicodedata import category

from rich.cells import cell_len, get_character_cell_size, split_graphemes
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style

Codes = tuple[str, str, str]
"""SGR codes of attributes, foreground and background; ``39`` and ``49`` are the default colours."""

PLAIN: Codes = ("", "39", "49")


@lru_cache(maxsize=1024)
def codes_of(style: Style, colours: ColorSystem) -> Codes:
    """The SGR codes of a style on a terminal with these colours."""
    attributes = style._attributes & style._set_attributes
    names = [code for bit, code in style._style_map.items() if attributes & (1 << bit)]
    _, foreground, background = PLAIN
    if style.color:
        foreground = ";".join(style.color.downgrade(colours).get_ansi_codes())
    if style.bgcolor:
        background = ";".join(style.bgcolor.downgrade(colours).get_ansi_codes(foreground=False))
    return ";".join(names), foreground, background


@lru_cache(maxsize=4096)
def set_colours(codes: Codes) -> str:
    """The SGR sequence that sets colours and attributes, whatever was set before.

    >>> set_colours(("1", "31", "49"))
    '\\x1b[0;1;31m'
    """
    pairs = zip(codes, PLAIN, strict=True)
    return f"\x1b[{';'.join(['0', *(code for code, usual in pairs if code != usual)])}m"


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
        texts: list[tuple[Codes, int, int, str]] = []
        for y, was in before.items():
            for x, run in _runs(was, self._lines[y]):
                texts += [(codes, y, at, text) for at, codes, text in _by_colour(x, run)]
        return "".join(self._drawn(sorted(texts)))

    def _drawn(self, texts: Sequence[tuple[Codes, int, int, str]]) -> Iterator[str]:
        """The texts, those of one colour after each other, each with its place."""
        pen: Codes | None = None
        row = -1
        for codes, y, x, text in texts:
            if codes != pen:
                yield set_colours(codes)
                pen = codes
            if not _is_simple(text):
                # terminals disagree on its width: it is drawn over blanks
                yield f"{_move(x, y)}{' ' * cell_len(text)}"
            # not by a distance: terminals disagree on the width of what was sent
            yield f"\x1b[{x + 1}G" if y == row else _move(x, y)
            row = y
            yield text
        if pen is not None:
            yield "\x1b[0m"

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
    for x, cell in enumerate((*now, None)):
        if run and (cell is None or x - end >= _JOIN):
            yield start, run[: end + 1 - start]
            run = []
        if cell is not None and (run or changed[x]):
            if not run:
                start = x
            if changed[x]:
                end = x
            run.append(cell)


def _by_colour(x: int, run: Sequence[Cell]) -> Iterator[tuple[int, Codes, str]]:
    """The texts of a run, each in one colour; a character of unusual width is one."""
    start, text, pen, was_simple = x, "", PLAIN, True
    for place, (sign, codes) in enumerate(run, start=x):
        is_simple = _is_simple(sign)
        if text and not (codes == pen and was_simple and is_simple):
            yield start, pen, text
            text = ""
        if not text:
            start, pen = place, codes
        was_simple = is_simple
        text += sign
    if text:
        yield start, pen, text


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
    cells: list[Cell] = []
    text = "".join(sign for sign in text if category(sign) != "Cc")
    spans, _ = split_graphemes(text)
    for start, end, width in spans:
        sign = text[start:end]
        if width:
            cells.append((sign, codes))
            cells += [("", codes)] * (width - 1)
    return tuple(cells)
