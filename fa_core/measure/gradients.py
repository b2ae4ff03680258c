"""One pass of a batch: its backward, its results, and passes over parts joined to one."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.autograd.graph import GradientEdge

from fa_core.errors import MeasureError, TapError
from fa_core.measure.batch_input import IGNORED
from fa_core.measure.graph import is_selection
from fa_core.measure.isolate import Inputs, InputsT, first_of, select_samples, to_float64
from fa_core.measure.loss import CE, CrossEntropy, Loss
from fa_core.measure.norms import Signal, by_position, each, positions, vector_norms
from fa_core.measure.stream import Stream
from fa_core.zoo.methods.base import output_error

_BY_INDEX = re.compile(
    "(Index|IndexSelect|Gather|MaskedSelect|Flip|Roll|Sort|Topk|Unfold)Backward0"
)
"""Names of such nodes that select or order by places."""

_LARGEST_ERROR = 2**24
"""Entries of e_T computed at a time for one e_T per token: 128 MB in float64."""

Layers: TypeAlias = Sequence[int] | None
"""Which l of h_l; None = all."""

LayerOf: TypeAlias = Callable[[int], int]
"""Number of states → the layer of (c)."""


@dataclass(frozen=True)
class Pass:
    """The results of one batch.

    Attributes:
        logits: (B, C), or (B, T, C), outside the graph.
        hidden: h_0..h_L, outside the graph, in the network's own shapes.
        gradients: g_l at the requested layers, same shapes.
        error: e_T as `fa_core.measure.gradients.loss_gradient` gives it, (B, C) or (B, T, 1), in
            float64.
        names: names of h_0..h_L.
        dtype: the arithmetic of the pass; with all layers requested, also inside the network.
        own_backward: names of the network's custom backward functions, if autograd's vector is not
            the gradient.
        credit: the method's credit in that case, shaped as h_l; None where it is not proven. Only
            of a pass to all layers.
        no_credit: why there is none, or none at some layers; "" if all layers have credit.
        gradient_unknown: why the gradient is unknown and `gradients` holds autograd's vector; "" if
            it is known.
        of_mean_error: `mean_error_gradient` at the layer of (c), where that was asked for.
        label_mask: (B, T) bool, the labels that are not ignored; None for labels (B,).
        at_head: shaped as the states with tokens, and not 0 where the head reads the last of them:
            g_L, or where h_L is one token, `read_by`.
    """

    logits: Tensor
    hidden: list[Tensor]
    gradients: list[Tensor]
    at_head: Tensor
    error: Tensor
    names: list[str]
    of_mean_error: Tensor | None
    label_mask: Tensor | None
    dtype: str = ""
    own_backward: Sequence[str] = ()
    credit: Signal = ()
    no_credit: str = ""
    gradient_unknown: str = ""


def loss_terms(y: Tensor) -> int:
    """Number of labels the loss averages over: B, or those of (B, T) that are not ignored."""
    if y.dim() == 1:
        return len(y)
    return int((y != IGNORED).sum())


def loss_gradient(logits: Tensor, y: Tensor, loss: Loss = CE) -> tuple[Tensor, Tensor]:
    """e_T/N, the loss's gradient by the logits, rounded once to their dtype, and e_T; both 0 for
    ignored labels.

    Args:
        logits: (B, C) for labels (B,), or (B, T, C) for labels (B, T).
        y: class indices; N of them are not ignored (`loss_terms`).
        loss: of a sample; the batch has the mean of the N.

    Returns:
        e_T/N, shaped like the logits, and e_T in float64: (B, C), or for labels (B, T) only its
        norm, (B, T, 1).

    Raises:
        MeasureError: labels (B, T) and another loss than CE.

    Source: docs/protocol.md §2.
    """
    terms = max(1, loss_terms(y))
    if y.dim() == 1:
        error = loss.error(logits, y)
        return (error / terms).to(logits), error
    if not isinstance(loss, CrossEntropy):
        raise MeasureError(
            f"the loss {loss.name} and labels of shape {tuple(y.shape)}",
            hint="labels per token or pixel are measured with cross entropy alone",
        )
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
    stream: Stream,
    y: Tensor,
    layers: Layers,
    keep_graph: bool,
    loss: Loss,
) -> tuple[list[Tensor], Tensor]:
    """g_l = ∂loss/∂h_l at some layers, and e_T, from one backward pass.

    The loss is averaged over the labels: the pass starts from `loss_gradient`. Parameters get no
    gradient.

    Args:
        stream: a forward pass.
        y: (B,) class indices, or (B, T) with ignored ones.
        layers: which l; None = all.
        keep_graph: whether another backward pass follows.
        loss: of a sample.

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
    start, error = loss_gradient(logits, y, loss)
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
                "nothing without a derivative, as .detach() or an int8 kernel, may lie behind it",
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
    state through its copying and slicing nodes to the first tensor h with a gradient g = ∂loss/∂h;
    the gradient at the state is S·g. The nodes compute Sᵀv, which is linear in v, so S·g is the
    derivative of gᵀSᵀv by v.
    """
    v = torch.zeros_like(state).requires_grad_()
    for adjoint, edge in _selected_from(state, v):
        (gradient,) = torch.autograd.grad(
            logits, [edge], start, allow_unused=True, retain_graph=True
        )
        if gradient is not None:
            return torch.autograd.grad(adjoint, v, gradient)[0]
    return None


def _selected_from(state: Tensor, adjoint: Tensor) -> Iterator[tuple[Tensor, GradientEdge]]:
    """The tensors that a state S·h is selected from, the nearest first, each with Sᵀv."""
    node, place = state.grad_fn, state.output_nr
    while node and (is_selection(node) or _BY_INDEX.fullmatch(node.name())):
        given: list[Tensor | None] = [None] * len(node._input_metadata)
        given[place] = adjoint
        adjoint = node(*given)  # type: ignore[operator]
        source, place = node.next_functions[0]
        if source is None:
            return
        yield _as_real(adjoint), GradientEdge(source, place)
        node = source


def _as_real(tensor: Tensor) -> Tensor:
    """Real and imaginary parts as numbers of their own."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def first_without_positions(hidden: Sequence[Tensor]) -> int:
    """The first state with one token or pixel after one with several; 0 if there is none.

    A pool of (B, d, T) leaves (B, d, 1).
    """
    for l, (before, h) in enumerate(pairwise(hidden), 1):
        is_vector = h.dim() == 3 and h.shape[-1] == 1 < before.shape[-1]
        if positions(before) > 1 and (is_vector or positions(h) == 1):
            return l
    return 0


