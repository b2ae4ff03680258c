"""How far the numbers of an audit can be trusted.

Is the reference right? The gradient in the arithmetic of the audit against the one in float64.
Bootstrap over batches and samples: what the same audit would have measured on others.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from fa_core.errors import UsageError
from fa_core.measure.batch_input import to_device
from fa_core.measure.diagnosed import Samples
from fa_core.measure.flattening import PER_TOKEN, Flattening
from fa_core.measure.isolate import borrow
from fa_core.measure.microbatches import true_pass
from fa_core.measure.norms import lower_median, mean_where, sample_cosines, sample_norms
from fa_core.measure.passes import Pass
from fa_core.measure.taps import Taps
from fa_core.report import DiagnosticReport, ReferencePrecision, Resampling


def reference_precision(
    model: nn.Module,
    batch: Any,
    taps: Taps = None,
    dtype: str | None = None,
    largest_pass: int | None = None,
) -> ReferencePrecision:
    """cos(g_l, g_l in float64) at every layer, on one batch.

    Args:
        model: the network; it comes back as it was.
        batch: as for `diagnose`.
        taps: as for `diagnose`.
        dtype: the arithmetic to be judged, as for `diagnose`: None = what `diagnose` would use.
        largest_pass: samples per pass, as for `diagnose`.

    Raises:
        MeasureError: the network cannot run in float64 (a cast inside), or data that do not fit it.

    Source: docs/protocol.md §8 ("is the reference itself numerically right?").

    >>> net = nn.Sequential(nn.Linear(2, 2), nn.Tanh(), nn.Linear(2, 2))
    >>> found = reference_precision(net, (torch.eye(2), torch.tensor([0, 1])), taps="0,1")
    >>> all(c > 1 - 1e-12 for c in found.cosine), found.lost
    (True, [0, 0])
    """
    judged = _measured(model, batch, taps, dtype, largest_pass)
    reference = _measured(model, batch, taps, "float64", largest_pass)
    if reference.counting is not None:
        flattening = Flattening(PER_TOKEN, reference.counting)
    else:
        flattening = Flattening.of(reference.hidden, reference.gradients[-1])
    vectors = (map(flattening.vectors, done.gradients) for done in (judged, reference))
    pairs = list(zip(*vectors, strict=True))
    cosines = [_cosines(g, exact) for g, exact in pairs]
    return ReferencePrecision(
        cosine=[mean_where(values, defined) for values, defined, _ in cosines],
        worst=[
            float(values[defined].min()) if bool(defined.any()) else None
            for values, defined, _ in cosines
        ],
        norm_ratio=[_ratio(g, exact) for g, exact in pairs],
        lost=[lost for _, _, lost in cosines],
        samples=len(pairs[0][0]),
        dtype=judged.dtype,
    )


def _measured(
    model: nn.Module, batch: Any, taps: Taps, dtype: str | None, largest_pass: int | None
) -> Pass:
    with borrow(model, dtype) as net:
        return true_pass(net, taps, *to_device(batch, 0, net), largest_pass)


def _cosines(g: Tensor, exact: Tensor) -> tuple[Tensor, Tensor, int]:
    kept, real = sample_norms(g) != 0, sample_norms(exact) != 0
    return sample_cosines(g, exact), kept & real, int((~kept & real).sum())


def _ratio(g: Tensor, exact: Tensor) -> float | None:
    reference = float(lower_median(sample_norms(exact)))
    if reference == 0:
        return None
    return float(lower_median(sample_norms(g))) / reference


RESAMPLES = 1000


def bootstrap(
    samples: Samples,
    report: DiagnosticReport,
    resamples: int = RESAMPLES,
    seed: int = 0,
    counted_on: int | None = None,
) -> Resampling:
    """Resample what a report was computed from; `fa_core.judgement.confidence` judges the
    resamples.

    (a), (b): medians over samples of the norm batches, drawn with replacement, the same ones at
    every layer. (c): the mean cosine over pairs of *different* batches among K drawn ones (a batch
    with itself has cosine 1 and says nothing). Accuracy: Binomial(n, accuracy)/n, n the samples it
    was counted on; one that was given stays as given.

    Args:
        samples: from the same diagnosis as `report`.
        report: what was reported.
        resamples: R.
        seed: of the draws.
        counted_on: how many samples the report's accuracy was counted on, where those are not the
            eval batches.

    Raises:
        UsageError: R < 1.

    Source: docs/protocol.md §8; Efron & Tibshirani, An Introduction to the Bootstrap, 1993.
    """
    if resamples < 1:
        raise UsageError(f"{resamples} resamples", hint="give at least 1")
    generator = torch.Generator().manual_seed(seed)
    pooled = sum(norms.shape[1] for norms in samples.residual_norms)
    index = torch.randint(pooled, (resamples, pooled), generator=generator)
    h, g = (
        _resampled_medians(norms, index)
        for norms in (samples.residual_norms, samples.bp_grad_norms)
    )
    drift = resampled_drift(samples.drift_cosines, resamples, generator)
    return Resampling(
        growth=[_growth(norms) for norms in h] if report.max_per_block_growth is not None else [],
        g_L=[
            norms[-1] if all(map(math.isfinite, norms)) else math.nan
            for norms in g
            if report.bp_grad_norms
        ],
        stability=drift if report.cross_batch_stability is not None else [],
        headline_acc=_resampled_accuracy(samples.right, report, resamples, generator, counted_on),
        seed=seed,
    )


def resampled_drift(cosines: Tensor, resamples: int, generator: torch.Generator) -> list[float]:
    """(c) of batches drawn with replacement: Σ w_j·w_k·c_jk / Σ w_j·w_k over j ≠ k, w = how often
    each was drawn.

    Args:
        cosines: (K, K).
        resamples: R.
        generator: on the CPU.

    Returns:
        R values; NaN where the cosines are, or where all draws are one batch.
    """
    k = len(cosines)
    drawn = torch.randint(k, (resamples, k), generator=generator)
    weights = torch.nn.functional.one_hot(drawn, k).sum(dim=1).to(torch.float64)
    off_diagonal = cosines - torch.diag(torch.diagonal(cosines))
    total = torch.einsum("rj,jk,rk->r", weights, off_diagonal, weights)
    values: list[float] = (total / (weights.sum(dim=1) ** 2 - weights.square().sum(dim=1))).tolist()
    return values


def _resampled_medians(per_batch: list[Tensor], index: Tensor) -> list[list[float]]:
    """(L+1, B) norms per batch → R lists of L+1 medians."""
    pooled = torch.cat(per_batch, dim=1)
    medians: list[list[float]] = torch.stack(
        [lower_median(layer[index]) for layer in pooled], dim=1
    ).tolist()
    return medians


def _growth(norms: list[float]) -> float:
    growth = DiagnosticReport(residual_norms=norms).max_per_block_growth
    if growth is None:
        return math.nan
    return growth


def _resampled_accuracy(
    right: list[Tensor],
    report: DiagnosticReport,
    resamples: int,
    generator: torch.Generator,
    counted_on: int | None,
) -> list[float]:
    """Drawing n samples with replacement gets Binomial(n, their accuracy) right."""
    if counted_on is None:
        if (report.headline_acc_source or "").startswith("measured"):
            counted_on = sum(map(len, right))
        else:
            counted_on = None
    # the tokens of a sample are no independent draws
    if counted_on is None or report.headline_acc is None or report.flatten == PER_TOKEN:
        return []
    count = torch.full((resamples,), counted_on, dtype=torch.float64)
    hits = torch.binomial(count, torch.full_like(count, report.headline_acc), generator=generator)
    values: list[float] = (hits / counted_on).tolist()
    return values
