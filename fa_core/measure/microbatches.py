"""Passes of a batch in parts, for batches too large for memory, with the same numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from fa_core.errors import MeasureError
from fa_core.measure.flattening import check_states
from fa_core.measure.gradients import loss_terms
from fa_core.measure.isolate import EvalNetwork, Inputs, InputsT, first_of, select_samples
from fa_core.measure.passes import Pass, PassRunner
from fa_core.measure.resolve import resolve_taps
from fa_core.measure.taps import Taps


def microbatches(
    run: Callable[[Inputs, Tensor], Pass], x: Inputs, y: Tensor, largest: int | None = None
) -> Pass:
    """One batch's pass, joined from passes over its parts.

    In eval mode samples do not depend on each other, so ∂CE/∂h of a sample in a part of b samples
    is (B/b) times its ∂CE/∂h in the batch of B. Scaled by b/B, the parts give the batch's
    gradients, up to rounding (relative 2^-24; exact if b/B is a power of two).

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
    """A pass to all layers that gives true gradients.

    Args:
        net: the network in eval mode.
        taps: as for `diagnose`.
        x: inputs (B, ...).
        y: labels.
        largest: as for `microbatches`.

    Raises:
        TapError: states whose first axis is not the batch.
        MeasureError: the network has a custom backward pass, and its gradient is unknown.
    """
    runner = PassRunner(resolve_taps(net.model, taps), net.model)
    with net.rng.isolated():
        done = microbatches(runner.run, x, y, largest)
    check_states(done.hidden, done.names, len(y))
    if done.gradient_unknown:
        raise MeasureError(done.gradient_unknown)
    return done


def _joined(parts: list[Pass]) -> Pass:
    """The passes over all parts as one."""
    masks = [part.label_mask for part in parts if part.label_mask is not None]
    return replace(
        parts[0],
        logits=torch.cat([part.logits for part in parts]),
        hidden=_joined_layers([part.hidden for part in parts]),
        gradients=_joined_layers([part.gradients for part in parts]),
        error=torch.cat([part.error for part in parts]),
        credit=_joined_layers([part.credit for part in parts]),
        # the mean error of the batch is known after its parts only
        of_mean_error=None,
        label_mask=torch.cat(masks) if masks else None,
    )


def _joined_layers(parts: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    return list(map(torch.cat, zip(*parts, strict=True)))


def cut(x: InputsT, largest: int) -> list[InputsT]:
    """Split inputs into pieces of at most ``largest`` samples."""
    starts = range(0, len(first_of(x)), largest)
    return [select_samples(x, slice(start, start + largest)) for start in starts]
