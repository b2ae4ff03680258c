"""What a run is called: its method, seed and axes in a name or path, and names of many runs.

Names come from files and folders of others. A method's name has no control code, a key is escaped
(`sanitize`), and many equal names cost no more than different ones.
"""

from __future__ import annotations

import os
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain, pairwise
from operator import attrgetter, itemgetter
from pathlib import Path, PurePath
from typing import NamedTuple, TypeAlias

from fa_core.files.decode import Json
from fa_core.report.manifest import HUB_FILES, RUN_FILES, WEIGHTS
from fa_core.report.method_style import CONTROLS, TRAINED_BY, known_method
from fa_core.sanitize import WHITE_SPACE, sanitize

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


@lru_cache(maxsize=1 << 14)
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
    if found is None:
        return method, {}
    before = found["rule"]
    if before and known_method(before) != before:
        return method, {}
    control = found["of"] or found["control"]
    rule = found["trained_by"] or before
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
_AXES: dict[str, tuple[type, str]] = {
    "lam": (float, r"(?:[_,;-](?:pen[_-])?lam=?|^lam=)((?:\d+\.?\d*|\.\d+)(?:e-?\d+)?)"),
    "d": (int, r"(?:^|[_,;-])(?:d|width)=?(\d{2,6})(?=[_,;-]|$)"),
    "L": (int, r"(?:^|[_,;-])(?:L|depth)=?(\d{1,4})(?=[_,;-]|$)"),
    "fold": (int, r"(?:^|[_,;-])fold[_=-]?(\d{1,4})(?=[_,;-]|$)"),
    "data": (str, r"[_,;-]data[=-]([A-Za-z0-9]+)(?=[_,;-]|$)"),
}
"""Axis in a name → type and pattern of its value."""
AXES = ("lam", "d", "L", "fold", "arch", "of")
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
    >>> split_key("dfa_pen_lam0.01_s42"), split_key("bp_data-digits")
    (('dfa', 42, {'lam': 0.01}), ('bp', None, {'data': 'digits'}))

    Of several seeds the last counts; text after it is ignored unless it is an axis. A network
    counts only next to a known method.

    >>> split_key("bp_s7_d512_final"), split_key("vit_mini_dfa_s42"), split_key("vit_mini_s42")
    (('bp', 7, {'d': 512}), ('dfa', 42, {'arch': 'vit_mini'}), ('vit_mini', 42, {}))

    Text after an ``@`` only distinguishes runs of equal method and seed (`unique_names`).

    >>> split_key("bp_s1@bp_s100"), split_key("dfa@home_s42")
    (('bp', 1, {}), ('dfa@home', 42, {}))
    """
    at = _SEED.fullmatch(key.partition("@")[0]) or _SEED.fullmatch(key)
    before, seed, after = at.groups() if at else (key, None, "")
    method, axes = _around_seed(before, after)
    return method or canonical_method(key), int(seed) if seed else None, dict(axes)


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
        name = _PAIR.sub("", part)
        if said := _METHOD.search(part):
            name = said[1]
        names.append(canonical_method(name).strip("_,;"))
    method = names[0] or names[1]
    network = _ARCH.search(method)
    if network:
        before, after = method[: network.start()], method[network.end() :]
        rest = (before + after).strip("_")
        if known_method(rest):
            axes["arch"] = network[1]
            method = rest
    method, trained_by = control_of(method)
    return method, {**trained_by, **axes}


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


_COUNTED = r"(epoch|ep|step|iter|iteration|ckpt|checkpoint)"
_COUNT = re.compile(rf"(?:^|[_-]){_COUNTED}[_=-]?(\d{{1,18}})(?=[_-]|$)", re.I)
_OF_WEIGHTS = r"safetensors|pt|pt2|pth|ckpt|bin|tar"
_SUFFIX = re.compile(rf"\.(?:json|jsonl|ndjson|csv|tsv|({_OF_WEIGHTS}))(?:\.(?:tar|gz))?$", re.I)
_ROLES = frozenset(
    re.findall(
        r"\w+",
        "best last latest final model models checkpoint checkpoints ckpt ckpts weights net nets "
        "network pytorch state dict epoch epochs ep step iter iteration acc val",
    )
)
_GENERAL = _ROLES.union(
    re.findall(
        r"\w+",
        "s seed run runs multirun out output outputs result results logs log lightning version "
        "fold metrics trainer summary history events artifacts saved train test eval tensorboard",
    )
)
"""Words that say what a file or folder is, not which run; the former are roles in a run."""

_FOLDERS, _PLAIN = 5, (1, 0)


_Ranked: TypeAlias = tuple[tuple[int, int], str]
"""A role's preference, and the path of a file."""


