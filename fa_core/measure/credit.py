"""Credit quality of one batch: Γ, ρ and nudge at every layer, in float64."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count
from typing import Any, Protocol, TypeAlias, cast, runtime_checkable

import torch
from torch import Tensor, nn

from fa_core.errors import FaError, MeasureError, TapError
from fa_core.files.decode import Json
from fa_core.measure.batch_input import to_device
from fa_core.measure.credit_metrics import (
    NullGamma,
    Series,
    Signal,
    pooled_gamma,
    random_units,
    rho,
    shuffled_null,
)
from fa_core.measure.hooks import (
    READS,
    described,
    match_modules,
    read_logits,
    split_patterns,
    tapped_outputs,
)
from fa_core.measure.isolate import (
    Inputs,
    RngState,
    call_model,
    eval_mode,
    first_of,
    to_float64,
    tree_map,
)
from fa_core.measure.loss import Loss, LossChoice, settled
from fa_core.measure.norms import (
    Flattening,
    gamma,
    mean_where,
    sample_norms,
    share_of_zeros,
)
from fa_core.measure.passes import is_out_of_memory, true_pass
from fa_core.measure.proven_credit import of_no_error
from fa_core.measure.taps import Taps, thawed
from fa_core.measure.tracing import agreeing
from fa_core.report.gamma import deep_entries, deep_gamma
from fa_core.zoo.methods.base import Method
from fa_core.zoo.models.base import StreamNet

Tail: TypeAlias = Callable[[int, Tensor], Tensor]
"""``(l, states (M·B, ...)) -> logits (M·B, C)``; the rows are M rounds of the same B samples."""


@runtime_checkable
class _HasTail(Protocol):
    """A network that runs from h_l on."""

    def tail(self, l: int, h: Tensor) -> Tensor: ...


def tail_of(model: nn.Module, x: Inputs, taps: Taps) -> Tail:
    """A function that runs a network from h_l on.

    A network's own ``tail(l, h)`` runs that part alone. With taps by module name the whole network
    runs and the tapped output is replaced, which costs the part before l as well.

    Args:
        model: the network.
        x: the batch (B, ...) whose states will be moved.
        taps: as for `diagnose`.

    Raises:
        TapError: a function returns the stream, so the network cannot run from its middle.
    """
    if taps is None and isinstance(model, _HasTail):
        return model.tail
    if taps is None or callable(taps) or any(p.endswith(READS) for p in split_patterns(taps)):
        raise TapError(
            f"{type(model).__name__} cannot be run from a hidden state on",
            hint="give it tail(l, h) -> logits, or name its blocks with taps",
        )
    names = match_modules(model, taps)

    def run_from(l: int, states: Tensor) -> Tensor:
        layers = count()
        rounds = len(states) // len(first_of(x))

        def replace_state(_: str, state: Tensor, others: Sequence[Tensor]) -> Tensor:
            if next(layers) == l:
                return states
            return state

        def repeated(tensor: Tensor) -> Tensor:
            return tensor.repeat(rounds, *[1] * (tensor.dim() - 1))

        with tapped_outputs(model, names, replace_state):
            output = call_model(model, tree_map(repeated, x))
        return read_logits(output)

    return run_from


EPSILON = 1e-3
"""Step length of ρ."""

ETA = 0.01
"""Step length of nudge."""

DIRECTIONS = 32
"""Default number of random directions of ρ per sample."""

LARGEST = 2**21
"""Entries of input per call of the tail: 16 MB in float64, without the tail's own activations."""


