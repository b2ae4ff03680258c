"""Pickles read as data: nothing that a file names is imported or called, no attribute is set.

Numbers, texts and plain containers are read as they are, sets as lists. Every other object becomes
a `Placeholder` that keeps what the file says of it. `fa_core.measure.tensor_mappings` makes tensors
of placeholders, with their storages mapped from the file: unused ones cost nothing.
"""

from __future__ import annotations

import io
import mmap
import pickle
import struct
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from fa_core.decode import LARGEST, loads

DTYPES = {name: kind for name, kind in vars(torch).items() if isinstance(kind, torch.dtype)}

STORAGES = {**torch.storage._storage_type_to_dtype_map(), "UntypedStorage": torch.uint8}
"""torch's storage class → the type of its elements."""

EXPORTED_TABLE = "data/weights/model_weights_config.json"
"""Where torch.export lists the weights of a program."""

EXPORTED = {
    1: "uint8",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "half",
    7: "float",
    8: "double",
    12: "bool",
    13: "bfloat16",
}
"""The types of elements, by their number in that list."""

LONGEST_NAME = 1000
"""The characters of a name that are kept."""

STEPS, STEPS_A_BYTE, MOST_STEPS = 100_000, 4, 3_000_000
"""Steps allowed for reading: a constant and more for each byte of the file, but at most a constant
and a step for each `BYTES_A_STEP` of the file. A step takes up to a microsecond and 150 bytes."""

BYTES_A_STEP = 32

BYTES_KEPT_A_STEP = 150
"""Bytes that count as a step in a longer name, which is made of two others."""

PARTS_OF_A_STORAGE, MOST_DIMENSIONS = 6, 64
"""What torch writes of a storage at most, and the dimensions of a tensor."""

LARGEST_DIRECTORY = 1 << 23
"""Bytes of a zip archive's list of entries: about 100,000 of torch's."""

TOO_MANY_OBJECTS = "its pickle makes more objects than are read from a file of this size"

_SETS = frozenset(
    ["builtins.set", "builtins.frozenset", "__builtin__.set", "__builtin__.frozenset"]
)
_BIG_ENDIAN = "written on a big-endian machine"


class Effort:
    """Counts the steps of reading a file, and ends it where they are out of proportion.

    A pickle of a few kilobytes can ask for hours and for all memory: by copies of what it holds
    once, or by one object in many places. Everything made or looked at is therefore a step:
    opcodes, and the elements of a container each time they are copied or read.

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
            raise ValueError(TOO_MANY_OBJECTS)


class _CountedOpcodes(dict[int, Any]):
    """The handlers of a pickle's opcodes; looking one up is a step."""

    def __init__(self, known: Mapping[int, Any], effort: Effort) -> None:
        super().__init__(known)
        self._effort = effort

    def __getitem__(self, code: int) -> Any:
        self._effort.spend(1)
        return super().__getitem__(code)


class SafeDict(dict[Any, Any]):
    """A dict of a file. Keys that could be made to collide, or that nest, are replaced."""

    __slots__ = ()

    def __setitem__(self, key: Any, value: Any) -> None:
        if isinstance(key, int):
            safe = abs(key) < LARGEST
        else:
            safe = key is None or isinstance(key, (str, float, bytes))
        if not safe:
            key = object()
        super().__setitem__(key, value)


class Placeholder(SafeDict):
    """What a pickle would import, call or make; its items are those set by key.

    Attributes:
        name: ``module.name`` of the global it is, or was made by.
        args: the arguments of the call.
        state: the source of its attributes.
        members: what would be appended to it.
        tensor: the tensor it describes, kept once made.
    """

    __slots__ = ("args", "members", "name", "state", "tensor")

    def __init__(self, name: str, args: Any = ()) -> None:
        self.name = name
        self.args = args
        self.state: Any = None
        self.members: Sequence[Any] = ()
        self.tensor: Tensor | None = None

    def append(self, member: Any) -> None:
        """Keep a member, as a list does."""
        self.extend([member])

    def extend(self, members: Iterable[Any]) -> None:
        """Keep members, as a list does."""
        if not isinstance(self.members, list):
            self.members = []
        self.members.extend(members)


class NestedFile:
    """A file of torch's within a pickle: bytes that are read once, when a tensor needs them."""

    def __init__(self, data: Any, effort: Effort) -> None:
        self._data = data
        self._effort = effort

    @cached_property
    def content(self) -> Any:
        """The content of the file."""
        # of a number, as many bytes would be made
        return Archive(bytearray(memoryview(self._data)), self._effort).pickled()


