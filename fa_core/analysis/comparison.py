"""Layer-by-layer comparison of runs: their spread, and the first layer where they diverge."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from fa_core.analysis import Result
from fa_core.analysis.seeds import Stat, stat_of

PARTS_AT = 10.0
"""Runs diverge where the largest value exceeds ten times the smallest: more than seed noise."""


class LayerSpread(Result, frozen=True, kw_only=True):
    """One layer's norm (or growth) in several runs.

    Attributes:
        layer: l.
        values: one per run, in the order given; None where a run has no such layer.
        ratio: largest over smallest; inf if some are finite and others NaN or ±inf, or if the
            smallest is 0; None with fewer than two values, or with no finite one.
    """

    layer: int
    values: tuple[float | None, ...]
    ratio: float | None

    def stat(self, geometric: bool) -> Stat:
        """Mean and spread of the values, as over seeds; meaningful for runs of one network."""
        known = [value for value in self.values if value is not None]
        return stat_of(np.array(known), geometric, marked=True)


def across_runs(curves: Sequence[Sequence[float]]) -> tuple[LayerSpread, ...]:
    """The runs' values per layer, with their ratio r_l = max_i x_il / min_i x_il.

    Args:
        curves: per run, one value ≥ 0 per layer; runs may differ in depth: a layer is compared
            among the runs that have it.

    Returns:
        One entry per layer of the deepest run.

    >>> [layer.ratio for layer in across_runs([[8.0, 10.0, 20.0], [8.0, 500.0]])]
    [1.0, 50.0, None]
    """
    layers = []
    for layer, values in enumerate(zip_longest(*curves)):
        layers.append(LayerSpread(layer=layer, values=values, ratio=_ratio(values)))
    return tuple(layers)


def first_parting(layers: Sequence[LayerSpread], factor: float = PARTS_AT) -> LayerSpread | None:
    """The first layer l with r_l > factor; None if there is none.

    Args:
        layers: from `across_runs`.
        factor: largest ratio of largest to smallest value that counts as agreement, ≥ 1.

    >>> first_parting(across_runs([[8.0, 10.0, 20.0], [8.0, 500.0, 30.0]])).layer
    1
    """
    for layer in layers:
        if layer.ratio is not None and layer.ratio > factor:
            return layer
    return None


def _ratio(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    finite = [value for value in known if math.isfinite(value)]
    if len(known) < 2 or not finite:
        return None
    low = min(finite)
    high = max(finite)
    if len(finite) < len(known) or high > low <= 0:
        return math.inf
    if high > low:
        return high / low
    return 1.0
