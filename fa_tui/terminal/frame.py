"""What the terminal shows, cell by cell, and the shortest text that turns it into the next picture.

Lines that only moved up or down are moved by the terminal itself, for a few bytes.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, TypeVar
from unicodedata import category

from rich.cells import cell_len, get_character_cell_size
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

_CHUNK = 24
"""Cells that are taken to move or stay together: what is next to a table does not move with it."""
_TELLING = 4
"""Characters besides blanks that a chunk must have to be recognized elsewhere."""
_OFTEN = 4
"""What is on more lines than this does not show where they went."""
UNKNOWN = "\0"
"""Stands for a cell whose content is not known."""

_Line = TypeVar("_Line")
_Chunks = list[str]


@dataclass(frozen=True)
class Scroll:
    """The lines [top, bottom) move up by `up` lines, or down if that is negative; the others stay.

    >>> Scroll(0, 3, 1).moved(["a", "b", "c", "d"], "-")
    ['b', 'c', '-', 'd']
    >>> Scroll(1, 4, -2).moved(["a", "b", "c", "d"], "-")
    ['a', '-', '-', 'b']
    """

    top: int
    bottom: int
    up: int

    def moved(self, lines: Sequence[_Line], new: _Line) -> list[_Line]:
        """The lines after it, with `new` for each line that came in."""
        inside = lines[self.top : self.bottom]
        came = [new] * min(abs(self.up), len(inside))
        inside = [*inside[self.up :], *came] if self.up > 0 else [*came, *inside[: self.up]]
        return [*lines[: self.top], *inside, *lines[self.bottom :]]

    def codes(self) -> str:
        r"""Resets the colours, sets the margins, scrolls and takes the margins away; the cursor is anywhere then.

        Some terminals give the lines that come in the current background, others their own.

        >>> Scroll(1, 4, -2).codes()
        '\x1b[0m\x1b[2;4r\x1b[2H\x1bM\x1bM\x1b[r'
        """
        line, scroll = (self.bottom, "\x1bD") if self.up > 0 else (self.top + 1, "\x1bM")
        return f"\x1b[0m\x1b[{self.top + 1};{self.bottom}r\x1b[{line}H{scroll * abs(self.up)}\x1b[r"


def find_scroll(before: Sequence[str], after: Sequence[str]) -> Scroll | None:
    """The scroll that brings most of the text to where it is to be; None where nothing moved.

    Args:
        before, after: the lines of the terminal, `UNKNOWN` for a cell whose content is not known.
    """
    old, new = [_chunks(line) for line in before], [_chunks(line) for line in after]
    up = _most_common_move(old, new)
    if up is None:
        return None
    lines = range(max(0, -up), len(new) - max(0, up))
    start, stop = _best_stretch([_gain(old[y], old[y + up], new[y]) for y in lines])
    if start == stop:
        return None
    top, bottom = lines[start] + min(0, up), lines[stop - 1] + 1 + max(0, up)
    if any(UNKNOWN in line for line in after[top:bottom]):
        # what is not known cannot be painted again where the scroll took it away
        return None
    return Scroll(top, bottom, up)


def _chunks(line: str) -> _Chunks:
    return [line[start : start + _CHUNK] for start in range(0, len(line), _CHUNK)]


def _most_common_move(old: Sequence[_Chunks], new: Sequence[_Chunks]) -> int | None:
    """By how many lines most of the chunks that changed went up."""
    left: defaultdict[tuple[int, str], list[int]] = defaultdict(list)
    came: list[tuple[int, int, str]] = []
    for y, (was, now) in enumerate(zip(old, new, strict=True)):
        for column, (one, other) in enumerate(zip(was, now, strict=True)):
            if one != other:
                left[column, one].append(y)
                came.append((y, column, other))
    moves: Counter[int] = Counter()
    for y, column, chunk in came:
        places = left.get((column, chunk), [])
        if 0 < len(places) <= _OFTEN and len(chunk) - chunk.count(" ") >= _TELLING:
            moves.update(place - y for place in places)
    return max(moves, key=lambda up: moves[up]) if moves else None


def _gain(was: _Chunks, comes: _Chunks, now: _Chunks) -> int:
    """How many more chunks of a line are right when another line comes in its place."""
    return sum(
        (one == right) - (other == right) for one, other, right in zip(comes, was, now, strict=True)
    )


def _best_stretch(gains: Sequence[int]) -> tuple[int, int]:
    """The range [start, stop) with the highest sum; empty where none is above 0.

    >>> _best_stretch([-1, 2, -1, 3, -4, 1])
    (1, 4)
    """
    best = total = 0
    start = 0
    found = (0, 0)
    for place, gain in enumerate(gains):
        if total <= 0:
            total, start = 0, place
        total += gain
        if total > best:
            best, found = total, (start, place + 1)
    return found


Codes = tuple[str, str, str]
"""SGR codes of attributes, foreground and background; ``39`` and ``49`` are the terminal's own colours."""
Cell = tuple[str, Codes]
Piece = tuple[int, int, list[Segment]]
"""Text from a cell (x, y) on."""

