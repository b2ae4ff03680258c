"""The entries of a training log as the epochs of its runs, each number with its evidence.

Readers of files supply entries; `fa_core.formats.log_columns` says which column is which number.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import partial
from heapq import heappop, heappush
from itertools import chain, filterfalse
from typing import Any, TypeAlias, TypeVar

from msgspec.structs import replace

from fa_core.errors import UnreadableInput
from fa_core.files.decode import Json, integer, without
from fa_core.files.opening import TIMES
from fa_core.formats.json_document import attempt, convert
from fa_core.formats.log_columns import (
    JUDGED,
    LAST,
    OWN_STEP,
    POSITIONS,
    Given,
    Place,
    columns_of,
)
from fa_core.formats.rows import AuditRow, Problem, row_named
from fa_core.formats.trace import EPOCH, STEP, Trace, TraceEpoch
from fa_core.report.method_style import known_method
from fa_core.report.names import canonical_method, key_of
from fa_core.report.numbers import is_number, listed
from fa_core.report.report_facts import NORMS
from fa_core.sanitize import WHITE_SPACE, sanitize

Entry: TypeAlias = tuple[str, Mapping[str, object]]
"""Location for messages (file, and line or JSON path), and the logged values."""

Values: TypeAlias = "dict[Place, Any]"
"""What is read of an entry."""

Column = TypeVar("Column", bound=Hashable)

COUNTED = JUDGED | {"loss"}
"""What is the same where an epoch stands twice in a log that goes on."""

_EMPTY = frozenset({"", "-", "na", "n/a", "<na>", "none", "null"})
_NEAR = 0.05
_OF_A_RUN = ("run", "method", "seed", "lam")
_AGAIN = "logged more than once, the last counts: epoch"
_BACK = "logged before the log went back, left out: epoch"
_GAPS = "norms of some layers are not logged, those of others not used: epoch"
_UNUSED = "logged, not used:"
_LONGEST = 40
_PLAIN = "write one number, as 0.53: no list, percent sign, decimal comma or thousands separator"


def value_of(logged: object) -> object:
    """A logged value; a text as a number if it is one, and None if it is empty.

    >>> value_of("0.5"), value_of("NA"), value_of("0,5"), value_of([1.0])
    (0.5, None, '0,5', [1.0])
    """
    if not isinstance(logged, str):
        return logged
    text = logged.strip()
    if text.lower() in _EMPTY:
        return None
    for kind in (integer, float):
        with suppress(ValueError):
            return kind(text)
    return sanitize(text, WHITE_SPACE)


def names_in(entries: Iterable[Entry]) -> list[str]:
    """The names in a log's entries."""
    return list(dict.fromkeys(chain.from_iterable(fields for _, fields in entries)))


def traces_of(
    name: AuditRow, entries: Iterable[Entry], given: Given, *, unfinished: bool = False
) -> Iterator[Trace | Problem]:
    """The traces of a log, one per run that its entries name, and problems for invalid entries.

    Args:
        name: the log's row.
        entries: in the order in which they were logged.
        given: columns that the user named.
        unfinished: the log ends inside an entry.
    """
    runs: dict[str, list[Entry]] = {}
    for where, fields in entries:
        runs.setdefault(_run_of(fields, name), []).append((where, fields))
    logged = sum(map(len, runs.values()))
    for key, of_run in runs.items():
        run = row_named(key, name.source) if key else name
        trace, problems = trace_of(run, of_run, given, logged)
        yield from problems
        if trace.epochs:
            yield replace(trace, unfinished=unfinished)


def of_one_run(entries: Iterable[Entry]) -> tuple[Json, list[Entry]]:
    """What a log's entries name of the one run that it is of, and the entries without that.

    Raises:
        UnreadableInput: they name several.
    """
    said: Json = {}
    bare: list[Entry] = []
    for where, fields in entries:
        named = {name: value_of(fields.get(name)) for name in _OF_A_RUN}
        if named["method"] is not None:
            named["method"] = canonical_method(str(named["method"]))
        run = row_named(str(named["run"]), "")
        pairs = [*named.items(), ("seed", run.seed), *run.axes.items()]
        if known_method(run.method):
            pairs.append(("method", run.method))
        for name, value in pairs:
            if value is not None and said.setdefault(name, value) != value:
                raise UnreadableInput(
                    f"{name} is {value!s:.60}, where this log says {said[name]!s:.60}, too",
                    where=where,
                    hint="give each run a log",
                )
        bare.append((where, without(fields, *_OF_A_RUN)))
    return said, bare


