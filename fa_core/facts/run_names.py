"""Names of runs and of the files in a run folder; the manifest.

    RUN/manifest.json          what the run is: method, network, data, recipe, seed (never code)
    RUN/model.safetensors      the weights
    RUN/credit.safetensors     what the method's credit needs: feedback matrices or bridge nets
    RUN/trace.jsonl            one JSON object per epoch
    RUN/audit.json             the report (format 2), once measured
    RUN/resume.pt              optimizer and RNG state of an unfinished run
    RUN/progress.json          the process that works on the run now, and how far it is

No torch here: the explorer reads manifests.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path, PurePath

import msgspec

from fa_core.decode import Json, loads, reading
from fa_core.errors import UnreadableInput
from fa_core.facts.controls import CONTROLS, TRAINED_BY, WITHOUT_BASELINE
from fa_core.facts.method_style import known_method
from fa_core.files import is_file, read_file

MANIFEST = "manifest.json"
WEIGHTS = "model.safetensors"
CREDIT = "credit.safetensors"
TRACE = "trace.jsonl"
AUDIT = "audit.json"
RESUME = "resume.pt"
PROGRESS = "progress.json"
RUN_FILES = frozenset({MANIFEST, WEIGHTS, CREDIT, TRACE, AUDIT, RESUME, PROGRESS})
"""What is part of a run folder; further files in it are files like any other."""

DISTRIBUTED = ".metadata"
HUB_FILES = frozenset(
    {f"{WEIGHTS}.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json", DISTRIBUTED}
)
"""Files of a model-hub folder or of torch's distributed checkpoints, which make the folder a
run."""

FORMAT = "fa-run/1"

LARGEST_MANIFEST = 1 << 20
"""Maximum bytes; this project's manifests have about a thousand."""


