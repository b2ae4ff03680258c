"""What a run is called: its method, seed and axes in a name or path, and names of many runs.

Names come from files and folders of others. A method's name has no control code, a key is escaped
(`sanitize`), and many equal names cost no more than different ones.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from pathlib import Path, PurePath
from typing import NamedTuple, TypeVar

from fa_core.files.decode import Json
from fa_core.report.controls import CONTROLS, TRAINED_BY
from fa_core.report.manifest import HUB_FILES, RUN_FILES, WEIGHTS
from fa_core.report.method_style import known_method
from fa_core.sanitize import WHITE_SPACE, sanitize

K = TypeVar("K", bound=Hashable)

_BETWEEN_WORDS = re.compile(r"[\s\-_\x00-\x1f\x7f-\x9f]+")
_SHORT_NAMES = {
    "sb": "state_bridge",
    "cb": "credit_bridge",
    "backprop": "bp",
    "backpropagation": "bp",
    "eqprop": "ep",
    "equilibrium_propagation": "ep",
    "feedback_alignment": "fa",
    "direct_feedback_alignment": "dfa",
}
"""Short and alternative names of methods."""


def canonical_method(name: str) -> str:
    """A method's canonical name: lower case, words joined by ``_``, no control codes.

    >>> canonical_method("Credit Bridge"), canonical_method("STATE_BRIDGE"), canonical_method("SB")
    ('credit_bridge', 'state_bridge', 'state_bridge')
    """
    plain = _BETWEEN_WORDS.sub("_", name.strip()).lower()
    return _SHORT_NAMES.get(plain, plain)


_CONTROL = re.compile(
    r"(?P<of>frozen|shallow)_of_(?P<trained_by>\w+)|(?P<rule>\w+)_(?P<control>frozen|shallow)"
)


@lru_cache(maxsize=4096)
def control_of(name: str) -> tuple[str, Json]:
    """The canonical method; of a control's name the control, and its training rule as an axis.

    >>> (control_of("dfa_shallow"), control_of("frozen_of_bp"), control_of("DFA-frozen"),
    ...     control_of("my_frozen"))
    (('shallow', {'of': 'dfa'}), ('frozen', {'of': 'bp'}), ('frozen', {}), ('my_frozen', {}))

    ``frozen_of_`` may be followed by a rule of the user's own:

    >>> control_of("frozen_of_mine")
    ('frozen', {'of': 'mine'})
    """
    method = canonical_method(name)
    found = _CONTROL.fullmatch(method)
    if found is None or (found["rule"] and known_method(found["rule"]) != found["rule"]):
        return method, {}
    control = found["of"] or found["control"]
    rule = found["trained_by"] or found["rule"]
    if rule == TRAINED_BY[control]:
        return control, {}
    return control, {"of": rule}


def is_control(method: str) -> bool:
    """Whether a method, in any spelling, is a control.

    >>> is_control("Random-Init"), is_control("dfa_frozen"), is_control("dfa")
    (True, True, False)
    """
    return control_of(method)[0] in CONTROLS


LONGEST_SEED = 18
"""Maximum digits of a seed in a name."""

_SEED = re.compile(rf"(.*[_,;-]|)(?:[sS]|seed[_=-]?)(\d{{1,{LONGEST_SEED}}})([_,;-].*|)", re.DOTALL)
_SEED_SAID = re.compile(rf"\bseed[ =:#]*(\d{{1,{LONGEST_SEED}}})\b", re.IGNORECASE)
_AXES: dict[str, tuple[type, str]] = {
    "lam": (float, r"(?:[_,;-](?:pen[_-])?lam=?|^lam=)((?:\d+\.?\d*|\.\d+)(?:e-?\d+)?)"),
    "d": (int, r"(?:^|[_,;-])(?:d|width)=?(\d{2,6})(?=[_,;-]|$)"),
    "L": (int, r"(?:^|[_,;-])(?:L|depth)=?(\d{1,4})(?=[_,;-]|$)"),
}
"""Axis in a name → type and pattern of its value."""
AXES = (*_AXES, "arch", "of")
_ARCH = re.compile(
    r"(?:^|_)(?:arch_?)?((?:res_?)?mlp(?:_wide)?|vit(?:_mini)?|student_?net"
    r"|(?:small_?)?cnn|(?:small_)?resnet\d*)(?=_|$)"
)
_METHOD = re.compile(r"(?:^|[_,;-])method=([^,;=]+)")
_PAIR = re.compile(r"(?:^|[,;])[^,;=]*=[^,;]*")


def split_key(key: str) -> tuple[str, int | None, Json]:
    """Method, seed and axes from a name such as ``dfa_s42``, ``bp_d512_s42`` or
    ``dfa_pen_lam0.01_s42``.

    >>> split_key("state_bridge_s123"), split_key("method=dfa,lr=0.1,seed=42")
    (('state_bridge', 123, {}), ('dfa', 42, {}))
    >>> split_key("dfa_pen_lam0.01_s42"), split_key("model")
    (('dfa', 42, {'lam': 0.01}), ('model', None, {}))

    Of several seeds the last counts; text after it is ignored unless it is an axis. A network
    counts only next to a known method.

    >>> split_key("bp_s7_d512_final"), split_key("vit_mini_dfa_s42"), split_key("vit_mini_s42")
    (('bp', 7, {'d': 512}), ('dfa', 42, {'arch': 'vit_mini'}), ('vit_mini', 42, {}))

    Text after an ``@`` only distinguishes runs of equal method and seed (`unique_names`).

    >>> split_key("bp_s1@bp_s100"), split_key("dfa@home_s42")
    (('bp', 1, {}), ('dfa@home', 42, {}))
    """
    at = _SEED.fullmatch(key.partition("@")[0]) or _SEED.fullmatch(key)
    if at:
        method, axes = _around_seed(at[1], at[3])
        return method or canonical_method(key), int(at[2]), dict(axes)
    method, axes = _around_seed(key, "")
    return method or canonical_method(key), None, dict(axes)


@lru_cache(maxsize=4096)
def _around_seed(*sides: str) -> tuple[str, Json]:
    """Method and axes from the text before and after a seed."""
    axes: Json = {}
    names = []
    for part in sides:
        for axis, (kind, pattern) in _AXES.items():
            if found := re.search(pattern, part, re.ASCII):
                axes[axis] = kind(found[1])
                part = part[: found.start()] + part[found.end() :]
        said = _METHOD.search(part)
        names.append(canonical_method(said[1] if said else _PAIR.sub("", part)).strip("_,;"))
    method = names[0] or names[1]
    network = _ARCH.search(method)
    if network:
        rest = (method[: network.start()] + method[network.end() :]).strip("_")
        if known_method(rest):
            axes["arch"] = network[1]
            method = rest
    method, trained_by = control_of(method)
    return method, {**trained_by, **axes}


def seed_in_words(text: str) -> int | None:
    """The seed in a text; None for several or none.

    >>> seed_in_words("d=256 ResMLP, CIFAR-10, seed 42"), seed_in_words("seed 1 and seed 2")
    (42, None)
    """
    said = set(_SEED_SAID.findall(text))
    if len(said) == 1:
        return int(said.pop())
    return None


def axes_of(fields: Mapping[str, object]) -> Json:
    """The axes that fields of a file state, in ``axes`` or by their own names."""
    axes: Json = {}
    gathered = fields.get("axes")
    if isinstance(gathered, Mapping):
        axes.update(gathered)
    for axis in AXES:
        value = fields.get(axis)
        if isinstance(value, (int, float, str)):
            axes[axis] = value
    return axes


class Name(NamedTuple):
    """What a file's path says of its run; as in `fa_core.formats.rows.AuditRow`."""

    key: str
    method: str
    seed: int | None
    axes: Json


