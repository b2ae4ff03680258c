"""One forward pass with its residual stream tapped, and the gradients at the taps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.graph import GradientEdge

from fa_core.errors import TapError

_SELECTIONS = frozenset(
    {
        "AliasBackward0",
        "CloneBackward0",
        "PermuteBackward0",
        "ReshapeAliasBackward0",
        "SelectBackward0",
        "SliceBackward0",
        "SqueezeBackward0",
        "SqueezeBackward1",
        "TBackward0",
        "ToCopyBackward0",
        "TransposeBackward0",
        "UnsafeViewBackward0",
        "UnsqueezeBackward0",
        "ViewBackward0",
    }
)
"""Autograd nodes that copy or pick entries: their Jacobian's rows are rows of the identity."""


@dataclass(frozen=True)
class Stream:
    """What one forward pass gave.

    Attributes:
        logits: (B, C), attached to the graph.
        hidden: h_0..h_L as the network made them, each (B, ...).
        edges: where in the graph to read g_l: a state itself, or its place; None for layers that were not asked for.
        names: names of h_0..h_L.
        returned: the network handed the states over itself, so that they may be side branches.
    """

    logits: Tensor
    hidden: list[Tensor]
    edges: Sequence[Tensor | GradientEdge | None]
    names: list[str]
    returned: bool = False


def batch_mean_ce(logits: Tensor, y: Tensor) -> Tensor:
    """CE averaged over the batch, −(1/B)·Σ_i log softmax(logits_i)[y_i]; half-precision logits in float32.

    Args:
        logits: (B, C).
        y: (B,) class indices.

    Returns:
        A scalar in nats.

    >>> round(batch_mean_ce(torch.zeros(3, 4), torch.tensor([0, 1, 2])).item(), 6)
    1.386294
    """
    wide_enough = logits if logits.dtype in (torch.float32, torch.float64) else logits.float()
    return F.cross_entropy(wide_enough, y)


def activation_gradients(
    stream: Stream,
    y: Tensor,
    layers: Sequence[int] | None = None,
    loss_of: Callable[[Tensor, Tensor], Tensor] = batch_mean_ce,
) -> tuple[list[Tensor], Tensor]:
    """g_l = ∂CE/∂h_l at the asked layers, and ∂CE/∂logits, from one backward pass.

    CE is averaged over the batch, so a sample's gradient carries 1/B. Parameters get no gradient.

    Args:
        stream: a forward pass.
        y: (B,) class indices.
        layers: which l; None = all.
        loss_of: (logits, y) → CE.

    Returns:
        ([g_l, each shaped like h_l], ∂CE/∂logits (B, C) = e_T/B).

    Raises:
        TapError: a tap that the logits do not depend on.

    Source: PROTOCOL §2.
    """
    chosen = range(len(stream.edges)) if layers is None else layers
    edges = [edge for edge in (stream.edges[l] for l in chosen) if edge is not None]
    loss = loss_of(stream.logits, y)
    # a side branch is only known by its missing gradient; finding its source takes the graph once more
    inputs: Any = [stream.logits, *edges]
    found = torch.autograd.grad(loss, inputs, allow_unused=True, retain_graph=stream.returned)
    gradients = []
    for layer, gradient in zip(chosen, found[1:], strict=True):
        if gradient is None and stream.returned:
            gradient = _side_branch_gradient(loss, stream.hidden[layer])
        if gradient is None:
            raise TapError(
                f"the logits do not depend on tap {layer} ({stream.names[layer]})",
                hint="tap the tensor that the next block reads, not a by-product of it",
            )
        gradients.append(gradient)
    return gradients, found[0]


def _side_branch_gradient(loss: Tensor, state: Tensor) -> Tensor | None:
    """The gradient at the stream entries that a returned copy, view or slice shows.

    The state is S·h for a selection S, and the logits depend on h only. Walking back from the state
    through its copying and slicing nodes to the first tensor with a gradient g = ∂CE/∂h, the wanted
    gradient is S·g. The nodes compute Sᵀv, which is linear in v, so S·g is its derivative against g.
    """
    node: Any = state.grad_fn
    v = torch.zeros_like(state).requires_grad_()
    adjoint: Tensor = v
    while node is not None and node.name() in _SELECTIONS:
        adjoint = node(adjoint)
        source, output = node.next_functions[0]
        if source is None:
            return None
        (gradient,) = torch.autograd.grad(loss, [GradientEdge(source, output)], allow_unused=True, retain_graph=True)
        if gradient is not None:
            return torch.autograd.grad(adjoint, v, gradient)[0]
        node = source
    return None
