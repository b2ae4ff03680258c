"""Pickles read as data: no import, no call and no attribute assignment that a file asks for.

Numbers, texts and plain containers keep their type; sets become lists. Every other object becomes a
`Placeholder` with the name, arguments and state in the file. `fa_core.files.tensor_mappings`
builds tensors from placeholders and maps their storages from the file, so unused storages cost
nothing.
"""

from __future__ import annotations

import io
import mmap
import pickle
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import Any, BinaryIO, TypeAlias, TypeVar

import torch
from torch import Tensor
from torch._utils import IMPORT_MAPPING, NAME_MAPPING
from torch._weights_only_unpickler import _get_allowed_globals, _get_user_allowed_globals

from fa_core.files.decode import LARGEST

DTYPES = {name: kind for name, kind in vars(torch).items() if isinstance(kind, torch.dtype)}

STORAGES = {**torch.storage._storage_type_to_dtype_map(), "UntypedStorage": torch.uint8}
"""Element type of each of torch's storage classes."""

LONGEST_NAME = 1000
"""Characters of the longest name that is accepted."""

STEPS = 100_000
STEPS_A_BYTE = 4
MOST_STEPS = 3_000_000
BYTES_A_STEP = 32
"""Limits on the steps of reading a file of n bytes: STEPS + STEPS_A_BYTE·n, and at most MOST_STEPS
+ n / BYTES_A_STEP. A step takes up to a microsecond and 150 bytes."""

BYTES_KEPT_A_STEP = 150
"""Characters of a global's name that count as one step."""

PARTS_OF_A_STORAGE = 6
"""Most fields that torch writes for a storage."""

MOST_DIMENSIONS = 64
"""Most dimensions of a tensor."""

TOO_MANY_OBJECTS = "its pickle makes more objects than are read from a file of this size"

_COUNTER = "collections.Counter"
_DICTS = {
    "builtins.dict",
    _COUNTER,
    "collections.OrderedDict",
    "collections.defaultdict",
}
TAKEN = set(_get_allowed_globals())
"""What `torch.load` takes by default."""

REGISTERED = {
    name
    for name in _get_user_allowed_globals()  # type: ignore[no-untyped-call]
    if name.startswith("torch.")
}
"""What else it takes, since torch registers it."""

_SETS = {"builtins.set", "builtins.frozenset"}
_PLAIN = {
    **dict.fromkeys((_COUNTER, "collections.OrderedDict", "builtins.set"), 1),
    **dict.fromkeys(("torch.Size", "torch.device", "builtins.complex"), 2),
    "torch._utils._rebuild_tensor": 4,
    "torch._utils._rebuild_tensor_v2": 6,
    "torch._utils._rebuild_tensor_v3": 7,
    "torch._utils._rebuild_parameter": 3,
    "torch.nn.parameter.Parameter": 2,
}
"""What is called where plain tensors, numbers and texts are loaded, and its arguments at most:
those behind them conjugate or negate."""

_BIG_ENDIAN = "written on a big-endian machine"
_NOT_PLAIN = (
    "a zip archive that torch.save did not write: its entries are not data.pkl and others, "
    "each once, uncompressed, in one folder"
)

_Value = TypeVar("_Value")

_Handler: TypeAlias = Callable[..., None]
"""A handler of an opcode: called with the unpickler."""


LARGEST_DIRECTORY = 1 << 23
"""Most bytes of a zip archive's directory: about 100,000 entries."""


def zip_entries(file: BinaryIO) -> list[zipfile.ZipInfo]:
    """The entries of a zip archive that is the whole file: in all others, readers differ.

    An archive ends with an end record (22 bytes). One that may be larger than 4 GB has in front of
    it a 64-bit end record (56) and its locator (20). Each is looked at here, since releases of
    Python differ in what they take.

    Raises:
        zipfile.BadZipFile: its directory is damaged.
        ValueError: too many entries, or other bytes in front of the archive or behind it.
    """
    whole = file.seek(0, io.SEEK_END)
    file.seek(max(whole - 98, 0))
    ends = file.read().rjust(98, b"\0")
    record, locator, last = ends[:56], ends[56:76], ends[76:]
    size, start = struct.unpack_from("<2I", last, 12)
    end = whole - len(last)
    known = (last[:4], last[20:]) == (b"PK\5\6", b"\0\0")
    if locator[:4] == b"PK\6\7":
        size, start = struct.unpack_from("<2Q", record, 40)
        end = whole - len(ends)
        known &= (record[:4], locator[8:16]) == (b"PK\6\6", struct.pack("<Q", end))
    if not known or start + size != end:
        raise ValueError("not one zip archive from its first byte to its last")
    if size > LARGEST_DIRECTORY:
        raise ValueError("a zip archive of more entries than a network or a data set has")
    return zipfile.ZipFile(file).infolist()


