"""TensorBoard's event files, read with the standard library alone."""

from __future__ import annotations

import os
import struct
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from msgspec.structs import replace

from fa_core.errors import UnreadableInput
from fa_core.files.decode import Json
from fa_core.files.opening import is_folder, open_file, size_of
from fa_core.formats.log_columns import Given, columns_of, is_log, no_known_column
from fa_core.formats.logs import COUNTED, merge, names_in, remarks, traces_of
from fa_core.formats.rows import Place, Problem, row_of_file
from fa_core.formats.trace import Trace
from fa_core.report.method_style import known_method
from fa_core.report.names import split_key

_RECORD_BYTES = 1 << 16
"""Larger records hold images and graphs."""

_MOST_BYTES = 1 << 24
"""Maximum bytes of scalars of a run: some 200,000."""

_PARTS = 1000
"""Maximum event files read of a folder, the newest: a run has one per start."""

_OF_EVENTS = "tfevents"
_MAGIC_END = 80


def read(place: Place, given: Given) -> Iterator[Trace | Problem]:
    """The scalars of a folder's event files as one run: a resumed run continues in a new file, and
    parts of it, as those of ``add_scalars``, lie in folders below, by which their tags are called.

    In a folder the newest file yields the run, or the first that is named. A truncated file is read
    up to its last whole record.

    Args:
        place: the file; the newest is added to what was seen.
        given: tags that the user named.

    Raises:
        UnreadableInput: too many scalars, or a named run without any that is read.
    """
    path = Path(place.path)
    folder = path.parent
    is_root = str(folder) == place.root
    if not is_root and _is_part(folder):
        folder = folder.parent
    own = [path]
    if _OF_EVENTS in path.name:
        own = _event_files(folder) or own
    newest = own[-1].stat()
    identity = newest.st_dev, newest.st_ino
    if own[-1] != path and (not place.named or identity in place.seen):
        return
    place.seen.add(identity)
    files = {"": own}
    if _OF_EVENTS in path.name:
        parts = filter(_is_part, sorted(folder.iterdir()))
        files = {f"{part.name}/": _event_files(part) for part in parts} | files
    at_step: defaultdict[int, Json] = defaultdict(dict)
    dropped: defaultdict[int, set[str]] = defaultdict(set)
    for logged in _logged(files, path):
        columns = columns_of({tag for _, scalars in logged for tag in scalars or ()}, given)
        counted = {tag for tag, (field, _) in columns.items() if field in COUNTED}
        found, lost = merge(logged, counted)
        for step, scalars in found.items():
            at_step[step].update(scalars)
            dropped[step].update(lost.get(step, ()))
    entries = [(str(path), {"step": step, **at_step[step]}) for step in sorted(at_step)]
    names = names_in(entries)
    if (place.named or is_root) and not is_log(names, given):
        raise no_known_column(str(path), names, given)
    row = replace(row_of_file(str(folder), place.root), source=str(own[-1]))
    for finding in traces_of(row, entries, given):
        if isinstance(finding, Trace):
            finding = replace(finding, notes=(*remarks(at_step, dropped), *finding.notes))
        yield finding


def _is_part(folder: Path) -> bool:
    """Whether the events in a folder are of the run of the folder around it: that has some, and the
    name is of no run."""
    method, seed, _ = split_key(folder.name)
    is_run = seed is not None or known_method(method)
    is_own = not (is_run or folder.is_symlink()) and is_folder(folder)
    return is_own and bool(_event_files(folder.parent))


def _event_files(folder: Path) -> list[Path]:
    """A folder's newest event files, in order."""
    return _found(folder, folder.stat().st_mtime_ns)


@lru_cache(maxsize=256)
def _found(folder: Path, changed: int) -> list[Path]:
    """See `_event_files`; cached by the time of change, since each file asks for all."""
    found = {}
    for path in sorted(folder.glob(f"*{_OF_EVENTS}*"))[-_PARTS:]:
        with suppress(UnreadableInput, OSError), open_file(path) as file:
            if b"brain.Event:" in file.read(_MAGIC_END) and not path.name.endswith("~"):
                found[os.fstat(file.fileno()).st_ino] = path
    return [*found.values()]


def _logged(
    files: Mapping[str, Sequence[Path]], path: Path
) -> Iterator[list[tuple[int, dict[str, float] | None]]]:
    """The events of each part of a run."""
    left = _MOST_BYTES
    for part, own in files.items():
        events = []
        for file in own:
            with open_file(file) as opened:
                for data in _records(opened, size_of(opened)):
                    left -= len(data)
                    if left < 0:
                        raise UnreadableInput(
                            f"TensorBoard's event files of more than {_MOST_BYTES >> 20} MiB",
                            where=path,
                            hint="export the scalars as CSV",
                        )
                    with suppress(ValueError, LookupError, TypeError, AttributeError, struct.error):
                        events.append(_event(data, part))
        yield events


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


def _event(data: bytes, part: str) -> tuple[int, dict[str, float] | None]:
    """Step and scalars of an event, or None where all later ones are void (``purge_step``). Fields:
    2 = step, 4 = session, 5 = summary; session 1 = status (1 = start); summary 1 = value; value 1 =
    tag, 2 = number, 8 = tensor; tensor 1 = type (1 = float), 4 = bytes, 5 = list of numbers.

    Raises:
        ValueError, LookupError, TypeError, struct.error: malformed.
    """
    event = dict(_fields(data))
    scalars = {}
    for number, each in _fields(event.get(5, b"")):
        value = dict(_fields(each)) if number == 1 else {}
        tensor = dict(_fields(value.get(8, b"")))
        scalar = value.get(2)
        if not scalar and tensor.get(1) == 1:
            scalar = tensor.get(4) or tensor.get(5)
        if isinstance(scalar, bytes) and len(scalar) == 4:
            (scalars[part + value[1].decode("utf-8", "replace")],) = struct.unpack("<f", scalar)
    step = event.get(2, 0)
    is_start = dict(_fields(event.get(4, b""))).get(1) == 1
    return step - ((step >> 63) << 64), None if is_start else scalars


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
