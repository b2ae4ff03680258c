"""Logs that are not JSON: CSV of epochs, TensorBoard's event files, and what MLflow and Trackio keep.

Read with the standard library alone. A database is opened read-only, and nothing is written next to it.
"""

from __future__ import annotations

import csv
import io
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, BinaryIO

from fa_core.decode import harmless, integer, loads, reading
from fa_core.errors import UnreadableInput
from fa_core.formats.json_document import Finding
from fa_core.formats.log_names import is_log
from fa_core.formats.logged import Entry, named_by_place, traces_of
from fa_core.rows import AuditRow
from fa_core.runs import split_key

_CSV_BYTES = 1 << 28
_AGAIN = "write it again as CSV"
_RECORD_BYTES = 1 << 20
_WORK = 20_000
"""Thousands of steps of a database's engine: about two million values."""


def read(path: str, head: bytes, file: BinaryIO, size: int) -> Iterator[Finding]:
    """The traces of a file that may be such a log; nothing if it is none.

    Args:
        path: the file.
        head: its first bytes.
        file: open.
        size: in bytes.

    Raises:
        UnreadableInput: a log that cannot be read.
    """
    if head.startswith(b"SQLite"):
        yield from _database(path)
    elif b"brain.Event:" in head[:80]:
        yield from _events(Path(path))
    else:
        file.seek(0)
        yield from _csv(path, head, file, size)


def _csv(path: str, head: bytes, file: BinaryIO, size: int) -> Iterator[Finding]:
    """A table with a row per epoch or step; an empty cell is not logged."""
    first = head.splitlines()[0].decode("utf-8-sig", "replace")
    delimiter = max(",;\t", key=first.count)
    with reading(path, "not a table", _AGAIN):
        names = [name.strip() for name in next(csv.reader([first], delimiter=delimiter), [])]
    if len(names) < 2 or not is_log(names):
        return
    if size > _CSV_BYTES:
        raise UnreadableInput(f"a table of {size >> 20} MiB", where=path, hint=f"up to {_CSV_BYTES >> 20} MiB are read")
    entries: list[Entry] = []
    cut = False
    lines = csv.reader(io.StringIO(file.read().decode("utf-8-sig", "replace"), newline=""), delimiter=delimiter)
    with reading(path, "not a table", _AGAIN):
        for cells in lines:
            cut = 0 < len(cells) < len(names)
            if cells and not cut and [cell.strip() for cell in cells] != names:
                values = dict(zip(names, map(_value, cells), strict=False))
                entries.append((f"{path}: line {lines.line_num}", values))
    yield from traces_of(named_by_place(path), entries, unfinished=cut)


def _value(text: Any) -> Any:
    """A number that is written as text, as a number; None for an empty text."""
    if not isinstance(text, str):
        return text
    with suppress(ValueError):
        return integer(text)
    with suppress(ValueError):
        return float(text)
    return harmless(text.strip()) or None


def _events(path: Path) -> Iterator[Finding]:
    """The scalars of the folder's event files, as one run: a run that was started again goes on in a new file.

    The newest file speaks for all of them. A file that ends inside a record is read up to there.
    """
    parts = sorted(path.parent.glob("*tfevents*")) if "tfevents" in path.name else [path]
    if parts[-1] != path:
        return
    at_step: dict[int, dict[str, Any]] = {}
    notes: list[str] = []
    for part in parts:
        with part.open("rb") as file:
            for data in _records(file, os.fstat(file.fileno()).st_size):
                if data is None:
                    notes.append(f"{part.name} ends inside a record: what is whole before it is read")
                    continue
                with suppress(ValueError, LookupError, TypeError, AttributeError, struct.error):
                    step, scalars = _event(data)
                    at_step.setdefault(step, {"step": step}).update(scalars)
    entries: list[Entry] = [(str(path), fields) for fields in at_step.values() if len(fields) > 1]
    yield from traces_of(named_by_place(str(path)), entries, notes=tuple(notes))


def _records(file: BinaryIO, size: int) -> Iterator[bytes | None]:
    """What the records of an event file hold (images and graphs left out), and None if the last one is not whole.

    A record: its length in 8 bytes, their checksum in 4, the data, its checksum in 4. The checksums are not looked at.
    """
    at = 0
    while at < size:
        file.seek(at)
        head = file.read(12)
        length = struct.unpack("<Q", head[:8])[0] if len(head) == 12 else size
        at += 16 + length
        if at > size:
            yield None
        elif length <= _RECORD_BYTES:
            yield file.read(length)


