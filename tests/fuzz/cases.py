"""Structured mutations of every real format: what a broken disk, another program or an attacker makes of our files.

A case is a function of its number alone, so that a failure is found again by it.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import itertools
import json
import pickletools
import random
import struct
import warnings
import zipfile
from collections.abc import Callable, Mapping
from typing import Any

REPORT: dict[str, Any] = {
    "method_name": "DFA",
    "notes": "Γ ≈ 1: a note",
    "residual_norms": [1.0, 2.0, 8.5],
    "bp_grad_norms": [0.5, 0.25, 1e-8],
    "stability_layer": 1,
    "cross_batch_stability": 0.25,
    "headline_acc": 0.5,
    "frozen_baseline_acc": 0.349,
    "verdict": "needs walk-back: BP gradient at floor",
    "thresholds": {"g_norm_floor": 1e-7, "h_norm_explosion_ratio": 50.0},
    "seed": 42,
    "batch_size": 128,
    "n_batches": 10,
    "norm_batches": 1,
    "dtype": "float32",
    "tap_names": ["embed", "blocks.0", "blocks.1"],
    "unmeasured": {"credit": "not saved"},
    "evidence": {"a": "bound"},
    "credit": {
        "gamma": [0.5, None, 0.25],
        "rho": [0.1, 0.2, None],
        "zeros": [0.0, 0.5, 1.0],
        "gamma_L": 0.25,
        "free_layers": [2],
        "null": {"draws": 20, "deep_gamma_mean": 0.01, "deep_gamma_std": 0.1, "gamma": [0.0, 0.01, 0.02], "rank": 0.05},
        "missing": {"rho": "too deep"},
    },
    "intervals": {"growth": [2.0, 5.0], "g_L": [1e-9, 1e-7], "acc": [0.4, 0.6], "margin_pp": [1.0, 3.0]},
    "right": "AQ==",
    "reference_precision": {
        "cosine": [1.0, None, 0.9], "worst": [0.9, 0.8, 0.7], "norm_ratio": [1.0, 1.0, None], "lost": [0, 0, 3],
        "samples": 128,
    },
    "provenance": {
        "checkpoint": "runs/dfa_s42",
        "fan_in": 256,
        "classes": 10,
        "settings": {"batches": 10, "taps": ["embed"]},
        "hashes": {"weights": "sha256:00", "manifest": "sha256:01"},
        "versions": {"torch": "2.13.0"},
        "recipe": {"epochs": 10, "lr": 0.01},
        "method_args": {"lam": 0.1},
        "custom_backward": ["Feedback"],
        "gradient_by": "trace",
        "other_frozen_baselines": {"dfa": 0.4},
        "baseline_rule": "bp",
        "reduction": "per token",
    },
    "axes": {"lam": 0.1, "d": 128, "arch": "resmlp"},
}  # fmt: skip

EPOCH = {
    "epoch": 1, "step": 10, "test_acc": 0.5, "loss": 1.5, "residual_norms": [1.0, 2.0],
    "bp_grad_norms": [0.1, 0.2], "gamma": [0.1, None], "seconds": 1.0, "h_0_norm": 1.0, "h_L_norm": 9.0, "L": 4,
    "method": "dfa", "seed": 42,
}  # fmt: skip

MANIFEST = {
    "format": "fa-run/1", "method": "dfa", "arch": "resmlp", "arch_args": {"d": 8, "L": 2}, "data": "synthetic",
    "seed": 42, "axes": {"lam": 0.1}, "recipe": {"epochs": 2}, "headline_acc": 0.5, "frozen_baseline_acc": 0.4,
    "method_args": {}, "versions": {"torch": "2"},
}  # fmt: skip

SPECS = (
    *(
        "synthetic:input=16,ambient=99999999999",
        "synthetic:train=0,test=0",
        "synthetic:input=-1",
        "imagefolder:/proc/1",
    ),
    *("npz:/dev/null", "cifar10:/dev", "digits:x", "os:system", "x"),
)

DOCUMENTS: dict[str, Any] = {
    "table.json": {
        "reports": {"dfa_s42": REPORT, "bp_s1": REPORT},
        "summary": [{"method": "dfa", "seed": 42}],
    },
    "dfa_s42.json": REPORT,
    "trace.json": [EPOCH, {**EPOCH, "epoch": 2}],
    "penalty.json": {
        "log": [EPOCH, {**EPOCH, "epoch": 2}],
        "lam": 0.1,
        "final_test_acc": 0.5,
        "h_0_norm": 2.0,
        "L": 4,
    },
    "list.json": [
        {"method": "DFA", "seed": 1, "test_acc": 0.5, "h_norms": [1.0, 2.0], "max_per_block": 2.0}
    ],
    "trainer_state.json": {
        "global_step": 9,
        "log_history": [{"epoch": 1.0, "fa/acc": 0.5, "fa/h_0": 1.0, "loss": 1.0}],
    },
    "weights.index.json": {"weight_map": {"a": "a.safetensors"}, "metadata": {}},
}
"""Name of a file → what it holds."""

NAN, INF = float("nan"), float("inf")
VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        -5.0,
        1e-320,
        NAN,
        INF,
        -INF,
        2**63,
        -(2**64),
        10**30,
        10**400,
        "",
        "x",
        "\x1b[2J",
    ),
    *(
        "\ud800",
        "=1+1",
        "a" * 300,
        [],
        {},
        [None],
        [[]],
        {"a": None},
        [1, "x"],
        "1e400",
        "dfa_s42",
        -0.0,
        31.0,
        1.5,
    ),
)
LITERALS = (
    b"1" * 5000,
    b"1e400",
    b"-1e-400",
    b"NaN",
    b"[" * 70 + b"]" * 70,
    b"[" * 3000 + b"]" * 3000,
    b'"\\udc00"',
)
"""Put into the text where a value was."""


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value inside."""
    found = [path] if path else []
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return found + [place for key, member in inner for place in _places(member, (*path, key))]


