"""Facts read off autograd's graph of a forward pass.

These are its arithmetic, custom backward functions, a final norm at h_L, and taps that are not a
stream.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Sequence
from typing import Protocol, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import Node

SELECTIONS = {
    "SqueezeBackward1",
    "AliasBackward0",
    "CloneBackward0",
    "PermuteBackward0",
    "ReshapeAliasBackward0",
    "SelectBackward0",
    "SliceBackward0",
    "SqueezeBackward0",
    "TBackward0",
    "ToCopyBackward0",
    "TransposeBackward0",
    "UnsafeViewBackward0",
    "UnsqueezeBackward0",
    "ViewBackward0",
}
"""Autograd nodes that copy or select entries: rows of their Jacobian are rows of the identity."""

_AFFINE = re.compile("(Add|Clamp|ClampMin|Div|Expand|Mul|Sub)Backward[01]")
_NORM = re.compile(r"(layer|rms|group)_?norm", re.IGNORECASE)
_ROOT = re.compile(r"Rsqrt|Sqrt|Std|VectorNorm|^Norm|Reciprocal")
_LOOKUP = re.compile(r"Embedding|Index|Gather")
_STRAIGHT_THROUGH = re.compile("FakeQuantize|FqHelper")

_OPERATOR = "GeneratedBackwardFor_"
"""Prefix of torch's name for a derivative registered with `torch.library`."""


class _Leaf(Protocol):
    """The node of a leaf of the graph."""

    variable: Tensor


def node_of(output: object) -> Node | None:
    """Node of an output in the graph, read unseen by any mode around the forward pass."""
    with torch._C.DisableTorchFunction():
        if isinstance(output, Tensor):
            return output.grad_fn
    return None


def reachable(start: Node | None, stops: Container[Node] = ()) -> set[Node]:
    """All nodes from a node backwards, itself included; the search ends at `stops`."""
    seen: set[Node] = set()
    waiting = [start]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node not in stops:
            waiting += [source for source, _ in node.next_functions]
    return seen


def follows_norm(nodes: Sequence[Node | None]) -> bool:
    """Whether h_L is the output of a final norm rather than of a post-norm block.

    A final norm hides the scale of the last block's output from (a) and (b). With post-norm blocks
    every state but perhaps h_0 is normed. With L ≤ 1 no state separates the two, and the norm
    counts as final.

    Args:
        nodes: nodes of h_0..h_L; None for a state outside the graph.
    """
    if not _is_normed(nodes[-1]):
        return False
    between = nodes[1:-1]
    return not between or not all(map(_is_normed, between))


def _is_normed(node: Node | None) -> bool:
    """Whether a node is a norm of torch, or x·rsqrt(…), x/√(…) or x·(…)^−½ spelled out."""
    node = _before_affine(node)
    if node is None:
        return False
    if node.name() in ("MulBackward0", "DivBackward0"):
        return any(_is_root(_before_affine(source)) for source in _data_sources(node))
    # an instance norm is a batch norm in training mode, one sample at a time
    return bool(_NORM.search(node.name())) or getattr(node, "_saved_training", False)


def _is_root(node: Node | None) -> bool:
    if node is None:
        return False
    exponent = getattr(node, "_saved_exponent", None)
    if isinstance(exponent, float) and abs(exponent) == 0.5:
        return True
    return bool(_ROOT.search(node.name()))


def _before_affine(node: Node | None) -> Node | None:
    """The first node before gains, shifts and copies."""
    while node is not None and (node.name() in SELECTIONS or _AFFINE.fullmatch(node.name())):
        sources = _data_sources(node)
        if len(sources) != 1:
            break
        node = sources[0]
    return node


def origin(node: Node | None, known: Container[Node]) -> Node | None:
    """Walk back through copies and selections, to the first known or other node."""
    while node is not None and node not in known and node.name() in SELECTIONS:
        node = node.next_functions[0][0]
    return node


def _data_sources(node: Node) -> list[Node]:
    """Nodes of a node's inputs, without those computed from parameters alone."""
    found = []
    for source, _ in node.next_functions:
        if source is not None and not _is_parameter(source):
            found.append(source)
    if len(found) > 1:
        return [source for source in found if any(map(_reads_data, reachable(source)))]
    return found


def _is_parameter(node: Node) -> bool:
    return _is_leaf(node) and isinstance(cast(_Leaf, node).variable, nn.Parameter)


