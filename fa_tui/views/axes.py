"""What the matrix can have down its side and across its top."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple

from fa_core.rows import AuditRow

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
    return own_value(axis, row.axes)


def own_value(axis: str, axes: Mapping[str, object]) -> Hashable:
    """A value among those that a run itself names; None where it names none."""
    value = axes.get(axis)
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
    return str(value) if axis in ("method", "source") else f"{sign(axis)}={number_or_word(value)}"


def number_or_word(value: object) -> str:
    """A value as text, without the noise of a float."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def axes_text(axes: Mapping[str, object]) -> str:
    """Several axes with their values: ``d=64 λ=0.01``."""
    return " ".join(f"{sign(name)}={number_or_word(value)}" for name, value in sorted(axes.items()))


def in_order(axis: str, values: Iterable[Hashable]) -> list[Hashable]:
    """The values once each: methods and sources as they come; numbers by size, then words, then those without.

    >>> in_order("lam", [0.1, None, 0.01]), in_order("method", ["dfa", "bp", "dfa"])
    ([0.01, 0.1, None], ['dfa', 'bp'])
    """
    once = list(dict.fromkeys(values))
    if axis in ("method", "source"):
        return once
    if all(type(value) is int for value in once):  # a hundred thousand seeds in a tenth of the memory
        return sorted(once)  # type: ignore[type-var]  # of ints only
    return sorted(once, key=_rank)


def _rank(value: Hashable) -> tuple[bool, bool, float, str]:
    number = isinstance(value, (int, float))
    return (value is None, not number, float(value) if isinstance(value, (int, float)) else 0.0, str(value))
