"""Columns of a table in a width: whole, or not there; only names are shortened. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class Fitted(NamedTuple):
    """The columns that fit.

    Attributes:
        name: cells of the first column, which names the line.
        shown: indices of the other columns that are shown, rising.
    """

    name: int
    shown: list[int]


def fitted(
    name: int,
    widths: Sequence[int],
    room: int,
    *,
    least: int = 0,
    order: Sequence[int] | None = None,
) -> Fitted:
    """Fit columns beside a name.

    A column is shown if all that are more important are, and it fits beside the shortest name. What
    is left belongs to the name.

    Args:
        name: cells of the whole name.
        widths: of the other columns, their gaps included.
        room: cells for all of them.
        least: the name is not shortened below this; 0: never shortened.
        order: the columns, the most important first; by default from the left.

    >>> fitted(10, [12, 12, 5], 30), fitted(10, [12, 12, 5], 30, least=6)
    (Fitted(name=10, shown=[0]), Fitted(name=6, shown=[0, 1]))
    >>> fitted(10, [12, 12, 5], 30, order=[2, 1, 0])
    Fitted(name=10, shown=[1, 2])
    """
    shortest = min(name, least or name)
    left = room - shortest
    shown = []
    for column in range(len(widths)) if order is None else order:
        left -= widths[column]
        if left < 0:
            break
        shown.append(column)
    taken = sum(widths[column] for column in shown)
    return Fitted(max(shortest, min(name, room - taken)), sorted(shown))
