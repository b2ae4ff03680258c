"""Float64 metrics of a credit signal: ρ, the change of CE, and pooled forms of Γ."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import normalize

from fa_core.files.decode import Json
from fa_core.measure.isolate import to_float64
from fa_core.measure.norms import (
    Signal,
    each,
    gamma,
    mean_over,
    mean_where,
    sample_norms,
    share_of_zeros,
    unit_rows,
)
from fa_core.report.gamma import deep_entries, deep_gamma
from fa_core.report.provenance import Series


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


def _centred(values: Tensor) -> tuple[Tensor, Tensor]:
    """Centred columns scaled to unit length, float64, and a mask of those that vary.

    Rounding noise is no variance: centred values below 4 ulp of the largest.
    """
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

    >>> x = torch.tensor([[1.0], [2.0], [3.0]])
    >>> round(rho(x, 2 * x), 12)
    1.0
    """
    predicted, predictions_vary = _centred(predicted)
    change, changes_vary = _centred(change)
    return mean_where((predicted * change).sum(dim=0), predictions_vary & changes_vary)


def random_units(m: int, batch: int, width: int, generator: torch.Generator) -> Tensor:
    """Random unit vectors, uniform on the sphere: (m, batch, width) float64, drawn on the CPU.

    >>> v = random_units(2, 3, 4, torch.Generator().manual_seed(0))
    >>> v.shape, bool(torch.allclose(v.norm(dim=2), torch.ones(2, 3, dtype=torch.float64)))
    (torch.Size([2, 3, 4]), True)
    """
    drawn = torch.randn(m, batch, width, generator=generator, dtype=torch.float64)
    return normalize(drawn, dim=2)


def credit_entries(
    signal: Signal, gradients: Sequence[Tensor], free: Sequence[int], samples: int
) -> Json:
    """The entries of a report's ``credit`` on Γ: per layer, and numbers named by their aggregation.

    ``gamma`` is Γ_l, l = 0..L, None where undefined; ``zeros`` the share of entries of a_l that are
    exactly 0, in [0, 1], by underflow in the credit's own arithmetic or inactive units;
    ``free_layers`` are those whose credit needs no feedback, which deep Γ leaves out.

    Args:
        signal: a_0..a_L as vectors.
        gradients: g_0..g_L, likewise.
        free: layers with free credit.
        samples: B.

    Source: docs/protocol.md §4.
    """
    gammas = list(map(gamma, signal, gradients))
    credit = {"gamma": gammas, "zeros": each(share_of_zeros, signal), "free_layers": list(free)}
    return {**credit, **deep_entries(credit), "gamma_L": gammas[-1], "samples": samples}


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


@dataclass(frozen=True)
class NullGamma:
    """Γ of one network under a credit that has nothing to do with its samples' errors.

    Attributes:
        deep: deep Γ (see `fa_core.report.gamma.deep_gamma`) of every draw that has one.
        observed: deep Γ under the training feedback, or None.
        layers: Γ_l averaged over the draws, l = 0..L. At a layer that no feedback reaches (FA's a_L
            comes from the head alone), Γ_l is the rule's own and no null; deep Γ leaves it out.
        of: what was drawn, if not fresh feedback.

    With 5 draws the spread errs by a factor of two; `fa_core.report.gamma.within_null` allows
    for the number of draws.

    Source: docs/protocol.md §4 (published: +0.002 ± 0.022 fresh against +0.151 ± 0.025 with the
    training feedback).
    """

    deep: list[float]
    observed: float | None
    layers: Series = field(default_factory=list)
    of: str = ""

    @property
    def mean(self) -> float | None:
        """Mean over draws."""
        if not self.deep:
            return None
        return statistics.fmean(self.deep)

    @property
    def std(self) -> float | None:
        """Sample standard deviation over draws (n − 1); NaN if a draw is not finite, None for fewer
        than two."""
        if not all(map(math.isfinite, self.deep)):
            return math.nan
        if len(self.deep) < 2:
            return None
        return statistics.stdev(self.deep)

    @property
    def rank(self) -> float | None:
        """One-sided p-value of the observed deep Γ: (1 + k)/(1 + n), where k of n draws reach it.

        The 1 counts the observed value itself, so p is never 0 and is valid for every n. None
        without draws or an observed value, or if any of them is not finite.

        Source: Phipson & Smyth, Statistical Applications in Genetics and Molecular Biology 9, 2010.

        >>> NullGamma([0.0, 0.1, -0.1], observed=0.5).rank
        0.25
        """
        if self.observed is None or not self.deep:
            return None
        if not all(map(math.isfinite, [self.observed, *self.deep])):
            return None
        draws = len(self.deep)
        reached = sum(value >= self.observed for value in self.deep)
        return (1 + reached) / (1 + draws)

    def to_dict(self) -> Json:
        """The ``null`` of a report's ``credit``."""
        drawn = {"of": self.of} if self.of else {}
        return {
            **drawn,
            "draws": len(self.deep),
            "deep_gamma_mean": self.mean,
            "deep_gamma_std": self.std,
            "rank": self.rank,
            "gamma": self.layers,
        }


