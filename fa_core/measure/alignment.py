"""Γ: does the credit signal point where the gradient points?"""

from __future__ import annotations

from torch import Tensor

from fa_core.measure.norms import sample_cosines, sample_norms


def gamma(credit: Tensor | None, gradient: Tensor) -> float | None:
    """Γ_l = (1/n)·Σ_i cos(a_l,i, g_l,i) over the n samples where it is defined; float64, no clamp.

    Args:
        credit: a_l, (B, ...); None where the method gives none.
        gradient: g_l, the same shape, at any scale (a cosine does not see the 1/B).

    Returns:
        In [−1, 1]; None, never 0 or 1, where no credit is given or every sample has a norm of 0;
        NaN where a value is not finite.

    Source: PROTOCOL §4.

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


def mean_where(values: Tensor, defined: Tensor) -> float | None:
    """The mean of the values that are defined; None where none is.

    Args:
        values: (B,).
        defined: (B,) bool.

    >>> import torch
    >>> mean_where(torch.tensor([1.0, 5.0]), torch.tensor([True, False]))
    1.0
    """
    return float(values[defined].mean()) if bool(defined.any()) else None


def mean_over(values: list[float | None], first: int = 1) -> float | None:
    """The mean over layers l ≥ `first` of what is defined there: 1 = the deep mean, without the embedding.

    Source: PROTOCOL §4 ("deep Γ = mean over l ≥ 1").

    >>> mean_over([0.9, 0.25, None, 0.75])
    0.5
    """
    kept = [value for value in values[first:] if value is not None]
    return sum(kept) / len(kept) if kept else None
