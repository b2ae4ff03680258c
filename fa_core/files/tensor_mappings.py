"""Tensors in what `fa_core.files.inert` reads: single ones, every mapping of them, a module's."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from torch import Tensor

from fa_core.files.inert import (
    DTYPES,
    LONGEST_NAME,
    TOO_MANY_OBJECTS,
    NestedFile,
    Placeholder,
    StepBudget,
    Storage,
    zip_entries,
)
from fa_core.files.opening import open_file, size_of
from fa_core.files.torch_file import content_of

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

Contents: TypeAlias = dict[Any, Any]
"""Contents of a container by key or index."""

StateDict: TypeAlias = Mapping[str, Tensor]
"""Tensors by name."""


class OtherKind(str):
    """Kind of a tensor that is not plain and dense, a key of `KINDS` if it is known."""

    __slots__ = ()


class State(dict[str, Any]):
    """A mapping of tensors as a state dict: tensors, kinds of others, extra states of modules.

    Attributes:
        versions: torch's ``_metadata``: a module's path → its version.
    """

    versions: Any = None

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The plain, dense tensors."""
        return {name: value for name, value in self.items() if isinstance(value, Tensor)}

    @property
    def others(self) -> dict[str, str]:
        """What each other tensor is, and how to save it again."""
        kinds = {name: value for name, value in self.items() if isinstance(value, OtherKind)}
        return {
            name: KINDS.get(kind, f"is no plain tensor ({kind})") for name, kind in kinds.items()
        }

    def renamed(self, rename: Callable[[str], str | None]) -> State:
        """The same under other names, those without one left out.

        Versions go with their modules, whose paths are given as ``"blocks.0."``.
        """
        new = State()
        for name, value in self.items():
            renamed = rename(name)
            if renamed is not None:
                new[renamed] = value
        if isinstance(self.versions, dict):
            new.versions = {}
            for path, version in self.versions.items():
                renamed = rename(f"{path}.".removeprefix("."))
                if renamed is not None:
                    new.versions[renamed.removesuffix(".")] = version
        return new

    def below(self, prefix: str) -> State:
        """What has a prefix, without it."""
        return self.renamed(lambda name: name[len(prefix) :] if name.startswith(prefix) else None)


_REBUILDS = re.compile(r"torch\.[\w.]*_rebuild_(\w+)|torch\.nn\.parameter\.(Uninitialized)\w+")
"""Functions of torch that rebuild a tensor, e.g. ``_rebuild_tensor_v2``."""

KINDS = {
    "qtensor": "is quantised; save it again after .dequantize()",
    "sparse_tensor": "is sparse; save it again after .to_dense()",
    "meta_tensor_no_storage": "is on the meta device, without values; save it with them",
    "wrapper_subclass": "is in parts or wrapped; save it after .full_tensor() or .dequantize()",
    "tensor_v2": "is conjugated or negated; save it after .resolve_conj().resolve_neg()",
    "Uninitialized": "is of a lazy layer that never ran; save it after a first pass",
}
"""Tensors that are not plain and dense, and how to save them again."""


def tensor_of(value: object) -> Tensor | None:
    """The plain, dense tensor that a value is or a placeholder describes; None for anything else.

    Raises:
        ValueError: the tensor exceeds its storage.
    """
    if isinstance(value, Placeholder):
        if value.tensor is None:
            value.tensor = _rebuilt(value)
        value = value.tensor
    if isinstance(value, Tensor):
        return value.detach()  # a parameter as torch loads it
    return None


def _rebuilt(value: object) -> Tensor | OtherKind | None:
    """The tensor; its kind if it is not plain and dense; None for what is no tensor."""
    for _ in range(MOST_WRAPPERS):
        if not isinstance(value, Placeholder):
            return None
        match = _REBUILDS.fullmatch(value.name)
        if match is None:
            return None
        kind, args = match[1] or match[2], value.args
        if kind in ("parameter", "parameter_with_state"):
            value = args[0]
        elif kind == "from_type_v2":
            value = Placeholder(args[0].name, args[2])
        else:
            return _dense_tensor(kind, args)
    raise ValueError("a parameter within parameters")


_PARTS = {"tensor": 4, "tensor_v2": 6, "tensor_v3": 7}
"""Arguments of torch's functions that rebuild a dense tensor; those behind conjugate or negate."""


def _dense_tensor(kind: str, args: Sequence[Any]) -> Tensor | OtherKind:
    if kind not in _PARTS:
        return OtherKind(kind)
    if any(extra is not None for extra in args[_PARTS[kind] :]):
        return OtherKind("tensor_v2")
    storage = args[0]
    if isinstance(storage, NestedFile):
        storage = storage.content
    if not isinstance(storage, Storage):
        raise ValueError("a tensor without a storage")
    dtype = None
    if kind == "tensor_v3":
        dtype = DTYPES[args[6].name.removeprefix("torch.")]
    return storage.tensor(dtype, *args[1:4])