def is_file_name(path: str) -> bool:
    """Whether a path has a suffix of files with runs."""
    return _SUFFIX.search(path) is not None


@lru_cache(maxsize=4096)
def role_of(name: str) -> tuple[int, int] | None:
    """Which of a run's checkpoints a file or folder is by its name, in order of preference; None
    for a name that says more, or a number that counts something else than epochs or steps.

    >>> [role_of(name) for name in ("model_best.pth.tar", "last.ckpt", "model.pt", "epoch_10.pt")]
    [(3, 0), (2, 0), (1, 0), (0, 10)]
    >>> role_of("dfa.pt"), role_of("s1.pt"), role_of("model_2.pt")
    (None, None, None)
    """
    plain = _SUFFIX.sub("", name).lower()
    words = set(re.findall(r"[^\W\d_]+", _PAIR.sub("", plain)))
    count = _COUNT.search(plain)
    if not words <= _ROLES or not (words or count):
        return None
    if "best" in words:
        return 3, 0
    if count:
        return 0, int(count[2])
    if re.search(r"\d", plain):
        return None
    return 1 + (not words.isdisjoint(("last", "latest", "final"))), 0


def one_per_run(paths: Iterable[str]) -> dict[str, list[str]]:
    """Of files of one run in several roles, in one folder or in folders of roles below it, the
    preferred one → the others. Weights are alike; of other files only those of a name.

    >>> one_per_run(["dfa/best.pt", "dfa/old/epoch_1.pt", "dfa/last.pt", "dfa/step_2/model.pt"])
    {'dfa/best.pt': ['dfa/last.pt', 'dfa/step_2/model.pt']}
    """
    runs: defaultdict[tuple[str, str], list[_Ranked]] = defaultdict(list)
    for path in paths:
        folder, name = os.path.split(path)
        suffix = _SUFFIX.search(name)
        is_hub = name in HUB_FILES
        is_weights = is_hub or bool(suffix and suffix[1])
        rank = role_of(name) if is_weights and not is_hub else _PLAIN
        while rank and (role := role_of(os.path.basename(folder))):  # noqa: PTH119
            rank = rank if role == _PLAIN else role
            folder = os.path.dirname(folder)  # noqa: PTH120
        if rank:
            runs[folder, "" if is_weights else name].append((rank, path))
    found = {}
    for files in runs.values():
        _, taken = max(files, key=itemgetter(0))
        if len(files) > 1:
            found[taken] = [path for _, path in files if path != taken]
    return found


def name_of(path: str) -> Name:
    """The name of a file's run: the file's own, completed by the folders around it.

    The method is the nearest that is not a word for files and folders, such as ``model_best``,
    unless a folder says ``method=…``; a file without a seed yields to a folder with one. The seed
    is the nearest. The file of a model-hub folder is named after the folder.

    >>> name_of("runs/dfa_pen_lam0.01_s42.json")
    Name(key='dfa_pen_lam0.01_s42', method='dfa', seed=42, axes={'lam': 0.01})
    >>> name_of("runs/ep_s7/epoch_10.pt")
    Name(key='ep_s7/epoch_10', method='ep', seed=7, axes={'epoch': 10})
    >>> name_of("seed_3/dfa/model_best.pth.tar")
    Name(key='seed_3/dfa/model_best', method='dfa', seed=3, axes={})
    """
    file = Path(path)
    if file.name == WEIGHTS or file.name in HUB_FILES:
        file = file.parent
    around = file.relative_to(file.anchor).parent.parts[-_FOLDERS:]
    names = (_SUFFIX.sub("", file.name), *reversed(around))
    parts = [sanitize(name, WHITE_SPACE) for name in names]
    said = list(map(split_key, parts))
    at = _place_of_method(parts, said)
    seeded = next((i for i, (_, seed, _) in enumerate(said) if seed is not None), 0)
    stated = (i for i, part in enumerate(parts) if "=" in part)
    top = max(at, seeded, *stated)
    axes: Json = {}
    for _, _, own in said[top::-1]:
        axes |= own
    for part in parts[:at]:
        if count := _COUNT.search(part.lower()):
            counted = "epoch" if count[1] == "ep" else count[1]
            axes[counted] = int(count[2])
        if network := _ARCH.fullmatch(canonical_method(part)):
            axes["arch"] = network[1]
    key = "/".join(parts[top::-1])
    return Name(key, said[at][0] or "unknown", said[seeded][1], axes)


