"""How runs lie on the matrix: by method and seed, or by any two of their axes; what axes there are."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import eq, gt
from typing import Any, NamedTuple

from fa_core.errors import printable
from fa_core.facts.runs import home_of, short_paths
from fa_core.numbers import plain
from fa_core.rows import AuditRow, differing_axes
from fa_tui.views.text import width_of

_SIGNS = {"lam": "λ"}
_PLURALS = {"method": "methods", "seed": "seeds", "source": "sources"}


class Axes(NamedTuple):
    """The axis that the lines of the matrix are, and that of its columns."""

    lines: str = "method"
    columns: str = "seed"

    def having(self, place: str, axis: str) -> Axes:
        """These axes with another one in a place; if it stood in the other place, the two change places.

        >>> Axes().having("columns", "method")
        Axes(lines='seed', columns='method')
        """
        other = self.lines if place == "columns" else self.columns
        if axis == other:
            return Axes(self.columns, self.lines)
        return Axes(self.lines, axis) if place == "columns" else Axes(axis, self.columns)

    def __str__(self) -> str:
        return f"{plural(self.lines)} × {plural(self.columns)}"


METHODS_BY_SEEDS = Axes()


def axes_of(rows: Iterable[AuditRow]) -> list[str]:
    """The axes there are: method, seed, source, and what the runs themselves name."""
    return ["method", "seed", "source", *own_axes(rows)]


def own_axes(rows: Iterable[AuditRow]) -> list[str]:
    """The axes that the runs themselves name."""
    return sorted({name for row in rows for name in row.axes})


def plural(axis: str) -> str:
    """How an axis is called.

    >>> plural("seed"), plural("lam"), plural("d")
    ('seeds', 'λ', 'd')
    """
    return _PLURALS.get(axis) or sign(axis)


def sign(axis: str) -> str:
    """An axis as it is written before its value: ``λ`` for ``lam``."""
    return _SIGNS.get(axis, axis)


def value_on(axis: str, row: AuditRow, home: str) -> Hashable:
    """A run's value on an axis; None where it has none.

    Args:
        axis: one of `axes_of`.
        row: the run.
        home: what its source is called on screen.
    """
    if axis == "method":
        return row.method
    if axis == "seed":
        return row.seed
    if axis == "source":
        return home
    value = row.axes.get(axis)
    return value if value is None or isinstance(value, (int, float, str)) else str(value)


def value_text(axis: str, value: object) -> str:
    """A value on an axis as the label of a line or column.

    >>> value_text("seed", 42), value_text("lam", 0.01), value_text("lam", None), value_text("method", "dfa")
    ('s42', 'λ=0.01', 'no λ', 'dfa')
    """
    if value is None:
        return f"no {sign(axis)}"
    if axis == "seed":
        return f"s{value}"
    return str(value) if axis in ("method", "source") else f"{sign(axis)}={plain(value)}"


def axes_text(axes: Mapping[str, object]) -> str:
    """Several axes with their values: ``d=64 λ=0.01``."""
    return " ".join(f"{sign(name)}={plain(value)}" for name, value in sorted(axes.items()))


def in_order(axis: str, values: Iterable[Hashable]) -> list[Hashable]:
    """The values once each: methods and sources as they come; numbers by size, then words, then those without.

    >>> in_order("lam", [0.1, None, 0.01]), in_order("method", ["dfa", "bp", "dfa"])
    ([0.01, 0.1, None], ['dfa', 'bp'])
    """
    once = list(dict.fromkeys(values))
    if axis in ("method", "source"):
        return once
    if all(
        type(value) is int for value in once
    ):  # a hundred thousand seeds in a tenth of the memory
        return sorted(once)  # type: ignore[type-var]  # of ints only
    return sorted(once, key=rank)


def rank(value: Hashable) -> tuple[bool, bool, float, str]:
    """What values of an axis are sorted by: numbers by size, then words, then None."""
    number = value if isinstance(value, (int, float)) else None
    return value is None, number is None, float(number or 0.0), str(value)


class Cells:
    """The runs of a line, each put into a column; 8 bytes a run, for a line may have a hundred thousand."""

    __slots__ = ("_columns", "rows")

    def __init__(self) -> None:
        self._columns, self.rows = array("i"), array("i")

    def put(self, column: int, row: int) -> None:
        """Put a run into a column; `in_order` comes after the last one."""
        self._columns.append(column)
        self.rows.append(row)

    def in_order(self) -> Cells:
        """These cells, their runs sorted by column."""
        if len(self.rows) > 1 and any(map(gt, self._columns, self._columns[1:])):
            order = sorted(range(len(self.rows)), key=self._columns.__getitem__)
            self._columns, self.rows = (
                array("i", (of[i] for i in order)) for of in (self._columns, self.rows)
            )
        return self

    def __getitem__(self, column: int) -> tuple[int, ...]:
        first = bisect_left(self._columns, column)
        return tuple(self.rows[first : bisect_right(self._columns, column, first)])

    def __bool__(self) -> bool:
        return bool(self.rows)

    def most(self) -> int:
        """How many runs are in the fullest cell."""
        if len(self.rows) < 2 or not any(map(eq, self._columns, self._columns[1:])):
            return min(1, len(self.rows))
        return max(Counter(self._columns).values())

    def items(self) -> Iterator[tuple[int, int]]:
        """Column and row index of every run."""
        return zip(self._columns, self.rows, strict=True)


class GridLine(NamedTuple):
    """One line: a source's heading (no cells), or a label and the row indices in each column."""

    label: str
    cells: Cells

    @property
    def is_heading(self) -> bool:
        return not self.cells

    def runs(self) -> list[int]:
        """The row indices on this line, by column."""
        return list(self.cells.rows)


