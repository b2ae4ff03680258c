"""Python values as hashable descriptions: equal only where the values would act alike."""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Any

import torch
from torch import Tensor

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