_PLAIN: Codes = ("", "39", "49")
_NOTHING: Cell = ("", ("", "", ""))
_SHOWN_ON_BLANKS = frozenset(("4", "7", "9", "21", "53"))
"""Underline, reverse, strike, double underline, overline: attributes that a blank shows too."""
_OFF = {"1": "22", "2": "22", "3": "23", "4": "24", "7": "27", "9": "29"}
"""What ends bold, dim, italic, underline, reverse and strike."""
_JOIN = 6
"""Unchanged cells of the same colours sent rather than jumped over: a jump costs four to eight bytes."""
_AT_END = 6
_BACK = 4
"""Backspaces that are shorter than another way."""
_BLANKS = re.compile(f" {{12,}}| {{{_AT_END},}}$")
"""Blanks that are erased and jumped over; at the end of a text, only erased."""
_MUCH = 400
"""Bytes of a picture above which it is worth a look whether lines only moved."""
_CLEARLY = 0.75
"""A scroll may flicker for a moment: it must save a quarter of the bytes."""

_Lines = list[list[Cell | None]]


class Whole(NamedTuple):
    """Text that is not taken apart, and the cells [start, end) of a line that are not known after it."""

    text: str
    y: int
    start: int
    end: int


class Frame:
    """The cells of the terminal, as far as they are known.

    Lines with links, wide or combining characters are never taken apart: they are sent whole.

    Args:
        width, height: the terminal's size.
        colours: what it can show.
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
        """What to send so that the terminal shows the pieces: cells that differ, after a scroll if it saves bytes."""
        before = [line[:] for line in self._lines]
        whole = [sent for x, y, segments in pieces if (sent := self._put(x, y, _shown(segments)))]
        text = self._difference(whole, before)
        if not self._scrolls or len(text) < _MUCH:
            return text

        scroll = find_scroll(_texts(before), _texts(self._lines))
        if scroll is None:
            return text
        came: list[Cell | None] = [None] * self.size[0]
        scrolled = self._difference(whole, [line[:] for line in scroll.moved(before, came)], scroll)
        return scrolled if len(scrolled) <= _CLEARLY * len(text) else text

    def _put(self, x: int, y: int, segments: list[Segment]) -> Whole | None:
        """Note what a piece shows; what is to be sent if it is one that is sent whole.

        A piece off the screen is of a size that is over: what was drawn for a larger one comes after a resize.
        """
        width, height = self.size
        if not (0 <= x < width and 0 <= y < height):
            return None
        if _are_simple(segments):
            cells = [
                cell for text, style, _ in segments for cell in _cells(text, style, self._colours)
            ][: width - x]
            self._lines[y][x : x + len(cells)] = cells
            return None
        parts, length = ["\x1b[0m"], 0
        for text, style, _ in segments:
            look, cells_wide, there = (
                style or Style.null(),
                cell_len(text),
                f"\x1b[{y + 1};{x + length + 1}H",
            )
            # terminals do not agree on how wide some characters are: what follows is put where it belongs
            blank = (
                ""
                if _is_simple(text)
                else Strip.render_style(look, " " * cells_wide, self._colours) + there
            )
            parts += [there, blank, Strip.render_style(look, text, self._colours)]
            length += cells_wide
        end = min(width, x + length)
        self._lines[y][x:end] = [None] * (end - x)
        # a neighbour may be half of a wide character that was cut
        return Whole("".join(parts), y, max(0, x - 1), min(width, end + 1))

    def _difference(
        self, whole: Sequence[Whole], before: _Lines, scroll: Scroll | None = None
    ) -> str:
        """What turns the picture `before` into this one: after a scroll, what is sent whole, then cells by colour."""
        for _, y, start, end in whole:
            before[y][start:end] = [None] * (end - start)
        runs = [
            (codes[::-1], y, x, text)
            for y, (was, now) in enumerate(zip(before, self._lines, strict=True))
            if was != now
            for x, codes, text in _runs(was, now)
        ]
        out = [scroll.codes()] if scroll else []
        out += [text for text, *_ in whole]
        pen: Codes | None = _PLAIN if scroll and not whole else None
        at = (-9, -9)  # unknown
        for backwards, y, x, text in sorted(runs):
            codes = backwards[::-1]
            out.append(_moved(at, (y, x)))
            if pen is None or (codes != pen and not (text.isspace() and _blank_looks(codes, pen))):
                out.append(_from_to(pen, codes))
                pen = codes
            length = len(text)
            if self._erases and not _on_blanks(pen[0]):
                shown = len(text.rstrip(" "))
                length = shown if length - shown >= _AT_END else length
                text = _BLANKS.sub(_erased, text)
            out.append(text)
            # behind the last cell terminals do not agree on where the cursor is
            at = (y, x + length if x + length < self.size[0] else -1)
        return "".join([*out, "\x1b[0m"]) if out else ""


def _runs(
    was: Sequence[Cell | None], now: Sequence[Cell | None]
) -> Iterator[tuple[int, Codes, str]]:
    """(x, colours, text) of what changed in a line; a blank takes the colours of what is next to it, if it may."""
    start, text, unchanged, look = 0, "", "", _PLAIN
    for x, (old, cell) in enumerate(zip(was, now, strict=True)):
        character, codes = cell or _NOTHING
        changed = cell != old and cell is not None
        if not changed and not text:
            continue
        fits = codes == look or (character == " " and _blank_looks(codes, look))
        if text and fits and changed:
            text, unchanged = text + unchanged + character, ""
        elif text and fits and len(unchanged) < _JOIN:
            unchanged += character
        elif changed and not unchanged and text.isspace() and _blank_looks(look, codes):
            text, look = text + character, codes
        else:
            if text:
                yield start, look, text
            start, text, unchanged, look = x, character if changed else "", "", codes
    if text:
        yield start, look, text


def _moved(at: tuple[int, int], to: tuple[int, int]) -> str:
    r"""The shortest way from a cell (y, x) to another; from an x below 0 to anywhere in the line.

    >>> _moved((3, 7), (3, 7)), _moved((3, 7), (3, 9)), _moved((3, 7), (4, 0)), _moved((3, 7), (12, 7))
    ('', '\x1b[2C', '\x1b[E', '\x1b[13d')
    >>> _moved((3, 52), (4, 50)), _moved((3, 52), (14, 50)), _moved((3, -1), (3, 50))
    ('\x1b[B\x08\x08', '\x1b[15;51H', '\x1b[51G')
    """
    (y, x), (line, column) = at, to
    across = f"\x1b[{column - x}C" if 0 <= x < column else "\b" * (x - column)
    if x < 0 or len(across) > _BACK < x - column:
        across = f"\x1b[{column + 1}G"
    if y == line:
        return across
    ways = [f"\x1b[{line + 1};{column + 1}H"]
    if x == column:
        ways.append(f"\x1b[{line + 1}d")
    if y == line - 1:
        ways += ["\x1b[B" + across, f"\x1b[E\x1b[{column}C" if column else "\x1b[E"]
    return min(ways, key=len)


def _erased(blanks: re.Match[str]) -> str:
    """The shorter way to write blanks."""
    count = len(blanks[0])
    return f"\x1b[{count}X" if blanks.end() == len(blanks.string) else f"\x1b[{count}X\x1b[{count}C"


def _blank_looks(blank: Codes, other: Codes) -> bool:
    """Whether a blank looks the same in two sets of colours: a foreground is not seen on it."""
    return blank[2] == other[2] and not _on_blanks(blank[0]) and not _on_blanks(other[0])


@lru_cache(maxsize=4096)
def _from_to(now: Codes | None, wanted: Codes) -> str:
    """The shortest SGR sequence to other colours and attributes; from any for None.

    >>> _from_to(("1", "31", "40"), ("", "32", "40"))
    '\\x1b[22;32m'
    """
    afresh = ["0", *(code for code, plain in zip(wanted, _PLAIN, strict=True) if code != plain)]
    ways = [";".join(afresh)]
    if now is not None:
        old, new = ({*codes[0].split(";")} - {""} for codes in (now, wanted))
        if old - new <= _OFF.keys():
            off = sorted({_OFF[code] for code in old - new})
            # bold and dim go off together
            on = sorted(new if off else new - old)
            colours = [code for code, had in zip(wanted[1:], now[1:], strict=True) if code != had]
            ways.append(";".join([*off, *on, *colours]))
    return f"\x1b[{min(ways, key=len)}m"


def _texts(lines: _Lines) -> list[str]:
    return ["".join([UNKNOWN if cell is None else cell[0] for cell in line]) for line in lines]


def _shown(segments: Iterable[Segment]) -> list[Segment]:
    """What of some segments is seen."""
    return [
        Segment(_harmless(text), style) for text, style, control in segments if text and not control
    ]


def _are_simple(segments: Iterable[Segment]) -> bool:
    """Whether every character is one cell, and none is a link."""
    return all(_is_simple(text) and not (style and style._link) for text, style, _ in segments)


def _harmless(text: str) -> str:
    """The text without control characters: a name out of a file must not steer the terminal (they take no cell)."""
    return text if text.isprintable() else "".join(sign for sign in text if category(sign) != "Cc")


@lru_cache(maxsize=4096)
def _is_simple(text: str) -> bool:
    """Whether every character is one cell."""
    return text.isascii() or all(get_character_cell_size(character) == 1 for character in text)


@lru_cache(maxsize=4096)
def _cells(text: str, style: Style | None, colours: ColorSystem) -> tuple[Cell, ...]:
    codes = _PLAIN if style is None else _codes(style, colours)
    blank = codes if _on_blanks(codes[0]) else ("", "39", codes[2])
    return tuple((character, blank if character == " " else codes) for character in text)


@lru_cache(maxsize=64)
def _on_blanks(attributes: str) -> bool:
    return not _SHOWN_ON_BLANKS.isdisjoint(attributes.split(";"))


@lru_cache(maxsize=1024)
def _codes(style: Style, colours: ColorSystem) -> Codes:
    attributes = style._attributes & style._set_attributes
    names = [code for bit, code in style._style_map.items() if attributes & (1 << bit)]
    foreground = style.color.downgrade(colours).get_ansi_codes() if style.color else ("39",)
    background = (
        style.bgcolor.downgrade(colours).get_ansi_codes(foreground=False)
        if style.bgcolor
        else ("49",)
    )
    return ";".join(names), ";".join(foreground), ";".join(background)
