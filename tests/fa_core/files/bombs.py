"""Small files that ask for all memory, for hours or for a program, and a process that reads them under limits.

    python -m tests.fa_core.files.bombs FOLDER

prints a line of JSON for each. A process is forked for each file, so that torch is imported once.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import select
import signal
import struct
import sys
import zipfile
from functools import partial
from pathlib import Path
from unittest import mock

from tests.vision import DeclaredOperators

MEMORY = 1 << 30
"""Bytes of address space above what the imports took."""

CPU_SECONDS, SECONDS = 10, 60
"""Processor time; and time of the clock, which ends what waits."""

PROTOCOL = b"\x80\x02"
MERSENNE = (1 << 61) - 1
"""Integers that differ by it have one hash."""


def text(value):
    data = value.encode()
    return b"X" + struct.pack("<I", len(data)) + data


def get(place):
    return b"h" + bytes([place])


def put(place):
    return b"q" + bytes([place])


def keep(value, place):
    """Put a value into the memo; it stays on the stack, below what follows."""
    return value + put(place)


def nones(count):
    return b"](" + b"N" * count + b"e"


def pickled(kept, *parts):
    return PROTOCOL + kept + b"](" + b"".join(parts) + b"e."


def called(function, argument, times):
    """A function that is called with one tuple of arguments again and again."""
    module, _, name = function.rpartition(".")
    kept = keep(f"c{module}\n{name}\n".encode(), 0) + keep(argument, 1)
    return pickled(kept, (get(0) + get(1) + b"R") * times)


def stored():
    """A tensor's function, and its storage of 2 MB as a file within the pickle, in the memo as 0, 1 and 2."""
    import torch

    file = io.BytesIO()
    storage = torch.zeros(1 << 19)._typed_storage()
    torch.save(storage, file, _use_new_zipfile_serialization=False)
    data = file.getvalue()
    kept = keep(b"ctorch._utils\n_rebuild_tensor_v2\n", 0)
    kept += keep(b"ctorch.storage\n_load_from_bytes\n", 1)
    return kept + keep(b"B" + struct.pack("<I", len(data)) + data, 2)


TENSOR = get(0) + b"(" + get(1) + get(2) + b"\x85RK\x00K\x04\x85K\x01\x85\x89NtR"


def module(parameters, modules, passing=b"N"):
    members = {
        "_parameters": parameters,
        "_buffers": b"}",
        "_modules": modules,
        "_non_persistent_buffers_set": passing,
    }
    return b"cm\nM\n)R}(" + b"".join(text(name) + value for name, value in members.items()) + b"ub"


def named(prefix, count, value):
    return b"}(" + b"".join(text(f"{prefix}{number}") + value for number in range(count)) + b"u"


def colliding():
    keys = (
        b"\x8a\x0b" + (MERSENNE * number).to_bytes(11, "little") + b"N"
        for number in range(1, 60_000)
    )
    return PROTOCOL + b"}(" + b"".join(keys) + b"u."


def shared_tuple():
    return keep(b"(" + b"N" * 20_000 + b"t", 1)


STORAGE = b"(" + text("storage") + b"ctorch\nFloatStorage\n" + text("0") + text("cpu") + b"K\x01tQ"
TWICE = b")" + b"q\x01h\x01\x86" * 60
"""A tuple of one tuple twice, nested: 2⁶⁰ parts to hash or to write."""


def many_dimensions(count, tensors):
    """Tensors of one element, whose shape is one tuple of ones."""
    storage = keep(STORAGE, 0)
    shape = keep(b"(" + b"K\x01" * count + b"t", 1)
    rebuild = keep(b"ctorch._utils\n_rebuild_tensor\n", 2)
    one = get(2) + b"(" + get(0) + b"K\x00" + get(1) + get(1) + b"tR"
    return storage + shape + rebuild + named("t", tensors, one) + b"."


