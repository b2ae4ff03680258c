"""Pickles read as data: nothing that a file names is imported or called, and no attribute is set for it.

Numbers, texts and plain containers come out as they are, sets as lists. Every other object becomes a `Placeholder`
that keeps what the file says of it. Tensors are made of placeholders afterwards, with their storages mapped from the
file: those that are never asked for cost nothing.
"""

from __future__ import annotations

import io
import json
import mmap
import pickle
import re
import struct
import zipfile
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from fa_core.errors import UnreadableInput

DTYPES = {name: kind for name, kind in vars(torch).items() if isinstance(kind, torch.dtype)}

STORAGES = {**torch.storage._storage_type_to_dtype_map(), "UntypedStorage": torch.uint8}
"""torch's storage class → the kind of its elements."""

EXPORTED_TABLE = "data/weights/model_weights_config.json"
"""Where torch.export lists the weights of a program."""

EXPORTED = ("", "uint8", "int8", "int16", "int32", "int64", "half", "float", "double", "", "", "", "bool", "bfloat16")
"""The kinds of elements, by their number in that list."""

DEPTH, MOST_MODULES, MOST_TENSORS, LONGEST_NAME = 8, 100_000, 1_000_000, 1000
"""How deep mappings are looked for, and what no network reaches: a module may contain itself."""

REPEATS, SLACK = 64, 1 << 20
"""A mapping's tensors may be this many times as large as their file, and some bytes more: they may share storages."""

_PLAIN = (str, int, float, bytes, type(None))
_SETS = {f"{module}.{kind}" for module in ("builtins", "__builtin__") for kind in ("set", "frozenset")}
_REBUILDS = re.compile(r"torch\._(?:utils|tensor)\._rebuild_(\w+)")
_BIG_ENDIAN = "written on a big-endian machine"
_ENDLESS = "modules or tensors without end"


class _Dict(dict[Any, Any]):
    """A dict of a file. Keys that cannot be hashed safely are replaced: tuples within tuples would end the process."""

    def __setitem__(self, key: Any, value: Any) -> None:
        flat = type(key) is tuple and all(isinstance(part, _PLAIN) for part in key)
        super().__setitem__(key if flat or isinstance(key, _PLAIN) else object(), value)


class Placeholder(_Dict):
    """What a pickle would import, call or make; its items are what would be put into it by key.

    Attributes:
        name: ``module.name`` of the global it is, or was made by.
        args: what that would be called with.
        state: what its attributes would be set from.
        members: what would be appended to it.
    """

    def __init__(self, name: str, args: Any = ()) -> None:
        self.name, self.args = name, args
        self.state: Any = None
        self.members: list[Any] = []
        self.append, self.extend = self.members.append, self.members.extend


class _Storage:
    """A storage that is mapped when it is asked for; only its place is known.

    Args:
        archive: where it is.
        kind: its class, in `STORAGES`.
        key: what it is called there.
        count: its elements.
        first: how many elements of what is called so come before it.
    """

    def __init__(self, archive: Archive, kind: str, key: str, count: Any, first: Any = 0) -> None:
        self.archive, self.key, self.count, self.first = archive, key, count, first
        archive.kinds[key] = kind

    def tensor(self, dtype: torch.dtype | None, offset: int, size: Any, stride: Any) -> Tensor:
        """A view of it.

        Args:
            dtype: the kind of its elements; None = the storage's.
            offset: the number of its first element in the storage.
            size: its shape.
            stride: as many.

        Raises:
            ValueError: it reaches beyond the storage, or that beyond its place in the file.
        """
        if len(size) != len(stride) or any(type(n) is not int or n < 0 for n in (offset, *size, *stride)):
            raise ValueError("a tensor's sizes or strides are no counts")
        own = STORAGES[self.archive.kinds[self.key]]
        start, length = self.archive.places[self.key]
        first, end = self.first * own.itemsize, (self.first + self.count) * own.itemsize
        if not 0 <= first <= end <= length or start + end > len(self.archive.data):
            raise ValueError(f"storage {self.key} has {length} bytes, and {end} are asked for")
        dtype, empty = dtype or own, not all(size)
        last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
        if not empty and (last + 1) * dtype.itemsize > end - first:
            raise ValueError(f"a tensor of shape {tuple(size)} reaches out of its storage")
        storage = self.archive.memory.untyped_storage()[start + first : start + end]
        return torch.empty(0, dtype=dtype).set_(storage, 0 if empty else offset, size, stride)


