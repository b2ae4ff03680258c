"""Training logs of all kinds of file, merged into the epochs of a run, with evidence.

Readers of logs supply entries: mappings from logged names to values. Names are looked up in
`fa_core.formats.log_names`.

JSON logs are read here: format 5, a trace with an object per epoch, in lines or a list, or
    transformers' ``trainer_state.json``; format 4, the log of a penalty run, also an audit of its
    last epoch.
"""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path, PurePath
from typing import TypeAlias

import msgspec

from fa_core.decode import Json
from fa_core.errors import FaError, InvalidReport, UnreadableInput
from fa_core.facts.run_names import LONGEST_SEED, canonical_method
from fa_core.files import is_file, read_file
from fa_core.formats.json_document import (
    MOST_PROBLEMS,
    Attempts,
    Document,
    Finding,
    convert_spelled,
    plain,
)
from fa_core.formats.log_names import (
    DEEPEST,
    HELD_OUT,
    JUDGED,
    NAMES,
    Columns,
    columns_of,
    given_in,
    is_log,
    is_own,
    outdone,
)
from fa_core.numbers import is_number
from fa_core.option_values import listed
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow, Problem, row_of_file
from fa_core.sanitize import sanitize
from fa_core.trace import Trace, TraceEpoch, growth_bound

Entry: TypeAlias = tuple[str, Mapping[str, object]]
"""Location for messages (file, and line or JSON path), and the logged values."""

_OWN = ("growth_bound", "evidence", "unmeasured", "layers")
_AXES = ("lam", "d", "L", "arch", "of")
_ACCURACIES = ("test_acc", "train_acc", "frozen_baseline_acc")
_FIELDS = frozenset(TraceEpoch.__struct_fields__)
_GENERAL = frozenset({"metrics", "summary", "trainer_state", "log", "logs", "history", "events"})
"""Usual names of log files, which do not name the run."""


def named_by_place(path: str) -> AuditRow:
    """The row of a log, named after its file, or its folder if the file's name is a usual one.

    >>> named_by_place("out/dfa_s1/metrics.csv").key, named_by_place("dfa_s1.csv").key
    ('dfa_s1', 'dfa_s1')
    """
    place = PurePath(path)
    if place.name.split(".")[0] not in _GENERAL or not place.parent.name:
        return row_of_file(path)
    if re.fullmatch(r"checkpoint-\d+", place.parent.name):
        folder = place.parent.parent
    else:
        folder = place.parent
    row = msgspec.structs.replace(row_of_file(str(folder)), source=path)
    return _with_hyperparameters(row, Path(folder) / "hparams.yaml")


_HYPERPARAMETER = re.compile(r"^(method|seed) *: *([\w.+-]{1,100}) *$", re.MULTILINE)
_MOST_HYPERPARAMETERS = 1 << 16


def _with_hyperparameters(row: AuditRow, path: Path) -> AuditRow:
    """The row with the method and seed of Lightning's ``hparams.yaml``, if there is one."""
    if not is_file(path):
        return row
    try:
        text = read_file(path, _MOST_HYPERPARAMETERS).decode(errors="replace")
    except FaError:
        return row
    found = dict(_HYPERPARAMETER.findall(text))
    if "method" in found:
        row = msgspec.structs.replace(row, method=canonical_method(found["method"]))
    if found.get("seed", "").isdecimal() and len(found["seed"]) <= LONGEST_SEED:
        row = msgspec.structs.replace(row, seed=int(found["seed"]))
    return row


