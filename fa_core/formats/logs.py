"""The entries of a training log as the epochs of its runs, each number with its evidence.

Readers of files supply entries; `fa_core.formats.log_columns` says which column is which number.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from itertools import chain
from typing import Any, TypeAlias, TypeVar

import msgspec

from fa_core.errors import UnreadableInput
from fa_core.files.decode import Json, integer
from fa_core.formats.json_document import MOST_PROBLEMS, Attempts, convert_spelled
from fa_core.formats.log_columns import (
    JUDGED,
    OWN_STEP,
    POSITIONS,
    Given,
    Place,
    columns_of,
)
from fa_core.formats.rows import AuditRow, Problem, row_named
from fa_core.formats.trace import EPOCH, STEP, Trace, TraceEpoch, with_growth_bound
from fa_core.option_values import listed
from fa_core.report.names import canonical_method, key_of
from fa_core.report.numbers import is_number
from fa_core.sanitize import WHITE_SPACE, sanitize

Entry: TypeAlias = tuple[str, Mapping[str, object]]
"""Location for messages (file, and line or JSON path), and the logged values."""

Values: TypeAlias = "dict[Place, Any]"
"""What is read of an entry."""

Column = TypeVar("Column", bound=Hashable)

_COUNTED = JUDGED | {"loss"}

_EMPTY = frozenset({"", "-", "na", "n/a", "<na>", "none", "null"})
_NEAR = 0.05
_LONGEST = 40
_PLAIN = "write 0.53: no percent sign, no decimal comma, no thousands separator"


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
    for key, of_run in runs.items():
        run = name
        if key:
            run = row_named(key, name.source)
        trace, problems = trace_of(run, of_run, given)
        yield from problems
        if trace.epochs:
            yield msgspec.structs.replace(trace, unfinished=unfinished)


def _run_of(fields: Mapping[str, object], name: AuditRow) -> str:
    """The run that an entry names, as run folders are named; empty if it names none."""
    run, method, seed = (fields.get(part) for part in ("run", "method", "seed"))
    if run is None and method is None and seed is None:
        return ""
    if run is None:
        method = canonical_method(str(method or name.method))
        run = key_of(method, {}, name.seed if seed is None else seed)
    return str(run).replace("/", "_")


def trace_of(run: AuditRow, entries: Iterable[Entry], given: Given) -> tuple[Trace, list[Problem]]:
    """A run's trace, and problems for invalid epochs.

    Entries without a number that is read are left out. Those of an epoch are merged: the last value
    counts, but a NaN replaces no number.

    Args:
        run: its row.
        entries: in the order in which they were logged.
        given: columns that the user named.
    """
    logged = [(where, _held(fields)) for where, fields in entries]
    names = dict.fromkeys(chain.from_iterable(fields for _, fields in logged))
    columns = columns_of(names, given)
    attempt = Attempts(run.source)
    read = [
        (where, attempt(partial(_placed, fields, columns, where), "entry"))
        for where, fields in logged
    ]
    problems = [values for _, values in read if isinstance(values, Problem)]
    counted = [(where, values) for where, values in read if isinstance(values, dict) and values]
    unit = _unit(columns, [values for _, values in counted if _is_measured(values)])
    places: dict[int, str] = {}
    numbered: list[tuple[int, Values]] = []
    for where, values in counted:
        at = _at_end(values.get((unit, None)))
        if at is not None:
            places[at] = where
            numbered.append((at, values))
        elif _is_measured(values) and len(problems) < MOST_PROBLEMS:
            problems.append(Problem(run.source, f"{where}: no {unit}; the entry is skipped"))
    merged, replaced = merge(numbered)
    spelled = {field: name for name, (field, layer) in columns.items() if layer is None}
    epochs: list[TraceEpoch] = []
    for at in sorted(at for at, values in merged.items() if values):
        epoch = attempt(partial(epoch_of, at, merged[at], places[at], spelled), "epoch")
        if isinstance(epoch, Problem):
            problems.append(epoch)
        else:
            epochs.append(epoch)
    notes = {
        "logged more than once, the last counts: epoch": sorted(
            {at for at, (field, _) in replaced if field in JUDGED}
        ),
        "logged before the log went back, left out: epoch": sorted(
            at for at, values in merged.items() if not values
        ),
        "logged, not used:": [
            sanitize(name) for name in names if name not in {*columns, "run", "method", "seed"}
        ],
    }
    trace = Trace(
        source=run.source,
        key=run.key,
        method=run.method,
        seed=run.seed,
        axes=run.axes,
        epochs=epochs,
        notes=tuple(f"{note} {listed(found, 6)}" for note, found in notes.items() if found),
        unit=unit,
    )
    return trace, problems


def merge(
    entries: Iterable[tuple[int, Mapping[Column, Any] | None]],
) -> tuple[dict[int, dict[Column, Any]], set[tuple[int, Column]]]:
    """The values of each epoch or step, and those that were replaced by another number.

    The last value counts, but NaN replaces no number. A column that is logged again at an earlier
    place goes on from there: what it held later is dropped.

    Args:
        entries: in the order in which they were logged: place, and value of each column; None where
            all columns begin again.
    """
    found: dict[int, dict[Column, Any]] = {}
    later: defaultdict[Column, list[int]] = defaultdict(list)
    replaced = set()
    for at, values in entries:
        known = found.setdefault(at, {})
        for column in list(later) if values is None else []:
            _drop(found, column, later[column], bisect_left(later[column], at))
        for column, value in (values or {}).items():
            if column not in known:
                insort(later[column], at)
            elif value != value:
                continue
            else:
                if known[column] == known[column] != value:
                    replaced.add((at, column))
                _drop(found, column, later[column], bisect_right(later[column], at))
            known[column] = value
    return found, replaced


def _drop(
    found: dict[int, dict[Column, Any]], column: Column, places: list[int], start: int
) -> None:
    """Drop a column's values from one of its places on."""
    for place in places[start:]:
        del found[place][column]
    del places[start:]


