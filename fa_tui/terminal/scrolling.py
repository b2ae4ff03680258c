"""Scroll detection, so that the terminal itself moves lines."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

_CHUNK = 24
"""Cells of a chunk, which moves as a unit: text next to a table does not move with it."""
_TELLING = 4
"""Minimum non-blank characters of a recognisable chunk."""
_OFTEN = 4
"""Text on more lines than this is ambiguous."""
UNKNOWN = "\0"
"""A cell of unknown content."""

_Line = TypeVar("_Line")
_Chunks = list[str]


@dataclass(frozen=True)
class Scroll:
    """Moves the lines [top, bottom) up by `up` lines, or down if negative.

    >>> Scroll(0, 3, 1).moved(["a", "b", "c", "d"], "-")
    ['b', 'c', '-', 'd']
    >>> Scroll(1, 4, -2).moved(["a", "b", "c", "d"], "-")
    ['a', '-', '-', 'b']
    """

    top: int
    bottom: int
    up: int

    def moved(self, lines: Sequence[_Line], new: _Line) -> list[_Line]:
        """The lines after the scroll, with `new` for each inserted line."""
        moved = list(lines)
        for place in range(self.top, self.bottom):
            source = place + self.up
            if self.top <= source < self.bottom:
                moved[place] = lines[source]
            else:
                moved[place] = new
        return moved

    def codes(self) -> str:
        r"""The escape codes of the scroll; afterwards colours are reset and the cursor is unknown.

        The reset comes first because some terminals fill the new lines with the current background.

        >>> Scroll(1, 4, -2).codes()
        '\x1b[0m\x1b[2;4r\x1b[2H\x1bM\x1bM\x1b[r'
        """
        first = self.top + 1
        if self.up > 0:
            line, index = self.bottom, "\x1bD"
        else:
            line, index = first, "\x1bM"
        moves = index * abs(self.up)
        return f"\x1b[0m\x1b[{first};{self.bottom}r\x1b[{line}H{moves}\x1b[r"


def find_scroll(before: Sequence[str], after: Sequence[str]) -> Scroll | None:
    """The scroll that moves most of the text to its new place; None if nothing moved.

    Args:
        before, after: lines of the terminal, with `UNKNOWN` cells.
    """
    old = [_chunks(line) for line in before]
    new = [_chunks(line) for line in after]
    up = _most_common_move(old, new)
    if up is None:
        return None
    first = max(0, -up)
    gains = []
    for y in range(first, len(new) - max(0, up)):
        gains.append(_gain(old[y], old[y + up], new[y]))
    start, stop = _best_stretch(gains)
    if start == stop:
        return None
    top = first + start + min(0, up)
    bottom = first + stop + max(0, up)
    if any(UNKNOWN in line for line in after[top:bottom]):
        # unknown cells cannot be restored after a scroll
        return None
    return Scroll(top, bottom, up)


def _chunks(line: str) -> _Chunks:
    return [line[start : start + _CHUNK] for start in range(0, len(line), _CHUNK)]


def _most_common_move(old: Sequence[_Chunks], new: Sequence[_Chunks]) -> int | None:
    """The shift in lines of most changed chunks."""
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
        letters = len(chunk) - chunk.count(" ")
        if len(places) <= _OFTEN and letters >= _TELLING:
            moves.update(place - y for place in places)
    if not moves:
        return None
    [(up, _)] = moves.most_common(1)
    return up


def _gain(was: _Chunks, comes: _Chunks, now: _Chunks) -> int:
    """Gain in correct chunks when another line takes the place of a line."""
    gain = 0
    for moved, stayed, wanted in zip(comes, was, now, strict=True):
        gain += (moved == wanted) - (stayed == wanted)
    return gain


def _best_stretch(gains: Sequence[int]) -> tuple[int, int]:
    """The range [start, stop) with the highest sum; empty if no sum is above 0.

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
