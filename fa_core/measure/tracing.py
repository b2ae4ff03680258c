"""The derivative of what a network's forward computes, where its backward pass is its own.

Feedback alignment is often written as a `torch.autograd.Function` whose backward multiplies by a fixed random matrix,
or as a backward hook. autograd then gives the method's credit signal, not ∂CE/∂h_l.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch._ops import OpOverload
from torch.fx import GraphModule
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.modules import module as of_all
from torch.overrides import TorchFunctionMode

from fa_core.errors import MeasureError
from fa_core.measure.isolate import Draws, Inputs, each, lent, wide
from fa_core.measure.taps import Stream, Tapped, thawed

_TORCHS = ("aten", "prim", "prims")
"""Whose operators have no derivative but the true one."""

_LEAVING = {"__array__", "__dlpack__", "__float__", "__int__", "numpy", "tolist"}
"""What reads a tensor outside of torch without that tracing sees it; it refuses ``item`` and ``bool`` by itself."""

_DETACHING = (Tensor.detach, Tensor.data.__get__)  # type: ignore[attr-defined]


class Noticing(TorchFunctionMode):
    """Around a forward pass: what makes autograd's vector another one than the derivative, without a custom Function.

    Args:
        inputs_too: what is detached may be a state also where it is a leaf of the graph, or a copy of one.

    Attributes:
        hooks: ``["tensor hook"]`` where a tensor that carries a gradient got one.
        detached: a tensor that carries a gradient was detached.
        leaves: a tensor was read outside of torch, so that a trace may hold values of its batch.
    """

    def __init__(self, inputs_too: bool) -> None:
        super().__init__()
        self._inputs_too = inputs_too
        self.hooks: list[str] = []
        self.detached = False
        self.leaves = False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is Tensor.register_hook and not self.hooks:
            self.hooks.append("tensor hook")
        self.leaves = self.leaves or func.__name__ in _LEAVING
        if func in _DETACHING and args[0].requires_grad:
            self.detached = self.detached or self._inputs_too or not _is_input(args[0])
        return func(*args, **(kwargs or {}))


def _is_input(tensor: Tensor) -> bool:
    node = tensor.grad_fn
    return node is None or (node.name() == "CloneBackward0" and "AccumulateGrad" in str(node.next_functions[0][0]))


def backward_hooks(model: nn.Module) -> list[str]:
    """``["backward hook"]`` where one of a network's modules, or all modules there are, have backward hooks."""
    everywhere = (of_all._global_backward_hooks, of_all._global_backward_pre_hooks)
    found = any(everywhere) or any(m._backward_hooks or m._backward_pre_hooks for m in model.modules())
    return ["backward hook"] if found else []


def untraced(names: Sequence[str], error: BaseException) -> str:
    """Why a network's gradient is not known, for a report."""
    first_line = (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")
    if "_local_scalar_dense" in first_line:
        first_line = "what it does depends on the values of a batch"
    return f"its backward pass is its own ({', '.join(names)}), and its forward cannot be traced: {first_line}"


def agreeing(ours: Sequence[Tensor], gradients: Sequence[Tensor]) -> list[int]:
    """The layers where a network's own vector is the gradient: no feedback of its own lies behind them.

    There ‖a − g‖ ≤ √ε·‖g‖ over the batch: half of the digits of their arithmetic are the same.

    >>> agreeing([torch.ones(2), torch.ones(2)], [torch.ones(2) + 1e-6, torch.zeros(2)])
    [0]
    """
    pairs = [(wide(a), wide(g), torch.finfo(g.dtype).eps ** 0.5) for a, g in zip(ours, gradients, strict=True)]
    return [l for l, (a, g, tolerance) in enumerate(pairs) if bool((a - g).norm() <= tolerance * g.norm())]


class OwnBackward:
    """A network whose backward pass is its own, or may be: runs its forward by traces, one per shape of the batch.

    A trace (`make_fx`) holds the plain operations that ran, those inside of a custom Function's forward among them;
    hooks are none of them, and `.detach()` is taken out. So autograd through the trace gives ∂CE/∂h_l. Its logits
    are compared with the network's for the first batch's numbers in another order, and for every batch where a
    forward reads a tensor outside of torch: a trace that holds values of a batch is refused; so is one with
    operators that are not torch's own.

    Args:
        tapped: how the network is tapped.
        names: what the network's backward pass is made of.
        leaves: whether its forward reads tensors outside of torch.

    Attributes:
        why: why its forward cannot be traced; "" where it can.

    Source: docs/protocol.md §2.
    """

    def __init__(self, tapped: Tapped, names: list[str], leaves: bool) -> None:
        self._tapped, self._leaves = tapped, leaves
        self._traces: dict[str, tuple[GraphModule, list[Tensor]]] = {}
        self.names = names
        self.why = ""

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
        if self._leaves:
            with Draws().passing():
                expected = self._tapped.plain(model, x, None)[0]
            _check_same(logits, expected)
        edges = [shift if shift.requires_grad else None for shift in shifts] or hidden
        return Stream(logits, hidden, edges, [f"h_{l}" for l in range(len(hidden))], returned=not shifts)

    def _run(self, graph: GraphModule, model: nn.Module, x: Inputs, shifts: list[Tensor]) -> Any:
        # states that the network returns may come from token ids: then the graph starts at the parameters
        with nullcontext() if shifts else thawed(model):
            return graph(lent(model, x, gradients=not shifts), shifts)

    def _trace(self, model: nn.Module, x: Inputs) -> tuple[GraphModule, list[Tensor]]:
        run = partial(self._tapped.plain, model)
        hidden = run(x, None)[1] if self._tapped.shifted else []
        shifts = [torch.zeros_like(h).requires_grad_() for h in hidden]
        graph = make_fx(run)(x, shifts)
        for node in graph.graph.nodes:
            if isinstance(node.target, OpOverload) and node.target.namespace not in _TORCHS:
                raise MeasureError(f"{node.target.namespace}::{node.target._opname} may have a derivative of its own")
        for node in [node for node in graph.graph.nodes if node.target is torch.ops.aten.detach.default]:
            node.replace_all_uses_with(node.args[0])
            graph.graph.erase_node(node)
        graph.recompile()
        other = each(x, lambda t: t.flatten().roll(1).view(t.shape))
        with Draws().passing():
            expected = run(other, None)[0]
        with Draws().passing():
            _check_same(self._run(graph, model, other, shifts)[0], expected)
        return graph, [shift.detach() for shift in shifts]


def _check_same(found: Tensor, expected: Tensor) -> None:
    """Refuse a trace whose logits are not the network's.

    Raises:
        MeasureError: they differ by more than rounding.
    """
    found, expected = found.detach().nan_to_num(), expected.detach().nan_to_num()
    rounding = 100 * torch.finfo(found.dtype).eps
    if not torch.allclose(found, expected, rtol=rounding, atol=rounding * float(expected.abs().max())):
        raise MeasureError("what it computes from a batch is not the same every time, or does not stay in torch")
