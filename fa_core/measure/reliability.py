"""Reliability of an audit's numbers.

Reference precision: the gradient in the arithmetic of the audit against the one in float64.
Bootstrap over batches and samples: the numbers of the same audit on other samples.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from fa_core.errors import UsageError
from fa_core.facts.measurements import ReferencePrecision, Resampling
from fa_core.measure.batch_input import to_device
from fa_core.measure.diagnosed import Samples
from fa_core.measure.flattening import PER_TOKEN, Flattening
from fa_core.measure.isolate import eval_mode
from fa_core.measure.microbatches import true_pass
from fa_core.measure.norms import lower_median, mean_where, sample_cosines, sample_norms
from fa_core.measure.passes import Pass
from fa_core.measure.taps import Taps
from fa_core.report import DiagnosticReport


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
    layers = []
    for g, exact in zip(judged.gradients, reference.gradients, strict=True):
        layers.append(_layer_precision(flattening.vectors(g), flattening.vectors(exact)))
    cosine, worst, norm_ratio, lost = zip(*layers, strict=True)
    return ReferencePrecision(
        cosine=list(cosine),
        worst=list(worst),
        norm_ratio=list(norm_ratio),
        lost=list(lost),
        samples=len(flattening.vectors(judged.gradients[0])),
        dtype=judged.dtype,
    )


def _measured(
    model: nn.Module, batch: Any, taps: Taps, dtype: str | None, largest_pass: int | None
) -> Pass:
    with eval_mode(model, dtype) as net:
        return true_pass(net, taps, *to_device(batch, 0, net), largest_pass)


class _LayerPrecision(NamedTuple):
    """One layer of a `ReferencePrecision`."""

    cosine: float | None
    worst: float | None
    norm_ratio: float | None
    lost: int


def _layer_precision(g: Tensor, exact: Tensor) -> _LayerPrecision:
    norms, exact_norms = sample_norms(g), sample_norms(exact)
    kept, real = norms != 0, exact_norms != 0
    cosines = sample_cosines(g, exact)
    worst = None
    if bool((kept & real).any()):
        worst = float(cosines[kept & real].min())
    ratio = None
    reference = float(lower_median(exact_norms))
    if reference != 0:
        ratio = float(lower_median(norms)) / reference
    lost = int((~kept & real).sum())
    return _LayerPrecision(mean_where(cosines, kept & real), worst, ratio, lost)


RESAMPLES = 1000


def bootstrap(
    samples: Samples,
    report: DiagnosticReport,
    resamples: int = RESAMPLES,
    seed: int = 0,
    counted_on: int | None = None,
) -> Resampling:
    """Resample the samples behind a report; `fa_core.judgement.confidence` judges the resamples.

    (a), (b): medians over samples of the norm batches, drawn with replacement, the same ones at
    every layer. (c): the mean cosine over pairs of *different* batches among K drawn ones (a batch
    with itself has cosine 1 and says nothing). Accuracy: Binomial(n, accuracy)/n, n the samples it
    was counted on; one that was given stays as given.

    Args:
        samples: from the same diagnosis as `report`.
        report: what was reported.
        resamples: R.
        seed: of the draws.
        counted_on: the number of samples behind the report's accuracy, where they are not the eval
            batches.

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
    if growth is None:
        return math.nan
    return growth


def _last_norm(norms: list[float]) -> float:
    """The deepest norm; NaN where the norm of any layer is not finite."""
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
    """Binomial(n, accuracy)/n: drawing n samples with replacement."""
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
