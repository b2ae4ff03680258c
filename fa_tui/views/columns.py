"""The columns of the long view: what each shows and sorts by. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from fa_core.errors import UsageError, printable
from fa_tui.session import Session
from fa_tui.views.axes import number_or_word, own_axes, sign
from fa_tui.views.quantities import QUANTITIES, Quantity, is_assumed, value_of
from fa_tui.views.text import cut_start, width_of

_KEYS, _SOURCES = range(7, 25), range(7, 33)
"""Cells for the names of runs and of their files: what they leave is for the text next to them."""


class Column(NamedTuple):
    """One column.

    Attributes:
        name: how filters and orders call it.
        title: the heading.
        width: cells, the gap included.
        key: (session, row index) → what to sort by; None goes last.
        text: (session, row index) → what to show.
        right: whether it is set at the right edge.
        letter: the diagnostic that judges it, or ``""``.
    """

    name: str
    title: str
    width: int
    key: Callable[[Session, int], Any]
    text: Callable[[Session, int], str]
    right: bool = False
    letter: str = ""


def identity_columns() -> list[Column]:
    """Method and seed, which never scroll away; their widths follow the runs."""
    return [
        Column("method", "method", 0, _own("method"), _own("method")),
        Column("seed", "seed", 0, _own("seed"), _seed),
    ]


def columns_of(session: Session) -> list[Column]:
    """The columns that say something about these runs, after method and seed."""
    return [
        Column("verdict", "verdict", 10, lambda session, row: session.flags[row], lambda session, row: ""),
        *(_of_quantity(quantity) for quantity in QUANTITIES),
        *(_of_axis(name) for name in own_axes(session.rows)),
        Column("key", "run", _fitting(session, "key", _KEYS), _own("key"), _own("key")),
        Column("source", "source", _fitting(session, "source", _SOURCES), _own("source"), _source),
        Column("words", "verdict in words", 60, Session.verdict, Session.verdict),
        Column("recorded", "recorded, if it differs", 60, _recorded, lambda *run: _recorded(*run) or ""),
    ]


def _fitting(session: Session, name: str, cells: range) -> int:
    """As wide as the longest text of a column, within limits, and a gap."""
    longest = max(map(width_of, map(printable, {getattr(row, name) for row in session.rows})), default=0)
    return max(cells.start, min(longest, cells.stop - 1)) + 2


def every_column(session: Session) -> list[Column]:
    """All that runs can be sorted by."""
    return [*identity_columns(), *columns_of(session)]


def ordered(session: Session, rows: Iterable[int], order: str) -> list[int]:
    """Rows sorted by a column, ``-`` before its name turns the order round; those without a value go last.

    Args:
        session: the runs.
        rows: indices.
        order: ``growth``, ``-growth``; ``""`` leaves them as they are.

    Raises:
        UsageError: there is no such column.
    """
    if not order:
        return list(rows)
    columns = {column.name: column for column in every_column(session)}
    column = columns.get(order.lstrip("-"))
    if column is None:
        raise UsageError(f"no column {order.lstrip('-')}", hint=f"there are {', '.join(columns)}")
    keys = {row: column.key(session, row) for row in rows}
    known = [row for row, key in keys.items() if not _is_missing(key)]
    missing = [row for row, key in keys.items() if _is_missing(key)]
    return sorted(known, key=lambda row: keys[row], reverse=order.startswith("-")) + missing


def _own(name: str) -> Callable[[Session, int], Any]:
    """What a run itself has under a name."""
    return lambda session, row: getattr(session.rows[row], name)


def _seed(session: Session, row: int) -> str:
    seed = session.rows[row].seed
    return "-" if seed is None else str(seed)


def _of_quantity(quantity: Quantity) -> Column:
    return Column(
        quantity.name,
        quantity.label,
        max(9, len(quantity.label) + 1) + 2,
        lambda session, row: value_of(quantity, session, row),
        lambda session, row: _number(quantity, session, row),
        right=True,
        letter=quantity.letter,
    )


def _number(quantity: Quantity, session: Session, row: int) -> str:
    value = value_of(quantity, session, row)
    text = quantity.say(value)
    return f"{text}?" if value is not None and is_assumed(quantity, session, [row]) else text


def _of_axis(name: str) -> Column:
    def key(session: Session, row: int) -> Any:
        return session.rows[row].axes.get(name)

    def text(session: Session, row: int) -> str:
        value = key(session, row)
        return "" if value is None else number_or_word(value)

    return Column(name, sign(name), 10, lambda session, row: _sortable(key(session, row)), text, right=True)


def _sortable(value: Any) -> tuple[bool, float, str] | None:
    """Numbers before words, so that a column of both can be sorted."""
    if value is None:
        return None
    number = isinstance(value, (int, float))
    return (not number, value if number else 0.0, "" if number else str(value))


def _source(session: Session, row: int) -> str:
    """The end of the source's path, which distinguishes runs."""
    return cut_start(printable(session.rows[row].source), 31, "…")


def _recorded(session: Session, row: int) -> str | None:
    return session.recorded(row) if session.recorded_differs(row) else None


def _is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))
