"""Streaming statistics of the passes of one network: the numbers behind (a), (b) and (c)."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from typing import NamedTuple

import torch
from msgspec.structs import replace
from torch import Tensor
from torch.nn.functional import pad

from fa_core.errors import TapError, UsageError
from fa_core.files.decode import Json, without
from fa_core.measure.credit_metrics import credit_entries
from fa_core.measure.gradients import LayerOf, Pass
from fa_core.measure.isolate import processor_name
from fa_core.measure.norms import (
    FLATTENED,
    PER_TOKEN,
    Flattening,
    agree,
    check_states,
    check_tokens,
    each,
    growth_interval,
    lower_median,
    mean_error_part,
    mean_pairwise_cosine,
    medians_of_samples,
    summed_gradients,
    unit_rows,
    vector_norms,
)
from fa_core.measure.passes import PassOptions
from fa_core.measure.tracing import agreeing
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.intervals import (
    FEWEST_ON_A_LINE,
    LOOKS,
    MIN_BATCHES,
    Z_OF_LOOKS,
    Z_OF_ONE,
    drift_interval,
    is_on_a_line,
    median_ranks,
)
from fa_core.report.provenance import (
    BATCH_SIZES,
    CUSTOM_BACKWARD,
    GRADIENT_BY,
    Interval,
    Intervals,
    MeanError,
)
from fa_core.report.quantities import JUDGED

FEWEST_PREDICTIONS = 20
"""With fewer predictions, there is no note if all are of one class."""


CONSTANT = (
    "all samples of the first batch have the same logits up to rounding: (c) may be rounding alone "
    "and cannot pass"
)
"""What is said of logits that do not depend on the input."""

READS_PLACE = "the head reads one place of h_L, (B, C, T); norms are of all places together"
"""What is said of a series whose last step alone is read."""

MEAN_ERROR_BATCHES = 4
"""Batches that take a second backward pass, for the mean error's part of (c)."""


@dataclass(frozen=True)
class Drift:
    """(c) of one network.

    Attributes:
        value: in [−1, 1]; NaN if a gradient is not finite, None if not measured.
        why: the reason why it was not measured.
        interval: confidence interval of a finite value.
        note: why a measured value decides nothing.
    """

    value: float | None
    why: str | None = None
    interval: Interval | None = None
    note: str = ""


def drift(means: Tensor, z: float = Z_OF_ONE) -> Drift:
    """(c) of a network.

    Args:
        means: (K, D) float64, the batch-mean gradients, each up to a factor.
        z: level of the interval, see `drift_interval`.
    """
    if not torch.isfinite(means).all():
        # of too few batches, too
        return Drift(math.nan)
    if len(means) < MIN_BATCHES:
        return Drift(None, f"only {len(means)} eval batches, drift needs at least {MIN_BATCHES}")
    zero = (means == 0).all(dim=1).tolist()
    if any(zero):
        return Drift(None, f"the mean gradient of eval batch {zero.index(True)} is zero")
    directions = unit_rows(means)
    value = max(-1.0, min(1.0, mean_pairwise_cosine(directions).item()))
    cosines = (directions @ directions.T).tolist()
    note = ""
    if len(means) < FEWEST_ON_A_LINE and is_on_a_line(cosines):
        note = (
            f"the mean gradients of the {len(means)} eval batches lie on one line: (c) is "
            f"undecided with fewer than {FEWEST_ON_A_LINE}"
        )
    return Drift(value, None, drift_interval(value, cosines, z), note)


class _Norms(NamedTuple):
    """Norms of n samples.

    Attributes:
        h: (L+1, n) ‖h_l‖.
        g: (L+1, n) ‖g_l‖.
        error: (n,) ‖e_T‖.
    """

    h: Tensor
    g: Tensor
    error: Tensor


def drift_layer(asked: int | None, states: int) -> int:
    """The layer of (c): the one asked for, else L//2 of states 0..L."""
    if asked is not None:
        return asked
    return (states - 1) // 2


