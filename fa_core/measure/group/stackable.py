"""Which networks may be stacked: those that differ in nothing but the values of their parameters and buffers.

Stacked networks all run the code and the attributes of the first one, so that a difference elsewhere would give
wrong numbers without an error. What cannot be compared counts as different: such a network is measured by itself.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import is_dataclass
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

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
