"""Training logs of all kinds of file, merged into the epochs of a run, with evidence.

Readers of logs supply entries: mappings from logged names to values. Names are looked up in
`fa_core.formats.log_names`; what one epoch's entry holds is in `fa_core.formats.logged_epoch`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePath
from typing import NamedTuple

import msgspec

from fa_core.decode import Json
from fa_core.errors import FaError, UnreadableInput
from fa_core.facts.run_names import LONGEST_SEED, canonical_method
from fa_core.files import is_file, read_file
from fa_core.formats.json_document import (
    MOST_PROBLEMS,
    Attempts,
)
from fa_core.formats.log_names import (
    HELD_OUT,
    JUDGED,
    NAMES,
    Columns,
    columns_of,
    is_own,
    outdone,
)
from fa_core.formats.logged_epoch import (
    OWN,
    SETTINGS,
    Entry,
    merged_epoch,
    number_in,
    used_in,
    without,
)
from fa_core.option_values import listed
from fa_core.rows import AuditRow, Problem, row_of_file
from fa_core.sanitize import sanitize
from fa_core.trace import EPOCH, STEP, Trace, TraceEpoch

_AXES = ("lam", "d", "L", "arch", "of")
_ACCURACIES = ("test_acc", "train_acc", "frozen_baseline_acc")
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
        merged = epochs_of(logged)
        yield from merged.problems
        if not merged.epochs:
            continue
        run = name
        if label:
            run = msgspec.structs.replace(row_of_file(label), source=name.source)
        elif len(runs) > 1:
            run = msgspec.structs.replace(name, key=f"{method}_s{seed}")
        run = msgspec.structs.replace(run, method=method, seed=seed)
        yield trace_of(run, merged, notes, unfinished)


def _run_label(fields: Mapping[str, object]) -> str:
    """The run that an entry names, as run folders are named: method and seed; ``""`` for none."""
    label = fields.get("run")
    if isinstance(label, str) and "/" not in label and row_of_file(label).seed is not None:
        return label
    return ""


def trace_of(
    run: AuditRow, merged: MergedLog, notes: tuple[str, ...] = (), unfinished: bool = False
) -> Trace:
    """The trace of a row's run, with further notes before the log's own."""
    return Trace(
        source=run.source,
        key=run.key,
        method=run.method,
        seed=run.seed,
        axes=run.axes,
        epochs=merged.epochs,
        unfinished=unfinished,
        notes=(*notes, *merged.notes),
        unit=merged.unit,
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


class MergedLog(NamedTuple):
    """The epochs of a log.

    Attributes:
        epochs: in increasing order.
        problems: of invalid entries.
        notes: on the numbers.
        unit: see `Trace`.
    """

    epochs: list[TraceEpoch]
    problems: list[Problem]
    notes: tuple[str, ...]
    unit: str


def epochs_of(entries: Sequence[Entry]) -> MergedLog:
    """The epochs of a log's entries.

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
    entries = without(entries, outdone(names))
    columns = columns_of(tuple(dict.fromkeys(name for _, fields in entries for name in fields)))
    accuracy = columns.whole.get("test_acc", "")
    accuracies = [columns.whole.get(field, "") for field in _ACCURACIES]
    percent = {name for name in accuracies if name and _in_percent(entries, name)}
    entries, notes = _positioned(entries, columns)
    numbers, unit, how = _numbers(entries, columns)
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
        epoch = attempt(partial(merged_epoch, number, fields, where, accuracy, percent), "epoch")
        (problems if isinstance(epoch, Problem) else epochs).append(epoch)  # type: ignore[arg-type]
    used = used_in(columns).union(OWN, SETTINGS)
    unused = [sanitize(name) for name in names if name not in used]
    if repeated:
        notes.append(f"logged more than once, the last counts: epoch {listed(sorted(repeated), 6)}")
    if any(part in accuracy.lower() for part in HELD_OUT[1:]):
        notes.append(f"the accuracy is {sanitize(accuracy)}")
    notes += [f"{sanitize(name)} is in percent: divided by 100" for name in sorted(percent)]
    notes += [f"logged, not used: {listed(unused, 6)}"] if unused else []
    return MergedLog(epochs, problems, tuple(notes), unit)


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


def _numbers(entries: Sequence[Entry], columns: Columns) -> tuple[list[int | None], str, list[str]]:
    """The epoch of each entry, or its step if epochs do not number the measurements; which of the
    two; and notes."""
    epoch, step = columns.whole.get("epoch", ""), columns.whole.get("step", "")
    epochs = [number_in(fields, epoch) for _, fields in entries]
    steps = [number_in(fields, step) for _, fields in entries]
    if columns.whole.keys().isdisjoint(("epoch", "step")):
        note = "numbered by entry: the log names neither epoch nor step"
        return [*range(1, len(entries) + 1)], EPOCH, [note]
    by_step = [_at_end(position) for position in steps]
    if is_own(step):
        return by_step, STEP, []
    if not epoch:
        return by_step, STEP, ["numbered by step: the log names no epoch"]
    judged = {columns.whole[field] for field in JUDGED & columns.whole.keys()}
    measured = [i for i, (_, fields) in enumerate(entries) if not judged.isdisjoint(fields)]
    parted = any(_NEAR < (epochs[i] or 0.0) % 1.0 < 1.0 - _NEAR for i in measured)
    if parted and None not in [steps[i] for i in measured]:
        return by_step, STEP, ["numbered by step: measured at fractions of an epoch"]
    return [_at_end(position) for position in epochs], EPOCH, []


_NEAR = 0.05


def _at_end(position: float | None) -> int | None:
    """The epoch (or step) of an entry, rounded up: 0.5 is a part of epoch 1."""
    if position is None or not math.isfinite(position):
        return None
    return math.ceil(position - _NEAR)


def _file(where: str) -> str:
    return where.split(": ")[0]
