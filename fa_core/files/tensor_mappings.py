"""Tensors in the output of `fa_core.files.inert`: single ones, every mapping of them, a module's."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypedDict, TypeGuard

from torch import Tensor

from fa_core.files.inert import (
    DTYPES,
    LONGEST_NAME,
    TOO_MANY_OBJECTS,
    NestedFile,
    Placeholder,
    SafeDict,
    StepBudget,
    Storage,
)

DEPTH = 8
"""Levels of nesting that are searched."""

STEPS_A_CONTAINER = 10
"""Steps of the `StepBudget` for looking into a container."""

STEPS_A_TENSOR = 30
"""Steps of the `StepBudget` for building a tensor."""

REPEATS = 64
SLACK = 1 << 20
"""A mapping's tensors, which may share storages, take at most REPEATS times the bytes of their
file, and SLACK bytes more."""

MOST_WRAPPERS = 4
"""Most nested wrappers of a tensor, such as a parameter or a subclass."""

EXTRA_STATE = "_extra_state"
"""Last part of the name under which torch saves what ``get_extra_state`` of a module gives."""

Contents: TypeAlias = dict[object, object]
"""Contents of a container by key or index."""

StateDict: TypeAlias = Mapping[str, Tensor]
"""Tensors by name."""

Rename: TypeAlias = Callable[[str], "str | None"]
"""New name of a tensor; None = leave it out."""


class Tensors(dict[str, Tensor]):
    """The tensors of a mapping by name, with what else a state dict holds.

    Attributes:
        extra: extra states of modules, as plain data.
        others: kind of each tensor that is not plain and dense, a key of `OTHERS` if it is known.
        versions: torch's ``_metadata``: a module's path → its version.
    """

    def __init__(self, tensors: StateDict | Iterable[tuple[str, Tensor]] = ()) -> None:
        super().__init__(tensors)
        self.extra: dict[str, object] = {}
        self.others: dict[str, str] = {}
        self.versions: Mapping[str, object] | None = None

    @property
    def names(self) -> list[str]:
        """All names."""
        return [*self, *self.extra, *self.others]

    def take(self, name: str, value: object) -> bool:
        """Take a value of a file if it describes a tensor."""
        tensor = tensor_of(value)
        if tensor is not None:
            self[name] = tensor
        elif isinstance(value, Placeholder) and isinstance(value.tensor, str):
            self.others[name] = value.tensor
        else:
            return False
        return True

    def below(self, prefix: str) -> Tensors:
        """Those whose names have a prefix, without it."""
        return self.renamed(lambda name: name[len(prefix) :] if name.startswith(prefix) else None)

    def renamed(self, rename: Rename) -> Tensors:
        """The same under other names; versions go with the names of their modules."""
        new = Tensors(_renamed(self, rename))
        new.extra = _renamed(self.extra, rename)
        new.others = _renamed(self.others, rename)
        if self.versions is not None:
            dotted = {f"{path}.".removeprefix("."): one for path, one in self.versions.items()}
            renamed = _renamed(dotted, rename)
            new.versions = {path.removesuffix("."): one for path, one in renamed.items()}
        return new


def _renamed(held: Mapping[str, Any], rename: Rename) -> dict[str, Any]:
    named = ((rename(name), value) for name, value in held.items())
    return {name: value for name, value in named if name is not None}


class _Module(TypedDict, total=False):
    """Attributes of a pickled `nn.Module`."""

    _parameters: Contents
    _buffers: Contents
    _modules: Contents
    _non_persistent_buffers_set: object


_REBUILDS = re.compile(r"torch\.[\w.]*_rebuild_(\w+)|torch\.nn\.parameter\.(Uninitialized)\w+")
"""Functions of torch that rebuild a tensor, e.g. ``_rebuild_tensor_v2``."""

OTHERS: Mapping[str, tuple[str, str]] = {
    "qtensor": ("quantised", "after .dequantize()"),
    "sparse_tensor": ("sparse", "after .to_dense()"),
    "meta_tensor_no_storage": ("on the meta device, without values", "once its values are loaded"),
    "wrapper_subclass": ("sharded or wrapped", "after .full_tensor() or .dequantize()"),
    "tensor_v2": ("conjugated or negated", "after .resolve_conj().resolve_neg()"),
    "nested_tensor": ("nested", "as one tensor a part"),
    "njt": ("nested", "as one tensor a part"),
    "Uninitialized": ("of a lazy layer that never ran", "after a first forward pass"),
}
"""Kinds of tensors that are not plain and dense: what they are, how to save them again."""


def tensor_of(value: object) -> Tensor | None:
    """The plain, dense tensor that a placeholder describes; None for anything else.

    Raises:
        ValueError: the tensor exceeds its storage.
    """
    if isinstance(value, Placeholder):
        if value.tensor is None:
            value.tensor = _rebuilt(value)
        value = value.tensor
    if isinstance(value, Tensor):
        return value
    return None


def _rebuilt(value: object) -> Tensor | str | None:
    """The tensor; its kind if it is not plain and dense; None for what is no tensor."""
    for _ in range(MOST_WRAPPERS):
        if not isinstance(value, Placeholder):
            return None
        match = _REBUILDS.fullmatch(value.name)
        if match is None:
            return None
        kind = match[1] or match[2]
        if kind in ("parameter", "parameter_with_state"):
            value = value.args[0]
        elif kind == "from_type_v2":
            value = Placeholder(value.args[0].name, value.args[2])
        else:
            return _dense_tensor(kind, value.args)
    raise ValueError("a parameter within parameters")


def _dense_tensor(kind: str, args: Sequence[Any]) -> Tensor | str:
    has_extras = kind == "tensor_v2" and any(args[6:])
    if kind not in ("tensor", "tensor_v2", "tensor_v3") or has_extras:
        return kind
    storage = args[0]
    if isinstance(storage, NestedFile):
        storage = storage.content
    if not isinstance(storage, Storage):
        raise ValueError("a tensor without a storage")
    dtype = None
    if kind == "tensor_v3":
        dtype = DTYPES[args[6].name.removeprefix("torch.")]
    return storage.tensor(dtype, *args[1:4])


def mappings(content: object, size: int) -> dict[str, Tensors]:
    """Every mapping of tensors in a file by its place, e.g. ``""`` or ``"state.model"``.

    A module counts as the mapping that its ``state_dict()`` would give. Optimizer states are left
    out, and mappings too large for their file.

    Args:
        content: the unpickled content.
        size: bytes of the file.

    Raises:
        ValueError: tensors that cannot be read, or all are too large for their file.
    """
    found: dict[str, Tensors] = {}
    too_large = False
    budget = StepBudget(size)
    seen: set[int] = set()
    waiting = deque([("", content, 0)])
    while waiting:
        place, value, depth = waiting.popleft()
        if id(value) in seen:
            continue
        seen.add(id(value))
        held = _counted_contents(value, budget)
        if not held or {"state", "param_groups"} <= held.keys():
            continue
        tensors = Tensors()
        if _is_module(held):
            _take_module(tensors, held, budget)
        else:
            deeper = _take(tensors, held, place, budget)
            if depth < DEPTH:
                waiting += [(name, one, depth + 1) for name, one in deeper]
        if isinstance(value, SafeDict) and isinstance(value.versions, dict):
            tensors.versions = value.versions
        if sum(tensor.nbytes for tensor in tensors.values()) > REPEATS * size + SLACK:
            too_large = True
        elif tensors.names:
            found[place] = tensors
    if too_large and not any(found.values()):
        raise ValueError("its tensors are larger than the file that holds them")
    return found


def _take(
    tensors: Tensors, held: Contents, place: str, budget: StepBudget
) -> list[tuple[str, object]]:
    """Take a container's tensors and extra states.

    Returns:
        its containers with their places.
    """
    deeper: list[tuple[str, object]] = []
    for number, (name, one) in enumerate(held.items()):
        if isinstance(name, str):
            if tensors.take(name, one):
                budget.spend(STEPS_A_TENSOR)
                continue
            if name.endswith(EXTRA_STATE):
                try:
                    tensors.extra[name] = plain(one, budget)
                except TypeError:
                    tensors.others[name] = "an extra state of objects"
                continue
        if isinstance(one, Placeholder) or (one and isinstance(one, (dict, list, tuple))):
            label = _label(name, number)
            if place:
                label = f"{place}.{label}"
            deeper.append((label, one))
    return deeper


def plain(value: object, budget: StepBudget, depth: int = DEPTH) -> object:
    """A value of plain types alone, its tensors built.

    Raises:
        TypeError: it holds objects of other types, or is nested too deep.
        ValueError: a tensor exceeds its storage.
    """
    tensor = tensor_of(value)
    if tensor is not None:
        return tensor
    if isinstance(value, Placeholder) or not depth:
        raise TypeError("it holds objects")
    held = _counted_contents(value, budget)
    if isinstance(value, dict):
        return {key: plain(one, budget, depth - 1) for key, one in held.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(plain(one, budget, depth - 1) for one in held.values())
    return value


def _label(key: object, number: int) -> str:
    """A key as part of a place; the entry's number for keys that are no text or number."""
    if isinstance(key, str):
        return key[:LONGEST_NAME]
    if isinstance(key, (int, float)):
        return str(key)
    return f"#{number}"


