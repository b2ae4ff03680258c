"""Analyses of sets of runs: seeds, sweeps, utility, timelines, differences.

Imports `formats` and `report`; imported by `reporting`, `audit`,
`training` and `fa_tui`, never by `formats`.
"""

from __future__ import annotations

import msgspec

from fa_core.files.decode import Json


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen result. ``None`` means *the data cannot say*; a note gives the reason."""

    def to_dict(self) -> Json:
        """Plain dicts, lists and numbers, unrounded."""
        plain: Json = msgspec.to_builtins(self)
        return plain
