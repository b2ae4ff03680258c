"""Readers of CSV logs and TensorBoard's event files, with the standard library alone."""

from __future__ import annotations

import csv
import io
import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from fa_core.decode import Json, integer, reading
from fa_core.errors import UnreadableInput
from fa_core.files import check_room, open_file
from fa_core.formats.json_document import CELL_BYTES, ENTRY_BYTES, Finding
from fa_core.formats.log_names import is_log
from fa_core.formats.logged import MOST_NAMES, named_by_place, traces_of
from fa_core.formats.logged_epoch import Entry
from fa_core.sanitize import WHITE_SPACE, sanitize

_CSV_BYTES = 1 << 28
_AGAIN = "write it again as CSV"
_RECORD_BYTES = 1 << 20
_FIELDS = 1 << 22
"""Maximum fields in a run's event files: some 700,000 scalars."""

_EVENTS = b"brain.Event:"


def read(path: str, head: bytes, file: BinaryIO, size: int, named: bool) -> Iterator[Finding]:
    """The traces of a file; nothing if it is no such log.

    Args:
        path: the file.
        head: its first bytes.
        file: open.
        size: in bytes.
        named: whether the user named the file.

    Raises:
        UnreadableInput: an invalid log, or a named event file that is not the newest of its run.
    """
    if is_events(head):
        yield from _events(Path(path), named)
    else:
        file.seek(0)
        yield from _csv(path, head, file, size)


def _csv(path: str, head: bytes, file: BinaryIO, size: int) -> Iterator[Finding]:
    """The trace of a table with a row per epoch or step; empty cells are not logged."""
    first = head.splitlines()[0].decode("utf-8-sig", "replace")
    delimiter = max(",;\t", key=first.count)
    with reading(path, "not a table", _AGAIN):
        names = [name.strip() for name in next(csv.reader([first], delimiter=delimiter), [])]
    if len(names) < 2 or not is_log(names):
        return
    if size > _CSV_BYTES:
        raise UnreadableInput(
            f"a table of {size >> 20} MiB",
            where=path,
            hint=f"up to {_CSV_BYTES >> 20} MiB are read",
        )
    entries: list[Entry] = []
    cut = False
    data = file.read(size)
    with reading(path, "not a table", _AGAIN):
        check_room(
            ENTRY_BYTES * data.count(b"\n") + CELL_BYTES * data.count(delimiter.encode()), size
        )
    lines = csv.reader(
        io.StringIO(data.decode("utf-8-sig", "replace"), newline=""), delimiter=delimiter
    )
    with reading(path, "not a table", _AGAIN):
        for cells in lines:
            cut = 0 < len(cells) < len(names)
            if cells and not cut and [cell.strip() for cell in cells] != names:
                values = dict(zip(names, map(_value, cells), strict=False))
                entries.append((f"{path}: line {lines.line_num}", values))
    yield from traces_of(named_by_place(path), entries, unfinished=cut)


def _value(text: object) -> object:
    """A cell as a number or text; None if it is empty."""
    if not isinstance(text, str):
        return text
    with suppress(ValueError):
        return integer(text)
    with suppress(ValueError):
        return float(text)
    return sanitize(text.strip(), WHITE_SPACE) or None


def _events(path: Path, named: bool) -> Iterator[Finding]:
    """The scalars of a folder's event files as one run: a resumed run continues in a new file.

    Only the last readable file yields the run. A truncated file is read up to its last whole
    record.
    """
    parts, listed = [path], [path.name]
    if _OF_EVENTS in path.name:
        listed = _event_files(path.parent, path.parent.stat().st_mtime_ns)
        parts = sorted({path, *(path.with_name(name) for name in listed[-_PARTS:])})
    newest = next((part for part in reversed(parts) if not _why_no_events(part)), path)
    if newest != path:
        if named:
            raise UnreadableInput(
                f"{newest.name} goes on from it", where=path, hint="name the folder"
            )
        return
    notes: list[str] = []
    if len(listed) > _PARTS:
        notes.append(f"{len(listed) - _PARTS:,} older event files are left out")
    budget = _Budget(str(path))
    at_step: dict[int, Json] = {}
    for part in parts:
        if why := _why_no_events(part):
            notes.append(f"{sanitize(part.name, WHITE_SPACE)} is left out: {why}")
            continue
        with open_file(part) as file:
            for data in _records(file, os.fstat(file.fileno()).st_size):
                budget.spend()
                if data is None:
                    notes.append(
                        f"{part.name} ends inside a record: what is whole before it is read"
                    )
                    continue
                with suppress(ValueError, LookupError, TypeError, AttributeError, struct.error):
                    step, scalars = _event(data, budget)
                    at_step.setdefault(step, {"step": step}).update(scalars)
    entries: list[Entry] = [(str(path), fields) for fields in at_step.values() if len(fields) > 1]
    yield from traces_of(named_by_place(str(path)), entries, notes=tuple(notes))


