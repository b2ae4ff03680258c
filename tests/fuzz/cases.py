"""Structured mutations of every real format: what a broken disk, another program or an attacker makes of our files.

A case is a function of its number alone, so that a failure is found again by it.
"""

import contextlib
import copy
import functools
import io
import itertools
import json
import pickletools
import random
import struct
import tempfile
import warnings
import zipfile
from pathlib import Path

from tests.fa_core.formats import logs

KNOWN = json.loads(Path(__file__).with_name("known.json").read_text("utf-8"))
"""A report, an epoch, a manifest and other documents with every field that they may have."""
REPORT = KNOWN["report"]
EPOCHS = [KNOWN["epoch"], {**KNOWN["epoch"], "epoch": 2}]

SPECS = [
    "synthetic:input=16,ambient=99999999999",
    "synthetic:train=0,test=0",
    "synthetic:input=-1",
    "imagefolder:/proc/1",
    "npz:/dev/null",
    "cifar10:/dev",
    "digits:x",
    "os:system",
    "x",
]

DOCUMENTS = {
    "table.json": {
        "reports": {"dfa_s42": REPORT, "bp_s1": REPORT},
        "summary": [{"method": "dfa", "seed": 42}],
    },
    "dfa_s42.json": REPORT,
    "trace.json": EPOCHS,
    "penalty.json": {**KNOWN["penalty"], "log": EPOCHS},
    **KNOWN["documents"],
}
"""Name of a file → what it holds."""

VALUES = json.loads(
    '[null, true, false, 0, -1, -5.0, 1e-320, NaN, Infinity, -Infinity, -0.0, 31.0, 1.5, "", "x", '
    '"\\u001b[2J", "\\ud800", "=1+1", "1e400", "dfa_s42", [], {}, [null], [[]], {"a": null}, [1, "x"]]'
)
VALUES += [2**63, -(2**64), 10**30, 10**400, "a" * 300]
LITERALS = (
    *(b"1" * 5000, b"1e400", b"-1e-400", b"NaN", b'"\\udc00"'),
    *(b"[" * depth + b"]" * depth for depth in (70, 3000)),
)
"""Put into the text where a value was."""


def _places(value):
    """Every (holder, key) inside."""
    keys = value if isinstance(value, dict) else range(len(value) if isinstance(value, list) else 0)
    for key in keys:
        yield value, key
        yield from _places(value[key])


def _a_place(document, chance):
    return chance.choice([*_places(document)])


def _a_value(chance):
    return copy.deepcopy(chance.choice(VALUES))


def _json_text(value):
    return json.dumps(value, ensure_ascii=True).encode()


def json_case(number):
    """A file's name and bytes: a real document with some values, keys and bytes changed."""
    chance = random.Random(number)
    name = chance.choice([*DOCUMENTS])
    document = copy.deepcopy(DOCUMENTS[name])
    literals = []
    for change in range(chance.randint(1, 3)):
        if not document:
            break
        holder, last = _a_place(document, chance)
        kind, mark = chance.randrange(10), f"@{change}@"
        if kind < 5:
            holder[last] = _a_value(chance)
        elif kind == 5:
            holder[last] = mark
            literals.append((mark, chance.choice(LITERALS)))
        elif kind == 6:
            del holder[last]
        elif isinstance(holder, list):
            holder[last:last] = [copy.deepcopy(holder[last])] * chance.choice([1, 1, 200])
        elif kind == 7:  # the same key once more
            holder[mark] = _a_value(chance)
            literals.append((mark, _json_text(last)))
        elif kind == 8:
            holder[chance.choice(KEYS)] = holder[last]
    text = _json_text(document)
    for mark, literal in literals:
        # in a list that is repeated twice it would become 200 MB
        text = text.replace(f'"{mark}"'.encode(), literal, 200)
    if name == "trace.json" and chance.random() < 0.5:
        name, text = "trace.jsonl", b"\n".join(map(_json_text, document))
    return name, _with_bytes_changed(text, chance, 0.3)


@functools.cache
def real_logs():
    """A log of each kind, as the field's tools write them."""
    scalars = {1: {"epoch": 1.0, "fa/acc": 0.5}, 2: {"epoch": 2.0, "fa/acc": 0.25}}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        made = [
            logs.put(folder / "a.csv", ",epoch,fa/acc,fa/h_0\n0,1,0.5,2\n1,2,,NaN\n"),
            logs.trainer(folder / "b"),
            logs.events(folder / "c" / "events", scalars),
            logs.events(folder / "d" / "events", scalars, tensors=True),
        ]
        return [file.read_bytes() for file in made]