class StepBudget:
    """A budget of steps for reading a file, in proportion to its size.

    A pickle of a few kilobytes can demand hours or all memory, by copying one object many times or
    by nesting it in many places. So every opcode is a step, and so is every element of a container
    each time it is copied or read.

    Args:
        size: size of the file in bytes.
    """

    def __init__(self, size: int) -> None:
        self.left = min(STEPS + STEPS_A_BYTE * size, MOST_STEPS + size // BYTES_A_STEP)

    def spend(self, steps: int) -> None:
        """Take steps off the budget.

        Raises:
            ValueError: the budget is used up.
        """
        self.left -= steps
        if self.left < 0:
            raise ValueError(TOO_MANY_OBJECTS)


class _CountedOpcodes(dict[int, _Handler]):
    """The handlers of a pickle's opcodes; each look-up is a step."""

    def __init__(self, known: Mapping[int, _Handler], budget: StepBudget) -> None:
        super().__init__(known)
        self._budget = budget

    def __getitem__(self, code: int) -> _Handler:
        self._budget.spend(1)
        return super().__getitem__(code)


class SafeDict(dict[object, object]):
    """A dict from a file. Huge integers, whose hashes may be made to collide, and nested keys are
    replaced.

    Attributes:
        _metadata: torch's of a state dict, unchecked.
    """

    __slots__ = ("_metadata",)

    def __init__(self) -> None:
        self._metadata: object = None

    def __setitem__(self, key: object, value: object) -> None:
        super().__setitem__(key if _is_safe(key) else object(), value)


def _is_safe(key: object) -> bool:
    """Whether a key's hash cannot be chosen."""
    if isinstance(key, int):
        return abs(key) < LARGEST
    return key is None or isinstance(key, (str, float, bytes))


class Unordered(list[object]):
    """The elements of a set, of which torch may make something in another order."""


class Placeholder(SafeDict):
    """An object that a pickle would import or create; its dict items are those the pickle sets.

    Attributes:
        name: ``module.name`` of the global itself, or of the callable that would create the object.
        args: arguments of that call, unchecked.
        state: argument of ``__setstate__``, unchecked.
        members: elements that would be appended.
        tensor: the tensor it describes, or the kind of one that is not built, once looked at.
    """

    __slots__ = ("args", "members", "name", "state", "tensor")

    def __init__(self, name: str, args: Sequence[Any] = ()) -> None:
        super().__init__()
        self.name = name
        self.args = args
        self.state: Any = None
        self.members: Sequence[object] = ()
        self.tensor: Tensor | str | None = None

    def append(self, member: object) -> None:
        """Add a member, like `list.append`."""
        self.extend([member])

    def extend(self, members: Iterable[object]) -> None:
        """Add members, like `list.extend`."""
        if not isinstance(self.members, list):
            self.members = []
        self.members.extend(members)


class NestedFile:
    """The bytes of a torch file inside a pickle, read once, when a tensor needs them."""

    def __init__(self, data: bytes, budget: StepBudget) -> None:
        self._data = data
        self._budget = budget

    @cached_property
    def content(self) -> object:
        """The unpickled content."""
        # memoryview refuses a number, of which bytearray would make as many zero bytes
        return Archive(bytearray(memoryview(self._data)), self._budget).pickled()


class Storage:
    """A storage in an archive, mapped into memory when a tensor needs it.

    Args:
        archive: the archive.
        kind: name of its class, a key of `STORAGES`.
        key: its name in the archive.
        count: number of elements.

    Raises:
        ValueError: the archive has it as another kind.
    """

    def __init__(self, archive: Archive, kind: str, key: str, count: int) -> None:
        self._archive = archive
        self._key = key
        self._count = count
        if archive.kinds.setdefault(key, kind) != kind:
            raise ValueError(f"storage {key} has two kinds of numbers")
        archive.storages.append(self)

    def tensor(
        self, dtype: torch.dtype | None, offset: int, size: Sequence[int], stride: Sequence[int]
    ) -> Tensor:
        """A tensor that views the storage; the layout comes from the file and is checked here.

        Args:
            dtype: element type; None = the storage's.
            offset: index of the first element in the storage.
            size: shape.
            stride: step of each dimension, in elements.

        Raises:
            ValueError: the tensor exceeds the storage, or the storage is not its entry.
        """
        if not len(stride) == len(size) <= MOST_DIMENSIONS or not all(
            type(n) is int and n >= 0 for n in (offset, *size, *stride)
        ):
            raise ValueError("a tensor's sizes or strides are no counts, or too many")
        dtype = dtype or self._kind
        memory = self.memory()
        if not all(size):
            offset = 0
        else:
            last = offset
            for n, step in zip(size, stride, strict=True):
                last += (n - 1) * step
            if (last + 1) * dtype.itemsize > len(memory):
                raise ValueError(f"a tensor of shape {tuple(size)} reaches out of its storage")
        return torch.empty(0, dtype=dtype).set_(memory, offset, size, stride)

    @property
    def _kind(self) -> torch.dtype:
        dtype: torch.dtype = STORAGES[self._archive.kinds[self._key]]
        return dtype

    def memory(self) -> torch.UntypedStorage:
        """The storage's part of the file.

        Raises:
            ValueError: it is not its whole entry.
        """
        archive = self._archive
        start, length = archive.places[f"data/{self._key}"]
        end = self._count * self._kind.itemsize
        if end != length or start + end > len(archive.data):
            raise ValueError(f"storage {self._key} has {length} bytes, and {end} are asked for")
        part: torch.UntypedStorage = archive.memory.untyped_storage()[start : start + end]
        return part


def opened(file: BinaryIO) -> Archive:
    """An open file of torch, mapped; a change of it does not reach its tensors."""
    return Archive(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))


