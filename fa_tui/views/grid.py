"""How runs lie on the matrix: by method and seed, or by any two of their axes."""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import PurePath
from typing import NamedTuple, overload

from fa_core.rows import AuditRow
from fa_tui.views.axes import METHODS_BY_SEEDS, Axes, axes_text, in_order, value_on, value_text


class Cells(Sequence[tuple[int, ...]]):
    """The cells of a line, each the row indices in it; only those with a run take memory.

    Args:
        filled: column → row indices.
        count: how many cells there are.
    """

    __slots__ = ("_count", "filled")

    def __init__(self, filled: Mapping[int, tuple[int, ...]], count: int) -> None:
        self.filled = filled
        self._count = count

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, column: int) -> tuple[int, ...]: ...
    @overload
    def __getitem__(self, column: slice) -> list[tuple[int, ...]]: ...
    def __getitem__(self, column: int | slice) -> tuple[int, ...] | list[tuple[int, ...]]:
        columns = range(self._count)[column]
        return self.filled.get(columns, ()) if isinstance(columns, int) else [self[place] for place in columns]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)


class GridLine(NamedTuple):
    """One line: a source's heading (no cells), or a label and the row indices in each column."""

    label: str
    cells: Cells

    @property
    def is_heading(self) -> bool:
        return not self.cells

    def filled(self) -> Iterable[tuple[int, ...]]:
        """The cells with a run, in the order of the columns."""
        return self.cells.filled.values()

    def runs(self) -> list[int]:
        """The row indices on this line."""
        return [row for cell in self.filled() for row in cell]


class Places(Mapping[int, tuple[int, int]]):
    """Row index → its line and column, in 16 bytes each."""

    def __init__(self, lines: Sequence[GridLine]) -> None:
        cells = [(number, line.cells.filled) for number, line in enumerate(lines)]
        last = max((row for _, filled in cells for cell in filled.values() for row in cell), default=-1)
        self._lines = array("q", [-1]) * (last + 1)
        self._columns = array("q", [-1]) * (last + 1)
        self._count = 0
        for number, filled in cells:
            for column, cell in filled.items():
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


class Grid(NamedTuple):
    """The lines, the column labels, and where each row index is (line, column)."""

    columns: tuple[str, ...]
    lines: tuple[GridLine, ...]
    places: Mapping[int, tuple[int, int]]


_Cells = dict[int, tuple[int, ...]]
"""Column → row indices, where there are any."""
_Lines = dict[str, _Cells]


class _Laid(NamedTuple):
    """A row, its heading, and its column."""

    number: int
    row: AuditRow
    home: str
    column: int


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
    indices = range(len(rows)) if shown is None else list(shown)
    chosen = [rows[index] for index in indices]
    homes = _homes(chosen)
    column_values = [value_on(axes.columns, row, home) for row, home in zip(chosen, homes, strict=True)]
    values = in_order(axes.columns, column_values)
    column_of = {value: column for column, value in enumerate(values)}
    labels = tuple(value_text(axes.columns, value) for value in values)
    laid = map(_Laid, indices, chosen, homes, map(column_of.__getitem__, column_values))
    if axes == METHODS_BY_SEEDS:
        varying = _varying_axes(chosen, homes)
        first = dict(zip(reversed(homes), reversed(chosen), strict=True))
        groups = _apart(laid, varying)
        return _assemble(labels, groups, {home: _heading(home, first[home], varying[home]) for home in groups})
    groups = _together(laid, axes)
    return _assemble(labels, groups, {home: home for home in groups})


def _apart(laid: Iterable[_Laid], varying: Mapping[str, set[str]]) -> dict[str, _Lines]:
    """Home → label → cells of one run at most."""
    groups: dict[str, _Lines] = {}
    copies: Counter[tuple[str, str, int]] = Counter()
    for index, row, home, column in laid:
        lines = groups.setdefault(home, {})
        label = name = _line_label(row, varying[home])
        while column in (cells := lines.setdefault(label, {})):
            copies[home, name, column] += 1
            label = f"{name} #{copies[home, name, column] + 1}"
        cells[column] = (index,)
    return groups


