"""Medians of samples that are drawn again (bootstrap)."""

from __future__ import annotations

import torch
from torch import Tensor

from fa_core.measure.norms import lower_median


def resampled_medians(residual_norms: Tensor, resamples: int, seed: int = 0) -> Tensor:
    """(a)'s medians over samples drawn with replacement, the same samples at every layer.

    Args:
        residual_norms: (L+1, n) ‖h_l,i‖.
        resamples: R.
        seed: of the draws.

    Returns:
        (R, L+1), so that ratios of neighbours are paired.

    Source: Efron & Tibshirani, An Introduction to the Bootstrap, 1993.
    """
    generator = torch.Generator().manual_seed(seed)
    n = residual_norms.shape[1]
    index = torch.randint(n, (resamples, n), generator=generator)
    return torch.stack([lower_median(layer[index]) for layer in residual_norms], dim=1)