class Accumulator:
    """Accumulates batches: `add` each one, then `measured`; of labels (B,), only that waits for the
    device.

    Args:
        how: the options, of which the stability layer, the batches that (a) and (b) use, and the
            ceiling of (c) at which `takes_more` looks (None = K is fixed in advance) are read.

    Attributes:
        facts: entries of the report's provenance.
    """

    def __init__(self, how: PassOptions) -> None:
        self._how = how
        self._layer = 0
        self._flattening = Flattening(FLATTENED)
        self._names: list[str] = []
        self._constant = self._reads_place = False
        self.facts: Json = {}
        self._dtype = ""
        self._norms: list[_Norms] = []
        self._means: list[Tensor] = []
        self._of_mean_errors: list[Tensor] = []
        self._mean_errors: list[Tensor] = []
        self._credit: Json | None = None
        self._gradient_unknown: dict[str, str] = {}
        self._classes: list[Tensor] = []
        self._sizes: list[int] = []

    @property
    def layers(self) -> list[int] | None:
        """Layers whose gradients the next batch needs; None = all."""
        if not self._names:
            return None
        if self._for_norms:
            return list(range(len(self._names)))
        if self._flattening.reads_token:
            # the gradient at h_L shows which token the head reads
            return sorted({self._layer, len(self._names) - 1})
        return [self._layer]

    def add(self, done: Pass, where: str = "") -> None:
        """Add one batch: logits (B, C) and states (B, ...).

        Raises:
            TapError: unusable states, or another number of them than before.
            UsageError: the stability layer does not exist.
        """
        mask = done.label_mask
        self._sizes.append(len(done.logits) if mask is None else int(mask.sum()))
        if not self._names:
            self._begin(done)
        elif len(done.names) != len(self._names):
            raise TapError(
                f"{len(done.names)} states, {len(self._names)} in the first batch",
                where=where,
                hint="the taps must be the same for every batch",
            )
        flattening = self._flattening.of_batch(done.at_head, mask)
        at_layer = done.gradients[0]
        if self._for_norms:
            at_layer = done.gradients[self._layer]
            self._add_norms(done, flattening)
            if done.gradient_unknown:
                self._gradient_unknown["b"] = done.gradient_unknown
        if done.gradient_unknown:
            self._gradient_unknown["c"] = done.gradient_unknown
        if self._credit is None and (done.credit or done.no_credit):
            self._credit = _own_credit(done, flattening)
        predicted = done.logits.argmax(dim=-1)
        if mask is not None:
            predicted = predicted[mask]
        self._classes.append(torch.stack(predicted.aminmax()))
        if self._flattening.way == PER_TOKEN:
            flattening = Flattening(FLATTENED)
        self._means.append(summed_gradients(flattening.vectors(at_layer)))
        if done.of_mean_error is not None:
            self._of_mean_errors.append(summed_gradients(flattening.vectors(done.of_mean_error)))
        if mask is None:
            self._mean_errors.append(done.error.mean(dim=-2))

    @property
    def mean_error_at(self) -> LayerOf | None:
        """Where the next batch's pass gives the gradient of its mean error."""
        if len(self._means) < MEAN_ERROR_BATCHES:
            return partial(drift_layer, self._how.stability_layer)
        return None

    @property
    def takes_more(self) -> bool:
        """Whether further batches are wanted: at one of the `LOOKS` of a K that is not fixed, those
        so far may be enough.

        They are where the interval of (c) does not hold the ceiling, where no further batch would
        measure it, and at the last look.
        """
        k = len(self._means)
        if self._how.decide_at is None or k not in LOOKS:
            return True
        return k < LOOKS[-1] and self._holds_ceiling(self._drift())

    def measured(self) -> tuple[DiagnosticReport, list[str]]:
        """The report without accuracies, and notes; fetched from the device."""
        norms = _Norms(*[torch.cat(batches, dim=-1) for batches in zip(*self._norms, strict=True)])
        found = self._drift()
        notes = [*self._notes(norms), found.note]
        if self._holds_ceiling(found):
            k = len(self._means)
            limit = "the most that are taken" if k == LOOKS[-1] else "all there are"
            notes.append(f"(c) is undecided after {k} batches, {limit}")
        return self._report(norms, found), list(filter(None, notes))

    def _drift(self) -> Drift:
        """(c) so far, with a wider interval where it is looked at several times."""
        z = Z_OF_ONE if self._how.decide_at is None else Z_OF_LOOKS
        found = drift(self._batch_means(), z=z)
        if found.interval is None or not self._constant:
            return found
        # gradients of rounding have no direction in common
        return dataclasses.replace(found, interval=(found.interval[0], 1.0), note=CONSTANT)

    def _holds_ceiling(self, found: Drift) -> bool:
        """Whether the interval leaves open on which side of `decide_at` (c) lies."""
        if self._how.decide_at is None or found.interval is None:
            return False
        low, high = found.interval
        return low <= self._how.decide_at < high

    def _report(self, norms: _Norms, found: Drift) -> DiagnosticReport:
        g_norms = lower_median(norms.g).tolist()
        intervals = _norm_intervals(norms, g_norms)
        if found.interval is not None:
            intervals["stability"] = found.interval
        if len({*self._sizes}) > 1:
            self.facts[BATCH_SIZES] = self._sizes
        unmeasured = {}
        if found.why is not None:
            unmeasured["c"] = found.why
        report = DiagnosticReport(
            residual_norms=lower_median(norms.h).tolist(),
            bp_grad_norms=g_norms,
            stability_layer=self._layer,
            cross_batch_stability=found.value,
            batch_size=self._sizes[0],
            n_batches=len(self._means),
            norm_batches=len(self._norms),
            dtype=self._dtype,
            tap_names=list(self._names),
            flatten=self._flattening.way,
            error_norm=lower_median(norms.error).item(),
            intervals=intervals,
            provenance=self.facts,
            unmeasured=unmeasured,
            credit=self._credit,
            mean_error=None if found.value is None else self._mean_error(self._batch_means()),
        )
        unmeasured.update((self._credit or {}).get("missing", {}))
        if self._gradient_unknown:
            return without_gradient(report, self._gradient_unknown)
        return report

    def _notes(self, norms: _Norms) -> list[str]:
        unreached = []
        if "b" not in self._gradient_unknown:
            unreached = (norms.g == 0).all(dim=-1).tolist()
        notes = dead_stream_notes((norms.h == 0).all(dim=-1).tolist(), unreached)
        error = lower_median(norms.error).item()
        if self._reads_place:
            notes.append(READS_PLACE)
        if "inside" in self._dtype:
            notes.append(f"arithmetic: {self._dtype}")
        predictions = sum(self._sizes)
        if predictions < FEWEST_PREDICTIONS or not math.isfinite(error):
            return notes
        least, most = map(int, torch.cat(self._classes).aminmax())
        if least == most:
            notes.append(f"all {predictions} predictions are class {least}")
        return notes

    @property
    def _for_norms(self) -> bool:
        return len(self._means) < self._how.norm_batches

    def _begin(self, done: Pass) -> None:
        logits = done.logits.flatten(0, -2) + 1.0
        self._constant = agree(logits[:1].expand_as(logits), logits, ulps=4)
        batch_size = len(done.logits)
        self._names = done.names
        self._dtype = done.dtype
        check_states(done.hidden, done.names, batch_size)
        last = len(done.hidden) - 1
        self._layer = drift_layer(self._how.stability_layer, len(done.hidden))
        if not 0 <= self._layer <= last:
            raise UsageError(
                f"stability_layer {self._layer} does not exist",
                hint=f"the taps are layers 0..{last}",
            )
        if done.label_mask is not None:
            check_tokens(done.hidden, done.names, done.label_mask)
        self._flattening = Flattening.of(done.hidden, done.at_head, done.label_mask)
        if self._flattening.way == FLATTENED and done.at_head.dim() == 3:
            read = (done.at_head != 0).any(dim=1).sum(dim=1).amax()
            self._reads_place = bool(read == 1 < done.at_head.shape[-1])
        device = done.logits.device.type
        self.facts = {
            "classes": done.logits.shape[-1],
            "device": device,
            "threads": torch.get_num_threads(),
        }
        if device == "cpu":
            self.facts["processor"] = processor_name()
        if self._flattening.way == PER_TOKEN:
            labels = f"{self._sizes[0]} counting labels of {batch_size} samples"
            self.facts["reduction"] = f"per token over {labels}"
        if done.own_backward:
            self.facts[CUSTOM_BACKWARD] = list(done.own_backward)
            if not done.gradient_unknown:
                self.facts[GRADIENT_BY] = "trace of the forward"

    def _add_norms(self, done: Pass, flattening: Flattening) -> None:
        # stacked first, as each small operation takes 40 µs with the caches just emptied by a pass
        states = (*done.hidden, *done.gradients)
        norms = torch.stack([vector_norms(flattening.vectors(state)) for state in states], dim=-2)
        error = vector_norms(done.error)
        if done.label_mask is not None:
            norms = medians_of_samples(norms, done.label_mask)
            error = medians_of_samples(error[done.label_mask], done.label_mask)
        h, g = norms.chunk(2, dim=-2)
        first, terms = self._sizes[0], self._sizes[-1]
        if terms != first:
            # a smaller last batch has a larger 1/B; scale to the first batch's
            g = g * (terms / first)
        self._norms.append(_Norms(h, g, error))

    def _batch_means(self) -> Tensor:
        """Mean gradients times the batch size, (K, D)."""
        means = self._means
        if self._flattening.way == PER_TOKEN:
            # pad shorter batches: a missing position has no gradient
            longest = max(len(mean) for mean in means)
            means = [pad(mean, (0, longest - len(mean))) for mean in means]
        return torch.stack(means)

    def _mean_error(self, means: Tensor) -> MeanError | None:
        """The mean error, with its part of (c)."""
        k = len(means)
        if k < 2 or len(self._of_mean_errors) < min(k, MEAN_ERROR_BATCHES):
            return None
        part = mean_error_part(means, torch.stack(self._of_mean_errors)).item()
        if not math.isfinite(part):
            return None
        error = torch.stack(self._mean_errors).mean(dim=0)
        label = int(error.abs().argmax())
        return MeanError(
            cosine=part,
            norm=torch.linalg.vector_norm(error).item(),
            label=label,
            excess=error[label].item(),
        )