_EPOCH = re.compile(r"(?:^|[_-])(?:epoch|ep|step|ckpt|checkpoint)[_=-]?(\d{1,18})(?=[_-]|$)", re.I)
_SUFFIX = re.compile(
    r"\.(?:json|jsonl|ndjson|safetensors|pt|pt2|pth|ckpt|bin|csv|tsv|tar)(?:\.(?:tar|gz))?$", re.I
)
_GENERAL = frozenset(
    re.findall(
        r"\w+",
        "model models checkpoint checkpoints ckpt ckpts weights net nets network pytorch state "
        "dict best last latest final epoch ep step s seed run runs out outputs results logs "
        "lightning version metrics trainer summary log history events",
    )
)
"""Words that say what a file or folder is, not which run."""


def is_file_name(path: str) -> bool:
    """Whether a path has a suffix of files with runs."""
    return _SUFFIX.search(path) is not None


def name_of(path: str, folders: int = 3) -> Name:
    """The name of a file's run: the file's own, or that of a folder around it.

    A name without a seed in a folder with one is the folder's. A name that only says what the file
    is, such as ``model_best`` or ``s1``, takes the method of the next folder with one. The file of
    a model-hub folder is named after the folder.

    Args:
        path: the file.
        folders: how many folders may name it.

    >>> name_of("runs/dfa_pen_lam0.01_s42.json")
    Name(key='dfa_pen_lam0.01_s42', method='dfa', seed=42, axes={'lam': 0.01})
    >>> name_of("runs/ep_s7/epoch_10.pt")
    Name(key='ep_s7/epoch_10', method='ep', seed=7, axes={'epoch': 10})
    >>> name_of("dfa/seed42/model_best.pth.tar")
    Name(key='dfa/seed42/model_best', method='dfa', seed=42, axes={})
    """
    file = Path(path)
    if file.name == WEIGHTS or file.name in HUB_FILES:
        file = file.parent if file.parent.name else file.absolute().parent
    key = sanitize(_SUFFIX.sub("", file.name), WHITE_SPACE)
    method, seed, axes = split_key(key)
    if folders and file.parent.name:
        above = name_of(str(file.parent), folders - 1)
        is_held = seed is None and above.seed is not None
        if is_held or (_is_general(method) and not _is_general(above.method)):
            if epoch := _EPOCH.search(key):
                axes["epoch"] = int(epoch[1])
            if seed is None:
                seed = above.seed
            return Name(f"{above.key}/{key}", above.method, seed, {**above.axes, **axes})
    return Name(key, method or "unknown", seed, axes)


