"""Safe JSON decoding: validated values, or a one-line error.

`loads` guarantees at most `DEEPEST` levels, integers of 64 bits (longer ones are floats, possibly
infinite), sanitized texts, and unique keys.
"""

from __future__ import annotations

import codecs
import gc
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import msgspec

from fa_core.errors import FaError, UnreadableInput
from fa_core.files.opening import check_room, read_file
from fa_core.sanitize import WHITE_SPACE, may_need_sanitizing, sanitize

T = TypeVar("T")

Json: TypeAlias = dict[str, Any]
"""A decoded JSON object."""


def without(members: Mapping[str, Any], *names: str) -> Json:
    """The members of an object but some.

    >>> without({"a": 1, "b": 2}, "b", "c")
    {'a': 1}
    """
    return {name: value for name, value in members.items() if name not in names}


DEEPEST = 64
"""Maximum levels of arrays and objects; this project's reports have 5."""

MANY, VALUE_BYTES = 1 << 24, 72
"""Bytes of JSON from which free memory is checked, and maximum bytes of a value."""

LARGEST = 1 << 63
"""Bound on the absolute value of integers."""

_DIGITS = len(str(-LARGEST))

TOO_DEEP = "nested too deep"


class RepeatedKey(ValueError):
    """A key that stands more than once in a JSON object: one of its values would be lost."""


_WIDE = {
    "utf-16": re.compile(rb"\xff\xfe|\xfe\xff"),
    "utf-16-le": re.compile(rb"(?:[\t\n\r -~]\0){4}"),
    "utf-16-be": re.compile(rb"(?:\0[\t\n\r -~]){4}"),
}


def as_utf8(data: bytes, errors: str = "strict") -> bytes:
    """A text as UTF-8 without a byte order mark; UTF-16 comes from other systems' shells.

    Args:
        data: the text, or the start of it.
        errors: as of `bytes.decode`.

    Raises:
        UnicodeDecodeError: not text in UTF-16, as its first bytes say.

    >>> as_utf8("loss,epoch".encode("utf-16-le")), as_utf8("é".encode("utf-8-sig"))
    (b'loss,epoch', b'\xc3\xa9')
    """
    for encoding, start in _WIDE.items():
        if start.match(data):
            return data.decode(encoding, errors).encode()
    return data.removeprefix(codecs.BOM_UTF8)


def loads(data: bytes) -> Any:
    """Decode JSON, including NaN and Infinity as written by Python.

    Args:
        data: as for `as_utf8`.

    Raises:
        ValueError: malformed, not text in UTF-8 or UTF-16, nested too deep, or a repeated key
            (`RepeatedKey`); a `json.JSONDecodeError` has the position.
        UnreadableInput: more values than memory holds.
    """
    data = as_utf8(data)
    if len(data) > MANY:
        values = sum(data.count(sign) for sign in (b",", b"{", b"["))
        check_room(VALUE_BYTES * values, len(data))
    try:
        value: object = _DECODER.decode(data.decode())
    except RecursionError as error:
        raise ValueError(TOO_DEEP) from error
    checked(value)
    if may_need_sanitizing(data):
        return _sanitized(value)
    return value


