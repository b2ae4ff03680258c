"""The true derivative of a forward whose backward pass is custom, by a trace of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch._ops import OpOverload
from torch.fx.experimental.proxy_tensor import disable_proxy_modes_tracing, make_fx
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fa_core.errors import MeasureError, first_line
from fa_core.measure.flow import is_whole
from fa_core.measure.gradients import Layers
from fa_core.measure.hooks import Args, Kwargs
from fa_core.measure.isolate import (
    Inputs,
    RngState,
    detached_inputs,
    tree_map,
)
from fa_core.measure.norms import agree, same
from fa_core.measure.stream import Stream
from fa_core.measure.taps import States, Tapped, thawed

_TORCHS = ("aten", "prim", "prims")
"""Namespaces whose operators have true derivatives only."""

_STEPS = re.compile(r"_?(round|floor|ceil|trunc|sign|sgn|heaviside)_?|.*fake_quant.*|.*_fq_helper")
"""Operations with piecewise constant output."""

STRAIGHT_THROUGH = re.compile("fake_quant|_fq_helper")
"""Such operations to which torch gives the derivative of the identity."""

_SUMS = re.compile(r"_?(add|sub|rsub)_?")
"""Operations that add steps to a stream; a product with steps is a mask, which has a derivative."""

_COPIES = (torch.ops.aten.clone.default, torch.ops.aten.alias.default)


def agreeing(ours: Sequence[Tensor | None], gradients: Sequence[Tensor]) -> list[int]:
    """Layers where a network's own vector is the gradient, as no custom feedback comes after them.

    There ‖a − g‖ ≤ √ε·max(‖a‖, ‖g‖) over the batch: half the digits of the arithmetic agree.

    >>> agreeing([torch.ones(2), torch.ones(2)], [torch.ones(2) + 1e-6, torch.zeros(2)])
    [0]
    """
    pairs = enumerate(zip(ours, gradients, strict=True))
    return [
        l for l, (a, g) in pairs if a is not None and same(a, g, torch.finfo(g.dtype).eps ** 0.5)
    ]


@dataclass(frozen=True)
class CutStates:
    """A forward pass whose blocks are cut from each other at h_0..h_L.

    Attributes:
        before: the states as the blocks before them give them.
        after: the same as the blocks after them read them.
        logits: of the last part.
    """

    before: list[Tensor]
    after: list[Tensor]
    logits: Tensor


class _Cutting(fx.Interpreter):
    """Runs a trace and cuts it at some of its nodes."""

    def __init__(self, graph: fx.GraphModule, nodes: Sequence[fx.Node]) -> None:
        super().__init__(graph)
        self._nodes = nodes
        self.cut: dict[fx.Node, tuple[Tensor, Tensor]] = {}

    def run_node(self, n: fx.Node) -> Any:
        value = super().run_node(n)
        if n not in self._nodes:
            return value
        after = value.detach().requires_grad_()
        self.cut[n] = value, after
        # the next block may write into it
        return after.clone()


def _run_trace(trace: fx.GraphModule, model: nn.Module, x: Inputs) -> States:
    # states may come from token ids, so their graph starts at the parameters
    with thawed(model.parameters()):
        found: States = trace(detached_inputs(model, x, gradients=True))
    return found


def _states(trace: fx.GraphModule) -> list[fx.Node]:
    """The nodes that give h_0..h_L: behind copies that are only returned."""
    *_, output = trace.graph.nodes
    _, *nodes = tree_leaves(output.args[0])
    for l, node in enumerate(nodes):
        while node.target in _COPIES and set(node.users) == {output}:
            node = node.all_input_nodes[0]
        nodes[l] = node
    return nodes


class _Constants(TorchDispatchMode):
    """Lets a trace hold the numbers that a forward reads out of its tensors as constants.

    Attributes:
        read: whether there are any.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.read = False

    def __torch_dispatch__(
        self, func: OpOverload, types: object, args: Args = (), kwargs: Kwargs | None = None
    ) -> object:
        if func is not torch.ops.aten._local_scalar_dense.default:
            return func(*args, **kwargs or {})
        self.read = True
        with disable_proxy_modes_tracing():
            return func(*args)