def _event(data: bytes) -> tuple[int, dict[str, float]]:
    """Step and scalars of an event: 2 = step, 5 = summary, in it 1 = value, in it 1 = tag, 2 = number or 8 = tensor.

    Of a tensor 1 is the type (1 = float), 4 its bytes or 5 the list of its numbers.

    Raises:
        ValueError, LookupError, struct.error: broken.
    """
    event = dict(_fields(data))
    step, scalars = event.get(2, 0), {}
    for value in (dict(_fields(each)) for number, each in _fields(event.get(5, b"")) if number == 1):
        tensor = dict(_fields(value.get(8, b"")))
        number = value.get(2) or (tensor.get(4) or tensor.get(5) if tensor.get(1) == 1 else None)
        if isinstance(number, bytes) and len(number) == 4:
            scalars[value[1].decode("utf-8", "replace")] = struct.unpack("<f", number)[0]
    return step - ((step >> 63) << 64), scalars


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """The fields of a protobuf message: number, and its integer or its bytes.

    Raises:
        ValueError, LookupError: broken.
    """
    at = 0
    while at < len(data):
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


_MLFLOW = """
    SELECT run_uuid, NULL, 'name', name FROM runs
    UNION ALL SELECT run_uuid, NULL, key, value FROM params WHERE key IN ('method', 'method_name', 'seed')
    UNION ALL SELECT * FROM (
        SELECT run_uuid, step, key, CASE WHEN is_nan THEN 'nan' ELSE value END FROM metrics ORDER BY timestamp)
"""
_TRACKIO = """
    SELECT run_name, NULL, NULL, config FROM configs
    UNION ALL SELECT * FROM (SELECT run_name, step, NULL, metrics FROM metrics ORDER BY id)
"""
"""Rows of run, step (NULL: known of the whole run), name and value, or a JSON object of them for no name."""


def _database(path: str) -> Iterator[Finding]:
    """The runs of an MLflow or Trackio database; nothing of another one.

    Raises:
        UnreadableInput: it is broken, locked or too large.
    """
    import sqlite3

    # what a running writer has not merged yet is in a file of its own, which `immutable` would leave out
    how = "mode=ro" if Path(f"{path}-wal").exists() else "mode=ro&immutable=1"
    budget = iter(range(_WORK))
    try:
        with closing(sqlite3.connect(f"{Path(path).absolute().as_uri()}?{how}", uri=True, timeout=1.0)) as base:
            base.text_factory = lambda text: text.decode("utf-8", "replace")
            base.execute("PRAGMA trusted_schema=OFF")
            base.set_progress_handler(lambda: next(budget, None) is None, 1000)
            tables = {name for (name,) in base.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
            columns = {row[1] for row in base.execute("PRAGMA table_info(metrics)")}
            if {"metrics", "runs", "params"} <= tables and {"run_uuid", "key", "is_nan"} <= columns:
                yield from _runs(path, base.execute(_MLFLOW))
            elif {"metrics", "configs"} <= tables and {"run_name", "step", "metrics"} <= columns:
                yield from _runs(path, base.execute(_TRACKIO))
    except (sqlite3.Error, UnicodeDecodeError) as error:
        why = "it holds more than is read here" if next(budget, None) is None else f"{error}"
        raise UnreadableInput(f"the database cannot be read ({why})", where=path, hint="copy it again") from error


def _runs(path: str, rows: Iterable[tuple[str, int | None, str | None, Any]]) -> Iterator[Finding]:
    runs: dict[str, dict[int | None, dict[str, Any]]] = {}
    for run, step, name, value in rows:
        new = _object(value) if name is None else {str(name): value}
        known = {key: _value(new[key]) for key in new if step is not None or key in _OF_THE_RUN}
        runs.setdefault(run, {}).setdefault(step, {} if step is None else {"step": step}).update(known)
    for run, at_step in runs.items():
        about = at_step.pop(None, {})
        name = harmless(str(about.pop("name", None) or run))
        method, seed, axes = split_key(name)
        row = AuditRow(source=path, key=name, method=method, seed=seed, axes=axes)
        yield from traces_of(row, [(f"{path}: {name}", {**about, **fields}) for fields in at_step.values()])


_OF_THE_RUN = ("name", "method", "method_name", "seed")


def _object(text: Any) -> dict[str, Any]:
    with suppress(ValueError):
        found = loads(text if isinstance(text, bytes) else str(text).encode())
        return found if isinstance(found, dict) else {}
    return {}