class Manifest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a run is. Names in it are looked up in the built-in registries, never imported.

    Attributes:
        format: ``"fa-run/1"``.
        method: canonical method name, of a rule or a control (`fa_core.training.plan.METHODS`).
        arch: built-in network name (`fa_core.training.plan.ARCHS`).
        arch_args: its arguments (``input_dim``, ``d``, ``L``, ``terminal_ln``, ``num_classes``,
            ...).
        data: the data SPEC, e.g. ``"synthetic:alpha=1.0,input=16"``.
        data_hash: hash of the evaluation samples.
        eval_seed: the seed that picks the evaluation batches.
        eval_batches: K, how many batches an audit measures.
        eval_batch_size: B, samples per batch.
        seed: the run's seed.
        method_args: the method's own options (``variant``, ``lam``, ...).
        recipe: epochs, lr, weight_decay, schedule, batch_size, lam, optimizer.
        axes: what distinguishes the run in a sweep: ``lam``, ``d``, ``L``, ``arch``.
        headline_acc: test accuracy at the end, a fraction.
        frozen_baseline_acc: accuracy of the same net with frozen blocks, if it was trained.
        frozen_baseline_rule: the rule that trained its embedding and head, where that is not the
            run's own.
        epochs_done: complete epochs in the trace.
        stopped: why it ended early, if it did.
        versions: library versions it was trained with.
        device: where it was trained.
    """

    format: str = FORMAT
    method: str
    arch: str
    arch_args: Json = {}
    data: str
    data_hash: str | None = None
    eval_seed: int = 0
    eval_batches: int = 10
    eval_batch_size: int = 128
    seed: int
    method_args: Json = {}
    recipe: Json = {}
    axes: dict[str, str | int | float | bool | None] = {}
    headline_acc: float | None = None
    frozen_baseline_acc: float | None = None
    frozen_baseline_rule: str | None = None
    epochs_done: int = 0
    stopped: str | None = None
    versions: dict[str, str] = {}
    device: str | None = None


def recorded_baseline(manifest: Manifest) -> float | None:
    """The manifest's frozen-baseline accuracy for (d); None for controls without one, or outside
    [0, 1]."""
    acc = manifest.frozen_baseline_acc
    if acc is None or manifest.method in WITHOUT_BASELINE or not 0.0 <= acc <= 1.0:
        return None
    return acc


LONGEST_SEED = 18
"""Maximum digits of a seed in a name."""

_SEED = re.compile(rf"(?:^|[_-])(?:[sS]|seed[_-]?)(\d{{1,{LONGEST_SEED}}})(?=[_-]|$)")
_SEED_SAID = re.compile(rf"\bseed[ =:#]*(\d{{1,{LONGEST_SEED}}})\b", re.IGNORECASE)
_BETWEEN_WORDS = re.compile(r"[\s\-_\x00-\x1f\x7f-\x9f]+")
_AXES: dict[str, tuple[type, re.Pattern[str]]] = {
    "lam": (float, re.compile(r"[_-](?:pen[_-])?lam((?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e-?[0-9]+)?)")),
    "d": (int, re.compile(r"(?:^|[_-])(?:d|width)([0-9]{2,6})(?=[_-]|$)")),
    "L": (int, re.compile(r"(?:^|[_-])(?:L|depth)([0-9]{1,4})(?=[_-]|$)")),
}
_ARCH = re.compile(
    r"(?:^|_)(?:arch_?)?((?:res_?)?mlp(?:_wide)?|vit(?:_mini)?|student_?net"
    r"|(?:small_?)?cnn|(?:small_)?resnet\d*)(?=_|$)"
)


def split_key(key: str) -> tuple[str, int | None, Json]:
    """Method, seed and axes from a name such as ``dfa_s42``, ``bp_d512_s42`` or
    ``dfa_pen_lam0.01_s42``.

    >>> split_key("state_bridge_s123")
    ('state_bridge', 123, {})
    >>> split_key("dfa_pen_lam0.01_s42")
    ('dfa', 42, {'lam': 0.01})
    >>> split_key("model")
    ('model', None, {})

    Of several seeds the last counts; text after a seed is ignored unless it is an axis. A network
    counts only next to a known method.

    >>> split_key("bp_s7_d512_final"), split_key("vit_mini_dfa_s42"), split_key("vit_mini_s42")
    (('bp', 7, {'d': 512}), ('dfa', 42, {'arch': 'vit_mini'}), ('vit_mini', 42, {}))

    Text after an ``@`` only distinguishes runs of equal method and seed (see
    `fa_core.formats.audit_table_writer`).

    >>> split_key("bp_s1@bp_s100"), split_key("dfa@home_s42")
    (('bp', 1, {}), ('dfa@home', 42, {}))
    """
    run, _, _ = key.partition("@")
    if _SEED.search(run):
        key = run
    seeds = list(_SEED.finditer(key))
    at = None
    if seeds and (len(seeds) == 1 or seeds[-1].end() == len(key)):
        at = seeds[-1]
    axes: Json = {}
    parts = []
    sides = [key]
    if at:
        sides = [key[: at.start()], key[at.end() :]]
    for part in sides:
        for axis, (kind, pattern) in _AXES.items():
            if found := pattern.search(part):
                axes[axis] = kind(found[1])
                part = part[: found.start()] + part[found.end() :]
        parts.append(canonical_method(part))
    method = parts[0]
    if at:
        names = [part.strip("_") for part in parts]
        method = names[0] or names[1]
    network = _ARCH.search(method)
    if network:
        rest = (method[: network.start()] + method[network.end() :]).strip("_")
        if known_method(rest):
            axes["arch"] = network[1]
            method = rest
    method, trained_by = control_of(method or canonical_method(key))
    axes = {**trained_by, **axes}
    if at:
        return method, int(at[1]), axes
    return method, None, axes


def named_axis(axis: str, value: object) -> str:
    """An axis in the name of a run folder.

    >>> named_axis("lam", 0.01), named_axis("data", "digits"), named_axis("L", 8)
    ('_lam0.01', '_data-digits', '_L8')
    """
    if isinstance(value, float):
        return f"_{axis}{value:g}"
    if isinstance(value, str):
        return f"_{axis}-{value}"
    return f"_{axis}{value}"


_CONTROL = re.compile(
    r"(?P<of>frozen|shallow)_of_(?P<trained_by>\w+)|(?P<rule>\w+)_(?P<control>frozen|shallow)"
)


def is_control(method: str) -> bool:
    """Whether a method, in any spelling, is a control.

    >>> is_control("Random-Init"), is_control("dfa_frozen"), is_control("dfa")
    (True, True, False)
    """
    control, _ = control_of(canonical_method(method))
    return control in CONTROLS


def control_of(method: str) -> tuple[str, Json]:
    """Split a control's name into control and training rule (as an axis); other methods are
    unchanged.

    >>> (control_of("dfa_shallow"), control_of("frozen_of_bp"), control_of("dfa_frozen"),
    ...     control_of("my_frozen"))
    (('shallow', {'of': 'dfa'}), ('frozen', {'of': 'bp'}), ('frozen', {}), ('my_frozen', {}))

    ``frozen_of_`` may be followed by a rule of the user's own:

    >>> control_of("frozen_of_mine")
    ('frozen', {'of': 'mine'})
    """
    found = _CONTROL.fullmatch(method)
    if found is None:
        return method, {}
    control = found["of"] or found["control"]
    rule = found["trained_by"] or found["rule"]
    if found["rule"] and known_method(rule) != rule:
        return method, {}
    if rule == TRAINED_BY[control]:
        return control, {}
    return control, {"of": rule}


def seed_in_words(text: str) -> int | None:
    """The seed in a text; None for several or none.

    >>> seed_in_words("d=256 ResMLP, CIFAR-10, seed 42"), seed_in_words("seed 1 and seed 2")
    (42, None)
    """
    said = set(_SEED_SAID.findall(text))
    if len(said) == 1:
        return int(said.pop())
    return None


def canonical_method(name: str) -> str:
    """A method's canonical name: lower case, words joined by ``_``, no control codes (names come
    from files).

    >>> canonical_method("Credit Bridge"), canonical_method("STATE_BRIDGE"), canonical_method("SB")
    ('credit_bridge', 'state_bridge', 'state_bridge')
    """
    plain = _BETWEEN_WORDS.sub("_", name.strip()).lower()
    return _SHORT_NAMES.get(plain, plain)


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


def home_of(source: str, runs: int) -> str:
    """The collection of a run: the file or folder with comparable runs.

    It is the file, if it holds several runs, else the parent folder of the file or run folder.

    Args:
        source: the run's source.
        runs: number of runs with this source.

    >>> (home_of("main/dfa_s42/audit.json", 1), home_of("main/dfa_s42", 1),
    ...     home_of("main/audits.json", 15))
    ('main', 'main', 'main/audits.json')
    """
    if runs > 1:
        return source
    return str(PurePath(run_place(source)).parent)


def run_names(keys: Sequence[str], sources: Sequence[str]) -> tuple[str, ...]:
    """A short unique name per run: its key, with the shortest distinguishing part of its place
    before equal keys.

    >>> run_names(["bp_s1", "dfa_s1", "dfa_s1"], ["a.json", "a.json", "b.json"])
    ('bp_s1', 'a:dfa_s1', 'b:dfa_s1')
    >>> run_names(["dfa_s42", "dfa_s42"], ["old/dfa_s42", "new/dfa_s42"])
    ('old/dfa_s42:dfa_s42', 'new/dfa_s42:dfa_s42')
    """
    places: dict[str, list[str]] = {}
    for key, source in zip(keys, sources, strict=True):
        places.setdefault(key, []).append(run_place(source))
    leads = {key: _leads(found) for key, found in places.items() if len(found) > 1}
    names = []
    for key, source in zip(keys, sources, strict=True):
        if key in leads:
            lead = leads[key][run_place(source)]
            names.append(f"{lead}:{key}")
        else:
            names.append(key)
    return tuple(numbered(names))


def numbered(names: Iterable[str]) -> list[str]:
    """Unique names: a number is appended to repeated ones.

    >>> numbered(["bp_s1", "dfa_s1", "bp_s1"])
    ['bp_s1', 'dfa_s1', 'bp_s1#2']
    """
    found: dict[str, None] = {}
    for name in names:
        unique, count = name, 1
        while unique in found:
            count += 1
            unique = f"{name}#{count}"
        found[unique] = None
    return list(found)


def _leads(places: Iterable[str]) -> dict[str, str]:
    """Place → its file's name, or for equal names the shortest unique end of the path."""
    leads = {place: PurePath(place).stem for place in places}
    count = Counter(leads.values())
    alike = [place for place, stem in leads.items() if count[stem] > 1]
    leads.update(short_paths(alike))
    return leads


