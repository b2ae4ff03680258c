"""Diagnostic (c), drift: the mean cosine between the mean gradients of different batches."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from fa_core.facts.measurements import Interval
from fa_core.judgement.intervals import drift_interval
from fa_core.measure.norms import unit_rows

MEAN_ERROR_BATCHES = 4
"""Batches that take a second backward pass, for the mean error's part of (c)."""

MIN_BATCHES = 8
"""With fewer batches, (c) is not measured."""


@dataclass(frozen=True)
class Drift:
    """(c) of one network.

    Attributes:
        value: in [−1, 1]; NaN if a gradient is not finite, None if not measured.
        why: the reason why it was not measured.
        finite: whether every batch-mean gradient is finite.
        interval: confidence interval of a finite value.
    """

    value: float | None
    why: str | None
    finite: bool
    interval: Interval | None = None


def mean_pairwise_cosine(directions: Tensor) -> Tensor:
    """Mean cosine over the K(K−1)/2 pairs of rows.

    Args:
        directions: (K, D) unit rows, K ≥ 2.

    Returns:
        A scalar in [−1, 1], float64; NaN if any entry is. With s = Σ_k u_k the sum over pairs is
        (‖s‖² − Σ_k ‖u_k‖²)/2, so no K×K matrix is needed.

    Source: docs/protocol.md §3 (c).

    >>> mean_pairwise_cosine(torch.eye(3, dtype=torch.float64)).item()
    0.0
    """
    k = len(directions)
    square_of_sum = directions.sum(dim=0).square().sum()
    sum_of_squares = directions.square().sum()
    return (square_of_sum - sum_of_squares) / (k * (k - 1))


def mean_error_part(means: Tensor, of_mean_errors: Tensor) -> Tensor:
    """The part of (c) that the batches' mean errors make.

    The gradient is linear in the error: ḡ_k = v_k + r_k, v_k the gradient that the mean error ē_k
    of batch k would give in each of its samples. With u_k = ḡ_k/‖ḡ_k‖, over the pairs j ≠ k,

        c = mean ⟨u_j, u_k⟩ = mean ⟨v_j, u_k⟩/‖ḡ_j‖ + mean ⟨r_j, u_k⟩/‖ḡ_j‖

    and the first term is returned. Sampling noise of ē_k is independent between batches and cancels
    in the mean.

    Args:
        means: (K, D) float64, B·ḡ_k.
        of_mean_errors: (S, D) float64, B·v_j of the first S batches: the pairs are those with j
            among them.

    Returns:
        A float64 scalar, a part of a cosine; NaN where a norm is 0 or a value is not finite.

    Source: docs/protocol.md, *What (c) measures*.
    """
    first, k = len(of_mean_errors), len(means)
    largest = means.abs().amax(dim=-1, keepdim=True)
    lengths = largest * torch.linalg.vector_norm(means / largest, dim=-1, keepdim=True)
    directions = means / lengths
    parts = of_mean_errors / lengths[:first]
    of_sums = (parts.sum(dim=0) * directions.sum(dim=0)).sum()
    of_same = (parts * directions[:first]).sum()
    mean: Tensor = (of_sums - of_same) / (first * (k - 1))
    return mean


def summed_gradients(gradient: Tensor) -> Tensor:
    """B·ḡ = Σ_i g_i in float64; (c) uses only the direction of ḡ.

    Args:
        gradient: per sample, (B, D).

    Returns:
        (D,).
    """
    if gradient.device.type == "mps":
        gradient = gradient.cpu()
    return gradient.sum(dim=0, dtype=torch.float64)


def drift(means: Tensor, least: int = MIN_BATCHES, t: float | None = None) -> Drift:
    """(c) of a network.

    Args:
        means: (K, D) float64, the batch-mean gradients, each up to a factor.
        least: with fewer batches, (c) is not measured.
        t: quantile of the interval, see `drift_interval`.
    """
    finite = bool(torch.isfinite(means).all())
    if len(means) < least:
        return Drift(None, f"only {len(means)} eval batches, drift needs at least {least}", finite)
    if not finite:
        return Drift(math.nan, None, finite)
    zero = (means == 0).all(dim=1).tolist()
    if any(zero):
        return Drift(None, f"the mean gradient of eval batch {zero.index(True)} is zero", finite)
    directions = unit_rows(means)
    value = max(-1.0, min(1.0, mean_pairwise_cosine(directions).item()))
    # sums of each batch's cosines with the others
    others = directions.sum(dim=0) - directions
    sums = (directions * others).sum(dim=1).tolist()
    return Drift(value, None, finite, drift_interval(value, sums, t))
