"""Streaming statistics of the passes of N networks of one shape; N = 1 is a single network."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import chain, pairwise, starmap
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from fa_core.decode import Json
from fa_core.errors import MeasureError, TapError, UsageError
from fa_core.facts.measurements import Interval, MeanError
from fa_core.facts.provenance import CUSTOM_BACKWARD, GRADIENT_BY
from fa_core.judgement.intervals import LOOKS, growth_interval, median_ranks
from fa_core.measure.cross_batch_stability import (
    MEAN_ERROR_BATCHES,
    Drift,
    drifts,
    mean_error_part,
    summed_gradients,
)
from fa_core.measure.diagnosis import (
    Diagnosis,
    Samples,
    dead_stream_notes,
    own_credit,
    without_gradient,
)
from fa_core.measure.flattening import (
    FLATTENED,
    PER_TOKEN,
    Flattening,
    check_states,
    check_tokens,
    choose_ways,
    read_tokens,
)
from fa_core.measure.isolate import processor_name
from fa_core.measure.norms import (
    lower_median,
    medians_of_samples,
    unit_rows,
    vector_norms,
)
from fa_core.measure.passes import LayerOf, Pass
from fa_core.report import DiagnosticReport

FEWEST_PREDICTIONS = 20
"""With fewer predictions, there is no note if all are of one class."""


class CannotStack(MeasureError):
    """Networks that cannot be measured together, but perhaps one by one."""


class _Norms(NamedTuple):
    """Norms of one batch: (..., L+1, B) of h and g, (..., L, B) of h_{l+1} − h_l, NaN where the
    shapes differ, (..., B) of e_T."""

    h: Tensor
    g: Tensor
    f: Tensor
    error: Tensor


class _Member(NamedTuple):
    """Statistics of one network, fetched from the device.

    Attributes:
        medians: medians of ‖h_0‖..‖h_L‖, ‖g_0‖..‖g_L‖, ‖h_1 − h_0‖..‖h_L − h_{L-1}‖, ‖e_T‖.
        low: lower bounds of the medians of h_0..h_L and g_L (see `bounds_of_medians`).
        high: their upper bounds.
        agreement: sign agreement of following layers (see `bounds_of_medians`).
        facts: number of right labels; least and greatest predicted class; for each of h_0..h_L and
            g_0..g_L, whether the norm is 0 in every sample.
        drift: (c).
        mean_error: its part of (c); None if unknown.
    """

    medians: list[float]
    low: list[float]
    high: list[float]
    agreement: list[float]
    facts: list[int]
    drift: Drift
    mean_error: MeanError | None


def drift_layer(asked: int | None, states: int) -> int:
    """The layer of (c): the one asked for, else L//2 of states 0..L."""
    if asked is not None:
        return asked
    return (states - 1) // 2