def _run_of(fields: Mapping[str, object], name: AuditRow) -> str:
    """The run that an entry names, as run folders are named; empty if it names none."""
    run, method, seed, lam = (value_of(fields.get(each)) for each in _OF_A_RUN)
    if run is None and method is None and seed is None:
        return ""
    if run is None:
        method = canonical_method(str(method or name.method))
        # pandas writes 1.0 where a column has gaps
        if isinstance(seed, float) and seed.is_integer():
            seed = int(seed)
        axes = {"lam": lam} if is_number(lam) and lam == lam else {}
        run = key_of(method, axes, name.seed if seed is None else seed)
    return str(run).replace("/", "_")


def trace_of(
    run: AuditRow, entries: Collection[Entry], given: Given, count: int
) -> tuple[Trace, list[Problem]]:
    """A run's trace, and problems for invalid epochs.

    Entries without a number that is read are left out. Those of an epoch are merged: the last value
    counts, but a NaN replaces no number.

    Args:
        run: its row.
        entries: in the order in which they were logged.
        given: columns that the user named.
        count: entries of the log, of all its runs.
    """
    logged = [(where, _held(fields)) for where, fields in entries]
    names = names_in(logged)
    columns = columns_of(names, given)
    problems: list[Problem] = []
    read: list[tuple[str, Values]] = []
    for where, fields in logged:
        values = attempt(run.source, partial(_placed, fields, columns, where), "entry")
        if isinstance(values, Problem):
            problems.append(values)
        elif any(field in COUNTED for field, _ in values):
            read.append((where, values))
    unit = _unit(columns, [values for _, values in read if _is_measured(values)])
    places: dict[int, str] = {}
    placed: list[tuple[int, Values]] = []
    for where, values in read:
        if (at := _at_end(values.get((unit, None)))) is not None:
            places[at] = where
            placed.append((at, values))
        elif _is_measured(values):
            problems.append(Problem(run.source, f"{where}: no {unit}; the entry is skipped"))
    merged, dropped = merge(placed, {one for one in columns.values() if one[0] in COUNTED})
    # of a log of several runs, an empty column may be another's
    known = columns if len(logged) < count else columns_of(names_in(entries), given)
    gaps = {*_without_parts(merged, known.values())}
    epochs: list[TraceEpoch] = []
    for at in sorted(at for at, values in merged.items() if values):
        epoch = attempt(run.source, partial(epoch_of, at, merged[at], places[at], count), "epoch")
        if isinstance(epoch, Problem):
            problems.append(epoch)
        else:
            epochs.append(epoch)
    used = {*columns, *run.axes, "run", "method", "seed"}
    return Trace(
        source=run.source,
        key=run.key,
        method=run.method,
        seed=run.seed,
        axes=run.axes,
        epochs=epochs,
        notes=tuple(remarks(merged, dropped, gaps, filterfalse(used.__contains__, names))),
        unit=unit,
    ), problems


def _without_parts(merged: Mapping[int, Values], known: Collection[Any]) -> Iterator[int]:
    """Leave of a stream of which some layers are not logged the last layer's norm, if it is.

    Args:
        merged: the values of each epoch.
        known: what the log has at some epoch.

    Yields:
        The epochs with norms of some layers and not of all.
    """
    for field in NORMS:
        stream = {place for place in known if place[0] == field and place[1] is not None}
        deepest = max(stream, default=None)
        for at, values in merged.items():
            own = stream & values.keys()
            if set() < own < stream:
                yield at
                for place in own - {deepest}:
                    del values[place]