def traces_of(
    name: AuditRow,
    entries: Iterable[Entry],
    *,
    unfinished: bool = False,
    notes: tuple[str, ...] = (),
) -> Iterator[Trace | Problem]:
    """The traces of a log, one per run, or per method and seed if entries name them, and problems
    for invalid entries.

    Args:
        name: the log's row.
        entries: in the order in which they were logged.
        unfinished: the log ends inside an entry.
        notes: notes on the file.
    """
    runs: dict[tuple[str, str, int | None], list[Entry]] = {}
    for where, fields in entries:
        label = _run_label(fields)
        if label:
            fields = {field: value for field, value in fields.items() if field != "run"}
        method, seed = owner(fields, row_of_file(label) if label else name)
        runs.setdefault((label, method, seed), []).append((where, fields))
    for (label, method, seed), logged in runs.items():
        epochs, problems, merged_notes = epochs_of(logged)
        yield from problems
        if not epochs:
            continue
        run = name
        if label:
            run = msgspec.structs.replace(row_of_file(label), source=name.source)
        elif len(runs) > 1:
            run = msgspec.structs.replace(name, key=f"{method}_s{seed}")
        run = msgspec.structs.replace(run, method=method, seed=seed)
        yield trace_of(run, epochs, (*notes, *merged_notes), unfinished)


def _run_label(fields: Mapping[str, object]) -> str:
    """The run that an entry names, as run folders are named: method and seed; ``""`` for none."""
    label = fields.get("run")
    if isinstance(label, str) and "/" not in label and row_of_file(label).seed is not None:
        return label
    return ""


def trace_of(
    run: AuditRow, epochs: list[TraceEpoch], notes: tuple[str, ...], unfinished: bool = False
) -> Trace:
    """The trace of a row's run."""
    return Trace(
        source=run.source,
        key=run.key,
        method=run.method,
        seed=run.seed,
        axes=run.axes,
        epochs=epochs,
        unfinished=unfinished,
        notes=notes,
    )


def owner(fields: Mapping[str, object], name: AuditRow) -> tuple[str, int | None]:
    """Method and seed from an entry, else from the file's name."""
    method, seed = name.method, name.seed
    for key in NAMES["method"]:
        stated = fields.get(key)
        if stated is not None:
            if isinstance(stated, str) and stated.strip():
                method = canonical_method(stated)
            break
    number = fields.get("seed")
    if isinstance(number, int) and not isinstance(number, bool):
        seed = number
    return method, seed


def axes_of(fields: Mapping[str, object]) -> Json:
    """The run's axes in a sweep, from a log's header or an entry."""
    axes: Json = {}
    gathered = fields.get("axes")
    if isinstance(gathered, Mapping):
        axes.update(gathered)
    for axis in _AXES:
        value = fields.get(axis)
        if isinstance(value, (int, float, str)):
            axes[axis] = value
    return axes