def _json_text(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=True).encode()


def json_case(number: int) -> tuple[str, bytes]:
    """A file's name and bytes: a real document with some values, keys and bytes changed."""
    chance = random.Random(number)
    name = chance.choice([*DOCUMENTS])
    document = copy.deepcopy(DOCUMENTS[name])
    literals: list[tuple[bytes, bytes]] = []
    for change in range(chance.randint(1, 3)):
        path = chance.choice(_places(document) or [()])
        if not path:
            break
        holder = document
        for key in path[:-1]:
            holder = holder[key]
        kind, last = chance.randrange(10), path[-1]
        if kind < 5:
            holder[last] = copy.deepcopy(chance.choice(VALUES))
        elif kind == 5:
            mark = f"@{change}@"
            holder[last] = mark
            literals.append((f'"{mark}"'.encode(), chance.choice(LITERALS)))
        elif kind == 6:
            del holder[last]
        elif kind == 7 and isinstance(holder, dict):
            # the same key once more
            mark = f"@{change}@"
            holder[mark] = copy.deepcopy(chance.choice(VALUES))
            literals.append((f'"{mark}"'.encode(), _json_text(str(last))))
        elif kind == 8 and isinstance(holder, dict):
            holder[
                chance.choice(
                    ["\x1b]0;x\x07", "\ud800", "a" * 300, "=1", "dfa_s" + "9" * 5000, "seed"]
                )
            ] = holder[last]
        elif isinstance(holder, list):
            holder[last:last] = [copy.deepcopy(holder[last])] * chance.choice([1, 1, 200])
    text = _json_text(document)
    for mark, literal in literals:
        text = text.replace(
            mark, literal, 200
        )  # in a list that is repeated twice it would become 200 MB
    if name == "trace.json" and isinstance(document, list) and chance.random() < 0.5:
        name, text = "trace.jsonl", b"\n".join(map(_json_text, document))
    return name, _with_bytes_changed(text, chance, 0.3)


