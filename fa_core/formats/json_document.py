"""One JSON file, opened one level deep: its members or items stay undecoded until a format asks.

msgspec decodes four times faster than json and names the path of what is wrong, but refuses the NaN and
Infinity that Python writes and diverged runs contain; where it refuses, json reads.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any, Literal, TypeAlias, TypeVar

import msgspec

from fa_core.decode import RepeatedKeys, checked, loads
from fa_core.errors import FaError, UnreadableInput
from fa_core.rows import AuditRow, Problem
from fa_core.trace import Trace

Node: TypeAlias = Any
"""A JSON value: `msgspec.Raw` (not decoded yet) or a Python object."""

Finding: TypeAlias = AuditRow | list[AuditRow] | Trace | Problem
"""What reading a file yields."""

T = TypeVar("T")


class _Table(msgspec.Struct):
    reports: dict[str, msgspec.Raw]


_TABLE = msgspec.json.Decoder(_Table)
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ITEMS = msgspec.json.Decoder(list[msgspec.Raw])
_HEAD = 256
_REPORTS = b'"reports"'
_MASKS = {b"NaN": b"9e7", b"Infinity": b"91827364"}


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A JSON file one level deep.

    Attributes:
        path: the file.
        kind: ``"object"``, ``"list"``, or ``"lines"`` (one JSON value per line).
        data: the file's bytes in UTF-8.
        members: of an object.
        items: of a list, with their index; or of lines, with their line number (from 1).
        problems: lines that are no JSON.
        unfinished: the last line was half written.
        at: where the list is in the file.
    """

    path: str
    kind: Literal["object", "list", "lines"]
    data: bytes = b""
    members: dict[str, Node] = {}
    items: list[tuple[int, Node]] = []
    problems: list[Problem] = []
    unfinished: bool = False
    at: str = "$"

    def place(self, index: int) -> str:
        """Where an item is, for messages: ``FILE: line 3`` or ``FILE: $[3]``."""
        return f"{self.path}: line {index}" if self.kind == "lines" else f"{self.path}: {self.at}[{index}]"

    def objects(self, limit: int | None = None) -> Iterator[tuple[int, dict[str, Any]]]:
        """The items that are JSON objects, decoded, with their index."""
        for index, item in self.items[:limit]:
            value = plain(item)
            if isinstance(value, dict):
                yield index, value


def open_document(path: str, data: bytes) -> Document:
    """A file's bytes as a document.

    Raises:
        UnreadableInput: empty, truncated or malformed (with the line), or neither object nor list.
    """
    data = _as_utf8(path, data)
    first = data.lstrip()[:1]
    if not first:
        raise UnreadableInput("empty file", where=path, hint="write it again or leave it out")
    try:
        if data.count(_REPORTS) > 1:
            return _by_json(path, data)
        if first == b"{" and _REPORTS in data[:_HEAD]:
            with suppress(msgspec.ValidationError):  # one pass over a table of a hundred megabytes instead of two
                return Document(path=path, kind="object", data=data, members={"reports": _reports(data)})
        if first == b"{":
            members = _MEMBERS.decode(data) if _may_be_table(data) else loads(data)
            return Document(path=path, kind="object", data=data, members=members)
        if first == b"[":
            return Document(path=path, kind="list", data=data, items=list(enumerate(_ITEMS.decode(data))))
    except (ValueError, RecursionError):
        pass
    return _lines(path, data) if first == b"{" and _one_per_line(data) else _by_json(path, data)


def _may_be_table(data: bytes) -> bool:
    """Whether an object may hold several reports: its members stay undecoded, and a key twice is one more report."""
    return _REPORTS in data or max(data.count(b'"method_name"'), data.count(b'"residual_norms"')) > 1


def _reports(data: bytes) -> dict[str, msgspec.Raw]:
    """The reports of an audit table, not decoded; those of diverged runs may hold NaN and Infinity.

    msgspec refuses these literals, so it splits a copy of the text that has numbers of the same length in their
    places; the members are views of the text itself.

    Raises:
        msgspec.ValidationError: no object of reports.
        ValueError: malformed, or to be read slowly: a key holds one of these numbers, or occurs twice.
    """
    try:
        return _TABLE.decode(data).reports
    except msgspec.DecodeError as error:
        if isinstance(error, msgspec.ValidationError) or not (b"NaN" in data or b"Infinity" in data):
            raise
    masked = data
    for literal, number in _MASKS.items():
        masked = masked.replace(literal, number)
    found = _TABLE.decode(masked).reports
    if any(number.decode() in key for key in found for number in _MASKS.values()):
        raise ValueError("a key holds one of the numbers that replace NaN and Infinity")
    view = memoryview(data)
    end = 0
    for key, value in found.items():
        start = masked.index(bytes(value), end)
        end = start + len(memoryview(value))
        found[key] = msgspec.Raw(view[start:end])
    return found


