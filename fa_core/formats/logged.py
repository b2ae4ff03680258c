"""What a training log holds, whatever kind of file it is: its entries merged into the epochs of a run, with evidence.

Every reader of logs hands over its entries as mappings from logged names to values; which name is which number is
decided in `fa_core.formats.log_names`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count, pairwise, takewhile
from pathlib import PurePath
from typing import Any, TypeAlias

import msgspec

from fa_core.errors import InvalidReport, printable
from fa_core.formats.json_document import attempt, convert_spelled
from fa_core.formats.log_names import DEEPEST, HELD_OUT, JUDGED, NAMES, Columns, columns_of, given_in
from fa_core.option_values import listed
from fa_core.rows import AuditRow, Problem, row_of_file
from fa_core.runs import canonical_method
from fa_core.trace import Trace, TraceEpoch, growth_bound

Entry: TypeAlias = tuple[str, Mapping[str, Any]]
"""Where it is, for messages (file, and line or JSON path), and what is logged there."""

_OWN = ("growth_bound", "evidence", "unmeasured", "layers")
_ACCURACIES = ("test_acc", "train_acc", "frozen_baseline_acc")
_FIELDS = frozenset(TraceEpoch.__struct_fields__)
_GENERAL = frozenset({"metrics", "summary", "trainer_state", "log", "logs", "history", "mlflow", "events"})
"""Names that log files have whatever the run is."""


class Ends(msgspec.Struct, frozen=True):
    """What a partial log says once for all its epochs: ‖h_0‖ and the number of blocks L."""

    h_0: float | None = None
    depth: int | None = None


def named_by_place(path: str) -> AuditRow:
    """The row of a log: named by its file, or by its folder where every run's log has that file's name.

    >>> named_by_place("out/dfa_s1/metrics.csv").key, named_by_place("dfa_s1.csv").key
    ('dfa_s1', 'dfa_s1')
    """
    place = PurePath(path)
    if place.name.split(".")[0] not in _GENERAL or not place.parent.name:
        return row_of_file(path)
    folder = place.parent.parent if re.fullmatch(r"checkpoint-\d+", place.parent.name) else place.parent
    return msgspec.structs.replace(row_of_file(str(folder)), source=path)


def traces_of(
    name: AuditRow, entries: Iterable[Entry], *, unfinished: bool = False, notes: tuple[str, ...] = ()
) -> Iterator[Trace | Problem]:
    """The traces of a log, one per method and seed where its entries name them, and the entries that are none.

    Args:
        name: the log's row.
        entries: in the order in which they were logged.
        unfinished: the log ends inside an entry.
        notes: what there is to know of the file.
    """
    runs: dict[tuple[str, int | None], list[Entry]] = {}
    for where, fields in entries:
        runs.setdefault(owner(fields, name), []).append((where, fields))
    for (method, seed), logged in runs.items():
        epochs, problems, said = epochs_of(logged)
        yield from problems
        if epochs:
            key = name.key if len(runs) == 1 else f"{method}_s{seed}"
            run = msgspec.structs.replace(name, key=key, method=method, seed=seed)
            yield trace_of(run, epochs, unfinished=unfinished, notes=(*notes, *said))


def trace_of(run: AuditRow, epochs: list[TraceEpoch], **known: Any) -> Trace:
    """The trace of the run that a row names."""
    named = {name: getattr(run, name) for name in ("source", "key", "method", "seed", "axes")}
    return Trace(**named, epochs=epochs, **known)


def owner(fields: Mapping[str, Any], name: AuditRow) -> tuple[str, int | None]:
    """Method and seed as an entry states them, or else as the file is named."""
    method = next((fields[key] for key in NAMES["method"] if fields.get(key) is not None), None)
    seed = fields.get("seed")
    return (
        canonical_method(method) if isinstance(method, str) and method.strip() else name.method,
        seed if isinstance(seed, int) and not isinstance(seed, bool) else name.seed,
    )


def axes_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """What a log's header or an entry says of the run's place in a sweep."""
    return {
        axis: fields[axis]
        for axis in ("lam", "d", "L", "arch", "of")
        if isinstance(fields.get(axis), (int, float, str))
    }


def epochs_of(
    entries: Sequence[Entry], ends: Ends | None = None
) -> tuple[list[TraceEpoch], list[Problem], tuple[str, ...]]:
    """The epochs in increasing order, the entries that are none, and what else there is to know, a line each.

    The entries of one epoch are merged, the value logged last counting.

    An accuracy most of whose values are above 1 (and none above 100) is in percent.

    Args:
        entries: in the order in which they were logged.
        ends: what the log's header says of ‖h_0‖ and L; by default each epoch speaks for itself.
    """
    entries = [(where, {k: value for k, value in fields.items() if value is not None}) for where, fields in entries]
    names = dict.fromkeys(name for _, fields in entries for name in fields)
    columns = columns_of(tuple(names))
    accuracy = columns.whole.get("test_acc", "")
    percent = {name for field in _ACCURACIES if (name := columns.whole.get(field, "")) and _in_percent(entries, name)}
    numbers, notes = _numbers(entries, columns)
    judged = [name for field, name in columns.whole.items() if field in JUDGED]
    merged: dict[int, Entry] = {}
    epochs: list[TraceEpoch] = []
    problems: list[Problem] = []
    repeated: dict[int, None] = {}
    for (where, fields), number in zip(entries, numbers, strict=True):
        if number is None:
            problems.append(Problem(_file(where), f"{where}: names no epoch; the epoch is skipped"))
            continue
        known = merged.get(number, ("", {}))[1]
        # as text: NaN differs from itself
        if any(name in fields and repr(known.get(name, fields[name])) != repr(fields[name]) for name in judged):
            repeated[number] = None
        merged[number] = where, {**known, **fields}
    for number, (where, fields) in sorted(merged.items()):
        epoch = attempt(partial(_epoch, number, fields, where, accuracy, percent, ends), _file(where), "epoch")
        (problems if isinstance(epoch, Problem) else epochs).append(epoch)  # type: ignore[arg-type]
    unused = [printable(name) for name in names if name not in used_in(columns) and name not in _OWN]
    if repeated:
        notes.append(f"logged more than once, the last counts: epoch {listed(sorted(repeated), 6)}")
    if any(part in accuracy.lower() for part in HELD_OUT[1:]):
        notes.append(f"the accuracy is {printable(accuracy)}")
    notes += [f"{printable(name)} is in percent: divided by 100" for name in sorted(percent)]
    notes += [f"logged, not used: {listed(unused, 6)}"] if unused else []
    return epochs, problems, tuple(notes)


def _in_percent(entries: Sequence[Entry], name: str) -> bool:
    values = [value for _, fields in entries if (value := number_in(fields, name)) and math.isfinite(value)]
    return max(values, default=0.0) <= 100.0 and 2 * sum(value > 1.0 for value in values) > len(values)


def _numbers(entries: Sequence[Entry], columns: Columns) -> tuple[list[int | None], list[str]]:
    """The epoch of each entry, or its step where epochs do not number what was measured; and what is said of it."""
    epochs, steps = (
        [number_in(fields, columns.whole.get(at, "")) for _, fields in entries] for at in ("epoch", "step")
    )
    if "epoch" not in columns.whole:
        return [_at_end(step) for step in steps], ["numbered by step: the log names no epoch"]
    judged = {columns.whole[field] for field in JUDGED & columns.whole.keys()}
    measured = [i for i, (_, fields) in enumerate(entries) if not judged.isdisjoint(fields)]
    parted = any(_NEAR < (epochs[i] or 0.0) % 1.0 < 1.0 - _NEAR for i in measured)
    if parted and None not in [steps[i] for i in measured]:
        return [_at_end(step) for step in steps], ["numbered by step: measured at fractions of an epoch"]
    return [_at_end(epoch) for epoch in epochs], []


_NEAR = 0.05


def _at_end(position: float | None) -> int | None:
    """The epoch (or step) at whose end an entry counts: 0.5 is a part of epoch 1."""
    return None if position is None or not math.isfinite(position) else math.ceil(position - _NEAR)


def epoch_of(fields: Mapping[str, Any], where: str) -> TraceEpoch:
    """What one entry alone says was measured.

    Raises:
        UnreadableInput: a value of the wrong type.
        InvalidReport: numbers that contradict each other.
    """
    return _epoch(0, fields, where, given_in(fields).whole.get("test_acc", ""), set(), None)


def used_in(columns: Columns) -> set[str]:
    """The names that stand for something."""
    return {*columns.whole.values(), *(name for by_layer in columns.layers.values() for name in by_layer.values())}


def _epoch(
    number: int, fields: Mapping[str, Any], where: str, accuracy: str, percent: set[str], ends: Ends | None
) -> TraceEpoch:
    """One epoch.

    Args:
        number: of the epoch.
        fields: all that is logged of it.
        where: file and JSON path or line, for messages.
        accuracy: the name of the run's accuracy.
        percent: names of accuracies in percent.
        ends: what the log's header says of ‖h_0‖ and L; None: what the fields say.

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
    found = {
        field: fields[name] / 100 if name in percent and is_number(fields[name]) else fields[name]
        for field, name in spelled.items()
    }
    found["epoch"] = number
    found |= _by_layer(fields, found, columns, ends or ends_of(fields))
    found |= {name: fields[name] for name in _OWN if name in fields}
    if is_number(found.get("gamma")):
        found["gamma"] = [found["gamma"]]
    epoch = convert_spelled(found, TraceEpoch, where, spelled)
    epoch.report().check(where)
    if epoch.train_acc is not None and epoch.train_acc > 1.0:
        raise InvalidReport(
            f"train_acc is {epoch.train_acc}", where=where, hint="accuracies are fractions: divide by 100"
        )
    return epoch


