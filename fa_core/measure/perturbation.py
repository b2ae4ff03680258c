"""ρ and nudge: does the loss change as the credit signal predicts when a hidden state is moved?"""

from __future__ import annotations

import torch
from torch import Tensor

from fa_core.measure.alignment import mean_where


def ce_change(logits: Tensor, moved: Tensor, y: Tensor) -> Tensor:
    """CE(z + d) − CE(z) per sample, without subtracting two cross entropies.

        Δ = log Σ_c p_c·exp(δ_c),  p = softmax(z),  δ_c = d_c − d_y,  as log1p Σ_{c≠y} p_c·expm1(δ_c) while |δ| ≤ 1

    so that a change of 1e-25 in a converged network keeps its digits.

    Args:
        logits: z, (B, C) float64.
        moved: z + d, (M, B, C) float64.
        y: (B,) class indices.

    Returns:
        (M, B) in nats.

    >>> z = torch.tensor([[80.0, 0.0]], dtype=torch.float64)
    >>> d = torch.tensor([[[0.0, 0.5]]], dtype=torch.float64)
    >>> f"{ce_change(z, z + d, torch.tensor([0])).item():.4e}"
    '1.1708e-35'
    """
    labels = y[:, None]
    log_p = logits.log_softmax(dim=1)
    d = moved - logits
    delta = d - d.gather(2, labels.expand(len(moved), -1, -1))
    others = torch.ones_like(log_p).scatter_(1, labels, 0.0) * log_p.exp()
    small = torch.log1p((others * delta.expm1()).sum(dim=2))
    large = torch.logsumexp(log_p + delta, dim=2)
    return torch.where(delta.abs().amax(dim=2) <= 1.0, small, large)


def pearson(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Pearson correlation over the first axis, float64.

    Args:
        x: (M, B).
        y: (M, B).

    Returns:
        (r, defined), both (B,): r = Σ x̃ỹ/√(Σx̃²·Σỹ²) with x̃, ỹ centred; not defined where M < 2 or a
        variance is 0. A variance of rounding noise counts as 0: centred values below 4 ulp of the largest.

    >>> r, defined = pearson(torch.tensor([[1.0], [2.0], [3.0]]), torch.tensor([[2.0], [4.0], [6.0]]))
    >>> round(r.item(), 12), defined.item()
    (1.0, True)
    """
    (x, x_varies), (y, y_varies) = _centred(x), _centred(y)
    return (x * y).sum(dim=0), x_varies & y_varies


def _centred(values: Tensor) -> tuple[Tensor, Tensor]:
    """Centred rows scaled to unit length, and where they vary at all."""
    values = values.to(torch.float64)
    largest = values.abs().amax(dim=0)
    centred = values - values.mean(dim=0)
    spread = centred.abs().amax(dim=0)
    varies = ~(spread <= 4 * torch.finfo(torch.float64).eps * largest)
    # scaled before squaring: changes of 1e-200 have a correlation too
    centred = centred / torch.where(varies, spread, 1.0)
    length: Tensor = torch.linalg.vector_norm(centred, dim=0)
    return centred / length, varies


def rho(predicted: Tensor, change: Tensor) -> float | None:
    """ρ_l: Pearson correlation over M directions per sample, then the mean over samples.

        ρ_l = mean_i corr_m(⟨a_l,i, ε·v_m,i⟩, CE_i(h_l,i + ε·v_m,i) − CE_i(h_l,i))

    Pooling over samples would be another number.

    Args:
        predicted: ⟨a_l, ε·v⟩, (M, B).
        change: of CE per sample, (M, B).

    Returns:
        In [−1, 1]; None where no sample's variances are both above 0; NaN where a value is not finite.

    Source: PROTOCOL §4.
    """
    return mean_where(*pearson(predicted, change))


def random_units(m: int, batch: int, width: int, generator: torch.Generator) -> Tensor:
    """Random unit vectors, uniform on the sphere: (m, batch, width) float64, drawn on the CPU.

    >>> v = random_units(2, 3, 4, torch.Generator().manual_seed(0))
    >>> v.shape, bool(torch.allclose(v.norm(dim=2), torch.ones(2, 3, dtype=torch.float64)))
    (torch.Size([2, 3, 4]), True)
    """
    drawn = torch.randn(m, batch, width, generator=generator, dtype=torch.float64)
    length: Tensor = torch.linalg.vector_norm(drawn, dim=2, keepdim=True)
    return drawn / length