def read_by(hidden: Sequence[Tensor]) -> Tensor | None:
    """Which entries of a state of several tokens the first state without tokens is.

    The state has the places of the one before: what flips or rolls them lies behind it, and what
    moves them otherwise is refused.

    Args:
        hidden: h_0..h_L, attached to a graph that was not freed.

    Returns:
        Not 0 at these entries, (B, T, d); None if all states have tokens, none has, or it is
        computed from the tokens.

    Raises:
        TapError: what gave the tokens moves or mixes them.

    >>> h = torch.ones(1, 2, 3, requires_grad=True).exp()
    >>> read_by([h, h.exp()[:, 0]])
    tensor([[[1., 1., 1.],
             [0., 0., 0.]]])
    """
    l = first_without_positions(hidden)
    found = None
    selected = [*_selected_from(hidden[l], torch.ones_like(hidden[l]))] if l else []
    for marks, _ in selected:
        is_alike = positions(marks) == positions(hidden[l - 1])
        # else its samples lie along another axis
        if is_alike and bool(marks.flatten(1).any(dim=1).all()):
            found = marks
    if found is not None and not _keeps_places(*selected[-1]):
        raise TapError(
            f"h_{l} is a token of a sequence that {selected[-1][1].node.name()} made of others",
            hint="in its place, tap what the last block gives, before tokens are moved",
        )
    return found


def _keeps_places(marks: Tensor, edge: GradientEdge) -> bool:
    """Whether what an operation gives at marked tokens, (B, T, d), is of these tokens of some
    tensor that it reads, as of a norm or sum; yes if it reads none with tokens."""
    node: Any = edge.node
    if not callable(node) or len(node._input_metadata) > 1:
        return True
    # a norm takes a constant off
    given = node(marks * torch.linspace(1, 2, marks.shape[-1]).to(marks))
    tensors = given if isinstance(given, tuple) else (given,)
    read = [g for g in tensors if g is not None and g.dim() == marks.dim() > 2]
    alike = [g for g in read if g.shape[:-1] == marks.shape[:-1]]
    others = (marks == 0).all(-1)
    is_moved = all(g[others].any() for g in alike)
    # a token that is written over reads none of them
    return not read or (not is_moved and all(map(Tensor.any, alike)))


def selected(state: Tensor) -> list[Tensor]:
    """Which entries of each tensor that a state is selected from it is: not 0 at these."""
    return [marks for marks, _ in _selected_from(state, torch.ones_like(state))]