class Storage:
    """A storage that is mapped when a tensor needs it; only its place is known.

    Args:
        archive: where it is.
        kind: its class, in `STORAGES`.
        key: its name there.
        count: its elements.
        first: the elements before it under the same name.
    """

    def __init__(self, archive: Archive, kind: str, key: str, count: Any, first: Any = 0) -> None:
        self._archive = archive
        self._key = key
        self._count = count
        self._first = first
        archive.kinds[key] = kind

    def tensor(self, dtype: torch.dtype | None, offset: Any, size: Any, stride: Any) -> Tensor:
        """A view of it.

        Args:
            dtype: the type of its elements; None = the storage's.
            offset: the number of its first element in the storage.
            size: its shape.
            stride: as many.

        Raises:
            ValueError: it reaches beyond the storage, or that beyond its place in the file.
        """
        _check_layout(offset, size, stride)
        own = STORAGES[self._archive.kinds[self._key]]
        if dtype is None:
            dtype = own
        memory = self._bytes(own.itemsize)
        if not all(size):
            offset = 0
        else:
            last = offset + sum((n - 1) * step for n, step in zip(size, stride, strict=True))
            if (last + 1) * dtype.itemsize > len(memory):
                raise ValueError(f"a tensor of shape {tuple(size)} reaches out of its storage")
        return torch.empty(0, dtype=dtype).set_(memory, offset, size, stride)

    def _bytes(self, itemsize: int) -> torch.UntypedStorage:
        """Its part of the file."""
        archive = self._archive
        start, length = archive.places[self._key]
        first = self._first * itemsize
        end = (self._first + self._count) * itemsize
        if not 0 <= first <= end <= length or start + end > len(archive.data):
            raise ValueError(f"storage {self._key} has {length} bytes, and {end} are asked for")
        part: torch.UntypedStorage = archive.memory.untyped_storage()[start + first : start + end]
        return part


def _check_layout(offset: Any, size: Any, stride: Any) -> None:
    """Refuse a tensor whose sizes or strides are no counts, or too many.

    Raises:
        ValueError: says so.
    """
    if len(size) > MOST_DIMENSIONS:
        raise ValueError(f"a tensor of {len(size):,} dimensions")
    counts = (offset, *size, *stride)
    if len(size) != len(stride) or any(type(n) is not int or n < 0 for n in counts):
        raise ValueError("a tensor's sizes or strides are no counts")


class Archive:
    """A file, or a part of one, with the places of its storages.

    Args:
        data: its bytes.
        effort: the steps allowed; default: in proportion to its bytes.

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
            start = self._content_start(entry.header_offset)
            inside = 0 <= start <= start + entry.file_size <= len(self.data)
            if inside and not entry.compress_type:
                name = entry.filename.partition("/")[2] or entry.filename
                self.places[name] = start, entry.file_size
        if "byteorder" in self.places and self._entry("byteorder") != b"little":
            raise ValueError(_BIG_ENDIAN)

    def _content_start(self, header: int) -> int:
        """Where an entry's content begins: behind its header, its name and its extra field."""
        name, extra = struct.unpack("<HH", self.data[header + 26 : header + 30])
        start: int = header + 30 + name + extra
        return start

    def zipped(self) -> Any:
        """The content that ``torch.save`` put into an opened archive."""
        content = self._unpickled(io.BytesIO(self._entry("data.pkl")))
        self.places = {name.removeprefix("data/"): place for name, place in self.places.items()}
        return content

    def pickled(self) -> Any:
        """The content of a bare pickle, or of torch's old format: magic number, version, system,
        content, then storages."""
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
            if entry["use_pickle"]:
                raise ValueError(f"{name} is no plain tensor")
            meta = entry["tensor_meta"]
            key = f"data/weights/{entry['path_name']}"
            size = [length["as_int"] for length in meta["sizes"]]
            stride = [step["as_int"] for step in meta["strides"]]
            dtype = DTYPES[EXPORTED[meta["dtype"]]]
            whole = Storage(self, "UntypedStorage", key, self.places[key][1])
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
    """The name of a storage: a text, or it is refused before it is hashed."""
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
        self.dispatch = _CountedOpcodes(self.dispatch, archive.effort)
        # made of a text or of bytes, by their identity; both are kept, so that it stays theirs
        self._made_of: dict[int, tuple[Any, Any]] = {}

    def find_class(self, module: str, name: str) -> Placeholder:
        length = len(module) + len(name)
        if length > LONGEST_NAME:
            raise pickle.UnpicklingError("a name of more characters than any has")
        self._effort.spend(length // BYTES_KEPT_A_STEP)
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
        return Storage(self._archive, kind.name.rpartition(".")[2], _name(key), count, first)

    def _instantiate(self, func: Any, args: Any) -> None:
        """Push the result of a call: a placeholder, or one of a few plain containers."""
        if not isinstance(func, Placeholder):
            raise pickle.UnpicklingError(f"it calls a {type(func).__name__}")
        if func.name in _SETS:
            made: Any = []
            if args:
                made = args[0]
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
        """The result of `make`, made once for every value."""
        if id(value) not in self._made_of:
            self._made_of[id(value)] = value, make(value)
        _, made = self._made_of[id(value)]
        return made

    def _packed(self, data: Any) -> NestedFile:
        return NestedFile(data, self._effort)

    def _ordered(self, args: Any) -> SafeDict:
        made = SafeDict()
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
        self.append(SafeDict())

    def _dict(self) -> None:
        self.metastack[-1].append(SafeDict())
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
