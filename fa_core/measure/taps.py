"""Taps: h_0..h_L, and the gradients at them, out of any network in one forward pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, Node, get_gradient_edge

from fa_core.errors import TapError
from fa_core.measure.gradients import Layers, Stream
from fa_core.measure.graph import follows_norm, node_of, origin
from fa_core.measure.hooks import (
    READS,
    described,
    tapped_inputs,
    tapped_outputs,
)
from fa_core.measure.isolate import Inputs, call_model, detached_inputs
from fa_core.measure.patterns import candidates, match_modules, split_patterns

StreamFunction: TypeAlias = Callable[[nn.Module, Any], tuple[Tensor, Sequence[Tensor]]]
"""``(model, x) -> (logits, [h_0..h_L])``."""

Taps: TypeAlias = str | Sequence[str] | StreamFunction | None
"""What a caller may ask for: None (the model's own stream), patterns, or a function."""

States: TypeAlias = tuple[Tensor, list[Tensor]]
"""Logits and h_0..h_L."""


class Tapped(Protocol):
    """A way to run a network with its stream tapped.

    Attributes:
        shifted: whether `plain` adds shifts to its states; else gradients are read at the states
            themselves.
    """

    shifted: bool

    def forward(self, model: nn.Module, x: Inputs, layers: Layers = None) -> Stream:
        """Run once; ``layers`` are those whose gradient is wanted."""
        ...

    def plain(self, model: nn.Module, x: Inputs, shifts: Sequence[Tensor] | None) -> States:
        """Run without a look at the graph; h_l goes on as h_l plus its shift, None = zeros."""
        ...

    def logits(self, model: nn.Module, x: Inputs) -> Tensor:
        """The logits alone, (B, C), without a graph."""
        ...


def own_stream(model: nn.Module, x: Inputs) -> Any:
    """The stream that a network offers by itself."""
    return call_model(model, x, return_hidden=True)


def read_logits(output: Any) -> Tensor:
    """The logits in what a forward pass returned: a tensor, ``.logits``, ``["logits"]``, or the
    first item.

    Raises:
        TapError: the first of several items, where another may as well be the logits: (features,
            logits).
    """
    logits = output
    if hasattr(output, "logits"):
        logits = output.logits
    elif isinstance(output, dict):
        logits = output.get("logits", output)
    elif isinstance(output, (tuple, list)) and output:
        logits = output[0]
        for other in output[1:]:
            if other is not logits and _like_logits(logits, other):
                raise TapError(
                    f"the forward returns {described(logits)} and {described(other)}: "
                    "either may be the logits",
                    hint="wrap the network in a module whose forward returns the logits alone, "
                    "e.g. self.net(x)[1], and tap its blocks through it: net.blocks.*",
                )
    # what is no tensor is refused later, with its shape
    found: Tensor = logits
    return found


def _like_logits(*values: object) -> bool:
    """Whether these are float matrices with a row per sample each."""
    lengths = set()
    for value in values:
        if not isinstance(value, Tensor) or value.dim() != 2 or not value.is_floating_point():
            return False
        lengths.add(len(value))
    return len(lengths) == 1


def plain_logits(model: nn.Module, x: Inputs) -> Tensor:
    """Logits of inputs (B, ...): (B, C), without a graph."""
    with torch.no_grad():
        return read_logits(call_model(model, detached_inputs(model, x)))


class ReturnedStream(Tapped):
    """A stream that the network, or a function of the caller's, returns.

    Args:
        function: ``(model, x) -> (logits, [h_0..h_L])``.
        name: what to call it in messages.
    """

    shifted = False

    def __init__(self, function: StreamFunction, name: str) -> None:
        self._function = function
        self._name = name
        self._from_parameters = False
        self._norm_checked = False
        self._labels: list[str] = []

    def forward(self, model: nn.Module, x: Inputs, layers: Layers = None) -> Stream:
        logits, hidden = self._run(model, x)
        if not self._from_parameters and not all(h.requires_grad for h in hidden):
            # token ids carry no gradient: the graph has to start at the embedding's weights
            self._from_parameters = True
            logits, hidden = self._run(model, x)
        for l, h in enumerate(hidden):
            if not h.requires_grad:
                raise TapError(
                    f"h_{l} from {self._name} is detached from the graph",
                    hint="return the stream's own tensors: no .detach(), no torch.no_grad()",
                )
        _refuse_overwritten(hidden, self._name)
        names = self._labels or [f"h_{l}" for l in range(len(hidden))]
        if not self._norm_checked and follows_norm([node_of(h) for h in hidden]):
            raise TapError(
                f"{names[-1]} from {self._name} comes after the final norm, "
                "where no explosion shows",
                hint=f"return what the norm reads as {names[-1]}, or tap the blocks by name; "
                f"candidates: {candidates(model)}",
            )
        self._norm_checked = True
        nodes = [self._node(h) for h in hidden]
        cuts = [[node] for node in nodes if node is not None]
        return Stream(logits, hidden, hidden, names, returned=True, cuts=cuts)

    def plain(self, model: nn.Module, x: Inputs, shifts: Sequence[Tensor] | None) -> States:
        return self._run(model, x)

    def logits(self, model: nn.Module, x: Inputs) -> Tensor:
        with torch.no_grad():
            return self._run(model, x)[0]

    def _node(self, state: Tensor) -> Node | None:
        return node_of(state)

    def _run(self, model: nn.Module, x: Inputs) -> States:
        thawing = self._from_parameters and torch.is_grad_enabled()
        with thawed(model) if thawing else nullcontext():
            output = self._function(model, detached_inputs(model, x, gradients=True))
        if not _is_stream(output):
            raise TapError(
                f"{self._name} returned {described(output)}",
                hint="it must return (logits, [h_0, ..., h_L]), the states as a list",
            )
        logits, hidden = output
        for l, h in enumerate(hidden):
            if not isinstance(h, Tensor) or not h.is_floating_point():
                raise TapError(
                    f"h_{l} from {self._name} is {described(h)}",
                    hint="return float tensors, one per layer",
                )
        return read_logits(logits), list(hidden)


def _is_stream(output: object) -> bool:
    """Whether this is logits and a list of at least one state."""
    if not isinstance(output, (tuple, list)) or len(output) != 2:
        return False
    return isinstance(output[1], (tuple, list)) and len(output[1]) > 0


class _Recorder:
    """What tapped modules gave in one forward pass.

    Each output is replaced by a copy of itself, so that a later in-place update cannot overwrite a
    tapped state, and the copy is where the gradient is read.
    """

    def __init__(self, layers: Layers) -> None:
        self._layers = layers
        self.names: list[str] = []
        self.hidden: list[Tensor] = []
        self.edges: list[GradientEdge | None] = []
        self.nodes: list[Node | None] = []
        self.cuts: list[list[Node]] = []

    def __call__(self, name: str, state: Tensor, beside: Sequence[Tensor]) -> Tensor:
        wanted = self._layers is None or len(self.hidden) in self._layers
        self.names.append(name)
        self.nodes.append(node_of(state))
        self.hidden.append(state)
        with torch.enable_grad():
            if not wanted:
                self.edges.append(None)
                return state.clone()
            source = state if state.requires_grad else state.detach().requires_grad_()
            onward = source.clone()
        with torch._C.DisableTorchFunction():
            self.edges.append(get_gradient_edge(onward))
        nodes = map(node_of, (onward, *beside))
        self.cuts.append([node for node in nodes if node is not None])
        return onward


class ModuleTaps(Tapped):
    """The outputs of the modules whose names match, in the order of the forward pass.

    A module that runs several times (tied weights) is a tap each time. Of a tuple, the first tensor
    counts.
    """

    shifted = True

    def __init__(self, model: nn.Module, patterns: str | Sequence[str]) -> None:
        self._modules = match_modules(model, patterns)
        self._first = True

    def forward(self, model: nn.Module, x: Inputs, layers: Layers = None) -> Stream:
        found = _Recorder(layers)
        with tapped_outputs(model, self._modules, found):
            logits = read_logits(call_model(model, detached_inputs(model, x)))
        if not found.hidden:
            raise TapError(
                f"none of the tapped modules ran: {', '.join(self._modules)}",
                hint=f"tap modules that its forward calls, e.g. {candidates(model)}",
            )
        end = found.edges[-1]
        if end is not None and origin(node_of(logits), [end.node]) is end.node:
            raise TapError(
                f"the last tap, {found.names[-1]}, gives the logits, which are no hidden state",
                hint="leave it out: the last block's output is h_L",
            )
        if self._first:
            self._refuse_final_norm(model, x, found)
            self._first = False
        return Stream(logits, found.hidden, found.edges, found.names, cuts=found.cuts)

    def plain(self, model: nn.Module, x: Inputs, shifts: Sequence[Tensor] | None) -> States:
        hidden: list[Tensor] = []

        def tap(name: str, state: Tensor, beside: Sequence[Tensor]) -> Tensor:
            hidden.append(state)
            if shifts is None:
                return state.detach().requires_grad_().clone()
            return state + shifts[len(hidden) - 1]

        with tapped_outputs(model, self._modules, tap):
            logits = read_logits(call_model(model, detached_inputs(model, x, gradients=True)))
        return logits, hidden

    def logits(self, model: nn.Module, x: Inputs) -> Tensor:
        return plain_logits(model, x)

    def _refuse_final_norm(self, model: nn.Module, x: Inputs, found: _Recorder) -> None:
        """A block that ends in a norm is a tap like any other; a norm by itself is none."""
        last = found.names[-1]
        if any(model.get_submodule(last.split(" ")[0]).children()):
            return
        nodes = found.nodes
        if nodes[-1] is None:
            # no state before it starts a graph: the parameters have to
            with thawed(model):
                nodes = [node_of(h) for h in self.plain(model, x, None)[1]]
        if follows_norm(nodes):
            raise TapError(
                f"the last tap, {last}, is the final norm, after which no explosion shows",
                hint="leave it out: the last block's output is h_L; "
                f"candidates: {candidates(model)}",
            )


class ReadTaps(ReturnedStream):
    """States where modules read them (``blocks.*:in``) or give them (``embed``), in forward order.

    So the stream of a network that adds ``h + block(h)`` itself is tapped: its blocks read the
    states, and what comes behind them, ``head:in``, reads the last one. The first tensor that a
    module is called with counts. One tensor is one state: read again, by whichever module, it is no
    further layer.
    """

    def __init__(self, model: nn.Module, patterns: str | Sequence[str]) -> None:
        super().__init__(self._collect, "the taps")
        reading: list[str] = []
        giving: list[str] = []
        for part in split_patterns(patterns):
            (reading if part.endswith(READS) else giving).append(part)
        self._read = match_modules(model, reading)
        self._given: list[str] = []
        if giving:
            self._given = match_modules(model, giving)
        self._copies = False

    def _node(self, state: Tensor) -> Node | None:
        node = node_of(state)
        if self._copies and node is not None:
            return node.next_functions[0][0]
        return node

    def _collect(self, model: nn.Module, x: Inputs) -> States:
        labels: list[str] = []
        states: list[Tensor] = []
        read: list[tuple[Tensor, int]] = []

        def tap(name: str, state: Tensor, beside: Sequence[Tensor]) -> Tensor:
            for earlier, version in read:
                if state is earlier and state._version == version:
                    return state
            read.append((state, state._version))
            labels.append(name)
            states.append(state.clone() if self._copies else state)
            return state

        with tapped_inputs(model, self._read, tap), tapped_outputs(model, self._given, tap):
            logits = read_logits(call_model(model, x))
        written = any(state._version != version for state, version in read)
        if written and not self._copies:
            # its gradient is then found from the copy, which takes a pass per layer
            self._copies = True
            return self._collect(model, x)
        self._labels = labels
        return logits, states


@contextmanager
def thawed(model: nn.Module) -> Iterator[None]:
    """Let the parameters carry gradients."""
    frozen = [p for p in model.parameters() if p.is_floating_point() and not p.requires_grad]
    for p in frozen:
        p.requires_grad_(True)
    try:
        yield
    finally:
        for p in frozen:
            p.requires_grad_(False)


def _refuse_overwritten(hidden: Sequence[Tensor], name: str) -> None:
    """Refuse states that are one memory written in place: the earlier one's values are gone.

    The same tensor twice is fine where nothing wrote into it (a block that passes its input
    through).
    """
    seen: dict[int, int] = {}
    for l, h in enumerate(hidden):
        earlier = seen.setdefault(h.data_ptr(), l)
        if earlier != l and h._version > 0 and h.numel():
            raise TapError(
                f"h_{earlier} and h_{l} from {name} share memory that was written in place, "
                f"so h_{earlier} is gone",
                hint="write h = h + f(h), return h.clone(), or tap the blocks by name",
            )
