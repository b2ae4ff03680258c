"""Python's own `json`, for what msgspec refuses; imported when the first file needs it, not at the start."""

from __future__ import annotations

from typing import Any


def loads(data: bytes, **how: Any) -> Any:
    """Any JSON as Python reads it: with NaN, Infinity and 1e400.

    Raises:
        json.JSONDecodeError: malformed (a ValueError).
        RecursionError: nested too deep.
    """
    import json

    return json.loads(data, **how)
