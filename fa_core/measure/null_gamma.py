"""The null of Γ: deep Γ of a method's rule under freshly drawn feedback."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import nn

from fa_core.errors import UsageError
from fa_core.measure.credit import free_layers_of, training_credit
from fa_core.measure.credit_metrics import NullGamma, Series
from fa_core.measure.norms import gamma, mean_over
from fa_core.measure.passes import PassOptions, reference
from fa_core.zoo.methods.base import Method

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
    net: nn.Module, method: Method, batch: object, draws: int | None = None, seed: int = 0
) -> NullGamma:
    """Deep Γ under fresh feedback and under the training feedback.

    Args:
        net: a network with its own stream.
        method: the trained method.
        batch: inputs (B, ...) and class indices (B,).
        draws: number of fresh feedbacks; None = `usual_draws`. More draws extend fewer: the first
            ones are the same.
        seed: seed of the draws.

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
    generator = torch.Generator().manual_seed(seed)
    with _measured(net, batch) as gammas:
        own = gammas(copy.deepcopy(method))
        drawn = [gammas(method.fresh(generator)) for _ in range(draws)]
    deep = []
    for layers in drawn:
        value = _deep(method, layers)
        if value is not None:
            deep.append(value)
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
