"""How runs lie on the matrix: by method and seed, or by any two of their axes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
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


class Grid(NamedTuple):
    """The lines, the column labels, and where each row index is (line, column)."""

    columns: tuple[str, ...]
    lines: tuple[GridLine, ...]
    places: dict[int, tuple[int, int]]


_Cells = dict[int, list[int]]
"""Column → row indices, where there are any."""
_Lines = dict[str, _Cells]


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
    homes = homes_of(rows, indices)
    column_values = {index: value_on(axes.columns, rows[index], homes[index]) for index in indices}
    values = in_order(axes.columns, column_values.values())
    column_of = {value: column for column, value in enumerate(values)}
    places = {index: column_of[value] for index, value in column_values.items()}
    labels = tuple(value_text(axes.columns, value) for value in values)
    if axes == METHODS_BY_SEEDS:
        varying = _varying_axes(rows, homes)
        groups = _apart(rows, homes, varying, places)
        first = {home: rows[index] for index, home in reversed(homes.items())}
        return _assemble(labels, groups, {home: _heading(home, first[home], varying[home]) for home in groups})
    groups = _together(rows, homes, axes, places)
    return _assemble(labels, groups, {home: home for home in groups})


def _apart(
    rows: Sequence[AuditRow],
    homes: Mapping[int, str],
    varying: Mapping[str, set[str]],
    places: Mapping[int, int],
) -> dict[str, _Lines]:
    """Home → label → cells of one run at most."""
    groups: dict[str, _Lines] = {}
    for index, home in homes.items():
        lines = groups.setdefault(home, {})
        name = _line_label(rows[index], varying[home])
        label, copies = name, 1
        while places[index] in (cells := lines.setdefault(label, {})):
            copies += 1
            label = f"{name} #{copies}"
        cells[places[index]] = [index]
    return groups


def _together(
    rows: Sequence[AuditRow], homes: Mapping[int, str], axes: Axes, places: Mapping[int, int]
) -> dict[str, _Lines]:
    """Home (one for all where the source is an axis) → label → cells."""
    by_value: dict[str, dict[Hashable, _Cells]] = {}
    for index, home in homes.items():
        lines = by_value.setdefault("" if "source" in axes else home, {})
        value = value_on(axes.lines, rows[index], home)
        lines.setdefault(value, {}).setdefault(places[index], []).append(index)
    return {
        home: {value_text(axes.lines, value): lines[value] for value in in_order(axes.lines, lines)}
        for home, lines in by_value.items()
    }


def _assemble(columns: tuple[str, ...], groups: Mapping[str, _Lines], headings: Mapping[str, str]) -> Grid:
    lines: list[GridLine] = []
    places: dict[int, tuple[int, int]] = {}
    for home, members in groups.items():
        if len(groups) > 1:
            lines.append(GridLine(headings[home], Cells({}, 0)))
        for label, cells in members.items():
            places.update({row: (len(lines), column) for column, cell in cells.items() for row in cell})
            filled = {column: tuple(cells[column]) for column in sorted(cells)}
            lines.append(GridLine(label, Cells(filled, len(columns))))
    return Grid(columns, tuple(lines), places)


def homes_of(rows: Sequence[AuditRow], indices: Iterable[int]) -> dict[int, str]:
    """The heading of each row: its file, or for files and run folders of one run the folder they lie in."""
    indices = list(indices)
    per_source = Counter(rows[index].source for index in indices)
    full = {source: _home(source, count) for source, count in per_source.items()}
    names = _short_names(set(full.values()))
    return {index: names[full[rows[index].source]] for index in indices}


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


def _varying_axes(rows: Sequence[AuditRow], homes: dict[int, str]) -> dict[str, set[str]]:
    """Home → the axes whose values differ among its rows."""
    kinds: dict[str, set[frozenset[tuple[str, str]]]] = {}
    as_text: dict[int, frozenset[tuple[str, str]]] = {}  # rows of one table may share one object
    for index, home in homes.items():
        axes = rows[index].axes
        text = as_text.get(id(axes))
        if text is None:
            text = as_text[id(axes)] = frozenset((name, str(value)) for name, value in axes.items())
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
