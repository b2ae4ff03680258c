"""Reading files, or remembering what they gave: where there is so much of it that remembering pays."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, BinaryIO

from fa_core.formats.sliced import SlicedTable, read_sliced
from fa_core.formats.stored import Finding
from fa_core.index.stamps import Stamp, is_settled, stamp_of
from fa_core.rows import AuditRow

if TYPE_CHECKING:
    from fa_core.index.places import PlaceIndex

FROM = 64
"""So many files and run folders are read as fast as the index would be."""

TABLE_FROM = 8 << 20
"""Bytes from which a table is remembered: below, decoding it takes 40 ms."""


class LazyIndex:
    """The index of the places under one path; not even imported for few of them.

    Args:
        root: the path, as the person spelled it.
    """

    def __init__(self, root: str) -> None:
        self._root = root
        self._asked = 0
        self._index: PlaceIndex | None = None

    def findings(
        self, place: str, stamps: Sequence[Stamp | None], read: Callable[[], Iterable[Finding]]
    ) -> Iterator[Finding]:
        """What a place gives.

        Args:
            place: its path.
            stamps: of all the files that decide it, taken before it is read.
            read: reads it. What comes with a problem, or is more than plain rows, is read again the next time.
        """
        self._asked += 1
        if self._asked == FROM + 1:
            from fa_core.index.places import PlaceIndex
            from fa_core.index.store import index_folder

            self._index = PlaceIndex(self._root) if index_folder() else None
        if self._index is None:
            yield from read()
            return
        known = self._index.recall(place, stamps)
        if known is not None:
            yield from known
            return
        began = time.time_ns()
        rows: list[AuditRow] = []
        others = False
        for finding in read():
            if type(finding) is AuditRow:
                rows.append(finding)
            else:
                others = True
            yield finding
        if not others:
            self._index.note(place, stamps, rows, began)

    def save(self) -> None:
        """Keep what was read; all places were asked for."""
        if self._index is not None:
            self._index.save()


def sliced_table(path: str, file: BinaryIO, head: bytes) -> SlicedTable | None:
    """`read_sliced`, or what it gave when the file was as it is now."""
    status = os.fstat(file.fileno())
    if status.st_size < TABLE_FROM:
        return read_sliced(path, file, head)
    from fa_core.index import store, tables

    if store.index_folder() is None:
        return read_sliced(path, file, head)
    rows = tables.recall(path, file)
    if rows is not None:
        return SlicedTable(rows, [])
    began, stamp = time.time_ns(), stamp_of(status)
    table = read_sliced(path, file, head)
    if table is not None and not table.problems and is_settled(stamp, began):
        tables.note(path, stamp, table.rows)
    return table
