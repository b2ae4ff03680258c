"""Hostile pickles: nothing in them runs, and those that cannot be read are one line."""

import argparse
import collections
import fractions
import importlib
import io
import os
import pickle
import re
import struct
import sys
import tarfile
import warnings
import zipfile

import pytest
import torch
from torch import nn

from fa_core.errors import UnreadableInput
from fa_core.files.inert import REGISTERED
from fa_core.measure.checkpoint import load_checkpoint
from tests.fa_core.files.bombs import module, text


def shapes(path):
    return {name: tensor.shape for name, tensor in load_checkpoint(path).tensors.items()}


TRAP = "fa_trap_module"
WEIGHTS = {"w": torch.arange(6.0).reshape(2, 3)}
ESCAPED = []
"""What ran."""


class Reduced:
    """Pickled as whatever it is given: function, arguments, state, list items, dict items, setter of the state."""

    def __init__(self, *parts):
        self.parts = parts

    def __call__(self):
        """Only what can be called is pickled in the place of a function."""

    def __reduce__(self):
        return self.parts


class Described:
    """Attributes that run code when they are set, and methods that unpickling calls."""

    def __new__(cls, *args):
        if args:
            ESCAPED.append("__new__")
        return super().__new__(cls)

    def __setstate__(self, state):
        ESCAPED.append("__setstate__")

    def append(self, value):
        ESCAPED.append("append")

    def __setitem__(self, key, value):
        ESCAPED.append("__setitem__")


class Property:
    __slots__ = ()

    @property
    def value(self):
        return 0

    @value.setter
    def value(self, new):
        ESCAPED.append("property")


class Set(Property):
    def __setattr__(self, name, value):
        ESCAPED.append("__setattr__")


def touched(name):
    ESCAPED.append(name)


HOSTILE = {
    "os.system": lambda: Reduced(os.system, ("touch proof",)),
    "importlib": lambda: Reduced(importlib.import_module, (TRAP,)),
    "__setstate__": lambda: Reduced(Described, (), {"a": 1}),
    "append": lambda: Reduced(Described, (), None, iter([1])),
    "__setitem__": lambda: Reduced(Described, (), None, None, iter([("a", 1)])),
    "a setter of the state": lambda: Reduced(Described, (), "state", None, None, touched),
    "a property set from slots": lambda: Reduced(Property, (), (None, {"value": 1})),
    "__setattr__": lambda: Reduced(Set, (), (None, {"value": 1})),
    "sets": lambda: [{"a", "b"}, frozenset("c"), {Hashed()}],
    "a key that hashes": lambda: {Hashed(): 1},
}


class Hashed:
    def __hash__(self):
        ESCAPED.append("hash")
        return 1

    def __reduce__(self):
        return (Hashed, ())


def in_zip(data, path):
    path.write_bytes(zipped({**PLAIN, "x/byteorder": b"little", "x/data.pkl": data}))


OLD_HEAD = b"".join(
    pickle.dumps(part, 2)
    for part in (torch.serialization.MAGIC_NUMBER, 1001, {"little_endian": True, "type_sizes": {}})
)
"""What torch's old format begins with."""


def in_old_format(data, path):
    path.write_bytes(OLD_HEAD + data + pickle.dumps([], 2))


def in_pickle(data, path):
    path.write_bytes(data)


CONTAINERS = {"zip": in_zip, "old format": in_old_format, "bare pickle": in_pickle}

SHAPES = {
    "beside": lambda trap: {"extra": trap, "model": WEIGHTS},
    "in a Namespace": lambda trap: argparse.Namespace(extra=trap, model=WEIGHTS),
    "in a module": lambda trap: holding(trap),
    "among the weights": lambda trap: {**WEIGHTS, "extra": trap},
    "in a tensor's hooks": lambda trap: {
        "w": Reduced(
            torch._utils._rebuild_parameter, (WEIGHTS["w"], True, collections.OrderedDict(a=trap))
        )
    },
}


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(WEIGHTS["w"].clone())


