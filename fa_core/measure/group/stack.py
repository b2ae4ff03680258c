"""N networks as one: which of them may be stacked, their tensors stacked, and what can be run on them.

Networks may be stacked that differ in nothing but the values of their parameters and buffers. Stacked networks all
run the code and the attributes of the first one, so that a difference elsewhere would give wrong numbers without an
error. What cannot be compared counts as different: such a network is measured by itself.

N networks of any one class as one: `torch.func` runs the code of the first on the stacked tensors of all.

N residual MLPs as one: a wide first product, then one batched product per layer.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext
from dataclasses import is_dataclass
from itertools import chain
from types import FunctionType
from typing import Any, NamedTuple, TypeAlias, TypeGuard, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap
from torch.nn import functional as F
from torch.nn.utils import parametrize
from torch.utils._python_dispatch import TorchDispatchMode

from fa_core.measure.fused import pair, placed
from fa_core.measure.graph import backward_functions, graph_nodes
from fa_core.measure.isolate import answer, borrow, rows, target_dtype
from fa_core.measure.resolve import resolve_taps
from fa_core.measure.taps import (
    Stream,
    StreamFunction,
    Taps,
    match_modules,
    module_dtypes,
    own_stream,
    read_logits,
    tapped_outputs,
)
from fa_core.models.residual_mlp import ResidualMLP, ResMLP, StudentNet, WideResMLP

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_OF_EVERY_MODULE = frozenset(nn.Module().__dict__)
"""What torch keeps in every module: hooks and tensors, which are looked at by themselves, and bookkeeping."""

Names = dict[int, str]
"""id of a module or tensor of a network → its dotted name."""


class _Slot(NamedTuple):
    """All of a parameter or buffer but its values; ``tied_to`` names the first place of the same tensor."""

    dtype: str
    is_buffer: bool
    shape: torch.Size
    device: torch.device
    tied_to: str


_BY_TEXT = (int, float, complex, str, bytes, range, slice, torch.device, torch.Size, _Slot)
"""Values whose text holds all of them; −0.0 differs from 0.0 in it, and NaN equals itself."""


def obstacle(network: nn.Module) -> str:
    """Why a network can only be measured by itself; "" where nothing is in the way.

    >>> obstacle(nn.Linear(1, 1)), obstacle(nn.utils.parametrizations.weight_norm(nn.Linear(1, 1)))
    ('', 'the weights of Linear are computed from others (a parametrisation)')
    """
    devices = set()
    for name, module in network.named_modules():
        label = f"module {name}" if name else "the network"
        if isinstance(module, torch.jit.ScriptModule):
            return f"{label} is a TorchScript program"
        if parametrize.is_parametrized(module):
            owner = name or type(module).__bases__[0].__name__
            return f"the weights of {owner} are computed from others (a parametrisation)"
        if any(getattr(module, hooks) for hooks in _HOOKS):
            return f"{label} has hooks"
        for tensor in filter(torch.is_tensor, _tensors(module).values()):
            devices.add(tensor.device)
            if type(tensor) not in (Tensor, nn.Parameter) or tensor.layout != torch.strided:
                return f"{label} holds a {type(tensor).__name__} that cannot be stacked"
    return "it is spread over several devices" if len(devices) > 1 else ""


def difference(one: nn.Module, other: nn.Module) -> str:
    """What keeps two networks from being stacked, the first thing found; "" where nothing does.

    >>> difference(nn.Linear(2, 2), nn.Linear(2, 2)), difference(nn.ELU(1.0), nn.ELU(2.0))
    ('', 'alpha differs')
    >>> difference(nn.Sequential(nn.ReLU()), nn.Sequential(nn.Tanh()))
    '0 is a ReLU, a Tanh in theirs'
    >>> difference(nn.Linear(1, 1).double(), nn.Linear(1, 1))
    'weight is float64, float32 in theirs'
    """
    ours, theirs, twins = _names(one), _names(other), dict(other.named_modules())
    for name, module in one.named_modules():
        label, twin = name or "the network", twins[name]
        if type(module) is not type(twin):
            return _classes(label, type(module), type(twin))
        if not _alike(dict(module._modules), dict(twin._modules), ours, theirs):
            return f"{label} is made of other modules"
        mine, its = _contents(module, ours), _contents(twin, theirs)
        for key in {**mine, **its}:
            path, value, expected = _path(name, key), mine.get(key, _HOOKS), its.get(key, _OF_EVERY_MODULE)
            if not _alike(value, expected, ours, theirs):
                if isinstance(value, _Slot) and isinstance(expected, _Slot) and value[1:] == expected[1:]:
                    return f"{path} is {value.dtype}, {expected.dtype} in theirs"
                return f"{path} differs"
    return ""


def _classes(label: str, found: type, theirs: type) -> str:
    """What differs where a module is of another class than theirs, though perhaps not of another name."""
    if found.__qualname__ != theirs.__qualname__:
        return f"{label} is a {found.__qualname__}, a {theirs.__qualname__} in theirs"
    maker, local, _ = found.__qualname__.rpartition(".<locals>.")
    hint = f" (define class {found.__name__} outside {maker.replace('.<locals>', '')})" if local else ""
    return f"{label} is of another class of the same name{hint}"


def _path(module: str, name: str) -> str:
    return f"{module}.{name}" if module else name


def _tensors(module: nn.Module) -> dict[str, Any]:
    return {**module._parameters, **module._buffers}


def _names(network: nn.Module) -> Names:
    found = {id(module): name for name, module in network.named_modules()}
    for name, module in network.named_modules():
        for key, tensor in _tensors(module).items():
            if tensor is not None:
                found.setdefault(id(tensor), _path(name, key))
    return found


def _contents(module: nn.Module, names: Names) -> dict[str, Any]:
    """A module's attributes, and what it holds under the name of each parameter and buffer."""
    # eval() may leave a module with a train() of its own in training mode
    ignored = _OF_EVERY_MODULE - (set() if type(module).train is nn.Module.train else {"training"})
    found = {key: value for key, value in sorted(vars(module).items()) if key not in ignored}
    for key, t in _tensors(module).items():
        dtype = str(getattr(t, "dtype", "")).removeprefix("torch.")
        found[key] = t if t is None else _Slot(dtype, key in module._buffers, t.shape, t.device, names[id(t)])
    return found


