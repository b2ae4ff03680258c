"""How runs lie on the matrix: one line per method of a source, one column per seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import NamedTuple

from fa_core.rows import AuditRow


class GridLine(NamedTuple):
    """One line: a source's heading (no cells) or a method with a row index, or None, per column."""

    label: str
    cells: tuple[int | None, ...]

    @property
    def is_heading(self) -> bool:
        return not self.cells

    def runs(self) -> list[int]:
        """The row indices on this line."""
        return [cell for cell in self.cells if cell is not None]


class Grid(NamedTuple):
    """The lines, the column labels, and where each row index is (line, column)."""

    columns: tuple[str, ...]
    lines: tuple[GridLine, ...]
    places: dict[int, tuple[int, int]]


def build_grid(rows: Sequence[AuditRow], shown: Iterable[int] | None = None) -> Grid:
    """Lay rows out as methods × seeds, under one heading per source where there are several.

    An axis that has one value throughout a source stands in its heading, not on every line.

    Args:
        rows: all runs.
        shown: indices to lay out, in order (default: all).

    Two runs of one method, seed and source that no axis tells apart get lines of their own
    (``dfa``, ``dfa #2``): nothing is hidden behind another run.
    """
    indices = range(len(rows)) if shown is None else list(shown)
    seeds = sorted({rows[index].seed for index in indices}, key=_seed_order)
    column_of = {seed: column for column, seed in enumerate(seeds)}
    homes = _homes(rows, indices)
    varying = _varying_axes(rows, homes)
    groups: dict[str, dict[str, list[int | None]]] = {}
    for index in indices:
        row = rows[index]
        lines = groups.setdefault(homes[index], {})
        name = _line_label(row, varying[homes[index]])
        label, copies = name, 1
        column = column_of[row.seed]
        while (cells := lines.setdefault(label, [None] * len(seeds)))[column] is not None:
            copies += 1
            label = f"{name} #{copies}"
        cells[column] = index
    headings = {home: _heading(home, rows, homes, varying[home]) for home in groups}
    return _assemble(tuple(_seed_label(seed) for seed in seeds), groups, headings)


def _assemble(
    columns: tuple[str, ...], groups: dict[str, dict[str, list[int | None]]], headings: dict[str, str]
) -> Grid:
    lines: list[GridLine] = []
    places: dict[int, tuple[int, int]] = {}
    for home, methods in groups.items():
        if len(groups) > 1:
            lines.append(GridLine(headings[home], ()))
        for label, cells in methods.items():
            places.update({cell: (len(lines), column) for column, cell in enumerate(cells) if cell is not None})
            lines.append(GridLine(label, tuple(cells)))
    return Grid(columns, tuple(lines), places)


def _homes(rows: Sequence[AuditRow], indices: Iterable[int]) -> dict[int, str]:
    """The heading of each row: its file, or for files and run folders of one run the folder they lie in."""
    indices = list(indices)
    per_source = Counter(rows[index].source for index in indices)
    full = {source: _home(source, count) for source, count in per_source.items()}
    names = _short_names(set(full.values()))
    return {index: names[full[rows[index].source]] for index in indices}


def _home(source: str, count: int) -> str:
    if count > 1:
        return source
    return str(PurePath(source).parent)


def _short_names(paths: set[str]) -> dict[str, str]:
    """Each path by as few trailing parts as tell it apart from the others."""
    names: dict[str, str] = {}
    for path in paths:
        parts = PurePath(path).parts
        for count in range(1, len(parts) + 1):
            name = str(PurePath(*parts[-count:]))
            if sum(1 for other in paths if PurePath(other).parts[-count:] == parts[-count:]) == 1:
                break
        else:
            name = path
        names[path] = name
    return names


def _varying_axes(rows: Sequence[AuditRow], homes: dict[int, str]) -> dict[str, set[str]]:
    """Home → the axes whose values differ among its rows."""
    kinds: dict[str, set[frozenset[tuple[str, str]]]] = {}
    for index, home in homes.items():
        kinds.setdefault(home, set()).add(frozenset((name, str(value)) for name, value in rows[index].axes.items()))
    return {
        home: {name for name, _ in frozenset().union(*seen) - frozenset.intersection(*seen)}
        for home, seen in kinds.items()
    }


def _heading(home: str, rows: Sequence[AuditRow], homes: dict[int, str], varying: set[str]) -> str:
    first = next(rows[index] for index, other in homes.items() if other == home)
    shared = {name: value for name, value in first.axes.items() if name not in varying}
    return f"{home}  {_axes_text(shared)}".rstrip()


def _line_label(row: AuditRow, varying: set[str]) -> str:
    return f"{row.method} {_axes_text({name: row.axes[name] for name in row.axes if name in varying})}".rstrip()


def _axes_text(axes: Mapping[str, object]) -> str:
    return " ".join(f"{_AXIS_SIGNS.get(name, name)}={_axis(value)}" for name, value in sorted(axes.items()))


def _axis(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _seed_label(seed: int | None) -> str:
    return "no seed" if seed is None else f"s{seed}"


def _seed_order(seed: int | None) -> tuple[bool, int]:
    return (seed is None, seed or 0)


_AXIS_SIGNS = {"lam": "λ"}
