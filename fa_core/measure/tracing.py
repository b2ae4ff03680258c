"""The derivative of what a network's forward computes, where its backward pass is its own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, fx, nn
from torch._ops import OpOverload
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx

from fa_core.errors import MeasureError
from fa_core.measure.gradients import Layers, Stream
from fa_core.measure.isolate import Inputs, RngState, detached_inputs, tree_map, wide
from fa_core.measure.lost_gradients import Noticing, reaches_logits
from fa_core.measure.taps import States, Tapped, thawed

_TORCHS = ("aten", "prim", "prims")
"""Namespaces whose operators have no derivative but the true one."""

_STEPS = re.compile(r"_?(round|floor|ceil|trunc|sign|sgn|heaviside)_?|.*fake_quant.*|.*_fq_helper")
"""Operations that compute in steps."""

_STRAIGHT_THROUGH = re.compile("fake_quant|_fq_helper")
"""Operations that compute in steps, with the derivative of the identity in torch."""

_SUMS = re.compile(r"_?(add|sub|rsub)_?")
"""Operations by which steps join a stream; a product with them is a mask, which has a
derivative."""

_SPOKEN = {"_to_copy": "integer cast"}
"""What operations are called in a report."""


class StepFunction(MeasureError):
    """A forward whose derivative is 0 almost everywhere, where autograd gives another one."""


def agreeing(ours: Sequence[Tensor], gradients: Sequence[Tensor]) -> list[int]:
    """The layers where a network's own vector is the gradient: no feedback of its own lies behind
    them.

    There ‖a − g‖ ≤ √ε·‖g‖ over the batch: half of the digits of their arithmetic are the same.

    >>> agreeing([torch.ones(2), torch.ones(2)], [torch.ones(2) + 1e-6, torch.zeros(2)])
    [0]
    """
    layers = []
    for l, (a, g) in enumerate(zip(ours, gradients, strict=True)):
        tolerance = torch.finfo(g.dtype).eps ** 0.5
        exact = wide(g)
        distance = (wide(a) - exact).norm()
        if bool(distance <= tolerance * exact.norm()):
            layers.append(l)
    return layers


@dataclass(frozen=True)
class _Trace:
    """A forward as a graph of plain operations, and shifts of zero for its states."""

    graph: fx.GraphModule
    zeros: list[Tensor]

    def run(self, model: nn.Module, x: Inputs, shifts: list[Tensor]) -> States:
        # states that the network returns may come from token ids: then the graph starts at the
        # parameters
        with nullcontext() if shifts else thawed(model):
            inputs = detached_inputs(model, x, gradients=not shifts)
            found: States = self.graph(inputs, shifts)
        return found


class OwnBackward:
    """Traces of a network whose backward pass is its own, or may be; one per batch shape.

    A trace (`make_fx`) holds the plain operations that ran, those inside of a custom Function's
    forward among them; hooks are none of them, and `.detach()` is taken out. So autograd through
    the trace gives ∂CE/∂h_l. Its logits are compared with the network's for the first batch's
    numbers in another order, and for every batch where a forward reads a tensor outside of torch: a
    trace that holds values of a batch is refused; so is one with operators that are not torch's
    own.

    Where the forward computes in steps (`round`, `sign`, `fake_quantize`), its derivative is 0
    almost everywhere, and no reference for a straight-through estimate.

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
        self._tapped = tapped
        self._noticed = noticed
        self._traces: dict[str, _Trace] = {}
        self.names = names or list(noticed.lost)
        self._certain = bool(names) or noticed.overwritten
        self.steps: list[str] = []
        self.why = ""

    def matters(self, model: nn.Module, x: Inputs) -> bool:
        """Whether autograd's vector may be no gradient, of a network that cannot be traced."""
        if self._certain or not self.names:
            return self._certain
        return reaches_logits(self._tapped, model, x)

    def forward(self, model: nn.Module, x: Inputs, layers: Layers = None) -> Stream:
        """As of `Tapped`.

        Raises:
            MeasureError: values that depend on the batch outside of torch. What torch raises of
                control flow that does, and of operations that it cannot trace, is let through.
        """
        # what is no tensor is part of a trace
        key = str(tree_map(lambda tensor: tensor.shape, x))
        if key not in self._traces:
            # what a trace draws is none of the pass's draws
            with RngState().isolated():
                self._traces[key] = self._trace(model, x)
        trace = self._traces[key]
        shifts = []
        for l, zero in enumerate(trace.zeros):
            wanted = layers is None or l in layers
            shifts.append(torch.zeros_like(zero).requires_grad_(wanted))
        logits, hidden = trace.run(model, x, shifts)
        if self._noticed.leaves:
            _check_same(logits, self._expected(model, x))
        names = [f"h_{l}" for l in range(len(hidden))]
        if not shifts:
            return Stream(logits, hidden, hidden, names, returned=True)
        return Stream(logits, hidden, shifts, names)

    def give_up(self, error: BaseException) -> None:
        """The gradient is not known because of an error."""
        message = str(error).strip() or type(error).__name__
        reason = message.splitlines()[0].rstrip(".")
        if "_local_scalar_dense" in reason:
            reason = "what it does depends on the values of a batch"
        if not isinstance(error, StepFunction):
            reason = f"its forward cannot be traced: {reason}"
        self.why = f"its backward pass is its own ({', '.join(self.names)}), and {reason}"

    def in_steps(self) -> StepFunction:
        """The error of a forward that computes in steps."""
        steps = ", ".join(self.steps)
        return StepFunction(f"the derivative of its forward is 0 almost everywhere ({steps})")

    def _expected(self, model: nn.Module, x: Inputs) -> Tensor:
        """The network's own logits."""
        with RngState().isolated():
            return self._tapped.plain(model, x, None)[0]

    def _trace(self, model: nn.Module, x: Inputs) -> _Trace:
        run = partial(self._tapped.plain, model)
        hidden = run(x, None)[1] if self._tapped.shifted else []
        shifts = [torch.zeros_like(h).requires_grad_() for h in hidden]
        graph = make_fx(run)(x, shifts)
        operators = _operators(graph)
        self.steps = _steps(graph, len(shifts))
        if any(map(_STRAIGHT_THROUGH.search, self.steps)):
            raise self.in_steps()
        _replace_detached(graph)
        if any(operator._schema.is_mutable for operator in operators):
            # autograd may have kept for the backward pass what is written into
            graph = _derivable(make_fx(functionalize(graph))(x, shifts))
        trace = _Trace(graph, [shift.detach() for shift in shifts])
        other = tree_map(lambda tensor: tensor.flatten().roll(1).view(tensor.shape), x)
        expected = self._expected(model, other)
        with RngState().isolated():
            _check_same(trace.run(model, other, shifts)[0], expected)
        return trace


