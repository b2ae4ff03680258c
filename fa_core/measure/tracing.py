"""The derivative of what a network's forward computes, where its backward pass is its own.

Feedback alignment is often written as a `torch.autograd.Function` whose backward multiplies by a fixed random matrix,
or as a backward hook. autograd then gives the method's credit signal, not ∂CE/∂h_l.
"""

from __future__ import annotations

import copy
import math
import re
from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.func import functionalize
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.modules import module as of_all
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from fa_core.errors import MeasureError
from fa_core.measure.isolate import Draws, Inputs, each, lent, wide
from fa_core.measure.taps import Stream, Tapped, thawed

_TORCHS = ("aten", "prim", "prims")
"""Whose operators have no derivative but the true one."""

_LEAVING = {"__array__", "__dlpack__", "__float__", "__int__", "numpy", "tolist"}
"""What reads a tensor outside of torch without that tracing sees it; it refuses ``item`` and ``bool`` by itself."""

NODE_HOOK = "node hook"
"""A forward that reads where a tensor is in the graph may hang a hook there."""

_DATA: Any = Tensor.data
_GRAD_FN: Any = Tensor.grad_fn
_DETACHING = (Tensor.detach, Tensor.detach_, torch.detach, _DATA.__get__)

_WRITING = re.compile(r"[a-z0-9]_|__setitem__|__i(add|sub|mul|truediv|pow|and|or|xor)__")
_VALUELESS = re.compile(r".*_like|new_(?!tensor).*")
"""Operations that write into their first argument, and those that read no values, by their names."""


class Noticing(TorchFunctionMode):
    """Around a forward pass: what makes autograd's vector another one than the derivative.

    A value is lost where an operation reads a tensor that carries a gradient, and gives or writes numbers that carry
    none: `.detach()`, `.item()`, every operation under `torch.no_grad()`. A lost value need not reach the logits:
    `reaches_logits` tells. Custom Functions and backward hooks of modules show elsewhere. Not noticed: what
    `torch.autograd.graph.saved_tensors_hooks` returns, and what compiled code does within one operation.

    Args:
        inputs_too: a value counts also where it is read from a leaf of the graph, or a copy of one.
        blank: a lost value goes on as NaN.

    Attributes:
        hooks: names of hooks that tensors or nodes of the graph may have got.
        lost: how values were lost.
        leaves: a tensor was read outside of torch, so that a trace may hold values of its batch.
        overwritten: an operation wrote into a lost value that shares its memory with what it was read from.
    """

    def __init__(self, inputs_too: bool, blank: bool = False) -> None:
        super().__init__()
        self._inputs_too, self._blank = inputs_too, blank
        self._shared: set[int] = set()
        self.hooks: dict[str, None] = {}
        self.lost: dict[str, None] = {}
        self.leaves = False
        self.overwritten = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is Tensor.register_hook:
            self.hooks["tensor hook"] = None
        elif func == _GRAD_FN.__get__:
            self.hooks[NODE_HOOK] = None
        self.leaves = self.leaves or func.__name__ in _LEAVING
        in_place = func is Tensor.detach_ and self._carries(args)
        output = func(*args, **kwargs)
        written = _written(func, args, kwargs)
        if self._shared and written is not None:
            self.overwritten = self.overwritten or _storage(written) in self._shared
        if not (in_place or self._loses(func, args, kwargs, output, written)):
            return output
        self.lost[_cause(func)] = None
        self._shared.update({*map(_storage, _floats(output))} & {*map(_storage, _floats(args))})
        if not self._blank:
            return output
        return _blanked(output, args[0] if in_place else written)

    def _loses(self, func: Any, args: Any, kwargs: Any, output: Any, written: Any) -> bool:
        if func is torch.nn.functional.gumbel_softmax:
            # torch's own straight-through estimate, which detaches inside
            return bool(kwargs.get("hard") or args[2:3] == (True,)) and self._carries(args)
        blind = func == _DATA.__set__ or not torch.is_grad_enabled()
        numbers = _floats(output)
        if numbers and not blind and all(t.requires_grad for t in numbers):
            return False
        if _VALUELESS.fullmatch(func.__name__):
            return False
        gives = numbers or _has_float(output) or (blind and written is not None)
        return bool(gives) and self._carries((args, kwargs))

    def _carries(self, values: Any) -> bool:
        """Whether a floating tensor among these carries a gradient."""
        found = [t for t in _floats(values) if t.requires_grad]
        return bool(found) and (self._inputs_too or not all(map(_is_input, found)))


