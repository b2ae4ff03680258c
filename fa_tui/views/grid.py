"""How runs lie on the matrix: by method and seed, or by any two of their axes."""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import PurePath
from typing import Any

import msgspec

from fa_core.formats.many_rows import column_of
from fa_core.rows import AuditRow
from fa_tui.views.axes import METHODS_BY_SEEDS, Axes, axes_text, in_order, own_value, value_text
from fa_tui.views.grid_parts import Cells, Filling, Grid, GridLine, Labels, Places


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
        homes = _homes(column_of(rows, "source"))
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
    column = column_of(rows, name)
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
    full = {source: _home(source, count) for source, count in counts}
    names = _short_names(set(full.values()))
    return {source: names[home] for source, home in full.items()}


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