@dataclass(frozen=True)
class CreditQuality:
    """Quality of a credit signal per layer l = 0..L; None = undefined there.

    Attributes:
        gamma: Γ_l, cosine to the gradient, in [−1, 1].
        rho: ρ_l with steps of ε = 1e-3; estimates Γ_l (see `rho`).
        nudge: mean change of the loss when h_l moves by −η·a_l/‖a_l‖, η = 0.01; negative is good.
        zeros: share of entries of a_l that are exactly 0, in [0, 1]: underflow in the credit's own
            arithmetic, or inactive units.
        samples: B.
        directions: M per sample.
        missing: why metrics are None, unless it is a norm or variance of 0.
        pooled: Γ pooled over layers or samples (see `pooled_gamma`).
        null: of a given credit; see `shuffled_null`.
        free: layers whose credit needs no feedback, e.g. l = L by the head's true weights; deep Γ
            leaves them out.

    Source: docs/protocol.md §4.
    """

    gamma: Series
    rho: Series
    nudge: Series
    zeros: Series
    samples: int
    directions: int
    missing: dict[str, str]
    pooled: dict[str, float | None]
    free: list[int] = field(default_factory=list)
    null: NullGamma | None = None

    def deep(self) -> float | None:
        """Deep Γ: mean over l ≥ 1 of Γ_l, see `fa_core.report.gamma.deep_gamma`."""
        deep: float | None = self.to_dict()["deep_gamma"]
        return deep

    def to_dict(self) -> Json:
        """The ``credit`` of a report: the series, and single numbers named by their aggregation;
        without directions nothing of ρ."""
        layers = {
            "gamma": self.gamma,
            "rho": self.rho,
            "nudge": self.nudge,
            "zeros": self.zeros,
            "free_layers": self.free,
        }
        deep_rho = deep_gamma(layers, metric="rho")
        entries = {
            **layers,
            **deep_entries(layers),
            "deep_rho": None if math.isnan(deep_rho) else deep_rho,
            "gamma_L": self.gamma[-1],
            **self.pooled,
            "samples": self.samples,
            "directions": self.directions,
        }
        if not self.directions:
            del entries["rho"], entries["deep_rho"], entries["directions"]
        if self.missing:
            entries["missing"] = self.missing
        if self.null is not None:
            entries["null"] = self.null.to_dict()
        return entries


_Response: TypeAlias = "tuple[float | None, float | None]"
"""ρ and nudge of a layer."""

_UNDEFINED: _Response = None, None
"""Of a layer without credit."""


CreditFunction: TypeAlias = Callable[[nn.Module, Any, Tensor], Sequence[Tensor | None]]
"""``(model, x, y) -> [a_0..a_L]``."""


def given_credit(
    net: nn.Module,
    function: CreditFunction,
    batch: object,
    dtype: str | None = None,
    device: str | torch.device | None = None,
) -> Signal:
    """A caller's credit of one batch, in the arithmetic of `diagnose`.

    The function is called with the network in eval mode, its parameters requiring gradients, and
    gradients on.

    Args:
        net: the network; modes, gradients, buffers and random state are restored afterwards.
        function: the credit.
        batch: inputs and labels, as for `diagnose`.
        dtype: as for `diagnose`.
        device: as for `diagnose`.

    Raises:
        MeasureError: the function raised, wrote into the parameters, or returned anything but
            finite tensors that are not 0 everywhere, and None; or tensors that are the same for
            other labels.
    """
    where = f"credit {getattr(function, '__name__', type(function).__name__)}"
    with eval_mode(net, dtype, device) as own:
        before = {key: p.detach().clone() for key, p in own.model.named_parameters()}
        x, y = to_device(batch, 0, own)

        def called(x: Inputs, y: Tensor) -> Signal:
            # the same draws each time: noise is no answer to other labels
            with RngState().isolated(), thawed(own.model):
                return function(own.model, x, y)

        try:
            credit = called(x, y)
            _check_given(credit, where)
            unproven = of_no_error(credit, called, x, y)
        except Exception as error:
            if is_out_of_memory(error) or isinstance(error, FaError):
                raise
            raise MeasureError(
                f"{type(error).__name__}: {error}",
                where=where,
                hint="it is called as credit(model, x, y) with the first eval batch",
            ) from error
        for key, p in own.model.named_parameters():
            if not torch.allclose(p, before[key], 0.0, 0.0, equal_nan=True):
                raise MeasureError(
                    f"it changed the parameter {key}, which has its value again",
                    where=where,
                    hint="return the credit alone, before any training step",
                )
    if unproven:
        raise MeasureError(
            unproven, where=where, hint="return the credit of the error of the batch that it gets"
        )
    return credit


