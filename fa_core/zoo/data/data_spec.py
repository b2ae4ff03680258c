"""Data specs: the options that a user types after a data set's name."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from fa_core.errors import UsageError
from fa_core.files.opening import real_path, typed_path
from fa_core.option_values import split_place, unknown_name

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
Options = TypeVar("Options", bound="DataclassInstance")


def option(default: T, read: Callable[[str], T]) -> T:
    """A dataclass field that is an option of a data spec.

    Args:
        default: its value if the spec does not give one.
        read: text → value, or ValueError.
    """
    value: T = field(default=default, metadata={"read": read})
    return value


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


def parse_options(name: str, text: str, defaults: Options) -> Options:
    """The options of a data spec.

    Args:
        name: the data set, for messages.
        text: e.g. ``"alpha=0.5,input=16"``; ``""`` for all defaults.
        defaults: a dataclass of `option` fields.

    Raises:
        UsageError: not ``key=value``, an unknown key, or an invalid value.

    >>> parse_options("npz", "std=0.5", Scaling())
    Scaling(mean=(0.0,), std=(0.5,))
    """
    readers = {known.name: known.metadata["read"] for known in fields(defaults)}
    values = {}
    for item in filter(None, text.split(",")):
        key, equals, value = map(str.strip, item.partition("="))
        if not equals:
            hint = f"options: {', '.join(readers)}"
            raise UsageError(f"{item!r} is not key=value", where=name, hint=hint)
        if key not in readers:
            raise unknown_name(f"option of {name}", key, readers)
        try:
            values[key] = readers[key](value)
        except ValueError as error:
            what = f"{key}={value} cannot be used ({error})"
            raise UsageError(what, where=name) from None
    return replace(defaults, **values)


def per_channel(lowest: float) -> Callable[[str], tuple[float, ...]]:
    """A reader of one number, or of three such as ``"0.5/0.4/0.3"``, all above `lowest`."""

    def read(text: str) -> tuple[float, ...]:
        values = tuple(map(float, text.split("/")))
        if len(values) not in (1, 3) or not min(values) > lowest:
            raise ValueError(f"give 1 or 3 numbers above {lowest:g}: 0.49/0.48/0.45")
        return values

    return read


@dataclass(frozen=True)
class Scaling:
    """Scaling of pixels x in [0, 1]: (x − mean)/std, per channel or for all channels."""

    mean: tuple[float, ...] = option((0.0,), per_channel(-math.inf))
    std: tuple[float, ...] = option((1.0,), per_channel(0))

    def __str__(self) -> str:
        return f"mean {_joined(self.mean)}, std {_joined(self.std)}"


def _joined(values: tuple[float, ...]) -> str:
    """Values in the form that `per_channel` reads."""
    return "/".join(f"{value:g}" for value in values)


def parse_folder(spec: str, text: str, defaults: Options) -> tuple[Path, Options, str]:
    """Parse ``DIR,key=value,raw``; ``raw`` means mean 0, std 1.

    Args:
        spec: the whole data spec.
        text: the spec after its first colon.
        defaults: as for `parse_options`.

    Returns:
        The folder, the options, and the spec with an absolute path.

    Raises:
        UsageError: no folder named, or as `parse_options`.
    """
    name = spec.partition(":")[0]
    place, given = split_place(text)
    if not place:
        raise UsageError(f"{name} needs a folder", hint=f"write {name}:DIR")
    folder = real_path(typed_path(place))
    written_out = given.replace(",raw", ",mean=0,std=1")
    options = parse_options(name, written_out, defaults)
    return folder, options, f"{name}:{folder}{given}"