class Places(Mapping[int, tuple[int, int]]):
    """Row index → its line and column, in 8 bytes each.

    Args:
        lines: the lines.
        end: above the highest row index.
    """

    def __init__(self, lines: Sequence[GridLine], end: int) -> None:
        places = self._places = array("q", [-1]) * end
        for number, line in enumerate(lines):
            for column, row in line.cells.items():
                places[row] = number << 32 | column

    def __getitem__(self, row: int) -> tuple[int, int]:
        if not 0 <= row < len(self._places) or self._places[row] < 0:
            raise KeyError(row)
        return divmod(self._places[row], 1 << 32)

    def __iter__(self) -> Iterator[int]:
        return (row for row, place in enumerate(self._places) if place >= 0)

    def __len__(self) -> int:
        return sum(1 for _ in self)


class Labels:
    """The headings of the columns, written when they are looked at.

    Args:
        axis: what the columns are.
        values: of the axis, one per column.

    Attributes:
        widest: the width of the widest, as it is written.
    """

    def __init__(self, axis: str, values: Sequence[Hashable]) -> None:
        self._axis, self._values = axis, values
        self.widest = max(
            (width_of(printable(self[column])) for column in range(len(self))), default=0
        )

    def __len__(self) -> int:
        return len(self._values)

    def __getitem__(self, column: int) -> str:
        return value_text(self._axis, self._values[column])


class Grid(NamedTuple):
    """The lines, the column labels, and where each row index is (line, column)."""

    columns: Labels
    lines: tuple[GridLine, ...]
    places: Mapping[int, tuple[int, int]]


class _Runs(NamedTuple):
    """The runs to lay out, in parallel lists: no object for each, which the garbage collector would look at."""

    indices: Sequence[int]
    rows: Sequence[AuditRow]
    homes: Sequence[str]
    columns: Sequence[int]


_Groups = dict[str, dict[str, Cells]]
"""Home → label → cells."""


