"""Float64 metrics of a credit signal: ρ, the change of CE, and pooled forms of Γ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from fa_core.measure.isolate import to_float64
from fa_core.measure.norms import (
    gamma,
    mean_over,
    mean_where,
    sample_norms,
    unit_rows,
    vector_norms,
)

Series: TypeAlias = list[float | None]
"""One number per layer or draw; None = undefined."""

Signal: TypeAlias = Sequence[Tensor | None]
"""a_0..a_L; None for a layer without credit."""


def ce_change(logits: Tensor, moved: Tensor, y: Tensor) -> Tensor:
    """CE(z + d) − CE(z) per sample, without subtracting two cross entropies.

        Δ = log Σ_c p_c·exp(δ_c),  p = softmax(z),  δ_c = d_c − d_y

    For |δ| ≤ 1 it is computed as log1p Σ_{c≠y} p_c·expm1(δ_c): a change of 1e-25 in a converged
    network keeps its digits.

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
        (r, defined), both (B,): r = Σ x̃ỹ/√(Σx̃²·Σỹ²) with x̃, ỹ centred; undefined if M < 2 or a
        variance is 0. Rounding noise counts as variance 0: centred values below 4 ulp of the
        largest.

    >>> x = torch.tensor([[1.0], [2.0], [3.0]])
    >>> r, defined = pearson(x, 2 * x)
    >>> round(r.item(), 12), defined.item()
    (1.0, True)
    """
    x, x_varies = _centred(x)
    y, y_varies = _centred(y)
    return (x * y).sum(dim=0), x_varies & y_varies


def _centred(values: Tensor) -> tuple[Tensor, Tensor]:
    """Centred columns scaled to unit length, and a mask of those that vary."""
    values = values.to(torch.float64)
    largest = values.abs().amax(dim=0)
    centred = values - values.mean(dim=0)
    spread = centred.abs().amax(dim=0)
    noise = 4 * torch.finfo(torch.float64).eps * largest
    # NaN counts as varying, so that the result is NaN
    varies = ~(spread <= noise)
    # scaled before squaring, or changes of 1e-200 would underflow
    scaled = centred / torch.where(varies, spread, 1.0)
    return scaled / torch.linalg.vector_norm(scaled, dim=0), varies


def rho(predicted: Tensor, change: Tensor) -> float | None:
    """ρ_l: Pearson correlation over M directions per sample, then the mean over samples.

        ρ_l = mean_i corr_m(⟨a_l,i, ε·v_m,i⟩, CE_i(h_l,i + ε·v_m,i) − CE_i(h_l,i))

    Pooling over samples would give another number. For directions v uniform on the sphere and
    small steps, ρ_l estimates Γ_l: E⟨a, v⟩⟨g, v⟩ = ⟨a, g⟩/D, so the correlation is cos(a, g) up to
    a sampling error of about (1 − Γ²)/√(M·B). It checks the gradient and is no independent
    evidence. At finite steps the curvature of the loss adds a change that no linear credit
    predicts, and ρ of g itself is below 1.

    Args:
        predicted: ⟨a_l, ε·v⟩, (M, B).
        change: of the loss per sample, (M, B).

    Returns:
        In [−1, 1]; None if no sample has two variances above 0; NaN if a value is not finite.

    Source: docs/protocol.md §4.
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


def pooled_gamma(credit: Signal, gradients: Sequence[Tensor]) -> dict[str, float | None]:
    """Γ of the hidden layers l ≥ 1 by two aggregations that Γ_l per layer does not give.

    ``gamma_of_batch_means``: per layer cos(Σ_i a_l,i, Σ_i g_l,i), mean over layers;
    ``gamma_concatenated``: per sample the cosine of the concatenated layers, mean over samples.

    Args:
        credit: a_0..a_L, each (B, ...); None for a layer without credit.
        gradients: g_0..g_L, likewise.

    Returns:
        Both in [−1, 1], None if undefined (see `gamma`); {} if no hidden layer has credit.

    Source: docs/protocol.md §12.5.

    >>> a, b = torch.tensor([[3.0, 0.0]]), torch.tensor([[4.0, 0.0]])
    >>> pooled_gamma([None, a, b], [a, a, b.flip(1)])
    {'gamma_of_batch_means': 0.5, 'gamma_concatenated': 0.36}
    """
    credits = []
    true = []
    of_means = []
    for signal, gradient in zip(credit[1:], gradients[1:], strict=True):
        if signal is not None:
            a = to_float64(signal).flatten(1)
            g = to_float64(gradient).flatten(1)
            credits.append(a)
            true.append(g)
            of_means.append(gamma(a.mean(0, keepdim=True), g.mean(0, keepdim=True)))
    if not credits:
        return {}
    joined = gamma(torch.cat(credits, dim=1), torch.cat(true, dim=1))
    return {"gamma_of_batch_means": mean_over(of_means, first=0), "gamma_concatenated": joined}


def gammas_of_draws(credit: Tensor, gradient: Tensor) -> Series:
    """Γ_l (see `gamma`) of R credit signals on the same samples.

    Args:
        credit: (R, B, D).
        gradient: (B, D), at any scale.

    Returns:
        R values: None if no sample has two norms above 0, NaN if a value is not finite.

    Source: docs/protocol.md §4.

    >>> gammas_of_draws(torch.tensor([[[3.0, 4.0]], [[0.0, 0.0]]]), torch.tensor([[0.0, 2.0]]))
    [0.8, None]
    """
    credit = to_float64(credit)
    lengths = vector_norms(credit)
    defined = (lengths != 0) & (sample_norms(gradient) != 0)
    cosines = (credit * unit_rows(gradient)).sum(dim=2) / lengths
    sums = torch.where(defined, cosines, 0.0).sum(dim=1)
    counts = defined.sum(dim=1)
    series: Series = []
    for mean, count in zip((sums / counts).tolist(), counts.tolist(), strict=True):
        series.append(mean if count else None)
    return series
