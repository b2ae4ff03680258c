"""What the batches gave: streaming norms and mean gradients of N networks of one shape, and the reports made of them.

(c) asks whether the gradient's direction depends on the batch, or is the same drift whatever the data.
N = 1 is a network measured by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec
import torch
from torch import Tensor
from torch.nn.functional import pad

from fa_core.errors import MeasureError, TapError, UsageError
from fa_core.judgement.diagnostics import DIAGNOSTICS
from fa_core.judgement.gamma import aggregation
from fa_core.judgement.intervals import (
    Interval,
    drift_interval,
    growth_interval,
    median_ranks,
    share_interval,
)
from fa_core.measure.fused import Pass
from fa_core.measure.isolate import processor_name
from fa_core.measure.norms import (
    AS_IS,
    FLATTENED,
    PER_TOKEN,
    Reading,
    check_states,
    check_tokens,
    choose_ways,
    gamma,
    lower_median,
    mean_over,
    medians_of_samples,
    read_tokens,
    share_of_zeros,
    unit_rows,
    vector_norms,
)
from fa_core.measure.tracing import agreeing
from fa_core.report import CUSTOM_BACKWARD, GRADIENT_BY, DiagnosticReport

MIN_BATCHES = 8
"""Fewer batches than this leave (c) unmeasured."""


FEWEST = 20
"""Predictions of one class are spoken of from so many on."""


def what_is_dead(dark: Sequence[bool], unreached: Sequence[bool]) -> list[str]:
    """What a report says of a stream that is exactly 0, and of a gradient that is, in every sample.

    Args:
        dark: for h_0..h_L, whether ‖h_l‖ is 0 in every sample.
        unreached: for g_0..g_L, whether ‖g_l‖ is.

    >>> what_is_dead([False, True, True], [True, True, False])
    ['the stream is 0 from l = 1 on', 'no gradient reaches the embedding: g_0 to g_1 are 0']
    """
    remarks = []
    if dark[-1]:
        first = max((l for l, dead in enumerate(dark) if not dead), default=-1) + 1
        remarks.append(f"the stream is 0 from l = {first} on")
    if unreached and unreached[0]:
        last = next((l for l, dead in enumerate(unreached) if not dead), len(unreached)) - 1
        where = f"g_0 to g_{last} are 0" if last else "g_0 is 0"
        remarks.append(f"no gradient reaches the embedding: {where}")
    return remarks


def mean_pairwise_cosine(directions: Tensor) -> Tensor:
    """Mean cosine over the K(K−1)/2 pairs of rows.

    Args:
        directions: (..., K, D) unit rows, K ≥ 2.

    Returns:
        (...) in [−1, 1], float64; NaN if any entry is. With s = Σ_k u_k the sum over pairs is
        (‖s‖² − Σ_k ‖u_k‖²)/2, so no K×K matrix is needed.

    Source: docs/protocol.md §3 (c).

    >>> mean_pairwise_cosine(torch.eye(3, dtype=torch.float64)).item()
    0.0
    """
    k = directions.shape[-2]
    total = directions.sum(dim=-2)
    return (total.square().sum(dim=-1) - directions.square().sum(dim=(-2, -1))) / (k * (k - 1))


def summed_gradients(gradient: Tensor) -> Tensor:
    """B·ḡ = Σ_i g_i in float64: (..., B, D) per-sample gradients → (..., D). (c) asks for the direction of ḡ alone."""
    on_cpu = gradient.cpu() if gradient.device.type == "mps" else gradient
    return on_cpu.sum(dim=-2, dtype=torch.float64)


@dataclass(frozen=True)
class Drift:
    """(c) of one network.

    Attributes:
        value: in [−1, 1], NaN where a gradient is not finite, None where it was not measured.
        why: why it was not measured.
        finite: whether every batch-mean gradient is.
        interval: of the value, where that is measured and finite.
    """

    value: float | None
    why: str | None
    finite: bool
    interval: Interval | None = None


def drifts(means: Tensor, least: int = MIN_BATCHES) -> list[Drift]:
    """(c) of N networks.

    Args:
        means: (N, K, D) float64, the batch-mean gradients, each of any length.
        least: fewer batches leave (c) unmeasured.
    """
    n, k, d = means.shape
    directions = unit_rows(means.reshape(n * k, d)).reshape(n, k, d)
    finite = torch.isfinite(means).all(dim=2).all(dim=1)
    zero = (means == 0).all(dim=2)
    # of each batch's cosines to the others
    sums = (directions * (directions.sum(dim=1, keepdim=True) - directions)).sum(dim=2)
    columns = (column.tolist() for column in (mean_pairwise_cosine(directions), finite, zero, sums))
    return [_drift(*row, least=least) for row in zip(*columns, strict=True)]


def _drift(value: float, finite: bool, zero: list[bool], sums: list[float], *, least: int) -> Drift:
    if len(zero) < least:
        return Drift(None, f"only {len(zero)} eval batches, drift needs at least {least}", finite)
    if not finite:
        return Drift(math.nan, None, finite)
    if any(zero):
        return Drift(None, f"the mean gradient of eval batch {zero.index(True)} is zero", finite)
    drift = max(-1.0, min(1.0, value))
    return Drift(drift, None, finite, drift_interval(drift, sums))


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
        samples: fetches what the numbers were computed from: values before any median or mean, on the CPU.
        remarks: what the report has to say of the measurement.
    """

    numbers: DiagnosticReport
    hits: int
    counted: int
    samples: Callable[[], Samples]
    remarks: Sequence[str] = ()

    def report(self, **given: Any) -> DiagnosticReport:
        """What was measured, with the fields the caller knows."""
        source = "given"
        if given.get("headline_acc") is None:
            given["headline_acc"] = self.hits / self.counted
            source = f"measured on {self.counted} eval {'labels' if self.numbers.flatten == PER_TOKEN else 'samples'}"
            if self.numbers.flatten != PER_TOKEN:
                # the tokens of a sample are no independent draws
                given["intervals"] = {
                    **self.numbers.intervals,
                    "acc": share_interval(self.hits, self.counted),
                }
        given["notes"] = "; ".join(filter(None, [given.get("notes"), *self.remarks]))
        return msgspec.structs.replace(self.numbers, headline_acc_source=source, **given)