def _is_leaf(node: Node) -> bool:
    return "AccumulateGrad" in node.name()


def _reads_data(node: Node) -> bool:
    """Whether a node reads the network's input: it is a look-up, or a leaf but no parameter."""
    if _is_leaf(node):
        return not _is_parameter(node)
    return bool(_LOOKUP.search(node.name()))


def unlinked(logits: Node | None, cuts: Sequence[Sequence[Node]]) -> tuple[list[int], list[int]]:
    """Layers at which taps are not a stream, in which h_{l+1} depends on h_l and on earlier states
    only through it.

    Args:
        logits: node of the logits.
        cuts: for every state its node, and the nodes of the module's other outputs.

    Returns:
        (every l whose next state does not depend on h_l, every l ≥ 1 whose next state, the logits
        for l = L, depends on h_{l−1} past h_l).

    >>> h_0 = torch.ones(1, requires_grad=True).clone()
    >>> branch = h_0.exp()
    >>> logits = h_0 + branch
    >>> unlinked(logits.grad_fn, [[h_0.grad_fn], [branch.grad_fn]])
    ([], [1])
    """
    unread = []
    passed = []
    before: set[Node] = set()
    targets = [*(cut[0] for cut in cuts[1:]), logits]
    for l, target in enumerate(targets):
        here = set(cuts[l])
        met = reachable(target, here | before)
        if not met & here:
            unread.append(l)
        if met & before - here:
            passed.append(l)
        before = here
    return unread, passed


def custom_functions(nodes: Iterable[Node]) -> list[str]:
    """Sorted names of custom `torch.autograd.Function`s and operators in a graph.

    Feedback alignment is often written as a Function whose backward multiplies by a fixed random
    matrix. Autograd then gives the method's credit signal instead of the BP gradient: Γ would read
    1, and (b) and (c) would judge the wrong vector.

    >>> import torch
    >>> class Feedback(torch.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         return 2 * x
    ...
    ...     @staticmethod
    ...     def backward(ctx, g):
    ...         return -g
    >>> output = Feedback.apply(torch.ones(1, requires_grad=True)) + 1
    >>> custom_functions(reachable(output.grad_fn))
    ['Feedback']
    """
    names: set[str] = set()
    for node in nodes:
        if not isinstance(node, BackwardCFunction):
            continue
        function = node._forward_cls
        name = function.__name__
        if function.__module__.split(".")[0] != "torch" or name.startswith(_OPERATOR):
            names.add(name.removeprefix(_OPERATOR))
    return sorted(names)


def has_functions(nodes: Iterable[Node]) -> bool:
    """Whether a Python `torch.autograd.Function` made one of the nodes.

    It may be torch's own, which can hide another one inside; those of `torch.distributed` hide
    none.
    """
    for node in nodes:
        if not isinstance(node, BackwardCFunction):
            continue
        if not node._forward_cls.__module__.startswith("torch.distributed."):
            return True
    return False


def straight_through(nodes: Iterable[Node]) -> list[str]:
    """``["fake_quantize"]`` if torch's operations that round but pass the gradient are used.

    >>> import torch
    >>> x = torch.ones(1, requires_grad=True)
    >>> rounded = torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127)
    >>> straight_through(reachable(rounded.grad_fn))
    ['fake_quantize']
    """
    if any(_STRAIGHT_THROUGH.search(node.name()) for node in nodes):
        return ["fake_quantize"]
    return []


def arithmetic(logits: Tensor, nodes: Iterable[Node] = ()) -> str:
    """Dtype of the logits, and other dtypes inside the network, e.g. of an autocast.

    Args:
        logits: logits of the pass.
        nodes: nodes of their graph.

    >>> x = torch.ones(1, requires_grad=True)
    >>> y = x.bfloat16().exp().float()
    >>> arithmetic(y, reachable(y.grad_fn)), arithmetic(x)
    ('float32, bfloat16 inside', 'float32')
    """
    found: set[torch.dtype] = set()
    for node in nodes:
        if node.name() not in SELECTIONS and not _is_leaf(node):
            found.update(meta.dtype for meta in getattr(node, "_input_metadata", ()))
    others = [_name(dtype) for dtype in found - {logits.dtype} if dtype.is_floating_point]
    name = _name(logits.dtype)
    if others:
        name += f", {' and '.join(sorted(others))} inside"
    return name


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
