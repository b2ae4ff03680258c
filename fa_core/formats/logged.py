"""Training logs of all kinds of file, merged into the epochs of a run, with evidence.

Readers of logs supply entries: mappings from logged names to values. Names are looked up in
`fa_core.formats.log_names`; what one epoch's entry holds is in `fa_core.formats.logged_epoch`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import NamedTuple

import msgspec

from fa_core.decode import Json
from fa_core.errors import FaError, UnreadableInput
from fa_core.facts.names import folder_of, key_of, stated
from fa_core.files import is_file, read_file
from fa_core.formats.json_document import (
    MOST_PROBLEMS,
    Attempts,
)
from fa_core.formats.log_names import (
    HELD_OUT,
    JUDGED,
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

_ACCURACIES = ("test_acc", "train_acc", "frozen_baseline_acc")
_HYPERPARAMETER = re.compile(r"^(method|seed) *: *([\w.+-]{1,100}) *$", re.MULTILINE)
_MOST_HYPERPARAMETERS = 1 << 16


def named_by_place(path: str) -> AuditRow:
    """The row of a log, with the method and seed of Lightning's ``hparams.yaml`` if its folder has
    one."""
    row = row_of_file(path)
    hyperparameters = Path(folder_of(path)) / "hparams.yaml"
    if not folder_of(path) or not is_file(hyperparameters):
        return row
    try:
        text = read_file(hyperparameters, _MOST_HYPERPARAMETERS).decode(errors="replace")
    except FaError:
        return row
    return _stated_in(dict(_HYPERPARAMETER.findall(text)), row)


def _stated_in(fields: Mapping[str, object], row: AuditRow) -> AuditRow:
    method, seed = stated(fields, row.method, row.seed)
    return msgspec.structs.replace(row, method=method, seed=seed)


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
    runs: dict[tuple[str, str, int | None], tuple[AuditRow, list[Entry]]] = {}
    for where, fields in entries:
        run = name
        label = fields.get("run")
        own = _labelled(label) if isinstance(label, str) else None
        if own:
            fields = {field: value for field, value in fields.items() if field != "run"}
            run = msgspec.structs.replace(own, source=name.source)
        run = _stated_in(fields, run)
        _, logged = runs.setdefault((run.key, run.method, run.seed), (run, []))
        logged.append((where, fields))
    for run, logged in runs.values():
        merged = epochs_of(logged)
        yield from merged.problems
        if run.key == name.key and len(runs) > 1:
            run = msgspec.structs.replace(run, key=key_of(run.method, {}, run.seed))
        if merged.epochs:
            yield trace_of(run, merged, notes, unfinished)


@lru_cache(maxsize=256)
def _labelled(label: str) -> AuditRow | None:
    """The row of a run that an entry names as run folders are named, by method and seed."""
    if "/" not in label and row_of_file(label).seed is not None:
        return row_of_file(label)
    return None


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
