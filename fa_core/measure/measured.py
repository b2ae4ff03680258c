"""What was measured of one network, and the report made of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from torch import Tensor

from fa_core.measure.draws import DREW
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


class Diagnosed(Protocol):
    """A network that was measured, by itself or together with others."""

    def report(self, **given: Any) -> DiagnosticReport:
        """What was measured, with the fields the caller knows."""

    def samples(self) -> Samples:
        """The measured values before any median or mean, on the CPU."""


@dataclass(frozen=True)
class Measured:
    """The numbers of one network, off the device.

    Attributes:
        residual_norms: median ‖h_l‖, l = 0..L.
        bp_grad_norms: median ‖g_l‖.
        error_norm: median ‖e_T‖.
        cross_batch_stability: (c), None where it was not measured.
        why_no_drift: the reason then.
        right: how many samples of the eval batches were classified rightly.
        counted: of how many.
        stability_layer: where (c) was measured.
        batch_size: samples in the first batch.
        n_batches: K.
        norm_batches: how many of them (a) and (b) used.
        dtype: of the logits.
        tap_names: names of h_0..h_L.
        flatten: how states became vectors.
        custom_backward: the network's own backward functions.
        take_samples: fetches what the numbers were computed from.
        drew: the network drew random numbers.
    """

    residual_norms: list[float]
    bp_grad_norms: list[float]
    error_norm: float
    cross_batch_stability: float | None
    why_no_drift: str | None
    right: int
    counted: int
    stability_layer: int
    batch_size: int
    n_batches: int
    norm_batches: int
    dtype: str
    tap_names: list[str]
    flatten: str
    custom_backward: list[str]
    take_samples: Callable[[], Samples]
    drew: bool = False

    def samples(self) -> Samples:
        """The measured values before any median or mean, on the CPU."""
        return self.take_samples()

    def report(self, **given: Any) -> DiagnosticReport:
        """What was measured, with the fields the caller knows."""
        measured = given.get("headline_acc") is None
        if measured:
            given["headline_acc"] = self.right / self.counted
        if self.drew:
            given["notes"] = "; ".join(filter(None, [given.get("notes"), DREW]))
        unmeasured = self.cross_batch_stability is None and self.why_no_drift is not None
        return DiagnosticReport(
            residual_norms=list(self.residual_norms),
            bp_grad_norms=list(self.bp_grad_norms),
            stability_layer=self.stability_layer,
            cross_batch_stability=self.cross_batch_stability,
            headline_acc_source=f"measured on {self.counted} eval samples" if measured else "given",
            batch_size=self.batch_size,
            n_batches=self.n_batches,
            norm_batches=self.norm_batches,
            dtype=self.dtype,
            tap_names=list(self.tap_names),
            flatten=self.flatten,
            error_norm=self.error_norm,
            provenance={"custom_backward": list(self.custom_backward)} if self.custom_backward else {},
            unmeasured={"c": str(self.why_no_drift)} if unmeasured else {},
            **given,
        )
