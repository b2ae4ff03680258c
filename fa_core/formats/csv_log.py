"""Logs in CSV: a table with a row per epoch or step."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from contextlib import suppress
from typing import BinaryIO

from fa_core.errors import UnreadableInput
from fa_core.files.decode import reading
from fa_core.files.opening import check_room
from fa_core.formats.json_document import CELL_BYTES, ENTRY_BYTES
from fa_core.formats.log_columns import Given
from fa_core.formats.logs import Entry, traces_of
from fa_core.formats.rows import Problem, row_of_file
from fa_core.formats.trace import Trace

_MOST_BYTES = 1 << 28


def header(head: bytes) -> list[str]:
    """The columns of a table, by its first line; none of another file."""
    with suppress(csv.Error):
        return [name.strip() for name in next(_rows(head.partition(b"\n")[0]), [])]
    return []


def _rows(data: bytes) -> Iterator[list[str]]:
    text = data.decode("utf-8-sig", "replace")
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    return csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)


def read(path: str, file: BinaryIO, size: int, given: Given) -> Iterator[Trace | Problem]:
    """The traces of a table. Empty cells are not logged.

    Args:
        path: the file.
        file: open.
        size: in bytes.
        given: columns that the user named.

    Raises:
        UnreadableInput: an invalid log.
    """
    if size > _MOST_BYTES:
        hint = f"up to {_MOST_BYTES >> 20} MiB are read"
        raise UnreadableInput(f"a table of {size >> 20} MiB", where=path, hint=hint)
    file.seek(0)
    data = file.read(size)
    entries: list[Entry] = []
    is_cut = False
    with reading(path, "not a table", "write it again as CSV"):
        cells = sum(data.count(sign) for sign in (b",", b";", b"\t"))
        check_room(ENTRY_BYTES * data.count(b"\n") + CELL_BYTES * cells, size)
        names = header(data)
        for number, row in enumerate(_rows(data), 1):
            is_cut = 0 < len(row) < len(names)
            if row and not is_cut and [cell.strip() for cell in row] != names:
                entries.append((f"{path}: line {number}", dict(zip(names, row, strict=False))))
    yield from traces_of(row_of_file(path), entries, given, unfinished=is_cut)
