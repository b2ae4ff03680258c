"""Quantities of a run, and the columns of the long view. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache, partial
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from fa_core.report.diagnostics import block_growths
from fa_core.report.numbers import axis_sign, plain, scientific, short
from fa_core.report.quantities import BY_NAME, QUANTITIES, Quantity
from fa_core.sanitize import sanitize
from fa_tui.session import Runs, Scope, Session
from fa_tui.views.grid import own_axes, rank
from fa_tui.views.scale import drawable
from fa_tui.views.text import cut_start, widest
from fa_tui.views.words import mark_before


def magnitude(value: float, cells: int = 8) -> str:
    """A finite number of any size, with an exponent only if it needs one.

    Three digits, or two if three and the exponent take more than `cells`.

    >>> [magnitude(size) for size in (1.0, 10.96, 694.457, 435299520.0, 4.17e-9, 0.0)]
    ['1.00', '11.0', '694', '4.35e8', '4.17e-9', '0.00']
    >>> magnitude(4.17e-9, cells=6)
    '4.2e-9'
    """
    size = abs(value)
    if size == 0 or 0.1 <= size < 999.5:
        return f"{value:#.3g}".rstrip(".")
    if 999.5 <= size < 99_999.5:
        return f"{value:.0f}"
    text = scientific(value, 3)
    if len(text) > cells:
        return scientific(value, 2)
    return text


Write: TypeAlias = Callable[[float], str]
"""A finite number → text."""

_PLAIN = "{:.2f}".format


def one_format(numbers: Iterable[float | None], cells: int) -> Write:
    """The format of a column: two decimals for all its numbers if they fit, else three digits.

    Args:
        numbers: of the column.
        cells: width of the longest text, if that is possible.

    >>> write = one_format([1.03, 65191.0], 8)
    >>> write(1.03), write(65191.0)
    ('1.03', '65191.00')
    >>> write = one_format([1.03, 170000.0], 8)
    >>> write(1.03), write(170000.0)
    ('1.03', '1.70e5')
    """
    sizes = [abs(number) for number in drawable(numbers, log=False) if number]
    if not sizes or (min(sizes) >= _LEAST_PLAIN and len(_PLAIN(max(sizes))) <= cells):
        return _PLAIN
    return partial(magnitude, cells=cells)


_LEAST_PLAIN = 0.1
"""Smaller numbers have too few digits with two decimals."""


def written(value: float | None, write: Write) -> str:
    """A number in the format of its column; ``·`` if not measured."""
    if value is None:
        return "·"
    if math.isfinite(value):
        return write(value)
    return short(value)


NORMS = replace(BY_NAME["h_L"], name="norms", label="‖h‖ ‖g‖ by layer")
"""Shown as bars over the layers instead of a number."""

NUMBER_CELLS = 8
"""Width of a number in a column, without its sign of `MARKS`."""


def format_of(quantity: Quantity, numbers: Iterable[float | None]) -> Write:
    """How the numbers of a quantity are written beside each other."""
    if not quantity.log:
        return quantity.text
    return one_format(numbers, NUMBER_CELLS)


@lru_cache(maxsize=16)
def format_in(scope: Scope, quantity: Quantity) -> Write:
    """How a quantity is written in a column of the runs in scope."""
    return format_of(quantity, (quantity.of(row.report) for row in scope.runs))


def value_of(quantity: Quantity, session: Session, row: int) -> float | None:
    """The number of one run."""
    return quantity.of(session.rows[row].report)


def number_text(quantity: Quantity, session: Session, row: int) -> str:
    """A run's number, in the format of its column."""
    value = value_of(quantity, session, row)
    mark = mark_before(quantity, session.rows[row].report)
    return mark + written(value, format_in(session.seen, quantity))


CELLS = BY_NAME | {NORMS.name: NORMS}
"""What the cells of the matrix show instead of letters, by name."""

_KEYS = 24
_SOURCES = 32
"""Most cells of a key and of a source."""
_LEAST_NAME = 7

_SortKey: TypeAlias = float | str | tuple[float | str, ...]


class Column(NamedTuple):
    """One column.

    Attributes:
        name: in filters and orders.
        title: the heading.
        width: cells, the gap included.
        key: (session, row index) → sort key; None sorts last.
        text: (session, row index) → cell.
        right: whether cells are aligned right.
        letter: the diagnostic that judges it, or ``""``.
    """

    name: str
    title: str
    width: int
    key: Callable[[Session, int], _SortKey | None]
    text: Callable[[Session, int], str]
    right: bool = False
    letter: str = ""


