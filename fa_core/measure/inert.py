"""Pickles read as data: nothing that a file names is imported or called, and no attribute is set for it.

Numbers, texts and plain containers come out as they are, sets as lists. Every other object becomes a `Placeholder`
that keeps what the file says of it. Tensors are made of placeholders afterwards, with their storages mapped from the
file: those that are never asked for cost nothing.
"""

from __future__ import annotations

import io
import mmap
import pickle
import re
import struct
import zipfile
from collections import deque
from collections.abc import Iterator, Mapping
from typing import IO, Any, TypeAlias

import torch
from torch import Tensor

Data: TypeAlias = "mmap.mmap | bytearray"

DTYPES = {name: kind for name, kind in vars(torch).items() if isinstance(kind, torch.dtype)}

STORAGES = {f"{name.title()}Storage": DTYPES[name] for name in ("double", "float", "half", "long", "int", "short")} | {
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "UntypedStorage": torch.uint8,
    "BoolStorage": torch.bool,
    "BFloat16Storage": torch.bfloat16,
    "ComplexFloatStorage": torch.complex64,
    "ComplexDoubleStorage": torch.complex128,
}
"""torch's storage class → the kind of its elements."""

EXPORTED_TABLE = "data/weights/model_weights_config.json"
"""Where torch.export lists the weights of a program."""

EXPORTED = {
    **dict(enumerate(["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"], 1)),
    12: "bool",
    13: "bfloat16",
}
"""Number of a kind of elements in torch.export's tables → its name."""

DEPTH, MOST_MODULES, MOST_TENSORS, LONGEST_NAME = 8, 100_000, 1_000_000, 1000
"""How deep mappings are looked for, and what no network reaches: a module may contain itself."""

REPEATS, SLACK = 64, 1 << 20
"""A mapping's tensors may be this many times as large as their file, and some bytes more: they may share storages."""


class Placeholder:
    """What a pickle would import, call or make.

    Attributes:
        name: ``module.name`` of the global it is, or was made by.
        args: what that would have been called with.
        state: what its attributes would have been set from.
        items: what would have been put into it by key.
        members: what would have been appended to it.
    """

    __slots__ = ("args", "items", "members", "name", "state")

    def __init__(self, name: str, args: Any = ()) -> None:
        self.name, self.args = name, args
        self.state: Any = None
        self.items: dict[Any, Any] = {}
        self.members: list[Any] = []

    def inside(self) -> dict[Any, Any]:
        """Everything that it holds, by name."""
        parts = self.state if isinstance(self.state, tuple) else (self.state,)
        found = dict(enumerate([*self.args, *self.members])) if isinstance(self.args, (tuple, list)) else {}
        for part in (self.items, *parts):
            found |= part if isinstance(part, dict) else {}
        return found


class _Storage:
    """A storage that is mapped when it is asked for; only its place is known."""

    def __init__(self, archive: Archive, pid: tuple[Any, ...]) -> None:
        _, kind, key, _, count, *view = pid
        self.archive, self.key, self.kind = archive, _checked(key), kind.name.rpartition(".")[2]
        self.first, self.count = view[0][1:] if view and view[0] else (0, count)
        archive.kinds[self.key] = self.kind

    def tensor(self, dtype: torch.dtype | None, offset: Any, size: Any, stride: Any) -> Tensor:
        """A view of it, of its own kind of elements if none is given.

        Raises:
            ValueError: the file has less of it than the pickle says, or the view reaches beyond it.
        """
        own = STORAGES[self.kind]
        (start, length), first, count = (
            self.archive.places[self.key],
            self.first * own.itemsize,
            self.count * own.itemsize,
        )
        if not 0 <= first <= first + count <= length:
            raise ValueError(f"storage {self.key} has {length} bytes, and {first + count} are asked for")
        return self.archive.view((start + first, count), dtype or own, offset, size, stride)


def _checked(key: Any) -> str:
    if not isinstance(key, (str, int)):
        raise pickle.UnpicklingError(f"a storage is called by a {type(key).__name__}")
    return str(key)