def _by_layer(fields: Mapping[str, Any], found: Mapping[str, Any], columns: Columns, ends: Ends) -> dict[str, Any]:
    """(a), (b) and Γ from numbers that are logged layer by layer, and what they rest on.

    (a) is exact from the norms of all layers, or where growth itself is logged; a lower bound, the geometric mean, from
    two layers and how many blocks lie between; else not measured. (b) is exact at ‖g_L‖ and a proxy at an earlier
    layer; a norm over all parameters is neither.
    """
    evidence: dict[str, str] = {}
    unmeasured: dict[str, str] = {}
    layers: dict[str, str] = {}
    new: dict[str, Any] = {"evidence": evidence, "unmeasured": unmeasured, "layers": layers}
    h, g, gamma = (
        {layer: value for layer, name in names.items() if (value := number_in(fields, name)) is not None}
        for names in (columns.layers.get(field, {}) for field in ("residual_norms", "bp_grad_norms", "gamma"))
    )
    growth = number_in(fields, columns.whole.get("growth", ""))
    norms = found.get("residual_norms")
    depth = len(norms) - 1 if isinstance(norms, list) and len(norms) > 1 else ends.depth
    if norms is None and h.keys() - {"0"}:
        norms, last = _stream(h, depth, depth is None)
        new["residual_norms"] = norms
        depth = depth if last else len(norms) - 1
        if last:
            layers["residual_norms"] = last
            bounds = _bounds(h, depth, ends.h_0)
            if growth is None and bounds:
                new["growth_bound"], evidence["a"] = max(bounds, key=lambda bound: (math.isnan(bound), bound)), "bound"
            elif growth is None:
                logged = " and ".join(f"‖h_{layer}‖" for layer in h) + (" is" if len(h) == 1 else " are")
                missing = "a bound on growth needs ‖h_0‖ and the number of blocks L too"
                unmeasured["a"] = f"only {logged} logged: {missing}"
    if growth is not None:
        new["growth_bound"] = growth
    if g and "bp_grad_norms" not in found:
        new["bp_grad_norms"], last = _stream(g, depth, False)
        if last:
            layers["bp_grad_norms"] = last
            evidence |= {} if last == DEEPEST else {"b": "proxy"}
    elif "bp_grad_norms" not in found and "parameters_grad_norm" in columns.whole:
        unmeasured["b"] = f"{columns.whole['parameters_grad_norm']} is a norm over all parameters, not ‖g_L‖"
    if gamma and not isinstance(found.get("gamma"), list):
        numbered = [int(layer) for layer in gamma if layer != DEEPEST]
        new["gamma"] = [gamma.get(str(layer)) for layer in range(max(numbered, default=-1) + 1)] or [gamma[DEEPEST]]
    return new


