"""Data specs: the options behind a data set's name, as a user types them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from fa_core.errors import UsageError
from fa_core.files import real_path, typed_path
from fa_core.option_values import split_place, unknown_name


class Option(NamedTuple):
    """One option of a data spec: its default, and a reader of its text."""

    default: Any
    read: Callable[[str], Any]


def at_least(lowest: int, highest: float = math.inf) -> Callable[[str], int]:
    """A reader of whole numbers from `lowest` to `highest`."""

    def read(text: str) -> int:
        value = int(text)
        if value < lowest:
            raise ValueError(f"must be at least {lowest}")
        if value > highest:
            raise ValueError(f"may be {highest:,} at most")
        return value

    return read


def parse_options(name: str, text: str, options: Mapping[str, Option]) -> dict[str, Any]:
    """Every option's value, given or default.

    Args:
        name: the data set, for messages.
        text: e.g. ``"alpha=0.5,input=16"``; ``""`` for all defaults.
        options: the known options.

    Raises:
        UsageError: not ``key=value``, an unknown key, a value that cannot be read.

    >>> parse_options("synthetic", "input=16", {"input": Option(128, at_least(1))})
    {'input': 16}
    """
    values = {key: option.default for key, option in options.items()}
    for item in filter(None, text.split(",")):
        key, equals, value = map(str.strip, item.partition("="))
        if not equals:
            raise UsageError(
                f"{item!r} is not key=value", where=name, hint=f"options: {', '.join(options)}"
            )
        if key not in options:
            raise unknown_name(f"option of {name}", key, options)
        try:
            values[key] = options[key].read(value)
        except ValueError as error:
            raise UsageError(f"{key}={value} cannot be used ({error})", where=name) from None
    return values


def per_channel(lowest: float) -> Callable[[str], tuple[float, ...]]:
    """A reader of ``"0.5/0.4/0.3"``, or of one number for all channels, each above `lowest`."""

    def read(text: str) -> tuple[float, ...]:
        values = tuple(float(part) for part in text.split("/"))
        if len(values) not in (1, 3) or not min(values) > lowest:
            raise ValueError(f"give 1 or 3 numbers above {lowest:g}: 0.49/0.48/0.45")
        return values

    return read


SCALING = {
    # is subtracted from pixels in [0, 1], per channel
    "mean": Option((0.0,), per_channel(-math.inf)),
    # divides them then
    "std": Option((1.0,), per_channel(0)),
}


def scaled_by(options: Mapping[str, Any]) -> str:
    """The `SCALING` among a data set's options as text."""
    parts = []
    for name in SCALING:
        values = "/".join(f"{value:g}" for value in options[name])
        parts.append(f"{name} {values}")
    return ", ".join(parts)


def folder_of(
    spec: str, text: str, options: Mapping[str, Option]
) -> tuple[Path, dict[str, Any], str]:
    """The folder and options in ``DIR,key=value,raw``, and the spec with an absolute path; ``raw``
    is mean 0, std 1.

    Raises:
        UsageError: no folder named, or as `parse_options`.
    """
    name = spec.partition(":")[0]
    place, given = split_place(text)
    if not place:
        raise UsageError(f"{name} needs a folder", hint=f"write {name}:DIR")
    folder = real_path(typed_path(place))
    values = parse_options(name, given.replace(",raw", ",mean=0,std=1"), options)
    return folder, values, f"{name}:{folder}{given}"
