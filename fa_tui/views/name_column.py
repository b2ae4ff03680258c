"""How wide the names of the matrix' lines are, and how they are written in that room. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from fa_tui.views.abbreviations import abbreviated, lengths

_LONGEST, _SHORTEST, _LEAST = 44, 14, 9


class NameColumn:
    """The names of some lines.

    Args:
        labels: line → its whole name.
        around: blanks before and behind a name.
        ellipsis: stands where a name is cut.
    """

    def __init__(self, labels: Mapping[int, str], around: int, ellipsis: str) -> None:
        self._labels, self._around, self._ellipsis = labels, around, ellipsis
        self._written: tuple[int, Mapping[int, str]] = (-1, {})

    @cached_property
    def _widths(self) -> list[int]:
        """With whole names, and with ever shorter ones; in the last, methods are cut."""
        return [min(length, _LONGEST) + self._around for length in lengths([*self._labels.values()])]

    @property
    def natural(self) -> int:
        """The width in which names are whole."""
        return max(_LEAST, self._widths[0])

    def width_in(self, room: int, at_most: int) -> int:
        """The longest names that fit.

        Args:
            room: what all columns leave on screen.
            at_most: what the names may take where the columns have to scroll anyway.
        """
        fitting = next((width for width in self._widths if width <= room), None)
        chosen = min(self._widths[-1], at_most) if fitting is None else fitting
        return max(min(_SHORTEST, self.natural), chosen)

    def written(self, width: int) -> Mapping[int, str]:
        """Line → its name in a column of that width."""
        if self._written[0] != width:
            names = abbreviated([*self._labels.values()], width - self._around, self._ellipsis)
            self._written = (width, dict(zip(self._labels, names, strict=True)))
        return self._written[1]