def build_grid(
    rows: Sequence[AuditRow], shown: Iterable[int] | None = None, axes: Axes = METHODS_BY_SEEDS
) -> Grid:
    """Lay rows out along two axes, under one heading per source where there are several.

    Args:
        rows: all runs.
        shown: indices to lay out, in order (default: all).
        axes: what the lines and the columns are.

    Methods × seeds shows every run in a cell of its own: an axis that varies within a source is named on
    the line (one that does not, in the heading), and two runs that agree on every axis get lines of
    their own (``dfa``, ``dfa #2``). Along other axes all runs that agree on both share a cell. Runs of
    different sources never share one, unless the source is an axis.
    """
    # headings are of all runs, whatever is shown: a filter renames nothing
    homes = homes_of([row.source for row in rows])
    indices: Sequence[int] = range(len(rows))
    if shown is not None:
        indices = list(shown)
        rows = [rows[index] for index in indices]
        homes = [homes[index] for index in indices]
    across = _values_on(axes.columns, rows, homes)
    values = in_order(axes.columns, across)
    places = {value: place for place, value in enumerate(values)}
    columns = array("i", map(places.__getitem__, across))
    del places, across  # of many columns as large as the grid
    labels = Labels(axes.columns, values)
    runs, end = _Runs(indices, rows, homes, columns), max(indices, default=-1) + 1
    if axes == METHODS_BY_SEEDS:
        varying = differing_axes(zip(homes, rows, strict=True))
        first = dict(zip(reversed(homes), reversed(rows), strict=True))
        groups = _apart(runs, varying)
        headings = {home: _heading(home, first[home].axes, varying[home]) for home in groups}
    else:
        groups = _together(runs, axes)
        headings = {home: home for home in groups}
    return _assemble(labels, groups, headings, end)


def _values_on(axis: str, rows: Sequence[AuditRow], homes: Sequence[str]) -> Sequence[Hashable]:
    """The value of every run on an axis."""
    if axis == "method":
        return [row.method for row in rows]
    if axis == "seed":
        return [row.seed for row in rows]
    return [value_on(axis, row, home) for row, home in zip(rows, homes, strict=True)]


def _apart(runs: _Runs, varying: Mapping[str, Collection[str]]) -> _Groups:
    """Cells of one run at most."""
    groups: _Groups = {home: {} for home in dict.fromkeys(runs.homes)}
    taken: set[tuple[str, str, int]] = set()
    copies: Counter[tuple[str, str, int]] = Counter()
    for index, row, home, column in zip(*runs, strict=True):
        label = name = (
            _line_label(row.method, row.axes, varying[home]) if varying[home] else row.method
        )
        while (home, label, column) in taken:
            copies[home, name, column] += 1
            label = f"{name} #{copies[home, name, column] + 1}"
        taken.add((home, label, column))
        lines = groups[home]
        if label not in lines:
            lines[label] = Cells()
        lines[label].put(column, index)
    return groups


def _together(runs: _Runs, axes: Axes) -> _Groups:
    """Cells of all the runs that agree on both axes; one home for all where the source is an axis."""
    by_value: dict[str, dict[Hashable, Cells]] = {}
    along = _values_on(axes.lines, runs.rows, runs.homes)
    for index, home, column, value in zip(
        runs.indices, runs.homes, runs.columns, along, strict=True
    ):
        lines = by_value.setdefault("" if "source" in axes else home, {})
        if value not in lines:
            lines[value] = Cells()
        lines[value].put(column, index)
    return {
        home: {value_text(axes.lines, value): lines[value] for value in in_order(axes.lines, lines)}
        for home, lines in by_value.items()
    }


def _assemble(columns: Labels, groups: _Groups, headings: Mapping[str, str], end: int) -> Grid:
    lines: list[GridLine] = []
    for home, members in groups.items():
        if len(groups) > 1:
            lines.append(GridLine(headings[home], Cells()))
        lines += [GridLine(label, cells.in_order()) for label, cells in members.items()]
    return Grid(columns, tuple(lines), Places(lines, end))


def homes_of(sources: Sequence[str]) -> Sequence[str]:
    """The heading of each row by its source: a file, or for files and run folders of one run their folder."""
    names = _names(tuple(Counter(sources).items()))
    return [names[source] for source in sources]


@lru_cache(maxsize=1)
def _names(counts: tuple[tuple[str, int], ...]) -> dict[str, str]:
    """The heading of the rows of each source, by how many rows it has."""
    full = {source: home_of(source, count) for source, count in counts}
    names = short_paths(set(full.values()))
    return {source: names[home] for source, home in full.items()}


def _heading(home: str, axes: Mapping[str, Any], varying: Collection[str]) -> str:
    shared = {name: value for name, value in axes.items() if name not in varying}
    return f"{home}  {axes_text(shared)}".rstrip()


def _line_label(method: str, axes: Mapping[str, Any], varying: Collection[str]) -> str:
    if not varying:
        return method
    return f"{method} {axes_text({name: value for name, value in axes.items() if name in varying})}".rstrip()