def remarks(
    merged: Mapping[int, Mapping[Any, Any]],
    dropped: Mapping[int, AbstractSet[Any]],
    gaps: Iterable[int] = (),
    unused: Iterable[str] = (),
) -> Iterator[str]:
    """What of a log does not count, and which columns are not read."""
    remarks: dict[str, list[Any]] = {
        _AGAIN: sorted(at for at, lost in dropped.items() if lost and merged[at]),
        _BACK: sorted(at for at, lost in dropped.items() if lost - merged[at].keys()),
        _GAPS: sorted(gaps),
        _UNUSED: list(map(sanitize, unused)),
    }
    for note, found in remarks.items():
        if found:
            yield f"{note} {listed(found, 6)}"


def _held(fields: Mapping[str, object]) -> Json:
    """The values of an entry that have a name and are not empty."""
    return {
        name: known
        for name, value in fields.items()
        if name and (known := value_of(value)) is not None
    }


def merge(
    entries: Iterable[tuple[int, Mapping[Column, Any] | None]], counted: AbstractSet[Column]
) -> tuple[dict[int, dict[Column, Any]], dict[int, set[Column]]]:
    """The values of each epoch or step, and the columns where one that counts was replaced by
    another number, or all were dropped.

    The last value counts, but NaN replaces no number. Where one that counts is replaced at an
    earlier place, all columns go on from there: what they held is dropped.

    Args:
        entries: in the order in which they were logged: place, and value of each column; None where
            all columns begin again.
        counted: the columns of numbers that are judged, and of the loss.
    """
    found: defaultdict[int, dict[Column, Any]] = defaultdict(dict)
    dropped: defaultdict[int, set[Column]] = defaultdict(set)
    latest = [math.inf]  # a heap of −place
    for at, values in entries:
        known, own = found[at], values or {}
        numbers = {column for column, value in own.items() if value == value}
        again = counted & numbers & known.keys()
        others = [column for column in again if known[column] == known[column] != own[column]]
        if others:
            dropped[at].update(others)
        begins = values is None or (others and at < -latest[0])
        while begins and at <= -latest[0]:
            later = int(-heappop(latest))
            dropped[later].update(counted & found[later].keys())
            found[later].clear()
        if own and not known:
            heappush(latest, -at)
        for column, value in own.items():
            if column in numbers or column not in known:
                known[column] = value
    return found, dropped


def _placed(fields: Json, columns: Mapping[str, Place], where: str) -> Values:
    """What is read of an entry.

    Raises:
        UnreadableInput: a text in the place of a number.
    """
    found = {}
    for name in filter(columns.__contains__, fields):
        place, value = columns[name], fields[name]
        if isinstance(value, str) or (place[0] in POSITIONS and not is_number(value)):
            raise UnreadableInput(
                f"{sanitize(name)} is {str(value)[:_LONGEST]!r}, not a number",
                where=where,
                hint=_PLAIN,
            )
        found[place] = value
    return found


def _is_measured(values: Values) -> bool:
    """Whether an entry has a number to judge."""
    return any(field in JUDGED and value == value for (field, _), value in values.items())


def _unit(columns: Mapping[str, Place], measured: Iterable[Values]) -> str:
    """What numbers the entries: steps where epochs do not number the measurements."""
    fields = {field for field, _ in columns.values()}
    may_be_epochs = "epoch" in fields and OWN_STEP not in columns
    if "step" in fields and not (
        may_be_epochs and all(_is_whole(values.get((EPOCH, None))) for values in measured)
    ):
        return STEP
    return EPOCH


def _is_whole(position: object) -> bool:
    return is_number(position) and min(position % 1.0, -position % 1.0) < _NEAR


def _at_end(position: object) -> int | None:
    """The epoch (or step) of an entry, rounded up: 0.5 is a part of epoch 1."""
    if is_number(position) and math.isfinite(position):
        return math.ceil(position - _NEAR)
    return None


_MOST_LAYERS = 1 << 22
"""Most layers of Γ of all epochs of a log together, where columns name few of them."""

_NO_BOUND = (
    "not each of ‖h_0‖ … ‖h_L‖ is logged: a bound on growth from ‖h_{}‖ needs --h0 and --blocks"
)