class Archive:
    """A file, or a part of one, with the places of its storages.

    Attributes:
        memory: (n,) uint8, its bytes, mapped.
        places: a storage's key, or an entry's name → first byte and length.
        kinds: a storage's key → its class, in `STORAGES`.
    """

    def __init__(self, data: Data) -> None:
        self.data = data
        self.memory = torch.frombuffer(data, dtype=torch.uint8)
        self.places: dict[str, tuple[int, int]] = {}
        self.kinds: dict[str, str] = {}

    def open_zip(self) -> None:
        """Find the entries of a zip archive; compressed ones, which torch never writes, are left out.

        Raises:
            zipfile.BadZipFile: it is none, or was written where numbers begin with their last byte.
        """
        for entry in zipfile.ZipFile(self._file()).infolist():
            at = entry.header_offset
            start = at + 30 + sum(struct.unpack("<HH", self.data[at + 26 : at + 30]))
            if not entry.compress_type and 0 <= start <= start + entry.file_size <= len(self.data):
                self.places[entry.filename.partition("/")[2] or entry.filename] = start, entry.file_size
        if "byteorder" in self.places and self.entry("byteorder") != b"little":
            raise zipfile.BadZipFile("written on a big-endian machine")

    def entry(self, name: str) -> bytes:
        """The bytes of an entry."""
        start, length = self.places[name]
        return bytes(self.data[start : start + length])

    def view(self, place: tuple[int, int], dtype: torch.dtype, offset: int, size: Any, stride: Any) -> Tensor:
        """A tensor over some bytes.

        Args:
            place: the first byte, and how many.
            dtype: the kind of its elements.
            offset: the number of its first element among those bytes.
            size: its shape.
            stride: as many.

        Raises:
            ValueError: it reaches beyond those bytes, or they beyond the file.
        """
        if len(size) != len(stride) or any(type(n) is not int or n < 0 for n in (offset, *size, *stride)):
            raise ValueError("a tensor's sizes or strides are no counts")
        start, end = place[0], sum(place)
        last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        if end > len(self.data) or (all(size) and (last + 1) * dtype.itemsize > place[1]):
            raise ValueError(f"a tensor of shape {tuple(size)} reaches out of its storage")
        storage = self.memory.untyped_storage()[start:end]
        if start % dtype.itemsize:
            storage = storage.clone()
        return torch.empty(0, dtype=dtype).set_(storage, offset if all(size) else 0, size, stride)

    def zipped(self) -> Any:
        """What ``torch.save`` put into an opened archive."""
        content = self._unpickled(io.BytesIO(self.entry("data.pkl")))
        self.places = {name.removeprefix("data/"): place for name, place in self.places.items()}
        return content

    def pickled(self) -> Any:
        """What a bare pickle holds, or torch's old format: magic number, version, system, content, then storages."""
        file = self._file()
        content = self._unpickled(file)
        if content != torch.serialization.MAGIC_NUMBER:
            return content
        _, system, content, keys = (self._unpickled(file) for _ in range(4))
        if not system["little_endian"]:
            raise ValueError("written on a big-endian machine")
        for key in keys:
            (count,) = struct.unpack("<q", file.read(8))
            length = count * STORAGES[self.kinds[_checked(key)]].itemsize
            self.places[_checked(key)] = file.tell(), length
            file.seek(length, io.SEEK_CUR)
        return content

    def exported(self) -> dict[str, Tensor]:
        """The weights that ``torch.export.save`` put into an opened archive: a table of them, and raw bytes."""
        import json

        found = {}
        for name, entry in json.loads(self.entry(EXPORTED_TABLE))["config"].items():
            meta = entry["tensor_meta"]
            if entry["use_pickle"]:
                raise ValueError(f"{name} is no plain tensor")
            place = self.places[f"data/weights/{entry['path_name']}"]
            size, stride = ([n["as_int"] for n in meta[kind]] for kind in ("sizes", "strides"))
            dtype, first = DTYPES[EXPORTED[meta["dtype"]]], meta["storage_offset"]["as_int"]
            found[name] = self.view(place, dtype, first, size, stride)
        return found

    def _file(self) -> Any:
        return self.data if isinstance(self.data, mmap.mmap) else io.BytesIO(self.data)

    def _unpickled(self, file: Any) -> Any:
        return _Unpickler(file, self).load()


def _made(func: Any, args: Any) -> Any:
    """What stands for the result of a call."""
    if not isinstance(func, Placeholder):
        raise pickle.UnpicklingError(f"it calls a {type(func).__name__}")
    if func.name == "collections.OrderedDict":
        made: dict[Any, Any] = {}
        _store(made, [part for pairs in args for name, value in pairs for part in (name, value)])
        return made
    if func.name in _SETS:
        return [*args[0]] if args else []
    return Placeholder(func.name, args)


