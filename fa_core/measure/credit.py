"""Credit quality of one batch: Γ, ρ and nudge at every layer, in float64."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import TypeAlias, cast

import torch
from torch import Tensor, nn

from fa_core.errors import FaError, MeasureError, TapError, UsageError
from fa_core.files.decode import Json
from fa_core.measure.batch_input import to_device
from fa_core.measure.credit_metrics import (
    NullGamma,
    credit_entries,
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
    tapped,
)
from fa_core.measure.isolate import (
    CREDIT_DREW,
    Inputs,
    RngState,
    call_model,
    eval_mode,
    first_of,
    tree_map,
)
from fa_core.measure.norms import Signal, gamma, mean_over, mean_where, sample_norms
from fa_core.measure.passes import (
    DEFAULTS,
    CreditFunction,
    PassOptions,
    Reference,
    is_out_of_memory,
    reference,
)
from fa_core.measure.proven_credit import doubt
from fa_core.measure.taps import Taps, thawed
from fa_core.measure.tracing import agreeing
from fa_core.report.gamma import deep_gamma
from fa_core.report.numbers import or_none
from fa_core.report.provenance import Series
from fa_core.zoo.methods.base import Method
from fa_core.zoo.models.base import StreamNet

Tail: TypeAlias = Callable[[int, Tensor], Tensor]
"""``(l, states (M·B, ...)) -> logits (M·B, C)``; the rows are M rounds of the same B samples."""


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
    own: Tail | None = getattr(model, "tail", None)
    if taps is None and own is not None:
        return own
    if taps is None or callable(taps) or any(p.endswith(READS) for p in split_patterns(taps)):
        raise TapError(
            f"{type(model).__name__} cannot be run from a hidden state on",
            hint="give it tail(l, h) -> logits, or name its blocks with taps",
        )
    names = match_modules(model, taps)

    def run_from(l: int, states: Tensor) -> Tensor:
        layers = count()
        rounds = len(states) // len(first_of(x))

        def replace_state(_: str, state: Tensor) -> Tensor:
            if next(layers) == l:
                return states
            return state

        def repeated(tensor: Tensor) -> Tensor:
            return tensor.repeat(rounds, *[1] * (tensor.dim() - 1))

        with tapped(model, names, replace_state):
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


_Response: TypeAlias = "tuple[float | None, float | None]"
"""ρ and nudge of a layer."""

_UNDEFINED: _Response = None, None
"""Of a layer without credit."""


def given_credit(
    net: nn.Module, function: CreditFunction, batch: object, how: PassOptions
) -> tuple[Signal, bool]:
    """A caller's credit of one batch, in the arithmetic of `diagnose`, and whether it drew random
    numbers.

    The function is called with the network in eval mode, its parameters requiring gradients, and
    gradients on.

    Args:
        net: the network; modes, gradients, buffers and random state are restored afterwards.
        function: the credit.
        batch: inputs and labels, as for `diagnose`.
        how: the options of `diagnose`.

    Raises:
        MeasureError: the function raised, wrote into the parameters, or returned anything but
            finite tensors that are not 0 everywhere, and None; or tensors that are the same for
            other labels.
    """
    where = f"credit {getattr(function, '__name__', type(function).__name__)}"
    with eval_mode(net, how.dtype, how.device) as own:
        before = {key: p.detach().clone() for key, p in own.model.named_parameters()}
        x, y = to_device(batch, 0, own)

        def called(x: Inputs, y: Tensor, rng: RngState | None = None) -> Signal:
            # the same draws each time: noise is no answer to other labels
            with (rng or RngState()).isolated(), thawed(own.model.parameters()):
                return function(own.model, x, y)

        rng = RngState()
        try:
            credit = called(x, y, rng)
            _check_given(credit, where)
            # what was found, and not what it may be of a network's own feedback
            *_, unproven = doubt(credit, called, x, y).partition(": ")
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
    return credit, rng.noticed


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
        is_float = isinstance(a, Tensor) and a.is_floating_point()
        if a is None or (is_float and bool(a.isfinite().all() and a.any())):
            continue
        values = " with NaN or inf, or 0 in every sample" if is_float else ""
        raise MeasureError(
            f"a_{l} is {described(a)}{values}",
            where=where,
            hint="return float tensors, and None for a layer without credit",
        )


def credit_quality(
    net: nn.Module,
    credit: Signal | CreditFunction,
    batch: object,
    how: PassOptions = DEFAULTS,
    directions: int = DIRECTIONS,
) -> Json:
    """Compare a credit signal with the true gradient and with the measured response of the loss.

    Γ comes with its null, the same credit handed to other samples (`shuffled_null`).

    Args:
        net: the network; it is restored afterwards.
        credit: a_0..a_L, each (B, ...) like h_l, on any scale; None where the method gives none. Or
            a function (model, x, y) -> [a_0..a_L], see `given_credit`.
        batch: inputs and labels, as for `diagnose`; for labels (B, T) there is no ρ and no nudge.
        how: the options of `diagnose`; its ``dtype`` is the arithmetic of a function.
        directions: M random directions per sample; 0 leaves ρ out.

    Returns:
        The ``credit`` of a report (`credit_entries`), and per layer, None where undefined: ``rho``,
        ρ_l with steps of ε = 1e-3, which estimates Γ_l (see `rho`); ``nudge``, the mean change of
        the loss when h_l moves by −η·a_l/‖a_l‖, η = 0.01, negative is good. ``missing`` is why
        metrics are None, unless it is a norm or variance of 0; ``note`` says that a function drew.

    Raises:
        MeasureError: the credit's length or a shape differs from the stream's, or the function
            gives none.
        TapError: the stream cannot be tapped.

    Source: docs/protocol.md §4.
    """
    drew = False
    if callable(credit):
        credit, drew = given_credit(net, credit, batch, how)
    found = _quality(net, credit, batch, how, directions, with_null=True)
    if drew:
        found["note"] = CREDIT_DREW
    return found


def _quality(
    net: nn.Module,
    credit: Signal,
    batch: object,
    how: PassOptions,
    directions: int,
    free: Sequence[int] = (),
    no_credit: str = Method.no_credit,
    with_null: bool = False,
) -> Json:
    """`credit_quality` of a credit that was computed.

    Per layer, batched runs of the tail from h_l on carry the M random steps of ρ and the step of
    nudge for every sample. Everything is float64: in a collapsed network the loss changes by less
    than float32 resolves.
    """
    missing = {}
    how = replace(how, dtype="float64", largest_pass=None)
    with reference(net, batch, how) as exact:
        signal = exact.vectors(credit)
        found = credit_entries(signal, exact.gradients, free, len(exact.y))
        responses = [_UNDEFINED] * len(signal)
        try:
            if exact.done.label_mask is not None:
                raise TapError("they need one label per sample")
            probe = _Probe(tail_of(exact.model, exact.x, how.taps), exact, directions)
        except TapError as error:
            missing["rho, nudge"] = str(error)
        else:
            responses = probe.responses(signal)
        if with_null:
            found["null"] = shuffled_null(signal, exact.gradients).to_dict()
        found.update(pooled_gamma(signal, exact.gradients))
    if all(a is None for a in signal):
        missing = {"gamma, rho, nudge": no_credit}
    rhos, nudges = zip(*responses, strict=True)
    found["nudge"] = list(nudges)
    if directions:
        found.update(rho=list(rhos), directions=directions)
        found["deep_rho"] = or_none(deep_gamma(found, metric="rho"))
    if missing:
        found["missing"] = missing
    return found


def own_credit_quality(net: nn.Module, batch: object, how: PassOptions, directions: int) -> Json:
    """`credit_quality` of a network's own backward pass, in the arithmetic of `diagnose`.

    Args:
        net: a network with custom Functions or backward hooks; it is restored afterwards.
        batch: inputs and labels (B,), as for `diagnose`.
        how: the options of `diagnose`.
        directions: as for `credit_quality`.

    Raises:
        MeasureError: the backward pass is autograd's, or the gradient is not known.
    """
    with reference(net, batch, how) as found:
        done = found.done
    if not done.credit:
        raise MeasureError(done.no_credit or "its backward pass is autograd's")
    free = agreeing(done.credit, done.gradients)
    quality = _quality(net, done.credit, batch, how, directions, free=free)
    if done.no_credit:
        quality["missing"] = {**quality.get("missing", {}), "gamma": done.no_credit}
    return quality


@dataclass(frozen=True)
class _Probe:
    """Response of the loss to steps of the states, by runs of the tail.

    Attributes:
        tail: the network from h_l on.
        exact: the unmoved states, and their loss.
        directions: M of ρ; 0 leaves it out.
    """

    tail: Tail
    exact: Reference
    directions: int

    def responses(self, signal: Signal) -> list[_Response]:
        """ρ and nudge of every layer."""
        draws = torch.Generator().manual_seed(0)
        return [
            _UNDEFINED if a is None else (self._rho(l, a, draws), self._nudge(l, a))
            for l, a in enumerate(signal)
        ]

    def _changed(self, l: int, steps: Tensor) -> Tensor:
        """Change of the loss per sample for every step of h_l: (M, B, D) → (M, B)."""
        done, y = self.exact.done, self.exact.y
        moved = self.exact.flattening.moved(done.hidden[l], steps).flatten(0, 1)
        logits = self.tail(l, moved).detach().reshape(len(steps), len(y), -1)
        return self.exact.loss.change(done.logits, logits, y)

    def _rho(self, l: int, a: Tensor, draws: torch.Generator) -> float | None:
        """ρ, in as few runs as memory allows; None without directions."""
        if not self.directions:
            return None
        predicted = []
        changes = []
        most = max(1, LARGEST // self.exact.done.hidden[l].numel())
        for first in range(0, self.directions, most):
            m = min(most, self.directions - first)
            steps = EPSILON * random_units(m, len(a), a.shape[1], draws).to(a.device)
            predicted.append((steps * a).sum(dim=2))
            changes.append(self._changed(l, steps))
        return rho(torch.cat(predicted), torch.cat(changes))

    def _nudge(self, l: int, a: Tensor) -> float | None:
        length = sample_norms(a)
        # a credit of 0 has no direction: the sample is left out of the mean below
        pointed = length != 0
        units = a / length[:, None]
        downhill = -ETA * torch.where(pointed[:, None], units, 0.0)
        (change,) = self._changed(l, downhill[None])
        return mean_where(change, pointed)


def method_credit_quality(net: nn.Module, method: Method, batch: object, directions: int) -> Json:
    """`credit_quality` of a method's training signal, in the network's own arithmetic.

    Args:
        net: a network with its own stream.
        method: the method with its feedback loaded; it is not changed.
        batch: inputs (B, ...) and class indices (B,).
        directions: as for `credit_quality`.
    """
    with training_credit(net, batch) as credit_of:
        credit = credit_of(copy.deepcopy(method))
    free = free_layers_of(method, credit)
    return _quality(net, credit, batch, DEFAULTS, directions, free=free, no_credit=method.no_credit)


def free_layers_of(method: Method, layers: Sequence[object]) -> list[int]:
    """Layers of a method whose credit needs no feedback, e.g. l = L by the head's true weights."""
    if method.free_at_L:
        return [len(layers) - 1]
    return []