def _together(laid: Iterable[_Laid], axes: Axes) -> dict[str, _Lines]:
    """Home (one for all where the source is an axis) → label → cells."""
    by_value: dict[str, dict[Hashable, dict[int, list[int]]]] = {}
    for index, row, home, column in laid:
        lines = by_value.setdefault("" if "source" in axes else home, {})
        lines.setdefault(value_on(axes.lines, row, home), {}).setdefault(column, []).append(index)
    return {
        home: {
            value_text(axes.lines, value): {column: tuple(cell) for column, cell in lines[value].items()}
            for value in in_order(axes.lines, lines)
        }
        for home, lines in by_value.items()
    }


def _assemble(columns: tuple[str, ...], groups: Mapping[str, _Lines], headings: Mapping[str, str]) -> Grid:
    lines: list[GridLine] = []
    for home, members in groups.items():
        if len(groups) > 1:
            lines.append(GridLine(headings[home], Cells({}, 0)))
        for label, cells in members.items():
            in_order = {column: cells[column] for column in sorted(cells)}
            lines.append(GridLine(label, Cells(in_order, len(columns))))
    return Grid(columns, tuple(lines), Places(lines))


def homes_of(rows: Sequence[AuditRow], indices: Iterable[int]) -> dict[int, str]:
    """The heading of each row: its file, or for files and run folders of one run the folder they lie in."""
    indices = list(indices)
    return dict(zip(indices, _homes([rows[index] for index in indices]), strict=True))


def _homes(rows: Sequence[AuditRow]) -> list[str]:
    """`homes_of`, in the order of the rows."""
    per_source = Counter(row.source for row in rows)
    full = {source: _home(source, count) for source, count in per_source.items()}
    names = _short_names(set(full.values()))
    return [names[full[row.source]] for row in rows]


def _home(source: str, count: int) -> str:
    if count > 1:
        return source
    folder, _, name = source.rpartition(os.sep)
    return _spelled(folder) if folder and name not in ("", ".") else str(PurePath(source).parent)


@lru_cache(maxsize=1024)
def _spelled(folder: str) -> str:
    """A folder as `PurePath` spells it."""
    return str(PurePath(folder))


def _short_names(paths: Iterable[str]) -> dict[str, str]:
    """Each path by as few trailing parts as tell it apart from the others."""
    names: dict[str, str] = {}
    parts = {path: PurePath(path).parts for path in paths}
    count = 1
    while len(names) < len(parts):
        # a tail that a named path shares is a tail of nobody else, so the others need not be asked
        tails = {path: each[-count:] for path, each in parts.items() if path not in names}
        shared = Counter(tails.values())
        for path, tail in tails.items():
            if tail and shared[tail] == 1:
                names[path] = str(PurePath(*tail))
            elif tail == parts[path]:
                names[path] = path
        count += 1
    return names


def _varying_axes(rows: Sequence[AuditRow], homes: Sequence[str]) -> dict[str, set[str]]:
    """Home → the axes whose values differ among its rows."""
    kinds: dict[str, set[frozenset[tuple[str, str]]]] = {}
    as_text: dict[int, frozenset[tuple[str, str]]] = {}  # rows of one table may share one object
    for row, home in zip(rows, homes, strict=True):
        text = as_text.get(id(row.axes))
        if text is None:
            text = as_text[id(row.axes)] = frozenset((name, str(value)) for name, value in row.axes.items())
        kinds.setdefault(home, set()).add(text)
    return {
        home: {name for name, _ in frozenset().union(*seen) - frozenset.intersection(*seen)}
        for home, seen in kinds.items()
    }


def _heading(home: str, row: AuditRow, varying: set[str]) -> str:
    shared = {name: value for name, value in row.axes.items() if name not in varying}
    return f"{home}  {axes_text(shared)}".rstrip()


def _line_label(row: AuditRow, varying: set[str]) -> str:
    if not varying:
        return row.method
    return f"{row.method} {axes_text({name: row.axes[name] for name in row.axes if name in varying})}".rstrip()