class Archive:
    """A file, or a part of one, with the places of its storages.

    Args:
        data: its bytes.

    Attributes:
        memory: (n,) uint8, the same.
        places: a storage's key, or an entry's name → first byte and length.
        kinds: a storage's key → its class, in `STORAGES`.
    """

    def __init__(self, data: mmap.mmap | bytearray) -> None:
        self.data = data
        self.memory = torch.frombuffer(data, dtype=torch.uint8)
        self.places: dict[str, tuple[int, int]] = {}
        self.kinds: dict[str, str] = {}

    def open_zip(self) -> None:
        """Find the entries of a zip archive; compressed ones, which torch never writes, are left out.

        Raises:
            zipfile.BadZipFile: it is none.
            ValueError: it was written where numbers begin with their last byte.
        """
        for entry in zipfile.ZipFile(self._file()).infolist():
            at = entry.header_offset
            start = at + 30 + sum(struct.unpack("<HH", self.data[at + 26 : at + 30]))
            if not entry.compress_type and 0 <= start <= start + entry.file_size <= len(self.data):
                self.places[entry.filename.partition("/")[2] or entry.filename] = start, entry.file_size
        if "byteorder" in self.places and self._entry("byteorder") != b"little":
            raise ValueError(_BIG_ENDIAN)

    def zipped(self) -> Any:
        """What ``torch.save`` put into an opened archive."""
        content = self._unpickled(io.BytesIO(self._entry("data.pkl")))
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
            raise ValueError(_BIG_ENDIAN)
        for key in map(_name, keys):
            length = struct.unpack("<q", file.read(8))[0] * STORAGES[self.kinds[key]].itemsize
            self.places[key] = file.tell(), length
            file.seek(length, io.SEEK_CUR)
        return content

    def exported(self) -> dict[str, Tensor]:
        """The weights that ``torch.export.save`` put into an opened archive: a list of them, and raw bytes."""
        found = {}
        for name, entry in json.loads(self._entry(EXPORTED_TABLE))["config"].items():
            meta, key = entry["tensor_meta"], f"data/weights/{entry['path_name']}"
            size, stride = ([n["as_int"] for n in meta[kind]] for kind in ("sizes", "strides"))
            if entry["use_pickle"]:
                raise ValueError(f"{name} is no plain tensor")
            dtype = DTYPES[EXPORTED[meta["dtype"]]]
            whole = _Storage(self, "UntypedStorage", key, self.places[key][1])
            found[name] = whole.tensor(dtype, meta["storage_offset"]["as_int"], size, stride)
        return found

    def _entry(self, name: str) -> bytes:
        start, length = self.places[name]
        return bytes(self.data[start : start + length])

    def _file(self) -> Any:
        return self.data if isinstance(self.data, mmap.mmap) else io.BytesIO(self.data)

    def _unpickled(self, file: Any) -> Any:
        return _Unpickler(file, self).load()


def _name(key: Any) -> str:
    """What a storage is called: a text, or it is refused before it is hashed."""
    return "".join([key])


# Python's own, in Python: the one in C takes sizes that a file states as they are, up to all memory
_PurePython: Any = vars(pickle)["_Unpickler"]


class _Unpickler(_PurePython):  # type: ignore[misc]
    def __init__(self, file: Any, archive: Archive) -> None:
        super().__init__(file, encoding="latin1")
        self._archive = archive

    def find_class(self, module: str, name: str) -> Placeholder:
        return Placeholder(f"{module}.{name}")

    def get_extension(self, code: int) -> None:
        self.append(Placeholder(f"copyreg.{code}"))

    def persistent_load(self, pid: Any) -> Any:
        if pid[0] == "module":
            return pid[1]  # torch's old format has the source of a module's class next to the class
        _, kind, key, _, count, *view = pid
        first, count = view[0][1:] if view and view[0] else (0, count)
        return _Storage(self._archive, kind.name.rpartition(".")[2], _name(key), count, first)

    def _instantiate(self, func: Any, args: Any) -> None:
        """Push the result of a call: a placeholder, or one of a few plain containers."""
        if not isinstance(func, Placeholder):
            raise pickle.UnpicklingError(f"it calls a {type(func).__name__}")
        if func.name in _SETS:
            made: Any = [*args[0]] if args else []
        elif func.name == "_codecs.encode":
            # bytes, as protocols before 3 have them
            made = args[0].encode("latin1")
        elif func.name == "collections.OrderedDict":
            made = _Dict()
            for name, value in (pair for pairs in args for pair in pairs):
                made[name] = value
        else:
            made = Placeholder(func.name, args)
        self.append(made)

    def _reduce(self) -> None:
        args, func = self.stack.pop(), self.stack.pop()
        self._instantiate(func, args)

    def _reduce_ex(self) -> None:
        keywords, args, func = self.stack.pop(), self.stack.pop(), self.stack.pop()
        self._instantiate(func, (*args, keywords))

    def _build(self) -> None:
        state = self.stack.pop()
        if isinstance(self.stack[-1], Placeholder):
            self.stack[-1].state = state

    def _empty_dict(self) -> None:
        self.append(_Dict())

    def _dict(self) -> None:
        self.metastack[-1].append(_Dict())
        self.load_setitems()

    _kept = _PurePython.dispatch
    dispatch = _kept | {
        pickle.REDUCE[0]: _reduce,
        pickle.NEWOBJ[0]: _reduce,
        pickle.NEWOBJ_EX[0]: _reduce_ex,
        pickle.BUILD[0]: _build,
        pickle.EMPTY_DICT[0]: _empty_dict,
        pickle.DICT[0]: _dict,
        # no hashing, and no memory for as many bytes as a file states
        pickle.EMPTY_SET[0]: _kept[pickle.EMPTY_LIST[0]],
        pickle.ADDITEMS[0]: _kept[pickle.APPENDS[0]],
        pickle.FROZENSET[0]: _kept[pickle.LIST[0]],
        pickle.BYTEARRAY8[0]: _kept[pickle.BINBYTES8[0]],
    }


