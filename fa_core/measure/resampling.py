"""(a)'s interval: medians of samples that are drawn again (bootstrap)."""

from __future__ import annotations

import math
import sys

import torch
from torch import Tensor

from fa_core.measure.norms import lower_median
from fa_core.report.diagnostics import NORM_RATIO_EPS, block_growths
from fa_core.report.intervals import FEWEST, TAIL
from fa_core.report.measurements import Interval

DRAWS = 1000
"""Minimum draws of an interval."""

DRAWS_PER_BLOCK = 100
"""Draws per block, so that 2 of them lie beyond each end of an interval."""

MOST_DRAWS = 2000
"""Maximum draws of an interval; from 80 blocks on none lies beyond an end."""

_DRAWN_UP_TO = 200
"""Maximum samples that are drawn one by one."""


def growth_interval(residual_norms: Tensor, seed: int = 0) -> Interval | None:
    """(a): of growth = max_l q_l, q_l = m_{l+1}/m_l, the m_l medians over the same samples.

        [max_l low_l, max_l high_l]

    low_l and high_l are the percentiles of q_l over samples drawn with replacement, the same at
    both layers, at 95 % for all blocks together (Bonferroni). No distribution of the norms is
    assumed: medians beside a gap, or of heavy tails, are drawn as they are.

    Args:
        residual_norms: (L+1, n) ‖h_l,i‖.
        seed: of the draws.

    Returns:
        Ratios, which hold the growth; the high end is at most the largest float. Blocks next to a
        dead layer are left out. None for fewer than `FEWEST` samples, where a median is not
        finite, and where no block has a defined growth.

    Source: Efron & Tibshirani, An Introduction to the Bootstrap, 1993, §13.3; not of the maximum
    itself, whose bootstrap is biased where blocks grow alike. Coverage: docs/protocol/intervals.md.
    """
    medians = lower_median(residual_norms)
    growths = block_growths(medians.tolist())
    defined = [block for block, growth in enumerate(growths) if not math.isnan(growth)]
    if residual_norms.shape[1] < FEWEST or not defined or not medians.isfinite().all():
        return None
    draws = min(max(DRAWS, DRAWS_PER_BLOCK * len(defined)), MOST_DRAWS)
    medians = resampled_medians(residual_norms, draws, seed)
    dead = medians < NORM_RATIO_EPS
    ratios = (medians[:, 1:] / medians[:, :-1])[:, defined]
    undefined = (dead[:, 1:] | dead[:, :-1])[:, defined] | ratios.isnan()
    beyond = int(draws * TAIL / len(defined))
    # a draw without a defined growth is on the far side of both ends
    lows = ratios.masked_fill(undefined, 0.0).sort(dim=0).values[beyond]
    highs = ratios.masked_fill(undefined, math.inf).sort(dim=0).values[draws - 1 - beyond]
    growth = max(growths[block] for block in defined)
    high = min(highs.max().item(), sys.float_info.max)
    return min(lows.max().item(), growth), max(high, growth)


def resampled_medians(residual_norms: Tensor, draws: int, seed: int = 0) -> Tensor:
    """Medians over samples drawn with replacement, the same samples at every layer.

    Of more than `_DRAWN_UP_TO` samples, the places of the medians are drawn by their limiting law.

    Args:
        residual_norms: (L+1, n) ‖h_l,i‖, without NaN.
        draws: R.
        seed: of the draws.

    Returns:
        (R, L+1), so that ratios of neighbours are paired.
    """
    ordered, order = residual_norms.cpu().sort(dim=-1)
    generator = torch.Generator().manual_seed(seed)
    law = _drawn_places if ordered.shape[1] <= _DRAWN_UP_TO else _normal_places
    return ordered.gather(1, law(order, draws, generator)).T


def _drawn_places(order: Tensor, draws: int, generator: torch.Generator) -> Tensor:
    """(L+1, R) places of the medians of drawn samples among all samples in order.

    Args:
        order: (L+1, n) the samples by rising norm.
    """
    n = order.shape[1]
    drawn = torch.randint(n, (draws, n), generator=generator)
    counts = torch.zeros(draws, n).scatter_add_(1, drawn, torch.ones(1).expand(draws, n))
    counts = counts.T.contiguous()
    middle, places = (n + 1) // 2, []
    for samples in order:
        # how often a sample or one before it was drawn
        missing = middle - counts[samples].cumsum(0)
        places.append(missing.sign_().clamp_(min=0).sum(0))
    return torch.stack(places).long()


def _normal_places(order: Tensor, draws: int, generator: torch.Generator) -> Tensor:
    """The same for n → ∞: how many of the samples up to the median are drawn is normal, with the
    covariance of being up to the median at two layers."""
    n = order.shape[1]
    middle = (n + 1) // 2
    lower = torch.zeros(order.shape, dtype=torch.float64).scatter_(1, order[:, :middle], 1.0)
    lower -= middle / n
    values, vectors = torch.linalg.eigh(lower @ lower.T)
    root = vectors * values.clamp(min=0).sqrt()
    shape = (len(order), draws)
    extra: Tensor = root @ torch.randn(shape, dtype=torch.float64, generator=generator)
    places: Tensor = (middle - 1 - extra).round().clamp(0, n - 1).long()
    return places
