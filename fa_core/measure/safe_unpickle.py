"""Pickles read as data: nothing that a file names is imported, called or assigned.

Numbers, texts and plain containers come out as they are, sets as lists. Every other object becomes
a `Placeholder` that keeps what the file says of it. Tensors are made of placeholders afterwards,
with their storages mapped from the
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from fa_core.decode import LARGEST, loads
from fa_core.errors import UnreadableInput

DTYPES = {name: kind for name, kind in vars(torch).items() if isinstance(kind, torch.dtype)}

STORAGES = {**torch.storage._storage_type_to_dtype_map(), "UntypedStorage": torch.uint8}
"""torch's storage class → the kind of its elements."""

EXPORTED_TABLE = "data/weights/model_weights_config.json"
"""Where torch.export lists the weights of a program."""

EXPORTED = (
    "",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "half",
    "float",
    "double",
    "",
    "",
    "",
    "bool",
    "bfloat16",
)
"""The kinds of elements, by their number in that list."""

DEPTH, LONGEST_NAME = 8, 1000
"""How deep mappings are looked for, and the characters of a name that are kept."""

STEPS, STEPS_A_BYTE, MOST_STEPS = 100_000, 4, 3_000_000
"""What reading may take: so many steps, and more for each byte of the file, but no more than that
and a step for each `BYTES_A_STEP` of the file. A step takes up to a microsecond and 150 bytes."""

BYTES_A_STEP = 32

STEPS_A_CONTAINER, STEPS_A_TENSOR = 10, 30
"""What it takes to look into a container, or to make a tensor, in steps."""

BYTES_KEPT_A_STEP = 150
"""Of a longer name that is made of two others, so many bytes count as a step."""

PARTS_OF_A_STORAGE, MOST_DIMENSIONS = 6, 64
"""What torch writes of a storage at most, and the dimensions of a tensor."""

LARGEST_DIRECTORY = 1 << 23
"""Bytes of a zip archive's list of entries: about 100,000 of torch's."""

REPEATS, SLACK = 64, 1 << 20
"""A mapping's tensors may be this many times as large as their file, and some bytes more: they may
share storages."""

_SETS = {
    f"{module}.{kind}" for module in ("builtins", "__builtin__") for kind in ("set", "frozenset")
}
_REBUILDS = re.compile(r"torch\._(?:utils|tensor)\._rebuild_(\w+)")
_BIG_ENDIAN = "written on a big-endian machine"
_ENDLESS = "its pickle makes more objects than are read from a file of this size"