def _floats(values: Any) -> list[Tensor]:
    if isinstance(values, Tensor):
        return [values] if values.is_floating_point() or values.is_complex() else []
    return [t for v in tree_leaves(values) if isinstance(v, Tensor) for t in _floats(v)]


def _has_float(values: Any) -> bool:
    return any(isinstance(value, float) for value in tree_leaves(values))


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _written(func: Any, args: Any, kwargs: Any) -> Tensor | None:
    """The tensor that an operation writes into, if it does."""
    into = kwargs.get("out")
    if into is None and (func == _DATA.__set__ or _writes(func.__name__)):
        into = args[0]
    return into if isinstance(into, Tensor) else None


@cache
def _writes(name: str) -> bool:
    ends = name[-2:] if name[-1:] == "_" and name[:2] != "__" else name
    return bool(_WRITING.fullmatch(ends))


def _cause(func: Any) -> str:
    if func in _DETACHING:
        return ".detach()"
    if not torch.is_grad_enabled():
        return "torch.no_grad()"
    name: str = func.__name__
    return f".{name.strip('_')}()"


def _blanked(output: Any, written: Tensor | None) -> Any:
    """NaN in the place of a lost value; written into the tensor where the operation wrote."""
    if written is None:
        return tree_map(_nan, output)
    with torch.no_grad():
        written.fill_(torch.nan)
    return output


def _nan(value: Any) -> Any:
    if isinstance(value, Tensor):
        return torch.full_like(value, torch.nan) if _floats(value) else value
    return math.nan if isinstance(value, float) else value


def _is_input(tensor: Tensor) -> bool:
    node = tensor.grad_fn
    if node is None:
        return True
    return node.name() == "CloneBackward0" and "AccumulateGrad" in str(node.next_functions[0][0])


def reaches_logits(tapped: Tapped, model: nn.Module, x: Inputs) -> bool:
    """Whether a value that was lost in the forward pass reaches the logits.

    A copy of the network runs with NaN in the place of every lost value: NaN passes through all arithmetic. Where
    the copy does not run, the answer is yes.
    """
    try:
        with Draws().passing():
            expected = tapped.plain(model, x, None)[0]
        with Draws().passing(), Noticing(tapped.shifted, blank=True):
            found = tapped.forward(copy.deepcopy(model), x).logits
    except Exception:
        return True
    return bool((found.isnan() & ~expected.isnan()).any())


def backward_hooks(model: nn.Module) -> list[str]:
    """``["backward hook"]`` where one of a network's modules, or all modules there are, have backward hooks."""
    everywhere = (of_all._global_backward_hooks, of_all._global_backward_pre_hooks)
    found = any(everywhere) or any(
        m._backward_hooks or m._backward_pre_hooks for m in model.modules()
    )
    return ["backward hook"] if found else []


class StepFunction(MeasureError):
    """What a forward computes has a derivative of 0 almost everywhere, where autograd gives another one."""


def untraced(names: Sequence[str], error: BaseException) -> str:
    """Why a network's gradient is not known, for a report."""
    first_line = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
    whose = f"its backward pass is its own ({', '.join(names)})"
    if isinstance(error, StepFunction):
        return f"{whose}, and {first_line}"
    if "_local_scalar_dense" in first_line:
        first_line = "what it does depends on the values of a batch"
    return f"{whose}, and its forward cannot be traced: {first_line}"