@contextmanager
def training_credit(net: nn.Module, batch: object) -> Iterator[Callable[[Method], Signal]]:
    """One forward pass in eval mode, without a graph, and what credit a rule gives for it.

    The rule is cast to the network's arithmetic in place.
    """
    with eval_mode(net) as own:
        x, y = to_device(batch, 0, own)
        network = cast(StreamNet, own.model)
        with torch.no_grad():
            logits, stream = network(x, return_hidden=True)

        def credit_of(rule: Method) -> Signal:
            return rule.to(dtype=logits.dtype).credit(network, list(stream), logits, y)

        yield credit_of


NULL_DRAWS = 200
"""Draws for a rule whose credit is linear in its feedback: the spread is known to 5 %."""

SLOW_DRAWS = 20
"""Draws for any other rule, one backward pass each: the spread is known to 16 %."""


def method_gamma(net: nn.Module, method: Method, batch: object) -> Series:
    """Γ_l of a method's own signal on one batch, l = 0..L: `method_credit_quality` without ρ and
    nudge.

    Args:
        net: a network with its own stream.
        method: the method with its present feedback.
        batch: inputs (B, ...) and class indices (B,).

    Raises:
        MeasureError: the credit's length or a shape differs from the stream's.

    Source: docs/protocol.md §4.
    """
    with _measured(net, batch) as gammas:
        return gammas(copy.deepcopy(method))