class CannotStack(MeasureError):
    """Networks that cannot be measured together; each by itself they may."""


class Tally:
    """What the batches gave: `add` per batch, `measured` at the end. Nothing waits for the device in between.

    Args:
        stability_layer: where (c) is measured; None = L//2.
        norm_batches: how many of the first batches (a) and (b) use.
        samples_axis: where the samples are in what is added: 0 for one network, 1 behind the members of a group.

    Attributes:
        facts: for the provenance.
    """

    def __init__(
        self, stability_layer: int | None = None, norm_batches: int = 1, samples_axis: int = 0
    ) -> None:
        self._layer = stability_layer
        self._axis = samples_axis
        self._norm_batches = norm_batches
        self._way = ""
        self._names: list[str] = []
        self.facts: dict[str, Any] = {}
        self._dtype = ""
        self._terms = 0
        self._norms: list[tuple[Tensor, Tensor, Tensor]] = []
        self._means: list[Tensor] = []
        self._credit: dict[str, Any] | None = None
        self._untrue: dict[str, str] = {}
        self._classes: list[Tensor] = []
        self._predictions = 0

    @property
    def batches(self) -> int:
        """How many were added."""
        return len(self._means)

    @property
    def layers(self) -> list[int] | None:
        """The layers whose gradients the next batch has to give; None = all."""
        if self._for_norms:
            # None has the graph searched for the network's own backward functions, too: once is enough
            return list(range(len(self._names))) or None
        assert self._layer is not None
        # which token is read shows at h_L, batch by batch
        return [self._layer] if self._whole else sorted({self._layer, len(self._names) - 1})

    def add(self, done: Pass, where: str = "") -> None:
        """Add one batch: logits (B, C) and states (B, ...), or (N, B, C) and (N, B, ...) of a group.

        Raises:
            TapError: states that cannot be used, or another number of them than before.
            UsageError: a stability layer that does not exist.
            CannotStack: the members' states become vectors in different ways.
        """
        for_norms = self._for_norms
        if self.batches == 0:
            self._begin(done)
        elif len(done.names) != len(self._names):
            hint = "the taps must be the same for every batch"
            raise TapError(
                f"{len(done.names)} states, {len(self._names)} in the first batch",
                where=where,
                hint=hint,
            )
        reading = Reading(self._way, None if self._whole else read_tokens(done.gradients[-1]))
        if done.counting is not None:
            reading = Reading(PER_TOKEN, done.counting)
        if done.untrue:
            self._untrue.update(dict.fromkeys("bc" if for_norms else "c", done.untrue))
        if for_norms:
            self._add_norms(done, reading)
        if done.credit and self._credit is None:
            self._credit = _own_credit(done, reading)
        self._add_classes(done)
        assert self._layer is not None
        at_layer = done.gradients[self._layer if for_norms else 0]
        flat = Reading(FLATTENED) if self._way == PER_TOKEN else reading
        self._means.append(summed_gradients(flat.vectors(at_layer, self._axis)))

    def measured(self, right: Sequence[Tensor]) -> list[Diagnosed]:
        """The members' numbers, fetched from the device at once.

        Args:
            right: (N, B) bool of every batch: classified rightly.
        """
        longest = max(mean.shape[-1] for mean in self._means)
        if self._way == PER_TOKEN:
            # positions that no sample of a batch has carry no gradient
            self._means = [pad(mean, (0, longest - mean.shape[-1])) for mean in self._means]
        means = self._by_member(torch.stack(self._means, dim=self._axis))
        h, g, e = (
            self._by_member(torch.cat(norms, dim=-1)) for norms in zip(*self._norms, strict=True)
        )
        counted = sum(part.shape[1] for part in right)
        hits = torch.cat(list(right), dim=1).sum(dim=1)
        per_batch = (
            *(self._all_by_member(norms) for norms in zip(*self._norms, strict=True)),
            right,
        )
        medians = lower_median(torch.cat((h, g, e[:, None]), dim=1))
        depth, samples = len(self._names), h.shape[-1]
        classes = torch.stack(self._classes, dim=1)
        extremes = torch.stack((classes[..., 0].amin(dim=1), classes[..., 1].amax(dim=1)), dim=1)
        dark, unreached = ((norms == 0).all(dim=-1).long() for norms in (h, g))
        # fetched together: every column is a wait for the device
        facts = torch.cat((hits[:, None], extremes, dark, unreached), dim=1)
        columns = (medians, *bounds_of_medians(h, g[:, -1], medians[:, :depth]), facts)
        rows = zip(*(column.tolist() for column in columns), drifts(means), strict=True)
        members = []
        for index, row in enumerate(rows):
            middle, lows, highs, agreement, (member_hits, least, most, *dead), drift = row
            residual_norms, bp_grad_norms, error_norm = middle[:depth], middle[depth:-1], middle[-1]
            found = {
                "growth": growth_interval(
                    residual_norms, lows[:-1], highs[:-1], agreement, samples
                ),
                "g_L": (lows[-1], highs[-1])
                if median_ranks(samples) and math.isfinite(sum(bp_grad_norms))
                else None,
                "stability": drift.interval,
            }
            stability = drift.value
            if (
                stability is None
                and all(map(math.isfinite, residual_norms + bp_grad_norms))
                and not drift.finite
            ):
                # too few batches to judge drift, but a non-finite gradient is not to go unseen
                stability = math.nan
            assert self._layer is not None
            numbers = DiagnosticReport(
                residual_norms=residual_norms,
                bp_grad_norms=bp_grad_norms,
                stability_layer=self._layer,
                cross_batch_stability=stability,
                batch_size=self._terms,
                n_batches=self.batches,
                norm_batches=len(self._norms),
                dtype=self._dtype,
                tap_names=list(self._names),
                flatten=self._way,
                error_norm=error_norm,
                intervals={name: ends for name, ends in found.items() if ends is not None},
                provenance=dict(self.facts),
                unmeasured={} if stability is not None or drift.why is None else {"c": drift.why},
                credit=self._credit,
            )
            if self._untrue:
                numbers = _without_gradient(numbers, self._untrue)
            fetch = partial(_samples, per_batch, means, index)
            remarks = what_is_dead(dead[:depth], [] if "b" in self._untrue else dead[depth:])
            if least == most and self._predictions >= FEWEST and math.isfinite(error_norm):
                remarks.append(f"all {self._predictions} predictions are class {least}")
            members.append(Diagnosed(numbers, member_hits, counted, fetch, remarks))
        return members

    @property
    def _for_norms(self) -> bool:
        return self.batches < self._norm_batches

    def _begin(self, done: Pass) -> None:
        batch_size = done.logits.shape[self._axis]
        self._terms = _terms(done, self._axis)
        hidden = self._all_by_member(done.hidden)
        check_states([h[0] for h in hidden], done.names, batch_size)
        last = len(hidden) - 1
        if self._layer is None:
            self._layer = last // 2
        if not 0 <= self._layer <= last:
            raise UsageError(
                f"stability_layer {self._layer} does not exist",
                hint=f"the taps are layers 0..{last}",
            )
        if done.counting is not None:
            check_tokens(done.hidden, done.names, done.counting)
            ways = [PER_TOKEN]
        else:
            ways = choose_ways(hidden, self._by_member(done.gradients[-1]))
        if len(set(ways)) > 1:
            raise CannotStack(f"their states are read {' or '.join(sorted(set(ways)))}")
        self._way = ways[0]
        self._names = done.names
        device = done.logits.device.type
        self.facts = {
            "classes": done.logits.shape[-1],
            "device": device,
            "threads": torch.get_num_threads(),
        }
        if device == "cpu":
            self.facts["processor"] = processor_name()
        if self._way == PER_TOKEN:
            self.facts["reduction"] = (
                f"per token over {self._terms} counting labels of {batch_size} samples"
            )
        if done.own_backward:
            self.facts[CUSTOM_BACKWARD] = list(done.own_backward)
            if not done.untrue:
                self.facts[GRADIENT_BY] = "trace of the forward"
        self._dtype = done.dtype

    def _add_classes(self, done: Pass) -> None:
        """The least and the greatest class that every member predicts."""
        predicted = self._by_member(done.logits).argmax(dim=-1).flatten(1)
        if done.counting is not None:
            predicted = predicted[:, done.counting.flatten()]
        self._classes.append(torch.stack(predicted.aminmax(dim=1), dim=-1))
        self._predictions += predicted.shape[1]

    @property
    def _whole(self) -> bool:
        return self._way in (AS_IS, FLATTENED, PER_TOKEN)

    def _add_norms(self, done: Pass, reading: Reading) -> None:
        terms = _terms(done, self._axis)
        # every operation counts: a small one takes 40 µs where a pass of the network has just emptied the caches
        states = (*done.hidden, *done.gradients)
        norms = torch.stack(
            [vector_norms(reading.vectors(state, self._axis)) for state in states], dim=-2
        )
        error_norms = vector_norms(done.error)
        if done.counting is not None:
            norms, error_norms = (
                medians_of_samples(n, done.counting) for n in (norms, error_norms[done.counting])
            )
        depth = len(done.hidden)
        h, g = norms[..., :depth, :], norms[..., depth:, :]
        # a smaller last batch has a larger 1/B: brought to the first one's
        self._norms.append(
            (h, g if terms == self._terms else g * (terms / self._terms), error_norms)
        )

    def _by_member(self, tensor: Tensor) -> Tensor:
        return tensor if self._axis else tensor[None]

    def _all_by_member(self, tensors: Sequence[Tensor]) -> list[Tensor]:
        return [self._by_member(tensor) for tensor in tensors]