def _own_credit(done: Pass, flattening: Flattening) -> Json:
    """A report's ``credit``: Γ of a network's own backward pass, or why there is none."""
    found: Json = {}
    if done.credit:
        gradients = [flattening.vectors(g) for g in done.gradients]
        free = agreeing(done.credit, done.gradients)
        signal = each(flattening.vectors, done.credit)
        found = credit_entries(signal, gradients, free, len(gradients[0]))
    if done.no_credit:
        found["missing"] = {"gamma": done.no_credit}
    return found


def _norm_intervals(norms: _Norms, g_medians: Sequence[float]) -> Intervals:
    """The intervals of (a) and (b) that are defined."""
    found: Intervals = {}
    growth = growth_interval(norms.h)
    if growth is not None:
        found["growth"] = growth
    ranks = median_ranks(norms.h.shape[-1])
    if ranks is not None and math.isfinite(sum(g_medians)):
        low, high = norms.g[-1].sort().values[list(ranks)].tolist()
        found["g_L"] = (low, high)
    return found


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


def without_gradient(report: DiagnosticReport, why: dict[str, str]) -> DiagnosticReport:
    """A report without the numbers of an unknown gradient.

    Args:
        report: the report.
        why: ``"c"``, or ``"b"`` and ``"c"`` → why it is not measured.
    """
    columns = [JUDGED[letter].column for letter in why]
    return replace(
        report,
        cross_batch_stability=None,
        mean_error=None,
        bp_grad_norms=[] if "b" in why else report.bp_grad_norms,
        intervals=without(report.intervals, *columns),
        credit=report.credit or {"missing": {"gamma": why["c"]}},
        unmeasured=why,
    )