SHUFFLES = 200
"""Orders of the samples that `shuffled_null` draws."""

SHUFFLED = "samples shuffled"
"""What `shuffled_null` draws, in a record."""

_MOST_PAIRS = 2048
"""Samples whose pairs are computed at once, beside as many as a vector has entries."""

_ROUNDING = 12
"""Digits of a Γ: a credit that is the same for every sample is its own null, up to rounding."""


def shuffled_null(credit: Signal, gradients: Sequence[Tensor]) -> NullGamma:
    """Deep Γ of the same credit handed to other samples: cos(a_l,π(i), g_l,i), one order π of the
    batch for all layers.

    This is the null of a vector whose feedback is not known. What a credit has in common for all
    samples, or for all of a class, is part of this null as it is of Γ; above it lies what belongs
    to the sample. An order may leave some samples where they are.

    Args:
        credit: a_0..a_L, each (B, D); None for a layer without credit.
        gradients: g_0..g_L, likewise.

    Returns:
        `SHUFFLES` draws; deep Γ is over the layers l ≥ 1 with credit, and no draw has one if a
        layer lost its credit.

    Source: docs/protocol.md §4; Phipson & Smyth 2010.

    >>> a = torch.eye(2)
    >>> null = shuffled_null([None, a], [a, a])
    >>> sorted(set(null.deep)), null.observed
    ([0.0, 1.0], 1.0)
    """
    generator = torch.Generator().manual_seed(0)
    orders = [torch.randperm(len(gradients[0]), generator=generator) for _ in range(SHUFFLES)]
    same = torch.arange(len(gradients[0]))
    by_layer: list[Series] = []
    for a, g in zip(credit, gradients, strict=True):
        if a is None:
            by_layer.append([None] * (SHUFFLES + 1))
            continue
        by_layer.append(_gammas_in_order(a, g, [same, *orders]))
    zeros = each(share_of_zeros, credit)
    deep = []
    for gammas in zip(*by_layer, strict=True):
        value = deep_gamma({"gamma": list(gammas), "zeros": zeros})
        deep.append(round(value, _ROUNDING))
    observed, *drawn = deep
    if not math.isfinite(observed):
        return NullGamma([], None, of=SHUFFLED)
    means = [mean_over(layer[1:], first=0) for layer in by_layer]
    return NullGamma(list(filter(math.isfinite, drawn)), observed, means, of=SHUFFLED)


def _gammas_in_order(credit: Tensor, gradient: Tensor, orders: Sequence[Tensor]) -> Series:
    """Γ_l of a credit in several orders of its samples."""
    pointed, reached = sample_norms(credit).cpu() != 0, sample_norms(gradient).cpu() != 0
    a, g = unit_rows(credit), unit_rows(gradient)
    count = torch.arange(len(a))
    # of many tokens the matrix of all pairs is larger than the vectors
    pairs = (a @ g.T).cpu() if len(a) <= a.shape[1] + _MOST_PAIRS else None
    found: Series = []
    for order in orders:
        if pairs is not None:
            cosines = pairs[order, count]
        else:
            cosines = (a[order.to(a.device)] * g).sum(dim=1).cpu()
        found.append(mean_where(cosines, pointed[order] & reached))
    return found