@lru_cache(maxsize=2)
def columns_of(runs: Runs) -> list[Column]:
    """The columns that scroll, whatever the filter."""
    return [
        *map(_of_quantity, QUANTITIES),
        *map(_of_axis, own_axes(runs.rows)),
        Column("key", "run", _fitting(runs, "key", _KEYS), own("key"), own("key")),
        Column("source", "source", _fitting(runs, "source", _SOURCES), own("source"), _source),
        Column("words", "verdict in words", 60, _worded, lambda at, row: at.judged(row).words),
        Column(
            "recorded",
            "recorded, if it differs",
            60,
            _recorded,
            lambda at, row: _recorded(at, row) or "",
        ),
    ]


def _nothing(session: Session, row: int) -> str:
    return ""


def _worded(session: Session, row: int) -> tuple[str, int, int]:
    # of many rows no report is read
    return session.judgement(row), *session.masks(row)


def _fitting(runs: Runs, name: str, most: int) -> int:
    """Width of a column: its longest text within limits, and a gap."""
    texts = set(map(attrgetter(name), runs.rows))
    return max(_LEAST_NAME, min(widest(map(sanitize, texts)), most)) + 2


def every_column(session: Session) -> list[Column]:
    """Every column; each can be sorted by."""
    # these never scroll: a view writes them itself
    method = Column("method", "method", 0, own("method"), _nothing)
    seed = Column("seed", "seed", 0, own("seed"), _nothing)
    verdict = Column("verdict", "verdict", 0, Session.masks, _nothing)
    return [method, seed, verdict, *columns_of(session.runs)]


def ordered(session: Session, rows: Iterable[int], order: str) -> list[int]:
    """Rows sorted by a column, in reverse with ``-`` before its name; rows without a value last.

    Args:
        session: the runs.
        rows: indices.
        order: ``growth``, ``-growth``, by the name of a column; ``""`` keeps the order.
    """
    if not order:
        return list(rows)
    columns = {column.name: column for column in every_column(session)}
    column = columns[order.lstrip("-")]
    keys: dict[int, _SortKey] = {}
    missing = []
    for row in rows:
        key = column.key(session, row)
        # NaN does not equal itself
        if key is None or key != key:
            missing.append(row)
        else:
            keys[row] = key
    return sorted(keys, key=keys.__getitem__, reverse=order.startswith("-")) + missing


def own(name: str) -> Callable[[Session, int], Any]:
    """The function that reads a field of a run's row."""
    read = attrgetter(name)
    return lambda session, row: read(session.rows[row])


def on_axis(axis: str, session: Session, row: int) -> Hashable:
    """A run's value on one of its own axes."""
    return session.rows[row].axes.get(axis)


def _of_quantity(quantity: Quantity) -> Column:
    return Column(
        quantity.name,
        quantity.title,
        width=max(NUMBER_CELLS + 1, len(quantity.title) + 1) + 2,
        key=partial(value_of, quantity),
        text=partial(number_text, quantity),
        right=True,
        letter=quantity.letter,
    )


def _of_axis(name: str) -> Column:
    def key(session: Session, row: int) -> _SortKey | None:
        value = on_axis(name, session, row)
        if value is None:
            return None
        # numbers before words, so that a column of both can be sorted
        return rank(value)

    def text(session: Session, row: int) -> str:
        value = on_axis(name, session, row)
        if value is None:
            return ""
        return plain(value)

    return Column(name, axis_sign(name), 10, key, text, right=True)


def _source(session: Session, row: int) -> str:
    """The end of the source's path, the part that distinguishes runs."""
    return cut_start(sanitize(session.rows[row].source), 31, "…")


def _recorded(session: Session, row: int) -> str | None:
    if session.judged(row).recorded_differs:
        return session.rows[row].report.recorded_verdict
    return None


def peak_block(norms: Sequence[float]) -> int | None:
    """The block that grows most: the first with a non-finite output, else the largest ratio above
    1.

    >>> (peak_block([1.0, 2.0, 8.0]), peak_block([1.0, 9.0, float("inf"), float("nan")]),
    ...     peak_block([2.0, 1.0]))
    (1, 1, None)
    """
    for layer, norm in enumerate(norms):
        if not math.isfinite(norm):
            if layer:
                return layer - 1
            return None
    blocks = block_growths(norms)
    largest = max(blocks, default=0.0)
    if largest > 1:
        return blocks.index(largest)
    return None
