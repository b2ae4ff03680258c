"""One JSON file as a document: an object, a list, or lines.

A file with a repeated key is refused as a whole (`fa_core.files.decode`). Formats read a document
part by part, so that a part of the wrong shape affects no other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from fa_core.errors import FaError, UnreadableInput
from fa_core.files.decode import Json, RepeatedKey, as_utf8, loads, reading, reason_of
from fa_core.files.opening import check_room
from fa_core.formats.rows import AuditRow, Problem
from fa_core.formats.trace import Trace

Node: TypeAlias = Any
"""A decoded JSON value."""

Finding: TypeAlias = AuditRow | Trace | Problem
"""Results of reading a file."""

T = TypeVar("T")


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A JSON file.

    Attributes:
        path: the file.
        kind: ``"object"``, ``"list"``, or ``"lines"`` (one JSON value per line).
        data: the file's bytes in UTF-8.
        members: of an object.
        items: of a list with index, or of lines with line number (from 1).
        problems: lines that are not JSON.
        unfinished: whether the last line is incomplete.
        at: JSON path of the list in the file.
        columns: of a log, as the user named them (`fa_core.formats.log_columns`).
        root: the named file or folder that it was found in.
    """

    path: str
    kind: Literal["object", "list", "lines"]
    data: bytes = b""
    members: dict[str, Node] = {}
    items: list[tuple[int, Node]] = []
    problems: list[Problem] = []
    unfinished: bool = False
    at: str = "$"
    columns: Mapping[str, str] = {}
    root: str = ""

    def place(self, index: int) -> str:
        """Location of an item for messages: ``FILE: line 3`` or ``FILE: $[3]``."""
        if self.kind == "lines":
            return f"{self.path}: line {index}"
        return f"{self.path}: {self.at}[{index}]"

    def listed(self, name: str) -> Document | None:
        """A list member as a document; None if there is none."""
        items = self.members.get(name)
        if not isinstance(items, list):
            return None
        return Document(path=self.path, kind="list", items=list(enumerate(items)), at=f"$.{name}")

    def objects(self, limit: int | None = None) -> Iterator[tuple[int, Json]]:
        """The JSON objects among the items, with their index."""
        for index, item in self.items[:limit]:
            if isinstance(item, dict):
                yield index, item


def open_document(path: str, data: bytes) -> Document:
    """Decode a file's bytes as a document.

    Raises:
        UnreadableInput: empty, truncated or malformed (with the line), a repeated key, or neither
            object nor list.
    """
    with reading(path):
        data = as_utf8(data)
    first = data.lstrip()[:1]
    if not first:
        raise UnreadableInput("empty file", where=path, hint="write it again or leave it out")
    try:
        value = loads(data)
    except ValueError as error:
        if first == b"{" and _one_per_line(data):
            return _lines(path, data)
        raise _malformed(path, error) from error
    if isinstance(value, dict):
        return Document(path=path, kind="object", data=data, members=value)
    if isinstance(value, list):
        check_entries(path, len(value), len(data))
        return Document(path=path, kind="list", data=data, items=list(enumerate(value)))
    raise UnreadableInput("neither a JSON object nor a list", where=path)


def convert(node: Node, kind: type[T], where: str) -> T:
    """A part of a document as a typed value.

    Args:
        node: the part.
        kind: its type.
        where: file and JSON path of the node, for the message.

    Raises:
        UnreadableInput: invalid, or of another shape; the message has the path inside the node.
    """
    try:
        return msgspec.convert(node, kind)
    except ValueError as error:
        what, _, inner = str(error).partition(" - at `$")
        raise UnreadableInput(
            what, where=where + inner.rstrip("`"), hint="see docs/formats.md"
        ) from error


ENTRY_BYTES, CELL_BYTES = 900, 20
"""Bytes of memory per decoded entry of a log, and per cell of a table."""


def check_entries(path: str, entries: int, size: int, cells: int = 0) -> None:
    """Refuse a log whose entries exceed memory; each keeps its place, a text with the path.

    Raises:
        UnreadableInput: as `check_room`.
    """
    check_room((ENTRY_BYTES + len(path)) * entries + CELL_BYTES * cells, size, where=path)


def attempt(path: str, read: Callable[[], T], what: str) -> T | Problem:
    """The result of reading a part of a file, or the problem if it is skipped.

    Args:
        path: the file.
        read: reads the part; may raise a `FaError`.
        what: name of the part.
    """
    try:
        return read()
    except FaError as error:
        return Problem(path, f"{error}; the {what} is skipped")


def _malformed(path: str, error: ValueError) -> UnreadableInput:
    """The error for a file that is not JSON."""
    if isinstance(error, RepeatedKey):
        return UnreadableInput(str(error), where=path, hint="only one of its values can be meant")
    if not isinstance(error, json.JSONDecodeError):
        return UnreadableInput(f"malformed JSON: {reason_of(error)}", where=path)
    if error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated"):
        lines = error.doc.count("\n") + 1
        what = f"truncated JSON: it ends inside a value at line {lines}"
        return UnreadableInput(what, where=path, hint="copy the file again or write it again")
    place = f"{path}: line {error.lineno} column {error.colno}"
    return UnreadableInput(f"malformed JSON: {error.msg}", where=place, hint="correct the file")


def _one_per_line(data: bytes) -> bool:
    """Whether the first line that is not blank is a whole JSON object and more lines follow."""
    head, _, rest = data.lstrip().partition(b"\n")
    if not rest.strip():
        return False
    try:
        return isinstance(loads(head), dict)
    except ValueError:
        return False


def _lines(path: str, data: bytes) -> Document:
    check_entries(path, data.count(b"\n"), len(data))
    items: list[tuple[int, Node]] = []
    bad: dict[int, str] = {}
    lines = data.split(b"\n")
    for number, line in enumerate(lines, start=1):
        try:
            items += [(number, loads(line))] if line.strip() else []
        except RepeatedKey as error:  # noqa: PERF203 (a bad line spoils no other)
            raise _malformed(f"{path}: line {number}", error) from error
        except ValueError as error:
            bad[number] = str(error)
    unfinished = bad.pop(len(lines), None) is not None
    problems = [
        Problem(path, f"{path}: line {number}: malformed JSON: {error}; the line is skipped")
        for number, error in bad.items()
    ]
    return Document(
        path=path, kind="lines", data=data, items=items, problems=problems, unfinished=unfinished
    )