class Archive:
    """A file, or a file inside a pickle, and the byte ranges of its storages.

    Args:
        data: its bytes.
        budget: the budget for reading; None = one in proportion to the data.

    Attributes:
        memory: the bytes as a uint8 tensor (n,).
        places: first byte and length of each entry by its name in small letters, without the
            folder; of a storage it is ``data/`` and its key.
        kinds: class of each storage, a key of `STORAGES`, by name.
        names: globals that the pickle names, as ``module.name``.
        storages: all that it asks for.
    """

    is_of_torch = False
    """Whether it is a file of ``torch.save``, not a bare pickle."""

    others = ""
    """What it holds that torch would make of, or change in, a tensor or a container."""

    keys = ""
    """Keys that are not left to torch, which hashes them."""

    def __init__(self, data: mmap.mmap | bytearray, budget: StepBudget | None = None) -> None:
        self.data = data
        self.budget = budget or StepBudget(len(data))
        self.memory = torch.frombuffer(data, dtype=torch.uint8)
        self.places: dict[str, tuple[int, int]] = {}
        self.kinds: dict[str, str] = {}
        self.names: set[str] = set()
        self.storages: list[Storage] = []

    def zipped(self, entries: Sequence[zipfile.ZipInfo]) -> object:
        """Unpickle what ``torch.save`` wrote.

        Args:
            entries: from `zip_entries`.

        Raises:
            ValueError: an archive in which torch would find other entries, or big-endian numbers.
        """
        folders = set()
        for entry in entries:
            folder, _, name = entry.filename.partition("/")
            packed = entry.compress_type or entry.flag_bits & 1
            packed = packed or _lies_twice(entry.extra)
            if packed or not name.isascii() or entry.filename != entry.orig_filename:
                break
            folders.add(folder)
            header = entry.header_offset
            # the content begins after the header, its name and extra field
            lengths = struct.unpack("<HH", self.data[header + 26 : header + 30])
            self.places[name.lower()] = header + 30 + sum(lengths), entry.file_size
        if len(folders) != 1 or len(self.places) < len(entries) or "data.pkl" not in self.places:
            raise ValueError(_NOT_PLAIN)
        if "byteorder" in self.places and self._entry("byteorder") != b"little":
            raise ValueError(_BIG_ENDIAN)
        return self._of_torch(self._unpickled(io.BytesIO(self._entry("data.pkl"))))

    def pickled(self) -> object:
        """Unpickle a bare pickle, or torch's old format: magic number, version, system, content,
        storages."""
        file: Any = self.data
        if isinstance(file, bytearray):
            file = io.BytesIO(file)
        with suppress(tarfile.HeaderError):
            tarfile.TarInfo.frombuf(self.data[:512], "ascii", "replace")
            raise ValueError("torch's oldest format, a tar archive: load it and save it again")
        content = self._unpickled(file)
        if content != torch.serialization.MAGIC_NUMBER:
            return content
        _, system, content = (self._unpickled(file) for _ in range(3))
        named, self.names = self.names, set()
        keys = self._unpickled(file)
        if self.names or not isinstance(keys, list):
            raise ValueError("the names of its storages are no list")
        self.names = named
        if not system["little_endian"]:
            raise ValueError(_BIG_ENDIAN)
        for key in map(_text, keys):
            (count,) = struct.unpack("<q", file.read(8))
            length = count * STORAGES[self.kinds[key]].itemsize
            self.places[f"data/{key}"] = file.tell(), length
            file.seek(length, io.SEEK_CUR)
        return self._of_torch(content)

    def _of_torch(self, content: object) -> object:
        self.is_of_torch = True
        for storage in self.storages:
            storage.memory()  # each is in the file, used or not
        return content

    def _entry(self, name: str) -> bytes:
        start, length = self.places[name]
        return bytes(self.data[start : start + length])

    def _unpickled(self, file: BinaryIO) -> Any:
        return _Unpickler(file, self).load()


