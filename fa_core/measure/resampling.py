"""How firm is a verdict? Bootstrap over batches and samples: an interval per diagnostic, a share per verdict."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from msgspec.structs import replace
from torch import Tensor, nn

from fa_core.errors import UsageError
from fa_core.measure.diagnose import check_accuracies, run_diagnosis
from fa_core.measure.diagnosis import Samples
from fa_core.measure.norms import lower_median
from fa_core.report import LETTERS, DiagnosticReport, DiagnosticThresholds

RESAMPLES = 1000
LEVEL = 0.95

Interval = tuple[float, float]


@dataclass(frozen=True)
class Resampling:
    """What the same audit would have said on other samples.

    Attributes:
        intervals: ``growth``, ``g_L``, ``stability``, ``acc`` and ``margin_pp``, where measured → (low, high), the
            central `level` of the resamples, in the diagnostic's own unit.
        fired: diagnostic letter → share of resamples in which it fires.
        verdicts: verdict text → share of resamples.
        same_verdict: share of resamples with the report's verdict.
        resamples: R.
        level: of the intervals.

    Source: PROTOCOL §8; Efron & Tibshirani, An Introduction to the Bootstrap, 1993 (percentile intervals).
    """

    intervals: dict[str, Interval]
    fired: dict[str, float]
    verdicts: dict[str, float]
    same_verdict: float
    resamples: int
    level: float

    def to_dict(self) -> dict[str, Any]:
        """For a report."""
        return {
            "intervals": {name: list(interval) for name, interval in self.intervals.items()},
            "fired": self.fired,
            "verdicts": self.verdicts,
            "same_verdict": self.same_verdict,
            "resamples": self.resamples,
            "level": self.level,
        }


def bootstrap(
    samples: Samples, report: DiagnosticReport, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0
) -> Resampling:
    """Resample what a report was computed from and judge every resample as the report was judged.

    Batches are drawn with replacement, then samples within each. (a), (b): medians over the drawn samples
    of the norm batches. (c): the mean cosine over pairs of *different* batches among the drawn ones (a batch
    with itself has cosine 1 and says nothing). Accuracy: over the drawn samples of all batches; one that was
    given instead of measured stays as given, as does the frozen baseline.

    Args:
        samples: from the same diagnosis as `report`.
        report: what was reported.
        resamples: R.
        level: of the intervals, in (0, 1).
        seed: of the draws.

    Raises:
        UsageError: R < 1 or a level outside (0, 1).

    Source: PROTOCOL §8.
    """
    if resamples < 1 or not 0 < level < 1:
        raise UsageError(f"{resamples} resamples at level {level}", hint="R is at least 1, the level between 0 and 1")
    generator = torch.Generator().manual_seed(seed)
    index = two_stage([norms.shape[1] for norms in samples.residual_norms], resamples, generator)
    h, g = (_resampled_medians(norms, index) for norms in (samples.residual_norms, samples.bp_grad_norms))
    drift = resampled_drift(samples.drift_cosines, resamples, generator)
    acc = _resampled_accuracy(samples.right, resamples, generator)
    measured_acc = (report.headline_acc_source or "").startswith("measured")
    replicas = [
        replace(
            report,
            residual_norms=h[r],
            bp_grad_norms=g[r],
            cross_batch_stability=None if report.cross_batch_stability is None else drift[r],
            headline_acc=acc[r] if measured_acc else report.headline_acc,
        )
        for r in range(resamples)
    ]
    return summarise(report, replicas, level)


def diagnose_resampled(
    model: nn.Module,
    eval_batches: Iterable[Any],
    headline_acc: float | None = None,
    frozen_baseline_acc: float | None = None,
    thresholds: DiagnosticThresholds | None = None,
    resamples: int = RESAMPLES,
    level: float = LEVEL,
    seed: int = 0,
    **options: Any,
) -> tuple[DiagnosticReport, Resampling]:
    """`diagnose` and its `bootstrap`, from the same passes.

    Args:
        model, eval_batches, headline_acc, frozen_baseline_acc, thresholds: as for `diagnose`.
        resamples, level, seed: as for `bootstrap`.
        options: further arguments of `run_diagnosis`.
    """
    check_accuracies(headline_acc=headline_acc, frozen_baseline_acc=frozen_baseline_acc)
    diagnosis = run_diagnosis(model, eval_batches, **options)
    report = diagnosis.report(
        headline_acc=headline_acc,
        frozen_baseline_acc=frozen_baseline_acc,
        thresholds=thresholds or DiagnosticThresholds(),
    )
    return report, bootstrap(diagnosis.samples(), report, resamples, level, seed)


def two_stage(sizes: list[int], resamples: int, generator: torch.Generator) -> Tensor:
    """Indices into the pooled samples: batches with replacement, then samples within each.

    Args:
        sizes: samples per batch.
        resamples: R.
        generator: on the CPU.

    Returns:
        (R, Σ sizes) int64.

    >>> two_stage([3], 2, torch.Generator().manual_seed(0)).shape
    torch.Size([2, 3])
    """
    counts = torch.tensor(sizes)
    starts = counts.cumsum(0) - counts
    slots = torch.arange(len(sizes)).repeat_interleave(counts)
    chosen = torch.randint(len(sizes), (resamples, len(sizes)), generator=generator)[:, slots]
    within = torch.rand(chosen.shape, generator=generator, dtype=torch.float64) * counts[chosen]
    return starts[chosen] + within.long()


def resampled_drift(cosines: Tensor, resamples: int, generator: torch.Generator) -> list[float]:
    """(c) of batches drawn with replacement: Σ w_j·w_k·c_jk / Σ w_j·w_k over j ≠ k, w = how often each was drawn.

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