def tensor_of(value: Any) -> Tensor | None:
    """The tensor that a placeholder describes; None for anything else.

    Raises:
        UnreadableInput: a tensor that is not dense.
        ValueError: one that reaches out of its storage.
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
    if kind not in ("tensor", "tensor_v2", "tensor_v3") or (kind == "tensor_v2" and any(args[6:])):
        what = f"holds a tensor that is not plain and dense (_rebuild_{kind})"
        raise UnreadableInput(what, hint="save it again after .dequantize() or .to_dense()")
    storage = args[0]
    if isinstance(storage, Placeholder) and storage.name == "torch.storage._load_from_bytes":
        # a tensor in a bare pickle brings its storage as a file of its own; of a number, as many bytes would be made
        storage = Archive(bytearray(memoryview(storage.args[0]))).pickled()
    if not isinstance(storage, _Storage):
        raise ValueError("a tensor without a storage")
    return storage.tensor(DTYPES[args[6].name[6:]] if kind == "tensor_v3" else None, *args[1:4])


def mappings(content: Any, size: int) -> dict[str, Mapping[str, Tensor]]:
    """Every mapping of tensors in a file, and the tensors of every module, by where it is: ``""``, ``"state.model"``.

    The states of optimizers are left out.

    Args:
        content: what was read.
        size: the file's, in bytes.

    Raises:
        ValueError: tensors that cannot be read, or are too large for their file.
    """
    found: dict[str, Mapping[str, Tensor]] = {}
    seen, steps, waiting = set(), iter(range(MOST_MODULES)), deque([("", content, 0)])
    count = 0
    while waiting:
        place, value, depth = waiting.popleft()
        held = inside(value)
        if id(value) in seen or not held or {"state", "param_groups"} <= held.keys():
            continue
        seen.add(id(value))
        if _is_module(held):
            tensors = _module_tensors(held, steps)
        else:
            named = ((name, tensor_of(one)) for name, one in held.items() if isinstance(name, str))
            tensors = {name: tensor for name, tensor in named if tensor is not None}
            lead = f"{place}." if place else ""
            deeper = held.items() if depth < DEPTH else ()
            waiting += [(f"{lead}{str(name)[:LONGEST_NAME]}", one, depth + 1) for name, one in deeper]
        if tensors:
            found[place] = tensors
        count += len(tensors)
        large = sum(tensor.nbytes for tensor in tensors.values()) > REPEATS * size + SLACK
        if large or count > MOST_TENSORS:
            raise ValueError("its tensors are larger than the file that holds them" if large else _ENDLESS)
    return found


def inside(value: Any) -> dict[Any, Any]:
    """What a container or placeholder holds, by name or number; nothing of a tensor."""
    if isinstance(value, Placeholder):
        if _REBUILDS.fullmatch(value.name):
            return {}
        args = value.args if isinstance(value.args, (list, tuple)) else ()
        states = value.state if isinstance(value.state, tuple) else (value.state,)
        held = {**dict(enumerate([*args, *value.members])), **value}
        return held | {name: one for state in states if isinstance(state, dict) for name, one in state.items()}
    if isinstance(value, (list, tuple)):
        return dict(enumerate(value))
    return value if isinstance(value, dict) else {}


def _is_module(held: Mapping[Any, Any]) -> bool:
    return all(isinstance(held.get(part), dict) for part in ("_parameters", "_buffers", "_modules"))


def _module_tensors(module: Mapping[Any, Any], steps: Iterator[int]) -> dict[str, Tensor]:
    """What the module's ``state_dict`` would be, in its order; a step is taken for each module in it."""
    found: dict[str, Tensor] = {}
    waiting = [("", module)]
    for _ in steps:
        prefix, held = waiting.pop()
        if len(prefix) > LONGEST_NAME or len(found) > MOST_TENSORS:
            break
        passing = held.get("_non_persistent_buffers_set") or ()
        for name, value in {**held["_parameters"], **held["_buffers"]}.items():
            if name not in passing and (tensor := tensor_of(value)) is not None:
                found[f"{prefix}{str(name)[:LONGEST_NAME]}"] = tensor
        children = [(f"{prefix}{name}.", inside(child)) for name, child in held["_modules"].items()]
        waiting += [child for child in reversed(children) if _is_module(child[1])]
        if not waiting:
            return found
    raise ValueError(_ENDLESS)
