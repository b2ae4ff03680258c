"""Lists in sentences."""

from __future__ import annotations

from collections.abc import Collection
from itertools import islice


def listed(names: Collection[object], most: int = 8) -> str:
    """Names with commas, at most so many, and how many more there are.

    >>> listed(["a", "b"]), listed("abcdef", most=4)
    ('a, b', 'a, b, c, d and 2 more')
    """
    rest = len(names) - most
    return ", ".join(str(name) for name in islice(names, most)) + (f" and {rest} more" if rest > 0 else "")
