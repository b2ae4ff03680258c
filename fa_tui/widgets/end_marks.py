"""Where the characters at the ends of curves stand, so that none hides another. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

BESIDE = 6
"""Marks to each side of the place where several curves end; farther away nobody would look for them."""


class End(NamedTuple):
    """Where a curve ends.

    Attributes:
        column, line: the cell.
        mark: its character.
        style: component class of its colour.
    """

    column: int
    line: int
    mark: str
    style: str


def side_by_side(ends: Sequence[End], taken: Collection[tuple[int, int]], columns: int) -> tuple[list[End], int]:
    """The ends with marks that share a cell moved apart along its line, and how many found no room there.

    Args:
        ends: in drawing order: of those that share a cell the last one stays.
        taken: cells (column, line) that are to be left as they are.
        columns: of the chart.

    >>> side_by_side([End(9, 0, "a", "x"), End(9, 0, "b", "y"), End(4, 1, "c", "x")], (), 10)
    ([End(column=9, line=0, mark='b', style='y'), End(column=4, line=1, mark='c', style='x'), \
End(column=8, line=0, mark='a', style='x')], 0)
    """
    cells: dict[tuple[int, int], dict[str, End]] = {}
    for end in ends:
        here = cells.setdefault((end.column, end.line), {})
        # a mark that comes again counts as drawn now
        here.pop(end.mark, None)
        here[end.mark] = end
    placed = [list(here.values())[-1] for cell, here in cells.items() if cell not in taken]
    occupied = {*taken, *cells}
    left_out = 0
    for (column, line), here in cells.items():
        waiting = list(here.values())
        if (column, line) not in taken:
            waiting.pop()
        free = _free(column, line, occupied, columns)
        while waiting:
            place = next(free, None)
            if place is None:
                break
            occupied.add((place, line))
            placed.append(waiting.pop()._replace(column=place))
        left_out += len(waiting)
    return placed, left_out


def _free(column: int, line: int, occupied: Collection[tuple[int, int]], columns: int) -> Iterator[int]:
    """Free cells beside a cell: those after it, then those before it, up to the next one that is not free."""
    for step in (1, -1):
        for away in range(1, BESIDE + 1):
            place = column + step * away
            if not 0 <= place < columns or (place, line) in occupied:
                break
            yield place