class Accumulator:
    """Accumulates batches: `add` each one, then `measured`; only the latter waits for the device.

    Args:
        stability_layer: layer of (c); None = L//2.
        norm_batches: number of leading batches that (a) and (b) use.
        samples_axis: samples' axis of the added tensors: 0 for one network, 1 for a group, whose
            first axis is its members.

    Attributes:
        facts: entries of the report's provenance.
    """

    def __init__(
        self, stability_layer: int | None = None, norm_batches: int = 1, samples_axis: int = 0
    ) -> None:
        self._asked_layer = stability_layer
        self._layer = 0
        self._axis = samples_axis
        self._norm_batches = norm_batches
        self._way = ""
        self._names: list[str] = []
        self.facts: Json = {}
        self._dtype = ""
        self._terms = 0
        self._norms: list[_Norms] = []
        self._reshaping: list[bool] = []
        self._means: list[Tensor] = []
        self._of_mean_errors: list[Tensor] = []
        self._mean_errors: list[Tensor] = []
        self._credit: Json | None = None
        self._gradient_unknown: dict[str, str] = {}
        self._classes: list[Tensor] = []
        self._predictions = 0

    @property
    def layers(self) -> list[int] | None:
        """Layers whose gradients the next batch needs; None = all."""
        if not self._names:
            return None
        if self._for_norms:
            return list(range(len(self._names)))
        if self._reads_token:
            # the gradient at h_L shows which token the head reads
            return sorted({self._layer, len(self._names) - 1})
        return [self._layer]

    def add(self, done: Pass, where: str = "") -> None:
        """Add one batch: logits (B, C) and states (B, ...), for a group (N, B, C) and (N, B, ...).

        Raises:
            TapError: unusable states, or another number of them than before.
            UsageError: the stability layer does not exist.
            CannotStack: the members' states are flattened in different ways.
        """
        if not self._names:
            self._begin(done)
        elif len(done.names) != len(self._names):
            raise TapError(
                f"{len(done.names)} states, {len(self._names)} in the first batch",
                where=where,
                hint="the taps must be the same for every batch",
            )
        flattening = Flattening(self._way, done.label_mask)
        if self._reads_token:
            flattening = Flattening(self._way, read_tokens(done.gradients[-1]))
        at_layer = done.gradients[0]
        if self._for_norms:
            at_layer = done.gradients[self._layer]
            self._add_norms(done, flattening)
            if done.gradient_unknown:
                self._gradient_unknown["b"] = done.gradient_unknown
        if done.gradient_unknown:
            self._gradient_unknown["c"] = done.gradient_unknown
        if done.credit and self._credit is None:
            self._credit = own_credit(done, flattening)
        self._add_classes(done)
        if self._way == PER_TOKEN:
            flattening = Flattening(FLATTENED)
        self._means.append(summed_gradients(flattening.vectors(at_layer, self._axis)))
        if done.of_mean_error is not None:
            of_mean_error = flattening.vectors(done.of_mean_error, self._axis)
            self._of_mean_errors.append(summed_gradients(of_mean_error))
        if done.label_mask is None:
            self._mean_errors.append(done.error.mean(dim=-2))

    @property
    def mean_error_at(self) -> LayerOf | None:
        """Where the next batch's pass gives the gradient of its mean error."""
        if len(self._means) < MEAN_ERROR_BATCHES:
            return partial(drift_layer, self._asked_layer)
        return None

    def is_decided(self, ceiling: float) -> bool:
        """Whether the batches so far decide (c) of one network, at one of the `LOOKS`.

        (c) is decided where its interval, wider for four looks, does not hold the ceiling, and
        where no further batch would measure it.
        """
        t = LOOKS.get(len(self._means))
        if t is None:
            return False
        (drift,) = drifts(self._batch_means(), t=t)
        if drift.interval is None:
            return True
        low, high = drift.interval
        return low > ceiling or high <= ceiling

    def measured(self, right: Sequence[Tensor]) -> list[Diagnosis]:
        """The members' numbers, fetched from the device at once.

        Args:
            right: for every batch, (N, B) bool: which samples are classified correctly.
        """
        means = self._batch_means()
        h, g, f, error = map(self._joined, zip(*self._norms, strict=True))
        medians = lower_median(torch.cat((h, g, f, error[:, None]), dim=1))
        hits = torch.cat(list(right), dim=1).sum(dim=1)
        classes = torch.stack(self._classes, dim=1)
        facts = (
            hits[:, None],
            classes[..., 0].amin(dim=1, keepdim=True),
            classes[..., 1].amax(dim=1, keepdim=True),
            (h == 0).all(dim=-1).long(),
            (g == 0).all(dim=-1).long(),
        )
        # each column waits for the device once
        columns = (
            medians,
            *bounds_of_medians(h, g[:, -1], medians[:, : len(self._names)]),
            torch.cat(facts, dim=1),
        )
        rows = zip(
            *(column.tolist() for column in columns),
            drifts(means),
            self._shares_of_mean_errors(means),
            strict=True,
        )
        labels = sum(part.shape[1] for part in right)
        found = []
        for index, row in enumerate(rows):
            member = _Member(*row)
            fetch = partial(self._samples, right, means, index)
            numbers = self._report(member, samples=h.shape[-1])
            notes = self._notes(member)
            found.append(Diagnosis(numbers, member.facts[0], labels, fetch, notes))
        return found

    def _report(self, member: _Member, samples: int) -> DiagnosticReport:
        depth = len(self._names)
        h_norms = member.medians[:depth]
        g_norms = member.medians[depth : 2 * depth]
        block_norms = []
        for norm, blank in zip(member.medians[2 * depth : -1], self._reshaping, strict=True):
            block_norms.append(None if blank else norm)
        drift = member.drift
        finite = all(map(math.isfinite, h_norms + g_norms))
        stability = drift.value
        if stability is None and finite and not drift.finite:
            # too few batches for drift, but a non-finite gradient must show
            stability = math.nan
        *low, g_low = member.low
        *high, g_high = member.high
        bounded = median_ranks(samples) and math.isfinite(sum(g_norms))
        intervals: dict[str, Interval] = {}
        growth = growth_interval(h_norms, low, high, member.agreement, samples)
        if growth is not None:
            intervals["growth"] = growth
        if bounded:
            intervals["g_L"] = (g_low, g_high)
        if drift.interval is not None:
            intervals["stability"] = drift.interval
        unmeasured = {}
        if stability is None and drift.why is not None:
            unmeasured["c"] = drift.why
        report = DiagnosticReport(
            residual_norms=h_norms,
            bp_grad_norms=g_norms,
            stability_layer=self._layer,
            cross_batch_stability=stability,
            batch_size=self._terms,
            n_batches=len(self._means),
            norm_batches=len(self._norms),
            dtype=self._dtype,
            tap_names=list(self._names),
            flatten=self._way,
            block_norms=block_norms,
            error_norm=member.medians[-1],
            intervals=intervals,
            provenance=dict(self.facts),
            unmeasured=unmeasured,
            credit=self._credit,
            mean_error=None if stability is None else member.mean_error,
        )
        if self._gradient_unknown:
            return without_gradient(report, self._gradient_unknown)
        return report

    def _notes(self, member: _Member) -> list[str]:
        _, least, most, *zero = member.facts
        depth = len(self._names)
        dark = zero[:depth]
        unreached = zero[depth:]
        if "b" in self._gradient_unknown:
            unreached = []
        notes = dead_stream_notes(dark, unreached)
        if self._predictions < FEWEST_PREDICTIONS or not math.isfinite(member.medians[-1]):
            return notes
        if least == most:
            notes.append(f"all {self._predictions} predictions are class {least}")
        return notes

    def _samples(self, right: Sequence[Tensor], means: Tensor, index: int) -> Samples:
        def of_member(batches: Sequence[Tensor]) -> list[Tensor]:
            return [self._by_member(batch)[index].cpu() for batch in batches]

        h, g, _, error = map(of_member, zip(*self._norms, strict=True))
        directions = unit_rows(means[index])
        return Samples(
            residual_norms=h,
            bp_grad_norms=g,
            error_norms=error,
            right=[batch[index].cpu() for batch in right],
            drift_cosines=(directions @ directions.T).cpu(),
        )

    @property
    def _for_norms(self) -> bool:
        return len(self._means) < self._norm_batches

    @property
    def _reads_token(self) -> bool:
        return self._way.endswith("token") and self._way != PER_TOKEN

    def _begin(self, done: Pass) -> None:
        batch_size = done.logits.shape[self._axis]
        self._names = done.names
        self._dtype = done.dtype
        self._terms = self._label_count(done)
        hidden = [self._by_member(h) for h in done.hidden]
        check_states([h[0] for h in hidden], done.names, batch_size)
        last = len(hidden) - 1
        self._layer = drift_layer(self._asked_layer, len(hidden))
        if not 0 <= self._layer <= last:
            raise UsageError(
                f"stability_layer {self._layer} does not exist",
                hint=f"the taps are layers 0..{last}",
            )
        self._way = self._only_way(done, hidden)
        device = done.logits.device.type
        self.facts = {
            "classes": done.logits.shape[-1],
            "device": device,
            "threads": torch.get_num_threads(),
        }
        if device == "cpu":
            self.facts["processor"] = processor_name()
        if self._way == PER_TOKEN:
            labels = f"{self._terms} counting labels of {batch_size} samples"
            self.facts["reduction"] = f"per token over {labels}"
        if done.own_backward:
            self.facts[CUSTOM_BACKWARD] = list(done.own_backward)
            if not done.gradient_unknown:
                self.facts[GRADIENT_BY] = "trace of the forward"

    def _only_way(self, done: Pass, hidden: list[Tensor]) -> str:
        """The one way in which all members' states are flattened.

        Raises:
            TapError: states that do not fit the labels (B, T).
            CannotStack: the members differ.
        """
        if done.label_mask is not None:
            check_tokens(done.hidden, done.names, done.label_mask)
            return PER_TOKEN
        g_L = self._by_member(done.gradients[-1])
        ways = sorted(set(choose_ways(hidden, g_L)))
        if len(ways) > 1:
            raise CannotStack(f"their states are read {' or '.join(ways)}")
        return ways[0]

    def _add_classes(self, done: Pass) -> None:
        """Record every member's least and greatest predicted class."""
        logits = self._by_member(done.logits)
        predicted = logits.argmax(dim=-1).flatten(1)
        if done.label_mask is not None:
            predicted = predicted[:, done.label_mask.flatten()]
        extremes = predicted.aminmax(dim=1)
        self._classes.append(torch.stack(extremes, dim=-1))
        self._predictions += predicted.shape[1]

    def _add_norms(self, done: Pass, flattening: Flattening) -> None:
        # stacked first, as each small operation takes 40 µs with the caches just emptied by a pass
        states = (*done.hidden, *done.gradients)
        vectors = [flattening.vectors(state, self._axis) for state in states]
        depth = len(done.hidden)
        pairs = list(pairwise(vectors[:depth]))
        self._reshaping = [before.shape != after.shape for before, after in pairs]
        vectors_and_blocks = chain(vectors, starmap(_added, pairs))
        norms = torch.stack([vector_norms(rows) for rows in vectors_and_blocks], dim=-2)
        error = vector_norms(done.error)
        if done.label_mask is not None:
            norms = medians_of_samples(norms, done.label_mask)
            error = medians_of_samples(error[done.label_mask], done.label_mask)
        h = norms[..., :depth, :]
        g = norms[..., depth : 2 * depth, :]
        f = norms[..., 2 * depth :, :]
        terms = self._label_count(done)
        if terms != self._terms:
            # a smaller last batch has a larger 1/B; scale to the first batch's
            g = g * (terms / self._terms)
        self._norms.append(_Norms(h, g, f, error))

    def _batch_means(self) -> Tensor:
        """Mean gradients times the batch size, (N, K, D)."""
        means = self._means
        if self._way == PER_TOKEN:
            # pad shorter batches: a missing position has no gradient
            longest = max(mean.shape[-1] for mean in means)
            means = [pad(mean, (0, longest - mean.shape[-1])) for mean in means]
        stacked = torch.stack(means, dim=self._axis)
        return self._by_member(stacked)

    def _shares_of_mean_errors(self, means: Tensor) -> list[MeanError | None]:
        """Every member's mean error, with its part of (c)."""
        members, k, _ = means.shape
        if k < 2 or len(self._of_mean_errors) < min(k, MEAN_ERROR_BATCHES):
            return [None] * members
        of_mean_errors = self._by_member(torch.stack(self._of_mean_errors, dim=self._axis))
        errors = self._by_member(torch.stack(self._mean_errors, dim=self._axis)).mean(dim=1)
        labels = errors.abs().argmax(dim=-1)
        excess = errors.gather(-1, labels[:, None])[:, 0]
        parts = mean_error_part(means, of_mean_errors)
        norms = torch.linalg.vector_norm(errors, dim=-1)
        rows = torch.stack((parts, norms, labels.to(parts), excess), dim=-1)
        found: list[MeanError | None] = []
        for part, norm, label, most in rows.tolist():
            if math.isfinite(part):
                found.append(MeanError(cosine=part, norm=norm, label=int(label), excess=most))
            else:
                found.append(None)
        return found

    def _joined(self, batches: tuple[Tensor, ...]) -> Tensor:
        """Norms of all batches, (N, ..., n)."""
        return self._by_member(torch.cat(batches, dim=-1))

    def _by_member(self, tensor: Tensor) -> Tensor:
        """The tensor with the axis of members, also for a single network."""
        if self._axis:
            return tensor
        return tensor[None]

    def _label_count(self, done: Pass) -> int:
        """Number of labels that a batch's CE averages over."""
        if done.label_mask is not None:
            return int(done.label_mask.sum())
        return done.logits.shape[self._axis]


def _added(before: Tensor, after: Tensor) -> Tensor:
    """What a block adds to its state; NaN where the shape changes."""
    if before.shape == after.shape:
        return after - before
    return torch.full_like(before, torch.nan)


def bounds_of_medians(h: Tensor, g_last: Tensor, medians: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Inputs of the intervals of (a) and (b), for N networks at once.

    Args:
        h: (N, L+1, n), ‖h_l,i‖.
        g_last: (N, n), ‖g_L,i‖.
        medians: (N, L+1), the medians of h.

    Returns:
        low, high: (N, L+2), values at `median_ranks` of h_0..h_L and g_L; least and greatest where
            n < 6.
        agreement: (N, L), how often a sample lies on the same side of the medians of two following
            layers, as a correlation.

    Source: `fa_core.judgement.intervals.growth_interval`.
    """
    low, high = median_ranks(h.shape[-1]) or (0, -1)
    norms = torch.cat((h, g_last[:, None]), dim=1)
    ordered = norms.sort(dim=-1).values
    side = (h - medians[..., None]).sign()
    same_side = side[:, 1:] * side[:, :-1]
    agreement = same_side.mean(dim=-1)
    return ordered[..., low], ordered[..., high], agreement