def epochs_of(entries: Sequence[Entry]) -> tuple[list[TraceEpoch], list[Problem], tuple[str, ...]]:
    """The epochs in increasing order, problems for invalid entries, and notes.

    The entries of an epoch are merged; the last value counts.

    An accuracy most of whose values are above 1 (and none above 100) is in percent. This project's
    own numbers precede others (`outdone`).

    Args:
        entries: in the order in which they were logged.
    """
    entries = [
        (where, {k: value for k, value in fields.items() if value is not None})
        for where, fields in entries
    ]
    names = dict.fromkeys(name for _, fields in entries for name in fields)
    if len(names) > MOST_NAMES:
        raise UnreadableInput(
            f"logs {len(names):,} names; up to {MOST_NAMES:,} are read", where=_file(entries[0][0])
        )
    entries = _without(entries, outdone(names))
    columns = columns_of(tuple(dict.fromkeys(name for _, fields in entries for name in fields)))
    accuracy = columns.whole.get("test_acc", "")
    accuracies = [columns.whole.get(field, "") for field in _ACCURACIES]
    percent = {name for name in accuracies if name and _in_percent(entries, name)}
    entries, notes = _positioned(entries, columns)
    numbers, how = _numbers(entries, columns)
    notes += how
    judged = [name for field, name in columns.whole.items() if field in JUDGED]
    merged: dict[int, tuple[str, Json]] = {}
    attempt = Attempts(_file(entries[0][0]) if entries else "")
    epochs: list[TraceEpoch] = []
    problems: list[Problem] = []
    repeated: set[int] = set()
    for (where, fields), number in zip(entries, numbers, strict=True):
        if number is None:
            if len(problems) < MOST_PROBLEMS:
                why = f"{where}: names no epoch; the epoch is skipped"
                problems.append(Problem(_file(where), why))
            continue
        _, known = merged.get(number, ("", {}))
        if _contradict(known, fields, judged):
            repeated.add(number)
        known.update(fields)
        merged[number] = where, known
    for number, (where, fields) in sorted(merged.items()):
        epoch = attempt(partial(_epoch, number, fields, where, accuracy, percent), "epoch")
        (problems if isinstance(epoch, Problem) else epochs).append(epoch)  # type: ignore[arg-type]
    used = used_in(columns).union(_OWN, _SETTINGS)
    unused = [sanitize(name) for name in names if name not in used]
    if repeated:
        notes.append(f"logged more than once, the last counts: epoch {listed(sorted(repeated), 6)}")
    if any(part in accuracy.lower() for part in HELD_OUT[1:]):
        notes.append(f"the accuracy is {sanitize(accuracy)}")
    notes += [f"{sanitize(name)} is in percent: divided by 100" for name in sorted(percent)]
    notes += [f"logged, not used: {listed(unused, 6)}"] if unused else []
    return epochs, problems, tuple(notes)


def _contradict(
    known: Mapping[str, object], fields: Mapping[str, object], names: Iterable[str]
) -> bool:
    """Whether two entries of an epoch differ in the values of some names."""
    for name in names:
        # as text, since NaN differs from itself
        if name in known and name in fields and repr(known[name]) != repr(fields[name]):
            return True
    return False


MOST_NAMES = 20_000
"""Maximum number of values in a log."""


def _without(entries: Sequence[Entry], names: Container[str]) -> list[Entry]:
    """The entries without the values of some names."""
    return [
        (where, {name: fields[name] for name in fields if name not in names})
        for where, fields in entries
    ]


def _positioned(entries: Sequence[Entry], columns: Columns) -> tuple[Sequence[Entry], list[str]]:
    """The entries with `ProtocolMonitor`'s position, if the log has one: other loggers count other
    steps."""
    own = columns.whole.get("step", "")
    if not is_own(own):
        return entries, []
    kept = [(where, fields) for where, fields in entries if own in fields]
    notes = [f"numbered by {own}"]
    if len(kept) < len(entries):
        notes.append(
            f"left out, because they have no {own}: {len(entries) - len(kept)} of {len(entries)} "
            "entries"
        )
    return kept, notes


def _in_percent(entries: Sequence[Entry], name: str) -> bool:
    values = []
    for _, fields in entries:
        value = number_in(fields, name)
        if value and math.isfinite(value):
            values.append(value)
    above_one = sum(value > 1.0 for value in values)
    return max(values, default=0.0) <= 100.0 and 2 * above_one > len(values)


def _numbers(entries: Sequence[Entry], columns: Columns) -> tuple[list[int | None], list[str]]:
    """The epoch of each entry, or its step if epochs do not number the measurements; and notes."""
    epoch, step = columns.whole.get("epoch", ""), columns.whole.get("step", "")
    epochs = [number_in(fields, epoch) for _, fields in entries]
    steps = [number_in(fields, step) for _, fields in entries]
    if columns.whole.keys().isdisjoint(("epoch", "step")):
        return [*range(1, len(entries) + 1)], [
            "numbered by entry: the log names neither epoch nor step"
        ]
    by_step = [_at_end(position) for position in steps]
    if is_own(step):
        return by_step, []
    if not epoch:
        return by_step, ["numbered by step: the log names no epoch"]
    judged = {columns.whole[field] for field in JUDGED & columns.whole.keys()}
    measured = [i for i, (_, fields) in enumerate(entries) if not judged.isdisjoint(fields)]
    parted = any(_NEAR < (epochs[i] or 0.0) % 1.0 < 1.0 - _NEAR for i in measured)
    if parted and None not in [steps[i] for i in measured]:
        return by_step, ["numbered by step: measured at fractions of an epoch"]
    return [_at_end(position) for position in epochs], []