def _is_general(method: str) -> bool:
    words = set(re.split(r"[\W_\d]+", _PAIR.sub("", method))) - {""}
    return words <= _GENERAL and not known_method(method)


def named_axis(axis: str, value: object) -> str:
    """An axis in a key.

    >>> named_axis("lam", 0.01), named_axis("data", "digits"), named_axis("L", 8)
    ('_lam0.01', '_data-digits', '_L8')
    """
    if isinstance(value, float):
        return f"_{axis}{value:g}"
    if isinstance(value, str):
        return f"_{axis}-{value}"
    return f"_{axis}{value}"


def key_of(method: str, axes: Mapping[str, object], seed: object) -> str:
    """The key that is written for a run: in tables, and as the name of its folder.

    >>> key_of("dfa", {"lam": 0.01}, 42), key_of("bp", {}, None)
    ('dfa_lam0.01_s42', 'bp')
    """
    name = method + "".join(named_axis(axis, value) for axis, value in axes.items())
    if seed is None:
        return name
    return f"{name}_s{seed}"


def differing_axes(runs: Iterable[tuple[K, Mapping[str, object]]]) -> dict[K, list[str]]:
    """The axes that differ among the runs of a group, which belong to the runs' names.

    Every run with such an axis is named with it, even if its seed is not repeated: otherwise it
    would read as a plain run.

    Args:
        runs: pairs of group (e.g. the method) and axes.

    Returns:
        Group → axes, sorted.
    """
    grouped: defaultdict[K, list[Mapping[str, object]]] = defaultdict(list)
    for group, axes in runs:
        grouped[group].append(axes)
    found = {}
    for group, members in grouped.items():
        seen = Counter((name, str(value)) for axes in members for name, value in axes.items())
        found[group] = sorted({name for (name, _), count in seen.items() if count < len(members)})
    return found


