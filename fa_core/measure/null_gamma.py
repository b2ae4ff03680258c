"""The null of Γ: deep Γ of a method's rule under freshly drawn feedback."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fa_core.errors import UsageError
from fa_core.measure.batch_input import to_device
from fa_core.measure.credit import (
    TrainingBatch,
    as_vectors,
    check_credit,
    free_layers_of,
    training_batch,
)
from fa_core.measure.credit_metrics import NullGamma, Series
from fa_core.measure.isolate import Inputs, eval_mode
from fa_core.measure.norms import Flattening, gamma, mean_over
from fa_core.measure.passes import true_pass
from fa_core.zoo.methods.base import Method

NULL_DRAWS = 200
"""Draws for a rule whose credit is linear in its feedback: the spread is known to 5 %."""

SLOW_DRAWS = 20
"""Draws for any other rule, one backward pass each: the spread is known to 16 %."""


def method_gamma(net: nn.Module, method: Method, x: Inputs, y: Tensor) -> Series:
    """Γ_l of a method's own signal on one batch, l = 0..L: `method_credit_quality` without ρ and
    nudge.

    Args:
        net: a network with its own stream.
        method: the method with its present feedback.
        x: inputs (B, ...).
        y: (B,) class indices.

    Raises:
        MeasureError: the credit's length or a shape differs from the stream's.

    Source: docs/protocol.md §4.
    """
    with _reference(net, x, y) as reference:
        return reference.gammas(copy.deepcopy(method))


def null_gamma(
    net: nn.Module, method: Method, x: Inputs, y: Tensor, draws: int | None = None, seed: int = 0
) -> NullGamma:
    """Deep Γ under fresh feedback and under the training feedback.

    Args:
        net: a network with its own stream.
        method: the trained method.
        x: inputs (B, ...).
        y: (B,) class indices.
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
    with _reference(net, x, y) as reference:
        own = reference.gammas(copy.deepcopy(method))
        drawn = [reference.gammas(method.fresh(generator)) for _ in range(draws)]
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


@dataclass(frozen=True)
class _Reference:
    """The float64 gradients of one batch, to compare credit with.

    Attributes:
        batch: the arguments of a rule.
        hidden: h_0..h_L.
        gradients: g_0..g_L as float64 vectors.
        flattening: how states become vectors.
    """

    batch: TrainingBatch
    hidden: list[Tensor]
    gradients: list[Tensor]
    flattening: Flattening

    def gammas(self, rule: Method) -> Series:
        """Γ_l of one rule, which is cast to the network's arithmetic in place."""
        credit = self.batch.credit(rule)
        check_credit(credit, self.hidden)
        vectors = as_vectors(credit, self.flattening, self.batch.y.device)
        return list(map(gamma, vectors, self.gradients))


@contextmanager
def _reference(net: nn.Module, x: Inputs, y: Tensor) -> Iterator[_Reference]:
    """The gradients of one batch in float64, and the arguments of a rule."""
    with eval_mode(net, "float64") as own, training_batch(net, x, y) as batch:
        x, y = to_device((x, y), 0, own)
        done = true_pass(own, None, x, y)
        flattening = Flattening.of(done.hidden, done.gradients[-1])
        gradients = [flattening.vectors(g) for g in done.gradients]
        yield _Reference(batch, done.hidden, gradients, flattening)