def _place_of_method(parts: Sequence[str], said: Sequence[tuple[str, int | None, Json]]) -> int:
    """Which part of a path names the method: the file, or a folder."""
    named = [i for i, (method, *_) in enumerate(said) if not _is_general(method)]
    stated = [i for i in named if _METHOD.search(parts[i])]
    if stated:
        return stated[0]
    if not named:
        return 0
    nearest = named[0]
    method, seed, _ = said[nearest]
    if seed is not None or known_method(method) == method:
        return nearest
    for place in named:
        method, seed, _ = said[place]
        if seed is not None and (nearest == 0 or known_method(method)):
            return place
    return nearest


def _is_general(method: str) -> bool:
    words = set(re.findall(r"[^\W\d_]+", _PAIR.sub("", method)))
    is_role = words <= _GENERAL or _ARCH.fullmatch(method) is not None
    return is_role and not known_method(method)


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
    name = method
    for axis, value in axes.items():
        name += named_axis(axis, value)
    if seed is None:
        return name
    return f"{name}_s{seed}"


def differing_axes(
    runs: Iterable[tuple[str, Mapping[str, object]]],
) -> dict[str, list[str]]:
    """The axes that differ among the runs of a group, which belong to the runs' names.

    Every run with such an axis is named with it, even if its seed is not repeated: otherwise it
    would read as a plain run.

    Args:
        runs: pairs of group (e.g. the method) and axes.

    Returns:
        Group → axes, sorted.
    """
    runs = list(runs)
    sizes = Counter(map(itemgetter(0), runs))
    held = Counter((group, x, str(value)) for group, axes in runs for x, value in axes.items())
    found: dict[str, list[str]] = {group: [] for group in sizes}
    for (group, name, _), count in sorted(held.items()):
        if count < sizes[group] and found[group][-1:] != [name]:
            found[group].append(name)
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
    home = {
        source: source if runs > 1 else str(PurePath(run_place(source)).parent)
        for source, runs in Counter(sources).items()
    }
    return [home[source] for source in sources]


def short_paths(paths: Iterable[str]) -> dict[str, str]:
    """Path → its shortest unique end.

    >>> short_paths(["old/dfa_s1", "new/dfa_s1", "new/a.json"])
    {'old/dfa_s1': 'old/dfa_s1', 'new/dfa_s1': 'new/dfa_s1', 'new/a.json': 'a.json'}
    """
    parts = {path: PurePath(path).parts[::-1] for path in paths}
    shared = dict.fromkeys(parts, 0)
    for one, other in pairwise(sorted(parts, key=parts.__getitem__)):
        shared[other] = len(os.path.commonprefix([parts[one], parts[other]]))  # noqa: RUF071 (of parts)
        shared[one] = max(shared[one], shared[other])
    return {
        path: str(PurePath(*own[shared[path] :: -1])) if len(own) > shared[path] else path
        for path, own in parts.items()
    }


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
        shared = (own for own in at.values() if len(own) > 1)
        ends = short_paths(chain.from_iterable(shared))
        for run, place in enumerate(places):
            if len(at[found[run]]) > 1 and place:
                found[run] = form.format(found[run], ends[place])
    return numbered(found)


_SOURCE, _NAMED = attrgetter("source"), attrgetter("method", "seed", "axes")


def said_names(runs: Sequence[object]) -> list[str]:
    """A name per run as its record says: method, seed and the axes that differ among the method's
    runs.

    Args:
        runs: with the attributes of a `Name`.
    """
    named = list(map(_NAMED, runs))
    found = differing_axes((method, axes) for method, _, axes in named)
    differing = {method: {*axes} for method, axes in found.items()}
    return [
        key_of(method, {x: axes[x] for x in sorted(differing[method].intersection(axes))}, seed)
        for method, seed, axes in named
    ]


def run_names(runs: Sequence[object]) -> list[str]:
    """A short unique name per run (`said_names`), with the place of its source where names
    repeat."""
    return unique_names(said_names(runs), [run_place(_SOURCE(run)) for run in runs])


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