def _terms(done: Pass, samples_axis: int) -> int:
    """How many labels the CE of a batch averages over."""
    return done.logits.shape[samples_axis] if done.counting is None else int(done.counting.sum())


def _own_credit(done: Pass, reading: Reading) -> dict[str, Any]:
    """For a report's ``credit``: Γ of a network's own backward pass, as `CreditQuality.to_dict` names it."""
    pairs = [
        (reading.vectors(a), reading.vectors(g))
        for a, g in zip(done.credit, done.gradients, strict=True)
    ]
    layers, free = [gamma(a, g) for a, g in pairs], agreeing(done.credit, done.gradients)
    means = {
        "deep_gamma": mean_over(layers, without=free),
        "deep_gamma_with_free": mean_over(layers),
    }
    facts = {"samples": len(pairs[0][0]), "free_layers": free, "aggregation": aggregation(free)}
    return {
        "gamma": layers,
        "zeros": [share_of_zeros(a) for a, _ in pairs],
        **means,
        "gamma_L": layers[-1],
        **facts,
    }


def _without_gradient(numbers: DiagnosticReport, why: dict[str, str]) -> DiagnosticReport:
    """The numbers without those of gradients that are not known: (c), or (b) and (c)."""
    hidden = [DIAGNOSTICS[letter].column for letter in why]
    intervals = {name: ends for name, ends in numbers.intervals.items() if name not in hidden}
    norms = [] if "b" in why else numbers.bp_grad_norms
    credit = numbers.credit or {"missing": {"gamma": why["c"]}}
    changed = {
        "cross_batch_stability": None,
        "bp_grad_norms": norms,
        "intervals": intervals,
        "credit": credit,
    }
    return msgspec.structs.replace(numbers, **changed, unmeasured=why)


