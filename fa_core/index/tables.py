"""Big audit tables: their columns as they were read, and where in the file the rest of each report is."""

from __future__ import annotations

import os
from collections.abc import Hashable, Sequence
from typing import Any, BinaryIO

import msgspec
import numpy as np

from fa_core.columns import Floats, Mask, Objects, Ragged, objects, thrifty
from fa_core.formats.sliced import SlicedRows
from fa_core.formats.slices import Slice, Text
from fa_core.index import store
from fa_core.index.stamps import Stamp, stamp_of
from fa_core.report_columns import SCALARS, Numbers, ReportColumns

_SIZE = "<i8"
_CODE = "<u4"
_FLOAT = "<f8"


class _Words(msgspec.Struct, array_like=True, frozen=True):
    """Few different values, many times: each once, and which one each row has."""

    values: list[Any]
    codes: bytes


class _Ragged(msgspec.Struct, array_like=True, frozen=True):
    flat: bytes
    offsets: bytes


class _Table(msgspec.Struct, array_like=True, frozen=True):
    """A table in bytes: arrays little-endian, axes as MessagePack inside."""

    stamp: Stamp
    slices: list[tuple[int, int, int]]
    key: list[str]
    seed: list[int | None]
    method: _Words
    checkpoint: list[str | None]
    axes: _Words
    recorded_verdict: _Words
    residual: _Ragged
    gradient: _Ragged
    scalars: list[tuple[bytes, bytes]]
    inexact: bytes
    has_credit: bool


_TABLE = msgspec.msgpack.Decoder(_Table)


def recall(path: str, file: BinaryIO) -> SlicedRows | None:
    """The rows of a table that has not changed since `note`; None if that is not known.

    Args:
        path: the file.
        file: the same, opened for reading.
    """
    data = store.read(_name(path))
    stamp = stamp_of(os.fstat(file.fileno()))
    try:
        table = None if data is None else _TABLE.decode(data)
        if table is None or table.stamp != stamp:
            return None
        rows = _rows_of(table, path, file)
    except (ValueError, IndexError):
        return None
    return rows if stamp_of(os.fstat(file.fileno())) == stamp else None


def note(path: str, stamp: Stamp, rows: SlicedRows) -> None:
    """Keep the columns of a table.

    Args:
        path: the file.
        stamp: its stamp before it was read, settled then.
        rows: all that is in it.
    """
    columns = rows.columns
    numbers = columns.numbers
    try:
        table = _Table(
            stamp=stamp,
            slices=[(*piece, count) for piece, count in zip(rows.slices, rows.counts, strict=True)],
            key=columns.key.tolist(),
            seed=columns.seed.tolist(),
            method=_words(columns.method.tolist()),
            checkpoint=columns.checkpoint.tolist(),
            axes=_words(_packed(columns.axes.tolist())),
            recorded_verdict=_words(columns.recorded_verdict.tolist()),
            residual=_ragged(numbers.residual),
            gradient=_ragged(numbers.gradient),
            scalars=[(_bytes(values, _FLOAT), present.tobytes()) for values, present in numbers.scalars],
            inexact=columns.inexact.tobytes(),
            has_credit=columns.has_credit,
        )
        store.write(_name(path), msgspec.msgpack.encode(table))
    except (OverflowError, TypeError, ValueError):  # an integer of more than 64 bits, a name that is no text
        return


def _name(path: str) -> str:
    return store.name_of("table", os.path.abspath(path))  # noqa: PTH100 (as the file is found: links may lead elsewhere)


def _rows_of(table: _Table, path: str, file: BinaryIO) -> SlicedRows:
    """The rows, with the text read from the file.

    Raises:
        ValueError: the parts do not fit each other or the file.
    """
    columns = _columns_of(table)
    pieces = [Slice(start, end) for start, end, _ in table.slices]
    size = table.stamp[0]
    if any(not 0 < piece.start <= piece.end <= size for piece in pieces):
        raise ValueError("slices outside the file")
    text = Text(size)
    if text.read(file, pieces[0].start, pieces[-1].end) < pieces[-1].end:
        raise ValueError("the file became shorter")
    return SlicedRows(path, columns, text, pieces, [count for _, _, count in table.slices])


def _columns_of(table: _Table) -> ReportColumns:
    scalars = tuple((thrifty(_floats(values)), _marks(present)) for values, present in table.scalars)
    columns = ReportColumns(
        key=objects(table.key),
        method=_spelled(table.method.values, table.method.codes),
        seed=objects(table.seed),
        checkpoint=objects(table.checkpoint),
        axes=_spelled([msgspec.msgpack.decode(axes) for axes in table.axes.values], table.axes.codes),
        recorded_verdict=_spelled(table.recorded_verdict.values, table.recorded_verdict.codes),
        numbers=Numbers(_unpacked(table.residual), _unpacked(table.gradient), scalars),
        inexact=_marks(table.inexact),
        has_credit=table.has_credit,
    )
    rows = sum(count for _, _, count in table.slices)
    numbers = (*columns.numbers[:2], *(column for pair in scalars for column in pair))
    lengths = {len(column) for column in (*columns.names(), *numbers, columns.inexact)}
    if lengths != {rows} or len(scalars) != len(SCALARS):
        raise ValueError("columns of unequal length")
    return columns


def _words(values: Sequence[Hashable]) -> _Words:
    codes = {value: code for code, value in enumerate(dict.fromkeys(values))}
    return _Words(list(codes), np.fromiter(map(codes.__getitem__, values), _CODE, len(values)).tobytes())


def _packed(axes: Sequence[dict[str, Any]]) -> list[bytes]:
    """Each in bytes; those that are one object are packed once."""
    once = {id(each): each for each in axes}
    packed = {known: msgspec.msgpack.encode(each) for known, each in once.items()}
    return [packed[id(each)] for each in axes]


def _spelled(values: Sequence[Any], codes: bytes) -> Objects:
    return objects([values[code] for code in np.frombuffer(codes, _CODE).tolist()])


def _ragged(rows: Ragged) -> _Ragged:
    return _Ragged(_bytes(rows.flat, _FLOAT), _bytes(rows.offsets, _SIZE))


def _unpacked(rows: _Ragged) -> Ragged:
    offsets = np.frombuffer(rows.offsets, _SIZE).astype(np.int64, copy=False)
    flat = _floats(rows.flat)
    if not len(offsets) or offsets[0] or offsets[-1] != len(flat) or (np.diff(offsets) < 0).any():
        raise ValueError("rows of no length")
    return Ragged(flat, offsets)


def _floats(values: bytes) -> Floats:
    return np.frombuffer(values, _FLOAT).astype(np.float64, copy=False)


def _marks(values: bytes) -> Mask:
    return thrifty(np.frombuffer(values, np.bool_))


def _bytes(values: np.ndarray[Any, Any], kind: str) -> bytes:
    """An array's bytes where they are: a table is encoded without a second copy of its numbers."""
    return np.ascontiguousarray(values, kind).view(np.uint8).data  # type: ignore[return-value]  # to msgspec the same
