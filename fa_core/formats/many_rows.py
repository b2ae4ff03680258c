"""Rows of several stores in one sequence, each made when somebody looks at it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import accumulate, chain
from typing import Any

from fa_core.formats.made_rows import MadeRows
from fa_core.formats.sliced import SlicedRows
from fa_core.rows import AuditRow


class ManyRows(MadeRows):
    """The rows of big tables and what stands between them; a row takes memory while it is looked at.

    Args:
        parts: `SlicedRows`, and lists of other rows.

    Attributes:
        parts: those with a row in them.
    """

    __slots__ = ("_ends", "parts")

    def __init__(self, parts: Iterable[Sequence[AuditRow]]) -> None:
        self.parts = [part for part in parts if len(part)]
        self._ends = list(accumulate(map(len, self.parts)))

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def made(self, index: int) -> AuditRow:
        """One row, made by its part."""
        number = bisect_right(self._ends, index)
        return self.parts[number][index - self._ends[number]]  # from its end

    def __iter__(self) -> Iterator[AuditRow]:
        return chain.from_iterable(self.parts)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or len(self) != len(other):
            return False
        return all(one == another for one, another in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]  # as of a list

    def __repr__(self) -> str:
        return f"ManyRows({len(self)})"

    def __reduce__(self) -> tuple[Callable[..., list[AuditRow]], tuple[list[Any]]]:
        """Sent elsewhere they are plain rows in a list."""
        return list, (list(self),)


def column_of(rows: Iterable[AuditRow], name: str) -> list[Any]:
    """One attribute of all rows; those of a big table are not made for that.

    Args:
        rows: the rows.
        name: of `AuditRow`, but for its report.
    """
    if isinstance(rows, ManyRows):
        return [value for part in rows.parts for value in column_of(part, name)]
    if isinstance(rows, SlicedRows):
        values: list[Any] = [rows.source] * len(rows) if name == "source" else getattr(rows.columns, name).tolist()
        return values
    return [getattr(row, name) for row in rows]