def _lies_twice(extra: bytes) -> bool:
    """Whether the further fields of an entry have two 64-bit places: readers differ in the one that
    they take."""
    found = at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        found += kind == 1
        at += 4 + length
    return found > 1


def _text(value: str) -> str:
    """A value from a file, or TypeError from `join` if it is no text."""
    return "".join([value])


_METADATA = {"_metadata"}
"""Attributes that torch gives a state dict."""

_BYTES = "_codecs.encode"
"""How protocols before 3 write bytes."""

_WITH_ATTRIBUTES = "torch._utils._rebuild_parameter_with_state"


def _encoded(text: str) -> bytes:
    return _text(text).encode("latin1")


# the unpickler in C allocates whatever size a file states
_PurePython: Any = vars(pickle)["_Unpickler"]


class _Unpickler(_PurePython):  # type: ignore[misc]
    def __init__(self, file: BinaryIO, archive: Archive) -> None:
        super().__init__(file, encoding="latin1")
        self._archive = archive
        self._budget = archive.budget
        self.dispatch = _CountedOpcodes(self.dispatch, archive.budget)
        # (source, result) by id(source); the source is kept so that its id is not reused
        self._made_of: dict[int, tuple[object, object]] = {}

    def find_class(self, module: str, name: str) -> Placeholder:
        # names of Python 2, as torch maps them
        module, name = NAME_MAPPING.get((module, name), (IMPORT_MAPPING.get(module, module), name))
        length = len(module) + len(name)
        if length > LONGEST_NAME:
            raise pickle.UnpicklingError("a name of more characters than any has")
        self._budget.spend(length // BYTES_KEPT_A_STEP)
        named = Placeholder(f"{module}.{name}")
        self._archive.names.add(named.name)
        return named

    def persistent_load(self, pid: Sequence[Any]) -> object:
        if pid[0] == "module":
            # torch's old format: ("module", class, path and source code of the class)
            return pid[1]
        if len(pid) > PARTS_OF_A_STORAGE:
            raise pickle.UnpicklingError("a storage of more parts than any has")
        what, kind, key, place, count, *view = pid
        if view not in ([], [None]):
            raise pickle.UnpicklingError("a view of a storage, which torch no longer writes")
        if (what, type(place), type(count)) != ("storage", str, int):
            raise pickle.UnpicklingError("a storage of other parts than torch writes")
        _, _, storage_class = kind.name.rpartition(".")
        return Storage(self._archive, storage_class, _text(key), count)

    def _instantiate(self, func: object, args: Sequence[Any]) -> None:
        """Push the result of a call: a placeholder, or one of a few plain types."""
        if not isinstance(func, Placeholder):
            raise pickle.UnpicklingError(f"it calls a {type(func).__name__}")
        made: object = []
        parts = (len(arg) for arg in args if isinstance(arg, (tuple, list, dict)))
        self._budget.spend(len(args) + sum(parts))
        if func.name in TAKEN and not self._is_plain(func.name, args):
            self._archive.others = func.name
        if func.name in _SETS:
            if args:
                self._look_at(args[0])
                made = Unordered(args[0])
        elif func.name == _BYTES:
            made = self._once(args[0], _encoded)
        elif func.name == "torch.storage._load_from_bytes":
            made = self._once(args[0], partial(NestedFile, budget=self._budget))
        elif func.name in _DICTS:
            made = self._ordered(args)
        else:
            made = Placeholder(func.name, args)
        self.append(made)

    def _is_plain(self, name: str, args: Sequence[Any]) -> bool:
        """Whether a call makes bytes, a plain container, a plain tensor, or one with attributes of
        the user's own: torch sets any others, such as its ``data``."""
        if any(isinstance(arg, Unordered) for arg in args):
            return False
        if name == _BYTES:
            return tuple(args[1:]) == ("latin1",)
        if name == _WITH_ATTRIBUTES:
            state = args[-1]
            return isinstance(state, dict) and not any(hasattr(Tensor, one) for one in state)
        if name == _COUNTER and not all(isinstance(arg, dict) for arg in args):
            return False  # it would hash pairs
        if name not in _PLAIN:
            return False
        most = _PLAIN[name]
        return len(args) <= most or (len(args) == most + 1 and args[most] is None)

    def _once(self, value: _Value, make: Callable[[_Value], object]) -> object:
        """Result of `make`, cached per value by identity."""
        if id(value) not in self._made_of:
            self._made_of[id(value)] = value, make(value)
        _, made = self._made_of[id(value)]
        return made

    def _ordered(self, args: Sequence[Any]) -> SafeDict:
        made = SafeDict()
        for given in args:
            pairs = given.items() if isinstance(given, dict) else given
            self._look_at([name for name, _ in pairs])
            for name, value in pairs:
                made[name] = value
        return made

    def _look_at(self, keys: Sequence[object]) -> None:
        """Note keys whose hashes may collide, or take for ever: torch would hash them."""
        self._budget.spend(len(keys))
        if not all(map(_is_safe, keys)):
            self._archive.keys = "keys that are no text or number"

    def _reduce(self) -> None:
        args = self.stack.pop()
        func = self.stack.pop()
        self._instantiate(func, args)

    def _new_object(self) -> None:
        """As a call; but a container of Python is empty then, whatever is given."""
        made = self.stack[-2]
        if isinstance(made, Placeholder) and made.name in TAKEN:
            self._archive.others = made.name
        self._reduce()

    def _reduce_ex(self) -> None:
        keywords = self.stack.pop()
        args = self.stack.pop()
        func = self.stack.pop()
        self._instantiate(func, (*args, keywords))

    def _build(self) -> None:
        state = self.stack.pop()
        made = self.stack[-1]
        if isinstance(made, Placeholder):
            made.state = state
            if made.name in TAKEN:
                self._archive.others = made.name
        elif isinstance(made, SafeDict) and isinstance(state, dict) and state.keys() == _METADATA:
            made._metadata = state["_metadata"]
        else:
            self._archive.others = "a mapping with attributes"

    def _empty_dict(self) -> None:
        self.append(SafeDict())

    def _set_item(self) -> None:
        self._look_at(self.stack[-2:-1])
        self.load_setitem()

    def _set_items(self) -> None:
        self._look_at(self.stack[::2])
        self.load_setitems()

    def _dict(self) -> None:
        self.metastack[-1].append(SafeDict())
        self._set_items()

    _kept = _PurePython.dispatch
    dispatch = _kept | {
        pickle.REDUCE[0]: _reduce,
        pickle.NEWOBJ[0]: _new_object,
        pickle.NEWOBJ_EX[0]: _reduce_ex,
        pickle.BUILD[0]: _build,
        pickle.EMPTY_DICT[0]: _empty_dict,
        pickle.DICT[0]: _dict,
        pickle.SETITEM[0]: _set_item,
        pickle.SETITEMS[0]: _set_items,
        # sets become lists: nothing is hashed; bytearrays become bytes: no stated size is allocated
        pickle.EMPTY_SET[0]: _kept[pickle.EMPTY_LIST[0]],
        pickle.ADDITEMS[0]: _kept[pickle.APPENDS[0]],
        pickle.FROZENSET[0]: _kept[pickle.LIST[0]],
        pickle.BYTEARRAY8[0]: _kept[pickle.BINBYTES8[0]],
    }