def _alike(one: Any, other: Any, ours: Names, theirs: Names) -> bool:
    """Whether two values act alike: the same place in a network, the same object, or equal all the way down."""
    if id(one) in ours or id(other) in theirs:
        return ours.get(id(one)) == theirs.get(id(other))
    if one is other or type(one) is not type(other):
        return one is other
    if type(one) in _BY_TEXT:
        return repr(one) == repr(other)
    try:
        if type(one) is Tensor:
            return one.dtype == other.dtype and one.device == other.device and torch.equal(one, other)
        pairs = zip(_parts(one), _parts(other), strict=True)
        return all(_alike(a, b, ours, theirs) for a, b in pairs)
    except (TypeError, ValueError, RuntimeError):  # a recursion without end is a RuntimeError
        return False


def _parts(value: Any) -> list[Any]:
    """What decides how a container, a function or a data class acts.

    Raises:
        TypeError: it is something else.
        ValueError: a closure that is not filled yet.
    """
    if type(value) in (list, tuple):
        return list(value)
    if type(value) is dict:
        return [*value, *value.values()]
    if isinstance(value, FunctionType):
        inside = [cell.cell_contents for cell in value.__closure__ or ()]
        return [value.__code__, value.__globals__, value.__defaults__, value.__kwdefaults__, inside]
    if is_dataclass(value) and not isinstance(value, Collection):
        return [vars(value)]
    raise TypeError(f"a {type(value).__name__} cannot be compared")


class CannotStack(Exception):
    """These networks do not run together, whatever the reason; each by itself they may."""


def stack_tensors(networks: Sequence[nn.Module], dtype: torch.dtype | None = None) -> dict[str, Tensor]:
    """Parameters and buffers by name, each (N, ...), outside any graph.

    Args:
        networks: that `difference` finds alike.
        dtype: what floating-point tensors are converted to; None = they stay as they are.
    """
    named = [dict(chain(net.named_parameters(), net.named_buffers())) for net in networks]
    return {name: torch.stack([_converted(tensors[name], dtype) for tensors in named]) for name in named[0]}


def skeleton(network: nn.Module) -> nn.Module:
    """A copy of a network's code and attributes, in eval mode, with tensors that hold nothing.

    A tensor that is missing in the stack then raises, where the first network's own would be used for all.

    Raises:
        CannotStack: it cannot be copied.
    """
    empty: dict[int, Any] = {id(tensor): torch.empty_like(tensor, device="meta") for tensor in network.buffers()}
    for parameter in network.parameters():
        empty[id(parameter)] = nn.Parameter(torch.empty_like(parameter, device="meta"), requires_grad=False)
    try:
        return copy.deepcopy(network, empty).eval()
    except Exception as error:
        raise CannotStack(f"it cannot be copied ({type(error).__name__})") from error


def _converted(tensor: Tensor, dtype: torch.dtype | None) -> Tensor:
    return tensor.detach().to(dtype) if dtype and tensor.is_floating_point() else tensor.detach()


Run = Callable[[nn.Module, Tensor, Tensor], tuple[Tensor, list[Tensor]]]
"""``(one member's network, x, zero) -> (logits, states)``, inside vmap."""

