"""What the matrix is made of, in so little memory that it may have a hundred thousand columns.

How runs lie on the matrix: by method and seed, or by any two of their axes.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import accumulate, chain
from typing import Any, NamedTuple, overload

import msgspec

from fa_core.errors import printable
from fa_core.rows import AuditRow
from fa_core.runs import home_of, short_paths
from fa_tui.views.axes import METHODS_BY_SEEDS, Axes, axes_text, in_order, own_value, value_text
from fa_tui.views.text import width_of

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


class _Runs(msgspec.Struct, frozen=True):
    """The runs to lay out, as columns: their row indices, their headings, and what they say of themselves."""

    indices: Sequence[int]
    homes: Sequence[str]
    methods: Sequence[str]
    seeds: Sequence[int | None]
    axes: Sequence[dict[str, Any]]

    @classmethod
    def of(cls, rows: Sequence[AuditRow], shown: Iterable[int] | None) -> _Runs:
        indices = range(len(rows)) if shown is None else list(shown)
        # of all runs, whatever is shown: a filter renames nothing
        homes = _homes([row.source for row in rows])
        methods, seeds, axes = (_column(rows, name, shown is None, indices) for name in _NAMES)
        return cls(indices, homes if shown is None else [homes[index] for index in indices], methods, seeds, axes)

    def on(self, axis: str) -> Sequence[Hashable]:
        """The runs' values on an axis."""
        if axis in ("method", "seed", "source"):
            return {"method": self.methods, "seed": self.seeds, "source": self.homes}[axis]
        return [own_value(axis, axes) for axes in self.axes]


_NAMES = ("method", "seed", "axes")
_Groups = dict[str, dict[str, Cells]]
"""Home → label → cells."""


def _column(rows: Sequence[AuditRow], name: str, all_of_them: bool, indices: Sequence[int]) -> list[Any]:
    column = [getattr(row, name) for row in rows]
    return column if all_of_them else [column[index] for index in indices]


def build_grid(rows: Sequence[AuditRow], shown: Iterable[int] | None = None, axes: Axes = METHODS_BY_SEEDS) -> Grid:
    """Lay rows out along two axes, under one heading per source where there are several.

    Args:
        rows: all runs.
        shown: indices to lay out, in order (default: all).
        axes: what the lines and the columns are.

    Methods × seeds shows every run in a cell of its own: an axis that varies within a source stands on
    the line (one that does not, in the heading), and two runs that no axis tells apart get lines of
    their own (``dfa``, ``dfa #2``). Along other axes all runs that agree on both share a cell. Runs of
    different sources never share one, unless the source is an axis and tells them apart itself.
    """
    runs = _Runs.of(rows, shown)
    values = in_order(axes.columns, runs.on(axes.columns))
    columns = _places(values, runs.on(axes.columns))
    labels = Labels(axes.columns, values)
    if axes == METHODS_BY_SEEDS:
        varying = _varying_axes(runs)
        first = dict(zip(reversed(runs.homes), reversed(runs.axes), strict=True))
        groups = _apart(runs, columns, len(values), varying)
        return _assemble(labels, groups, {home: _heading(home, first[home], varying[home]) for home in groups})
    groups = _together(runs, columns, len(values), axes)
    return _assemble(labels, groups, {home: home for home in groups})


def _places(values: Sequence[Hashable], of: Sequence[Hashable]) -> Sequence[int]:
    """Where each stands among the values."""
    if of == values:
        return range(len(values))  # as in one method's runs, by seed: a dict would take 80 bytes for each
    places = {value: place for place, value in enumerate(values)}
    return array("i", map(places.__getitem__, of))


def _apart(runs: _Runs, columns: Iterable[int], count: int, varying: Mapping[str, set[str]]) -> _Groups:
    """Cells of one run at most."""
    groups: dict[str, dict[str, Filling]] = {}
    copies: Counter[tuple[str, str, int]] = Counter()
    for index, home, method, axes, column in zip(
        runs.indices, runs.homes, runs.methods, runs.axes, columns, strict=True
    ):
        lines = groups.setdefault(home, {})
        label = name = _line_label(method, axes, varying[home])
        while not _line(lines, label).put(column, index):
            copies[home, name, column] += 1
            label = f"{name} #{copies[home, name, column] + 1}"
    return {home: {label: cells.done(count) for label, cells in lines.items()} for home, lines in groups.items()}


def _line(lines: dict[str, Filling], label: str) -> Filling:
    line = lines.get(label)
    if line is None:
        line = lines[label] = Filling()
    return line


def _together(runs: _Runs, columns: Iterable[int], count: int, axes: Axes) -> _Groups:
    """Cells of all the runs that agree on both axes; one home for all where the source is an axis."""
    by_value: dict[str, dict[Hashable, dict[int, list[int]]]] = {}
    for index, home, value, column in zip(runs.indices, runs.homes, runs.on(axes.lines), columns, strict=True):
        lines = by_value.setdefault("" if "source" in axes else home, {})
        lines.setdefault(value, {}).setdefault(column, []).append(index)
    return {
        home: {
            value_text(axes.lines, value): Cells.shared(lines[value], count) for value in in_order(axes.lines, lines)
        }
        for home, lines in by_value.items()
    }


def _assemble(columns: Labels, groups: _Groups, headings: Mapping[str, str]) -> Grid:
    lines: list[GridLine] = []
    for home, members in groups.items():
        if len(groups) > 1:
            lines.append(GridLine(headings[home], Cells((), (), (), 0)))
        lines += [GridLine(label, cells) for label, cells in members.items()]
    return Grid(columns, tuple(lines), Places(lines))


def homes_of(rows: Sequence[AuditRow], indices: Iterable[int]) -> dict[int, str]:
    """The heading of each row: its file, or for files and run folders of one run the folder they lie in."""
    indices = list(indices)
    return dict(zip(indices, _homes(_column(rows, "source", False, indices)), strict=True))


def _homes(sources: Sequence[str]) -> Sequence[str]:
    """`homes_of`, in the order of the rows."""
    names = _names(tuple(Counter(sources).items()))
    return [names[source] for source in sources]


@lru_cache(maxsize=1)
def _names(counts: tuple[tuple[str, int], ...]) -> dict[str, str]:
    """The heading of the rows of each source, by how many rows it has."""
    full = {source: home_of(source, count) for source, count in counts}
    names = short_paths(set(full.values()))
    return {source: names[home] for source, home in full.items()}


def _varying_axes(runs: _Runs) -> dict[str, set[str]]:
    """Home → the axes whose values differ among its rows."""
    kinds: dict[str, set[frozenset[tuple[str, str]]]] = {}
    as_text: dict[int, frozenset[tuple[str, str]]] = {}  # rows of one table may share one object
    for axes, home in zip(runs.axes, runs.homes, strict=True):
        text = as_text.get(id(axes))
        if text is None:
            text = as_text[id(axes)] = frozenset((name, str(value)) for name, value in axes.items())
        kinds.setdefault(home, set()).add(text)
    return {
        home: {name for name, _ in frozenset().union(*seen) - frozenset.intersection(*seen)}
        for home, seen in kinds.items()
    }


def _heading(home: str, axes: Mapping[str, Any], varying: set[str]) -> str:
    shared = {name: value for name, value in axes.items() if name not in varying}
    return f"{home}  {axes_text(shared)}".rstrip()


def _line_label(method: str, axes: Mapping[str, Any], varying: set[str]) -> str:
    if not varying:
        return method
    return f"{method} {axes_text({name: value for name, value in axes.items() if name in varying})}".rstrip()