def manifest_case(number: int, manifest: Any = None) -> bytes:
    """The manifest of a run folder, or another, changed at one place."""
    chance = random.Random(number)
    holder = found = copy.deepcopy(MANIFEST if manifest is None else manifest)
    *above, last = chance.choice(_places(found))
    for key in above:
        holder = holder[key]
    holder[last] = chance.choice(SPECS if last == "data" else VALUES)
    return _with_bytes_changed(_json_text(found), chance, 0.3)


def _with_bytes_changed(data: bytes, chance: random.Random, share: float) -> bytes:
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


def _safetensors(chance: random.Random) -> bytes:
    header: dict[str, Any] = {
        "a": {"dtype": "F32", "shape": [2, 2], "data_offsets": [0, 16]},
        "__metadata__": {"method": "dfa", "seed": "42"},
    }
    path = chance.choice(_places(header))
    holder = header
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = copy.deepcopy(chance.choice(VALUES))
    text = _json_text(header)
    length = (
        len(text) if chance.random() < 0.8 else chance.choice([0, 1, 2**40, 2**63, len(text) + 5])
    )
    return struct.pack("<Q", length) + text + bytes(16)


OPCODES: tuple[bytes, ...] = (
    *(
        b"(",
        b"]",
        b"}",
        b")",
        b"a",
        b"e",
        b"s",
        b"u",
        b"t",
        b"R",
        b"b",
        b"\x85",
        b"\x86",
        b"\x87",
        b"0",
        b"2",
        b"l",
    ),
    *(
        b"\x93",
        b"\x94",
        b"\x81",
        b"N",
        b"\x88",
        b"Q",
        b"d",
        b"\x8f",
        b"\x90",
        b"\x91",
        b"\x92",
        b"\x97",
        b"\x98",
    ),
    *(
        b"K\x05",
        b"J\xff\xff\xff\x7f",
        b"\x8a\x04\xff\xff\xff\x7f",
        b"G" + bytes(8),
        b"h\x00",
        b"q\x00",
        b"j" + bytes(4),
    ),
    *(
        b"X\x03\x00\x00\x00abc",
        b"\x8c\x03abc",
        b"ctorch._utils\n_rebuild_tensor_v2\n",
        b"cposix\nsystem\n",
    ),
    *(
        b"ctorch\nFloatStorage\n",
        b"X\xff\xff\xff\xff",
        b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f",
        b"\x82\x01",
    ),
    *(
        b"I99999999999999999999\n",
        b"L1" + b"0" * 400 + b"L\n",
        b"Pname\n",
        b"F1e400\n",
        b"S'a'\n",
        b"V\\ud800\n",
    ),
)


def _opcodes(chance: random.Random) -> bytes:
    """A pickle of opcodes, in an order that may make sense or none."""
    return b"\x80\x02" + b"".join(chance.choices(OPCODES, k=chance.randint(1, 40))) + b"."


@functools.cache
def real_checkpoints() -> Mapping[str, bytes]:
    """What training scripts write: state dicts alone and next to an optimizer, feedback, whole networks, exports."""
    import torch
    from safetensors.torch import save
    from torch import nn

    from fa_core.models import build

    torch.manual_seed(0)
    network = build("resmlp", input_dim=3, d=4, L=2)
    optimizer = torch.optim.AdamW(network.parameters())
    sum(parameter.square().sum() for parameter in network.parameters()).backward()
    optimizer.step()
    weights = network.state_dict()
    training = {
        "epoch": 3, "model": weights, "optimizer": optimizer.state_dict(), "acc": 0.5, "rng": torch.get_rng_state(),
        "feedback": [torch.randn(4, 2), torch.randn(4, 2)], "args": {"method": "dfa", "lr": 1e-3, "tags": ("a", None)},
    }  # fmt: skip
    plain = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2)).eval()
    found: dict[str, bytes] = {"safetensors": save(weights, {"method": "dfa", "seed": "42"})}
    for name, value in {"weights": weights, "training": training, "network": plain}.items():
        for kind in (True, False):
            file = io.BytesIO()
            torch.save(value, file, _use_new_zipfile_serialization=kind)
            found[f"{name}-{'zip' if kind else 'old'}"] = file.getvalue()
    file = io.BytesIO()
    torch.export.save(torch.export.export(plain, (torch.ones(2, 3),)), file)
    found["exported"] = file.getvalue()
    return found