_SLOW = ".*batching rule.*"
"""What torch warns of where it would run the members one after the other, and copy them together."""


class FunctionalStack:
    """The first network's code on the tensors of all; gradients are taken outside vmap.

    Each tapped module's output h becomes h + z with a zero z per member, which is where the gradient is read:
    so a state that does not depend on the member, or that is overwritten in place later, has one of its own.
    States that the network returns are read where they are; if they do not depend on the member, x + z does.

    Args:
        networks: that `difference` finds alike.
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
        if layers is None and backward_functions(graph_nodes(found.logits)):
            raise CannotStack("part of its backward pass is its own")
        return found

    def logits(self, x: Tensor) -> Tensor:
        run = self._returned if self._own_function else lambda net, x, zero: (read_logits(net(x)), [])
        with torch.no_grad():
            return self._run(run, self._tensors, x.clone())[0]

    def _by_modules(self, x: Tensor, layers: Sequence[int] | None) -> Stream:
        assert self._patterns is not None
        recorder = _MemberTaps(self._patterns, layers)
        logits, states = self._run(recorder, self._tensors, x.detach().clone())
        at = dict(zip(recorder.kept, states, strict=True))
        # layers whose gradient is not wanted are counted, not shown
        hidden = [at.get(layer, logits) for layer in range(len(recorder.names))]
        edges = [at.get(layer) for layer in range(len(recorder.names))]
        return Stream(logits, hidden, edges, recorder.names, dtypes=recorder.dtypes)

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
            fresh = {name: t.detach() for name, t in tensors.items()}
            tensors = {name: t.requires_grad_() if t.is_floating_point() else t for name, t in fresh.items()}
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


class _MemberTaps:
    """Runs a network and collects the outputs of named modules, with a zero of the member's added to each."""

    def __init__(self, modules: Sequence[str], layers: Sequence[int] | None) -> None:
        self._modules, self._layers = modules, layers
        self.names: list[str] = []
        self.kept: list[int] = []
        self.dtypes: set[torch.dtype] = set()

    def __call__(self, network: nn.Module, x: Tensor, zero: Tensor) -> tuple[Tensor, list[Tensor]]:
        states: list[Tensor] = []

        def tap(name: str, state: Tensor) -> Tensor:
            layer = len(self.names)
            self.names.append(name)
            if self._layers is not None and layer not in self._layers:
                return state
            self.kept.append(layer)
            states.append(state + zero.to(state.dtype))
            # a copy goes on: writing into it leaves the state alone
            return states[-1].clone()

        looking = nullcontext() if self._layers is not None else module_dtypes(network, self.dtypes)
        with tapped_outputs(network, self._modules, tap), looking:
            logits = read_logits(network(x))
        return logits, states


def is_residual_mlp(network: nn.Module) -> TypeGuard[ResidualMLP]:
    """Whether a network is a residual MLP exactly as built here, in one floating-point dtype.

    >>> is_residual_mlp(ResMLP(4, 8, L=1)), is_residual_mlp(nn.Linear(1, 1))
    (True, False)
    """
    dtypes = {tensor.dtype for tensor in network.state_dict().values()}
    if not isinstance(network, (ResMLP, WideResMLP, StudentNet)) or len(dtypes) != 1:
        return False
    try:
        with torch.device("meta"):
            fresh = type(network)(**network.arch_args).to(dtypes.pop())
    except TypeError:  # arguments that cannot be meant
        return False
    return not difference(skeleton(network), fresh)