def _counted_contents(value: object, budget: StepBudget) -> Contents:
    held = contents_of(value)
    budget.spend(STEPS_A_CONTAINER + len(held))
    return held


def contents_of(value: object) -> Contents:
    """Contents of a container or placeholder by key or index; empty for a tensor and all else.

    Those of a placeholder are its arguments, members, items and states.
    """
    if isinstance(value, (list, tuple)):
        return dict(enumerate(value))
    if not isinstance(value, dict):
        return {}
    if not isinstance(value, Placeholder):
        return value
    if _REBUILDS.fullmatch(value.name):
        return {}
    args = value.args
    if not isinstance(args, (list, tuple)):
        args = ()
    held: Contents = dict(enumerate([*args, *value.members]))
    held.update(value)
    states = (value.state,)
    # pickle's own state of a class with slots is a pair
    if isinstance(value.state, tuple):
        states = value.state[:2]
    for state in states:
        if isinstance(state, dict):
            held.update(state)
    return held


def _is_module(held: Contents) -> TypeGuard[_Module]:
    parts = ("_parameters", "_buffers", "_modules")
    return all(isinstance(held.get(part), dict) for part in parts)


def _take_module(tensors: Tensors, module: _Module, budget: StepBudget) -> None:
    """Take what the module's ``state_dict()`` gives, in its order. A module may contain itself.

    Raises:
        ValueError: names so long that the module must contain itself.
    """
    waiting = [("", module)]
    while waiting:
        prefix, held = waiting.pop()
        if len(prefix) > LONGEST_NAME:
            raise ValueError(TOO_MANY_OBJECTS)
        _take_own(tensors, prefix, held, budget)
        children = []
        for number, (key, child) in enumerate(held["_modules"].items()):
            inner = _counted_contents(child, budget)
            if _is_module(inner):
                children.append((f"{prefix}{_label(key, number)}.", inner))
        waiting += reversed(children)


def _take_own(tensors: Tensors, prefix: str, module: _Module, budget: StepBudget) -> None:
    """Take the parameters and saved buffers of one module, without its children."""
    passing = module.get("_non_persistent_buffers_set")
    if not isinstance(passing, list):
        passing = []
    held = {**module["_parameters"], **module["_buffers"]}
    budget.spend(STEPS_A_TENSOR * len(held) + len(passing) + len(module["_modules"]))
    unsaved = {name for name in passing if isinstance(name, str)}
    for number, (name, value) in enumerate(held.items()):
        if not (isinstance(name, str) and name in unsaved):
            tensors.take(f"{prefix}{_label(name, number)}", value)
