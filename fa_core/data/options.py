"""``key=value,key=value`` after the colon of a data SPEC."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fa_core.errors import UsageError
from fa_core.naming import unknown_name


@dataclass(frozen=True)
class Option:
    """One option of a data SPEC: its default, how its text is read, what it means."""

    default: float
    read: Callable[[str], float]
    meaning: str


def at_least(lowest: int) -> Callable[[str], int]:
    """A reader of whole numbers from `lowest` on."""

    def read(text: str) -> int:
        value = int(text)
        if value < lowest:
            raise ValueError(f"must be at least {lowest}")
        return value

    return read


def parse_options(name: str, text: str, options: Mapping[str, Option]) -> dict[str, float]:
    """Every option's value, given or default.

    Args:
        name: the data set, for messages.
        text: e.g. ``"alpha=0.5,input=16"``; ``""`` for all defaults.
        options: the known options.

    Raises:
        UsageError: not ``key=value``, an unknown key, a value that cannot be read.

    >>> parse_options("synthetic", "input=16", {"input": Option(128, at_least(1), "")})
    {'input': 16}
    """
    values = {key: option.default for key, option in options.items()}
    for item in filter(None, text.split(",")):
        key, equals, value = (part.strip() for part in item.partition("="))
        if not equals:
            raise UsageError(f"{item!r} is not key=value", where=name, hint=f"options: {', '.join(options)}")
        if key not in options:
            raise unknown_name(f"option of {name}", key, options)
        try:
            values[key] = options[key].read(value)
        except ValueError as error:
            raise UsageError(f"{key}={value} cannot be used ({error})", where=name) from None
    return values