def run_place(source: str) -> str:
    """A run's place: its run folder, if the source is a file of one, else the source itself.

    >>> run_place("main/dfa_s42/trace.jsonl"), run_place("main/dfa_s42"), run_place("audits.json")
    ('main/dfa_s42', 'main/dfa_s42', 'audits.json')
    >>> run_place("hub/dfa_s42/pytorch_model.bin")
    'hub/dfa_s42'
    """
    folder, _, name = source.rpartition(os.sep)
    if folder and (name in RUN_FILES or name in HUB_FILES):
        return folder
    return source


def named_place(source: str, key: str) -> str:
    """The path of a sibling folder for a run in a file of several runs.

    >>> named_place("atlas/audits.json", "dfa_s42"), named_place("atlas/traces.jsonl", "dfa_s42")
    ('atlas/dfa_s42', 'atlas/dfa_s42')
    """
    return str(PurePath(source).parent / key)


def homes(sources: Sequence[str]) -> list[str]:
    """The collection of each run: the file or folder with comparable runs.

    It is the file, if it holds several runs, else the parent folder of the file or run folder.

    >>> homes(["main/dfa_s42/audit.json", "main/bp_s42", "main/audits.json", "main/audits.json"])
    ['main', 'main', 'main/audits.json', 'main/audits.json']
    """
    home = {}
    for source, runs in Counter(sources).items():
        home[source] = source if runs > 1 else str(PurePath(run_place(source)).parent)
    return [home[source] for source in sources]


def short_paths(paths: Iterable[str]) -> dict[str, str]:
    """Path → its shortest unique end.

    >>> short_paths(["old/dfa_s1", "new/dfa_s1", "new/a.json"])
    {'old/dfa_s1': 'old/dfa_s1', 'new/dfa_s1': 'new/dfa_s1', 'new/a.json': 'a.json'}
    """
    ends: dict[str, list[str]] = {}
    for path in paths:
        parts = PurePath(path).parts
        ends[path] = [str(PurePath(*parts[-count:])) for count in range(1, len(parts) + 1)]
    seen = Counter(chain.from_iterable(ends.values()))
    return {path: next((end for end in own if seen[end] == 1), path) for path, own in ends.items()}


def unique_names(names: Sequence[str], *ways: Sequence[str], form: str = "{}@{}") -> list[str]:
    """The names; runs that share one get the distinguishing ends of their places, or a number.

    Args:
        names: of the runs.
        ways: places of the runs, tried one after another.
        form: of a name and an end.

    >>> unique_names(["bp_s1", "dfa_s1", "dfa_s1"], ["a.json", "a.json", "b.json"])
    ['bp_s1', 'dfa_s1@a.json', 'dfa_s1@b.json']
    """
    found = list(names)
    for places in ways:
        at: defaultdict[str, set[str]] = defaultdict(set)
        for name, place in zip(found, places, strict=True):
            at[name].add(place)
        ends = short_paths(chain.from_iterable(own for own in at.values() if len(own) > 1))
        for run, place in enumerate(places):
            if len(at[found[run]]) > 1 and place:
                found[run] = form.format(found[run], ends[place])
    return numbered(found)


def run_names(keys: Sequence[str], sources: Sequence[str]) -> list[str]:
    """A short unique name per run: its key, and its place where keys repeat."""
    return unique_names(keys, list(map(run_place, sources)))


def numbered(names: Iterable[str]) -> list[str]:
    """Unique names: a number is appended to repeated ones.

    >>> numbered(["bp_s1", "dfa_s1", "bp_s1"])
    ['bp_s1', 'dfa_s1', 'bp_s1#2']
    """
    found = list(names)
    taken = set(found)
    turns: dict[str, int] = {}
    for place, name in enumerate(found):
        if name in turns:
            while found[place] in taken:
                turns[name] += 1
                found[place] = f"{name}#{turns[name]}"
            taken.add(found[place])
        turns.setdefault(name, 1)
    return found
