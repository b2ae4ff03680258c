"""The scale of the residual stream beside (a): where it grows, how much in all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from fa_core.report.diagnostics import NORM_RATIO_EPS, block_growths


class StreamScale(NamedTuple):
    """The growth of a stream.

    Attributes:
        block: l of the largest growth ‖h_{l+1}‖/‖h_l‖, the first of several.
        largest: that growth.
        deep: the largest growth over l ≥ 1.
        total: ‖h_L‖/‖h_0‖.
    """

    block: int
    largest: float
    deep: float
    total: float


def stream_scale(norms: Sequence[float]) -> StreamScale | None:
    """Where the stream grows, and how much in all.

    Args:
        norms: ‖h_l‖, l = 0..L.

    Returns:
        None for fewer than two blocks, and where a norm is not finite or below 1e-30.

    Source: docs/protocol.md, *Scale without units*.

    >>> stream_scale([0.01, 5.0, 10.0])
    StreamScale(block=0, largest=500.0, deep=2.0, total=1000.0)
    """
    if len(norms) < 3 or not all(map(math.isfinite, norms)) or min(norms) < NORM_RATIO_EPS:
        return None
    growths = block_growths(norms)
    largest = max(growths)
    return StreamScale(growths.index(largest), largest, max(growths[1:]), norms[-1] / norms[0])
