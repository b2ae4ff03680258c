"""Resampling: the numbers of the same audit on other batches and samples (bootstrap)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from fa_core.errors import UsageError
from fa_core.facts.measurements import Resampling
from fa_core.measure.diagnosis import Samples
from fa_core.measure.flattening import PER_TOKEN
from fa_core.measure.norms import lower_median
from fa_core.report import DiagnosticReport

RESAMPLES = 1000


def bootstrap(
    samples: Samples,
    report: DiagnosticReport,
    resamples: int = RESAMPLES,
    seed: int = 0,
    counted_on: int | None = None,
) -> Resampling:
    """Resample the samples behind a report; `fa_core.judgement.confidence` judges the resamples.

    (a), (b): medians over samples of the norm batches, drawn with replacement, the same samples at
    every layer. (c): the mean cosine over pairs of *different* batches among K drawn ones (the
    cosine of a batch with itself is always 1). Accuracy: Binomial(n, accuracy)/n for n counted
    samples; a given accuracy is not resampled.

    Args:
        samples: of the same diagnosis as `report`.
        report: the report.
        resamples: R.
        seed: of the draws.
        counted_on: number of samples behind the report's accuracy, if not the eval batches.

    Raises:
        UsageError: R < 1.

    Source: docs/protocol.md §8; Efron & Tibshirani, An Introduction to the Bootstrap, 1993.
    """
    if resamples < 1:
        raise UsageError(f"{resamples} resamples", hint="give at least 1")
    generator = torch.Generator().manual_seed(seed)
    pooled = sum(norms.shape[1] for norms in samples.residual_norms)
    index = torch.randint(pooled, (resamples, pooled), generator=generator)
    growth: list[float] = []
    if report.max_per_block_growth is not None:
        growth = list(map(_growth, _resampled_medians(samples.residual_norms, index)))
    g_L: list[float] = []
    if report.bp_grad_norms:
        g_L = list(map(_last_norm, _resampled_medians(samples.bp_grad_norms, index)))
    # drawn also if not used: the accuracy's draws come next
    drift = resampled_drift(samples.drift_cosines, resamples, generator)
    if report.cross_batch_stability is None:
        drift = []
    return Resampling(
        growth=growth,
        g_L=g_L,
        stability=drift,
        headline_acc=_resampled_accuracy(samples.right, report, resamples, generator, counted_on),
        seed=seed,
    )


def resampled_drift(cosines: Tensor, resamples: int, generator: torch.Generator) -> list[float]:
    """(c) of batches drawn with replacement.

    Σ w_j·w_k·c_jk / Σ w_j·w_k over j ≠ k, with w_k the number of times that batch k was drawn.

    Args:
        cosines: (K, K).
        resamples: R.
        generator: on the CPU.

    Returns:
        R values; NaN if a cosine is NaN, or all draws are one batch.
    """
    k = len(cosines)
    drawn = torch.randint(k, (resamples, k), generator=generator)
    weights = torch.nn.functional.one_hot(drawn, k).sum(dim=1).to(torch.float64)
    off_diagonal = cosines - torch.diag(torch.diagonal(cosines))
    total = torch.einsum("rj,jk,rk->r", weights, off_diagonal, weights)
    pairs = weights.sum(dim=1) ** 2 - weights.square().sum(dim=1)
    values: list[float] = (total / pairs).tolist()
    return values


def _resampled_medians(per_batch: list[Tensor], index: Tensor) -> list[list[float]]:
    """(L+1, B) norms per batch → R lists of L+1 medians."""
    layers = torch.cat(per_batch, dim=1)
    medians = torch.stack([lower_median(layer[index]) for layer in layers], dim=1)
    rows: list[list[float]] = medians.tolist()
    return rows


def _growth(norms: list[float]) -> float:
    growth = DiagnosticReport(residual_norms=norms).max_per_block_growth
    return math.nan if growth is None else growth


def _last_norm(norms: list[float]) -> float:
    """The deepest norm; NaN if the norm of any layer is not finite."""
    if not all(map(math.isfinite, norms)):
        return math.nan
    return norms[-1]


def _resampled_accuracy(
    right: list[Tensor],
    report: DiagnosticReport,
    resamples: int,
    generator: torch.Generator,
    counted_on: int | None,
) -> list[float]:
    """Binomial(n, accuracy)/n: n samples drawn with replacement."""
    measured = (report.headline_acc_source or "").startswith("measured")
    if counted_on is None and measured:
        counted_on = sum(map(len, right))
    # the tokens of a sample are no independent draws
    if counted_on is None or report.headline_acc is None or report.flatten == PER_TOKEN:
        return []
    count = torch.full((resamples,), counted_on, dtype=torch.float64)
    hits = torch.binomial(count, torch.full_like(count, report.headline_acc), generator=generator)
    values: list[float] = (hits / counted_on).tolist()
    return values