_SETS = {f"{module}.{kind}" for module in ("builtins", "__builtin__") for kind in ("set", "frozenset")}
_PLAIN = (str, int, float, bytes, type(None), Placeholder)


def _store(target: Any, pairs: list[Any]) -> None:
    items = target.items if isinstance(target, Placeholder) else target
    if not isinstance(items, dict):
        raise pickle.UnpicklingError(f"it puts keys into a {type(items).__name__}")
    for key, value in zip(pairs[::2], pairs[1::2], strict=True):
        # hashing tuples within tuples without end would end the process
        plain = isinstance(key, _PLAIN) or (type(key) is tuple and all(isinstance(part, _PLAIN) for part in key))
        items[key if plain else Placeholder("key", (key,))] = value


def _extend(target: Any, members: list[Any]) -> None:
    held = target.members if isinstance(target, Placeholder) else target
    if not isinstance(held, list):
        raise pickle.UnpicklingError(f"it appends to a {type(held).__name__}")
    held += members


# Python's own, in Python: the one in C takes sizes that a file states as they are, up to all memory
class _Unpickler(pickle._Unpickler):  # type: ignore[name-defined,misc]
    def __init__(self, file: IO[bytes], archive: Archive) -> None:
        super().__init__(file, encoding="latin1")
        self._archive = archive

    def find_class(self, module: str, name: str) -> Placeholder:
        return Placeholder(f"{module}.{name}")

    def get_extension(self, code: int) -> None:
        self.append(Placeholder(f"copyreg.{code}"))

    def persistent_load(self, pid: Any) -> Any:
        # torch's old format has the source of a module's class next to the class
        return pid[1] if pid[0] == "module" else _Storage(self._archive, pid)

    def _instantiate(self, klass: Any, args: Any) -> None:
        self.append(_made(klass, args))

    def _reduce(self) -> None:
        args, func = self.stack.pop(), self.stack.pop()
        self.append(_made(func, args))

    def _reduce_ex(self) -> None:
        keywords, args, func = self.stack.pop(), self.stack.pop(), self.stack.pop()
        self.append(_made(func, (*args, keywords)))

    def _build(self) -> None:
        state = self.stack.pop()
        if isinstance(self.stack[-1], Placeholder):
            self.stack[-1].state = state

    def _empty_list(self) -> None:
        self.append([])

    def _list(self) -> None:
        self.append(self.pop_mark())

    def _append(self) -> None:
        value = self.stack.pop()
        _extend(self.stack[-1], [value])

    def _appends(self) -> None:
        members = self.pop_mark()
        _extend(self.stack[-1], members)

    def _dict(self) -> None:
        pairs = self.pop_mark()
        self.append({})
        _store(self.stack[-1], pairs)

    def _setitem(self) -> None:
        value, key = self.stack.pop(), self.stack.pop()
        _store(self.stack[-1], [key, value])

    def _setitems(self) -> None:
        pairs = self.pop_mark()
        _store(self.stack[-1], pairs)

    dispatch = pickle._Unpickler.dispatch | {  # type: ignore[attr-defined]
        ord(opcode): does
        for opcode, does in {
            pickle.REDUCE: _reduce,
            pickle.NEWOBJ: _reduce,
            pickle.NEWOBJ_EX: _reduce_ex,
            pickle.BUILD: _build,
            pickle.APPEND: _append,
            pickle.APPENDS: _appends,
            pickle.DICT: _dict,
            pickle.SETITEM: _setitem,
            pickle.SETITEMS: _setitems,
            pickle.EMPTY_SET: _empty_list,
            pickle.ADDITEMS: _appends,
            pickle.FROZENSET: _list,
            # takes memory for as many bytes as it states
            pickle.BYTEARRAY8: pickle._Unpickler.load_binbytes8,  # type: ignore[attr-defined]
        }.items()
    }


_REBUILDS = re.compile(r"torch\._(?:utils|tensor)\._rebuild_(\w+)")


