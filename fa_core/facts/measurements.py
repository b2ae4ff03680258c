"""Nested measurements of a report: resamples, and gradients compared with float64."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

Interval: TypeAlias = tuple[float, float]
"""Low and high end."""


class Resampling(msgspec.Struct, frozen=True, kw_only=True):
    """What the same audit would have measured on other samples: one number per resample, in the
    same order.

    The numbers are kept rather than an interval and a share of them, so that both follow the
    thresholds and the frozen baseline that a report is judged by (see
    `fa_core.judgement.confidence`). An empty list = not measured, or not resampled.

    Attributes:
        growth: (a)'s growth; NaN where a norm is not finite.
        g_L: (b)'s deepest gradient norm; NaN where the norm of any layer is not finite.
        stability: (c)'s mean pairwise cosine, of the batches drawn.
        headline_acc: accuracy, a fraction; empty where it was given instead of counted.
        seed: of the draws.

    Raises:
        ValueError: lists of different lengths.

    Source: docs/protocol.md §8 (bootstrap over batches and samples).
    """

    growth: list[float] = []
    g_L: list[float] = []
    stability: list[float] = []
    headline_acc: list[float] = []
    seed: int = 0

    def __post_init__(self) -> None:
        lengths = set(map(len, self._draws()))
        lengths.discard(0)
        if len(lengths) > 1:
            raise ValueError(f"resamples of different number: {sorted(lengths)}")

    def __len__(self) -> int:
        """R."""
        return max(map(len, self._draws()))

    def _draws(self) -> list[list[float]]:
        return [self.growth, self.g_L, self.stability, self.headline_acc]


class ReferencePrecision(msgspec.Struct, frozen=True, kw_only=True):
    """How the gradients that were measured compare with float64 ones, per layer l = 0..L.

    Attributes:
        cosine: mean over samples of cos(g_l as measured, g_l in float64); None where no sample has
            both.
        worst: the smallest of them.
        norm_ratio: median ‖g_l‖ as measured over the one in float64; None where the latter is 0.
        lost: samples whose gradient is 0 as measured and not in float64.
        samples: B.
        dtype: the arithmetic that is judged.

    Source: docs/protocol.md §8 ("is the reference itself numerically right?").
    """

    cosine: list[float | None]
    worst: list[float | None]
    norm_ratio: list[float | None]
    lost: list[int]
    samples: int
    dtype: str = "float32"
