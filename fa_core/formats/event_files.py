"""TensorBoard's event files, read with the standard library alone."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from fa_core.errors import UnreadableInput
from fa_core.files.decode import Json
from fa_core.files.opening import open_file
from fa_core.formats.log_columns import Given
from fa_core.formats.logs import traces_of
from fa_core.formats.rows import Problem, row_of_file
from fa_core.formats.trace import Trace

_RECORD_BYTES = 1 << 16
"""Larger records hold images and graphs."""

_MOST_BYTES = 1 << 24
"""Maximum bytes of scalars of a run: some 200,000."""

_PARTS = 1000
"""Maximum event files read of a folder, the newest: a run has one per start."""

_OF_EVENTS = "tfevents"
_MAGIC_END = 80


def is_events(head: bytes) -> bool:
    """Whether a file begins like an event file."""
    return b"brain.Event:" in head[:_MAGIC_END]


def read(path: Path, named: bool, given: Given) -> Iterator[Trace | Problem]:
    """The scalars of a folder's event files as one run: a resumed run continues in a new file.

    In a folder the newest file yields the run. A truncated file is read up to its last whole
    record.

    Args:
        path: the file.
        named: whether the user named the file.
        given: tags that the user named.

    Raises:
        UnreadableInput: too many scalars.
    """
    parts = [path]
    if _OF_EVENTS in path.name:
        names = _event_files(path.parent, path.parent.stat().st_mtime_ns)
        parts = [path.with_name(name) for name in names] or parts
    if parts[-1] != path and not named:
        return
    at_step: dict[int, Json] = {}
    left = _MOST_BYTES
    for part in parts:
        with open_file(part) as file:
            for data in _records(file, os.fstat(file.fileno()).st_size):
                left -= len(data)
                if left < 0:
                    what = f"TensorBoard's event files of more than {_MOST_BYTES >> 20} MiB"
                    raise UnreadableInput(what, where=path, hint="export the scalars as CSV")
                with suppress(ValueError, LookupError, TypeError, AttributeError, struct.error):
                    step, scalars = _event(data)
                    at_step.setdefault(step, {"step": step}).update(scalars)
    row = msgspec.structs.replace(row_of_file(str(path.absolute().parent)), source=str(path))
    yield from traces_of(row, [(str(path), fields) for fields in at_step.values()], given)


@lru_cache(maxsize=1)
def _event_files(folder: Path, changed: int) -> list[str]:
    """Names of a folder's newest event files, in order; cached, since each of them asks for it.

    Args:
        folder: the folder.
        changed: modification time of the folder.
    """
    found = []
    for path in sorted(folder.glob(f"*{_OF_EVENTS}*"))[-_PARTS:]:
        with suppress(UnreadableInput, OSError), open_file(path) as file:
            if is_events(file.read(_MAGIC_END)) and not path.name.endswith("~"):
                found.append(path.name)
    return found


def _records(file: BinaryIO, size: int) -> Iterator[bytes]:
    """The data of an event file's whole small records.

    A record: length in 8 bytes, their checksum in 4, data, its checksum in 4. Checksums are
        ignored.
    """
    at = 0
    while at + 16 <= size:
        file.seek(at)
        (length,) = struct.unpack("<Q", file.read(8))
        at += 16 + length
        if at <= size and length <= _RECORD_BYTES:
            file.seek(4, os.SEEK_CUR)
            yield file.read(length)


def _event(data: bytes) -> tuple[int, dict[str, float]]:
    """Step and scalars of an event. Fields: 2 = step, 5 = summary; summary 1 = value; value 1 =
    tag, 2 = number, 8 = tensor; tensor 1 = type (1 = float), 4 = bytes, 5 = list of numbers.

    Raises:
        ValueError, LookupError, TypeError, struct.error: malformed.
    """
    event = dict(_fields(data))
    scalars = {}
    for number, each in _fields(event.get(5, b"")):
        value = dict(_fields(each)) if number == 1 else {}
        tensor = dict(_fields(value.get(8, b"")))
        scalar = value.get(2) or (tensor.get(4) or tensor.get(5) if tensor.get(1) == 1 else None)
        if isinstance(scalar, bytes) and len(scalar) == 4:
            (scalars[value[1].decode("utf-8", "replace")],) = struct.unpack("<f", scalar)
    step = event.get(2, 0)
    return step - ((step >> 63) << 64), scalars


def _fields(data: Any) -> Iterator[tuple[int, Any]]:
    """The fields of a protobuf message: number and integer or bytes.

    Raises:
        ValueError, LookupError: broken.
    """
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        length = {1: 8, 5: 4}.get(key & 7)
        value: int | bytes = 0
        if length is None:
            value, at = _varint(data, at)
            length = value if key & 7 == 2 else 0
        if key & 7:
            value = data[at : at + length]
        at += length
        if at > len(data):
            raise ValueError("a field ends behind its message")
        yield key >> 3, value


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        value |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return value, at
    raise ValueError("a number without an end")
