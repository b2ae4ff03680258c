"""What every analysis returns: a frozen value that can be written as JSON."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen answer. Sequences are tuples; ``None`` means *the data cannot say*, with the reason next to it.

    Where there may be one entry per run they are NumPy arrays that cannot be written: a hundred thousand Python
    numbers take four times the memory. Two answers are equal if all they hold is, and NaN in an array equals NaN.
    """

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return all(_same(getattr(self, name), getattr(other, name)) for name in self.__struct_fields__)

    def __hash__(self) -> int:
        return hash(tuple(map(_hashable, (getattr(self, name) for name in self.__struct_fields__))))

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists and numbers, unrounded."""
        plain: dict[str, Any] = msgspec.to_builtins(self, enc_hook=_plain)
        return plain


def _same(one: object, other: object) -> bool:
    if isinstance(one, np.ndarray) or isinstance(other, np.ndarray):
        return np.array_equal(one, other, equal_nan=True)  # type: ignore[arg-type]  # anything becomes an array
    return bool(one == other)


def _hashable(value: object) -> object:
    return value.tobytes() if isinstance(value, np.ndarray) else value


def _plain(value: object) -> Any:
    """What msgspec does not know, in Python's own types."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise NotImplementedError(f"a {type(value).__name__} in a result")
