"""The streaming measurement behind `diagnose`: one fused pass per batch, a report at the end."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fa_core.errors import TapError, UsageError
from fa_core.measure.accuracy import AccuracyMeter
from fa_core.measure.borrow import Borrowed
from fa_core.measure.fused import Pass
from fa_core.measure.in_parts import pass_in_parts
from fa_core.measure.norms import lower_median, sample_norms, unit_rows
from fa_core.measure.per_sample import check_states, choose_flatten, vectors
from fa_core.measure.stability import DriftMeter
from fa_core.measure.taps import Tapped
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


class Diagnosis:
    """Streaming measurement: `update` per batch, `report` at the end.

    Args:
        net: the borrowed network.
        tapped: how to tap it.
        stability_layer: where (c) is measured; None = L//2.
        norm_batches: how many of the first batches (a) and (b) use.
        largest_pass: samples per forward and backward pass; None = a whole batch.
    """

    def __init__(
        self,
        net: Borrowed,
        tapped: Tapped,
        stability_layer: int | None = None,
        norm_batches: int = 1,
        largest_pass: int | None = None,
    ) -> None:
        self._net = net
        self._tapped = tapped
        self._layer = stability_layer
        self._norm_batches = norm_batches
        self._largest_pass = largest_pass
        self._flatten = ""
        self._names: list[str] = []
        self._custom_functions: list[str] = []
        self._dtype = ""
        self._batch_size = 0
        self._batches = 0
        self._h: list[list[Tensor]] = []
        self._g: list[list[Tensor]] = []
        self._e: list[Tensor] = []
        self._drift = DriftMeter()
        self._accuracy = AccuracyMeter(net, tapped.logits)

    def update(self, x: Tensor, y: Tensor) -> None:
        """Measure one batch: x (B, ...), y (B,), both on the network's device."""
        where = f"eval batch {self._batches}"
        for_norms = self._batches < self._norm_batches
        layers = None if for_norms else [self._stability_layer]
        done = pass_in_parts(self._tapped, self._net.model, x, y, layers, where, self._largest_pass)
        if self._batches == 0:
            self._begin(done, len(y))
        elif len(done.names) != len(self._names):
            raise TapError(
                f"{len(done.names)} states, {len(self._names)} in the first batch",
                where=where,
                hint="the taps must be the same for every batch",
            )
        if for_norms:
            self._add_norms(done, len(y))
        at = self._stability_layer if for_norms else 0
        self._drift.update(vectors(done.gradients[at], self._flatten))
        self._accuracy.update(x, y, done.logits)
        self._batches += 1

    @property
    def _stability_layer(self) -> int:
        assert self._layer is not None
        return self._layer

    def _begin(self, done: Pass, batch_size: int) -> None:
        check_states(done.hidden, done.names, batch_size)
        last = len(done.hidden) - 1
        if self._layer is None:
            self._layer = last // 2
        if not 0 <= self._layer <= last:
            raise UsageError(f"stability_layer {self._layer} does not exist", hint=f"the taps are layers 0..{last}")
        self._flatten = choose_flatten(done.hidden, done.gradients[-1])
        self._names = done.names
        self._custom_functions = done.custom_functions
        self._dtype = str(done.logits.dtype).removeprefix("torch.")
        self._batch_size = batch_size

    def _add_norms(self, done: Pass, batch_size: int) -> None:
        # a smaller last batch has a larger 1/B: brought to the first one's
        to_first = batch_size / self._batch_size
        self._h.append([sample_norms(vectors(h, self._flatten)) for h in done.hidden])
        self._g.append([sample_norms(vectors(g, self._flatten)) * to_first for g in done.gradients])
        self._e.append(sample_norms(done.logit_gradient) * batch_size)

    def samples(self) -> Samples:
        """The measured values before any median or mean, on the CPU."""
        gram = unit_rows(self._drift.means())
        return Samples(
            residual_norms=[torch.stack(layers).cpu() for layers in self._h],
            bp_grad_norms=[torch.stack(layers).cpu() for layers in self._g],
            error_norms=[norms.cpu() for norms in self._e],
            right=[right.cpu() for right in self._accuracy.right],
            drift_cosines=(gram @ gram.T).cpu(),
        )

    def report(self, **given: Any) -> DiagnosticReport:
        """What was measured so far, with the fields the caller knows."""
        stability, why = self._drift.compute()
        residual_norms, bp_grad_norms = (_medians(per_batch) for per_batch in (self._h, self._g))
        if stability is None and all(map(math.isfinite, residual_norms + bp_grad_norms)):
            # too few batches to judge drift, but a non-finite gradient is not to go unseen
            stability = math.nan if self._drift.nonfinite_batch() is not None else None
        measured = given.get("headline_acc") is None
        if measured:
            given["headline_acc"] = self._accuracy.compute()
        return DiagnosticReport(
            residual_norms=residual_norms,
            bp_grad_norms=bp_grad_norms,
            stability_layer=self._layer,
            cross_batch_stability=stability,
            headline_acc_source=f"measured on {self._accuracy.samples} eval samples" if measured else "given",
            batch_size=self._batch_size,
            n_batches=self._batches,
            norm_batches=len(self._e),
            dtype=self._dtype,
            tap_names=self._names,
            flatten=self._flatten,
            error_norm=float(lower_median(torch.cat(self._e))),
            provenance={"custom_backward": self._custom_functions} if self._custom_functions else {},
            unmeasured={} if why is None or stability is not None else {"c": why},
            **given,
        )


def _medians(per_batch: list[list[Tensor]]) -> list[float]:
    """Median over the pooled samples, per layer, fetched from the device at once."""
    pooled = [torch.cat(batches) for batches in zip(*per_batch, strict=True)]
    medians: list[float] = torch.stack([lower_median(norms) for norms in pooled]).tolist()
    return medians
