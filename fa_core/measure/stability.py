"""(c): does the gradient's direction depend on the batch, or is it the same drift whatever the data?"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fa_core.measure.borrow import wide
from fa_core.measure.norms import unit_rows

MIN_BATCHES = 8
"""Fewer batches than this leave (c) unmeasured."""


def mean_pairwise_cosine(directions: Tensor) -> Tensor:
    """Mean cosine over the K(K−1)/2 pairs of rows.

    Args:
        directions: (K, D) unit rows, K ≥ 2.

    Returns:
        A scalar in [−1, 1], float64; NaN if any entry is. With s = Σ_k u_k the sum over pairs is
        (‖s‖² − Σ_k ‖u_k‖²)/2, so no K×K matrix is needed.

    Source: PROTOCOL §3 (c).

    >>> mean_pairwise_cosine(torch.eye(3, dtype=torch.float64)).item()
    0.0
    """
    k = len(directions)
    total = directions.sum(dim=0)
    return (total @ total - directions.square().sum()) / (k * (k - 1))


class DriftMeter:
    """Streaming (c): the batch-mean gradient of each batch at one layer.

    A batch's row is ḡ_k = (1/B)·Σ_i g_{l,i} in float64; the result is the mean over pairs of
    cos(ḡ_j, ḡ_k).

    Source: PROTOCOL §3 (c).
    """

    def __init__(self) -> None:
        self._means: list[Tensor] = []

    def update(self, gradient: Tensor) -> None:
        """Add one batch: (B, D) per-sample gradients."""
        self._means.append(wide(gradient).mean(dim=0))

    def means(self) -> Tensor:
        """(K, D) float64, the batch-mean gradients so far."""
        return torch.stack(self._means)

    def compute(self) -> tuple[float | None, str | None]:
        """(value, None), or (None, why it was not measured). NaN where a gradient is not finite."""
        if len(self._means) < MIN_BATCHES:
            return None, f"only {len(self._means)} eval batches, drift needs at least {MIN_BATCHES}"
        return drift_of(self.means())

    def nonfinite_batch(self) -> int | None:
        """The first batch whose mean gradient is not finite."""
        finite = torch.isfinite(self.means()).all(dim=1).tolist()
        return finite.index(False) if False in finite else None


def drift_of(means: Tensor) -> tuple[float | None, str | None]:
    """Mean pairwise cosine of batch-mean gradients, or the reason why there is none.

    Args:
        means: (K, D) float64.

    Returns:
        (value in [−1, 1] or NaN, None), or (None, reason) where a mean gradient is zero.

    >>> drift_of(torch.zeros(8, 2, dtype=torch.float64))
    (None, 'the mean gradient of eval batch 0 is zero')
    """
    if not bool(torch.isfinite(means).all()):
        return math.nan, None
    zero = (means == 0).all(dim=1).tolist()
    if True in zero:
        return None, f"the mean gradient of eval batch {zero.index(True)} is zero"
    value = float(mean_pairwise_cosine(unit_rows(means)))
    return max(-1.0, min(1.0, value)), None