_NEAR = 0.05


def _at_end(position: float | None) -> int | None:
    """The epoch (or step) of an entry, rounded up: 0.5 is a part of epoch 1."""
    if position is None or not math.isfinite(position):
        return None
    return math.ceil(position - _NEAR)


def epoch_of(fields: Mapping[str, object], where: str) -> TraceEpoch:
    """The measurements of a single entry.

    Raises:
        UnreadableInput: a value of the wrong type.
        InvalidReport: numbers that contradict each other.
    """
    ((_, fields),) = _without([(where, fields)], outdone(fields))
    return _epoch(0, fields, where, given_in(fields).whole.get("test_acc", ""), set())


def used_in(columns: Columns) -> set[str]:
    """The known names."""
    return {
        *columns.whole.values(),
        *(name for by_layer in columns.layers.values() for name in by_layer.values()),
    }


def _epoch(
    number: int, fields: Mapping[str, object], where: str, accuracy: str, percent: set[str]
) -> TraceEpoch:
    """One epoch.

    Args:
        number: of the epoch.
        fields: its logged values.
        where: file and JSON path or line, for messages.
        accuracy: name of the run's accuracy.
        percent: names of accuracies in percent.

    Raises:
        UnreadableInput: a value of the wrong type.
        InvalidReport: numbers that contradict each other.
    """
    columns = given_in(fields)
    spelled = {
        field: name
        for field, name in columns.whole.items()
        if field in _FIELDS and (field != "test_acc" or name == accuracy)
    }
    found: Json = {}
    for field, name in spelled.items():
        share = number_in(fields, name)
        if name in percent and share is not None:
            found[field] = share / 100
        else:
            found[field] = fields[name]
    found["epoch"] = number
    found |= _by_layer(fields, found, columns)
    found |= {name: fields[name] for name in _OWN if name in fields}
    gamma = _layers_of("gamma", fields, columns)
    if gamma and not isinstance(found.get("gamma"), list):
        found["gamma"] = _in_order(gamma)
    if is_number(found.get("gamma")):
        found["gamma"] = [found["gamma"]]
    epoch = convert_spelled(found, TraceEpoch, where, spelled)
    epoch.report().check(where)
    if epoch.train_acc is not None and epoch.train_acc > 1.0:
        hint = "accuracies are fractions: divide by 100"
        raise InvalidReport(f"train_acc is {epoch.train_acc}", where=where, hint=hint)
    return epoch


def _by_layer(fields: Mapping[str, object], found: Mapping[str, object], columns: Columns) -> Json:
    """(a) and (b) from norms logged layer by layer, with their evidence.

    (a) is exact from the norms of all layers or a logged growth; from two layers and the number of
    blocks between them a lower bound, the geometric mean; else not measured. (b) is exact at ‖g_L‖
    and a proxy at an earlier layer; a norm over all parameters is neither.
    """
    evidence: dict[str, str] = {}
    unmeasured: dict[str, str] = {}
    layers: dict[str, str] = {}
    new: Json = {"evidence": evidence, "unmeasured": unmeasured, "layers": layers}
    h = _layers_of("residual_norms", fields, columns)
    g = _layers_of("bp_grad_norms", fields, columns)
    growth = number_in(fields, columns.whole.get("growth", ""))
    norms = found.get("residual_norms")
    h_0, depth = _ends_of(fields)
    if isinstance(norms, list) and len(norms) > 1:
        depth = len(norms) - 1
    if norms is None and h.keys() - {"0"}:
        norms, last = _stream(h, depth, depth is None)
        new["residual_norms"] = norms
        if not last:
            depth = len(norms) - 1
        else:
            layers["residual_norms"] = last
        if last and growth is None:
            bound = _bound(h, depth, h_0)
            if bound is None:
                unmeasured["a"] = _why_no_bound(h)
            else:
                new["growth_bound"], evidence["a"] = bound, "bound"
    if growth is not None:
        new["growth_bound"] = growth
    if g and "bp_grad_norms" not in found:
        new["bp_grad_norms"], last = _stream(g, depth, False)
        if last:
            layers["bp_grad_norms"] = last
        if last not in ("", DEEPEST):
            evidence["b"] = "proxy"
    elif "bp_grad_norms" not in found and "parameters_grad_norm" in columns.whole:
        unmeasured["b"] = (
            f"{columns.whole['parameters_grad_norm']} is a norm over all parameters, not ‖g_L‖"
        )
    return new