def _bounds(h: Mapping[str, float], depth: int | None, h_0: float | None) -> list[float]:
    """Lower bounds on growth, one between each known layer and the next one that is known."""
    known = {int(layer): norm for layer, norm in h.items() if layer != DEEPEST}
    known |= {0: h_0} if h_0 is not None and 0 not in known else {}
    known |= {depth: h[DEEPEST]} if depth is not None and DEEPEST in h else {}
    found = (growth_bound(known[low], known[high], high - low) for low, high in pairwise(sorted(known)))
    return [bound for bound in found if bound is not None]


def _stream(by_layer: Mapping[str, float], depth: int | None, whole: bool) -> tuple[list[float], str]:
    """The norms of layers 0, 1, … and ``""`` where they are of all layers; else the deepest, and which layer it is.

    Args:
        by_layer: norms.
        depth: L, where it is known.
        whole: whether norms without a gap are of all layers where L is not known.
    """
    stream = [by_layer[str(layer)] for layer in takewhile(lambda layer: str(layer) in by_layer, count())]
    whole = whole and len(stream) == len(by_layer)
    known = by_layer.get(DEEPEST, stream[-1] if whole and stream else None) in stream[-1:]
    if len(stream) > 1 and (depth == len(stream) - 1 or (depth is None and known)):
        return stream, ""
    last = DEEPEST if DEEPEST in by_layer or str(depth) in by_layer else max(by_layer, key=int)
    return [by_layer[last if last in by_layer else str(depth)]], last


def ends_of(fields: Mapping[str, Any]) -> Ends:
    """‖h_0‖ and L from a log's header or an entry, or from the ``config``/``args`` mapping inside it."""
    h_0: float | None = None
    depth: int | None = None
    for place in (fields, fields.get("config"), fields.get("args")):
        if isinstance(place, Mapping):
            columns = given_in(place)
            first = columns.layers.get("residual_norms", {}).get("0", "")
            h_0 = number_in(place, first) if h_0 is None else h_0
            blocks = number_in(place, columns.whole.get("depth", ""))
            depth = int(blocks) if depth is None and blocks is not None and 1 <= blocks <= 1e6 else depth
    return Ends(h_0, depth)


def is_number(value: Any) -> bool:
    """Whether a logged value is a number (NaN and infinity are)."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def number_in(fields: Mapping[str, Any], name: str) -> float | None:
    """A logged number as a float; None where there is none."""
    value: Any = fields.get(name)
    return float(value) if is_number(value) else None


def _file(where: str) -> str:
    return where.split(": ")[0]
