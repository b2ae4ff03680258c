"""What the matrix is made of, in so little memory that it may have a hundred thousand columns."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import NamedTuple, overload

from fa_core.errors import printable
from fa_tui.views.axes import value_text
from fa_tui.views.fitting import width_of

_INDEX = "i"
"""Four bytes: of more than two billion runs the names alone would take a hundred gigabytes."""


class Cells(Sequence[tuple[int, ...]]):
    """The cells of a line, each the row indices in it; only those with a run take memory, 12 bytes each at most.

    Args:
        columns: those in which there is a run, in order.
        rows: the row indices in these, one cell after another.
        ends: where in `rows` each of these ends.
        count: how many cells there are.
    """

    __slots__ = ("_columns", "_count", "_ends", "rows")

    def __init__(self, columns: Iterable[int], rows: Iterable[int], ends: Iterable[int], count: int) -> None:
        self.rows: Sequence[int] = array(_INDEX, rows)
        self._columns = array(_INDEX, columns)
        self._ends = ends if isinstance(ends, range) else array(_INDEX, ends)
        self._count = count

    @classmethod
    def shared(cls, filled: Mapping[int, Sequence[int]], count: int) -> Cells:
        """Cells of any number of runs: column → row indices."""
        columns = sorted(filled)
        cells = [filled[column] for column in columns]
        return cls(columns, chain.from_iterable(cells), accumulate(map(len, cells)), count)

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, column: int) -> tuple[int, ...]: ...
    @overload
    def __getitem__(self, column: slice) -> list[tuple[int, ...]]: ...
    def __getitem__(self, column: int | slice) -> tuple[int, ...] | list[tuple[int, ...]]:
        columns = range(self._count)[column]
        if not isinstance(columns, int):
            return [self[place] for place in columns]
        place = bisect_left(self._columns, columns)
        return self._at(place) if place < len(self._columns) and self._columns[place] == columns else ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def filled(self) -> Iterator[tuple[int, tuple[int, ...]]]:
        """The cells with a run, each with its column, in the order of the columns."""
        return ((column, self._at(place)) for place, column in enumerate(self._columns))

    def _at(self, place: int) -> tuple[int, ...]:
        return tuple(self.rows[self._ends[place - 1] if place else 0 : self._ends[place]])


class Filling:
    """The cells of a line while runs come, one for each; of rising columns it remembers no more than these."""

    __slots__ = ("_columns", "_last", "_rows", "_seen")

    def __init__(self) -> None:
        self._columns, self._rows = array(_INDEX), array(_INDEX)
        self._last = -1
        self._seen: set[int] | None = None

    def put(self, column: int, row: int) -> bool:
        """Put a run into a column; False where there is one already."""
        if column > self._last:
            self._last = column
        else:
            if self._seen is None:
                self._seen = set(self._columns)
            if column in self._seen:
                return False
        if self._seen is not None:
            self._seen.add(column)
        self._columns.append(column)
        self._rows.append(row)
        return True

    def done(self, count: int) -> Cells:
        """The cells, `count` of them."""
        columns, rows, ends = self._columns, self._rows, range(1, len(self._rows) + 1)
        if self._seen is None:
            return Cells(columns, rows, ends, count)
        order = sorted(range(len(columns)), key=columns.__getitem__)
        return Cells(map(columns.__getitem__, order), map(rows.__getitem__, order), ends, count)


class GridLine(NamedTuple):
    """One line: a source's heading (no cells), or a label and the row indices in each column."""

    label: str
    cells: Cells

    @property
    def is_heading(self) -> bool:
        return not self.cells

    def runs(self) -> list[int]:
        """The row indices on this line."""
        return list(self.cells.rows)


class Places(Mapping[int, tuple[int, int]]):
    """Row index → its line and column, in 8 bytes each."""

    def __init__(self, lines: Sequence[GridLine]) -> None:
        last = max((row for line in lines for row in line.cells.rows), default=-1)
        self._lines = array(_INDEX, [-1]) * (last + 1)
        self._columns = array(_INDEX, [-1]) * (last + 1)
        self._count = 0
        for number, line in enumerate(lines):
            for column, cell in line.cells.filled():
                for row in cell:
                    self._lines[row], self._columns[row] = number, column
                    self._count += 1

    def __getitem__(self, row: int) -> tuple[int, int]:
        if not 0 <= row < len(self._lines) or self._lines[row] < 0:
            raise KeyError(row)
        return self._lines[row], self._columns[row]

    def __iter__(self) -> Iterator[int]:
        return (row for row, line in enumerate(self._lines) if line >= 0)

    def __len__(self) -> int:
        return self._count


class Labels(Sequence[str]):
    """What stands above the columns, spelled when it is looked at.

    Args:
        axis: what the columns are.
        values: of the axis, one per column.

    Attributes:
        widest: the width of the widest, as it is written.
    """

    __slots__ = ("_axis", "_values", "widest")

    def __init__(self, axis: str, values: Sequence[Hashable]) -> None:
        self._axis, self._values = axis, values
        self.widest = max(map(width_of, map(printable, self)), default=0)

    def __len__(self) -> int:
        return len(self._values)

    @overload
    def __getitem__(self, column: int) -> str: ...
    @overload
    def __getitem__(self, column: slice) -> list[str]: ...
    def __getitem__(self, column: int | slice) -> str | list[str]:
        if isinstance(column, slice):
            return [value_text(self._axis, value) for value in self._values[column]]
        return value_text(self._axis, self._values[column])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)


class Grid(NamedTuple):
    """The lines, the column labels, and where each row index is (line, column)."""

    columns: Labels
    lines: tuple[GridLine, ...]
    places: Mapping[int, tuple[int, int]]