class Effort:
    """Counts what reading a file takes, and ends it where that is out of proportion.

    A pickle of a few kilobytes can ask for hours and for all memory: by copies of what it holds
    once, or by one object in many places. Whatever is made or looked at is therefore a step:
    opcodes, and the elements of a container each time they are copied or gone through.

    Args:
        size: of the file, in bytes.
    """

    def __init__(self, size: int) -> None:
        in_proportion = STEPS + STEPS_A_BYTE * size
        self.left = min(in_proportion, MOST_STEPS + size // BYTES_A_STEP)

    def spend(self, steps: int) -> None:
        """Count some steps.

        Raises:
            ValueError: there are too many.
        """
        self.left -= steps
        if self.left < 0:
            raise ValueError(_ENDLESS)


class _Opcodes(dict[int, Any]):
    """What is done for each opcode of a pickle; to look one up is a step."""

    def __init__(self, known: Mapping[int, Any], effort: Effort) -> None:
        super().__init__(known)
        self._effort = effort

    def __getitem__(self, code: int) -> Any:
        self._effort.spend(1)
        return super().__getitem__(code)


class _Dict(dict[Any, Any]):
    """A dict of a file. Keys that a file could make collide, or nest, are replaced by others."""

    __slots__ = ()

    def __setitem__(self, key: Any, value: Any) -> None:
        short = isinstance(key, int) and abs(key) < LARGEST
        safe = short or key is None or isinstance(key, (str, float, bytes))
        super().__setitem__(key if safe else object(), value)


class Placeholder(_Dict):
    """What a pickle would import, call or make; its items are what would be put into it by key.

    Attributes:
        name: ``module.name`` of the global it is, or was made by.
        args: what that would be called with.
        state: what its attributes would be set from.
        members: what would be appended to it.
        tensor: what it describes, once that was asked for: one in many places is made once.
    """

    __slots__ = ("args", "members", "name", "state", "tensor")

    def __init__(self, name: str, args: Any = ()) -> None:
        self.name = name
        self.args = args
        self.state: Any = None
        self.members: Sequence[Any] = ()
        self.tensor: Tensor | None = None

    def append(self, member: Any) -> None:
        """As a list has it."""
        self.extend([member])

    def extend(self, members: Iterable[Any]) -> None:
        """As a list has it."""
        if not isinstance(self.members, list):
            self.members = []
        self.members.extend(members)


class _Packed:
    """A file of torch's within a pickle: bytes that are read once, when a tensor asks for them."""

    def __init__(self, data: Any, effort: Effort) -> None:
        self._data = data
        self._effort = effort

    @cached_property
    def content(self) -> Any:
        """What it holds."""
        # of a number, as many bytes would be made
        return Archive(bytearray(memoryview(self._data)), self._effort).pickled()


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
        if len(size) > MOST_DIMENSIONS:
            raise ValueError(f"a tensor of {len(size):,} dimensions")
        if len(size) != len(stride) or any(
            type(n) is not int or n < 0 for n in (offset, *size, *stride)
        ):
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
        effort: what reading it may take; default: in proportion to its bytes.

    Attributes:
        memory: (n,) uint8, the same.
        places: a storage's key, or an entry's name → first byte and length.
        kinds: a storage's key → its class, in `STORAGES`.
    """

    def __init__(self, data: mmap.mmap | bytearray, effort: Effort | None = None) -> None:
        self.data = data
        self.effort = effort or Effort(len(data))
        self.memory = torch.frombuffer(data, dtype=torch.uint8)
        self.places: dict[str, tuple[int, int]] = {}
        self.kinds: dict[str, str] = {}

    def open_zip(self) -> None:
        """Find the entries of a zip archive; compressed ones, which torch never writes, are left
        out.

        Raises:
            zipfile.BadZipFile: it is none.
            ValueError: too many entries, or written where numbers begin with their last byte.
        """
        ends = _end_of_zip(self._file())
        if ends and ends[_DIRECTORY_SIZE] > LARGEST_DIRECTORY:
            raise ValueError("a zip archive of more entries than a network has tensors")
        for entry in zipfile.ZipFile(self._file()).infolist():
            at = entry.header_offset
            start = at + 30 + sum(struct.unpack("<HH", self.data[at + 26 : at + 30]))
            if not entry.compress_type and 0 <= start <= start + entry.file_size <= len(self.data):
                self.places[entry.filename.partition("/")[2] or entry.filename] = (
                    start,
                    entry.file_size,
                )
        if "byteorder" in self.places and self._entry("byteorder") != b"little":
            raise ValueError(_BIG_ENDIAN)

    def zipped(self) -> Any:
        """What ``torch.save`` put into an opened archive."""
        content = self._unpickled(io.BytesIO(self._entry("data.pkl")))
        self.places = {name.removeprefix("data/"): place for name, place in self.places.items()}
        return content

    def pickled(self) -> Any:
        """What a bare pickle holds, or torch's old format: magic number, version, system, content,
        then storages."""
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
        """The weights that ``torch.export.save`` put into an opened archive: a list of them, and
        raw bytes."""
        found = {}
        for name, entry in loads(self._entry(EXPORTED_TABLE))["config"].items():
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
        if isinstance(self.data, mmap.mmap):
            return self.data
        return io.BytesIO(self.data)

    def _unpickled(self, file: Any) -> Any:
        return _Unpickler(file, self).load()


def _name(key: Any) -> str:
    """What a storage is called: a text, or it is refused before it is hashed."""
    return "".join([key])


def _encoded(text: Any) -> bytes:
    return "".join([text]).encode("latin1")


# Python's own, in Python: the one in C takes sizes that a file states as they are, up to all memory
_PurePython: Any = vars(pickle)["_Unpickler"]
_end_of_zip: Any = vars(zipfile)["_EndRecData"]
_DIRECTORY_SIZE: int = vars(zipfile)["_ECD_SIZE"]


class _Unpickler(_PurePython):  # type: ignore[misc]
    def __init__(self, file: Any, archive: Archive) -> None:
        super().__init__(file, encoding="latin1")
        self._archive = archive
        self._effort = archive.effort
        self.dispatch = _Opcodes(self.dispatch, archive.effort)
        # what was made of a text or of bytes, by their identity; both are kept, so that it stays
        # theirs
        self._made_of: dict[int, tuple[Any, Any]] = {}

    def find_class(self, module: str, name: str) -> Placeholder:
        if len(module) + len(name) > LONGEST_NAME:
            raise pickle.UnpicklingError("a name of more characters than any has")
        self._effort.spend((len(module) + len(name)) // BYTES_KEPT_A_STEP)
        return Placeholder(f"{module}.{name}")

    def get_extension(self, code: int) -> None:
        self.append(Placeholder(f"copyreg.{code}"))

    def persistent_load(self, pid: Any) -> Any:
        if pid[0] == "module":
            return pid[1]  # torch's old format has the source of a module's class next to the class
        if len(pid) > PARTS_OF_A_STORAGE:
            raise pickle.UnpicklingError("a storage of more parts than any has")
        _, kind, key, _, count, *view = pid
        first = 0
        if view and view[0]:
            _, first, count = view[0]
        return _Storage(self._archive, kind.name.rpartition(".")[2], _name(key), count, first)

    def _instantiate(self, func: Any, args: Any) -> None:
        """Push the result of a call: a placeholder, or one of a few plain containers."""
        if not isinstance(func, Placeholder):
            raise pickle.UnpicklingError(f"it calls a {type(func).__name__}")
        if func.name in _SETS:
            made: Any = args[0] if args else []
        elif func.name == "_codecs.encode":
            # bytes, as protocols before 3 have them
            made = self._once(args[0], _encoded)
        elif func.name == "torch.storage._load_from_bytes":
            made = self._once(args[0], self._packed)
        elif func.name == "collections.OrderedDict":
            made = self._ordered(args)
        else:
            made = Placeholder(func.name, args)
        self.append(made)

    def _once(self, value: Any, make: Callable[[Any], Any]) -> Any:
        """What is made of a value; of the same one, the same."""
        if id(value) not in self._made_of:
            self._made_of[id(value)] = value, make(value)
        return self._made_of[id(value)][1]

    def _packed(self, data: Any) -> _Packed:
        return _Packed(data, self._effort)

    def _ordered(self, args: Any) -> _Dict:
        made = _Dict()
        for pairs in args:
            self._effort.spend(len(pairs))
            for name, value in pairs:
                made[name] = value
        return made

    def _reduce(self) -> None:
        args, func = self.stack.pop(), self.stack.pop()
        self._instantiate(func, args)

    def _reduce_ex(self) -> None:
        keywords, args, func = self.stack.pop(), self.stack.pop(), self.stack.pop()
        self._effort.spend(len(args))
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
    if not isinstance(value, Placeholder):
        if isinstance(value, Tensor):
            return value
        return None
    if value.tensor is None:
        value.tensor = _rebuilt(value)
    return value.tensor


def _rebuilt(value: Any) -> Tensor | None:
    for _ in range(MOST_WRAPPERS):
        if isinstance(value, Placeholder):
            match = _REBUILDS.fullmatch(value.name)
        else:
            match = None
        if match is None:
            return None
        if match[1] in ("parameter", "parameter_with_state"):
            value = value.args[0]
        elif match[1] == "from_type_v2":
            value = Placeholder(value.args[0].name, value.args[2])
        else:
            return _dense_tensor(match[1], value.args)
    raise ValueError("a parameter within parameters")


MOST_WRAPPERS = 4
"""A tensor may be a parameter, of a class of its own, and so on."""


def _dense_tensor(kind: str, args: Any) -> Tensor:
    if kind not in ("tensor", "tensor_v2", "tensor_v3") or (kind == "tensor_v2" and any(args[6:])):
        what = f"holds a tensor that is not plain and dense (_rebuild_{kind})"
        raise UnreadableInput(what, hint="save it again after .dequantize() or .to_dense()")
    storage = args[0]
    if isinstance(storage, _Packed):
        storage = storage.content
    if not isinstance(storage, _Storage):
        raise ValueError("a tensor without a storage")
    if kind == "tensor_v3":
        dtype = DTYPES[args[6].name[6:]]
    else:
        dtype = None
    return storage.tensor(dtype, *args[1:4])


def mappings(content: Any, size: int) -> dict[str, Mapping[str, Tensor]]:
    """Every mapping of tensors in a file, and the tensors of every module, by where it is: ``""``,
    ``"state.model"``.

    The states of optimizers are left out.

    Args:
        content: what was read.
        size: the file's, in bytes.

    Raises:
        ValueError: tensors that cannot be read, or are too large for their file.
    """
    found: dict[str, Mapping[str, Tensor]] = {}
    effort = Effort(size)
    seen: set[int] = set()
    waiting = deque([("", content, 0)])
    while waiting:
        place, value, depth = waiting.popleft()
        if id(value) in seen:
            continue
        seen.add(id(value))
        held = _inside(value, effort)
        if not held or {"state", "param_groups"} <= held.keys():
            continue
        if _is_module(held):
            tensors = _module_tensors(held, effort)
        else:
            tensors, deeper = _parted(held, place, effort)
            waiting += [(name, one, depth + 1) for name, one in deeper if depth < DEPTH]
        if tensors:
            found[place] = tensors
        if sum(tensor.nbytes for tensor in tensors.values()) > REPEATS * size + SLACK:
            raise ValueError("its tensors are larger than the file that holds them")
    return found


def _parted(
    held: Mapping[Any, Any], place: str, effort: Effort
) -> tuple[dict[str, Tensor], list[tuple[str, Any]]]:
    """The tensors that a container holds by name, and the containers in it with their places."""
    tensors: dict[str, Tensor] = {}
    deeper: list[tuple[str, Any]] = []
    if place:
        lead = f"{place}."
    else:
        lead = ""
    for number, (name, one) in enumerate(held.items()):
        if isinstance(name, str):
            tensor = tensor_of(one)
        else:
            tensor = None
        if tensor is not None:
            effort.spend(STEPS_A_TENSOR)
            tensors[name] = tensor
        elif isinstance(one, Placeholder) or (one and isinstance(one, (dict, list, tuple))):
            deeper.append((f"{lead}{_label(name, number)}", one))
    return tensors, deeper


def _label(name: Any, number: int) -> str:
    """A key as a part of a name; its number in its dict where it is neither text nor a number."""
    if isinstance(name, str):
        return name[:LONGEST_NAME]
    return str(name) if isinstance(name, (int, float)) else f"#{number}"


def _inside(value: Any, effort: Effort) -> dict[Any, Any]:
    effort.spend(STEPS_A_CONTAINER + sum(map(len, _members(value))))
    return inside(value)


def inside(value: Any) -> dict[Any, Any]:
    """What a container or placeholder holds, by name or number; nothing of a tensor."""
    if isinstance(value, Placeholder):
        if _REBUILDS.fullmatch(value.name):
            return {}
        args, members, *named = _members(value)
        held = dict(enumerate([*args, *members]))
        for one in named:
            held.update(one)
        return held
    if isinstance(value, (list, tuple)):
        return dict(enumerate(value))
    if isinstance(value, dict):
        return value
    return {}


def _members(value: Any) -> list[Any]:
    """The containers that `inside` looks through: a placeholder's arguments, members, entries and
    states."""
    if not isinstance(value, Placeholder):
        if isinstance(value, (dict, list, tuple)):
            return [value]
        return []
    if isinstance(value.args, (list, tuple)):
        args = value.args
    else:
        args = ()
    # pickle's own state of a class with slots is a pair
    if isinstance(value.state, tuple):
        states = value.state[:2]
    else:
        states = (value.state,)
    return [args, value.members, value, *(state for state in states if isinstance(state, dict))]


def _is_module(held: Mapping[Any, Any]) -> bool:
    return all(isinstance(held.get(part), dict) for part in ("_parameters", "_buffers", "_modules"))


def _module_tensors(module: Mapping[Any, Any], effort: Effort) -> dict[str, Tensor]:
    """What the module's ``state_dict`` would be, in its order. A module may contain itself."""
    found: dict[str, Tensor] = {}
    waiting = [("", module)]
    while waiting:
        prefix, held = waiting.pop()
        if len(prefix) > LONGEST_NAME:
            raise ValueError(_ENDLESS)
        for name, value in _own_tensors(held, effort):
            if (tensor := tensor_of(value)) is not None:
                found[f"{prefix}{name}"] = tensor
        children = []
        for number, (name, child) in enumerate(held["_modules"].items()):
            inner = _inside(child, effort)
            if _is_module(inner):
                children.append((f"{prefix}{_label(name, number)}.", inner))
        waiting += reversed(children)
    return found


def _own_tensors(module: Mapping[Any, Any], effort: Effort) -> Iterator[tuple[str, Any]]:
    """Parameters, and buffers that are saved, of one module."""
    passing = module.get("_non_persistent_buffers_set")
    if not isinstance(passing, list):
        passing = []
    held = {**module["_parameters"], **module["_buffers"]}
    effort.spend(STEPS_A_TENSOR * len(held) + len(passing) + len(module["_modules"]))
    unsaved = {name for name in passing if isinstance(name, str)}
    for number, (name, value) in enumerate(held.items()):
        if not isinstance(name, str) or name not in unsaved:
            yield _label(name, number), value