def short_paths(paths: Iterable[str]) -> dict[str, str]:
    """Path → its shortest unique end."""
    tails: dict[str, list[tuple[str, ...]]] = {}
    for path in paths:
        parts = PurePath(path).parts
        tails[path] = [parts[place:] for place in range(len(parts))]
    seen = Counter(chain.from_iterable(tails.values()))
    names = {}
    for path, own in tails.items():
        names[path] = path
        for tail in own:
            if seen[tail] == 1:
                names[path] = str(PurePath(*tail))
    return names


def is_run(folder: Path) -> bool:
    """Whether a folder is a run folder."""
    return is_file(folder / MANIFEST)


def read_manifest(folder: Path) -> Manifest:
    """The manifest of a run folder.

    Raises:
        UnreadableInput: missing, not JSON, of the wrong shape, or of a newer format.
    """
    path = folder / MANIFEST
    with reading(path, "not a run manifest", "see `fa-tui schema manifest`"):
        data = loads(read_file(path, LARGEST_MANIFEST))
        if isinstance(data, dict) and data.get("format", FORMAT) != FORMAT:
            hint = f"this version reads {FORMAT}"
            raise UnreadableInput(f"run format {data['format']!r} is not known here", hint=hint)
        return msgspec.convert(data, Manifest)