class OwnBackward:
    """Traces of a network whose backward pass is, or may be, custom; one per batch shape.

    A trace (`make_fx`) holds the plain operations that ran, including those inside a custom
    Function's forward. Hooks are not part of it and `.detach()` is removed, so autograd through the
    trace gives ∂CE/∂h_l. Values that the forward reads outside of torch are constants of the trace,
    which is refused where they matter: its logits are compared with the network's for the first
    batch in another order and scale, and for every batch if there are such values. So is a trace
    with operators that are not torch's.

    If the forward computes in steps (`round`, `sign`, `fake_quantize`), its derivative is 0 almost
    everywhere, and no reference for a straight-through estimate.

    Args:
        tapped: how the network is tapped.
        certain: the custom parts of the network's backward pass.
        lost: the ways in which values lose their gradient on the way to the logits.
        read: whether values are read outside of torch unnoticed by a trace.

    Attributes:
        names: the custom parts, or the ways.
        certain: whether the backward pass has custom parts; else values only lost their gradient.
        why: why the gradient is not known; "" if it is.
        steps: operations of the forward that compute in steps from the stream.

    Source: docs/protocol.md §2.
    """

    def __init__(
        self, tapped: Tapped, certain: Sequence[str], lost: Sequence[str], read: bool
    ) -> None:
        self._tapped = tapped
        self._reads = read
        self._traces: dict[str, fx.GraphModule] = {}
        self.names = list(certain or lost)
        self.certain = bool(certain)
        self.steps: list[str] = []
        self.why = ""

    def forward(self, model: nn.Module, x: Inputs, layers: Layers = None) -> Stream:
        """As `Tapped.forward`.

        Raises:
            MeasureError: values depend on the batch outside of torch.
            Exception: torch's own, for control flow that depends on the batch or for operations
                that cannot be traced.
        """
        key = _key(x)
        if key not in self._traces:
            # a trace draws apart from the pass
            with RngState().isolated():
                self._traces[key] = self._trace(model, x)
        logits, hidden = _run_trace(self._traces[key], model, x)
        if self._reads:
            _check_same(logits, self._expected(model, x))
        names = [f"h_{l}" for l in range(len(hidden))]
        return Stream(logits, hidden, hidden, names, returned=True)

    def cut(self, model: nn.Module, x: Inputs) -> CutStates:
        """Run the trace of a batch, after `forward`, with its blocks cut from each other."""
        trace = self._traces[_key(x)]
        nodes = _states(trace)
        cutting = _Cutting(trace, nodes)
        with RngState().isolated():
            logits, _ = cutting.run(detached_inputs(model, x))
        before, after = zip(*(cutting.cut[node] for node in nodes), strict=True)
        return CutStates(list(before), list(after), logits)

    def give_up(self, error: BaseException | None = None) -> None:
        """Record why the gradient is not known: the forward computes in steps, or an error."""
        if error is None or (self.steps and not isinstance(error, MeasureError)):
            steps = ", ".join(self.steps)
            reason = f"its forward has steps, of derivative 0 almost everywhere ({steps})"
        else:
            reason = f"its forward cannot be traced: {first_line(error)}".rstrip(".")
        self.why = f"its backward pass is its own ({', '.join(self.names)}), and {reason}"

    def _expected(self, model: nn.Module, x: Inputs) -> Tensor:
        """The network's own logits."""
        with RngState().isolated():
            return self._tapped.plain(model, x)[0]

    def _trace(self, model: nn.Module, x: Inputs) -> fx.GraphModule:
        constants = _Constants()

        def run(x: Inputs) -> States:
            with constants:
                return self._tapped.plain(model, x)

        trace = make_fx(run)(x)
        # such as what hooks pack for the backward pass
        trace.graph.eliminate_dead_code()
        self._reads = self._reads or constants.read
        operators = _operators(trace)
        self.steps = _steps(trace)
        if any(map(STRAIGHT_THROUGH.search, self.steps)):
            raise RuntimeError("torch gives its steps the derivative of the identity")
        _replace_detached(trace)
        if any(operator._schema.is_mutable for operator in operators):
            _copy_kept(trace)
        other = tree_map(_rolled, x)
        # first, as the network may keep what it computes from this batch
        with RngState().isolated():
            logits, _ = _run_trace(trace, model, other)
        _check_same(logits, self._expected(model, other))
        return trace