def selects_features(state: Tensor) -> bool:
    """Whether a state is a slice of another one that leaves out entries of its vectors.

    >>> h = torch.ones(2, 4, requires_grad=True).exp()
    >>> selects_features(h[:, :3]), selects_features(h[:1])
    (True, False)
    """
    for marks in selected(state):
        if marks.dim() == state.dim():
            read = by_position(marks) != 0
            if bool((read.any(-1) & ~read.all(-1)).any()):
                return True
    return False


def part_of_read(state: Tensor, logits: Tensor) -> Tensor | None:
    """Which entries a state is of a tensor of which the logits read others, too; None if of none.

    >>> h = torch.ones(1, 2, 3, requires_grad=True).exp()
    >>> part_of_read(h[:, 0], h[:, :, 0]) is None, part_of_read(h[:, 0], h[:, 0]) is None
    (False, True)
    """
    start = torch.linspace(1, 2, logits.shape[-1]).to(logits).expand_as(logits)
    for marks, edge in _selected_from(state, torch.ones_like(state)):
        others = marks == 0
        if not others.any():
            continue
        (gradient,) = torch.autograd.grad(
            logits, [edge], start, allow_unused=True, retain_graph=True
        )
        if gradient is not None and bool(_as_real(gradient)[others].any()):
            return marks
    return None


def backward(
    stream: Stream,
    y: Tensor,
    layers: Layers = None,
    mean_error_at: LayerOf | None = None,
    loss: Loss = CE,
) -> Pass:
    """Run the backward pass of a forward pass.

    Args:
        stream: the forward pass.
        y: labels, each a class of the logits.
        layers: the layers to give gradients at; None = all.
        mean_error_at: where to give the gradient of the mean error of labels (B,); None = nowhere.
        loss: of a sample.

    Raises:
        TapError: a tap that the logits do not depend on.
    """
    if y.dim() == 2:
        mean_error_at = None
    read = read_by(stream.hidden)
    again = mean_error_at is not None
    gradients, error = activation_gradients(stream, y, layers, again, loss)
    of_mean_error = None
    if mean_error_at is not None:
        layer = mean_error_at(len(stream.hidden))
        # a layer that does not exist is refused where its gradient is read
        if 0 <= layer < len(stream.edges):
            of_mean_error = mean_error_gradient(stream, error, layer)
    return Pass(
        logits=stream.logits.detach(),
        hidden=[h.detach() for h in stream.hidden],
        gradients=gradients,
        at_head=gradients[-1] if read is None else read,
        error=error,
        names=stream.names,
        of_mean_error=of_mean_error,
        label_mask=y != IGNORED if y.dim() == 2 else None,
    )


def microbatches(
    run: Callable[[Inputs, Tensor], Pass], x: Inputs, y: Tensor, largest: int | None
) -> Pass:
    """One batch's pass, joined from passes over its parts.

    In eval mode samples do not depend on each other, so g of a sample in a part of b samples
    is (B/b) times its g in the batch of B. Scaled by b/B, the parts give the batch's
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
        credit = each(partial(torch.mul, other=share), done.credit)
        parts.append(replace(done, gradients=gradients, credit=credit))
    return _joined(parts)


def _joined(parts: list[Pass]) -> Pass:
    """The passes over all parts as one."""
    credits = [part.credit for part in parts]
    (mask,) = _joined_layers([[part.label_mask] for part in parts])
    rows = [
        (part.logits, part.at_head, part.error, *part.hidden, *part.gradients) for part in parts
    ]
    logits, at_head, error, *layers = map(torch.cat, zip(*rows, strict=True))
    states = len(parts[0].hidden)
    return replace(
        parts[0],
        logits=logits,
        hidden=layers[:states],
        gradients=layers[states:],
        at_head=at_head,
        error=error,
        credit=_joined_layers(credits) if all(credits) else [],
        no_credit=next(filter(None, (part.no_credit for part in parts)), ""),
        # the mean error of the batch is known after its parts only
        of_mean_error=None,
        label_mask=mask,
    )


def _joined_layers(parts: Sequence[Signal]) -> list[Tensor | None]:
    """The vectors of all samples; a layer has none where one of the parts has none."""
    joined: list[Tensor | None] = []
    for layer in zip(*parts, strict=True):
        known = [a for a in layer if a is not None]
        joined.append(torch.cat(known) if len(known) == len(parts) else None)
    return joined


def cut(x: InputsT, largest: int) -> list[InputsT]:
    """Split inputs into pieces of at most ``largest`` samples."""
    starts = range(0, len(first_of(x)), largest)
    return [select_samples(x, slice(start, start + largest)) for start in starts]
