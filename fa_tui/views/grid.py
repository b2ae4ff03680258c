"""The layout of the matrix: runs by method and seed, or by any two of their axes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from fa_core.formats.rows import AuditRow, value_on_axis
from fa_core.report.names import differing_axes, homes, short_paths
from fa_core.report.numbers import plain

_SIGNS = {"lam": "λ"}
_PLURALS = {"method": "methods", "seed": "seeds", "source": "sources"}


class Axes(NamedTuple):
    """The axes of the matrix' lines and columns."""

    lines: str = "method"
    columns: str = "seed"

    def having(self, place: str, axis: str) -> Axes:
        """These axes with another one in a place; swapped if it was in the other place.

        >>> Axes().having("columns", "method")
        Axes(lines='seed', columns='method')
        """
        changed = self._replace(**{place: axis})
        if changed.lines == changed.columns:
            return Axes(self.columns, self.lines)
        return changed

    def __str__(self) -> str:
        return f"{plural(self.lines)} × {plural(self.columns)}"


METHODS_BY_SEEDS = Axes()


def axes_of(rows: Iterable[AuditRow]) -> list[str]:
    """All axes: method, seed, source, and the runs' own."""
    return ["method", "seed", "source", *own_axes(rows)]


def own_axes(rows: Iterable[AuditRow]) -> list[str]:
    """The runs' own axes."""
    return sorted({name for row in rows for name in row.axes})


def plural(axis: str) -> str:
    """The plural of an axis name, as shown.

    >>> plural("seed"), plural("lam"), plural("d")
    ('seeds', 'λ', 'd')
    """
    return _PLURALS.get(axis) or sign(axis)


def sign(axis: str) -> str:
    """An axis as it is written before its value: ``λ`` for ``lam``."""
    return _SIGNS.get(axis, axis)


def value_on(axis: str, row: AuditRow, home: str) -> Hashable:
    """A run's value on an axis, or None.

    Args:
        axis: one of `axes_of`.
        row: the run.
        home: its source's name on screen.
    """
    if axis == "method":
        return row.method
    if axis == "seed":
        return row.seed
    if axis == "source":
        return home
    value = value_on_axis(row, axis)
    if value is None or isinstance(value, (int, float, str)):
        return value
    return str(value)


def value_text(axis: str, value: object) -> str:
    """A value on an axis as the label of a line or column.

    >>> (value_text("seed", 42), value_text("lam", 0.01), value_text("lam", None),
    ...     value_text("method", "dfa"))
    ('s42', 'λ=0.01', 'no λ', 'dfa')
    """
    if value is None:
        return f"no {sign(axis)}"
    if axis == "seed":
        return f"s{value}"
    if axis in ("method", "source"):
        return str(value)
    return f"{sign(axis)}={plain(value)}"


def axes_text(axes: Mapping[str, object]) -> str:
    """Several axes with their values: ``d=64 λ=0.01``."""
    texts = []
    for name, value in sorted(axes.items()):
        texts.append(f"{sign(name)}={plain(value)}")
    return " ".join(texts)


