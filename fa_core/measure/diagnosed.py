"""The numbers of one diagnosed network, and the report made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from torch import Tensor

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
    """What a diagnosis was computed from, one entry per batch.

    Attributes:
        residual_norms: (L+1, B) ‖h_l,i‖ of each batch behind (a).
        bp_grad_norms: (L+1, B) ‖g_l,i‖ of the same batches.
        error_norms: (B,) ‖e_T,i‖ of the same batches.
        right: (B,) bool of every batch: classified rightly.
        drift_cosines: (K, K), the cosines of (c); NaN where a mean gradient is 0 or not finite.
    """

    residual_norms: list[Tensor]
    bp_grad_norms: list[Tensor]
    error_norms: list[Tensor]
    right: list[Tensor]
    drift_cosines: Tensor


@dataclass(frozen=True)
class Diagnosed:
    """The numbers of one network, off the device, measured by itself or together with others.

    Attributes:
        numbers: all of its report that was measured, but for the accuracy.
        hits: labels of the eval batches that were classified rightly.
        counted: of how many.
        samples: fetches what the numbers were computed from: values before any median or mean, on
            the CPU.
        remarks: what the report has to say of the measurement.
    """

    numbers: DiagnosticReport
    hits: int
    counted: int
    samples: Callable[[], Samples]
    remarks: Sequence[str] = ()

    def report(self, **given: Any) -> DiagnosticReport:
        """The report: what was measured, with the fields the caller knows."""
        source = "given"
        if given.get("headline_acc") is None:
            given["headline_acc"] = self.hits / self.counted
            source = f"measured on {self.counted} eval labels"
            # the tokens of a sample are no independent draws
            if self.numbers.flatten != PER_TOKEN:
                source = f"measured on {self.counted} eval samples"
                interval = share_interval(self.hits, self.counted)
                given["intervals"] = {**self.numbers.intervals, "acc": interval}
        notes = [given.get("notes"), *self.remarks]
        given["notes"] = "; ".join(filter(None, notes))
        return msgspec.structs.replace(self.numbers, headline_acc_source=source, **given)


def dead_stream_notes(dark: Sequence[int], unreached: Sequence[int]) -> list[str]:
    """Notes about a stream, and a gradient, that is exactly 0 in every sample.

    Args:
        dark: for h_0..h_L, whether ‖h_l‖ is 0 in every sample.
        unreached: for g_0..g_L, whether ‖g_l‖ is.

    >>> dead_stream_notes([False, True, True], [True, True, False])
    ['the stream is 0 from l = 1 on', 'no gradient reaches the embedding: g_0 to g_1 are 0']
    """
    notes = []
    if dark[-1]:
        alive = [l for l, dead in enumerate(dark) if not dead]
        notes.append(f"the stream is 0 from l = {max(alive, default=-1) + 1} on")
    if unreached and unreached[0]:
        alive = [l for l, dead in enumerate(unreached) if not dead]
        last = min(alive, default=len(unreached)) - 1
        where = "g_0 is 0"
        if last:
            where = f"g_0 to g_{last} are 0"
        notes.append(f"no gradient reaches the embedding: {where}")
    return notes


def own_credit(done: Pass, flattening: Flattening) -> dict[str, Any]:
    """A report's ``credit``: Γ of a network's own backward pass, as `CreditQuality.to_dict` names
    it."""
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
    """A report without the numbers of gradients that are not known: (c), or (b) and (c)."""
    columns = [DIAGNOSTICS[letter].column for letter in why]
    intervals = {name: ends for name, ends in report.intervals.items() if name not in columns}
    return msgspec.structs.replace(
        report,
        cross_batch_stability=None,
        bp_grad_norms=[] if "b" in why else report.bp_grad_norms,
        intervals=intervals,
        credit=report.credit or {"missing": {"gamma": why["c"]}},
        unmeasured=why,
    )