def agreeing(ours: Sequence[Tensor], gradients: Sequence[Tensor]) -> list[int]:
    """The layers where a network's own vector is the gradient: no feedback of its own lies behind them.

    There ‖a − g‖ ≤ √ε·‖g‖ over the batch: half of the digits of their arithmetic are the same.

    >>> agreeing([torch.ones(2), torch.ones(2)], [torch.ones(2) + 1e-6, torch.zeros(2)])
    [0]
    """
    pairs = [
        (wide(a), wide(g), torch.finfo(g.dtype).eps ** 0.5)
        for a, g in zip(ours, gradients, strict=True)
    ]
    return [
        l
        for l, (a, g, tolerance) in enumerate(pairs)
        if bool((a - g).norm() <= tolerance * g.norm())
    ]


class OwnBackward:
    """A network whose backward pass is its own, or may be: runs its forward by traces, one per shape of the batch.

    A trace (`make_fx`) holds the plain operations that ran, those inside of a custom Function's forward among them;
    hooks are none of them, and `.detach()` is taken out. So autograd through the trace gives ∂CE/∂h_l. Its logits
    are compared with the network's for the first batch's numbers in another order, and for every batch where a
    forward reads a tensor outside of torch: a trace that holds values of a batch is refused; so is one with
    operators that are not torch's own.

    Where the forward computes in steps (`round`, `sign`, `fake_quantize`), its derivative is 0 almost everywhere, and
    no reference for a straight-through estimate.

    Args:
        tapped: how the network is tapped.
        names: what the network's backward pass is made of.
        noticed: what was noticed of its forward.

    Attributes:
        why: why the gradient is not known; "" where it is.
        steps: operations of the forward that compute in steps from the stream.

    Source: docs/protocol.md §2.
    """

    def __init__(self, tapped: Tapped, names: list[str], noticed: Noticing) -> None:
        self._tapped, self._noticed = tapped, noticed
        self._traces: dict[str, tuple[GraphModule, list[Tensor]]] = {}
        self.names = names or list(noticed.lost)
        self._certain = bool(names) or noticed.overwritten
        self.steps: list[str] = []
        self.why = ""

    def matters(self, model: nn.Module, x: Inputs) -> bool:
        """Whether autograd's vector may be no gradient, of a network that cannot be traced."""
        if self._certain or not self.names:
            return self._certain
        return reaches_logits(self._tapped, model, x)

    def forward(self, model: nn.Module, x: Inputs, layers: Sequence[int] | None = None) -> Stream:
        """As of `Tapped`.

        Raises:
            MeasureError: values that depend on the batch outside of torch. What torch raises of control flow that
                does, and of operations that it cannot trace, is let through.
        """
        # what is no tensor is part of a trace
        key = str(each(x, lambda t: t.shape))
        if key not in self._traces:
            # what a trace draws is none of the pass's draws
            with Draws().passing():
                self._traces[key] = self._trace(model, x)
        graph, shapes = self._traces[key]
        chosen = range(len(shapes)) if layers is None else layers
        shifts = [torch.zeros_like(h).requires_grad_(l in chosen) for l, h in enumerate(shapes)]
        logits, hidden = self._run(graph, model, x, shifts)
        if self._noticed.leaves:
            with Draws().passing():
                expected = self._tapped.plain(model, x, None)[0]
            _check_same(logits, expected)
        edges = [shift if shift.requires_grad else None for shift in shifts] or hidden
        return Stream(
            logits, hidden, edges, [f"h_{l}" for l in range(len(hidden))], returned=not shifts
        )

    def _run(self, graph: GraphModule, model: nn.Module, x: Inputs, shifts: list[Tensor]) -> Any:
        # states that the network returns may come from token ids: then the graph starts at the parameters
        with nullcontext() if shifts else thawed(model):
            return graph(lent(model, x, gradients=not shifts), shifts)

    def _trace(self, model: nn.Module, x: Inputs) -> tuple[GraphModule, list[Tensor]]:
        run = partial(self._tapped.plain, model)
        hidden = run(x, None)[1] if self._tapped.shifted else []
        shifts = [torch.zeros_like(h).requires_grad_() for h in hidden]
        graph = make_fx(run)(x, shifts)
        operations = [n for n in graph.graph.nodes if isinstance(n.target, OpOverload)]
        for node in operations:
            if node.target.namespace not in _TORCHS:
                what = f"{node.target.namespace}::{node.target._opname}"
                raise MeasureError(f"{what} may have a derivative of its own")
        self.steps = _steps(graph, len(shifts))
        if any(map(_STRAIGHT_THROUGH.search, self.steps)):
            raise self.in_steps()
        for node in [
            node for node in graph.graph.nodes if node.target is torch.ops.aten.detach.default
        ]:
            node.replace_all_uses_with(node.args[0])
            graph.graph.erase_node(node)
        graph.recompile()
        if any(node.target._schema.is_mutable for node in operations):
            # autograd may have kept for the backward pass what is written into
            graph = _derivable(make_fx(functionalize(graph))(x, shifts))
        other = each(x, lambda t: t.flatten().roll(1).view(t.shape))
        with Draws().passing():
            expected = run(other, None)[0]
        with Draws().passing():
            _check_same(self._run(graph, model, other, shifts)[0], expected)
        return graph, [shift.detach() for shift in shifts]

    def in_steps(self) -> StepFunction:
        """That the forward computes in steps, as an error."""
        found = ", ".join(dict.fromkeys(self.steps))
        return StepFunction(f"the derivative of its forward is 0 almost everywhere ({found})")


