"""What the terminal shows, cell by cell, and the shortest text that turns it into the next picture."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from unicodedata import category

from rich.cells import get_character_cell_size
from rich.color import ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

Codes = tuple[str, str, str]
"""SGR codes of attributes, foreground and background; ``39`` and ``49`` are the terminal's own colours."""
Cell = tuple[str, Codes]

_PLAIN: Codes = ("", "39", "49")
_SHOWN_ON_BLANKS = frozenset(("4", "7", "9", "21", "53"))
"""Underline, reverse, strike, double underline, overline: attributes that a blank shows too."""
_JOIN = 5
"""Unchanged cells sent rather than jumped over: a cursor move costs about seven bytes."""


class Frame:
    """The cells of the terminal, as far as they are known.

    Lines with links, wide or combining characters are never taken apart: they are sent whole.

    Args:
        width, height: the terminal's size.
        colours: what it can show.
    """

    def __init__(self, width: int, height: int, colours: ColorSystem) -> None:
        self.size = (width, height)
        self._colours = colours
        self._lines: list[list[Cell | None]] = [[None] * width for _ in range(height)]

    def put(self, pen: Pen, x: int, y: int, segments: Iterable[Segment]) -> None:
        """Show text from a cell on; the pen writes what differs from what is there."""
        width, height = self.size
        if y >= height:
            return
        segments = [Segment(_harmless(text), style) for text, style, control in segments if text and not control]
        if not all(_is_simple(text) and not (style and style._link) for text, style, _ in segments):
            self._put_whole(pen, x, y, segments)
            return
        cells = [cell for text, style, _ in segments for cell in _cells(text, style, self._colours)][: width - x]
        line = self._lines[y]
        if line[x : x + len(cells)] == cells:
            return
        start = end = -1
        for index, cell in enumerate(cells):
            if line[x + index] == cell:
                continue
            if start < 0:
                start = index
            elif index - end > _JOIN:
                pen.write(x + start, y, cells[start:end])
                start = index
            end = index + 1
        pen.write(x + start, y, cells[start:end])
        line[x : x + len(cells)] = cells

    def _put_whole(self, pen: Pen, x: int, y: int, segments: list[Segment]) -> None:
        length = sum(segment.cell_length for segment in segments)
        pen.raw(
            x, y, "".join(Strip.render_style(style or Style.null(), text, self._colours) for text, style, _ in segments)
        )
        line = self._lines[y]
        # a neighbour may be half of a wide character that was cut
        for column in range(max(0, x - 1), min(self.size[0], x + length + 1)):
            line[column] = None


class Pen:
    """Writes cells, remembering which colours and attributes the terminal already has."""

    def __init__(self) -> None:
        self._out: list[str] = []
        self._now: Codes | None = None

    def write(self, x: int, y: int, cells: Iterable[Cell]) -> None:
        """Move there and write the cells."""
        self._out.append(f"\x1b[{y + 1};{x + 1}H")
        for character, codes in cells:
            if codes != self._now:
                self._change(codes)
            self._out.append(character)

    def raw(self, x: int, y: int, text: str) -> None:
        """Move there and write text that brings its own colours and resets them."""
        self._out.append(f"\x1b[0m\x1b[{y + 1};{x + 1}H{text}")
        self._now = None

    def text(self) -> str:
        """All that was written; the terminal's colours are reset at its end."""
        return "".join([*self._out, "\x1b[0m"]) if self._out else ""

    def _change(self, wanted: Codes) -> None:
        now = self._now
        if now is not None and wanted[0] == now[0]:
            sent = [new for new, old in zip(wanted[1:], now[1:], strict=True) if new != old]
        else:
            sent = ["0", *(code for code, plain in zip(wanted, _PLAIN, strict=True) if code != plain)]
        self._out.append(f"\x1b[{';'.join(sent)}m")
        self._now = wanted


def _harmless(text: str) -> str:
    """The text without control characters: a name out of a file must not steer the terminal (they take no cell)."""
    if text.isprintable():
        return text
    return "".join(character for character in text if category(character) != "Cc")


@lru_cache(maxsize=4096)
def _is_simple(text: str) -> bool:
    """Whether every character is one cell."""
    return text.isascii() or all(get_character_cell_size(character) == 1 for character in text)


@lru_cache(maxsize=4096)
def _cells(text: str, style: Style | None, colours: ColorSystem) -> tuple[Cell, ...]:
    codes = _PLAIN if style is None else _codes(style, colours)
    blank = codes if _SHOWN_ON_BLANKS.intersection(codes[0].split(";")) else ("", "39", codes[2])
    return tuple((character, blank if character == " " else codes) for character in text)


@lru_cache(maxsize=1024)
def _codes(style: Style, colours: ColorSystem) -> Codes:
    attributes = style._attributes & style._set_attributes
    names = [code for bit, code in style._style_map.items() if attributes & (1 << bit)]
    foreground = style.color.downgrade(colours).get_ansi_codes() if style.color else ("39",)
    background = style.bgcolor.downgrade(colours).get_ansi_codes(foreground=False) if style.bgcolor else ("49",)
    return ";".join(names), ";".join(foreground), ";".join(background)