def _key(x: Inputs) -> str:
    """Batches of one key share a trace, in which inputs that are not tensors are constants."""
    return str(tree_map(Tensor.size, x))


def _rolled(tensor: Tensor) -> Tensor:
    """The entries in another order, and those of floats smaller."""
    rolled = tensor.flatten().roll(1).view(tensor.shape)
    return 0.75 * rolled if tensor.is_floating_point() else rolled


def _operators(graph: fx.GraphModule) -> list[OpOverload]:
    """Operators of a trace.

    Raises:
        MeasureError: an operator that is not torch's.
    """
    found = [one.target for one in graph.graph.nodes if isinstance(one.target, OpOverload)]
    for operator in found:
        if operator.namespace not in _TORCHS:
            raise MeasureError(
                f"{operator.namespace}::{operator._opname} may have a derivative of its own"
            )
    return found


def _replace_detached(graph: fx.GraphModule) -> None:
    """Remove the detach operations of a trace."""
    for node in list(graph.graph.nodes):
        if node.target is torch.ops.aten.detach.default:
            node.replace_all_uses_with(node.args[0])
            graph.graph.erase_node(node)
    graph.recompile()


def _copy_kept(graph: fx.GraphModule) -> None:
    """Let a trace write into copies of the tensors that the network keeps.

    One that reads the same memory under another name gives other logits than the network.
    """
    kept: dict[object, list[fx.Node]] = {}
    for node in graph.graph.nodes:
        if node.op == "get_attr":
            kept.setdefault(node.target, []).append(node)
    for uses in kept.values():
        with graph.graph.inserting_after(uses[0]):
            fresh = graph.graph.call_function(torch.clone, (uses[0],))
        for node in uses:
            node.replace_all_uses_with(fresh, lambda user: user.target is not torch.clone)
    graph.recompile()


def _steps(graph: fx.GraphModule) -> list[str]:
    """Names of the operations in a trace that compute in steps from the stream.

    These are the operations of `_STEPS`, and those whose integers or booleans are added to the
    stream again: ``x + ((x > 0).float() - x).detach()``, a nearest code by ``argmin``. A mask,
    ``x * (x > 0)``, does not count.
    """
    states = _states(graph)
    reading = set(states)
    found: list[str] = []
    # nodes that depend on the stream only by integers or booleans → the operations that made these
    causes: dict[fx.Node, list[str]] = {}
    for node in graph.graph.nodes:
        read = [source for source in node.all_input_nodes if source in reading]
        if not read:
            continue
        reading.add(node)
        name = str(node.target)
        if isinstance(node.target, OpOverload):
            name = node.target._opname
        if _STEPS.fullmatch(name):
            found.append(name)
        joined = list(chain(*(causes.get(source, ()) for source in read)))
        if all(source in causes for source in read):
            causes[node] = joined
        elif _is_whole(node) and not all(map(_is_whole, read)):
            causes[node] = [name.replace("_to_copy", "integer cast")]
        elif _SUMS.fullmatch(name):
            found += joined
        if node in states:
            found += causes.get(node, [])
    return list(dict.fromkeys(found))


def _is_whole(node: fx.Node) -> bool:
    """Whether a node of a trace gives integers or booleans."""
    value = node.meta.get("val")
    return isinstance(value, Tensor) and is_whole(value)


def _check_same(found: Tensor, expected: Tensor) -> None:
    """Check the logits of a trace against the network's.

    Raises:
        MeasureError: they differ by more than rounding.
    """
    if not agree(expected, found, ulps=100):
        raise MeasureError(
            "what it computes from a batch is not the same every time, or does not stay in torch"
        )
