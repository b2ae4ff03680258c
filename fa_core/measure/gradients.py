"""Gradients at the hidden states of a forward pass, from one backward pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge, Node

from fa_core.errors import TapError
from fa_core.measure.graph import SELECTIONS
from fa_core.measure.isolate import to_float64
from fa_core.measure.norms import vector_norms
from fa_core.methods.base import output_error

IGNORED = -100
"""Labels (B, T) of this value are ignored, as by `torch.nn.functional.cross_entropy`."""

_LARGEST_ERROR = 2**24
"""Entries of e_T computed at a time for one e_T per token: 128 MB in float64."""

Layers: TypeAlias = Sequence[int] | None
"""Which l of h_l; None = all."""


@dataclass(frozen=True)
class Stream:
    """The results of one forward pass.

    Attributes:
        logits: (B, C), attached to the graph.
        hidden: h_0..h_L in the network's own shapes, each (B, ...).
        edges: the state or graph edge at which to read g_l; None for layers not requested.
        names: names of h_0..h_L.
        returned: the network returned the states itself: they may be side branches.
        cuts: nodes of every state (see `fa_core.measure.graph.unlinked`).
    """

    logits: Tensor
    hidden: list[Tensor]
    edges: Sequence[Tensor | GradientEdge | None]
    names: list[str]
    returned: bool = False
    cuts: Sequence[Sequence[Node]] = ()


def loss_terms(y: Tensor) -> int:
    """Number of labels CE averages over: B, or those of (B, T) that are not ignored."""
    if y.dim() == 1:
        return len(y)
    return int((y != IGNORED).sum())


def loss_gradient(logits: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """∂CE/∂logits = e_T/N, rounded once to the logits' dtype, and e_T; both 0 for ignored labels.

    Args:
        logits: (B, C) for labels (B,), or (B, T, C) for labels (B, T).
        y: class indices; N of them are not ignored (`loss_terms`).

    Returns:
        ∂CE/∂logits, shaped like the logits, and e_T in float64: (B, C), or for labels (B, T) only
        its norm, (B, T, 1).

    Source: docs/protocol.md §2.
    """
    terms = max(1, loss_terms(y))
    if y.dim() == 1:
        error = output_error(to_float64(logits), y)
        return (error / terms).to(logits), error
    rows = logits.detach().flatten(0, 1)
    size = max(1, _LARGEST_ERROR // logits.shape[-1])
    starts = []
    norms = []
    parts = torch.split(rows, size)
    for part, labels in zip(parts, torch.split(y.flatten(), size), strict=True):
        part = to_float64(part)
        counts = (labels != IGNORED).to(part.device)
        error = output_error(part, labels.clamp(min=0))
        error = torch.where(counts[:, None], error, 0.0)
        starts.append((error / terms).to(logits))
        norms.append(vector_norms(error))
    start = torch.cat(starts).view(logits.shape)
    return start, torch.cat(norms).view(*y.shape, 1)


def activation_gradients(
    stream: Stream, y: Tensor, layers: Layers = None, keep_graph: bool = False
) -> tuple[list[Tensor], Tensor]:
    """g_l = ∂CE/∂h_l at some layers, and e_T, from one backward pass.

    CE is averaged over the labels: the pass starts from `loss_gradient`. Parameters get no
    gradient.

    Args:
        stream: a forward pass.
        y: (B,) class indices, or (B, T) with ignored ones.
        layers: which l; None = all.
        keep_graph: whether another backward pass follows.

    Returns:
        ([g_l, each shaped like h_l], e_T as `loss_gradient` gives it).

    Raises:
        TapError: a tap that the logits do not depend on.

    Source: docs/protocol.md §2.
    """
    logits = stream.logits
    if not logits.requires_grad:
        raise TapError(
            "the network's logits carry no gradient",
            hint="its forward must run without .detach(), torch.no_grad() and "
            "torch.inference_mode() after the taps",
        )
    chosen = range(len(stream.edges)) if layers is None else layers
    edges: list[Any] = [stream.edges[l] for l in chosen]
    start, error = loss_gradient(logits, y)
    # a side branch shows by its missing gradient; finding its source needs the graph again
    found = torch.autograd.grad(
        logits, edges, start, allow_unused=True, retain_graph=stream.returned or keep_graph
    )
    gradients = []
    for l, gradient in zip(chosen, found, strict=True):
        if gradient is None and stream.returned:
            gradient = _side_branch_gradient(logits, start, stream.hidden[l])
        if gradient is None:
            raise TapError(
                f"the logits do not depend on tap {l} ({stream.names[l]})",
                hint="tap the tensor that the next block reads, not a by-product of it; "
                "no .detach() may lie behind it",
            )
        gradients.append(gradient)
    return gradients, error


def mean_error_gradient(stream: Stream, error: Tensor, layer: int) -> Tensor | None:
    """What g_l would be if every sample had the batch's mean error ē_T: J_iᵀ·ē_T/B, J_i =
    ∂logits_i/∂h_l,i.

    Args:
        stream: a forward pass whose graph is kept; it is freed.
        error: e_T, (B, C).
        layer: l.

    Returns:
        Shaped like h_l; None for a side branch (`Stream.returned`).

    Source: docs/protocol.md, *What (c) measures*.
    """
    mean = error.mean(dim=-2, keepdim=True).expand_as(error)
    start = (mean / error.shape[-2]).to(stream.logits)
    edges: list[Any] = [stream.edges[layer]]
    return torch.autograd.grad(stream.logits, edges, start, allow_unused=True)[0]


def _side_branch_gradient(logits: Tensor, start: Tensor, state: Tensor) -> Tensor | None:
    """Gradient at a returned state that is a copy, view or slice of the stream.

    The state is S·h for a selection S, and the logits depend on h only. The walk goes back from the
    state through its copying and slicing nodes to the first tensor h with a gradient g = ∂CE/∂h;
    the gradient at the state is S·g. The nodes compute Sᵀv, which is linear in v, so S·g is the
    derivative of gᵀSᵀv by v.
    """
    node = state.grad_fn
    v = torch.zeros_like(state).requires_grad_()
    adjoint: Tensor = v
    while node is not None and node.name() in SELECTIONS:
        adjoint = node(adjoint)  # type: ignore[operator]
        source, output = node.next_functions[0]
        if source is None:
            return None
        edge = GradientEdge(source, output)
        (gradient,) = torch.autograd.grad(
            logits, [edge], start, allow_unused=True, retain_graph=True
        )
        if gradient is not None:
            return torch.autograd.grad(adjoint, v, gradient)[0]
        node = source
    return None
