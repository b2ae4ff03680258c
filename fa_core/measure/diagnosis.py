"""The streaming measurement behind `diagnose`: one fused pass per batch, a report at the end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import Tensor

from fa_core.measure.accuracy import AccuracyMeter
from fa_core.measure.borrow import Borrowed
from fa_core.measure.in_parts import pass_in_parts
from fa_core.measure.measured import Measured, Samples
from fa_core.measure.tally import Tally
from fa_core.measure.taps import Tapped
from fa_core.report import DiagnosticReport


class Diagnosis:
    """Streaming measurement: `update` per batch, `report` at the end.

    Args:
        net: the borrowed network.
        tapped: how to tap it.
        stability_layer: where (c) is measured; None = L//2.
        norm_batches: how many of the first batches (a) and (b) use.
        largest_pass: samples per forward and backward pass; None = a whole batch.

    Attributes:
        accuracy: on the batches so far.
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
        self._largest_pass = largest_pass
        self._tally = Tally(stability_layer, norm_batches)
        self.accuracy = AccuracyMeter(net, tapped.logits)

    def update(self, x: Tensor, y: Tensor) -> None:
        """Measure one batch: x (B, ...), y (B,), both on the network's device."""
        where = f"eval batch {self._tally.batches}"
        with self._net.draws.passing():
            done = pass_in_parts(self._tapped, self._net.model, x, y, self._tally.layers, where, self._largest_pass)
            self._tally.add(done, where)
            self.accuracy.update(x, y, done.logits)

    def measured(self) -> Measured:
        """The numbers so far."""
        numbers = self._tally.measured([right[None] for right in self.accuracy.right])[0]
        return replace(numbers, drew=self._net.draws.noticed)

    def samples(self) -> Samples:
        """The measured values before any median or mean, on the CPU."""
        return self.measured().samples()

    def report(self, **given: Any) -> DiagnosticReport:
        """What was measured so far, with the fields the caller knows."""
        return self.measured().report(**given)
