"""Python values as hashable descriptions: equal only where the values would act alike.

Which networks may be stacked: those that differ in nothing but the values of their parameters and buffers.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from fa_core.measure.isolate import as_written
from fa_core.measure.taps import Taps

_PLAIN = (
    type(None),
    bool,
    int,
    str,
    bytes,
    type(Ellipsis),
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
)
_BY_TEXT = (float, complex, range, slice)
"""Their text tells −0.0 from 0.0, and NaN equals itself in it."""


@dataclass(frozen=True, eq=False)
class Itself:
    """What equals nothing but itself, and stays alive so that nothing takes its place in memory.

    >>> one = object()
    >>> Itself(one) == Itself(one), Itself(one) == Itself(object())
    (True, False)
    """

    value: Any

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Itself) and self.value is other.value

    def __hash__(self) -> int:
        return id(self.value)


def describe(value: Any, known: Mapping[int, str] | None = None, above: tuple[int, ...] = ()) -> Hashable:
    """What `value` is, all the way down.

    Two values with equal descriptions are the same type with the same content: numbers, text, containers,
    functions (code, defaults, closure), plain objects (class and attributes), tensors and arrays (bit by bit).
    What cannot be looked into (locks, generators, classes that pickle in their own way) equals only itself.

    Args:
        value: anything.
        known: id → name of objects that are described by that name: the modules and tensors of a network.
        above: ids of the values that this one is in.

    >>> describe([1, {"a": (2.0, None)}]) == describe([1, {"a": (2.0, None)}])
    True
    >>> describe(1) == describe(True), describe(lambda: 1) == describe(lambda: 2)
    (False, False)
    """
    kind = type(value)
    if kind in _PLAIN:
        return kind, value
    if kind in _BY_TEXT:
        return kind, repr(value)
    if isinstance(value, (type, types.ModuleType)):
        return Itself(value)
    if isinstance(value, Enum):
        return kind, value.name
    known = {} if known is None else known
    if id(value) in known:
        return "named", known[id(value)]
    if id(value) in above:
        return "above", len(above) - above.index(id(value))
    inside = (*above, id(value))

    def within(part: Any) -> Hashable:
        return describe(part, known, inside)

    if isinstance(value, (tuple, list, deque)):
        return kind, tuple(map(within, value)), _attributes(value, within)
    if isinstance(value, dict):
        return kind, tuple((within(key), within(item)) for key, item in value.items()), _attributes(value, within)
    if isinstance(value, (set, frozenset)):
        return kind, frozenset(map(within, value)), _attributes(value, within)
    if isinstance(value, types.FunctionType):
        cells = tuple(map(_cell, value.__closure__ or ()))
        parts = (value.__defaults__, value.__kwdefaults__, cells, value.__dict__)
        return kind, value.__code__, Itself(value.__globals__), tuple(map(within, parts))
    if isinstance(value, types.MethodType):
        return kind, within(value.__func__), within(value.__self__)
    if isinstance(value, partial):
        return kind, tuple(map(within, (value.func, value.args, value.keywords)))
    if kind is types.SimpleNamespace:
        return kind, within(vars(value))
    if isinstance(value, Tensor):
        return _tensor(value)
    if kind.__module__ == "numpy" and hasattr(value, "tobytes") and not value.dtype.hasobject:
        return kind, value.dtype.str, value.shape, value.tobytes()
    return _object(value, within)


def _attributes(container: Any, within: Any) -> Hashable:
    """Of a subclass of a container that has some."""
    found = getattr(container, "__dict__", None)
    return within(found) if found else None


def _cell(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _tensor(value: Tensor) -> Hashable:
    if type(value) not in (Tensor, torch.nn.Parameter) or value.layout != torch.strided or value.is_meta:
        return Itself(value)
    content = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    return Tensor, value.dtype, value.device, tuple(value.shape), content


def _object(value: Any, within: Any) -> Hashable:
    """A plain object: its class and attributes. One that says itself how it is copied may leave something out."""
    kind: Any = type(value)
    plain: Any = object
    custom = any(
        getattr(kind, name, None) is not getattr(plain, name, None)
        for name in ("__reduce__", "__reduce_ex__", "__getstate__")
    )
    if custom:
        return Itself(value)
    try:
        _, arguments, state, *_ = value.__reduce_ex__(4)
    except TypeError:  # it has a state that Python cannot see
        return Itself(value)
    return "object", within(arguments), within(state)


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
    return tuple(_signature_attributes(network))


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


def _signature_attributes(network: nn.Module) -> Iterator[Part]:
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