def in_order(axis: str, values: Iterable[Hashable]) -> list[Hashable]:
    """Distinct values of an axis: methods and sources in order of appearance, others by `rank`.

    >>> in_order("lam", [0.1, None, 0.01]), in_order("method", ["dfa", "bp", "dfa"])
    ([0.01, 0.1, None], ['dfa', 'bp'])
    """
    once = list(dict.fromkeys(values))
    if axis in ("method", "source"):
        return once
    return sorted(once, key=rank)


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
        cells: column → row indices, in order of columns; empty in a heading.
    """

    label: str
    cells: dict[int, list[int]]

    @property
    def is_heading(self) -> bool:
        return not self.cells

    def runs(self) -> list[int]:
        """The row indices on this line, by column."""
        return list(chain.from_iterable(self.cells.values()))


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


_Cells = dict[int, list[int]]
"""Column → row indices."""

_Groups = dict[str, dict[str, _Cells]]
"""Home → label → cells."""


def build_grid(
    rows: Sequence[AuditRow], shown: Iterable[int] | None = None, axes: Axes = METHODS_BY_SEEDS
) -> Grid:
    """Lay rows out along two axes, under a heading per source if there are several.

    Args:
        rows: all runs.
        shown: indices to lay out, in order (default: all).
        axes: of the lines and the columns.

    Methods × seeds gives every run its own cell. An axis that varies within a source is part of the
    line's label, one that does not of the heading. Runs that agree on every axis get further lines
    (``dfa``, ``dfa #2``). Along other axes, runs that agree on both share a cell. Runs of different
    sources share one only if the source is an axis.
    """
    # of all runs, so that a filter renames no heading
    headings = homes_of([row.source for row in rows])
    if shown is None:
        shown = range(len(rows))
    indices = list(shown)
    values = [value_on(axes.columns, rows[index], headings[index]) for index in indices]
    columns = in_order(axes.columns, values)
    column_of = {value: column for column, value in enumerate(columns)}
    runs = []
    for index, value in zip(indices, values, strict=True):
        run = _Placed(index, rows[index], headings[index], column_of[value])
        runs.append(run)
    labels = [value_text(axes.columns, value) for value in columns]
    if axes == METHODS_BY_SEEDS:
        varying = differing_axes((run.home, run.row.axes) for run in runs)
        return _assemble(labels, _apart(runs, varying), _headings(runs, varying))
    groups = _together(runs, axes)
    return _assemble(labels, groups, dict(zip(groups, groups, strict=True)))


def _apart(runs: Sequence[_Placed], varying: Mapping[str, Collection[str]]) -> _Groups:
    """Cells of at most one run; a further run gets its own line."""
    groups: _Groups = defaultdict(lambda: defaultdict(dict))
    copies: Counter[tuple[str, str, int]] = Counter()
    for run in runs:
        lines = groups[run.home]
        name = label = _line_label(run.row, varying[run.home])
        copy = (run.home, name, run.column)
        while run.column in lines[label]:
            copies[copy] += 1
            label = f"{name} #{copies[copy] + 1}"
        lines[label][run.column] = [run.run]
    return groups


def _together(runs: Sequence[_Placed], axes: Axes) -> _Groups:
    """Cells of all runs that agree on both axes; a single home if the source is an axis."""
    by_value: dict[str, dict[Hashable, _Cells]] = defaultdict(dict)
    for run in runs:
        home = run.home
        if "source" in axes:
            home = ""
        value = value_on(axes.lines, run.row, run.home)
        cells = by_value[home].setdefault(value, {})
        cells.setdefault(run.column, []).append(run.run)
    groups: _Groups = {}
    for home, lines in by_value.items():
        labelled = groups[home] = {}
        for value in in_order(axes.lines, lines):
            labelled[value_text(axes.lines, value)] = lines[value]
    return groups


def _assemble(columns: list[str], groups: _Groups, headings: Mapping[str, str]) -> Grid:
    lines: list[GridLine] = []
    places: dict[int, tuple[int, int]] = {}
    for home, members in groups.items():
        if len(groups) > 1:
            lines.append(GridLine(headings[home], {}))
        for label, cells in members.items():
            for column, rows in cells.items():
                place = (len(lines), column)
                places.update(dict.fromkeys(rows, place))
            lines.append(GridLine(label, dict(sorted(cells.items()))))
    return Grid(columns, lines, places)


def _headings(runs: Sequence[_Placed], varying: Mapping[str, Collection[str]]) -> dict[str, str]:
    """Home → its heading: the home and the axes that its runs share."""
    headings: dict[str, str] = {}
    for run in runs:
        if run.home not in headings:
            shared = {*run.row.axes}.difference(varying[run.home])
            headings[run.home] = f"{run.home}  {some_axes(run.row, shared)}".rstrip()
    return headings


def _line_label(row: AuditRow, varying: Collection[str]) -> str:
    if not varying:
        return row.method
    return f"{row.method} {some_axes(row, varying)}".rstrip()


def some_axes(row: AuditRow, chosen: Collection[str]) -> str:
    """The row's values on some axes, as the end of its name."""
    values = {}
    for name in chosen:
        value = value_on_axis(row, name)
        if value is not None:
            values[name] = value
    return axes_text(values)


@lru_cache(maxsize=4)
def _homes(sources: tuple[str, ...]) -> list[str]:
    found = homes(sources)
    names = short_paths(set(found))
    return [names[home] for home in found]


def homes_of(sources: Sequence[str]) -> list[str]:
    """The heading of each row: its file, or the folder around a file or run folder with one
    run."""
    return _homes(tuple(sources))
