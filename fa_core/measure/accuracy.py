"""Reproducible accuracy: near-ties are decided in float64."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import torch
from torch import Tensor, nn

from fa_core.errors import FaError
from fa_core.measure.batch_input import IGNORED, as_batches, move_batch, to_device
from fa_core.measure.copies import float64_copy
from fa_core.measure.hooks import plain_logits
from fa_core.measure.isolate import (
    HALF,
    EvalNetwork,
    Inputs,
    eval_mode,
    first_of,
    select_samples,
)
from fa_core.measure.passes import as_pass_failed, check_logits

Progress: TypeAlias = Callable[[int, int], object]
"""Called with (batches done, batches in total)."""

LogitsFunction: TypeAlias = Callable[[nn.Module, Inputs], Tensor]
"""``(network, x) -> logits (B, C)``, outside the graph."""

NEAR_TIE = 1e-5
"""Top-2 gaps below this, times max(1, |top|), are within float32's error of changing order."""


def near_ties(logits: Tensor) -> Tensor:
    """Mask of the samples whose two largest logits are too close for float32 to order.

    Args:
        logits: (..., C), C ≥ 2.

    Returns:
        (...) bool: top − second < 1e-5·max(1, |top|); False if a logit is not finite, and for
        float64 logits.

    Source: SCALE ("one argmax in 150,000 flipped, top-2 gap 1e-7").

    >>> near_ties(torch.tensor([[1.0, 1.0 + 1e-6, 0.0], [1.0, 2.0, 0.0]])).tolist()
    [True, False]
    """
    if logits.dtype == torch.float64:
        return torch.zeros(logits.shape[:-1], dtype=torch.bool, device=logits.device)
    top, second = logits.float().topk(2, dim=-1).values.unbind(-1)
    return (top - second) < NEAR_TIE * top.abs().clamp(min=1.0)


class AccuracyMeter:
    """Streaming accuracy: the share of samples whose largest logit is the label's.

    A sample with a NaN among its logits is wrong: it has no prediction. Exact ties go to the lowest
    class. Near-ties of a float32 network are run again in float64, in a copy made at the first
    near-tie.

    Args:
        net: the network in eval mode.
        logits_of: how to run it.

    Attributes:
        right: (B,) bool per batch.
    """

    def __init__(self, net: EvalNetwork, logits_of: LogitsFunction) -> None:
        self._net = net
        self._logits_of = logits_of
        self._twin: nn.Module | None = None
        self.right: list[Tensor] = []

    def update(self, x: Inputs, y: Tensor, logits: Tensor) -> None:
        """Count one batch: inputs and labels on the network's device, logits (B, C).

        Labels (B, T) with logits (B, T, C) count one by one, without ignored ones; their near-ties
        are not run again.
        """
        right = is_correct(logits, y)
        if y.dim() == 2:
            right = right[y != IGNORED]
        elif not (self._net.as_is and logits.dtype in HALF):
            near = near_ties(logits)
            if bool(near.any()):
                self._decide(right, near, x, y)
        self.right.append(right)

    def _decide(self, right: Tensor, near: Tensor, x: Inputs, y: Tensor) -> None:
        """Classify the samples `near`, (B,) bool, in float64; changes `right` in place."""
        x = select_samples(x, near)
        try:
            if self._twin is None:
                self._twin = float64_copy(self._net.model)
            device = next(self._twin.parameters(), first_of(x)).device
            x, labels = move_batch(x, y[near], device, torch.float64)
            decided = is_correct(self._logits_of(self._twin, x), labels)
        except (RuntimeError, FaError):
            # it cannot run in float64: a cast inside
            return
        right[near] = decided.to(right.device)


def is_correct(logits: Tensor, y: Tensor) -> Tensor:
    """Whether each prediction is correct; never for a sample with NaN.

    Args:
        logits: (..., C).
        y: (...).

    Returns:
        (...) bool.
    """
    # max gives the first of equals, and NaN before all others
    largest, predicted = logits.max(dim=-1)
    return (predicted == y) & (largest == largest)


def accuracy(model: nn.Module, batches: Iterable[object]) -> float:
    """The share of samples that `model` classifies correctly, a fraction in [0, 1].

    Arguments and errors: `run_accuracy`.

    >>> net = nn.Linear(2, 2, bias=False)
    >>> _ = nn.init.eye_(net.weight)
    >>> accuracy(net, [(torch.eye(2), torch.tensor([0, 1])), (torch.eye(2), torch.tensor([1, 1]))])
    0.75
    """
    right = torch.cat(run_accuracy(model, batches).right)
    return int(right.sum()) / len(right)


def run_accuracy(
    model: nn.Module,
    batches: Iterable[object],
    dtype: str | None = None,
    on_batch: Progress | None = None,
) -> AccuracyMeter:
    """Classify every sample: `accuracy` before the division.

    Args:
        model: the network, which is left as `diagnose` leaves it.
        batches: (x, y) pairs.
        dtype: as for `diagnose`.
        on_batch: called with (done, total) after every batch.

    Raises:
        MeasureError: batches that cannot be used.
    """
    batches = as_batches(batches)
    with eval_mode(model, dtype) as net, net.rng.isolated_over(batches):
        meter = AccuracyMeter(net, plain_logits)
        for index, batch in enumerate(batches):
            where = f"eval batch {index}"
            x, y = to_device(batch, index, net)
            with net.rng.isolated():
                with as_pass_failed(x, where):
                    logits = plain_logits(net.model, x)
                check_logits(logits, y, where)
                meter.update(x, y, logits)
            if on_batch is not None:
                on_batch(index + 1, len(batches))
        return meter