def _check_given(credit: object, where: str) -> None:
    """Refuse what is no list of finite tensors and None.

    Raises:
        MeasureError: with the layer.
    """
    if not isinstance(credit, (list, tuple)) or all(a is None for a in credit):
        raise MeasureError(
            f"it returned {described(credit)}", where=where, hint="return [a_0, ..., a_L]"
        )
    for l, a in enumerate(credit):
        if a is None:
            continue
        if not isinstance(a, Tensor) or not a.is_floating_point():
            what = f"a_{l} is {described(a)}"
        elif not bool(torch.isfinite(a).all()):
            what = f"a_{l} has NaN or inf"
        elif not bool(a.any()):
            what = f"a_{l} is 0 in every sample"
        else:
            continue
        raise MeasureError(
            what, where=where, hint="return float tensors, and None for a layer without credit"
        )


def credit_quality(
    net: nn.Module,
    credit: Signal | CreditFunction,
    x: Inputs,
    y: Tensor,
    directions: int = DIRECTIONS,
    seed: int = 0,
    taps: Taps = None,
    dtype: str | None = None,
    device: str | torch.device | None = None,
    loss: LossChoice = "ce",
) -> CreditQuality:
    """Compare a credit signal with the true gradient and with the measured response of the loss.

    Γ comes with its null, the same credit handed to other samples (`shuffled_null`).

    Args:
        net: the network; it is restored afterwards.
        credit: a_0..a_L, each (B, ...) like h_l, on any scale; None where the method gives none. Or
            a function (model, x, y) -> [a_0..a_L], see `given_credit`.
        x: inputs (B, ...), a tensor or a mapping.
        y: (B,) class indices, or (B, T), for which there is no ρ and no nudge.
        directions: M random directions per sample; 0 leaves ρ out.
        seed: seed of the directions.
        taps: as for `diagnose`.
        dtype: arithmetic of a function, as for `diagnose`.
        device: where to measure; None = the network's device.
        loss: as for `diagnose`.

    Raises:
        MeasureError: the credit's length or a shape differs from the stream's, or the function
            gives none.
        TapError: the stream cannot be tapped.

    Source: docs/protocol.md §4.
    """
    if callable(credit):
        credit = given_credit(net, credit, (x, y), dtype, device)
    return _quality(net, credit, x, y, directions, seed, taps, device, loss, with_null=True)


def _quality(
    net: nn.Module,
    credit: Signal,
    x: Inputs,
    y: Tensor,
    directions: int,
    seed: int = 0,
    taps: Taps = None,
    device: str | torch.device | None = None,
    loss: LossChoice = "ce",
    with_null: bool = False,
) -> CreditQuality:
    """`credit_quality` of a credit that was computed.

    Per layer, batched runs of the tail from h_l on carry the M random steps of ρ and the step of
    nudge for every sample. Everything is float64: in a collapsed network the loss changes by less
    than float32 resolves.
    """
    null = None
    with eval_mode(net, "float64", device) as own:
        x, y = to_device((x, y), 0, own)
        done = true_pass(own, taps, x, y, loss=loss)
        check_credit(credit, done.hidden)
        flattening = Flattening.of(done.hidden, done.gradients[-1], done.label_mask)
        gradients = [flattening.vectors(g) for g in done.gradients]
        signal = as_vectors(credit, flattening, y.device)
        missing = {}
        responses = [_UNDEFINED] * len(signal)
        try:
            if done.label_mask is not None:
                raise TapError("they need one label per sample")
            tail = tail_of(own.model, x, taps)
        except TapError as error:
            missing["rho, nudge"] = str(error)
        else:
            chosen = settled(loss, done.logits, y)
            probe = _Probe(tail, flattening, done.logits, y, directions, chosen)
            responses = probe.responses(done.hidden, signal, seed)
        if with_null:
            null = shuffled_null(signal, gradients)
    if all(a is None for a in signal):
        missing = {"gamma, rho, nudge": Method.no_credit}
    rhos, nudges = zip(*responses, strict=True)
    return CreditQuality(
        gamma=list(map(gamma, signal, gradients)),
        rho=list(rhos),
        nudge=list(nudges),
        zeros=[None if a is None else share_of_zeros(a) for a in signal],
        samples=len(y),
        directions=directions,
        missing=missing,
        pooled=pooled_gamma(signal, gradients),
        null=null,
    )


