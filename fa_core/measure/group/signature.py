"""Which networks may be stacked: those that differ in nothing but the values of their parameters and buffers."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from fa_core.measure.borrow import as_written
from fa_core.measure.group.describe import Itself, describe
from fa_core.measure.taps import Taps

Part = tuple[str, Hashable]
"""Where in the network, and what is there."""

CLASS, PARTS = "(class)", "(parts)"
"""Names of what no attribute of a module can be called: which class it is, and which modules it holds."""

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_OF_EVERY_MODULE = frozenset(nn.Module().__dict__)
"""What torch keeps in every module: hooks and tensors, which are looked at by themselves, and bookkeeping."""


def signature(network: nn.Module, taps: Taps = None) -> Hashable:
    """What has to be equal for networks to be measured together.

    It holds the classes of all modules, every attribute that is no parameter or buffer (numbers, activation
    functions, nested containers, tensors by their content), and name, shape, dtype, device and ties of every
    parameter and buffer. A network that cannot be stacked (see `obstacle`) equals only itself.

    Args:
        network: the network.
        taps: how it will be tapped.

    >>> signature(nn.Linear(2, 2)) == signature(nn.Linear(2, 2)), signature(nn.ELU(1.0)) == signature(nn.ELU(2.0))
    (True, False)
    """
    network = as_written(network)
    if obstacle(network):
        return Itself(network)
    return ("taps", _taps(taps)), *attributes(network), *_contents(network)


def obstacle(network: nn.Module) -> str:
    """Why a network can only be measured by itself; "" where nothing is in the way.

    >>> obstacle(nn.Linear(1, 1)), obstacle(nn.utils.parametrizations.weight_norm(nn.Linear(1, 1)))
    ('', 'the weights of Linear are computed from others (a parametrisation)')
    """
    network = as_written(network)
    devices = set()
    for name, module in network.named_modules():
        label = f"module {name}" if name else "the network"
        if isinstance(module, (torch.jit.ScriptModule, torch.jit.ScriptFunction)):
            return f"{label} is a TorchScript program"
        if parametrize.is_parametrized(module):
            owner = name or type(module).__bases__[0].__name__
            return f"the weights of {owner} are computed from others (a parametrisation)"
        if any(getattr(module, hooks) for hooks in _HOOKS):
            return f"{label} has hooks"
        for tensor in _own(module).values():
            if tensor is not None:
                devices.add(tensor.device)
                if type(tensor) not in (Tensor, nn.Parameter) or tensor.layout != torch.strided:
                    return f"{label} holds a {type(tensor).__name__} that cannot be stacked"
    return "it is spread over several devices" if len(devices) > 1 else ""


def attributes(network: nn.Module) -> tuple[Part, ...]:
    """Classes and attributes of all modules, in the order of registration."""
    return tuple(_attributes(network))


def layout(network: nn.Module) -> tuple[Part, ...]:
    """Kind, shape and ties of all parameters and buffers."""
    return tuple((path, kind) for path, kind, _ in _tensors(network))


def difference(one: Hashable, other: Hashable) -> str:
    """Where two signatures differ first, and for classes and dtypes how; "" where they do not.

    >>> difference(signature(nn.ELU(1.0)), signature(nn.ELU(2.0)))
    'alpha differs'
    >>> difference(signature(nn.Sequential(nn.ReLU())), signature(nn.Sequential(nn.Tanh())))
    '0 is a ReLU, a Tanh in theirs'
    >>> difference(signature(nn.Linear(1, 1).double()), signature(nn.Linear(1, 1)))
    'weight is float64, float32 in theirs'
    """
    if not (isinstance(one, tuple) and isinstance(other, tuple)):
        return "" if one == other else "the network differs"
    theirs = dict(other)
    for name, found in one:
        if name not in theirs or theirs[name] != found:
            return _in_words(name, found, theirs.get(name))
    names = dict(one)
    return next((_in_words(name, None, theirs[name]) for name in theirs if name not in names), "")


def _in_words(name: str, found: Hashable, theirs: Hashable) -> str:
    module, _, kind = name.rpartition(".")
    if kind == PARTS:
        return f"{module or 'the network'} is made of other modules"
    if kind == CLASS and isinstance(found, Itself) and isinstance(theirs, Itself):
        return _classes(module or "the network", found.value, theirs.value)
    return _dtypes(name, found, theirs) or f"{name} differs"


def _classes(module: str, found: type, theirs: type) -> str:
    """What differs where a module is of another class than theirs, though perhaps not of another name."""
    if found.__qualname__ != theirs.__qualname__:
        return f"{module} is a {found.__qualname__}, a {theirs.__qualname__} in theirs"
    maker, local, _ = found.__qualname__.rpartition(".<locals>.")
    hint = f" (define class {found.__name__} outside {maker.replace('.<locals>', '')})" if local else ""
    return f"{module} is of another class of the same name{hint}"


def _dtypes(name: str, found: Hashable, theirs: Hashable) -> str:
    """In words, where nothing but the dtypes of two tensors differ."""
    match found, theirs:
        case ((kind, (torch.dtype() as own, place)), (other, (torch.dtype() as their, there))):
            if (kind, place) == (other, there):
                return f"{name} is {_name(own)}, {_name(their)} in theirs"
    return ""


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _contents(network: nn.Module) -> Iterator[Part]:
    return ((path, (kind, held)) for path, kind, held in _tensors(network))


def _taps(taps: Taps) -> Hashable:
    if taps is None or isinstance(taps, str):
        return taps
    return Itself(taps) if callable(taps) else tuple(taps)


def _own(module: nn.Module) -> dict[str, Tensor | None]:
    return {**module._parameters, **module._buffers}


def _attributes(network: nn.Module) -> Iterator[Part]:
    known = {id(module): name for name, module in network.named_modules()}
    for name, module in network.named_modules():
        known |= {id(tensor): _path(name, key) for key, tensor in _own(module).items() if tensor is not None}
    for name, module in network.named_modules():
        yield _path(name, CLASS), Itself(type(module))
        yield _path(name, PARTS), tuple((key, known.get(id(child))) for key, child in module._modules.items())
        if type(module).train is not nn.Module.train:  # eval() may leave it in training mode
            yield _path(name, "training"), module.training
        for key in sorted(module.__dict__.keys() - _OF_EVERY_MODULE):
            yield _path(name, key), describe(module.__dict__[key], known)


def _tensors(network: nn.Module) -> Iterator[tuple[str, Hashable, Hashable]]:
    """Where, (kind, shape, the first place of the same tensor), (dtype, device)."""
    first: dict[int, str] = {}
    for name, module in network.named_modules():
        for key, tensor in _own(module).items():
            path = _path(name, key)
            if tensor is None:
                yield path, None, None
                continue
            kind = "buffer" if key in module._buffers else "parameter"
            tied_to = first.setdefault(id(tensor), path)
            yield path, (kind, tuple(tensor.shape), tied_to), (tensor.dtype, tensor.device)


def _path(module: str, name: str) -> str:
    return f"{module}.{name}" if module else name
