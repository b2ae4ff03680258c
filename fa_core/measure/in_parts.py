"""A batch too large for memory, measured in parts: the same numbers as in one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from fa_core.measure.fused import Pass, fused_pass
from fa_core.measure.taps import Tapped


def pass_in_parts(
    tapped: Tapped,
    model: nn.Module,
    x: Tensor,
    y: Tensor,
    layers: Sequence[int] | None = None,
    where: str = "",
    largest: int | None = None,
) -> Pass:
    """`fused_pass` with at most ``largest`` samples in memory at a time (see `in_parts`).

    Args:
        tapped: how to tap `model`.
        model: the network, borrowed for measuring.
        x: inputs (B, ...).
        y: labels (B,).
        layers: whose gradients are wanted; None = all.
        where: the batch's name, for messages.
        largest: samples per pass; None = all at once.

    Raises:
        PassFailed, TapError: as `fused_pass`.
    """
    return in_parts(lambda a, b: fused_pass(tapped, model, a, b, layers, where), x, y, largest)


def in_parts(
    run: Callable[[Tensor, Tensor], Pass], x: Tensor, y: Tensor, largest: int | None = None, samples_axis: int = 0
) -> Pass:
    """One batch's pass from passes over its parts.

    In eval mode samples do not see each other, so ∂CE/∂h of a sample in a part of b samples is (B/b) times that
    in the batch of B: scaled by b/B and put back together, it is the batch's, up to rounding (relative 2^-24;
    exact where b/B is a power of two).

    Args:
        run: (x, y) → their pass.
        x: inputs (B, ...).
        y: labels (B,).
        largest: samples per pass; None = all at once.
        samples_axis: where the samples are in what ``run`` gives.
    """
    if largest is None or largest >= len(y):
        return run(x, y)
    parts = [(run(a, b), len(b) / len(y)) for a, b in zip(cut(x, largest), cut(y, largest), strict=True)]
    passes, shares = zip(*parts, strict=True)
    first: Pass = passes[0]
    return Pass(
        logits=torch.cat([part.logits for part in passes], samples_axis),
        hidden=[torch.cat(states, samples_axis) for states in zip(*(part.hidden for part in passes), strict=True)],
        gradients=[
            torch.cat([g * share for g, share in zip(gradients, shares, strict=True)], samples_axis)
            for gradients in zip(*(part.gradients for part in passes), strict=True)
        ],
        logit_gradient=torch.cat([part.logit_gradient * share for part, share in parts], samples_axis),
        names=first.names,
        custom_functions=first.custom_functions,
    )


def cut(tensor: Tensor, largest: int) -> list[Tensor]:
    """The tensor in pieces of at most ``largest`` samples."""
    return [tensor[at : at + largest] for at in range(0, len(tensor), largest)]
