"""Analyses of sets of runs: seeds, sweeps, utility, timelines, differences.

Imports `formats` and `report`; imported by `reporting`, `audit`,
`training` and `fa_tui`, never by `formats`.
"""

from __future__ import annotations

import msgspec
import numpy as np

from fa_core.files.decode import Json


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen result. ``None`` means *the data cannot say*; a note gives the reason.

    Sequences are tuples. Those with an entry per run are read-only NumPy arrays, which take a
    quarter of the memory. Results are equal if their contents are; NaN in an array equals NaN.
    """

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and bytes(self) == bytes(other)

    def __hash__(self) -> int:
        return hash(bytes(self))

    def __bytes__(self) -> bytes:
        return msgspec.msgpack.encode(self, enc_hook=_plain)

    def to_dict(self) -> Json:
        """Plain dicts, lists and numbers, unrounded."""
        plain: Json = msgspec.to_builtins(self, enc_hook=_plain)
        return plain


def _plain(value: object) -> object:
    """NumPy arrays as lists, for msgspec."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise NotImplementedError(f"a {type(value).__name__} in a result")
