"""Γ over a network's deep layers as one number; plain Python, so that a screen can show it without NumPy."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def deep_gamma(credit: Mapping[str, Any] | None) -> float:
    """Mean of a credit table's Γ_l over l ≥ 1; NaN where it is missing or undefined.

    >>> deep_gamma({"gamma": [0.9, 0.1, 0.3]})
    0.2
    """
    layers = (credit or {}).get("gamma")
    if not isinstance(layers, (list, tuple)):
        return math.nan
    deep = [float(value) for value in layers[1:] if isinstance(value, (int, float)) and math.isfinite(value)]
    return sum(deep) / len(deep) if deep else math.nan
