"""What an audit table says about sets of runs: seeds, sweeps, utility, margins, timelines.

Imports formats and judged reports; imported by `reporting`,
`training` and `fa_tui`, never by `formats`.
"""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen answer. Sequences are tuples; ``None`` means *the data cannot say*, with the reason
    next to it.

    Where there may be one entry per run they are NumPy arrays that cannot be written: a hundred
    thousand Python numbers take four times the memory. Two answers are equal if all they hold is,
    and NaN in an array equals NaN.
    """

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and bytes(self) == bytes(other)

    def __hash__(self) -> int:
        return hash(bytes(self))

    def __bytes__(self) -> bytes:
        return msgspec.msgpack.encode(self, enc_hook=_plain)

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists and numbers, unrounded."""
        plain: dict[str, Any] = msgspec.to_builtins(self, enc_hook=_plain)
        return plain


def _plain(value: object) -> Any:
    """What msgspec does not know, in Python's own types."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise NotImplementedError(f"a {type(value).__name__} in a result")
