"""Tensors in the output of `safe_unpickle`: single ones, every mapping of them, a module's."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypedDict, TypeGuard

from torch import Tensor

from fa_core.errors import UnreadableInput
from fa_core.files.inert import (
    DTYPES,
    LONGEST_NAME,
    TOO_MANY_OBJECTS,
    NestedFile,
    Placeholder,
    StepBudget,
    Storage,
    opened,
)
from fa_core.files.opening import open_file, size_of

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

_TOO_LARGE = "its tensors are larger than the file that holds them"

MOST_WRAPPERS = 4
"""Most nested wrappers of a tensor, such as a parameter or a subclass."""

StateDict: TypeAlias = Mapping[str, Tensor]
"""Tensors by name."""

Contents: TypeAlias = dict[object, object]
"""Contents of a container by key or index."""


class _Module(TypedDict, total=False):
    """Attributes of a pickled `nn.Module`."""

    _parameters: Contents
    _buffers: Contents
    _modules: Contents
    _non_persistent_buffers_set: object


_REBUILDS = re.compile(r"torch\._(?:utils|tensor)\._rebuild_(\w+)")
"""Functions of torch that rebuild a tensor, e.g. ``_rebuild_tensor_v2``."""


def tensor_of(value: object) -> Tensor | None:
    """The tensor that a placeholder describes; None for anything else.

    Raises:
        UnreadableInput: the tensor is not dense.
        ValueError: the tensor exceeds its storage.
    """
    if isinstance(value, Tensor):
        return value
    if not isinstance(value, Placeholder):
        return None
    if value.tensor is None:
        value.tensor = _rebuilt(value)
    return value.tensor


def _rebuilt(value: object) -> Tensor | None:
    for _ in range(MOST_WRAPPERS):
        if not isinstance(value, Placeholder):
            return None
        match = _REBUILDS.fullmatch(value.name)
        if match is None:
            return None
        kind = match[1]
        if kind in ("parameter", "parameter_with_state"):
            value = value.args[0]
        elif kind == "from_type_v2":
            value = Placeholder(value.args[0].name, value.args[2])
        else:
            return _dense_tensor(kind, value.args)
    raise ValueError("a parameter within parameters")


def _dense_tensor(kind: str, args: Sequence[Any]) -> Tensor:
    has_extras = kind == "tensor_v2" and any(args[6:])
    if kind not in ("tensor", "tensor_v2", "tensor_v3") or has_extras:
        raise UnreadableInput(
            f"holds a tensor that is not plain and dense (_rebuild_{kind})",
            hint="save it again after .dequantize() or .to_dense()",
        )
    storage = args[0]
    if isinstance(storage, NestedFile):
        storage = storage.content
    if not isinstance(storage, Storage):
        raise ValueError("a tensor without a storage")
    dtype = None
    if kind == "tensor_v3":
        dtype = DTYPES[args[6].name.removeprefix("torch.")]
    return storage.tensor(dtype, *args[1:4])


def mappings(content: object, size: int) -> dict[str, StateDict]:
    """Every mapping of tensors in a file by its place, e.g. ``""`` or ``"state.model"``.

    A module counts as the mapping that its ``state_dict()`` would give. Optimizer states are left
    out.

    Args:
        content: the unpickled content.
        size: bytes of the file.

    Raises:
        ValueError: tensors that cannot be read, or are too large for their file.
    """
    found: dict[str, StateDict] = {}
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
        if _is_module(held):
            tensors = _module_tensors(held, budget)
        else:
            tensors, deeper = _tensors_and_containers(held, place, budget)
            if depth < DEPTH:
                waiting += [(name, one, depth + 1) for name, one in deeper]
        if tensors:
            found[place] = tensors
        if sum(tensor.nbytes for tensor in tensors.values()) > REPEATS * size + SLACK:
            raise ValueError(_TOO_LARGE)
    return found


def plain_values(path: Path) -> Any:
    """The content of a file of ``torch.save`` as plain values, with its tensors in memory.

    Raises:
        UnreadableInput: it cannot be opened.
        zipfile.BadZipFile, ValueError: no such file, other objects, or more than it holds.
    """
    with open_file(path) as file:
        size = size_of(file)
        archive = opened(file)
    archive.open_zip()
    budget, room = StepBudget(size), REPEATS * size + SLACK

    def made(value: object) -> object:
        nonlocal room
        tensor = tensor_of(value)
        if tensor is not None:
            room -= tensor.nbytes
            if room < 0:
                raise ValueError(_TOO_LARGE)
            return tensor.clone()
        held = _counted_contents(value, budget)
        if isinstance(value, (list, tuple)):
            return type(value)(map(made, value))
        if isinstance(value, Placeholder):
            raise ValueError(f"it holds a {value.name[:LONGEST_NAME]}")
        if isinstance(value, dict):
            return {key: made(member) for key, member in held.items()}
        return value

    return made(archive.zipped())


def _tensors_and_containers(
    held: Contents, place: str, budget: StepBudget
) -> tuple[dict[str, Tensor], list[tuple[str, object]]]:
    """A container's tensors by name, and its containers with their places."""
    tensors: dict[str, Tensor] = {}
    deeper: list[tuple[str, object]] = []
    for number, (name, one) in enumerate(held.items()):
        tensor = None
        if isinstance(name, str):
            tensor = tensor_of(one)
            if tensor is not None:
                budget.spend(STEPS_A_TENSOR)
                tensors[name] = tensor
                continue
        if isinstance(one, Placeholder) or (one and isinstance(one, (dict, list, tuple))):
            label = _label(name, number)
            if place:
                label = f"{place}.{label}"
            deeper.append((label, one))
    return tensors, deeper


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


def _module_tensors(module: _Module, budget: StepBudget) -> dict[str, Tensor]:
    """The module's ``state_dict()``, in its order. A module may contain itself.

    Raises:
        ValueError: names so long that the module must contain itself.
    """
    found: dict[str, Tensor] = {}
    waiting = [("", module)]
    while waiting:
        prefix, held = waiting.pop()
        if len(prefix) > LONGEST_NAME:
            raise ValueError(TOO_MANY_OBJECTS)
        for name, tensor in _own_tensors(held, budget).items():
            found[f"{prefix}{name}"] = tensor
        children = []
        for number, (key, child) in enumerate(held["_modules"].items()):
            inner = _counted_contents(child, budget)
            if _is_module(inner):
                children.append((f"{prefix}{_label(key, number)}.", inner))
        waiting += reversed(children)
    return found


def _own_tensors(module: _Module, budget: StepBudget) -> dict[str, Tensor]:
    """Parameters and saved buffers of one module, without its children."""
    passing = module.get("_non_persistent_buffers_set")
    if not isinstance(passing, list):
        passing = []
    held = {**module["_parameters"], **module["_buffers"]}
    budget.spend(STEPS_A_TENSOR * len(held) + len(passing) + len(module["_modules"]))
    unsaved = {name for name in passing if isinstance(name, str)}
    found = {}
    for number, (name, value) in enumerate(held.items()):
        if isinstance(name, str) and name in unsaved:
            continue
        tensor = tensor_of(value)
        if tensor is not None:
            found[_label(name, number)] = tensor
    return found
