"""How runs lie on the matrix: one line per method of a source, one column per seed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
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
    groups: dict[str, dict[str, list[int | None]]] = {}
    for index in indices:
        row = rows[index]
        lines = groups.setdefault(homes[index], {})
        label, copies = _line_label(row), 1
        column = column_of[row.seed]
        while (cells := lines.setdefault(label, [None] * len(seeds)))[column] is not None:
            copies += 1
            label = f"{_line_label(row)} #{copies}"
        cells[column] = index
    return _assemble(tuple(_seed_label(seed) for seed in seeds), groups)


def _assemble(columns: tuple[str, ...], groups: dict[str, dict[str, list[int | None]]]) -> Grid:
    lines: list[GridLine] = []
    places: dict[int, tuple[int, int]] = {}
    for home, methods in groups.items():
        if len(groups) > 1:
            lines.append(GridLine(home, ()))
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


def _line_label(row: AuditRow) -> str:
    axes = " ".join(f"{_AXIS_SIGNS.get(name, name)}={_axis(value)}" for name, value in sorted(row.axes.items()))
    return f"{row.method} {axes}" if axes else row.method


def _axis(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _seed_label(seed: int | None) -> str:
    return "no seed" if seed is None else f"s{seed}"


def _seed_order(seed: int | None) -> tuple[bool, int]:
    return (seed is None, seed or 0)


_AXIS_SIGNS = {"lam": "λ"}
