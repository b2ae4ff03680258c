"""One epoch of a training log: its numbers by name and by layer, with their evidence."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

from fa_core.decode import Json
from fa_core.errors import InvalidReport
from fa_core.formats.json_document import convert_spelled
from fa_core.formats.log_names import DEEPEST, Columns, given_in, outdone
from fa_core.numbers import is_number
from fa_core.trace import TraceEpoch, growth_bound

Entry: TypeAlias = tuple[str, Mapping[str, object]]
"""Location for messages (file, and line or JSON path), and the logged values."""

OWN = ("growth_bound", "evidence", "unmeasured", "layers")
"""Names of this project's own traces."""

_FIELDS = frozenset(TraceEpoch.__struct_fields__)


def without(entries: Sequence[Entry], names: Container[str]) -> list[Entry]:
    """The entries without the values of some names."""
    return [
        (where, {name: fields[name] for name in fields if name not in names})
        for where, fields in entries
    ]


def epoch_of(fields: Mapping[str, object], where: str) -> TraceEpoch:
    """The measurements of a single entry.

    Raises:
        UnreadableInput: a value of the wrong type.
        InvalidReport: numbers that contradict each other.
    """
    ((_, fields),) = without([(where, fields)], outdone(fields))
    return merged_epoch(0, fields, where, given_in(fields).whole.get("test_acc", ""), set())


def used_in(columns: Columns) -> set[str]:
    """The known names."""
    return {
        *columns.whole.values(),
        *(name for by_layer in columns.layers.values() for name in by_layer.values()),
    }


def merged_epoch(
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
    found |= {name: fields[name] for name in OWN if name in fields}
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


SETTINGS = ("config", "args")
"""Mappings in a log's header or entries that may describe the run."""


def ends_in(header: Mapping[str, object]) -> Json:
    """‖h_0‖ and the number of blocks L in a log's header, which hold for all entries."""
    columns = given_in(header)
    names = (
        columns.layers.get("residual_norms", {}).get("0", ""),
        columns.whole.get("depth", ""),
        *SETTINGS,
    )
    return {name: header[name] for name in names if name in header}


def _ends_of(fields: Mapping[str, object]) -> tuple[float | None, int | None]:
    """‖h_0‖ and L from an entry or the settings inside it."""
    h_0: float | None = None
    depth: int | None = None
    for place in (fields, *(fields.get(name) for name in SETTINGS)):
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
