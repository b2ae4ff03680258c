"""`diagnose`: the four diagnostics of one network from one fused pass per eval batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from fa_core.errors import UsageError
from fa_core.measure.accuracy import AccuracyMeter
from fa_core.measure.batches import counted, placed
from fa_core.measure.borrow import Borrowed, borrow
from fa_core.measure.fused import Pass
from fa_core.measure.in_parts import pass_in_parts
from fa_core.measure.norms import lower_median, sample_norms
from fa_core.measure.per_sample import check_states, choose_flatten, vectors
from fa_core.measure.stability import DriftMeter
from fa_core.measure.taps import Tapped, Taps, resolve_taps
from fa_core.report import DiagnosticReport, DiagnosticThresholds

Progress = Callable[[int, int], object]
"""Called with (batches done, batches in all)."""


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
        self._dtype = str(done.logits.dtype).removeprefix("torch.")
        self._batch_size = batch_size

    def _add_norms(self, done: Pass, batch_size: int) -> None:
        # a smaller last batch has a larger 1/B: brought to the first one's
        to_first = batch_size / self._batch_size
        self._h.append([sample_norms(vectors(h, self._flatten)) for h in done.hidden])
        self._g.append([sample_norms(vectors(g, self._flatten)) * to_first for g in done.gradients])
        self._e.append(sample_norms(done.logit_gradient) * batch_size)

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
            unmeasured={} if why is None or stability is not None else {"c": why},
            **given,
        )


def diagnose(
    model: nn.Module,
    eval_batches: Iterable[Any],
    headline_acc: float | None = None,
    frozen_baseline_acc: float | None = None,
    method_name: str = "",
    notes: str = "",
    thresholds: DiagnosticThresholds | None = None,
    taps: Taps = None,
    device: str | torch.device | None = None,
    stability_layer: int | None = None,
    norm_batches: int = 1,
    dtype: str | None = None,
    on_batch: Progress | None = None,
    largest_pass: int | None = None,
) -> DiagnosticReport:
    """Measure the four diagnostics of a network.

    One forward and one backward pass per batch, to the activations only, give
        (a) median_i ‖h_l,i‖₂ and (b) median_i ‖g_l,i‖₂, l = 0..L, over the first `norm_batches`,
        (c) the mean pairwise cosine of the batch-mean gradients at one layer, over all K batches,
        the accuracy over all batches, and median_i ‖e_T,i‖₂ over those of (a).

    Args:
        model: any network whose stream can be tapped. It comes back as it went in.
        eval_batches: (x, y) pairs; (c) needs 8 or more, disjoint, of 128 samples.
        headline_acc: the accuracy claimed, a fraction; None = measured on the eval batches and marked so.
        frozen_baseline_acc: the accuracy with blocks frozen at init; None leaves (d) unmeasured.
        method_name: for the report.
        notes: for the report.
        thresholds: what the verdict is judged by; None = the defaults.
        taps: None = ``model(x, return_hidden=True)``; patterns such as ``["embed", "blocks.*"]``; or a
            function (model, x) -> (logits, [h_0..h_L]).
        device: where to measure; None = where the network is.
        stability_layer: where (c) is measured; None = L//2.
        norm_batches: how many batches (a) and (b) pool their samples from.
        dtype: None = float32 for half-precision networks, others as they are; or ``"float32"``,
            ``"float64"``, ``"as-is"``.
        on_batch: called with (done, total) after every batch.
        largest_pass: samples per forward and backward pass, where a whole batch does not fit into memory;
            the numbers stay the same.

    Returns:
        A report; norms in the stream's unit and in nats per that unit (with CE's 1/B).

    Raises:
        TapError: the stream cannot be tapped.
        MeasureError: data that do not fit the network, or no data.
        UsageError: an argument that cannot be meant.

    Source: PROTOCOL §3, DESIGN "Library contract".

    >>> class Doubling(nn.Module):
    ...     def forward(self, x, return_hidden=False):
    ...         h = x + x
    ...         return (h, [x, h]) if return_hidden else h
    >>> report = diagnose(Doubling(), [(torch.eye(2), torch.tensor([0, 1]))])
    >>> report.residual_norms, report.headline_acc, report.coverage
    ([1.0, 2.0], 1.0, 'ab')
    """
    _check_arguments(headline_acc, frozen_baseline_acc, norm_batches, largest_pass)
    batches, total = counted(eval_batches)
    with borrow(model, dtype, device) as net:
        diagnosis = Diagnosis(net, resolve_taps(net.model, taps), stability_layer, norm_batches, largest_pass)
        for index, batch in enumerate(batches):
            diagnosis.update(*placed(batch, index, net))
            if on_batch is not None:
                on_batch(index + 1, total)
        return diagnosis.report(
            headline_acc=headline_acc,
            frozen_baseline_acc=frozen_baseline_acc,
            method_name=method_name,
            notes=notes,
            thresholds=thresholds or DiagnosticThresholds(),
        )


def _check_arguments(
    headline_acc: float | None, frozen_baseline_acc: float | None, norm_batches: int, largest_pass: int | None
) -> None:
    if norm_batches < 1:
        raise UsageError(f"norm_batches is {norm_batches}", hint="at least one batch gives the norms")
    if largest_pass is not None and largest_pass < 1:
        raise UsageError(f"largest_pass is {largest_pass}", hint="a pass needs at least one sample")
    for name, acc in (("headline_acc", headline_acc), ("frozen_baseline_acc", frozen_baseline_acc)):
        if acc is not None and math.isfinite(acc) and not 0.0 <= acc <= 1.0:
            raise UsageError(f"{name} is {acc}", hint="accuracies are fractions in [0, 1]")


def _medians(per_batch: list[list[Tensor]]) -> list[float]:
    """Median over the pooled samples, per layer, fetched from the device at once."""
    pooled = [torch.cat(batches) for batches in zip(*per_batch, strict=True)]
    medians: list[float] = torch.stack([lower_median(norms) for norms in pooled]).tolist()
    return medians