class ResidualStack:
    """h_0 = x·[W_1 … W_N] in one product; then h_{l+1} = h_l + f_l(h_l), one batched product per linear layer.

    Args:
        networks: residual MLPs of one signature.
        dtype: what they are computed in; None = their own.
    """

    def __init__(self, networks: Sequence[ResidualMLP], dtype: torch.dtype | None = None) -> None:
        first = networks[0]
        self._members = len(networks)
        self._tensors = stack_tensors(networks, dtype)
        self._inputs = first.input_shape[0]
        self._depth = first.n_blocks
        self._inner, self._outer, self._head = first.block.inner, first.block.outer, first.last
        self._block_norm = getattr(first.blocks[0], "ln", None) if first.n_blocks else None
        self._out_norm = first.out_ln if isinstance(first.out_ln, nn.LayerNorm) else None

    def forward(self, x: Tensor, layers: Sequence[int] | None = None) -> Stream:
        start = 0 if layers is None else min(layers)
        with torch.no_grad():
            hidden = [self._embed(x)]
            for l in range(start):
                hidden.append(self._advance(l, hidden[-1]))
        # nothing is differentiated by what lies below
        hidden[-1].requires_grad_()
        for l in range(start, self._depth):
            hidden.append(self._advance(l, hidden[-1]))
        logits = self._readout(hidden[-1])
        wanted = range(len(hidden)) if layers is None else layers
        edges = [h if l in wanted else None for l, h in enumerate(hidden)]
        return Stream(logits, hidden, edges, [f"h_{l}" for l in range(len(hidden))])

    def logits(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            h = self._embed(x)
            for l in range(self._depth):
                h = self._advance(l, h)
            return self._readout(h)

    def _embed(self, x: Tensor) -> Tensor:
        """(B, ...) → (N, B, d)."""
        if x.dim() < 2 or x.shape[1:].numel() != self._inputs:
            raise CannotStack(f"samples of shape {tuple(x.shape[1:])}")
        weight, bias = self._tensors["embed.weight"], self._tensors["embed.bias"]
        wide = F.linear(x.reshape(len(x), -1), weight.flatten(0, 1), bias.flatten())
        return wide.view(len(x), self._members, -1).transpose(0, 1).contiguous()

    def _advance(self, l: int, h: Tensor) -> Tensor:
        at = f"blocks.{l}"
        u = h if self._block_norm is None else self._normed(h, f"{at}.ln", self._block_norm)
        return h + self._linear(F.gelu(self._linear(u, f"{at}.{self._inner}")), f"{at}.{self._outer}")

    def _readout(self, h: Tensor) -> Tensor:
        return self._linear(h if self._out_norm is None else self._normed(h, "out_ln", self._out_norm), self._head)

    def _linear(self, h: Tensor, name: str) -> Tensor:
        """(N, B, i) → (N, B, o)."""
        return torch.baddbmm(self._tensors[f"{name}.bias"][:, None], h, self._tensors[f"{name}.weight"].mT)

    def _normed(self, h: Tensor, name: str, like: nn.Module) -> Tensor:
        assert isinstance(like, nn.LayerNorm)
        plain = F.layer_norm(h, like.normalized_shape, eps=like.eps)
        return torch.addcmul(self._tensors[f"{name}.bias"][:, None], plain, self._tensors[f"{name}.weight"][:, None])


Stack: TypeAlias = FunctionalStack | ResidualStack
"""N networks that run together; all that comes out has the members as its first axis.

``forward``: run once on x (B, ...): logits (N, B, C), states (N, B, ...); ``layers`` as for `Tapped`.
``logits``: what the networks answer, (N, B, C), without a graph.
"""


def make_stack(networks: Sequence[nn.Module], taps: Taps = None, dtype: torch.dtype | None = None) -> Stack:
    """N networks as one: built-in residual MLPs layer by layer, others through `torch.func`.

    Args:
        networks: at least two, as written (see `as_written`), that differ in their tensors alone.
        taps: as for `diagnose`.
        dtype: what they are computed in; None = their own.

    Raises:
        CannotStack, TapError: see `FunctionalStack`.
    """
    if taps is None and is_residual_mlp(networks[0]):
        return ResidualStack(cast(Sequence[ResidualMLP], networks), dtype)
    return FunctionalStack(networks, taps, dtype)


def bytes_per_member(network: nn.Module, batches: Sequence[Any], test_batch: int) -> int:
    """Memory that measuring `network` in a group takes; free memory divided by it is the size of a group.

        weights: as they are and once more in the stack;
        + max(2·A·B, 4·M·T): A = bytes that one sample's forward pass makes, kept for the backward pass and once
          more for its gradients; M = the largest of its tensors; B, T = samples per eval and test batch.

    Found by running one sample; an estimate, on the safe side. The samples themselves are shared, and not in it.

    Args:
        network: on its device.
        batches: eval batches.
        test_batch: T.
    """
    tensors = [*network.parameters(), *network.buffers()]
    held = sum(tensor.nbytes for tensor in tensors)
    target = target_dtype(network)
    stacked = sum(t.numel() * (target.itemsize if target and t.is_floating_point() else t.itemsize) for t in tensors)
    made = _Made()
    try:
        with borrow(network) as net, torch.no_grad():
            sample = rows(placed(batches[0], 0, net)[0], slice(1))
            with made:
                answer(net.model, sample)
    except Exception:
        # what it needs will show when it is measured, if it can be
        pass
    largest = max((len(pair(batch, 0)[1]) for batch in batches), default=0)
    return held + stacked + max(2 * sum(made.sizes) * largest, 4 * max(made.sizes, default=0) * test_batch)


class _Made(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sizes in bytes of the tensors that operations made; views are none."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.sizes: list[int] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {t.untyped_storage().data_ptr() for t in args if isinstance(t, Tensor)}
        output = func(*args, **(kwargs or {}))
        for tensor in output if isinstance(output, (tuple, list)) else (output,):
            if isinstance(tensor, Tensor) and tensor.untyped_storage().data_ptr() not in given:
                self.sizes.append(tensor.nbytes)
        return output
