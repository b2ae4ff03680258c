"""A big audit table cut into slices that are JSON objects of their own, without decoding it first.

Where ``{A}`` and ``{B}`` are JSON objects, ``{A,B}`` is one, with the members of both. So a table may be cut
at any comma between its reports, and whether a comma was one of those shows when both sides are decoded.
"""

from __future__ import annotations

import json
import mmap
import os
import re
from collections.abc import Callable, Iterator
from typing import BinaryIO, Literal, NamedTuple

import msgspec

SLICE = 1 << 15
"""Bytes of a slice: looking at one report costs decoding its slice one level deep, 40 µs."""

_BLOCK = 1 << 22
_BEGIN = re.compile(rb'\s*\{\s*"reports"\s*:\s*\{')
_FIRST = re.compile(rb'\s*"[^"\\]*"\s*:\s*\{\s*("[^"\\]*")')
_SUMMARY = re.compile(rb'\s*,\s*"summary"\s*:\s*\[')
_SUMMARY_END = re.compile(rb"\]\s*\}\s*\Z")
_END = 256
_NO_MORE = msgspec.json.Decoder(msgspec.defstruct("NoMore", [("reports", Literal[0])]))


class Slice(NamedTuple):
    """Some reports, by where in the file the first one's key begins and the last one ends."""

    start: int
    end: int


class Text:
    """A file's bytes, each at its own offset; what nobody read takes no memory.

    The system gives the memory page by page and takes it back whole: the small objects that decoding
    makes and drops meanwhile would leave holes between slices kept beside them.

    Args:
        size: of the file.
    """

    def __init__(self, size: int) -> None:
        private = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}
        self.data = mmap.mmap(-1, size, **private)
        self._view = memoryview(self.data)

    def __reduce__(self) -> tuple[Callable[[bytes], Text], tuple[bytes]]:
        return _text_of, (bytes(self.data),)

    def read(self, file: BinaryIO, start: int, end: int) -> int:
        """Read a part of the file; where it ended, if that is earlier than `end`."""
        file.seek(start)
        while start < end and (got := file.readinto(self._view[start:end])):  # type: ignore[attr-defined]
            start += got
        return start

    def object_of(self, piece: Slice) -> bytes:
        """A slice as a JSON object."""
        return b"".join((b"{", self._view[piece.start : piece.end], b"}"))


def _text_of(data: bytes) -> Text:
    text = Text(len(data))
    text.data[:] = data
    return text


def slices(text: Text, file: BinaryIO, head: bytes) -> Iterator[Slice]:
    """The reports of an audit table, slice by slice, read as they are asked for.

    Args:
        text: takes them up.
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
    start = known = begin.end()
    size = len(text.data)
    while known < size and known - start < _BLOCK:
        known = text.read(file, known, wanted := min(known + _BLOCK, size))
        while found := between.search(text.data, start + SLICE, known):
            yield Slice(start, found.start() + 1)
            start = found.end(1)
        if known < wanted:
            raise ValueError("the file became shorter")
    yield Slice(start, start + _length_of_last(text.data[start:known], file))


def _length_of_last(last: bytes, file: BinaryIO) -> int:
    """How long the last reports are; what follows them is the end of an audit table.

    A summary is not read: its first and last characters show that it is there and whole.

    Args:
        last: the last reports and what follows them, as far as it was read.
        file: the file, just behind it.
    """
    text = "{" + last.decode(errors="surrogateescape")
    _, end = json.JSONDecoder().raw_decode(text)
    length = len(text[1:end].encode(errors="surrogateescape"))
    rest = last[length:]
    if _SUMMARY.match(rest):
        file.seek(max(0, file.seek(0, os.SEEK_END) - _END))
        if _SUMMARY_END.search(file.read()) is None:
            raise ValueError("a summary without an end")
        return length - 1
    try:
        _NO_MORE.decode(b'{"reports":0' + rest + file.read())
    except msgspec.ValidationError as error:
        raise ValueError("reports stands more than once") from error
    return length - 1
