"""Data specs: the options that a user types after a data set's name."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, TypeAlias, TypeVar

import msgspec

from fa_core.errors import UsageError
from fa_core.files.opening import real_path, typed_path
from fa_core.option_values import split_place, unknown_name

Options = TypeVar("Options", bound=msgspec.Struct)

Natural: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Positive: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]


def parse_options(name: str, text: str, defaults: Options) -> Options:
    """The options of a data spec.

    Args:
        name: the data set, for messages.
        text: e.g. ``"alpha=0.5,input=16"``; ``""`` for all defaults.
        defaults: the values of what is not given.

    Raises:
        UsageError: not ``key=value``, an unknown key, or an invalid value.

    >>> parse_options("npz", "std=0.5", Scaling())
    Scaling(mean=(0.0,), std=(0.5,))
    """
    known = defaults.__struct_fields__
    for item in filter(None, text.split(",")):
        key, equals, value = map(str.strip, item.partition("="))
        if not equals:
            raise UsageError(
                f"{item!r} is not key=value", where=name, hint=f"options: {', '.join(known)}"
            )
        if key not in known:
            raise unknown_name(f"option of {name}", key, known)
        given: object = value
        if key in _PER_CHANNEL:
            given = value.split("/")
        try:
            read = msgspec.convert({key: given}, type(defaults), strict=False)
        except ValueError as error:
            what, _, _ = str(error).partition(" - at")
            raise UsageError(f"{key}={value} cannot be used ({what})", where=name) from None
        defaults = msgspec.structs.replace(defaults, **{key: getattr(read, key)})
    return defaults


_PER_CHANNEL = ("mean", "std")


class Scaling(msgspec.Struct, frozen=True):
    """Scaling of pixels x in [0, 1]: (x − mean)/std, per channel or for all channels."""

    mean: tuple[float, ...] = (0.0,)
    std: tuple[Annotated[float, msgspec.Meta(gt=0)], ...] = (1.0,)

    def __post_init__(self) -> None:
        for values in (self.mean, self.std):
            if len(values) not in (1, 3) or not all(map(math.isfinite, values)):
                raise ValueError("give 1 or 3 numbers: 0.49/0.48/0.45")

    def __str__(self) -> str:
        return f"mean {_slashed(self.mean)}, std {_slashed(self.std)}"


def _slashed(values: Iterable[float]) -> str:
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