def tensor_of(value: Any) -> Tensor | None:
    """The tensor that a placeholder stands for; None for anything else.

    Raises:
        ValueError: a tensor that is not dense, or reaches out of its storage.
    """
    if isinstance(value, Tensor):
        return value
    match = _REBUILDS.fullmatch(value.name) if isinstance(value, Placeholder) else None
    if match is None:
        return None
    kind, args = match[1], value.args
    if kind in ("parameter", "parameter_with_state"):
        return tensor_of(args[0])
    if kind == "from_type_v2":
        return tensor_of(Placeholder(args[0].name, args[2]))
    if kind not in ("tensor", "tensor_v2", "tensor_v3") or (kind == "tensor_v2" and len(args) > 6 and args[6]):
        raise ValueError(f"a tensor that is not plain and dense (rebuild_{kind})")
    dtype = DTYPES[args[6].name.removeprefix("torch.")] if kind == "tensor_v3" else None
    return _storage_of(args[0]).tensor(dtype, *args[1:4])


def _storage_of(value: Any) -> _Storage:
    if isinstance(value, Placeholder) and value.name == "torch.storage._load_from_bytes":
        # a tensor in a bare pickle brings its storage as a file of its own
        value = Archive(bytearray(value.args[0])).pickled()
    if not isinstance(value, _Storage):
        raise ValueError("a tensor without a storage")
    return value


def mappings(content: Any, size: int) -> dict[str, dict[str, Tensor]]:
    """Every mapping of tensors in a file, and the tensors of every module, by where it is: ``""``, ``"state.model"``.

    The states of optimizers are left out.

    Args:
        content: what was read.
        size: the file's, in bytes.

    Raises:
        ValueError: tensors that cannot be read, or are too large for their file.
    """
    found: dict[str, dict[str, Tensor]] = {}
    seen, steps, waiting = set(), iter(range(MOST_MODULES)), deque([("", content, 0)])
    while waiting:
        place, value, depth = waiting.popleft()
        held = inside(value)
        if id(value) in seen or not held:
            continue
        seen.add(id(value))
        if _is_module(held):
            tensors = _module_tensors(held, steps)
        else:
            named = ((name, tensor_of(one)) for name, one in held.items() if isinstance(name, str))
            tensors = {name: tensor for name, tensor in named if tensor is not None}
            if depth < DEPTH and not {"state", "param_groups"} <= held.keys():
                lead = f"{place}." if place else ""
                waiting += [(f"{lead}{str(name)[:LONGEST_NAME]}", one, depth + 1) for name, one in held.items()]
        if sum(tensor.nbytes for tensor in tensors.values()) > REPEATS * size + SLACK:
            raise ValueError("its tensors are larger than the file that holds them")
        if tensors:
            found[place] = tensors
        if sum(map(len, found.values())) > MOST_TENSORS:
            raise ValueError(_ENDLESS)
    return found


def inside(value: Any) -> Mapping[Any, Any]:
    """What a container or placeholder holds, by name or number; nothing of a tensor."""
    if isinstance(value, Placeholder) and not _REBUILDS.fullmatch(value.name):
        return value.inside()
    if isinstance(value, (list, tuple)):
        return dict(enumerate(value))
    return value if isinstance(value, dict) else {}


_ENDLESS = "modules or tensors without end"


def _is_module(held: Mapping[Any, Any]) -> bool:
    return all(isinstance(held.get(part), dict) for part in ("_parameters", "_buffers", "_modules"))


def _module_tensors(module: Mapping[Any, Any], steps: Iterator[int]) -> dict[str, Tensor]:
    """What the module's ``state_dict`` would be, in its order; a step is taken for each module in it."""
    found: dict[str, Tensor] = {}
    waiting = [("", module)]
    for _ in steps:
        if not waiting:
            return found
        prefix, held = waiting.pop()
        if len(prefix) > LONGEST_NAME or len(found) > MOST_TENSORS:
            break
        passing = held.get("_non_persistent_buffers_set") or ()
        for name, value in _own(held):
            tensor = None if name in passing else tensor_of(value)
            if tensor is not None:
                found[f"{prefix}{str(name)[:LONGEST_NAME]}"] = tensor
        children = [(f"{prefix}{name}.", inside(child)) for name, child in held["_modules"].items()]
        waiting += [(name, child) for name, child in reversed(children) if _is_module(child)]
    raise ValueError(_ENDLESS)


def _own(held: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
    yield from held["_parameters"].items()
    yield from held["_buffers"].items()