def holding(trap):
    """A module with it as an attribute, a hook and a buffer."""
    net = Net()
    net.extra = net._forward_hooks[0] = net._buffers["extra"] = trap
    return net


@pytest.fixture
def trap(tmp_path, monkeypatch):
    """A folder with a module that must not be imported; a file ``proof`` in it, or `ESCAPED`, shows what ran."""
    (tmp_path / f"{TRAP}.py").write_text("open('proof', 'w')\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def assert_nothing_ran(folder):
    assert not (folder / "proof").exists()
    assert TRAP not in sys.modules
    assert ESCAPED == []


@pytest.mark.parametrize(
    ("container", "protocol"),
    [
        ("zip", 2),
        ("zip", 5),
        ("old format", 2),
        ("bare pickle", 5),
    ],
)
@pytest.mark.parametrize("shape", SHAPES)
def test_nothing_runs_and_the_weights_are_read(shape, container, protocol, trap):
    path = trap / "a.pt"
    for kind, make in HOSTILE.items():
        content = SHAPES[shape](make())
        if container == "bare pickle":
            path.write_bytes(pickle.dumps(content, protocol))
        else:
            new = container == "zip"
            torch.save(content, path, pickle_protocol=protocol, _use_new_zipfile_serialization=new)
        ESCAPED.clear()
        found = load_checkpoint(path)
        assert torch.equal(found.tensors["w"], WEIGHTS["w"]), kind
        assert_nothing_ran(trap)


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_file_of_nothing_else_is_refused_in_one_line(kind, container, trap):
    data = pickle.dumps(HOSTILE[kind](), 2)
    ESCAPED.clear()
    CONTAINERS[container](data, trap / "a.pt")
    with pytest.raises(UnreadableInput) as caught:
        load_checkpoint(trap / "a.pt")
    assert str(caught.value).startswith(str(trap / "a.pt")) and "\n" not in str(caught.value)
    assert_nothing_ran(trap)


def storage(count=6, key="0", kind="FloatStorage"):
    """Opcodes of a storage's persistent id."""
    key, count = pickle.dumps(key, 2)[2:-1], pickle.dumps(count, 2)[2:-1]
    return b"(X\x07\0\0\0storagectorch\n%s\n%sX\x03\0\0\0cpu%stQ" % (kind.encode(), key, count)


def tensor(offset=0, size=(2, 3), stride=(3, 1), of=None):
    """Opcodes of a tensor."""
    numbers = b"".join(pickle.dumps(part, 2)[2:-1] for part in (offset, size, stride))
    return b"ctorch._utils\n_rebuild_tensor_v2\n(%s%s\x89NtR" % (of or storage(), numbers)


def state_dict(value):
    return b"\x80\x02}X\x01\0\0\0w" + value + b"s."


def doubling(levels):
    """A module that holds one module twice, and that one another twice, and so on."""
    inner = module(b"}" + text("w") + tensor() + b"s", b"}")
    for _ in range(levels):
        inner = module(b"}", b"}(" + text("a") + inner + b"q\x05" + text("b") + b"h\x05u")
    return inner


MALFORMED = {
    "a size beyond the storage": state_dict(tensor(size=(3, 3))),
    "a negative stride": state_dict(tensor(stride=(-3, 1))),
    "fewer strides than sizes": state_dict(tensor(stride=(1,))),
    "sizes that are text": state_dict(tensor(size=("2", "3"))),
    "a size of 2**62": state_dict(tensor(size=(2**62, 2**62), stride=(0, 0))),
    "a storage beyond its entry": state_dict(tensor(of=storage(7))),
    "a storage that is not there": state_dict(tensor(of=storage(key="1"))),
    "a storage of no known kind": state_dict(tensor(of=storage(kind="eval"))),
    "a tensor without a storage": state_dict(tensor(of=b"K\x01")),
    "a storage in as many bytes as a number": state_dict(
        tensor(of=b"ctorch.storage\n_load_from_bytes\n\x8a\x05\0\0\0\0\x40\x85R")
    ),
    "a sparse tensor": state_dict(b"ctorch._utils\n_rebuild_sparse_tensor\n)R"),
    "parameters within parameters": state_dict(
        b"ctorch._utils\n_rebuild_parameter\n(" * 20000 + b"N" + b"tR" * 20000
    ),
    "bytes of 2**40": b"\x80\x04\x8e" + struct.pack("<Q", 2**40) + b"x.",
    "a bytearray of 2**40": b"\x80\x05\x96" + struct.pack("<Q", 2**40) + b"x.",
    "a storage called by a list": state_dict(tensor(of=storage(key=["0"]))),
    "names that are no text": b"\x80\x04K\x01K\x02\x93.",
    "a memo of 2**32": b"\x80\x02Nr\xff\xff\xff\xff.",
    "a buffer from outside": b"\x80\x05\x97.",
    "an extension": b"\x80\x02\x82\x01.",
    "a persistent id of text": b"\x80\x02Pstorage\n.",
    "lists within lists": b"\x80\x02" + b"]" * 30_000 + b"a" * 29_999 + b".",
    "modules doubled forty times": b"\x80\x02" + doubling(40) + b".",
    "a module within itself": b"\x80\x02"
    + module(b"}" + text("w") + tensor() + b"s", b"}" + text("self") + b"h\x09s").replace(
        b"M\n)R", b"M\n)Rq\x09"
    )
    + b".",
    "a call of text": b"\x80\x02" + text("os.system") + b")R.",
    "a new object of a number": b"\x80\x02K\x01)\x81.",
    "no end": b"\x80\x02}",
    "text that is no UTF-8": b"\x80\x02X\x02\0\0\0\xff\xfe.",
}


@pytest.mark.parametrize("kind", MALFORMED)
def test_what_cannot_be_meant_is_one_line_that_names_the_file(kind, tmp_path):
    for write in CONTAINERS.values():
        write(MALFORMED[kind], tmp_path / "a.pt")
        with pytest.raises(UnreadableInput) as caught:
            load_checkpoint(tmp_path / "a.pt")
        said = str(caught.value)
        assert said.startswith(str(tmp_path / "a.pt")) and "\n" not in said and len(said) < 600


def test_the_opcodes_of_these_tests_are_a_checkpoint_where_they_are_well_formed(
    tmp_path,
):
    in_zip(state_dict(tensor(offset=1, size=(2, 2), stride=(1, 3))), tmp_path / "a.pt")
    assert shapes(tmp_path / "a.pt") == {"w": (2, 2)}
    in_zip(b"\x80\x02" + doubling(2) + b".", tmp_path / "a.pt")
    assert shapes(tmp_path / "a.pt") == {f"{a}.{b}.w": (2, 3) for a in "ab" for b in "ab"}


def test_a_storage_that_begins_between_elements_is_read(tmp_path):
    numbers = {"x/data/0": WEIGHTS["w"].numpy().tobytes()}
    for room in range(4):
        (tmp_path / "a.pt").write_bytes(zipped(PICKLE, ("x/version", b"3" + b"x" * room), numbers))
        assert torch.equal(load_checkpoint(tmp_path / "a.pt").tensors["w"], WEIGHTS["w"])


ONES, TWOS = (struct.pack("<6f", *[value] * 6) for value in (1.0, 2.0))
PICKLE = {"x/data.pkl": state_dict(tensor())}
PLAIN = {**PICKLE, "x/data/0": ONES, "x/version": b"3\n"}


def zipped(*entries, packed=(), comment=b""):
    """A zip archive of (name, content) or mappings of them."""
    pairs = []
    for one in entries:
        pairs += [one] if isinstance(one, tuple) else one.items()
    file = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w") as archive:
        warnings.simplefilter("ignore")  # a name that stands twice
        archive.comment = comment
        for name, content in pairs:
            archive.writestr(name, content, zipfile.ZIP_DEFLATED if name in packed else None)
    return file.getvalue()


def saved(content):
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


def padded(name, content):
    """An entry that begins at another place, as tools that align archives write it."""
    entry = zipfile.ZipInfo(name)
    entry.extra = b"\x35\xd9" + struct.pack("<H", 60) + bytes(60)
    return entry, content


def encrypted(data):
    """With the flag of encryption at the second entry."""
    at = data.index(b"PK\1\2", data.index(b"PK\1\2") + 1) + 8
    return data[:at] + b"\1" + data[at + 1 :]


def relocated(data):
    """With a locator that names another place of the 64-bit record, where torch looks for it."""
    at = data.rindex(b"PK\6\7") + 8
    return data[:at] + bytes(8) + data[at + 8 :]


def in_small_print(data):
    """With a locator within the directory, which some take for that of a 64-bit record."""
    at = data.rindex(b"#" * 20)
    return data[:at] + b"PK\6\7" + bytes(16) + data[at + 20 :]


def commented(data):
    """The last entry with a comment of 20 characters."""
    entry = data.rindex(b"PK\1\2")
    end = data.rindex(b"PK\5\6")
    size = struct.unpack_from("<I", data, end + 12)[0] + 20
    last = data[entry : entry + 32] + struct.pack("<H", 20) + data[entry + 34 : end] + b"#" * 20
    return data[:entry] + last + data[end : end + 12] + struct.pack("<I", size) + data[end + 16 :]


def in_two_ways(first, second):
    """torch's old format, with two tensors of one storage."""
    values = text("w") + tensor(of=first) + text("v") + tensor(of=second)
    content = b"\x80\x02}(" + values + b"u."
    return b"".join([OLD_HEAD, content, pickle.dumps(["0"], 2), struct.pack("<q", 6), ONES])


def viewed(view=b"N", kind="FloatStorage"):
    """A storage of the old format; of all views of one name torch takes the first."""
    return storage(kind=kind)[:-2] + view + b"tQ"


VIEW = b"(X\1\0\0\0vK\0K\6t"


def as_tar(start):
    """A header of a tar, whose first name is what another file begins with."""
    data = bytearray(tarfile.TarInfo().tobuf())
    data[: len(start)] = start
    data[148:156] = b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    return bytes(data)


OTHERS = zipped(PICKLE, {"x/data/0": TWOS})
OUTSIDE, OTHERWISE = (
    "not one zip archive from its first byte",
    "each once, uncompressed, in one folder",
)
AMBIGUOUS = {
    "two archives": (OTHERS + zipped(PLAIN), OUTSIDE),
    "bytes behind": (zipped(PLAIN) + b"\n", OUTSIDE),
    "an archive in the comment": (zipped(PLAIN, comment=OTHERS), OUTSIDE),
    "a comment": (zipped(PLAIN, comment=b"x"), OUTSIDE),
    "another place of the directory": (relocated(saved(WEIGHTS)), OUTSIDE),
    "a locator in the directory": (in_small_print(commented(zipped(PLAIN))), OUTSIDE),
    "a name twice": (zipped(PLAIN, ("x/data/0", TWOS)), OTHERWISE),
    "a name twice but for its case": (zipped(PLAIN, ("x/DATA/0", TWOS)), OTHERWISE),
    "a name twice where it is cut": (
        zipped(PLAIN, ("x/data/0?zz", TWOS)).replace(b"0?zz", b"0\0zz"),
        OTHERWISE,
    ),
    "a name in two codes": (
        zipped(PLAIN, ("x/data/\xe9", TWOS), ("x/data/zz", TWOS)).replace(b"zz", b"\xc3\xa9"),
        OTHERWISE,
    ),
    "two folders": (zipped(PICKLE, ("y/data/0", TWOS)), OTHERWISE),
    "a file beside the folder": (zipped(PLAIN, ("data.pkl", b"")), OTHERWISE),
    "no folder": (zipped({name[2:]: held for name, held in PLAIN.items()}), OTHERWISE),
    "a compressed storage": (zipped(PLAIN, ("x/0", TWOS), packed=["x/data/0"]), OTHERWISE),
    "a compressed pickle": (zipped(PLAIN, packed=["x/data.pkl"]), OTHERWISE),
    "an encrypted storage": (encrypted(zipped(PLAIN)), OTHERWISE),
    "a tar": (as_tar(in_two_ways(viewed(), viewed())[:60]), "a tar archive"),
    "views of one name": (in_two_ways(viewed(VIEW), viewed(VIEW)), "a view of a storage"),
    "a view by a call": (
        in_two_ways(viewed(b"ctorch\nSize\n(K\7K\0K\6t\x85R"), viewed()),
        "a view of a storage",
    ),
    "storages in a set": (
        in_two_ways(viewed(), viewed()).replace(pickle.dumps(["0"], 2), pickle.dumps({"0"}, 2)),
        "the names of its storages are no list",
    ),
    "two kinds of numbers": (
        in_two_ways(viewed(), viewed(kind="IntStorage")),
        "storage 0 has two kinds of numbers",
    ),
    "numbers that begin with their last byte": (
        zipped(PLAIN, ("x/byteorder", b"big")),
        "big-endian",
    ),
    "a storage outside its folder": (zipped(PICKLE, ("x/0", TWOS)), "KeyError: 'data/0'"),
}
"""Files in which torch finds other weights than other readers, or none; what is said of them."""


@pytest.mark.parametrize("kind", AMBIGUOUS)
def test_a_file_that_others_may_read_otherwise_is_refused(kind, tmp_path):
    data, words = AMBIGUOUS[kind]
    (tmp_path / "a.pt").write_bytes(data)
    with pytest.raises(UnreadableInput, match=re.escape(words)):
        load_checkpoint(tmp_path / "a.pt")


READ = {
    "as it is": zipped(PLAIN),
    "with folders": zipped(("x/", b""), PLAIN, ("x/data/", b"")),
    "aligned": zipped(*(padded(name, held) for name, held in PLAIN.items())),
    "another entry, which torch does not read": zipped(PLAIN, ("x/0", TWOS)),
    "a folder that is not ASCII": zipped({f"\xe9{name}": held for name, held in PLAIN.items()}),
    "of torch's old format": in_two_ways(viewed(), viewed()),
    "of torch": saved({"w": torch.ones(2, 3)}),
}


@pytest.mark.parametrize("kind", READ)
def test_what_torch_and_tools_write_is_read_as_torch_reads_it(kind, tmp_path):
    (tmp_path / "a.pt").write_bytes(READ[kind])
    own = torch.load(tmp_path / "a.pt", weights_only=True)["w"]
    assert torch.equal(load_checkpoint(tmp_path / "a.pt").tensors["w"], own)
    assert torch.equal(own, torch.ones(2, 3))


def test_shared_storages_stay_shared(tmp_path):
    tied = torch.ones(3, 3)
    torch.save({"a": tied, "b": tied.t(), "c": tied[1]}, tmp_path / "a.pt")
    found = load_checkpoint(tmp_path / "a.pt").tensors
    assert found["a"].data_ptr() == found["b"].data_ptr()
    assert found["c"].data_ptr() == found["a"][1].data_ptr()


def call(name, *args):
    """Opcodes of a call by a tuple of opcodes."""
    module, _, function = name.rpartition(".")
    return b"c%s\n%s\n(%stR" % (module.encode(), function.encode(), b"".join(args))


def with_two_storages(data):
    """An archive of a pickle and two storages of 6 numbers."""
    numbers = {f"x/data/{key}": (torch.arange(6.0) + 9 * key).numpy().tobytes() for key in (0, 1)}
    return zipped({"x/data.pkl": data, **numbers, "x/version": b"3\n"})


def mapped(name, value):
    return b"}" + text(name) + value + b"s"


FLOAT, NEGATED = b"ctorch\nfloat32\n", mapped("neg", b"\x88")
PARTS = storage(), b"K\0", b"K\2K\3\x86", b"K\3K\1\x86", b"\x89", b"N"
OTHER = storage(key="1"), *PARTS[1:4]
OTHER_TENSOR = tensor(of=OTHER[0])
REBUILD = "torch._utils._rebuild_"
ALTERED = {
    "by another storage": tensor() + b"(%stb" % b"".join(OTHER),
    "by another storage, as a parameter": call(f"{REBUILD}parameter", tensor(), b"\x89N")
    + b"(%sNN\x89Ntb" % OTHER_TENSOR,
    "by its data": call(
        f"{REBUILD}parameter_with_state", tensor(), b"\x89N", mapped("data", OTHER_TENSOR)
    ),
    "by the data of its type": call(
        "torch._tensor._rebuild_from_type_v2",
        b"ctorch._utils\n_rebuild_tensor_v2\nctorch\nTensor\n",
        b"(%st" % b"".join(PARTS),
        mapped("data", OTHER_TENSOR),
    ),
    "by the data of what is the same tensor": tensor()
    + b"q\x05K\7"
    + call(
        "torch._tensor._rebuild_from_type_v2",
        b"ctorch._utils\n_rebuild_device_tensor_from_cpu_tensor\nctorch\nTensor\n",
        b"(h\x05%s%s\x89t" % (FLOAT, text("cpu")),
        mapped("data", OTHER_TENSOR),
    ),
    "by its sign": call(f"{REBUILD}tensor_v3", *PARTS, FLOAT, NEGATED),
    "by its sign in the second format": call(f"{REBUILD}tensor_v2", *PARTS, NEGATED),
}


GOOD, ITEMS = mapped("w", tensor()), b"(" + text("w") + OTHER_TENSOR + b"u"


@pytest.mark.parametrize("kind", ["UserList\nOrderedDict", "collections\nCounter"])
@pytest.mark.parametrize(
    ("first", "then"),
    [
        (GOOD + b"\x85", b""),
        (b")", GOOD + b"b"),
        (b")", text("keys") + b"cbuiltins\nset\n\x86\x85b"),
    ],
)
def test_what_a_mapping_holds_are_its_items_or_it_is_refused(kind, first, then, tmp_path):
    data = b"\x80\x02c%s\n%sR%s." % (kind.encode(), first, ITEMS + then)
    path = tmp_path / "a.pt"
    path.write_bytes(with_two_storages(data))
    of_torch = torch.load(path)["w"]
    assert torch.equal(of_torch, torch.arange(6.0).view(2, 3) + 9)
    if not then:
        assert torch.equal(load_checkpoint(path).tensors["w"], of_torch)
    else:
        with pytest.raises(UnreadableInput, match="a mapping with attributes"):
            load_checkpoint(path)


@pytest.mark.parametrize("beside", [b"", b"cfractions\nFraction\n"], ids=["", "taken here"])
@pytest.mark.parametrize("kind", ALTERED)
def test_a_tensor_that_torch_changes_is_refused(kind, beside, tmp_path):
    path = tmp_path / "a.pt"
    data = b"\x80\x02" + beside + b"}(" + text("w") + ALTERED[kind] + b"u."
    path.write_bytes(with_two_storages(data))
    with torch.serialization.safe_globals([fractions.Fraction]):
        of_torch = torch.load(path, weights_only=True)["w"].detach().resolve_neg()
    assert not torch.equal(of_torch, WEIGHTS["w"])
    with pytest.raises(UnreadableInput, match="holds more than plain tensors"):
        load_checkpoint(path)


@pytest.mark.parametrize("name", sorted(REGISTERED))
def test_a_file_that_names_what_torch_registers_is_refused(name, tmp_path):
    path = tmp_path / "a.pt"
    named = b"c" + "\n".join(name.rsplit(".", 1)).encode() + b"\n"
    data = b"\x80\x02" + named + state_dict(tensor())[2:]
    in_zip(data, path)
    assert torch.load(path, weights_only=True)["w"].shape == (2, 3)
    with pytest.raises(UnreadableInput, match=f"holds more than plain .*: {name}"):
        load_checkpoint(path)
