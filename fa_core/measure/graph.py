"""What autograd's graph says of a forward pass: its arithmetic, its own backward functions, and a final norm at h_L."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction

_COPYING = "Alias Clone Permute ReshapeAlias Select Slice Squeeze T ToCopy Transpose UnsafeView Unsqueeze View"
SELECTIONS = {"SqueezeBackward1", *(f"{name}Backward0" for name in _COPYING.split())}
"""Autograd nodes that copy or pick entries: their Jacobian's rows are rows of the identity."""
_NORM = re.compile(r"(layer|rms|group)_?norm", re.IGNORECASE)
_ROOT = re.compile(r"Rsqrt|Sqrt|Std|VectorNorm|^Norm|Reciprocal")
_LOOKUP = re.compile(r"Embedding|Index|Gather")
_CONSTANT_STEPS = "Add Clamp ClampMin Div Expand Mul Sub"
_AFFINE = SELECTIONS | {f"{name}Backward{n}" for name in _CONSTANT_STEPS.split() for n in (0, 1)}


def follows_norm(nodes: Sequence[Any]) -> bool:
    """Whether h_L is what a norm gave and not every state before it is: the final norm, not a post-norm block.

    It does not change when the last block's output is scaled, so that neither (a) nor (b) sees that block. With
    L ≤ 1 no state shows which of the two it is; then it counts as the final norm.

    Args:
        nodes: where h_0..h_L are in the graph; None for one that is not in it. h_0 may be normed in either case.
    """
    *between, last = nodes[1:] or nodes
    return _is_normed(last) and not (between and all(map(_is_normed, between)))


def _is_normed(node: Any) -> bool:
    """Whether a tensor is a norm of another one: torch's, or spelled out as x·rsqrt(…), x/√(…) or x·(…)^−½."""
    node = origin(node, _AFFINE)
    if node is not None and node.name() in ("MulBackward0", "DivBackward0"):
        return any(_is_root(origin(source, _AFFINE)) for source in _sources(node))
    # an instance norm is a batch norm in training mode, of one sample at a time
    return node is not None and bool(
        _NORM.search(node.name()) or getattr(node, "_saved_training", False)
    )


def _is_root(node: Any) -> bool:
    exponent = getattr(node, "_saved_exponent", None)
    return bool(_ROOT.search(node.name())) or (isinstance(exponent, float) and abs(exponent) == 0.5)


def origin(node: Any, steps: Container[str], known: Container[Any] = ()) -> Any:
    """Back along nodes of these names that have one source, to the first that is known or has another name."""
    while (
        node is not None
        and node not in known
        and node.name() in steps
        and len(sources := _sources(node)) == 1
    ):
        node = sources[0]
    return node


def _sources(node: Any) -> list[Any]:
    """Where a node's inputs come from; what is computed from parameters alone is left out."""
    found = [source for source, _ in node.next_functions if source and not _is_parameter(source)]
    return [source for source in found if _reads_data(source)] if len(found) > 1 else found


def _is_parameter(node: Any) -> bool:
    return "AccumulateGrad" in node.name() and isinstance(node.variable, nn.Parameter)


def _reads_data(node: Any) -> bool:
    """Whether a tensor depends on the network's input: through another leaf than a parameter, or a look-up."""
    seen, waiting = set(), [node]
    while waiting:
        node = waiting.pop()
        if _LOOKUP.search(node.name()) or (
            "AccumulateGrad" in node.name() and not _is_parameter(node)
        ):
            return True
        seen.add(node)
        waiting += [source for source, _ in node.next_functions if source and source not in seen]
    return False


def unlinked(logits: Any, cuts: Sequence[Sequence[Any]]) -> tuple[list[int], list[int]]:
    """Where taps are no stream, in which h_{l+1} is computed from h_l, and from no earlier state but through it.

    Args:
        logits: their node.
        cuts: of every state its node, and the nodes of what its module gave beside it.

    Returns:
        (every l whose next state does not read h_l, every l ≥ 1 past which the next state, the logits
        for l = L, reads h_{l−1}).

    >>> h_0 = torch.ones(1, requires_grad=True).clone()
    >>> branch = h_0.exp()
    >>> logits = h_0 + branch
    >>> unlinked(logits.grad_fn, [[h_0.grad_fn], [branch.grad_fn]])
    ([], [1])
    """
    unread, past = [], []
    targets = [cut[0] for cut in cuts[1:]] + [logits]
    for l, target in enumerate(targets):
        before = cuts[l - 1] if l else []
        met = _met(target, cuts[l], before)
        if not met.intersection(cuts[l]):
            unread.append(l)
        if met.intersection(before).difference(cuts[l]):
            past.append(l)
    return unread, past


