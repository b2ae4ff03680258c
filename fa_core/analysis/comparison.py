"""Layer-by-layer comparison of runs: their spread, and the first layer at which they part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import zip_longest

import numpy as np

from fa_core.analysis import Result
from fa_core.analysis.seeds import Stat, stat_of

PARTS_AT = 10.0
"""Runs part where the largest is more than ten times the smallest: an order of magnitude is no seed
noise."""


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
        """Mean and spread of the values, as over seeds; it says something of runs of one network
        only."""
        return stat_of(
            np.array([value for value in self.values if value is not None]), geometric, marked=True
        )


def across_runs(curves: Sequence[Sequence[float]]) -> tuple[LayerSpread, ...]:
    """Per layer, the runs' values and how far apart they lie: r_l = max_i x_il / min_i x_il.

    Args:
        curves: per run, one value ≥ 0 per layer; runs may differ in depth: a layer is compared
            among the runs that have it.

    Returns:
        One entry per layer of the deepest run.

    >>> [layer.ratio for layer in across_runs([[8.0, 10.0, 20.0], [8.0, 500.0]])]
    [1.0, 50.0, None]
    """
    layers = zip_longest(*curves)
    return tuple(
        LayerSpread(layer=layer, values=values, ratio=_ratio(values))
        for layer, values in enumerate(layers)
    )


def first_parting(layers: Sequence[LayerSpread], factor: float = PARTS_AT) -> LayerSpread | None:
    """The first layer l with r_l > factor, or None where the runs stay together.

    Args:
        layers: from `across_runs`.
        factor: how many times the smallest the largest may be, ≥ 1.

    >>> first_parting(across_runs([[8.0, 10.0, 20.0], [8.0, 500.0, 30.0]])).layer
    1
    """
    return next(
        (layer for layer in layers if layer.ratio is not None and layer.ratio > factor), None
    )


def _ratio(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    finite = [value for value in known if math.isfinite(value)]
    if len(known) < 2 or not finite:
        return None
    low, high = min(finite), max(finite)
    if len(finite) < len(known) or high > low <= 0:
        return math.inf
    if high > low:
        return high / low
    return 1.0