def _in_order(by_layer: Mapping[str, float]) -> list[float | None]:
    """The numbers of layers 0, 1, …, None for missing ones; or that of the deepest layer."""
    numbered = [int(layer) for layer in by_layer if layer != DEEPEST]
    if not numbered:
        return [by_layer[DEEPEST]]
    return [by_layer.get(str(layer)) for layer in range(max(numbered) + 1)]


def _layers_of(field: str, fields: Mapping[str, object], columns: Columns) -> dict[str, float]:
    """The numbers of a field by layer."""
    found = {}
    for layer, name in columns.layers.get(field, {}).items():
        value = number_in(fields, name)
        if value is not None:
            found[layer] = value
    return found


def _why_no_bound(h: Iterable[str]) -> str:
    """The reason why norms at these layers give no bound on growth."""
    norms = [f"‖h_{layer}‖" for layer in h]
    logged = f"{' and '.join(norms)} are"
    if len(norms) == 1:
        logged = f"{norms[0]} is"
    return f"only {logged} logged: a bound on growth needs ‖h_0‖ and the number of blocks L too"


def _bound(h: Mapping[str, float], depth: int | None, h_0: float | None) -> float | None:
    """The largest lower bound on growth between neighbouring known layers; NaN if one is."""
    known = {int(layer): norm for layer, norm in h.items() if layer != DEEPEST}
    if h_0 is not None:
        known.setdefault(0, h_0)
    if depth is not None and DEEPEST in h:
        known[depth] = h[DEEPEST]
    bounds = []
    for low, high in pairwise(sorted(known)):
        bound = growth_bound(known[low], known[high], high - low)
        if bound is not None:
            bounds.append(bound)
    if any(map(math.isnan, bounds)):
        return math.nan
    return max(bounds, default=None)


def _stream(
    by_layer: Mapping[str, float], depth: int | None, whole: bool
) -> tuple[list[float], str]:
    """The norms of layers 0, 1, … and ``""`` if they cover all layers; else the deepest, and its
    layer.

    Args:
        by_layer: norms.
        depth: L, if known.
        whole: whether norms without a gap cover all layers if L is unknown.
    """
    stream: list[float] = []
    while str(len(stream)) in by_layer:
        stream.append(by_layer[str(len(stream))])
    if DEEPEST in by_layer:
        ends_deepest = by_layer[DEEPEST] in stream[-1:]
    else:
        ends_deepest = whole and len(stream) == len(by_layer)
    if len(stream) > 1 and (depth == len(stream) - 1 or (depth is None and ends_deepest)):
        return stream, ""
    if DEEPEST in by_layer:
        return [by_layer[DEEPEST]], DEEPEST
    if str(depth) in by_layer:
        return [by_layer[str(depth)]], DEEPEST
    last = max(by_layer, key=int)
    return [by_layer[last]], last


_SETTINGS = ("config", "args")
"""Mappings in a log's header or entries that may describe the run."""


