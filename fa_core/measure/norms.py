"""Norms, medians, cosines and Γ of one vector per sample.

In float64 without an eps, exact from 1e-300 to 1e300.
"""

from __future__ import annotations

from collections.abc import Container, Sequence

import torch
from torch import Tensor

from fa_core.measure.isolate import to_float64

_SMALLEST_EXACT, _LARGEST_EXACT = 1e-140, 1e140
"""Outside this range, squares in a float64 norm may have under- or overflowed."""


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
        (...) float64. Every float32 value, from the smallest subnormal (1.4e-45) to the largest
        (3.4e38), has a float64 square; float64 inputs are scaled first if their squares would
        under- or overflow. NaN for a vector with NaN, else inf for one with ±inf.

    Source: docs/protocol.md §3 ("norms accumulated in float64, no eps clamp anywhere").
    """
    if x.device.type == "mps" or x.dtype == torch.float64:
        return _scaled_norms(to_float64(x))
    # converts value by value: a float64 copy of all values would double the time
    norms: Tensor = torch.linalg.vector_norm(x, dim=-1, dtype=torch.float64)
    return norms


def _scaled_norms(x: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(x, dim=-1)
    exact = (norms > _SMALLEST_EXACT) & (norms < _LARGEST_EXACT)
    # on a GPU, the wait for this answer costs more than the second norm
    if x.is_cpu and bool(exact.all()):
        return norms
    largest = x.abs().amax(dim=-1)
    ordinary = (largest > 0) & torch.isfinite(largest)
    scale = torch.where(ordinary, largest, 1.0)
    scaled = scale * torch.linalg.vector_norm(x / scale[..., None], dim=-1)
    inexact = torch.where(ordinary, scaled, largest)
    return torch.where(exact, norms, inexact)


def lower_median(x: Tensor) -> Tensor:
    """The median as PyTorch defines it: the lower middle of an even count; NaN if any value is NaN.

    Args:
        x: (..., n), n ≥ 1.

    Returns:
        (...), the median over the last axis.

    Source: docs/protocol.md §3 ("Median = PyTorch's, everywhere").

    >>> lower_median(torch.tensor([4.0, 1.0, 3.0, 2.0])).item()
    2.0
    """
    return x.median(dim=-1).values


def unit_rows(x: Tensor) -> Tensor:
    """x_i/‖x_i‖₂ of every sample in float64; NaN if the norm is 0 or not finite.

    Args:
        x: (B, ...).

    Returns:
        (B, D) float64.

    >>> unit_rows(torch.tensor([[0.0, 2e-40], [0.0, 0.0]])).tolist()
    [[0.0, 1.0], [nan, nan]]
    """
    rows = to_float64(x).reshape(len(x), -1)
    # division by the largest entry first: a subnormal norm would lose digits
    rows = rows / rows.abs().amax(dim=1, keepdim=True)
    length: Tensor = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    return rows / length


def sample_cosines(a: Tensor, b: Tensor) -> Tensor:
    """cos(a_i, b_i) = ⟨a_i, b_i⟩/(‖a_i‖‖b_i‖) of every sample, float64, no clamp.

    Args:
        a: (B, ...).
        b: the same shape.

    Returns:
        (B,) float64; NaN if a norm is 0 or a value is not finite.

    Source: docs/protocol.md §4.

    >>> sample_cosines(torch.tensor([[1e-30, 0.0]]), torch.tensor([[1e-30, 1e-30]])).item()
    0.7071067811865475
    """
    return (unit_rows(a) * unit_rows(b)).sum(dim=1)


def medians_of_samples(values: Tensor, label_mask: Tensor) -> Tensor:
    """The lower median over every sample's tokens whose labels are not ignored.

    Args:
        values: (..., n), one per such token, sample by sample.
        label_mask: (B, T) bool, True for n tokens.

    Returns:
        (..., B'), for the B' samples with such tokens; NaN for a sample with a NaN.

    >>> label_mask = torch.tensor([[True, True], [False, False], [False, True]])
    >>> medians_of_samples(torch.tensor([3.0, 1.0, 2.0]), label_mask)
    tensor([1., 2.])
    """
    label_mask = label_mask[label_mask.any(dim=1)]
    table = values.new_full((*values.shape[:-1], *label_mask.shape), torch.inf)
    table[..., label_mask] = values
    middle = (label_mask.sum(dim=1) - 1) // 2
    places = middle.expand(table.shape[:-1])
    ordered = table.sort(dim=-1).values
    medians = ordered.gather(-1, places[..., None])[..., 0]
    return torch.where(table.isnan().any(-1), torch.nan, medians)


def gamma(credit: Tensor | None, gradient: Tensor) -> float | None:
    """Γ_l = (1/n)·Σ_i cos(a_l,i, g_l,i) over the n samples with a defined cosine; no clamp.

    Args:
        credit: a_l, (B, ...); None for a layer without credit.
        gradient: g_l, the same shape, at any scale (the 1/B does not change a cosine).

    Returns:
        In [−1, 1]; None, never 0 or 1, without credit or if every sample has a norm of 0; NaN if a
        value is not finite.

    Source: docs/protocol.md §4.

    >>> import torch
    >>> gamma(torch.tensor([[1.0, 0.0], [0.0, 0.0]]), torch.tensor([[1e-30, 1e-30], [1.0, 1.0]]))
    0.7071067811865475
    >>> gamma(None, torch.ones(1, 2)) is None
    True
    """
    if credit is None:
        return None
    defined = (sample_norms(credit) != 0) & (sample_norms(gradient) != 0)
    return mean_where(sample_cosines(credit, gradient), defined)


def share_of_zeros(x: Tensor) -> float:
    """The share of entries that are exactly 0."""
    return float((x == 0).to(torch.float64).mean())


def mean_where(values: Tensor, defined: Tensor) -> float | None:
    """Mean of the defined values; None if there are none.

    Args:
        values: (B,).
        defined: (B,) bool.

    >>> import torch
    >>> mean_where(torch.tensor([1.0, 5.0]), torch.tensor([True, False]))
    1.0
    """
    if not bool(defined.any()):
        return None
    return float(values[defined].mean())


def mean_over(
    values: Sequence[float | None], first: int = 1, without: Container[int] = ()
) -> float | None:
    """Mean over the layers l ≥ `first` with a defined value; None if there are none.

    Args:
        values: layer by layer.
        first: the first layer; 1 = the deep mean, without the embedding.
        without: layers to leave out, because their credit comes free.

    Source: docs/protocol.md §4 ("deep Γ = mean over l ≥ 1").

    >>> mean_over([0.9, 0.25, None, 0.75])
    0.5
    """
    kept = []
    for l, value in enumerate(values):
        if l >= first and l not in without and value is not None:
            kept.append(value)
    if not kept:
        return None
    return sum(kept) / len(kept)