def log_case(number):
    """A log of some kind with bytes changed."""
    chance = random.Random(number)
    return _with_bytes_changed(chance.choice(real_logs()), chance, 0.9)


KEYS = ("\x1b]0;x\x07", "\ud800", "a" * 300, "=1", "dfa_s" + "9" * 5000, "seed")


def manifest_case(number, manifest=KNOWN["manifest"]):
    """The manifest of a run folder, or another, changed at one place."""
    chance = random.Random(number)
    found = copy.deepcopy(manifest)
    holder, last = _a_place(found, chance)
    holder[last] = chance.choice(SPECS) if last == "data" else _a_value(chance)
    return _with_bytes_changed(_json_text(found), chance, 0.3)


def _with_bytes_changed(data, chance, share):
    """In this share of the cases with bytes changed, put in, left out or cut off."""
    if not data or chance.random() > share:
        return data
    found = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(found) or 1)
        kind = chance.randrange(4)
        if kind == 0:
            found[at : at + 1] = bytes([chance.randrange(256)])
        elif kind == 1:
            found[at:at] = chance.choice(
                [b"{", b"[", b'"', b"\\ud800", b"\xed\xa0\x80", b"\x00", b"9" * 30, b","]
            )
        elif kind == 2:
            del found[at : at + chance.randint(1, 20)]
        else:
            del found[at:]
            break
    return bytes(found)


def _safetensors(chance):
    header = {
        "a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
        "__metadata__": {"method": "dfa", "seed": "42"},
    }
    holder, last = _a_place(header, chance)
    holder[last] = _a_value(chance)
    text = _json_text(header)
    wrong = chance.choice([0, 1, 2**40, 2**63, len(text) + 5])
    return struct.pack("<Q", len(text) if chance.random() < 0.8 else wrong) + text + bytes(16)


OPCODES = (
    *(code.encode() for code in "(]})aesutRb02lNQd"),
    *(bytes([code]) for code in b"\x85\x86\x87\x93\x94\x81\x88\x8f\x90\x91\x92\x97\x98"),
    *b"K\x05 J\xff\xff\xff\x7f \x8a\x04\xff\xff\xff\x7f h\x00 q\x00 X\x03\x00\x00\x00abc".split(
        b" "
    ),
    *(b"G" + bytes(8), b"j" + bytes(4), b"L1" + b"0" * 400 + b"L\n"),
    *b"\x8c\x03abc ctorch._utils\n_rebuild_tensor_v2\n cposix\nsystem\n ctorch\nFloatStorage\n".split(
        b" "
    ),
    *b"X\xff\xff\xff\xff \x8e\xff\xff\xff\xff\xff\xff\xff\x7f \x82\x01 Pname\n F1e400\n".split(
        b" "
    ),
    *b"I99999999999999999999\n S'a'\n V\\ud800\n".split(b" "),
)


def _opcodes(chance):
    """A pickle of opcodes, in an order that may make sense or none."""
    return b"\x80\x02" + b"".join(chance.choices(OPCODES, k=chance.randint(1, 40))) + b"."


@functools.cache
def real_checkpoints():
    """What training scripts write: state dicts alone and next to an optimizer, feedback, whole networks."""
    import torch
    from safetensors.torch import save
    from torch import nn

    from fa_core.zoo.models import build

    torch.manual_seed(0)
    network = build("resmlp", input_dim=3, d=4, L=2)
    optimizer = torch.optim.AdamW(network.parameters())
    sum(parameter.square().sum() for parameter in network.parameters()).backward()
    optimizer.step()
    weights = network.state_dict()
    training = {"model": weights, "optimizer": optimizer.state_dict(), "rng": torch.get_rng_state()}
    training |= {
        "feedback": [torch.randn(4, 2)] * 2,
        "args": {"lr": 1e-3, "tags": ("a", None)},
        "acc": 0.5,
    }
    plain = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).eval()
    found = {"safetensors": save(weights, {"method": "dfa", "seed": "42"})}
    for name, value in {"weights": weights, "training": training, "network": plain}.items():
        for kind in (True, False):
            file = io.BytesIO()
            torch.save(value, file, _use_new_zipfile_serialization=kind)
            found[f"{name}-{'zip' if kind else 'old'}"] = file.getvalue()
    return found


