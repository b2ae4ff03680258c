"""(c): does the gradient's direction depend on the batch, or is it the same drift whatever the data?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fa_core.measure.norms import unit_rows

MIN_BATCHES = 8
"""Fewer batches than this leave (c) unmeasured."""


def mean_pairwise_cosine(directions: Tensor) -> Tensor:
    """Mean cosine over the K(K−1)/2 pairs of rows.

    Args:
        directions: (..., K, D) unit rows, K ≥ 2.

    Returns:
        (...) in [−1, 1], float64; NaN if any entry is. With s = Σ_k u_k the sum over pairs is
        (‖s‖² − Σ_k ‖u_k‖²)/2, so no K×K matrix is needed.

    Source: docs/protocol.md §3 (c).

    >>> mean_pairwise_cosine(torch.eye(3, dtype=torch.float64)).item()
    0.0
    """
    k = directions.shape[-2]
    total = directions.sum(dim=-2)
    return (total.square().sum(dim=-1) - directions.square().sum(dim=(-2, -1))) / (k * (k - 1))


def summed_gradients(gradient: Tensor) -> Tensor:
    """B·ḡ = Σ_i g_i in float64: (..., B, D) per-sample gradients → (..., D). (c) asks for the direction of ḡ alone."""
    on_cpu = gradient.cpu() if gradient.device.type == "mps" else gradient
    return on_cpu.sum(dim=-2, dtype=torch.float64)


def drift_columns(means: Tensor) -> Tensor:
    """What (c) is judged by, for N networks at once and without asking the device for anything.

    Args:
        means: (N, K, D) float64, the batch-mean gradients, each of any length.

    Returns:
        (N, 1 + 2K) float64: the mean pairwise cosine; per batch 1 where the mean is not finite; 1 where it is zero.
    """
    n, k, d = means.shape
    value = mean_pairwise_cosine(unit_rows(means.reshape(n * k, d)).reshape(n, k, d))
    broken = ~torch.isfinite(means).all(dim=2)
    zero = (means == 0).all(dim=2)
    return torch.cat([value[:, None], broken.to(value.dtype), zero.to(value.dtype)], dim=1)


@dataclass(frozen=True)
class Drift:
    """(c) of one network.

    Attributes:
        value: in [−1, 1], NaN where a gradient is not finite, None where it was not measured.
        why: why it was not measured.
        finite: whether every batch-mean gradient is.
    """

    value: float | None
    why: str | None
    finite: bool


def read_drift(columns: Sequence[float], least: int = MIN_BATCHES) -> Drift:
    """One row of `drift_columns`, judged.

    Args:
        columns: the row.
        least: fewer batches leave (c) unmeasured.
    """
    k = len(columns) // 2
    value, broken, zero = columns[0], columns[1 : 1 + k], columns[1 + k :]
    finite = not any(broken)
    if k < least:
        return Drift(None, f"only {k} eval batches, drift needs at least {least}", finite)
    if not finite:
        return Drift(math.nan, None, finite)
    if any(zero):
        return Drift(None, f"the mean gradient of eval batch {list(zero).index(1.0)} is zero", finite)
    return Drift(max(-1.0, min(1.0, value)), None, finite)


def drift_of(means: Tensor) -> tuple[float | None, str | None]:
    """Mean pairwise cosine of batch-mean gradients, or the reason why there is none.

    Args:
        means: (K, D) float64.

    Returns:
        (value in [−1, 1] or NaN, None), or (None, reason) where a mean gradient is zero.

    >>> drift_of(torch.zeros(8, 2, dtype=torch.float64))
    (None, 'the mean gradient of eval batch 0 is zero')
    """
    found = read_drift(drift_columns(means[None])[0].tolist(), least=0)
    return found.value, found.why