def summarise(report: DiagnosticReport, replicas: list[DiagnosticReport], level: float) -> Resampling:
    """Intervals and shares over resampled reports."""
    series: dict[str, list[float | None]] = {
        "growth": [r.max_per_block_growth for r in replicas],
        "g_L": [r.g_L for r in replicas],
        "stability": [r.cross_batch_stability for r in replicas],
        "acc": [r.headline_acc for r in replicas],
        "margin_pp": [r.margin_pp for r in replicas],
    }
    complete = {name: [v for v in values if v is not None] for name, values in series.items()}
    verdicts = Counter(r.verdict for r in replicas)
    fired = Counter(letter for r in replicas for letter in r.flags)
    n = len(replicas)
    return Resampling(
        intervals={name: _interval(values, level) for name, values in complete.items() if values},
        fired={letter: fired[letter] / n for letter in LETTERS if letter in report.coverage},
        verdicts={verdict: count / n for verdict, count in verdicts.most_common()},
        same_verdict=verdicts[report.verdict] / n,
        resamples=n,
        level=level,
    )


def _interval(values: list[float], level: float) -> Interval:
    tail = (1 - level) / 2
    ordered = torch.tensor(values, dtype=torch.float64)
    low, high = torch.quantile(ordered, torch.tensor([tail, 1 - tail], dtype=torch.float64)).tolist()
    return low, high


def _resampled_medians(per_batch: list[Tensor], index: Tensor) -> list[list[float]]:
    """(L+1, B) norms per batch → R lists of L+1 medians."""
    pooled = torch.cat(per_batch, dim=1)
    medians: list[list[float]] = torch.stack([lower_median(layer[index]) for layer in pooled], dim=1).tolist()
    return medians


def _resampled_accuracy(right: list[Tensor], resamples: int, generator: torch.Generator) -> list[float]:
    """Drawing n samples of a batch with replacement gets Binomial(n, its accuracy) right."""
    counts = torch.tensor([len(batch) for batch in right], dtype=torch.float64)
    shares = torch.stack([batch.double().mean() for batch in right])
    chosen = torch.randint(len(right), (resamples, len(right)), generator=generator)
    hits = torch.binomial(counts.expand_as(chosen), shares[chosen], generator=generator)
    values: list[float] = (hits.sum(dim=1) / counts.sum()).tolist()
    return values
