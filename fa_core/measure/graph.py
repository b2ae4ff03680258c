"""What autograd recorded of a forward pass, and what it did not.

Feedback alignment is often written as a
`torch.autograd.Function` whose backward multiplies by a fixed random matrix, as a backward hook, or
with `.detach()`: autograd then gives the method's credit signal, not ∂CE/∂h_l.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterable
from functools import cache
from types import FrameType, GetSetDescriptorType
from typing import TypeAlias, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import Node
from torch.nn.modules import module as of_all
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from fa_core.measure.hooks import Args, Kwargs

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

_STRAIGHT_THROUGH = re.compile("FakeQuantize|FqHelper")

_OPERATOR = "GeneratedBackwardFor_"
"""Prefix of torch's name for a derivative registered with `torch.library`."""

Operation: TypeAlias = Callable[..., object]
"""A function or method of torch, as a mode receives it."""

_LEAVING = {"__array__", "__dlpack__", "__float__", "__int__", "numpy", "tolist"}
"""Functions that read a tensor outside of torch, unnoticed by a trace.

A trace refuses ``item`` and ``bool`` by itself.
"""

_OF_WEIGHTS = "_computed_from_parameters"
"""Attribute of such tensors: the version that was computed so."""

NODE_HOOK = "node hook"
"""Reported if a forward reads a node of the graph: it may register a hook there."""

# at run time these are descriptors; a mode receives their getters and setters
_DATA = cast(GetSetDescriptorType, Tensor.data)
_GRAD_FN = cast(GetSetDescriptorType, Tensor.grad_fn)
_DETACHING = (Tensor.detach, Tensor.detach_, torch.detach, _DATA.__get__)

_WRITING = re.compile(
    r"(?!__|requires_grad).*[a-z0-9]_|__setitem__|__i(add|sub|mul|truediv|pow|and|or|xor)__"
)
_VALUELESS = re.compile(r".*_like|new_(?!tensor).*")
"""Names of operations that write into their first argument, and of those that read no values."""


def reachable(start: Node | None, stop: Node | None = None) -> set[Node]:
    """All nodes from a node backwards, itself included; the search ends at `stop`."""
    seen: set[Node] = set()
    waiting = [start]
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if node is not stop:
            waiting += [source for source, _ in node.next_functions]
    return seen


def read_in_another_form(state: Tensor, logits: Tensor) -> bool:
    """Whether the logits depend on a state, and past it on the tensor that it is a view of.

    The gradient at the view is then a part of the gradient at the state.

    >>> h = torch.ones(2, 2, requires_grad=True).exp()
    >>> view = h.view(4)
    >>> read_in_another_form(view, view.sum()), read_in_another_form(view, view.sum() + h.sum())
    (False, True)
    """
    node = source = state.grad_fn
    met = reachable(logits.grad_fn, node)
    while source is not None and source.name() in SELECTIONS and node in met:
        source = source.next_functions[0][0]
        if source in met:
            return True
    return False


def _is_leaf(node: Node) -> bool:
    return "AccumulateGrad" in node.name()


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


class LostGradientRecorder(TorchFunctionMode):
    """Records values that lose their gradient in a forward pass, and hooks.

    A value is lost if an operation reads a tensor that requires a gradient, and returns or writes
    numbers that require none: `.detach()`, `.item()`, every operation under `torch.no_grad()`.
    Values of parameters alone do not count. A lost value need not reach the logits (see
    `reaches_logits`). Custom Functions and backward hooks of modules are found elsewhere
    (`custom_functions`, `backward_hooks`). Not recorded: values from
    `torch.autograd.graph.saved_tensors_hooks`, steps inside one compiled operation, and what
    torch's own sharding does around a module (`_is_of_sharding`).

    Args:
        inputs_too: also record values read from a leaf of the graph, or from a copy of a leaf.
        blank: replace lost values by NaN.

    Attributes:
        hooks: kinds of hooks on tensors or nodes of the graph; keys of a dict, in order.
        lost: how values were lost, likewise.
        leaves_torch: a tensor was read outside of torch: a trace may hold values of its batch.
        overwritten: an operation wrote into a lost value that shares memory with its source.
    """

    def __init__(self, inputs_too: bool, blank: bool = False) -> None:
        super().__init__()
        self._inputs_too = inputs_too
        self._blank = blank
        self._shared: set[int] = set()
        self.hooks: dict[str, None] = {}
        self.lost: dict[str, None] = {}
        self.leaves_torch = False
        self.overwritten = False

    def __torch_function__(
        self,
        func: Operation,
        types: object,
        args: Args = (),
        kwargs: Kwargs | None = None,
    ) -> object:
        kwargs = kwargs or {}
        if _is_of_sharding():
            return func(*args, **kwargs)
        if func is Tensor.register_hook:
            self.hooks["tensor hook"] = None
        if func.__name__ in _LEAVING:
            self.leaves_torch = True
        # before the call: afterwards the tensor requires no gradient
        detached = func is Tensor.detach_ and self._requires_grad(args)
        output = func(*args, **kwargs)
        if func == _GRAD_FN.__get__ and output is not None:
            self.hooks[NODE_HOOK] = None
        _mark_weights(output, (args, kwargs))
        written = _written(func, args, kwargs)
        if self._shared and written is not None and storage(written) in self._shared:
            self.overwritten = True
        if not detached and not self._loses(func, args, kwargs, output, written):
            return output
        self.lost[_cause(func)] = None
        given = {storage(tensor) for tensor in _floats(args)}
        self._shared |= given.intersection(map(storage, _floats(output)))
        if not self._blank:
            return output
        return _blanked(output, written)

    def _loses(
        self,
        func: Operation,
        args: Args,
        kwargs: Kwargs,
        output: object,
        written: Tensor | None,
    ) -> bool:
        if func is torch.nn.functional.gumbel_softmax:
            # torch's own straight-through estimate, which detaches inside
            hard = bool(kwargs.get("hard")) or args[2:3] == (True,)
            return hard and self._requires_grad(args)
        if _VALUELESS.fullmatch(func.__name__):
            return False
        # operations that autograd does not record
        unrecorded = func == _DATA.__set__ or not torch.is_grad_enabled()
        numbers = _floats(output)
        if numbers:
            lost = unrecorded or not all(t.requires_grad for t in numbers)
        else:
            has_float = any(isinstance(leaf, float) for leaf in tree_leaves(output))
            lost = has_float or (unrecorded and written is not None)
        return lost and self._requires_grad((args, kwargs))

    def _requires_grad(self, values: object) -> bool:
        """Whether a floating tensor among these, no weight, requires a gradient."""
        for tensor in _floats(values):
            if not tensor.requires_grad or _is_weight(tensor):
                continue
            if self._inputs_too or not _is_input(tensor):
                return True
        return False


