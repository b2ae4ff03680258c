"""A batch too large for memory in parts, with the same numbers as in one pass."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from fa_core.errors import MeasureError
from fa_core.measure.flattening import check_states
from fa_core.measure.gradients import loss_terms
from fa_core.measure.isolate import EvalNetwork, Inputs, InputsT, first_of, rows
from fa_core.measure.passes import Pass, PassRunner
from fa_core.measure.resolve import resolve_taps
from fa_core.measure.taps import Taps


def microbatches(
    run: Callable[[Inputs, Tensor], Pass], x: Inputs, y: Tensor, largest: int | None = None
) -> Pass:
    """One batch's pass from passes over its parts.

    In eval mode samples do not see each other, so ∂CE/∂h of a sample in a part of b samples is
    (B/b) times that in the batch of B: scaled by b/B and put back together, it is the batch's, up
    to rounding (relative 2^-24; exact where b/B is a power of two).

    Args:
        run: (x, y) → their pass.
        x: inputs (B, ...).
        y: labels (B,).
        largest: samples per pass; None = all at once.
    """
    if largest is None or largest >= len(y):
        return run(x, y)
    terms = loss_terms(y)
    parts: list[Pass] = []
    for x_part, y_part in zip(cut(x, largest), torch.split(y, largest), strict=True):
        done = run(x_part, y_part)
        share = loss_terms(y_part) / terms
        gradients = [g * share for g in done.gradients]
        credit = [a * share for a in done.credit]
        parts.append(replace(done, gradients=gradients, credit=credit))
    return _joined(parts)


def true_pass(
    net: EvalNetwork, taps: Taps, x: Inputs, y: Tensor, largest: int | None = None
) -> Pass:
    """A pass to all layers whose gradients are known.

    Args:
        net: the network in eval mode.
        taps: as for `diagnose`.
        x: inputs (B, ...).
        y: labels.
        largest: as for `microbatches`.

    Raises:
        TapError: states whose first axis is not the batch.
        MeasureError: the network's backward pass is its own, and the gradient is not known.
    """
    runner = PassRunner(resolve_taps(net.model, taps), net.model)
    with net.rng.isolated():
        done = microbatches(runner.run, x, y, largest)
    check_states(done.hidden, done.names, len(y))
    if done.untrue:
        raise MeasureError(done.untrue)
    return done


def _joined(parts: list[Pass]) -> Pass:
    """The passes over all parts as one."""

    def join(name: str) -> Tensor:
        return torch.cat([getattr(part, name) for part in parts])

    def join_layers(name: str) -> list[Tensor]:
        layers = zip(*(getattr(part, name) for part in parts), strict=True)
        return list(map(torch.cat, layers))

    return replace(
        parts[0],
        logits=join("logits"),
        hidden=join_layers("hidden"),
        gradients=join_layers("gradients"),
        error=join("error"),
        credit=join_layers("credit"),
        counting=None if parts[0].counting is None else join("counting"),
    )


def cut(x: InputsT, largest: int) -> list[InputsT]:
    """The inputs in pieces of at most ``largest`` samples."""
    starts = range(0, len(first_of(x)), largest)
    return [rows(x, slice(start, start + largest)) for start in starts]
