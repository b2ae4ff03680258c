"""What autograd recorded of a forward pass, and the hooks that it hides.

Feedback alignment is often written as a
`torch.autograd.Function` whose backward multiplies by a fixed random matrix, as a backward hook, or
with `.detach()`: autograd then gives the method's credit signal, not ∂CE/∂h_l.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from types import FrameType, GetSetDescriptorType
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.autograd.function import BackwardCFunction
from torch.autograd.graph import Node
from torch.nn.modules import module as of_all
from torch.overrides import TorchFunctionMode

from fa_core.measure.flow import ROOT, recording
from fa_core.measure.hooks import Args, Kwargs
from fa_core.measure.isolate import dtype_name

_SELECTIONS = re.compile(
    "(Alias|AsStrided|Clone|Permute|ReshapeAlias|Select|Slice|Split|SplitWithSizes|Squeeze|T|ToCopy|"
    "Transpose|Unbind|UnsafeSplit|UnsafeView|Unsqueeze|ViewAsComplex|ViewAsReal|View)Backward0"
    "(_copy)?|SqueezeBackward1(_copy)?"
)
"""Names of nodes that copy or select entries: rows of their Jacobian are rows of the identity."""

_OPERATOR = "GeneratedBackwardFor_"
"""Prefix of torch's name for a derivative registered with `torch.library`."""

_LEAVING = {"__array__", "__dlpack__", "numpy", "tolist"}
"""Functions that read a tensor outside of torch by no operation; ``item`` is one."""

NODE_HOOK = "node hook"
"""Reported if a forward reads a node of the graph: it may register a hook there."""

# of torch 2.8 on
_saving = getattr(torch._C._autograd, "_top_saved_tensors_default_hooks", lambda _: None)

# at run time a descriptor; a mode receives its getter
_GRAD_FN = cast(GetSetDescriptorType, Tensor.grad_fn)


def is_selection(node: Node) -> bool:
    """Whether a node copies or selects entries."""
    return bool(_SELECTIONS.fullmatch(node.name()))


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
    while source is not None and is_selection(source) and node in met:
        source = source.next_functions[0][0]
        if source in met:
            return True
    return False


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
    for function in _functions(nodes):
        name = function.__name__
        if function.__module__.split(".")[0] != "torch" or name.startswith(_OPERATOR):
            names.add(name.removeprefix(_OPERATOR))
    return sorted(names)


def _functions(nodes: Iterable[Node]) -> list[type]:
    made: list[Any] = [node for node in nodes if isinstance(node, BackwardCFunction)]
    return [node._forward_cls for node in made]


def has_functions(nodes: Iterable[Node]) -> bool:
    """Whether a Python `torch.autograd.Function` made one of the nodes.

    It may be torch's own, which can hide another one inside; those of `torch.distributed` hide
    none.
    """
    own = "torch.distributed."
    return not all(function.__module__.startswith(own) for function in _functions(nodes))


def arithmetic(logits: Tensor, nodes: Iterable[Node]) -> str:
    """Dtype of the logits, and other dtypes inside the network, e.g. of an autocast.

    Args:
        logits: logits of the pass.
        nodes: nodes of their graph.

    >>> x = torch.ones(1, requires_grad=True)
    >>> y = x.bfloat16().exp().float()
    >>> arithmetic(y, reachable(y.grad_fn)), arithmetic(x, [])
    ('float32, bfloat16 inside', 'float32')
    """
    found: set[torch.dtype] = set()
    for node in nodes:
        if not is_selection(node) and "AccumulateGrad" not in node.name():
            found.update(meta.dtype for meta in getattr(node, "_input_metadata", ()))
    others = [dtype_name(dtype) for dtype in found - {logits.dtype} if dtype.is_floating_point]
    name = dtype_name(logits.dtype)
    if others:
        name += f", {' and '.join(sorted(others))} inside"
    return name


class HookRecorder(TorchFunctionMode):
    """Records what a forward pass does that no operation of torch shows.

    Custom Functions and backward hooks of modules are found elsewhere (`custom_functions`,
    `backward_hooks`); what torch's own sharding does around a module is not recorded.

    Attributes:
        hooks: kinds of hooks on tensors or nodes of the graph, or on what is saved for the backward
            pass, but torch's own; keys of a dict, in order.
        read: functions that read a tensor outside of torch → whether one was a float computed from
            the input, which `Flow` then loses.
    """

    def __init__(self) -> None:
        super().__init__()
        self.hooks: dict[str, None] = {}
        self.read: dict[str, bool] = {}

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: object,
        args: Args = (),
        kwargs: Kwargs | None = None,
    ) -> object:
        if (kept := _saving(True)) and kept[1].__module__.split(".")[0] not in ("torch", "fa_core"):
            self.hooks["saved tensors hook"] = None
        if func is Tensor.register_hook and not _is_of_sharding():
            self.hooks["tensor hook"] = None
        elif func.__name__ in _LEAVING:
            name, flow = f".{func.__name__.strip('_')}()", recording()
            is_data = flow is not None and any(
                isinstance(one, Tensor) and one.is_floating_point() and flow.made(one) != ROOT
                for one in args
            )
            self.read[name] = is_data or self.read.get(name, False)
        output = func(*args, **kwargs or {})
        if func == _GRAD_FN.__get__ and output is not None and not _is_of_sharding():
            self.hooks[NODE_HOOK] = None
        return output


def _is_of_sharding() -> bool:
    """Whether `torch.distributed` called the operation that a mode receives.

    FSDP2 and tensor parallelism hook tensors around a module's forward; their backward is the
    derivative.
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


def backward_hooks(model: nn.Module) -> list[str]:
    """``["backward hook"]`` if a module has one, or a global one is registered; else []."""
    found: list[object] = [of_all._global_backward_hooks, of_all._global_backward_pre_hooks]
    for module in model.modules():
        found += [module._backward_hooks, module._backward_pre_hooks]
    return ["backward hook"] if any(found) else []