_OF_EVENTS = "tfevents"
_PARTS = 1000
"""Maximum event files read of a folder, the newest: a run has one per start."""


@lru_cache(maxsize=1)
def _event_files(folder: Path, changed: int) -> list[str]:
    """Names of a folder's event files, in order; cached, since every one of them asks for it.

    Args:
        folder: the folder.
        changed: modification time of the folder.
    """
    return sorted(name for name in os.listdir(folder) if _OF_EVENTS in name)  # noqa: PTH208 (names)


_MAGIC_END = 80
"""Bytes by which an event file is recognised."""


class _Budget:
    """Limit on the decoded fields of a run's event files: each takes a microsecond.

    Args:
        where: the file named in the error.
    """

    def __init__(self, where: str) -> None:
        self._where, self._left = where, _FIELDS

    def spend(self) -> None:
        """Count a record or a field.

        Raises:
            UnreadableInput: too many.
        """
        self._left -= 1
        if self._left < 0:
            what = f"TensorBoard's event files of more than {_FIELDS:,} fields"
            raise UnreadableInput(what, where=self._where, hint="export the scalars as CSV")


def _why_no_events(path: Path) -> str:
    """Why a file is not an event file; empty if it is one."""
    if path.name.endswith("~"):
        return "an old version"
    try:
        with open_file(path) as file:
            head = file.read(_MAGIC_END)
    except UnreadableInput as refusal:
        return refusal.what
    except OSError as error:
        return error.strerror or "cannot be read"
    if not head:
        return "empty"
    if is_events(head):
        return ""
    return "no event file"


def is_events(head: bytes) -> bool:
    """Whether a file begins like an event file."""
    return _EVENTS in head[:_MAGIC_END]


def _records(file: BinaryIO, size: int) -> Iterator[bytes | None]:
    """The data of an event file's records, without images and graphs; then None if the last record
    is truncated.

    A record: length in 8 bytes, their checksum in 4, data, its checksum in 4. Checksums are
        ignored.
    """
    at = 0
    while at < size:
        file.seek(at)
        head = file.read(12)
        if len(head) == 12:
            length = struct.unpack("<Q", head[:8])[0]
        else:
            length = size
        at += 16 + length
        if at > size:
            yield None
        elif length <= _RECORD_BYTES:
            yield file.read(length)


def _event(data: bytes, budget: _Budget) -> tuple[int, dict[str, float]]:
    """Step and scalars of an event. Fields: 2 = step, 5 = summary; summary 1 = value; value 1 =
    tag, 2 = number, 8 = tensor; tensor 1 = type (1 = float), 4 = bytes, 5 = list of numbers.

    Raises:
        ValueError, LookupError, struct.error: malformed.
        UnreadableInput: the budget is spent.
    """
    event = dict(_fields(data, budget))
    step, scalars = event.get(2, 0), {}
    values = [each for number, each in _fields(event.get(5, b""), budget) if number == 1]
    if len(values) > MOST_NAMES:
        raise ValueError("more values than a log has names")
    for each in values:
        value = dict(_fields(each, budget))
        tensor = dict(_fields(value.get(8, b""), budget))
        number = value.get(2) or (tensor.get(4) or tensor.get(5) if tensor.get(1) == 1 else None)
        if isinstance(number, bytes) and len(number) == 4:
            scalars[value[1].decode("utf-8", "replace")] = struct.unpack("<f", number)[0]
    return step - ((step >> 63) << 64), scalars


def _fields(data: bytes, budget: _Budget) -> Iterator[tuple[int, Any]]:
    """The fields of a protobuf message: number and integer or bytes.

    Raises:
        ValueError, LookupError: broken.
        UnreadableInput: the budget is spent.
    """
    at = 0
    while at < len(data):
        budget.spend()
        key, at = _varint(data, at)
        value: int | bytes
        value, end = _varint(data, at) if key & 7 in (0, 2) else (0, at)
        if key & 7:
            start, end = end, end + {1: 8, 2: value, 5: 4}[key & 7]
            value = data[start:end]
        if end > len(data):
            raise ValueError("a field ends behind its message")
        at = end
        yield key >> 3, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value, at
    raise ValueError("a number without an end")