def _held(fields: Mapping[str, object]) -> Json:
    """The values of an entry that have a name."""
    values = {name: value_of(value) for name, value in fields.items() if name}
    return {name: value for name, value in values.items() if value is not None}


def _placed(fields: Json, columns: Mapping[str, Place], where: str) -> Values:
    """What is read of an entry; empty if it has no number.

    Raises:
        UnreadableInput: a text in the place of a number.
    """
    values = {}
    for name, value in fields.items():
        if name not in columns:
            continue
        field, _ = columns[name]
        if isinstance(value, str) or (field in POSITIONS and not is_number(value)):
            what = f"{sanitize(name)} is {str(value)[:_LONGEST]!r}, not a number"
            raise UnreadableInput(what, where=where, hint=_PLAIN)
        values[columns[name]] = value
    return values if any(field in _COUNTED for field, _ in values) else {}


def _is_measured(values: Values) -> bool:
    """Whether an entry has a number to judge."""
    return any(field in JUDGED and value == value for (field, _), value in values.items())


def _unit(columns: Mapping[str, Place], measured: Iterable[Values]) -> str:
    """What numbers the entries: steps where epochs do not number the measurements."""
    fields = {field for field, _ in columns.values()}
    if "step" not in fields:
        return EPOCH
    if (
        "epoch" not in fields
        or OWN_STEP in columns
        or not all(_is_whole(values.get((EPOCH, None))) for values in measured)
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


_NO_BOUND = "‖h_{}‖ alone is logged: a bound on growth needs ‖h_0‖ and the number of blocks L too"


def epoch_of(at: int, values: Values, where: str, spelled: Mapping[str, str]) -> TraceEpoch:
    """One epoch.

    (a) is exact from the norms of all layers or a logged growth; from ‖h_0‖ and a deeper layer a
    lower bound; else not measured. (b) is exact at ‖g_L‖ and a proxy at an earlier layer.

    Args:
        at: its number.
        values: what was logged in it.
        where: file and JSON path or line, for messages.
        spelled: field → its column, for messages.

    Raises:
        UnreadableInput: a value of the wrong type.
        InvalidReport: numbers that contradict each other.
    """
    found: Json = {}
    by_layer: dict[str, dict[int, Any]] = {}
    for (field, layer), value in values.items():
        if layer is None:
            found[field] = value
        else:
            by_layer.setdefault(field, {})[layer] = value
    depth, h_L, g_L = (found.pop(name, None) for name in ("L", "h_L", "g_L"))
    if not isinstance(depth, int) or depth < 1:
        depth = None
    h = by_layer.get("residual_norms", {})
    norms, top = _stream(found.get("residual_norms"), h, h_L, depth)
    blocks = len(norms) - 1 if isinstance(norms, list) and not top else depth
    g = by_layer.get("bp_grad_norms", {})
    gradients, deepest = _stream(found.get("bp_grad_norms"), g, g_L, blocks)
    layers = {"residual_norms": top, "bp_grad_norms": deepest}
    found["step"] = _at_end(found.get("step"))
    found |= {"epoch": at, "residual_norms": norms, "bp_grad_norms": gradients}
    found |= {"layers": {field: layer for field, layer in layers.items() if layer}}
    if deepest not in ("", "L"):
        found["evidence"] = {"b": "proxy"}
    if top and found.get("growth_bound") is None:
        found["unmeasured"] = {"a": _NO_BOUND.format(top)}
    gamma = found.pop("gamma", None)
    if gamma is not None:
        found["gamma"] = gamma if isinstance(gamma, list) else [gamma]
    elif given := by_layer.get("gamma"):
        found["gamma"] = [given.get(layer) for layer in range(max(given) + 1)]
    epoch = convert_spelled(found, TraceEpoch, where, spelled)
    h_0 = h.get(0) if top != "0" else None
    if is_number(h_0) and h_0 > 0 and (depth or top != "L"):
        epoch = with_growth_bound(epoch, h_0, depth or 1)
    epoch.report().check(where)
    return epoch


def _stream(listed: Any, norms: Mapping[int, Any], last: object, depth: object) -> tuple[Any, str]:
    """The norms of layers 0, 1, … and ``""``; else that of the deepest layer, and its name.

    Args:
        listed: what is logged for all layers at once, or None; of any type.
        norms: layer → norm.
        last: norm of layer L, or None.
        depth: L, or None.
    """
    if listed is not None:
        return listed, ""
    if norms:
        deepest = max(norms)
        is_whole = depth == deepest or last == norms[deepest] or depth is last is None
        if is_whole and 0 < deepest == len(norms) - 1:
            return [norms[layer] for layer in range(len(norms))], ""
        if last is None:
            return [norms[deepest]], "L" if deepest == depth else str(deepest)
    if last is None:
        return [], ""
    return [last], "L"
