"""Norms, medians and cosines that lose nothing: float64, no eps, from 1e-300 to 1e300."""

from __future__ import annotations

import torch
from torch import Tensor

from fa_core.measure.borrow import wide

_SQUARABLE = (1e-140, 1e140)
"""float64 norms outside this range may have lost a square to under- or overflow."""


def sample_norms(x: Tensor) -> Tensor:
    """‖x_i‖₂ of every sample, see `vector_norms`.

    Args:
        x: (B, ...), any floating dtype.

    Returns:
        (B,) float64.

    >>> sample_norms(torch.tensor([[3e-30, 4e-30], [0.0, 0.0]])).tolist()
    [5.000000015855384e-30, 0.0]
    """
    return vector_norms(x.detach().reshape(len(x), -1))


def vector_norms(x: Tensor) -> Tensor:
    """‖x_i‖₂ of every vector: √Σ_j x_ij², in float64.

    Args:
        x: (..., D), any floating dtype, outside any graph.

    Returns:
        (...) float64. A float32 value from its smallest subnormal (1.4e-45) to its largest (3.4e38) has a
        float64 square, so nothing is lost; float64 inputs whose squares would be are scaled first.
        NaN where a vector holds NaN, else inf where it holds ±inf.

    Source: PROTOCOL §3 ("norms accumulated in float64, no eps clamp anywhere").
    """
    if x.device.type == "mps" or x.dtype == torch.float64:
        return _scaled_norms(wide(x))
    # converted value by value: a copy of all of them in float64 takes as long again
    norms: Tensor = torch.linalg.vector_norm(x, dim=-1, dtype=torch.float64)
    return norms


def _scaled_norms(x: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(x, dim=-1)
    exact = (norms > _SQUARABLE[0]) & (norms < _SQUARABLE[1])
    # asking a GPU would wait for it, which costs more than the second norm
    if x.is_cpu and bool(exact.all()):
        return norms
    largest = x.abs().amax(dim=-1) if x.shape[-1] else norms
    ordinary = (largest > 0) & torch.isfinite(largest)
    scale = torch.where(ordinary, largest, 1.0)
    scaled = scale * torch.linalg.vector_norm(x / scale[..., None], dim=-1)
    return torch.where(exact, norms, torch.where(ordinary, scaled, largest))


def lower_median(x: Tensor) -> Tensor:
    """The median as PyTorch defines it: the lower middle of an even count; NaN if any value is NaN.

    Args:
        x: (..., n), n ≥ 1.

    Returns:
        (...), the median over the last axis.

    Source: PROTOCOL §3 ("Median = PyTorch's, everywhere").

    >>> lower_median(torch.tensor([4.0, 1.0, 3.0, 2.0])).item()
    2.0
    """
    return x.median(dim=-1).values


def unit_rows(x: Tensor) -> Tensor:
    """x_i/‖x_i‖₂ of every sample in float64; NaN where the norm is 0 or not finite.

    Args:
        x: (B, ...).

    Returns:
        (B, D) float64.

    >>> unit_rows(torch.tensor([[0.0, 2e-40], [0.0, 0.0]])).tolist()
    [[0.0, 1.0], [nan, nan]]
    """
    rows = wide(x).reshape(len(x), -1)
    # dividing by the largest entry first keeps a subnormal norm from costing digits
    largest = rows.abs().amax(dim=1, keepdim=True)
    rows = rows / largest
    length: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / length


def sample_cosines(a: Tensor, b: Tensor) -> Tensor:
    """cos(a_i, b_i) = ⟨a_i, b_i⟩/(‖a_i‖‖b_i‖) of every sample, float64, no clamp.

    Args:
        a: (B, ...).
        b: the same shape.

    Returns:
        (B,) float64; NaN where a norm is 0 or a value is not finite.

    Source: PROTOCOL §4.

    >>> sample_cosines(torch.tensor([[1e-30, 0.0]]), torch.tensor([[1e-30, 1e-30]])).item()
    0.7071067811865475
    """
    return (unit_rows(a) * unit_rows(b)).sum(dim=1)
