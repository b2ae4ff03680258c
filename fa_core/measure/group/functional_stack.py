"""N networks of any one class as one: `torch.func` runs the code of the first on the stacked tensors of all."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from fa_core.measure.custom_backward import backward_functions
from fa_core.measure.group.stack import CannotStack, skeleton, stack_tensors
from fa_core.measure.patterns import match_modules
from fa_core.measure.stream import Stream
from fa_core.measure.taps import (
    StreamFunction,
    Taps,
    first_tensor,
    own_stream,
    read_logits,
    replace_first_tensor,
    resolve_taps,
)

Run = Callable[[nn.Module, Tensor, Tensor], tuple[Tensor, list[Tensor]]]
"""``(one member's network, x, zero) -> (logits, states)``, inside vmap."""

_SLOW = ".*batching rule.*"
"""What torch warns of where it would run the members one after the other, and copy them together."""


class FunctionalStack:
    """The first network's code on everybody's tensors; gradients are taken outside vmap.

    Each tapped module's output h becomes h + z with a zero z per member, which is where the gradient is read:
    so a state that does not depend on the member, or that is overwritten in place later, has one of its own.
    States that the network returns are read where they are; if they do not depend on the member, x + z does.

    Args:
        networks: of one signature.
        taps: as for `diagnose`.
        dtype: what they are computed in; None = their own.

    Raises:
        CannotStack: the first cannot be copied.
        TapError: as `resolve_taps`.
    """

    def __init__(self, networks: Sequence[nn.Module], taps: Taps = None, dtype: torch.dtype | None = None) -> None:
        self._members = len(networks)
        self._tensors = {f"network.{name}": tensor for name, tensor in stack_tensors(networks, dtype).items()}
        self._skeleton = skeleton(networks[0])
        floats = [t for t in self._tensors.values() if t.is_floating_point()]
        self._zero = torch.zeros(self._members, dtype=floats[0].dtype, device=floats[0].device) if floats else None
        resolve_taps(self._skeleton, taps)
        self._own_function: StreamFunction | None = taps if callable(taps) else None
        self._patterns = None if taps is None or callable(taps) else match_modules(self._skeleton, taps)
        self._from_parameters = False

    def forward(self, x: Tensor, layers: Sequence[int] | None = None) -> Stream:
        found = self._by_modules(x, layers) if self._patterns is not None else self._by_return(x)
        if layers is None and backward_functions(found.logits):
            raise CannotStack("part of its backward pass is its own")
        return found

    def logits(self, x: Tensor) -> Tensor:
        run = self._returned if self._own_function else lambda net, x, zero: (read_logits(net(x)), [])
        with torch.no_grad():
            return self._run(run, self._tensors, x.clone())[0]

    def _by_modules(self, x: Tensor, layers: Sequence[int] | None) -> Stream:
        assert self._patterns is not None
        recorder = _Recorder(self._patterns, layers)
        logits, states = self._run(recorder, self._tensors, x.detach().clone())
        at = dict(zip(recorder.kept, states, strict=True))
        # layers whose gradient is not wanted are counted, not shown
        hidden = [at.get(layer, logits) for layer in range(len(recorder.names))]
        edges = [at.get(layer) for layer in range(len(recorder.names))]
        return Stream(logits, hidden, edges, recorder.names)

    def _by_return(self, x: Tensor) -> Stream:
        logits, hidden = self._with_graph(x)
        if not self._from_parameters and not all(h.requires_grad and h.stride(0) for h in hidden):
            # states that come from token ids, or are the inputs themselves: the graph has to start at the members
            self._from_parameters = True
            logits, hidden = self._with_graph(x)
        if not all(h.requires_grad and h.stride(0) for h in (logits, *hidden)):
            raise CannotStack("a state does not depend on the network")
        if len({(h.untyped_storage().data_ptr(), h.data_ptr()) for h in hidden}) < len(hidden):
            raise CannotStack("two of its states are one memory, perhaps written in place")
        return Stream(logits, hidden, hidden, [f"h_{l}" for l in range(len(hidden))], returned=True)

    def _with_graph(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        x, tensors = x.detach(), self._tensors
        if self._from_parameters:
            tensors = {name: t.requires_grad_() if t.is_floating_point() else t for name, t in _detached(tensors)}
        elif x.is_floating_point():
            x.requires_grad_()
        return self._run(self._returned, tensors, x.clone(), member_inputs=self._from_parameters)

    def _returned(self, network: nn.Module, x: Tensor, zero: Tensor) -> tuple[Tensor, list[Tensor]]:
        output = (self._own_function or own_stream)(network, x)
        return read_logits(output[0]), list(output[1])

    def _run(
        self, run: Run, tensors: dict[str, Tensor], x: Tensor, member_inputs: bool = False
    ) -> tuple[Tensor, list[Tensor]]:
        assert self._zero is not None
        probe = _Probe(self._skeleton, run, add_zero=member_inputs and x.is_floating_point())
        zero = self._zero.detach().requires_grad_(torch.is_grad_enabled())

        def member(tensors: dict[str, Tensor], zero: Tensor, x: Tensor) -> Any:
            return functional_call(probe, tensors, (x, zero))

        with warnings.catch_warnings():
            warnings.filterwarnings("error", message=_SLOW)
            versions = [tensor._version for tensor in tensors.values()]
            logits, states = vmap(member, in_dims=(0, 0, None))(tensors, zero, x)
        if versions != [tensor._version for tensor in tensors.values()]:
            raise CannotStack("it writes into its buffers while it runs")
        return logits, states


class _Probe(nn.Module):
    """A network and the way it is run, as one module that `functional_call` can fill."""

    def __init__(self, network: nn.Module, run: Run, add_zero: bool) -> None:
        super().__init__()
        self.network = network
        self._how = run
        self._add_zero = add_zero

    def forward(self, x: Tensor, zero: Tensor) -> tuple[Tensor, list[Tensor]]:
        before = list(self.network.buffers())
        found = self._how(self.network, x + zero.to(x.dtype) if self._add_zero else x, zero)
        if any(one is not other for one, other in zip(before, self.network.buffers(), strict=True)):
            raise CannotStack("it replaces its buffers while it runs")
        return found


class _Recorder:
    """Runs a network and collects the outputs of named modules, with a zero of the member's added to each."""

    def __init__(self, names: Sequence[str], layers: Sequence[int] | None) -> None:
        self._tapped = names
        self._layers = layers
        self.names: list[str] = []
        self.kept: list[int] = []

    def __call__(self, network: nn.Module, x: Tensor, zero: Tensor) -> tuple[Tensor, list[Tensor]]:
        states: list[Tensor] = []
        with self._listening(network, zero, states):
            logits = read_logits(network(x))
        return logits, states

    @contextmanager
    def _listening(self, network: nn.Module, zero: Tensor, states: list[Tensor]) -> Iterator[None]:
        handles = [
            network.get_submodule(name).register_forward_hook(self._hook(name, zero, states)) for name in self._tapped
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _hook(self, name: str, zero: Tensor, states: list[Tensor]) -> Callable[[nn.Module, Any, Any], Any]:
        calls = 0

        def hook(module: nn.Module, args: Any, output: Any) -> Any:
            nonlocal calls
            calls += 1
            layer = len(self.names)
            self.names.append(name if calls == 1 else f"{name} (call {calls})")
            first = first_tensor(output)
            if first is None or not first.is_floating_point():
                raise CannotStack(f"module {name} returns no float tensor")
            if self._layers is not None and layer not in self._layers:
                return None
            self.kept.append(layer)
            states.append(first + zero.to(first.dtype))
            # a copy goes on: writing into it leaves the state alone
            return replace_first_tensor(output, states[-1].clone())

        return hook


def _detached(tensors: dict[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    return ((name, tensor.detach()) for name, tensor in tensors.items())
