"""A big audit table cut into slices that are JSON objects of their own, without decoding it first.

Where ``{A}`` and ``{B}`` are JSON objects, ``{A,B}`` is one, with the members of both. So a table may be cut
at any comma between its reports, and whether a comma was one of those shows when both sides are decoded.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from typing import BinaryIO, Literal, NamedTuple

import msgspec

SLICE = 1 << 16
"""Bytes of a slice: looking at one report costs decoding its slice one level deep, 0.1 ms."""

_BLOCK = 1 << 22
_BEGIN = re.compile(rb'\s*\{\s*"reports"\s*:\s*\{')
_FIRST = re.compile(rb'\s*"[^"\\]*"\s*:\s*\{\s*("[^"\\]*")')
_SUMMARY = re.compile(rb'\s*,\s*"summary"\s*:\s*\[')
_SUMMARY_END = re.compile(rb"\]\s*\}\s*\Z")
_END = 256
_NO_MORE = msgspec.json.Decoder(msgspec.defstruct("NoMore", [("reports", Literal[0])]))


class Slice(NamedTuple):
    """Some reports as they stand in the file.

    Attributes:
        data: a JSON object, its own braces included.
        offset: where in the file the first byte behind its opening brace is.
    """

    data: bytes
    offset: int


def slices(file: BinaryIO, head: bytes) -> Iterator[Slice]:
    """The reports of an audit table, slice by slice; only the last holds what else is in the file while it is cut.

    Args:
        file: the file, opened for reading.
        head: its first bytes.

    Raises:
        ValueError: the file does not begin or end as an audit table does. Whether slices are valid, decoding shows.
    """
    begin = _BEGIN.match(head)
    first = _FIRST.match(head, begin.end()) if begin else None
    if begin is None or first is None:
        raise ValueError("no reports at the file's beginning")
    # what stands between two reports, supposing that all begin with the same field
    between = re.compile(rb'\}(\s*,)\s*"[^"\\]*"\s*:\s*\{\s*' + re.escape(first[1]))
    offset = begin.end()
    file.seek(offset)
    block = bytearray(_BLOCK)
    with memoryview(block) as view:
        filled = 0
        while True:
            got = _fill(file, view[filled:])
            filled += got
            start = 0
            while found := between.search(block, start + SLICE, filled):
                yield Slice(b"".join((b"{", view[start : found.start() + 1], b"}")), offset + start)
                start = found.end(1)
            if not start or filled < _BLOCK:
                break
            rest = filled - start
            view[:rest] = bytes(view[start:filled])
            offset, filled = offset + start, rest
        last = bytes(view[start:filled])
    yield Slice(_ended(last, file), offset + start)


def _fill(file: BinaryIO, into: memoryview) -> int:
    """Read until `into` is full or the file ends."""
    filled = 0
    while filled < len(into) and (got := file.readinto(into[filled:])):  # type: ignore[attr-defined]
        filled += got
    return filled


def _ended(last: bytes, file: BinaryIO) -> bytes:
    """The last reports alone, from the text that they begin; what follows them is the end of an audit table.

    A summary is not read: its first and last characters show that it is there and whole.
    """
    text = "{" + last.decode(errors="surrogateescape")
    _, end = json.JSONDecoder().raw_decode(text)
    reports = text[:end].encode(errors="surrogateescape")
    rest = last[len(reports) - 1 :]
    if _SUMMARY.match(rest):
        file.seek(max(0, file.seek(0, os.SEEK_END) - _END))
        if _SUMMARY_END.search(file.read()) is None:
            raise ValueError("a summary without an end")
        return reports
    try:
        _NO_MORE.decode(b'{"reports":0' + rest + file.read())
    except msgspec.ValidationError as error:
        raise ValueError("reports stands more than once") from error
    return reports