def _derivable(graph: GraphModule) -> GraphModule:
    """A trace without in-place operations, whose copies have a derivative."""
    for node in graph.graph.nodes:
        if node.target is torch.ops.aten.copy.default:
            node.target = _copied
    graph.recompile()
    return graph


def _copied(into: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    return source.to(into).expand_as(into)


_STEPS = re.compile(r"_?(round|floor|ceil|trunc|sign|sgn|heaviside)_?|.*fake_quant.*|.*_fq_helper")
_STRAIGHT_THROUGH = re.compile("fake_quant|_fq_helper")
"""Operations that compute in steps, and those whose derivative in torch is that of the identity."""


_SUMS = re.compile(r"_?(add|sub|rsub)_?")
"""Operations by which steps join a stream; a product with them is a mask, which has a derivative."""


def _steps(graph: GraphModule, shifts: int) -> list[str]:
    """Names of the operations in a trace that compute in steps from the stream; without shifts, from the inputs.

    They are those of `_STEPS`, and what gives whole numbers or truth values that are added to the stream again:
    ``x + ((x > 0).float() - x).detach()``, a nearest code by ``argmin``. A mask, ``x * (x > 0)``, is none.
    """
    nodes = list(graph.graph.nodes)
    given = [node for node in nodes if node.op == "placeholder"]
    reading, found = set(given[-shifts:] if shifts else given), []
    # what reads the stream by whole numbers or truth values alone → the operations that gave these
    stepped: dict[Any, list[str]] = {}
    for node in nodes:
        read = [one for one in node.all_input_nodes if one in reading]
        if not read and node not in reading:
            continue
        reading.add(node)
        name = getattr(node.target, "_opname", "")
        if _STEPS.fullmatch(name):
            found.append(name)
        if read and all(one in stepped for one in read):
            stepped[node] = [cause for one in read for cause in stepped[one]]
        elif _is_whole(node) and not all(map(_is_whole, read)):
            made = (
                "integer cast"
                if name == "_to_copy"
                else name or getattr(read[0].target, "_opname", "")
            )
            stepped[node] = [made]
        elif _SUMS.fullmatch(name):
            found += [cause for one in read if one in stepped for cause in stepped[one]]
    return list(dict.fromkeys(found))


def _is_whole(node: Any) -> bool:
    """Whether an operation of a trace gives whole numbers or truth values."""
    value = node.meta.get("val")
    return isinstance(value, Tensor) and not (value.is_floating_point() or value.is_complex())


def _check_same(found: Tensor, expected: Tensor) -> None:
    """Refuse a trace whose logits are not the network's.

    Raises:
        MeasureError: they differ by more than rounding.
    """
    found, expected = found.detach().nan_to_num(), expected.detach().nan_to_num()
    rounding = 100 * torch.finfo(found.dtype).eps
    if not torch.allclose(
        found, expected, rtol=rounding, atol=rounding * float(expected.abs().max())
    ):
        raise MeasureError(
            "what it computes from a batch is not the same every time, or does not stay in torch"
        )
