"""The measured numbers of one network, and its report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

import msgspec
from torch import Tensor

from fa_core.decode import Json
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.judgement.diagnostics import DIAGNOSTICS
from fa_core.judgement.gamma import aggregation
from fa_core.judgement.intervals import share_interval
from fa_core.measure.flattening import PER_TOKEN, Flattening
from fa_core.measure.norms import gamma, mean_over, share_of_zeros
from fa_core.measure.passes import Pass
from fa_core.measure.tracing import agreeing
from fa_core.report import DiagnosticReport


@dataclass(frozen=True)
class Samples:
    """The values per sample behind a diagnosis, one entry per batch.

    Attributes:
        residual_norms: (L+1, B) ‖h_l,i‖ of each batch behind (a).
        bp_grad_norms: (L+1, B) ‖g_l,i‖ of the same batches.
        error_norms: (B,) ‖e_T,i‖ of the same batches.
        right: (B,) bool of every batch: classified correctly.
        drift_cosines: (K, K), the cosines of (c); NaN for a mean gradient that is 0 or not finite.
    """

    residual_norms: list[Tensor]
    bp_grad_norms: list[Tensor]
    error_norms: list[Tensor]
    right: list[Tensor]
    drift_cosines: Tensor


@dataclass(frozen=True)
class Diagnosis:
    """The numbers of one network.

    Attributes:
        numbers: its report without the accuracy and the fields the caller gives.
        hits: number of correct labels in the eval batches.
        counted: number of labels in the eval batches.
        samples: fetches the values before any median or mean, to the CPU.
        notes: notes on the measurement.
        first_batch: the first batch as it was given.
    """

    numbers: DiagnosticReport
    hits: int
    counted: int
    samples: Callable[[], Samples]
    notes: Sequence[str] = ()
    first_batch: object = None

    def report(
        self,
        headline_acc: float | None = None,
        frozen_baseline_acc: float | None = None,
        method_name: str = "",
        notes: str = "",
        thresholds: DiagnosticThresholds | None = None,
    ) -> DiagnosticReport:
        """The report: the measured numbers and the caller's fields, as for `diagnose`.

        Without thresholds, the report states none.
        """
        intervals = self.numbers.intervals
        source = "given"
        if headline_acc is None:
            headline_acc = self.hits / self.counted
            source = f"measured on {self.counted} eval labels"
            # the tokens of a sample are no independent draws
            if self.numbers.flatten != PER_TOKEN:
                source = f"measured on {self.counted} eval samples"
                intervals = {**intervals, "acc": share_interval(self.hits, self.counted)}
        return msgspec.structs.replace(
            self.numbers,
            headline_acc=headline_acc,
            headline_acc_source=source,
            frozen_baseline_acc=frozen_baseline_acc,
            method_name=method_name,
            notes="; ".join(filter(None, [notes, *self.notes])),
            thresholds=thresholds or self.numbers.thresholds,
            intervals=intervals,
        )


def dead_stream_notes(dark: Sequence[int], unreached: Sequence[int]) -> list[str]:
    """Notes on states and gradients that are exactly 0 in every sample.

    Args:
        dark: for h_0..h_L, whether ‖h_l‖ is 0 in every sample.
        unreached: for g_0..g_L, whether ‖g_l‖ is 0 in every sample.

    >>> dead_stream_notes([False, True, True], [True, True, False])
    ['the stream is 0 from l = 1 on', 'no gradient reaches the embedding: g_0 to g_1 are 0']
    """
    notes = []
    if dark[-1]:
        first = len(dark) - _leading_count(reversed(dark))
        notes.append(f"the stream is 0 from l = {first} on")
    zeros = _leading_count(unreached)
    if zeros:
        where = "g_0 is 0" if zeros == 1 else f"g_0 to g_{zeros - 1} are 0"
        notes.append(f"no gradient reaches the embedding: {where}")
    return notes


def _leading_count(flags: Iterable[int]) -> int:
    """Number of true flags before the first false one."""
    return len(list(takewhile(bool, flags)))


def own_credit(done: Pass, flattening: Flattening) -> Json:
    """A report's ``credit``: Γ of a network's own backward pass.

    Keys as in `CreditQuality.to_dict`.
    """
    gammas = []
    zeros = []
    for a, g in zip(done.credit, done.gradients, strict=True):
        credit = flattening.vectors(a)
        gammas.append(gamma(credit, flattening.vectors(g)))
        zeros.append(share_of_zeros(credit))
    free = agreeing(done.credit, done.gradients)
    return {
        "gamma": gammas,
        "zeros": zeros,
        "deep_gamma": mean_over(gammas, without=free),
        "deep_gamma_with_free": mean_over(gammas),
        "gamma_L": gammas[-1],
        "samples": len(flattening.vectors(done.credit[0])),
        "free_layers": free,
        "aggregation": aggregation(free),
    }


def without_gradient(report: DiagnosticReport, why: dict[str, str]) -> DiagnosticReport:
    """A report without the numbers of an unknown gradient.

    Args:
        report: the report.
        why: ``"c"``, or ``"b"`` and ``"c"`` → why it is not measured.
    """
    columns = [DIAGNOSTICS[letter].column for letter in why]
    intervals = {name: ends for name, ends in report.intervals.items() if name not in columns}
    return msgspec.structs.replace(
        report,
        cross_batch_stability=None,
        mean_error=None,
        bp_grad_norms=[] if "b" in why else report.bp_grad_norms,
        intervals=intervals,
        credit=report.credit or {"missing": {"gamma": why["c"]}},
        unmeasured=why,
    )