def lacking_at_end(entries: Iterable[Entry], given: Given, trace: Trace) -> set[str]:
    """The judged numbers that some entry of a log has, and not the last one.

    Raises:
        UnreadableInput: there is not one entry for each epoch, in order.
    """
    held = [(where, _held(fields)) for where, fields in entries]
    columns = columns_of(names_in(held), given)
    every = (_placed(fields, columns, where) for where, fields in held)
    logged = [values for values in every if any(field in COUNTED for field, _ in values)]
    numbers = [_at_end(values.get((trace.unit, None))) for values in logged]
    if numbers != [epoch.epoch for epoch in trace.epochs]:
        raise UnreadableInput(
            f"not one entry for each {trace.unit}, in order",
            where=trace.source,
            hint="sort the log, and keep one attempt",
        )
    places = [{*_places(values)} for values in logged]
    return {field for field, _ in set().union(*places) - places[-1]} & JUDGED


def _places(values: Values) -> Iterator[Place]:
    """What an entry has a number for, of lists the layers."""
    for (field, layer), value in values.items():
        if isinstance(value, list):
            yield from ((field, at) for at, one in enumerate(value) if one is not None)
        else:
            yield field, layer


def epoch_of(at: int, values: Values, where: str, entries: int) -> TraceEpoch:
    """One epoch.

    (a) is exact from the norms of all layers or a logged growth, else not measured. (b) is exact at
    ‖g_L‖ and a proxy at an earlier layer.

    Args:
        at: its number.
        values: what was logged in it.
        where: file and JSON path or line, for messages.
        entries: of the log; the more, the fewer layers of Γ that are not logged may an epoch have.

    Raises:
        UnreadableInput: a value of the wrong type, or a Γ of too many layers that are not logged.
        InvalidReport: numbers that contradict each other.
    """
    found: Json = {}
    by_layer: defaultdict[str, dict[int, Any]] = defaultdict(dict)
    for (field, layer), value in values.items():
        if layer is None:
            found[field] = value
        else:
            by_layer[field][layer] = value
    layers = {}
    known = max({*chain.from_iterable(by_layer.values())} - {LAST}, default=0)
    for field in NORMS:
        found[field], deepest = _stream(found.get(field), by_layer[field], known)
        if deepest:
            layers[field] = deepest
    found |= {"epoch": at, "step": _at_end(found.get("step")), "layers": layers}
    if layers.get("bp_grad_norms", "L") != "L":
        found["evidence"] = {"b": "proxy"}
    if "residual_norms" in layers and found.get("growth_bound") is None:
        found["unmeasured"] = {"a": _NO_BOUND.format(layers["residual_norms"])}
    gamma = found.get("gamma")
    if given := by_layer.get("gamma"):
        count = max(given) + 1
        if count > len(given) and count > min(TIMES * len(given), _MOST_LAYERS // entries):
            raise UnreadableInput(f"Γ of {count:,} layers, few of them logged", where=where)
        found["gamma"] = list(map(given.get, range(count)))
    elif gamma is not None and not isinstance(gamma, list):
        found["gamma"] = [gamma]
    epoch = convert(found, TraceEpoch, f"{where}: $")
    epoch.report().check(where)
    return epoch


def _stream(listed: object, norms: Mapping[int, object], known: int) -> tuple[object, str]:
    """The norms of layers 0, 1, … and ``""``; else that of the deepest layer, and its name, also
    where it is another one than the last of the list.

    Args:
        listed: what is logged for all layers at once, or None; of any type.
        norms: layer → norm; `LAST` is layer L.
        known: the last layer that any column names by its number.
    """
    same = LAST not in norms or (isinstance(listed, list) and listed[-1:] == [norms[LAST]])
    if not norms or (listed is not None and same):
        if isinstance(listed, list) and 0 < len(listed) <= known:
            return listed[-1:], str(len(listed) - 1)
        return listed or [], ""
    deepest = max(norms)
    numbered = list(map(norms.get, range(len(norms) - (deepest == LAST))))
    if len(numbered) > max(known, 1) and None not in numbered and norms[deepest] in numbered[-1:]:
        return numbered, ""
    return [norms[deepest]], "L" if deepest == LAST else str(deepest)
