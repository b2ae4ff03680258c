"""Frame of terminal cells, and the shortest escape text to the next picture."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple
from unicodedata import category

from rich.cells import cell_len, get_character_cell_size
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from fa_tui.terminal.scrolling import UNKNOWN, Scroll, find_scroll
from fa_tui.terminal.sgr import (
    PLAIN,
    Codes,
    change_of_colours,
    codes_of,
    same_blank,
    shows_on_blanks,
)

Cell = tuple[str, Codes]
Piece = tuple[int, int, list[Segment]]
"""Text that starts at a cell (x, y)."""

_NOTHING: Cell = ("", ("", "", ""))
_JOIN = 6
"""Maximum of unchanged cells of the same colours sent instead of a jump of four to eight bytes."""
_AT_END = 6
_BACK = 4
"""Maximum of backspaces instead of another cursor move."""
_BLANKS = re.compile(f" {{12,}}| {{{_AT_END},}}$")
"""Minimum of blanks to erase and jump over; at the end of a text, to erase."""
_MUCH = 400
"""Minimum bytes of an update for scroll detection."""
_CLEARLY = 0.75
"""A scroll must save a quarter of the bytes, since it may flicker."""

_Lines = list[list[Cell | None]]


class Whole(NamedTuple):
    """Text sent whole, and the cells [start, end) of a line that are unknown afterwards."""

    text: str
    y: int
    start: int
    end: int


class Frame:
    """The known cells of the terminal.

    Lines with links, wide or combining characters are sent whole.

    Args:
        width, height: the terminal's size.
        colours: number of its colours.
        scrolls: whether it can scroll some of its lines (DECSTBM, index, reverse index).
        erases: whether it erases characters in the current background (ECH).
    """

    def __init__(
        self,
        width: int,
        height: int,
        colours: ColorSystem,
        *,
        scrolls: bool = True,
        erases: bool = True,
    ) -> None:
        self.size = (width, height)
        self._colours = colours
        self._scrolls, self._erases = scrolls, erases
        self._lines: _Lines = [[None] * width for _ in range(height)]

    def show(self, pieces: Sequence[Piece]) -> str:
        """The text that draws the pieces: changed cells, after a scroll if it saves bytes."""
        before = [line[:] for line in self._lines]
        whole = []
        for x, y, segments in pieces:
            sent = self._put(x, y, _shown(segments))
            if sent is not None:
                whole.append(sent)
        text = self._difference(whole, before)
        if not self._scrolls or len(text) < _MUCH:
            return text

        scroll = find_scroll(_texts(before), _texts(self._lines))
        if scroll is None:
            return text
        unknown: list[Cell | None] = [None] * self.size[0]
        moved = [line[:] for line in scroll.moved(before, unknown)]
        scrolled = self._difference(whole, moved, scroll)
        if len(scrolled) <= _CLEARLY * len(text):
            return scrolled
        return text

    def _put(self, x: int, y: int, segments: list[Segment]) -> Whole | None:
        """Store the cells of a piece; returns its text if it is sent whole.

        A piece off the screen was drawn before a resize.
        """
        width, height = self.size
        if not (0 <= x < width and 0 <= y < height):
            return None
        if not _are_simple(segments):
            return self._put_whole(x, y, segments)
        line = self._lines[y]
        for text, style, _ in segments:
            cells = _cells(text, style, self._colours)
            line[x : x + len(cells)] = cells
            x += len(cells)
        del line[width:]
        return None

    def _put_whole(self, x: int, y: int, segments: list[Segment]) -> Whole:
        """The text of a piece that is sent whole; its cells are unknown afterwards.

        Terminals disagree on the width of some characters: such text is drawn over blanks, and the
            cursor is positioned for the next text.
        """
        parts = ["\x1b[0m"]
        start = x
        width, _ = self.size
        for text, style, _ in segments:
            style = style or Style.null()
            place = f"\x1b[{y + 1};{x + 1}H"
            length = cell_len(text)
            parts.append(place)
            if not _is_simple(text):
                blanks = " " * length
                parts.append(Strip.render_style(style, blanks, self._colours))
                parts.append(place)
            parts.append(Strip.render_style(style, text, self._colours))
            x += length
        end = min(width, x)
        self._lines[y][start:end] = [None] * (end - start)
        # a neighbour may be half of a cut wide character
        return Whole("".join(parts), y, max(0, start - 1), min(width, end + 1))

    def _difference(
        self, whole: Sequence[Whole], before: _Lines, scroll: Scroll | None = None
    ) -> str:
        """The text from the frame `before` to this one: scroll, whole pieces, then cells by
        colour."""
        for _, y, start, end in whole:
            before[y][start:end] = [None] * (end - start)
        runs = []
        for y, (was, now) in enumerate(zip(before, self._lines, strict=True)):
            if was != now:
                runs += [(codes[::-1], y, x, text) for x, codes, text in _runs(was, now)]
        out = [text for text, *_ in whole]
        pen: Codes | None = None
        if scroll:
            out.insert(0, scroll.codes())
            if not whole:
                pen = PLAIN
        at = (-9, -9)  # unknown
        for backwards, y, x, text in sorted(runs):
            codes = backwards[::-1]
            out.append(_moved(at, (y, x)))
            if pen is None or (codes != pen and not (text.isspace() and same_blank(codes, pen))):
                out.append(change_of_colours(pen, codes))
                pen = codes
            length = len(text)
            if self._erases and not shows_on_blanks(pen[0]):
                shown = len(text.rstrip(" "))
                if length - shown >= _AT_END:
                    length = shown
                text = _BLANKS.sub(_erased, text)
            out.append(text)
            x += length
            # terminals disagree on the cursor after the last cell
            at = (y, x if x < self.size[0] else -1)
        if out:
            return "".join([*out, "\x1b[0m"])
        return ""


def _runs(
    was: Sequence[Cell | None], now: Sequence[Cell | None]
) -> Iterator[tuple[int, Codes, str]]:
    """Changes in a line as (x, colours, text); blanks may take the colours of their neighbours."""
    start, text, unchanged, look = 0, "", "", PLAIN
    for x, (old, cell) in enumerate(zip(was, now, strict=True)):
        character, codes = cell or _NOTHING
        changed = cell != old and cell is not None
        if not changed and not text:
            continue
        fits = codes == look or (character == " " and same_blank(codes, look))
        if text and fits and changed:
            text, unchanged = text + unchanged + character, ""
        elif text and fits and len(unchanged) < _JOIN:
            unchanged += character
        elif changed and not unchanged and text.isspace() and same_blank(look, codes):
            text, look = text + character, codes
        else:
            if text:
                yield start, look, text
            start, text, unchanged, look = x, character if changed else "", "", codes
    if text:
        yield start, look, text


def _moved(at: tuple[int, int], to: tuple[int, int]) -> str:
    r"""The shortest cursor move from (y, x) to another cell; x below 0 = unknown.

    >>> (_moved((3, 7), (3, 7)), _moved((3, 7), (3, 9)), _moved((3, 7), (4, 0)), _moved((3, 7),
    ...     (12, 7)))
    ('', '\x1b[2C', '\x1b[E', '\x1b[13d')
    >>> _moved((3, 52), (4, 50)), _moved((3, 52), (14, 50)), _moved((3, -1), (3, 50))
    ('\x1b[B\x08\x08', '\x1b[15;51H', '\x1b[51G')
    """
    (y, x), (line, column) = at, to
    if 0 <= x < column:
        across = f"\x1b[{column - x}C".replace("[1C", "[C")
    else:
        across = "\b" * (x - column)
    if x < 0 or len(across) > _BACK < x - column:
        across = f"\x1b[{column + 1}G"
    if y == line:
        return across
    ways = [f"\x1b[{line + 1};{column + 1}H"]
    if x == column:
        ways.append(f"\x1b[{line + 1}d")
    if y == line - 1:
        ways.append("\x1b[B" + across)
        ways.append(f"\x1b[E\x1b[{column}C" if column else "\x1b[E")
    return min(ways, key=len)


def _erased(blanks: re.Match[str]) -> str:
    """Codes that erase blanks and jump over them, unless they end the text."""
    count = len(blanks[0])
    if blanks.end() == len(blanks.string):
        return f"\x1b[{count}X"
    return f"\x1b[{count}X\x1b[{count}C"


def _texts(lines: _Lines) -> list[str]:
    return ["".join(map(_character, line)) for line in lines]


def _character(cell: Cell | None) -> str:
    if cell is None:
        return UNKNOWN
    return cell[0]


def _shown(segments: Iterable[Segment]) -> list[Segment]:
    """The visible segments."""
    shown = []
    for text, style, control in segments:
        if text and not control:
            shown.append(Segment(_harmless(text), style))
    return shown


def _are_simple(segments: Iterable[Segment]) -> bool:
    """Whether all characters take one cell and none is a link."""
    return all(_is_simple(text) and not (style and style._link) for text, style, _ in segments)


def _harmless(text: str) -> str:
    """The text without control characters, which a file's name may contain."""
    if text.isprintable():
        return text
    return "".join(sign for sign in text if category(sign) != "Cc")


@lru_cache(maxsize=4096)
def _is_simple(text: str) -> bool:
    """Whether all characters take one cell."""
    return text.isascii() or all(get_character_cell_size(character) == 1 for character in text)


@lru_cache(maxsize=4096)
def _cells(text: str, style: Style | None, colours: ColorSystem) -> tuple[Cell, ...]:
    if style is None:
        codes = PLAIN
    else:
        codes = codes_of(style, colours)
    blank = codes
    if not shows_on_blanks(codes[0]):
        blank = ("", "39", codes[2])
    look = {" ": blank}
    return tuple((character, look.get(character, codes)) for character in text)
