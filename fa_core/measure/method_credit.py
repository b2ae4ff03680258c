"""The credit of a trained method, measured, and its null: the same network with fresh feedback."""

from __future__ import annotations

import copy
import math
import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn

from fa_core.errors import UsageError
from fa_core.measure.alignment import gamma, mean_over
from fa_core.measure.borrow import borrow
from fa_core.measure.credit_quality import DIRECTIONS, CreditQuality, check_credit, credit_quality
from fa_core.measure.fused import Pass, fused_pass
from fa_core.measure.per_sample import choose_flatten, vectors
from fa_core.measure.taps import resolve_taps

NULL_DRAWS = 10

M = TypeVar("M", bound="CreditRule")


class CreditRule(Protocol):
    """What is asked of a method: its credit for a batch, and a twin with fresh feedback (see `fa_core.methods`)."""

    draws_feedback: bool

    def credit(self, net: Any, stream: list[Tensor], logits: Tensor, y: Tensor) -> list[Tensor | None]: ...

    def fresh(self: M, generator: torch.Generator) -> M: ...

    def double(self: M) -> M: ...


@dataclass(frozen=True)
class NullGamma:
    """Γ of one network under freshly drawn feedback.

    Attributes:
        deep: deep Γ (mean over l ≥ 1) of every draw where it is defined.
        observed: deep Γ under the training feedback, or None.
        layers: Γ_l averaged over the draws, l = 0..L. Where feedback does not reach (FA's a_L comes from the
            head alone), Γ_l is no null but the rule's own.

    Source: PROTOCOL §4 (published: +0.002 ± 0.022 fresh against +0.151 ± 0.025 with the training feedback).
    """

    deep: list[float]
    observed: float | None
    layers: list[float | None] = field(default_factory=list)

    @property
    def mean(self) -> float | None:
        """Mean over draws."""
        return statistics.fmean(self.deep) if self.deep else None

    @property
    def std(self) -> float | None:
        """Standard deviation over draws (population); NaN where a draw is not finite."""
        if not all(map(math.isfinite, self.deep)):
            return math.nan
        return statistics.pstdev(self.deep) if self.deep else None

    @property
    def rank(self) -> float | None:
        """Share of draws whose deep Γ reaches the observed one, (1 + k)/(1 + n): a one-sided p-value.

        None where there is nothing to compare, or a value that is not finite compares with nothing.

        >>> NullGamma([0.0, 0.1, -0.1], observed=0.5).rank
        0.25
        """
        if self.observed is None or not self.deep or not all(map(math.isfinite, [self.observed, *self.deep])):
            return None
        return (1 + sum(value >= self.observed for value in self.deep)) / (1 + len(self.deep))

    def to_dict(self) -> dict[str, Any]:
        """For a report's ``credit``."""
        summary = {"deep_gamma_mean": self.mean, "deep_gamma_std": self.std, "rank": self.rank}
        return {"draws": len(self.deep), **summary, "gamma": self.layers}


def method_credit_quality(
    net: nn.Module, method: CreditRule, x: Tensor, y: Tensor, directions: int = DIRECTIONS, seed: int = 0
) -> CreditQuality:
    """`credit_quality` of a method's own signal, computed in float64 from copies of network and method.

    Args:
        net: a network with its own stream.
        method: as trained, its feedback loaded.
        x: inputs (B, ...).
        y: (B,) class indices.
        directions: as for `credit_quality`.
        seed: as for `credit_quality`.
    """
    with borrow(net, "float64") as borrowed:
        credit = _credit(borrowed.model, copy.deepcopy(method).double(), *_batch(borrowed.device, x, y))
    return credit_quality(net, credit, x, y, directions, seed)


def method_gamma(net: nn.Module, method: CreditRule, x: Tensor, y: Tensor) -> list[float | None]:
    """Γ_l of a method's own signal on one batch, l = 0..L (see `gamma`): `method_credit_quality` without the rest.

    Args:
        net: a network with its own stream.
        method: as it is now.
        x: inputs (B, ...).
        y: (B,) class indices.

    Raises:
        MeasureError: a credit of another length or shape than the stream.

    Source: PROTOCOL §4.
    """
    with _reference(net, x, y) as reference:
        return reference.gammas(copy.deepcopy(method))


def null_gamma(
    net: nn.Module, method: CreditRule, x: Tensor, y: Tensor, draws: int = NULL_DRAWS, seed: int = 0
) -> NullGamma:
    """Deep Γ under `draws` fresh feedbacks, beside the one with the training feedback.

    Args:
        net: a network with its own stream.
        method: as trained.
        x: inputs (B, ...).
        y: (B,) class indices.
        draws: how many feedbacks to draw.
        seed: of the draws.

    Raises:
        UsageError: the method draws no feedback, so that it has no null.

    Source: PROTOCOL §4.
    """
    if not method.draws_feedback:
        raise UsageError(f"{type(method).__name__} draws no feedback", hint="it has no null to compare with")
    generator = torch.Generator().manual_seed(seed)
    with _reference(net, x, y) as reference:
        observed = mean_over(reference.gammas(copy.deepcopy(method)))
        drawn = [reference.gammas(method.fresh(generator)) for _ in range(draws)]
    deep = [value for value in map(mean_over, drawn) if value is not None]
    return NullGamma(deep, observed, [mean_over(list(layer), first=0) for layer in zip(*drawn, strict=True)])


@dataclass(frozen=True)
class _Reference:
    """A batch's float64 gradients, for credit to be compared with."""

    model: nn.Module
    x: Tensor
    y: Tensor
    done: Pass
    flatten: str

    def gammas(self, rule: CreditRule) -> list[float | None]:
        """Γ_l of a rule, which is turned to float64 in place."""
        credit = _credit(self.model, rule.double(), self.x, self.y)
        check_credit(credit, self.done.hidden)
        pairs = zip(credit, self.done.gradients, strict=True)
        return [gamma(None if a is None else vectors(a, self.flatten), vectors(g, self.flatten)) for a, g in pairs]


@contextmanager
def _reference(net: nn.Module, x: Tensor, y: Tensor) -> Iterator[_Reference]:
    with borrow(net, "float64") as borrowed:
        x, y = _batch(borrowed.device, x, y)
        done = fused_pass(resolve_taps(borrowed.model), borrowed.model, x, y)
        yield _Reference(borrowed.model, x, y, done, choose_flatten(done.hidden, done.gradients[-1]))


def _credit(net: nn.Module, rule: CreditRule, x: Tensor, y: Tensor) -> list[Tensor | None]:
    with torch.no_grad():
        logits, stream = net(x, return_hidden=True)
    return rule.credit(net, list(stream), logits, y)


def _batch(device: torch.device, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    return x.to(device, torch.float64 if x.is_floating_point() else None), y.to(device)