def mappings(content: object, size: int) -> dict[str, State]:
    """Every mapping of tensors in a file by its place, e.g. ``""`` or ``"state.model"``.

    A module counts as the mapping that its ``state_dict()`` would give. Optimizer states are left
    out. Of tensors that are too large for their file, only the kind is kept.

    Args:
        content: the unpickled content.
        size: bytes of the file.

    Raises:
        ValueError: tensors that cannot be read.
    """
    found: dict[str, State] = {}
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
        if isinstance(value, Placeholder) and _is_module(held):
            state = _module_state(held, budget)
        else:
            state, deeper = _state_and_containers(held, place, budget)
            if depth < DEPTH:
                waiting += [(name, one, depth + 1) for name, one in deeper]
        state.versions = getattr(value, "_metadata", None)
        taken = sum(tensor.nbytes for tensor in state.tensors.values())
        if taken > REPEATS * size + SLACK:
            state = State(dict.fromkeys(state, OtherKind("larger than its file")))
        if state and found.setdefault(place, state) is not state:
            raise ValueError(f"two of its mappings are called {place[:LONGEST_NAME]!r}")
    return found


def plain_values(path: Path) -> Any:
    """The content of a file of ``torch.save`` as plain values, with its tensors in memory.

    Raises:
        UnreadableInput: it cannot be opened.
        zipfile.BadZipFile, ValueError: no such file, other objects, or more than it
            holds.
    """
    with open_file(path) as file:
        size = size_of(file)
        content, others = content_of(path, file, zip_entries(file))
    if others:
        raise ValueError(f"it makes a {others}")
    room = REPEATS * size + SLACK

    def in_memory(tensor: Tensor) -> Tensor:
        nonlocal room
        room -= tensor.nbytes
        if room < 0:
            raise ValueError("its tensors are larger than the file that holds them")
        return tensor.clone()

    try:
        return plain(content, StepBudget(size), 4 * DEPTH, in_memory)
    except TypeError as error:
        raise ValueError(str(error)) from error


def _state_and_containers(
    held: Contents, place: str, budget: StepBudget
) -> tuple[State, list[tuple[str, object]]]:
    """A container's tensors and extra states, and its containers with their places."""
    state = State()
    deeper: list[tuple[str, object]] = []
    for number, (name, one) in enumerate(held.items()):
        if isinstance(name, str):
            value = _taken(name, one, budget)
            if value is not None:
                state[name] = value
                continue
        if isinstance(one, (dict, list, tuple)) and (one or isinstance(one, Placeholder)):
            label = _label(name, number)
            if place:
                label = f"{place}.{label}"
            deeper.append((label, one))
    return state, deeper


def _taken(name: str, value: object, budget: StepBudget) -> object:
    """What a state dict holds under a name; None for what belongs in none."""
    tensor = tensor_of(value)
    if tensor is not None:
        budget.spend(STEPS_A_TENSOR)
        return tensor
    if isinstance(value, Placeholder) and value.tensor is not None:
        return value.tensor
    if not name.endswith(EXTRA_STATE):
        return None
    try:
        return plain(value, budget)
    except (RecursionError, TypeError):
        return OtherKind("of objects")


def plain(
    value: object,
    budget: StepBudget,
    depth: int = DEPTH,
    of: Callable[[Tensor], Tensor] = Tensor.detach,
) -> object:
    """A value of plain types alone, its tensors built.

    Args:
        value: the value.
        budget: of steps.
        depth: levels of nesting.
        of: what becomes of a tensor.

    Raises:
        TypeError: it holds objects of other types, or is nested too deep.
        ValueError: a tensor exceeds its storage.
    """
    tensor = tensor_of(value)
    if tensor is not None:
        return of(tensor)
    if isinstance(value, Placeholder):
        raise TypeError(f"it holds a {value.name[:LONGEST_NAME]}")
    if not depth:
        raise TypeError("it is nested too deep")
    held = _counted_contents(value, budget)
    if isinstance(value, dict):
        return {key: plain(one, budget, depth - 1, of) for key, one in held.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(plain(one, budget, depth - 1, of) for one in held.values())
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
    # pickle's own state of a class with slots is a pair
    states = value.state[:2] if isinstance(value.state, tuple) else (value.state,)
    for part in (value, *states):
        if isinstance(part, dict):
            twice = (name for name in held.keys() & part.keys() if held[name] is not part[name])
            if any(isinstance(part[name], dict) for name in twice):
                raise ValueError("an object with two values of one name")
            held.update(part)
    return held


def _is_module(held: Contents) -> bool:
    parts = ("_parameters", "_buffers", "_modules")
    return all(isinstance(held.get(part), dict) for part in parts)


def _module_state(module: Contents, budget: StepBudget) -> State:
    """The module's ``state_dict()``, in its order. A module may contain itself.

    Raises:
        ValueError: names so long that the module must contain itself.
    """
    found = State()
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


def _own_tensors(module: Contents, budget: StepBudget) -> State:
    """Parameters and saved buffers of one module, without its children."""
    passing = module.get("_non_persistent_buffers_set")
    if not isinstance(passing, list):
        passing = []
    held = {**module["_parameters"], **module["_buffers"]}
    budget.spend(STEPS_A_TENSOR * len(held))
    budget.spend(len(passing) + len(module["_modules"]))
    unsaved = {name for name in passing if isinstance(name, str)}
    found = State()
    for number, (name, value) in enumerate(held.items()):
        taken = None
        if not (isinstance(name, str) and name in unsaved):
            taken = _taken("", value, budget)
        if taken is not None:
            found[_label(name, number)] = taken
    return found