@contextmanager
def without_collector() -> Iterator[None]:
    """Context without Python's search for cycles, which looks at all values again and again.

    Decoded values hold no cycles.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def checked(value: object) -> None:
    """Check a decoded value.

    Raises:
        ValueError: nested too deep, or an integer of more than 64 bits.
    """
    level: list[Any] = [[value]]
    for _ in range(DEEPEST + 1):
        inner = []
        for container in level:
            for member in container.values() if type(container) is dict else container:
                kind = type(member)
                if kind is float or kind is str:  # nearly all of them
                    continue
                if kind is dict or kind is list:
                    inner.append(member)
                elif kind is int and abs(member) >= LARGEST:
                    raise ValueError("an integer of more than 64 bits")
        if not inner:
            return
        level = inner
    raise ValueError(TOO_DEEP)


def _members(pairs: list[tuple[str, object]]) -> Json:
    """The members of a JSON object as they are decoded, with whatever spelling of their keys."""
    members = dict(pairs)
    if len(members) < len(pairs):
        ((name, _),) = Counter(name for name, _ in pairs).most_common(1)
        raise RepeatedKey(f"the key {name!r} stands more than once")
    return members


def _sanitized(value: object) -> object:
    """A value with sanitized texts; no two keys may become one."""
    if isinstance(value, dict):
        pairs = value.items()
        return _members([(sanitize(name, WHITE_SPACE), _sanitized(one)) for name, one in pairs])
    if isinstance(value, list):
        return [_sanitized(member) for member in value]
    if isinstance(value, str):
        return sanitize(value, WHITE_SPACE)
    return value


LARGEST_TOML = 1 << 20
"""Maximum bytes of a TOML file."""

_PLACE = re.compile(r" \(at (line \d+)(?:, .*)?\)")


def toml(text: str) -> Json:
    """Decode TOML.

    Raises:
        ValueError: malformed, nested too deep, or an integer of more than 64 bits.
    """
    # parsers are quadratic in the parts of a key, which stand in one line
    if max((line.count(".") for line in text.split("\n")), default=0) > DEEPEST:
        raise ValueError(TOO_DEEP)
    try:
        tables: Json = msgspec.toml.decode(text)
    except RecursionError as error:
        raise ValueError(TOO_DEEP) from error
    checked(tables)
    return tables


def read_toml(path: Path, hint: str = "") -> tuple[str, Json]:
    """The text of a TOML file, and its tables.

    Raises:
        UnreadableInput: not readable, or not TOML (with the line).
    """
    with reading(path, "not TOML", hint):
        text = as_utf8(read_file(path, LARGEST_TOML)).decode()
        try:
            return text, toml(text)
        except msgspec.DecodeError as error:
            what = str(error)
            where = str(path)
            if found := _PLACE.search(what):
                where += f": {found[1]}"
            fault = _PLACE.sub("", what)
            raise UnreadableInput(f"not TOML: {fault}", where=where, hint=hint) from error


def table_beside(module: str | Path, kind: type[T]) -> T:
    """The JSON table of a module's own name."""
    return msgspec.json.decode(Path(module).with_suffix(".json").read_bytes(), type=kind)


def integer(digits: str) -> int | float:
    """Parse an integer; a float beyond 64 bits.

    >>> integer("42"), integer("1" + 400 * "0")
    (42, inf)
    """
    if len(digits) <= _DIGITS:
        number = int(digits)
        if abs(number) < LARGEST:
            return number
    return float(digits)


_DECODER = json.JSONDecoder(parse_int=integer, object_pairs_hook=_members)


@contextmanager
def reading(path: Path | str, what: str = "is damaged", hint: str = "") -> Iterator[None]:
    """Context of a parser, which turns all of its exceptions into one-line errors.

    Args:
        path: the file.
        what: start of the message.
        hint: what to do about it.

    Raises:
        UnreadableInput: with the file and the first line of the reason.
    """
    try:
        yield
    except FaError as error:
        raise type(error)(error.what, where=error.where or path, hint=error.hint) from error
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise UnreadableInput(f"cannot be read ({error.strerror})", where=path) from error
        raise UnreadableInput(f"{what} ({reason_of(error)})", where=path, hint=hint) from error


def reason_of(error: BaseException) -> str:
    """The first line of a parser's exception, after its type unless that is a ValueError.

    >>> (reason_of(ValueError("no number")), reason_of(IndexError("list index out of range")),
    ...     reason_of(EOFError()))
    ('no number', 'IndexError: list index out of range', 'EOFError: it ends too early')
    """
    if isinstance(error, RecursionError):
        return TOO_DEEP
    if isinstance(error, MemoryError):
        return "more than memory holds"
    if isinstance(error, UnicodeDecodeError):
        return f"not {error.encoding.upper()} at byte {error.start}"
    text = (str(error).strip() or "it ends too early").splitlines()[0][:200]
    if type(error) is ValueError:
        return text
    return f"{type(error).__name__}: {text}"
