"""Safe JSON decoding: validated values, or a one-line error.

`loads` guarantees at most `DEEPEST` levels, integers of 64 bits (longer ones are floats, possibly
infinite), sanitized texts, and unique keys.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from fa_core.errors import FaError, UnreadableInput
from fa_core.files import check_room
from fa_core.sanitize import WHITE_SPACE, may_need_sanitizing, sanitize

Json: TypeAlias = dict[str, Any]
"""A decoded JSON object."""

DEEPEST = 64
"""Maximum levels of arrays and objects; this project's reports have 5."""

MANY, VALUE_BYTES = 1 << 24, 72
"""Bytes of JSON from which free memory is checked, and maximum bytes of a value."""

LARGEST = 1 << 63
"""Bound on the absolute value of integers."""

TOO_DEEP = "nested too deep"

_HAS_NO_KEYS = {float, bool, type(None)}


class RepeatedKeys(Json):
    """A JSON object with repeated keys.

    Attributes:
        pairs: all its keys and values, in order.
    """

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


def loads(data: bytes, *, in_parts: bool = False) -> Any:
    """Decode JSON, including NaN and Infinity as written by Python.

    Args:
        data: UTF-8.
        in_parts: whether the caller checks the parts with `checked` instead, so that repeated keys
            or deep nesting are errors of a part alone. An object with repeated keys is then a
            `RepeatedKeys`.

    Raises:
        ValueError: malformed, nested too deep, or a repeated key; a `json.JSONDecodeError` has the
            position.
        UnreadableInput: more values than memory holds.
    """
    if len(data) > MANY:
        values = sum(data.count(sign) for sign in (b",", b"{", b"["))
        check_room(VALUE_BYTES * values, len(data))
    if not may_need_sanitizing(data):
        try:
            value = msgspec.json.decode(data)
            # colons occur after keys and within texts: fewer were decoded if a key was repeated
            if checked(value) >= data.count(b":"):
                return value
        except (ValueError, RecursionError):
            pass
    import json  # imported for the first file that needs it

    try:
        value = _sanitized(json.loads(data.decode(), parse_int=integer, object_pairs_hook=_object))
    except RecursionError as error:
        raise ValueError(TOO_DEEP) from error
    if not in_parts:
        checked(value)
    return value


def checked(value: object, room: int = DEEPEST) -> int:
    """Check a decoded value; returns its number of colons: keys, and colons within texts.

    Raises:
        ValueError: nested too deep, a repeated key, or an integer of more than 64 bits.
    """
    if isinstance(value, str):
        return value.count(":")
    if isinstance(value, int) and abs(value) >= LARGEST:
        raise ValueError("an integer of more than 64 bits")
    if not isinstance(value, (dict, list)):
        return 0
    if not room:
        raise ValueError(TOO_DEEP)
    if isinstance(value, list):
        if _HAS_NO_KEYS.issuperset(map(type, value)):
            return 0
        return sum(checked(member, room - 1) for member in value)
    if isinstance(value, RepeatedKeys):
        names = [name for name, _ in value.pairs]
        raise ValueError(f"the key {max(names, key=names.count)!r} stands more than once")
    found = len(value)
    for name, member in value.items():
        found += name.count(":")
        if type(member) not in _HAS_NO_KEYS:
            found += checked(member, room - 1)
    return found


def _object(pairs: list[tuple[str, object]]) -> Json:
    pairs = [(sanitize(name, WHITE_SPACE), _sanitized(value)) for name, value in pairs]
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    return RepeatedKeys(pairs)


def _sanitized(value: object) -> object:
    """A value with sanitized texts; its objects are sanitized already."""
    if isinstance(value, list):
        return [_sanitized(member) for member in value]
    if isinstance(value, str):
        return sanitize(value, WHITE_SPACE)
    return value


def integer(digits: str) -> int | float:
    """Parse an integer; a float beyond 64 bits.

    >>> integer("42"), integer("1" + 400 * "0")
    (42, inf)
    """
    if len(digits) <= len(str(-LARGEST)) and abs(int(digits)) < LARGEST:
        return int(digits)
    return float(digits)


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
        return f"not UTF-8 at byte {error.start}"
    text = (str(error).strip() or "it ends too early").splitlines()[0][:200]
    if type(error) is ValueError:
        return text
    return f"{type(error).__name__}: {text}"