def as_vectors(credit: Signal, flattening: Flattening, device: torch.device) -> list[Tensor | None]:
    """Credit as one float64 vector per sample, on a device."""
    vectors: list[Tensor | None] = []
    for a in credit:
        if a is None:
            vectors.append(None)
        else:
            vectors.append(flattening.vectors(to_float64(a).to(device)))
    return vectors


def own_credit_quality(
    net: nn.Module,
    batch: object,
    directions: int = DIRECTIONS,
    taps: Taps = None,
    dtype: str | None = None,
    loss: LossChoice = "ce",
) -> CreditQuality:
    """`credit_quality` of a network's own backward pass, in the arithmetic of `diagnose`.

    Args:
        net: a network with custom Functions or backward hooks; it is restored afterwards.
        batch: inputs and labels (B,), as for `diagnose`.
        directions: as for `credit_quality`.
        taps: as for `diagnose`.
        dtype: as for `diagnose`.
        loss: as for `diagnose`.

    Raises:
        MeasureError: the backward pass is autograd's, or the gradient is not known.
    """
    with eval_mode(net, dtype) as own:
        x, y = to_device(batch, 0, own)
        done = true_pass(own, taps, x, y, loss=loss)
    if not done.credit:
        raise MeasureError(done.no_credit or "its backward pass is autograd's")
    found = _quality(net, done.credit, x, y, directions, taps=taps, loss=loss)
    if done.no_credit:
        found.missing["gamma"] = done.no_credit
    return replace(found, free=agreeing(done.credit, done.gradients))