def null_gamma(
    net: nn.Module, method: Method, batch: object, draws: int | None = None
) -> NullGamma:
    """Deep Γ under fresh feedback and under the training feedback.

    Args:
        net: a network with its own stream.
        method: the trained method.
        batch: inputs (B, ...) and class indices (B,).
        draws: number of fresh feedbacks; None = `usual_draws`. More draws extend fewer: the first
            ones are the same.

    Raises:
        UsageError: the method draws no feedback, so it has no null.

    Source: docs/protocol.md §4.
    """
    if not method.draws_feedback:
        raise UsageError(
            f"{type(method).__name__} draws no feedback", hint="it has no null to compare with"
        )
    if draws is None:
        draws = usual_draws(method)
    generator = torch.Generator().manual_seed(0)
    with _measured(net, batch) as gammas:
        own = gammas(copy.deepcopy(method))
        drawn = [gammas(method.fresh(generator)) for _ in range(draws)]
    deep = [value for layers in drawn if (value := _deep(method, layers)) is not None]
    averages = [mean_over(layer, first=0) for layer in zip(*drawn, strict=True)]
    return NullGamma(deep, _deep(method, own), averages)


def _deep(method: Method, gammas: Series) -> float | None:
    """Deep Γ: mean over l ≥ 1, without the free layers and those without credit."""
    return mean_over(gammas, without=free_layers_of(method, gammas))


DRAWN_AT_MOST = 2**28
"""Entries drawn for one null: a few seconds, as for 200 draws of FA at d = 580 and L = 4."""


def usual_draws(method: Method) -> int:
    """Default number of draws of a rule's null, from `SLOW_DRAWS` to `NULL_DRAWS`."""
    if not method.linear_feedback:
        return SLOW_DRAWS
    numbers = sum(buffer.numel() for buffer in method.buffers())
    return max(SLOW_DRAWS, min(NULL_DRAWS, DRAWN_AT_MOST // max(numbers, 1)))


@contextmanager
def _measured(net: nn.Module, batch: object) -> Iterator[Callable[[Method], Series]]:
    """Γ_l of rules on one batch: their credit beside its gradients in float64."""
    exact_pass = reference(net, batch, PassOptions(dtype="float64"))
    with exact_pass as exact, training_credit(net, batch) as credit_of:

        def gammas(rule: Method) -> Series:
            return list(map(gamma, exact.vectors(credit_of(rule)), exact.gradients))

        yield gammas