def _met(node: Any, *ends: Sequence[Any]) -> set[Any]:
    """The nodes among `ends` that are met on the way back from a node, none of them passed."""
    stops = {one for end in ends for one in end}
    seen: set[Any] = set()
    waiting = [node]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node not in stops:
            waiting += [source for source, _ in node.next_functions]
    return seen & stops


_OPERATOR = "GeneratedBackwardFor_"
"""How torch names the derivative that `torch.library` was given for an operator."""


def custom_functions(nodes: Iterable[Any]) -> list[str]:
    """Names of the custom `torch.autograd.Function`s and operators in a graph, sorted; torch's own left out.

    Feedback alignment is often written as a Function whose backward multiplies by a fixed random matrix.
    Autograd through such a network gives the method's credit signal where the BP gradient is wanted:
    Γ would read 1, and (b) and (c) would judge the wrong vector.

    >>> import torch
    >>> class Feedback(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return 2 * x
    ...
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         return -g
    >>> custom_functions(graph_nodes(Feedback.apply(torch.ones(1, requires_grad=True)) + 1))
    ['Feedback']
    """
    functions = {node._forward_cls for node in backward_functions(nodes)}
    own = {
        f.__name__
        for f in functions
        if f.__module__.split(".")[0] != "torch" or f.__name__.startswith(_OPERATOR)
    }
    return sorted(name.removeprefix(_OPERATOR) for name in own)


_STRAIGHT_THROUGH = re.compile("FakeQuantize|FqHelper")


def straight_through(nodes: Iterable[Any]) -> list[str]:
    """``["fake_quantize"]`` where a graph holds torch's operations that round and let the gradient through.

    >>> import torch
    >>> x = torch.ones(1, requires_grad=True)
    >>> straight_through(graph_nodes(torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127)))
    ['fake_quantize']
    """
    found = any(_STRAIGHT_THROUGH.search(node.name()) for node in nodes)
    return ["fake_quantize"] if found else []


def node_of(tensor: Any) -> Any:
    """Where a tensor is in the graph, asked so that no mode around the forward pass notices."""
    with torch._C.DisableTorchFunction():
        return getattr(tensor, "grad_fn", None)


def backward_functions(nodes: Iterable[Any]) -> list[Any]:
    """The nodes that a Python `torch.autograd.Function` made, torch's own among them."""
    return [node for node in nodes if isinstance(node, BackwardCFunction)]


def graph_nodes(output: Tensor) -> set[Any]:
    """All nodes in the graph of a tensor."""
    seen: set[Any] = set()
    waiting: list[Any] = [output.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting += [source for source, _ in node.next_functions]
    return seen


def arithmetic(logits: Tensor, nodes: Iterable[Any], dtypes: Iterable[torch.dtype] = ()) -> str:
    """The dtype of the logits, and those of operations on the way to them: what an autocast inside the network does.

    `dtypes` are others that were seen on the way.

    >>> x = torch.ones(1, requires_grad=True)
    >>> y = x.bfloat16().exp().float()
    >>> arithmetic(y, graph_nodes(y)), arithmetic(x, graph_nodes(x))
    ('float32, bfloat16 inside', 'float32')
    """
    operations = [
        node
        for node in nodes
        if node.name() not in SELECTIONS and "AccumulateGrad" not in node.name()
    ]
    found = {meta.dtype for node in operations for meta in getattr(node, "_input_metadata", ())}
    ours, *others = (
        str(d).removeprefix("torch.")
        for d in (logits.dtype, *sorted({*found, *dtypes} - {logits.dtype}, key=str))
        if d.is_floating_point
    )
    return f"{ours}, {' and '.join(others)} inside" if others else ours