@dataclass(frozen=True)
class _Probe:
    """Response of the loss to steps of the states, by runs of the tail.

    Attributes:
        tail: the network from h_l on.
        flattening: how states become vectors.
        logits: logits of the unmoved states, (B, C).
        y: (B,) class indices.
        directions: M of ρ; 0 leaves it out.
        loss: of a sample.
    """

    tail: Tail
    flattening: Flattening
    logits: Tensor
    y: Tensor
    directions: int
    loss: Loss

    def responses(self, hidden: Sequence[Tensor], signal: Signal, seed: int) -> list[_Response]:
        """ρ and nudge of every layer."""
        draws = torch.Generator().manual_seed(seed)
        found = []
        for l, (state, a) in enumerate(zip(hidden, signal, strict=True)):
            response = _UNDEFINED
            if a is not None:
                changed = partial(self._changed, l, state)
                response = self._rho(changed, state, a, draws), _nudge(changed, a)
            found.append(response)
        return found

    def _changed(self, l: int, state: Tensor, steps: Tensor) -> Tensor:
        """Change of the loss per sample for every step of h_l: (M, B, D) → (M, B)."""
        moved = self.flattening.moved(state, steps).flatten(0, 1)
        logits = self.tail(l, moved).detach().reshape(len(steps), len(self.y), -1)
        return self.loss.change(self.logits, logits, self.y)

    def _rho(
        self, changed: _Change, state: Tensor, a: Tensor, draws: torch.Generator
    ) -> float | None:
        """ρ, in as few runs as memory allows; None without directions."""
        if not self.directions:
            return None
        predicted = []
        changes = []
        most = max(1, LARGEST // state.numel())
        for first in range(0, self.directions, most):
            m = min(most, self.directions - first)
            steps = EPSILON * random_units(m, len(a), a.shape[1], draws).to(a.device)
            predicted.append((steps * a).sum(dim=2))
            changes.append(changed(steps))
        return rho(torch.cat(predicted), torch.cat(changes))


_Change: TypeAlias = Callable[[Tensor], Tensor]
"""Steps of one state (M, B, D) → change of the loss (M, B)."""


def _nudge(changed: _Change, a: Tensor) -> float | None:
    length = sample_norms(a)
    # a credit of 0 has no direction: the sample is left out of the mean below
    pointed = length != 0
    units = a / length[:, None]
    downhill = -ETA * torch.where(pointed[:, None], units, 0.0)
    (change,) = changed(downhill[None])
    return mean_where(change, pointed)


def check_credit(credit: Signal, hidden: Sequence[Tensor]) -> None:
    """Check that a credit signal has one tensor of the state's shape, or None, per state.

    Raises:
        MeasureError: with both lengths or shapes.
    """
    if len(credit) != len(hidden):
        raise MeasureError(
            f"{len(credit)} credits for {len(hidden)} states",
            hint="give a_0..a_L, None where there is none",
        )
    for l, (a, h) in enumerate(zip(credit, hidden, strict=True)):
        if a is not None and a.shape != h.shape:
            raise MeasureError(
                f"a_{l} has shape {tuple(a.shape)}, h_{l} has {tuple(h.shape)}",
                hint="a credit signal has its state's shape, batch included",
            )


def method_credit_quality(
    net: nn.Module, method: Method, x: Inputs, y: Tensor, directions: int = DIRECTIONS
) -> CreditQuality:
    """`credit_quality` of a method's training signal, in the network's own arithmetic.

    Args:
        net: a network with its own stream.
        method: the method with its feedback loaded; it is not changed.
        x: inputs (B, ...).
        y: (B,) class indices.
        directions: as for `credit_quality`.
    """
    with training_batch(net, x, y) as batch:
        credit = batch.credit(copy.deepcopy(method))
    found = _quality(net, credit, x, y, directions)
    if all(a is None for a in credit):
        found.missing["gamma, rho, nudge"] = method.no_credit
    return replace(found, free=free_layers_of(method, credit))


def free_layers_of(method: Method, layers: Sequence[object]) -> list[int]:
    """Layers of a method whose credit needs no feedback (see `CreditQuality.free`)."""
    if method.free_at_L:
        return [len(layers) - 1]
    return []


@dataclass(frozen=True)
class TrainingBatch:
    """The arguments of a rule in training, in the network's arithmetic.

    Attributes:
        network: a network with its own stream.
        stream: h_0..h_L.
        logits: (B, C).
        y: labels (B,).
    """

    network: StreamNet
    stream: list[Tensor]
    logits: Tensor
    y: Tensor

    def credit(self, rule: Method) -> list[Tensor | None]:
        """The rule's credit; the rule is cast to the network's arithmetic in place."""
        rule = rule.to(dtype=self.logits.dtype)
        return rule.credit(self.network, self.stream, self.logits, self.y)


@contextmanager
def training_batch(net: nn.Module, x: Inputs, y: Tensor) -> Iterator[TrainingBatch]:
    """One forward pass for a rule: eval mode, without a graph."""
    with eval_mode(net) as own:
        x, y = to_device((x, y), 0, own)
        network = cast(StreamNet, own.model)
        with torch.no_grad():
            logits, stream = network(x, return_hidden=True)
        yield TrainingBatch(network, list(stream), logits, y)