def saved_rows(rows):
    """A feedback of many rows that are one number, beside weights."""
    import torch

    file = io.BytesIO()
    torch.save({"model": {"a": torch.zeros(2)}, "Bs": torch.zeros(1).expand(rows, 1)}, file)
    return file.getvalue()


def zipped(members, method=zipfile.ZIP_DEFLATED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return file.getvalue()


def of_torch(pickle):
    """An archive as torch writes it, which torch itself reads."""
    parts = {"data.pkl": pickle, "version": b"3", "byteorder": b"little", "data/0": bytes(4)}
    return zipped({f"a/{name}": data for name, data in parts.items()}, zipfile.ZIP_STORED)


def elements(function):
    """A function that is called with a tensor of one number, many times."""
    tensor = b"ctorch._utils\n_rebuild_tensor\n(" + STORAGE + b"K\x00"
    tensor += b"J" + struct.pack("<i", 1 << 30) + b"\x85K\x00\x85tR"
    module, _, name = function.rpartition(".")
    return of_torch(PROTOCOL + f"c{module}\n{name}\n".encode() + tensor + b"\x85R.")


def safetensors(header):
    return struct.pack("<Q", len(header)) + header


CHECKPOINTS = {
    "copies of a list as sets": lambda: called("builtins.set", nones(20_000) + b"\x85", 20_000),
    "bytes of one text": lambda: called(
        "_codecs.encode", text("a" * (1 << 20)) + text("latin1") + b"\x86", 4_000
    ),
    "one storage in many tensors": lambda: PROTOCOL + stored() + named("n", 3_000, TENSOR) + b".",
    "keys that collide": colliding,
    "tuples as keys": lambda: pickled(shared_tuple(), (b"}" + get(1) + b"]Nas") * 20_000),
    "parameters of many modules": lambda: (
        PROTOCOL
        + stored()
        + keep(named("p", 2_000, TENSOR), 5)
        + module(b"}", named("m", 2_000, module(get(5), b"}")))
        + b"."
    ),
    "rows of a feedback": lambda: saved_rows(10**9),
    "names of buffers to leave out": lambda: (
        PROTOCOL
        + module(
            named("p", 10_000, b"N"),
            b"}",
            b"](" + b"".join(map(text, map(str, range(10_000)))) + b"e",
        )
        + b"."
    ),
    "many calls with many arguments": lambda: called("a.b", b"(" + b"N" * 20_000 + b"t", 20_000),
    "states of one object": lambda: (
        PROTOCOL
        + keep(
            b"}(" + b"".join(b"J" + struct.pack("<i", key) + b"N" for key in range(80_000)) + b"u",
            0,
        )
        + b"ca\nb\n("
        + get(0) * 200_000
        + b"tb."
    ),
    "parts of a storage": lambda: pickled(
        keep(b"(Nctorch\nFloatStorage\n" + text("0") + b"NK\x05" + b"N" * 500_000 + b"t", 0),
        (get(0) + b"Q0") * 300_000,
    ),
    "dimensions of a tensor": lambda: of_torch(PROTOCOL + many_dimensions(20_000, 4_000)),
    "names of two names": lambda: pickled(
        keep(text("m" * 500), 0) + keep(text("n" * 499), 1), (get(0) + get(1) + b"\x93") * 800_000
    ),
    "nested tuples": lambda: PROTOCOL + b"]" + b"\x85" * 200_000 + b".",
    "digits": lambda: PROTOCOL + b"L" + b"9" * 5_000_000 + b"L\n.",
    "a compressed pickle": lambda: zipped({"a/data.pkl": PROTOCOL + b"N0" * 15_000_000 + b"N."}),
    "entries of an archive": lambda: zipped(
        {str(n): b"" for n in range(70_000)}, zipfile.ZIP_STORED
    ),
    "a header of arrays": lambda: safetensors(b'{"a":[' + b"[]," * (12 << 20) + b"[]]}"),
    "a shape without data": lambda: safetensors(
        b'{"a":{"dtype":"F32","shape":[1099511627776],"data_offsets":[0,4398046511104]}}'
    ),
    "counted elements": lambda: elements("collections.Counter"),
    "a set of elements": lambda: elements("builtins.set"),
    "names and values of elements": lambda: elements("collections.OrderedDict"),
    "sizes of elements": lambda: elements("torch.Size"),
    "a tensor of a size": lambda: of_torch(
        PROTOCOL + b"](" + b"ctorch\nTensor\nJ\xff\xff\xff\x7f\x85R" * 10_000 + b"e."
    ),
    "bytes of one text in many encodings": lambda: of_torch(
        called("_codecs.encode", text("ä" * (1 << 17)) + text("punycode") + b"\x86", 1_000)
    ),
    "a key nested twice in each level": lambda: of_torch(PROTOCOL + b"}(" + TWICE + b"Nu."),
    "a counted pair nested twice": lambda: of_torch(
        PROTOCOL + b"ccollections\nCounter\n](N" + TWICE + b"\x86e\x85R."
    ),
    "a counted pair nested deep": lambda: of_torch(
        PROTOCOL + b"ccollections\nCounter\n](N)" + b"\x85" * 400_000 + b"\x86e\x85R."
    ),
    "an attribute nested twice": lambda: of_torch(
        PROTOCOL
        + b"ctorch._utils\n_rebuild_parameter_with_state\n(ctorch._utils\n_rebuild_tensor\n("
        + STORAGE
        + b"K\x00))tR\x88N]"
        + TWICE
        + b"a\x85tR."
    ),
    "shapes of tensors": lambda: of_torch(
        PROTOCOL
        + keep(b"ctorch._utils\n_rebuild_tensor\n", 0)
        + keep(b"(" + STORAGE + b"K\x00" + keep(b"(" + b"K\x01" * 40_000 + b"t", 2) + b"h\x02t", 1)
        + b"}("
        + (b"Nh\x00h\x01R" * 6_500)
        + b"u."
    ),
    "a key nested deep": lambda: of_torch(PROTOCOL + b"})" + b"\x85" * 400_000 + b"Ns."),
    "a list of lists": lambda: of_torch(
        PROTOCOL
        + b"]("
        + b"K\x01" * 700
        + b"eq\x01]("
        + b"h\x01" * 700
        + b"eq\x02]("
        + b"h\x02" * 700
        + b"eq\x03"
        + b"ctorch\nByteTensor\nh\x03\x85R."
    ),
}
CHECKPOINTS |= {
    f"{name}, as torch writes it": partial(of_torch, CHECKPOINTS[name]())
    for name in (
        *("copies of a list as sets", "bytes of one text", "keys that collide", "tuples as keys"),
        *("many calls with many arguments", "states of one object", "nested tuples"),
    )
}


def lines(line, count, first=b'{"epoch":1,"test_acc":0.5}\n'):
    return first + line * count


def many(part, count):
    return ",".join(part % number for number in range(count)).encode()


def two_recipes(facts):
    """Two reports whose recipes differ in each of so many facts."""
    return b",".join(
        b'"a_s%d":{"headline_acc":0,"provenance":{"recipe":{%b}}}'
        % (seed, many(f'"x%d":{seed}', facts))
        for seed in (1, 2)
    )


def record(data, length=None):
    return struct.pack("<QI", len(data) if length is None else length, 0) + data + bytes(4)


def events(*records):
    return record(b"\x1a\x0dbrain.Event:2") + b"".join(records)


FILES = {
    "lines that are no JSON": ("log.jsonl", lambda: lines(b"x\n", 300_000)),
    "runs of one line": (
        "runs.csv",
        lambda: b"run,epoch,test_acc\n" + b"".join(b"r%d,1,.5\n" % n for n in range(70_000)),
    ),
    "reports of nothing": (
        "table.json",
        lambda: b'{"reports":{' + many('"a%d":{}', 300_000) + b"}}",
    ),
    "nested arrays": ("a.json", lambda: b'{"epoch":' + b"[" * 5_000_000),
    "a long integer": ("a.json", lambda: b'{"headline_acc":' + b"9" * 5_000_000 + b"}"),
    "names without end": ("log.jsonl", lambda: lines(b"{" + many('"a%d":1', 300_000) + b"}\n", 1)),
    "lines under a long path": (
        "/".join(["d" * 250] * 9) + "/a.csv",
        lambda: b"epoch,loss\n" + b"1\n" * 490_000,
    ),
    "axes beside a long key": (
        "a.json",
        lambda: (
            b'{"reports":{"%b":{"residual_norms":[1,2],"axes":{' % (b"k" * 480_000)
            + many('"x%d":1', 48_000)
            + b"}}}}"
        ),
    ),
    "two recipes": (
        "a.json",
        lambda: b'{"reports":{' + two_recipes(30_000) + b"}}",
    ),
    "two recipes beside many runs": (
        "a.json",
        lambda: (
            b'{"reports":{'
            + two_recipes(20_000)
            + b","
            + many('"a_s1%d":{"headline_acc":0.5}', 16_000)
            + b"}}"
        ),
    ),
    "an axis of each run": (
        "a.json",
        lambda: b"[" + many('{"method":"a","acc":1,"axes":{"x%d":1}}', 25_000) + b"]",
    ),
    "a long cell": ("log.csv", lambda: b'epoch,test_acc\n1,"' + b"a\n" * 3_000_000),
    "a record of a false length": ("a.tfevents", lambda: events(record(b"x", (1 << 63) - 1))),
    "values of an event": (
        "a.tfevents",
        lambda: events(*[record(b"\x2a\xfe\xff\x03" + b"\x0a\x00" * 32_767)] * 10),
    ),
    "headings written again": ("log.csv", lambda: headings("%x") + b"1\n" * 150_000),
    "headings of layers": ("log.csv", lambda: headings("fa/h_%d")),
    "names beside columns": (
        "log.jsonl",
        lambda: (
            b'{"epoch":1,' + many('"fa/h_%d":1', 28_000) + b"," + many('"%x":1', 45_000) + b"}\n"
        ),
    ),
    "a layer by itself": ("log.jsonl", lambda: lines(b'{"epoch":2,"g/999999":1}\n', 30_000)),
    "starts of a log": (
        "a.tfevents",
        lambda: events(*map(scalar, range(12_000)), *[record(PURGE)] * 19_000),
    ),
    "a manifest of ten gigabytes": ("run/manifest.json", lambda: b'{"method":'),
}
SPARSE = {"a manifest of ten gigabytes": 10 << 30}


def headings(name):
    """A table that is begun again and again, each time under nearly twice as many headings."""
    names = many(name, 1 << 15).split(b",")
    widths = [1 << power for power in range(16)]
    return b"".join(b"epoch,test_acc," + b",".join(names[:wide]) + b"\n" for wide in widths)


PURGE = b"\x10\xff\x7f\x22\x02\x08\x01"
"""An event that says that the writer started, at a later step than any."""


def scalar(step):
    place = bytes([step & 127 | 128, step >> 7])
    return record(b"\x10" + place + b"\x2a\x11\x0a\x0f\x0a\x08test_acc\x15" + bytes(4))


def progressive(wide, scans=30_000):
    """A JPEG of many scans, the first of two pictures of a file."""
    from PIL import Image

    file, small = io.BytesIO(), Image.new("L", (8, 8))
    picture = Image.new("L", (wide, wide))
    picture.save(file, "MPO", save_all=True, append_images=[small], progressive=True)
    first, end, rest = file.getvalue().partition(b"\xff\xd9")
    return first + first[first.rindex(b"\xff\xda") :] * scans + end + rest


def tiff_of(tags, strips=1):
    """A TIFF's head and its fields, of one number each but for the places of its strips."""
    fields = b"".join(
        struct.pack("<HHII", tag, *((3, strips) if tag == 273 else (4, 1)), value)
        for tag, value in tags.items()
    )
    return struct.pack("<2sHIH", b"II", 42, 8, len(tags)) + fields


def tiff(side):
    """An image of one pixel in a tile of many."""
    tags = {256: 1, 257: 1, 258: 8, 259: 8, 262: 1, 277: 1, 322: side, 323: side, 324: 8, 325: 8}
    return tiff_of(tags) + bytes(4)


def striped(high):
    """A TIFF of one pixel in a row, a strip for each, all at one place."""
    tags = {256: 1, 257: high, 258: 8, 259: 1, 262: 1, 273: 106, 277: 1, 278: 1}
    return tiff_of(tags, high).ljust(106, b"\0") + struct.pack("<H", 8) * high


def array_of(count):
    """An array of a pickle, with a number in place of its bytes."""
    made = b"cnumpy.core.multiarray\n_reconstruct\n)R(K\x01J" + struct.pack("<i", count // 3072)
    return (
        made
        + b"M\x00\x0c\x86cnumpy\ndtype\n"
        + text("u1")
        + b"\x85R\x89J%stb" % struct.pack("<i", count)
    )


def png(wide, high):
    """An image of one colour."""
    from PIL import Image

    file = io.BytesIO()
    Image.new("1", (wide, high)).save(file, "png")
    return file.getvalue()


def npy(shape, there, kind="|u1", first=0):
    """An array of a shape and of so many zeros, but for the first of them."""
    wide = int(kind[-1])
    data = first.to_bytes(wide * there, "little")
    header = (
        str({"descr": kind, "fortran_order": False, "shape": shape}).encode().ljust(117) + b"\n"
    )
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + data


def npz(data):
    return zipped({f"{name}.npy": data for name in NAMES})


def folders(levels):
    """Lists of which each holds the one before it twice, as a resume file."""
    twice = b"".join(b"]" + get(0) + b"a" + get(0) + b"a" + put(0) for _ in range(levels))
    return of_torch(PROTOCOL + b"]" + put(0) + twice + b".")


EPS = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n%%EndComments\nshowpage\n%%EOF\n"


def shared_labels():
    data = text("data") + b"](" + get(0) * 20_000 + b"e"
    return PROTOCOL + keep(nones(20_000), 0) + b"}(" + data + text("labels") + b"]u."


NPZ, IMAGES = "npz:{}/a.npz", "a/cat.png"
NAMES = ("train_x", "train_y", "test_x", "test_y")
DATA = {
    "an EPS under another name": ("imagefolder:{}", "a/cat.png", lambda: EPS),
    "a long thin image": ("imagefolder:{},size=224", "a/cat.png", lambda: png(1, 65_000)),
    "an image resized beyond measure": (
        "imagefolder:{},size=1000000",
        "a/cat.png",
        lambda: png(9, 9),
    ),
    "compressed arrays": (NPZ, "a.npz", lambda: npz(npy((60_000_000,), 60_000_000))),
    "arrays shorter than their shape": (NPZ, "a.npz", lambda: npz(npy((1 << 40,), 10))),
    "the header of an array": (
        NPZ,
        "a.npz",
        lambda: npz(b"\x93NUMPY\x02\x00" + struct.pack("<I", 1 << 30) + b" " * (1 << 30)),
    ),
    "ten images to be resized": ("imagefolder:{},size=8", IMAGES, lambda: png(9_000, 9_000)),
    "thousands of images to be resized": (
        "imagefolder:{},size=112",
        "a/many.png",
        lambda: png(1, 1),
    ),
    "a label without end": (
        NPZ,
        "a.npz",
        lambda: npz(npy((200,), 200, "<i8", 1 << 24)),
    ),
    "a wide synthetic sample": ("synthetic:ambient=16777215,train=1,test=1", "none", bytes),
    "options of a data set without end": ("imagefolder:{}" + ",a=b" * 200_000, "none", bytes),
    "labels that are one list": ("cifar10:{}", "test_batch", shared_labels),
    "a number in place of bytes": (
        "cifar10:{}",
        "test_batch",
        lambda: PROTOCOL + b"}" + text("data") + array_of(1_536_000_000) + b"s.",
    ),
    "a tile larger than its image": ("imagefolder:{},size=8", "a/cat.tif", lambda: tiff(20_000)),
    "scans of one of two pictures": (
        "imagefolder:{},size=8",
        "a/cat.jpg",
        lambda: progressive(3400),
    ),
    "strips of a pixel": ("imagefolder:{},size=8", "a/cat.tif", lambda: striped(480_000)),
}

HUB = {
    "a network of a thousand million blocks": '"n_layer":1000000000',
    "stages without end": '"model_type":"focalnet","embed_dim":8,"depths":['
    + "1," * 90_000
    + '1],"architectures":["FocalNetForImageClassification"]',
    "a table of sinusoids": '"model_type":"distilbert","sinusoidal_pos_embds":true,'
    '"architectures":["DistilBertForSequenceClassification"],"dim":64,"n_heads":2,'
    '"max_position_embeddings":1048576',
    "a table of rotations": '"model_type":"gptj","architectures":["GPTJForSequenceClassification"],'
    '"n_embd":26,"n_head":1,"rotary_dim":26,"n_layer":1,"vocab_size":4,"n_positions":4194304',
}
GPT = '"model_type":"gpt2","architectures":["GPT2LMHeadModel"],"n_head":1,'

RUNS = {
    "samples of a small network": {"eval_batches": 10},
    "one batch of all samples": {"eval_batches": 1, "eval_batch_size": 400_000},
    "batches of one sample": {"eval_batches": 400_000, "eval_batch_size": 1},
    "attention maps of a batch": {
        "arch": "vit_mini",
        "arch_args": dict.fromkeys(("channels", "patch", "heads", "L"), 1) | {"image": 32, "d": 4},
        "data": "synthetic:input=8,ambient=1024,channels=1,train=1,test=128",
    },
    "steps of a rule": {
        "method": "ep",
        "arch_args": {"input_dim": 1, "d": 4, "L": 2, "num_classes": 10},
        "data": "synthetic:input=1,train=1,test=128",
        "method_args": {"steps": 100_000},
    },
    "bridges that were not saved": {
        "method": "state_bridge",
        "arch_args": {"input_dim": 1, "d": 4000, "L": 0, "num_classes": 10},
        "data": "synthetic:input=1,train=1,test=128",
    },
}


def linked(folder):
    """A chain of links longer than a system follows, and a long one of links with many parts."""
    (folder / ".h" / "a").mkdir(parents=True)
    for number in range(1500):
        (folder / f"l{number}").symlink_to(f"l{number + 1}")
    for number in range(30):
        (folder / ".h" / f"c{number}").symlink_to("a/../" * 798 + f"c{number + 1}")
    (folder / ".h" / "c30").mkdir()
    for number in range(300):
        (folder / f"m{number}").symlink_to(".h/c0")


def overridden(folder):
    (folder / ".hydra").mkdir()
    (folder / ".hydra" / "overrides.yaml").write_text("- " + "a1_" * 21_800)
    for number in range(1500):
        (folder / f"log{number}.csv").write_text("epoch,test_acc\n1,0.5\n")


def started(folder):
    for number in range(1000):
        (folder / f"events.out.tfevents.{number}").write_bytes(events(scalar(1)))


FOLDERS = {
    "links": linked,
    "logs of a long name": overridden,
    "starts of a run, each named": started,
}


def configuration(sizes):
    return ("{" + (sizes if "model_type" in sizes else GPT + sizes) + "}").encode()


TOML = {
    "nested arrays of TOML": lambda: b"a = " + b"[" * 500_000,
    "nested tables of TOML": lambda: b"[" + b"a." * 200_000 + b"b]\n",
    "a long key of TOML over line separators": lambda: '"\u2028".'.encode() * 160_000 + b"b = 1\n",
    "claims about many runs": lambda: (
        b'[[claim]]\nmethod = "a"\nmetric = "acc"\nat_least = 0\n' * 8000
    ),
    "claims beside many runs": lambda: (
        b'[[claim]]\nmethod = "b"\nmetric = "acc"\nat_least = 0\n' * 20_000
    ),
    "many tables of TOML": lambda: b"".join(b"[" + b"a." * 60 + b"b%d]\n" % n for n in range(8000)),
}

REPORTS = {
    "a long name": lambda: b'{"reports":{"%b_s1":{"headline_acc":0.5}}}' % (b"ab_-" * 225_000),
    "a long name of wide letters": lambda: (
        b'{"reports":{"%b_s1":{"headline_acc":0.5}}}' % ("漢".encode() * 150_000)
    ),
    "many long names": lambda: (
        b'{"reports":{'
        + many(
            '"%s%%d":{"residual_norms":[1,2],"bp_grad_norms":[1,2],"headline_acc":0}'
            % ("a_b-" * 1000),
            220,
        )
        + b"}}"
    ),
    "many small runs": lambda: (
        b'{"reports":{' + many('"method%d_s1":{"final_test_acc":0.512345}', 7_500) + b"}}"
    ),
    "Γ of many layers": lambda: (
        b'{"method":"dfa","seed":1,"final_test_acc":0.5,"log":['
        + many('{"epoch":%d,"test_acc":1,"gamma":[' + ",".join(["1"] * 9000) + "]}", 25)
        + b"]}"
    ),
    "many layers": lambda: (
        b'{"reports":{'
        + many('"bp_s%d":{"residual_norms":[' + ",".join(["1", "2"] * 5000) + "]}", 48)
        + b"}}"
    ),
}

RESUME = {
    "bytes of a resume file": lambda: of_torch(b"c__builtin__\nbytearray\n(L20000000000L\ntR."),
    "lists within a resume file": lambda: folders(60),
}


def read_checkpoint(path):
    from fa_core.measure.checkpoint import load_checkpoint
    from fa_core.measure.checkpoint_network import loaded

    loaded(load_checkpoint(path))


def read_hub(path):
    header = b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}'
    path.with_name("model.safetensors").write_bytes(safetensors(header) + bytes(4))
    read_checkpoint(path.with_name("model.safetensors"))


def read_file(path):
    from fa_core.formats import scan
    from fa_core.formats.frozen_runs import with_baselines_at_hand
    from fa_tui.views.words import disambiguate

    place = path.parent if path.name == "manifest.json" else path
    disambiguate(with_baselines_at_hand(scan([place], columns={"gamma": "g/*"}).rows))


def read_report(path):
    from fa_core.formats import load_audits
    from fa_tui.cli import main as command

    load_audits(path)  # raises what commands print
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    assert command(["show", str(path)]) == 0
    assert command(["report", str(path), "--out", str(path.with_suffix(".html"))]) == 0


def read_folder(make, path):
    from fa_core.formats import scan

    make(path.parent)
    scan([path.parent, *sorted(path.parent.glob("events*"))], columns={"acc": "test_acc"})


def read_settings(path):
    from fa_core.analysis.claims import check_claims, read_claims
    from fa_core.errors import UnreadableInput
    from fa_core.formats.rows import AuditRow
    from fa_tui.settings import load_settings

    with contextlib.suppress(UnreadableInput):
        check_claims(read_claims(path), [AuditRow(source="", key="", method="a")] * 17_000)
    with mock.patch("fa_tui.settings.config_folder", lambda: path.parent):
        load_settings()


def read_resume(path):
    import torch

    from fa_core.files.decode import reading
    from fa_core.training.run_files import load_state

    with reading(path):
        load_state(path, torch.device("cpu"))


def manifest(sizes):
    args = {"input_dim": 1, "d": 4, "L": 200, "num_classes": 10}
    data = "synthetic:input=1,train=1,test=400000"
    run = {"method": "bp", "arch": "resmlp", "arch_args": args, "data": data, "seed": 1}
    return json.dumps({**run, **sizes}).encode()


def read_run(path):
    from safetensors.torch import save_file

    from fa_core.audit.jobs import Job, JobProgress
    from fa_core.audit.measuring import measure_run
    from fa_core.zoo.models import build

    run = json.loads(path.read_bytes())
    network = build(run["arch"], **run["arch_args"], seed=1)
    save_file(network.state_dict(), path.with_name("model.safetensors"))
    measure_run(Job(id="1", checkpoint=str(path.parent)), "cpu", JobProgress())


def bombs(folder):
    """Name, file, what makes it and what reads it; each in a folder of its own."""
    for name, build in CHECKPOINTS.items():
        file = "a.safetensors" if "header" in name or "shape" in name else "a.pt"
        yield name, folder / name / file, build, read_checkpoint
    for name, (file, build) in FILES.items():
        yield name, folder / name / file, build, read_file
    for name, (spec, file, build) in DATA.items():
        read = partial(read_data, spec.format(folder / name))
        yield name, folder / name / file, build, read
    for name, sizes in HUB.items():
        yield name, folder / name / "config.json", partial(configuration, sizes), read_hub
    for name, sizes in RUNS.items():
        yield name, folder / name / "manifest.json", partial(manifest, sizes), read_run
    for name, build in TOML.items():
        yield name, folder / name / "settings.toml", build, read_settings
    for name, build in REPORTS.items():
        yield name, folder / name / "a.json", build, read_report
    for name, make in FOLDERS.items():
        yield name, folder / name / "none", bytes, partial(read_folder, make)
    for name, build in RESUME.items():
        yield name, folder / name / "resume.pt", build, read_resume


def read_data(spec, path):
    import torch

    from fa_core.zoo.data import load_data

    if path.name == "test_batch":
        for number in range(1, 6):
            path.with_name(f"data_batch_{number}").write_bytes(path.read_bytes())
    for number in range(4000 if path.stem == "many" else 9):
        if path.suffix == ".png":
            path.with_name(f"{number}.png").write_bytes(path.read_bytes())
    # the head of a network has a row per class
    torch.ones(load_data(spec).num_classes, 64)


def outcome(read, path):
    """``read``, the one line of an error, or what else happened."""
    from fa_core.errors import FaError

    try:
        read(path)
    except FaError as error:
        return f"refused: {error}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"[:500]
    return "read"


def under_limits(read, path):
    """The outcome in a process of its own."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.setpgid(0, 0)
        import psutil

        room = psutil.Process().memory_info().vms + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (room, room))
        resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))
        os.write(writer, outcome(read, path).encode()[:4000])
        os._exit(0)
    os.close(writer)
    ready, _, _ = select.select([reader], [], [], SECONDS)
    data = os.read(reader, 4096) if ready else b""
    os.close(reader)
    if not data:
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if data:
        return data.decode(errors="replace")
    return f"ended by signal {os.WTERMSIG(status)}" if ready else "hangs"


def main(folder):
    import torch.fx.experimental.symbolic_shapes  # noqa: F401

    import fa_tui.settings  # noqa: F401

    sys.meta_path.insert(0, DeclaredOperators())
    with contextlib.suppress(ImportError):
        from transformers import GPT2LMHeadModel  # noqa: F401

    for name, path, build, read in bombs(folder):
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.write(build())
            file.truncate(max(file.tell(), SPARSE.get(name, 0)))
        print(json.dumps({"name": name, "outcome": under_limits(read, path)}), flush=True)
        path.unlink()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