def _changed_pickle(content, chance):
    """A pickle with some of its opcodes left out, doubled, exchanged or replaced, or an argument changed."""
    pieces = []
    at = 0
    # the old format has several pickles in a row, then the tensors
    with contextlib.suppress(Exception):
        while at < len(content) and len(pieces) < 20_000:
            starts = [at + (place or 0) for _, _, place in pickletools.genops(content[at:])]
            starts.append(starts[-1] + 1)
            pieces += [content[one:two] for one, two in itertools.pairwise(starts)]
            at = starts[-1]
    if not pieces:
        return content
    rest = content[at:]
    for _ in range(chance.randint(1, 3)):
        one, other = chance.randrange(len(pieces)), chance.randrange(len(pieces))
        kind = chance.randrange(6)
        if kind == 0:
            pieces[one] = b""
        elif kind == 1:
            pieces[one] *= chance.choice([2, 2, 500])
        elif kind == 2:
            pieces[one], pieces[other] = pieces[other], pieces[one]
        elif kind == 3:
            pieces[one] = chance.choice(OPCODES)
        elif kind == 4:
            pieces[one] = chance.choice(OPCODES) + pieces[one]
        elif len(pieces[one]) > 1:
            at = chance.randrange(1, len(pieces[one]))
            byte = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
            pieces[one] = pieces[one][:at] + bytes([byte]) + pieces[one][at + 1 :]
    return b"".join(pieces) + rest


def _changed_archive(data, chance):
    """A zip archive with its pickle changed, or a member that is changed, twice or under another name."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    pickled = [name for name in members if name.endswith((".pkl", ".json", ".pt"))]
    name = chance.choice(pickled if pickled and chance.random() < 0.7 else [*members])
    content, twice = members[name], False
    if name.endswith(".pkl"):
        members[name] = _changed_pickle(content, chance)
    elif name.endswith(".json"):
        document = json.loads(content)
        holder, last = _a_place(document, chance)
        holder[last] = _a_value(chance)
        members[name] = _json_text(document)
    elif chance.random() < 0.4:
        # under another name, or missing under its own
        others = ["../x", "/etc/x", "\x1b[2J", "a" * 300, name + "/x"]
        members[chance.choice(others)] = members.pop(name)
    else:
        twice = chance.random() < 0.3
        members[name] = _with_bytes_changed(content, chance, 0.7)
    made = io.BytesIO()
    method = zipfile.ZIP_DEFLATED if chance.random() < 0.1 else zipfile.ZIP_STORED
    with zipfile.ZipFile(made, "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for key, value in members.items():
            archive.writestr(key, value)
        if twice:
            archive.writestr(name, content[::-1])
    return made.getvalue()


def checkpoint_case(number):
    """A checkpoint's name and bytes: what training scripts write, or nothing that makes sense, with parts changed."""
    chance = random.Random(number)
    if chance.random() < 0.1:
        return "dfa_s42.safetensors", _with_bytes_changed(_safetensors(chance), chance, 0.5)
    if chance.random() < 0.1:
        return "dfa_s42.pt", _with_bytes_changed(_opcodes(chance), chance, 0.5)
    name, data = chance.choice([*real_checkpoints().items()])
    if name == "safetensors":
        length = struct.unpack("<Q", data[:8])[0] + 8
        text = _with_bytes_changed(data[8:length], chance, 0.8)
        return "dfa_s42.safetensors", _with_bytes_changed(
            struct.pack("<Q", len(text)) + text + data[length:], chance, 0.3
        )
    data = (
        _changed_pickle(data, chance) if name.endswith("-old") else _changed_archive(data, chance)
    )
    return "dfa_s42.pt", _with_bytes_changed(data, chance, 0.2)


SETTINGS = """theme = "fa-light"
glyphs = "auto"
show = "letters"
live = "off"
poll_seconds = 2.0

[thresholds]
g_norm_floor = 1e-7
h_norm_explosion_ratio = 50.0
stability_drift_ceiling = 0.3
frozen_acc_margin_pp = 2.0
"""
_TOML = ("nan", "-inf", "1" * 5000, "9" * 30, "[" * 3000, "[" * 80 + "]" * 80, '"\\ud800"', "1979-05-27",
         "{a = {b = 1}}", '"\x1b[2J"', "true", "-1", "''", "[1, 2]", "'fa-dark'", "1e400")  # fmt: skip


def toml_case(number):
    """A settings file, or presets, with values, names and bytes changed."""
    chance = random.Random(number)
    lines = SETTINGS.splitlines()
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(lines))
        name, _, value = lines[at].partition(" = ")
        key = chance.choice(["a.b", "thresholds.x", "[a]", "é"])
        lines[at] = chance.choice(
            [
                f"{name} = {chance.choice(_TOML)}",
                f"{lines[at]}\n{lines[at]}",
                f"{key} = {value}",
                f"[{'a.' * 2000}b]",
            ]
        )
    return _with_bytes_changed("\n".join(lines).encode("utf-8", "replace"), chance, 0.3)