def _operators(graph: fx.GraphModule) -> list[OpOverload]:
    """The operators of a trace.

    Raises:
        MeasureError: one that is not torch's own.
    """
    found = []
    for node in graph.graph.nodes:
        operator = node.target
        if not isinstance(operator, OpOverload):
            continue
        if operator.namespace not in _TORCHS:
            name = f"{operator.namespace}::{operator._opname}"
            raise MeasureError(f"{name} may have a derivative of its own")
        found.append(operator)
    return found


def _replace_detached(graph: fx.GraphModule) -> None:
    """Let gradients through what was detached."""
    for node in list(graph.graph.nodes):
        if node.target is torch.ops.aten.detach.default:
            node.replace_all_uses_with(node.args[0])
            graph.graph.erase_node(node)
    graph.recompile()


def _derivable(graph: fx.GraphModule) -> fx.GraphModule:
    """A trace without in-place operations, whose copies have a derivative."""
    for node in graph.graph.nodes:
        if node.target is torch.ops.aten.copy.default:
            node.target = _copied
    graph.recompile()
    return graph


def _copied(into: Tensor, source: Tensor, non_blocking: bool = False) -> Tensor:
    return source.to(into).expand_as(into)


def _steps(graph: fx.GraphModule, shifts: int) -> list[str]:
    """Names of the operations in a trace that compute in steps from the stream.

    They are those of `_STEPS`, and what gives whole numbers or truth values that are added to the
    stream
    again: ``x + ((x > 0).float() - x).detach()``, a nearest code by ``argmin``. A mask, ``x * (x >
        0)``, is
    none.

    Args:
        graph: the trace.
        shifts: how many of its last inputs are the stream; without any, all inputs are.
    """
    inputs = [node for node in graph.graph.nodes if node.op == "placeholder"]
    reading = set(inputs[-shifts:] if shifts else inputs)
    found: list[str] = []
    # what reads the stream by whole numbers or truth values alone → the operations that gave these
    causes: dict[fx.Node, list[str]] = {}
    for node in graph.graph.nodes:
        read = [source for source in node.all_input_nodes if source in reading]
        if not read:
            continue
        reading.add(node)
        name = getattr(node.target, "_opname", str(node.target))
        if _STEPS.fullmatch(name):
            found.append(name)
        joined: list[str] = []
        for source in read:
            joined += causes.get(source, [])
        if all(source in causes for source in read):
            causes[node] = joined
        elif _is_whole(node) and not all(map(_is_whole, read)):
            causes[node] = [_SPOKEN.get(name, name)]
        elif _SUMS.fullmatch(name):
            found += joined
    return list(dict.fromkeys(found))


def _is_whole(node: fx.Node) -> bool:
    """Whether an operation of a trace gives whole numbers or truth values."""
    value = node.meta.get("val")
    if not isinstance(value, Tensor):
        return False
    return not value.is_floating_point() and not value.is_complex()


def _check_same(found: Tensor, expected: Tensor) -> None:
    """Refuse a trace whose logits are not the network's.

    Raises:
        MeasureError: they differ by more than rounding.
    """
    found = found.detach().nan_to_num()
    expected = expected.detach().nan_to_num()
    rounding = 100 * torch.finfo(found.dtype).eps
    largest = float(expected.abs().max())
    if not torch.allclose(found, expected, rtol=rounding, atol=rounding * largest):
        raise MeasureError(
            "what it computes from a batch is not the same every time, or does not stay in torch"
        )