def bounds_of_medians(h: Tensor, g_last: Tensor, medians: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What the intervals of (a) and (b) are made of, for N networks at once.

    Args:
        h: (N, L+1, n), ‖h_l,i‖.
        g_last: (N, n), ‖g_L,i‖.
        medians: (N, L+1), of h.

    Returns:
        low, high: (N, L+2), the values at `median_ranks` of h_0..h_L and g_L (the least and greatest where n < 6).
        agreement: (N, L), how often a sample lies on the same side of two following medians, as a correlation.

    Source: `fa_core.judgement.intervals.growth_interval`.
    """
    places = list(median_ranks(h.shape[-1]) or (0, -1))
    low, high = torch.cat((h, g_last[:, None]), dim=1).sort(dim=-1).values[..., places].unbind(-1)
    side = (h - medians[..., None]).sign()
    return low, high, (side[:, 1:] * side[:, :-1]).mean(dim=-1)


def _samples(per_batch: Sequence[Sequence[Tensor]], means: Tensor, index: int) -> Samples:
    gram = unit_rows(means[index])
    h, g, e, right = ([norms[index].cpu() for norms in batches] for batches in per_batch)
    return Samples(
        residual_norms=h,
        bp_grad_norms=g,
        error_norms=e,
        right=right,
        drift_cosines=(gram @ gram.T).cpu(),
    )