def ends_in(header: Mapping[str, object]) -> Json:
    """‖h_0‖ and the number of blocks L in a log's header, which hold for all entries."""
    columns = given_in(header)
    names = (
        columns.layers.get("residual_norms", {}).get("0", ""),
        columns.whole.get("depth", ""),
        *_SETTINGS,
    )
    return {name: header[name] for name in names if name in header}


def _ends_of(fields: Mapping[str, object]) -> tuple[float | None, int | None]:
    """‖h_0‖ and L from an entry or the settings inside it."""
    h_0: float | None = None
    depth: int | None = None
    for place in (fields, *(fields.get(name) for name in _SETTINGS)):
        if isinstance(place, Mapping):
            columns = given_in(place)
            first = columns.layers.get("residual_norms", {}).get("0", "")
            if h_0 is None:
                h_0 = number_in(place, first)
            blocks = number_in(place, columns.whole.get("depth", ""))
            if depth is None and blocks is not None and 1 <= blocks <= 1e6:
                depth = int(blocks)
    return h_0, depth


def number_in(fields: Mapping[str, object], name: str) -> float | None:
    """A logged number as a float; None without one."""
    value = fields.get(name)
    if is_number(value):
        return float(value)
    return None


def _file(where: str) -> str:
    return where.split(": ")[0]


_PEEK = 20
_CHECKPOINT = re.compile(r"checkpoint-(\d+)")
_HISTORY = "log_history"


def sniff(document: Document) -> bool:
    """Whether some of the first entries have an epoch or step and a known field."""
    if document.kind == "object":
        return is_log(document.members) or {_HISTORY, "global_step"} <= document.members.keys()
    return any(is_log(fields) for _, fields in document.objects(_PEEK))


def read(document: Document) -> Iterator[Finding]:
    """The traces of a file (one per method and seed, if entries name them), and problems for
    invalid entries.

    Of a Trainer's states in the checkpoints of a run only the last is read, which holds the
    history.
    """
    yield from document.problems
    logged: list[Entry] = []
    history = document.listed(_HISTORY)
    if document.kind == "object" and history is None:
        logged = [(document.path, document.fields())]
    elif _superseded(Path(document.path)):
        return
    for index, node in (history or document).items:
        where = (history or document).place(index)
        if isinstance(fields := plain(node), dict):
            logged.append((where, fields))
        else:
            yield Problem(document.path, f"{where}: not a JSON object; the entry is skipped")
    if not logged:
        raise UnreadableInput(
            "no whole epoch in the trace", where=document.path, hint="wait for the first epoch"
        )
    yield from traces_of(named_by_place(document.path), logged, unfinished=document.unfinished)


def _superseded(path: Path) -> bool:
    """Whether the run's folder, or a later checkpoint in it, has a file of this name."""
    mine = _CHECKPOINT.fullmatch(path.parent.name)
    if mine is None:
        return False
    run = path.parent.parent
    others = (
        _CHECKPOINT.fullmatch(other.parent.name) for other in run.glob(f"checkpoint-*/{path.name}")
    )
    return (run / path.name).is_file() or any(
        int(other[1]) > int(mine[1]) for other in others if other
    )


def sniff_log(document: Document) -> bool:
    """Whether an object, or the first one of a list, has a ``log`` of epochs, or describes its
    run."""
    if document.kind == "lines":
        return False
    if document.kind == "list":
        first = next(document.objects(1), (0, Json()))[1]
    else:
        first = document.members
    log = plain(first.get("log"))
    if isinstance(log, list):
        epochs = [entry for entry in log if isinstance(entry, dict) and "epoch" in entry]
    else:
        epochs = []
    return "log" in first and (bool(epochs) or not {"final_test_acc", "lam"}.isdisjoint(first))