def _is_of_sharding() -> bool:
    """Whether `torch.distributed` called the operation that a mode receives.

    FSDP2 and tensor parallelism gather and copy shards under ``no_grad`` and hook tensors around
    a module's forward; their backward is the derivative.
    """
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        package, _, rest = frame.f_globals.get("__name__", "").partition(".")
        if package != "torch" or rest.startswith("nn."):
            return False
        if rest.startswith("distributed."):
            return True
        frame = frame.f_back
    return False


def _is_weight(tensor: Tensor) -> bool:
    """Whether a tensor is a parameter, or marked and not written since."""
    if isinstance(tensor, nn.Parameter):
        return True
    version = getattr(tensor, _OF_WEIGHTS, None)
    return version is not None and version == tensor._version


def _mark_weights(output: object, given: object) -> None:
    """Mark the tensors that an operation computes from parameters alone."""
    read = [leaf for leaf in tree_leaves(given) if isinstance(leaf, Tensor)]
    if read and all(map(_is_weight, read)):
        for tensor in _floats(output):
            if not tensor.is_inference():
                setattr(tensor, _OF_WEIGHTS, tensor._version)


def _floats(values: object) -> list[Tensor]:
    found = []
    # tree_leaves is slow for the most frequent case, a single tensor
    for value in [values] if isinstance(values, Tensor) else tree_leaves(values):
        if isinstance(value, Tensor) and (value.is_floating_point() or value.is_complex()):
            found.append(value)
    return found


def storage(tensor: Tensor) -> int:
    """Where a tensor's numbers lie; its identity for a subclass that wraps others."""
    try:
        return tensor.untyped_storage().data_ptr()
    except RuntimeError:
        return id(tensor)


def _is_input(tensor: Tensor) -> bool:
    """Whether a tensor is a leaf of the graph or a copy of one."""
    node = tensor.grad_fn
    if node is None:
        return True
    return node.name() == "CloneBackward0" and "AccumulateGrad" in str(node.next_functions[0][0])


def _written(func: Operation, args: Args, kwargs: Kwargs) -> Tensor | None:
    """The tensor that an operation writes into; None for most."""
    into = kwargs.get("out")
    if into is None and (func == _DATA.__set__ or _writes(func.__name__)):
        into = args[0]
    return into if isinstance(into, Tensor) else None


@cache
def _writes(name: str) -> bool:
    return bool(_WRITING.fullmatch(name))


def _cause(func: Operation) -> str:
    if func in _DETACHING:
        return ".detach()"
    if not torch.is_grad_enabled():
        return "torch.no_grad()"
    return f".{func.__name__.strip('_')}()"


def _blanked(output: object, written: Tensor | None) -> object:
    """The output with NaN for lost values; a written tensor is filled in place."""
    if written is None:
        return tree_map(_nan, output)
    with torch.no_grad():
        written.fill_(torch.nan)
    return output


def _nan(value: object) -> object:
    if isinstance(value, float):
        return math.nan
    if isinstance(value, Tensor) and _floats(value):
        return torch.full_like(value, torch.nan)
    return value


def backward_hooks(model: nn.Module) -> list[str]:
    """``["backward hook"]`` if a module has one, or a global one is registered; else []."""
    found: list[object] = [of_all._global_backward_hooks, of_all._global_backward_pre_hooks]
    for module in model.modules():
        found += [module._backward_hooks, module._backward_pre_hooks]
    return ["backward hook"] if any(found) else []
