"""Logs in CSV: a table with a row per epoch or step."""

from __future__ import annotations

import csv
import io
from contextlib import suppress
from typing import TYPE_CHECKING, BinaryIO

from fa_core.errors import UnreadableInput
from fa_core.files.decode import as_utf8, reading
from fa_core.files.opening import all_of
from fa_core.formats.json_document import check_entries
from fa_core.formats.log_columns import Given, columns_of
from fa_core.formats.logs import Entry, traces_of
from fa_core.formats.rows import Problem, row_of_file

if TYPE_CHECKING:
    from _csv import Reader
    from collections.abc import Iterator

    from fa_core.formats.trace import Trace


def header(head: bytes) -> list[str]:
    """The columns of a table, by its first line in UTF-8; none of another file."""
    with suppress(csv.Error):
        return [name.strip() for name in next(_rows(head.partition(b"\n")[0]), [])]
    return []


def _rows(data: bytes) -> Reader:
    text = data.decode(errors="replace")
    delimiter = max(",;\t", key=text.partition("\n")[0].count)
    return csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)


def read(path: str, file: BinaryIO, given: Given) -> Iterator[Trace | Problem]:
    """The traces of a table, and problems for rows of too few cells. Empty cells are not logged.

    Args:
        path: the file.
        file: open.
        given: columns that the user named.

    Raises:
        UnreadableInput: an invalid log; a row of more cells than columns.
    """
    entries: list[Entry] = []
    short: list[str] = []
    names: list[str] = []
    where = ""
    with reading(path, "not a table", "write it again as CSV"):
        data = as_utf8(all_of(file, path))
        cells = sum(data.count(sign) for sign in (b",", b";", b"\t"))
        check_entries(path, data.count(b"\n"), len(data), cells)
        rows = _rows(data)
        for row in rows:
            where = f"{path}: line {rows.line_num}"
            row = [cell.strip() for cell in row]
            # a log that is begun again repeats its headings
            if not names or len({*row} & {*names} - {""}) * 2 > len(row):
                names = _checked(row, given, where)
            elif any(row[len(names) :]):
                raise UnreadableInput(
                    f"{len(row)} cells under {len(names)} headings",
                    where=where,
                    hint="write decimal points, not commas, and a heading for every column",
                )
            elif 0 < len(row) < len(names):
                short.append(where)
            elif row:
                entries.append((where, dict(zip(names, row, strict=False))))
    unfinished = where in short
    for place in short[: len(short) - unfinished]:
        yield Problem(path, f"{place}: fewer cells than headings; the row is skipped")
    yield from traces_of(row_of_file(path), entries, given, unfinished=unfinished)


def _checked(names: list[str], given: Given, where: str) -> list[str]:
    """The headings, if no column that is read has a namesake."""
    for name in columns_of(names, given):
        if names.count(name) > 1:
            raise UnreadableInput(
                f"{name} heads two columns", where=where, hint="only one of them can be meant"
            )
    return names
