"""The layout of the matrix: a line per method with its axes, a column per seed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import PurePath
from typing import NamedTuple

from fa_core.formats.rows import AuditRow, axes_of_methods
from fa_core.report.names import differing_axes, homes, is_file_name, short_paths
from fa_tui.views.words import named_with


def own_axes(rows: Iterable[AuditRow]) -> list[str]:
    """The runs' own axes."""
    return sorted({name for row in rows for name in row.axes})


def rank(value: Hashable) -> tuple[bool, bool, float, str]:
    """Sort key of an axis value: numbers by size, then words, then None."""
    if value is None:
        return True, True, 0.0, ""
    if isinstance(value, (int, float)):
        return False, False, float(value), ""
    return False, True, 0.0, str(value)


class GridLine(NamedTuple):
    """One line of the matrix.

    Attributes:
        label: the line's label, or a heading's source.
        cells: column → row index, in order of columns; empty in a heading.
    """

    label: str
    cells: dict[int, int]

    @property
    def is_heading(self) -> bool:
        return not self.cells

    def runs(self) -> list[int]:
        """The row indices on this line, by column."""
        return list(self.cells.values())


class Grid(NamedTuple):
    """The matrix.

    Attributes:
        columns: the column labels.
        lines: headings and lines of runs.
        places: row index → its line and column.
    """

    columns: list[str]
    lines: list[GridLine]
    places: dict[int, tuple[int, int]]


class _Placed(NamedTuple):
    """A run to lay out: row index, row, heading, column."""

    run: int
    row: AuditRow
    home: str
    column: int


_Cells = dict[int, int]
"""Column → row index."""

_Groups = dict[str, dict[str, _Cells]]
"""Home → label → cells."""


def build_grid(rows: Sequence[AuditRow], shown: Sequence[int]) -> Grid:
    """Lay rows out by method and seed, under a heading per source if there are several.

    Args:
        rows: all runs.
        shown: indices to lay out, in order.

    Every run has its own cell. An axis that varies within a source is part of the line's label, one
    that does not of the heading. Runs that agree on every axis get further lines (``dfa``,
    ``dfa #2``).
    """
    runs, labels = _placed(rows, shown)
    groups = _apart(runs)
    headings = _headings(runs) if len(groups) > 1 else {}
    lines: list[GridLine] = []
    places: dict[int, tuple[int, int]] = {}
    for home, members in groups.items():
        if headings:
            lines.append(GridLine(headings[home], {}))
        for label, cells in members.items():
            for column, row in cells.items():
                places[row] = (len(lines), column)
            lines.append(GridLine(label, dict(sorted(cells.items()))))
    return Grid(labels, lines, places)


def labels_of(rows: Sequence[AuditRow], shown: Sequence[int]) -> dict[int, str]:
    """The label of each run's line; with its heading's home where several have that line."""
    groups = _apart(_placed(rows, shown)[0])
    alike = Counter(chain.from_iterable(groups.values()))
    found = {}
    for home, members in groups.items():
        for label, cells in members.items():
            name = f"{label} {home}" if alike[label] > 1 else label
            found.update(dict.fromkeys(cells.values(), name))
    return found


def _placed(rows: Sequence[AuditRow], shown: Sequence[int]) -> tuple[list[_Placed], list[str]]:
    """The runs with their places, and the labels of the columns."""
    # of all runs, so that a filter renames no heading
    headings = homes_of([row.source for row in rows])
    seeds = sorted({rows[index].seed for index in shown}, key=rank)
    column_of = {seed: column for column, seed in enumerate(seeds)}
    runs = [
        _Placed(index, rows[index], headings[index], column_of[rows[index].seed]) for index in shown
    ]
    return runs, ["no seed" if seed is None else f"s{seed}" for seed in seeds]


def _apart(runs: Sequence[_Placed]) -> _Groups:
    """Cells of at most one run; a further run gets its own line."""
    varying = differing_axes((run.home, run.row.axes) for run in runs)
    named = axes_of_methods([run.row for run in runs])
    groups: _Groups = defaultdict(lambda: defaultdict(dict))
    copies: Counter[tuple[str, str, int]] = Counter()
    for run in runs:
        lines = groups[run.home]
        # what of a recipe differs is no axis of the run's own
        row = run.row
        axes = varying[run.home] + [x for x in named[row.method] if x not in row.axes]
        name = label = named_with(row.method, row, axes) if axes else row.method
        while run.column in lines[label]:
            copy = (run.home, name, run.column)
            copies[copy] += 1
            label = f"{name} #{copies[copy] + 1}"
        lines[label][run.column] = run.run
    return groups


def _headings(runs: Sequence[_Placed]) -> dict[str, str]:
    """Home → its heading: the home and the axes that its runs share."""
    varying = differing_axes((run.home, run.row.axes) for run in runs)
    headings: dict[str, str] = {}
    for run in runs:
        if run.home not in headings:
            shared = {*run.row.axes}.difference(varying[run.home])
            headings[run.home] = named_with(f"{run.home} ", run.row, shared).rstrip()
    return headings


@lru_cache(maxsize=4)
def _homes(sources: tuple[str, ...]) -> list[str]:
    found = homes(sources)
    names = short_paths(set(found))
    for home, name in names.items():
        # the name of a folder alone says little: main, runs
        if name == PurePath(home).name and not is_file_name(name):
            names[home] = str(PurePath(*PurePath(home).parts[-2:]))
    return [names[home] for home in found]


def homes_of(sources: Sequence[str]) -> list[str]:
    """The heading of each row: its file, or the folder around a file or run folder with one
    run."""
    return _homes(tuple(sources))