def plain(node: Node) -> Any:
    """A node as Python objects; None if it cannot be decoded."""
    try:
        return loads(bytes(node)) if isinstance(node, msgspec.Raw) else node
    except ValueError:
        return None


def convert(node: Node, kind: type[T], where: str) -> T:
    """A node as a typed value.

    Args:
        node: undecoded or plain.
        kind: the type to read it as.
        where: file and JSON path of the node, for the message.

    Raises:
        UnreadableInput: of another shape; the message names the path inside the node.
    """
    try:
        if isinstance(node, msgspec.Raw):
            node = loads(bytes(node))
        elif isinstance(node, dict):
            checked(node)
        return msgspec.convert(node, kind)
    except ValueError as error:
        raise shape_error(error, where) from error


def attempt(read: Callable[[], T], path: str, what: str) -> T | Problem:
    """What a part of a file is read as, or the problem that it is skipped with.

    Args:
        read: reads it; it may raise a `FaError`.
        path: the file.
        what: the part.
    """
    try:
        return read()
    except FaError as error:
        return Problem(path, f"{error}; the {what} is skipped")


def convert_spelled(found: dict[str, Any], kind: type[T], where: str, spelled: Mapping[str, str]) -> T:
    """`convert`; a message has the file's spelling of a field: `.residual_norms[1]` as `.h_norms[1]`."""
    try:
        return convert(found, kind, where)
    except UnreadableInput as error:
        inner = error.where[len(where) :].lstrip(".")
        name = re.split(r"[.\[]", inner, maxsplit=1)[0]
        if name not in spelled:
            raise
        separator = "" if where.endswith("]") else ": $"
        place = f"{where}{separator}.{spelled[name]}{inner[len(name) :]}"
        raise UnreadableInput(error.what, where=place, hint=error.hint) from error


def shape_error(error: Exception, where: str) -> UnreadableInput:
    """A decoding error with the JSON path moved into ``where``: `$.a` in `FILE: $.b` is `FILE: $.b.a`."""
    what, found, inner = str(error).partition(" - at `$")
    return UnreadableInput(what, where=where + inner.rstrip("`") if found else where, hint="see `fa-tui schema`")


def _as_utf8(path: str, data: bytes) -> bytes:
    """Without a byte order mark; UTF-16 (a Windows shell's redirection) becomes UTF-8."""
    if data.startswith(codecs.BOM_UTF8):
        return data[len(codecs.BOM_UTF8) :]
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        try:
            return data.decode("utf-16").encode()
        except UnicodeError as error:
            raise UnreadableInput("not text in UTF-16, as its first bytes say", where=path) from error
    return data


def _by_json(path: str, data: bytes) -> Document:
    import json

    try:
        value = loads(data, repeats=_may_be_table(data) and data.lstrip()[:1] == b"{")
    except json.JSONDecodeError as error:
        if error.pos >= len(error.doc.rstrip()) or error.msg.startswith("Unterminated"):
            raise UnreadableInput(
                f"truncated JSON: it ends inside a value at line {error.doc.count(chr(10)) + 1}",
                where=path,
                hint="copy the file again or write it again",
            ) from error
        where = f"{path}: line {error.lineno} column {error.colno}"
        raise UnreadableInput(f"malformed JSON: {error.msg}", where=where, hint="correct the file") from error
    except UnicodeDecodeError as error:
        raise UnreadableInput(f"not UTF-8 text at byte {error.start}", where=path) from error
    except ValueError as error:
        raise UnreadableInput(f"malformed JSON: {error}", where=path) from error
    if isinstance(value, RepeatedKeys) and "reports" in value:
        raise UnreadableInput("malformed JSON: a key of the table stands more than once", where=path)
    if isinstance(value, dict):
        return Document(path=path, kind="object", data=data, members=value)
    if isinstance(value, list):
        return Document(path=path, kind="list", data=data, items=list(enumerate(value)))
    raise UnreadableInput("neither a JSON object nor a list", where=path)


def _one_per_line(data: bytes) -> bool:
    """Whether the first line with something on it is a whole JSON object and more lines follow."""
    head, newline, rest = data.lstrip().partition(b"\n")
    if not newline or not rest.strip():
        return False
    try:
        return isinstance(loads(head), dict)
    except ValueError:
        return False


def _lines(path: str, data: bytes) -> Document:
    items: list[tuple[int, Node]] = []
    problems: list[Problem] = []
    unfinished = False
    lines = data.split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            items.append((number, loads(line)))
        except ValueError as error:
            if number == len(lines):
                unfinished = True
            else:
                problems.append(Problem(path, f"{path}: line {number}: malformed JSON: {error}; the line is skipped"))
    return Document(path=path, kind="lines", data=data, items=items, problems=problems, unfinished=unfinished)