def _changed_pickle(content: bytes, chance: random.Random) -> bytes:
    """A pickle with some of its opcodes left out, doubled, exchanged or replaced, or an argument changed."""
    pieces: list[bytes] = []
    at = 0
    # the old format has several pickles in a row, then the tensors
    with contextlib.suppress(Exception):
        while at < len(content) and len(pieces) < 20_000:
            starts = [at + (place or 0) for _, _, place in pickletools.genops(content[at:])]
            pieces += [content[one:two] for one, two in itertools.pairwise(starts)] + [
                content[starts[-1] :][:1]
            ]
            at = starts[-1] + 1
    if not pieces:
        return content
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
            changed = bytearray(pieces[one])
            changed[chance.randrange(1, len(changed))] = chance.choice(
                [0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)]
            )
            pieces[one] = bytes(changed)
    return b"".join(pieces) + content[at:]


def _changed_archive(data: bytes, chance: random.Random) -> bytes:
    """A zip archive with its pickle changed, or a member that is missing, short, twice or under another name."""
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    pickled = [name for name in members if name.endswith((".pkl", ".json", ".pt"))]
    name = chance.choice(pickled if pickled and chance.random() < 0.7 else [*members])
    content, twice = members[name], False
    if name.endswith(".pkl"):
        members[name] = _changed_pickle(content, chance)
    elif name.endswith(".json"):
        document = json.loads(content)
        place = chance.choice(_places(document))
        holder = document
        for key in place[:-1]:
            holder = holder[key]
        holder[place[-1]] = copy.deepcopy(chance.choice(VALUES))
        members[name] = _json_text(document)
    elif (kind := chance.randrange(5)) == 0:
        del members[name]
    elif kind == 1:
        members[name] = content[: len(content) // 2]
    elif kind == 2:
        members[chance.choice(["../x", "/etc/x", "\x1b[2J", "a" * 300, name + "/x"])] = members.pop(
            name
        )
    elif kind == 3:
        twice = True
    else:
        members[name] = _with_bytes_changed(content, chance, 1.0)
    made = io.BytesIO()
    method = zipfile.ZIP_DEFLATED if chance.random() < 0.1 else zipfile.ZIP_STORED
    with zipfile.ZipFile(made, "w", method) as archive, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for key, value in members.items():
            archive.writestr(key, value)
        if twice:
            archive.writestr(name, content[::-1])
    return made.getvalue()


def checkpoint_case(number: int) -> tuple[str, bytes]:
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


def toml_case(number: int) -> bytes:
    """A settings file, or presets, with values, names and bytes changed."""
    chance = random.Random(number)
    lines = SETTINGS.splitlines()
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(lines))
        name, _, value = lines[at].partition(" = ")
        put: Callable[[], str] = chance.choice(
            [
                lambda name=name: f"{name} = {chance.choice(_TOML)}",
                lambda at=at: lines[at] + "\n" + lines[at],
                lambda value=value: (
                    f"{chance.choice(['a.b', 'thresholds.x', '[a]', 'é'])} = {value}"
                ),
                lambda: f"[{'a.' * 2000}b]",
            ]
        )
        lines[at] = put()
    return _with_bytes_changed("\n".join(lines).encode("utf-8", "replace"), chance, 0.3)
