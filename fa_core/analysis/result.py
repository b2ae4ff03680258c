"""What every analysis returns: a frozen value that can be written as JSON."""

from __future__ import annotations

from typing import Any

import msgspec


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen answer. Sequences are tuples; ``None`` means *the data cannot say*, with the reason beside it."""

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists and numbers, unrounded."""
        plain: dict[str, Any] = msgspec.to_builtins(self)
        return plain