def read_log(document: Document) -> Iterator[Finding]:
    """An audit row, judged at the last epoch, and a trace of a penalty run's log (format 4), or of
    each in a list.

    (a) is a lower bound, the geometric mean (‖h_L‖/‖h_0‖)^{1/L}, if the file names ‖h_0‖ and L,
    else not measured; (b) is judged at the logged layer as a proxy; (d) is exact once a baseline is
    given; (c) is not in such logs. Norms logged at all layers are exact.

    Raises:
        UnreadableInput: no list of epochs.
        InvalidReport: numbers that contradict each other.

    Source: docs/protocol.md §9 (partial audits) and §10.4.
    """
    if document.kind == "object":
        yield from _logged_run(document, row_of_file(document.path))
        return
    for index, header in document.objects():
        place = f"$[{index}]"
        name = header.get("run")
        if isinstance(name, str):
            named = row_of_file(name)
        else:
            named = row_of_file(document.path)
        row = msgspec.structs.replace(
            named, source=document.path, key=named.key if name else f"{named.key}{place}"
        )
        try:
            yield from _logged_run(
                Document(path=document.path, kind="object", members=header, at=place), row
            )
        except FaError as error:
            yield Problem(document.path, f"{error}; the log is skipped")


_OF_THE_HEADER = frozenset(
    {
        "run",
        "lam",
        "d",
        "L",
        "arch",
        "seed",
        "method",
        "method_name",
        "final_test_acc",
        "frozen_baseline_acc",
    }
    | {"frozen_acc", "verdict", "config", "args"}
)


def _logged_run(document: Document, row: AuditRow) -> Iterator[Finding]:
    header = dict(document.fields())
    where = f"{document.path}: {document.at}.log"
    log = header.pop("log", None)
    if not isinstance(log, list) or not log:
        raise UnreadableInput(
            "not a list of epochs", where=where, hint="a penalty log has one entry per epoch"
        )
    ends = ends_in(header)
    entries = [
        (f"{where}[{index}]", {**ends, **entry})
        for index, entry in enumerate(log)
        if isinstance(entry, dict)
    ]
    epochs, problems, notes = epochs_of(entries)
    if not epochs:
        raise UnreadableInput(
            "no epoch can be read", where=where, hint=problems[0].message if problems else ""
        )
    yield from problems
    unused = [
        sanitize(name)
        for name in header
        if name not in _OF_THE_HEADER and not any(columns_of((name,)))
    ]
    notes = (*notes, *([f"in the header, not used: {listed(unused, 6)}"] if unused else []))
    row.axes.update(axes_of(header))
    method, seed = owner(header, row)
    row = msgspec.structs.replace(row, method=method, seed=seed)
    yield msgspec.structs.replace(
        row, report=_final(header, epochs[-1].report(method, seed), row, notes)
    )
    yield trace_of(row, epochs, notes)


_NO_DRIFT = {"c": "a penalty log holds no gradients of several batches"}


def _final(
    header: Json, last: DiagnosticReport, row: AuditRow, notes: tuple[str, ...]
) -> DiagnosticReport:
    """The last epoch's report with the header's final accuracy, baseline and verdict, if
    present."""
    final = {
        "headline_acc": header.get("final_test_acc"),
        "frozen_baseline_acc": header.get("frozen_baseline_acc", header.get("frozen_acc")),
        "verdict": header.get("verdict"),
    }
    stated = DiagnosticReport.from_dict(
        {name: value for name, value in final.items() if value is not None}, row.source
    )
    given = {
        "headline_acc": stated.headline_acc,
        "frozen_baseline_acc": stated.frozen_baseline_acc,
        "recorded_verdict": stated.recorded_verdict,
    }
    return msgspec.structs.replace(
        last,
        axes=row.axes,
        notes="; ".join(
            ("judged at the last of the logged epochs; norms are those the log holds", *notes)
        ),
        unmeasured={**(_NO_DRIFT if last.cross_batch_stability is None else {}), **last.unmeasured},
        **{name: value for name, value in given.items() if value is not None},
    )
