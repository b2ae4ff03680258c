"""(a)'s interval: medians of samples that are drawn again (bootstrap)."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator

import torch
from torch import Tensor

from fa_core.measure.norms import lower_median
from fa_core.report.diagnostics import NORM_RATIO_EPS, block_growths
from fa_core.report.intervals import FEWEST, TAIL
from fa_core.report.measurements import Interval

DRAWS = 1000
"""Minimum draws of an interval."""

DRAWS_PER_BLOCK = 200
"""Draws per block, so that 5 of them lie beyond each end of an interval."""

MOST_DRAWS = 4000
"""Maximum draws of an interval; from 20 blocks on fewer than 5 lie beyond an end."""

_AT_ONCE = 1 << 22
"""Drawn samples that are held at once."""

_WINDOW = 3.75
"""Half the width, in √n, of the places in which a drawn median is looked for: 7.5 of its standard
errors."""


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

    Args:
        residual_norms: (L+1, n) ‖h_l,i‖, without NaN.
        draws: R.
        seed: of the draws.

    Returns:
        (R, L+1), so that ratios of neighbours are paired.
    """
    ordered, order = residual_norms.cpu().sort(dim=-1)
    n = ordered.shape[1]
    middle = (n + 1) // 2
    half = int(_WINDOW * math.sqrt(n)) + 2
    first, last = max(middle - half, 0), min(middle + half, n)
    parts = []
    for counts in _drawn(n, draws, seed):
        places = []
        for layer in order:
            # how often each sample was drawn, in the order of this layer's norms
            seen = counts[layer[first:last]].cumsum(0) + counts[layer[:first]].sum(0)
            places.append(first + (seen < middle).sum(0))
        parts.append(torch.stack(places).clamp_(max=n - 1))
    return ordered.gather(1, torch.cat(parts, dim=1)).T


def _drawn(n: int, draws: int, seed: int) -> Iterator[Tensor]:
    """(n, R') how often each of n samples is among n that are drawn, for parts of the draws."""
    generator = torch.Generator().manual_seed(seed)
    left = draws
    while left:
        part = min(left, max(1, _AT_ONCE // n))
        drawn = torch.randint(n, (part, n), generator=generator)
        # float32 counts up to 2^24 exactly
        counts = torch.zeros(part, n).scatter_add_(1, drawn, torch.ones(1).expand(part, n))
        yield counts.T.contiguous()
        left -= part
