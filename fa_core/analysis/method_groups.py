"""Which runs count as healthy and which as degenerate, and on what ground; which belong together.

Which runs differ along one axis and in nothing else, so that a line between them compares like with
like.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fa_core.analysis import Result
from fa_core.errors import UsageError
from fa_core.facts.controls import CONTROLS
from fa_core.facts.run_names import canonical_method, home_of
from fa_core.facts.run_names import run_names as names_of
from fa_core.option_values import nearest
from fa_core.table import AuditTable, Mask

GROUPS = HEALTHY, DEGENERATE = "healthy", "degenerate"
"""The group that should pass and the group that should fire."""

PUBLISHED = {
    "bp": (HEALTHY, (205.75946044921875, 198.23153686523438, 196.94155883789062)),
    "ep": (HEALTHY, (3286.841064453125, 8047.3076171875, 3978.53466796875)),
    "dfa": (DEGENERATE, (435299520.0, 391999424.0, 727085888.0)),
    "state_bridge": (DEGENERATE, (228665568.0, 71032832.0, 161221984.0)),
    "credit_bridge": (DEGENERATE, (606231552.0, 103484824.0, 255497520.0)),
}
"""Method → its group in the published 5 × 3 audit, and ‖h_L‖ of its three runs there."""


def published_groups(table: AuditTable) -> dict[str, str]:
    """Method → its published group, for methods whose runs here are all runs of the published
    audit.

    A run is recognised by its method and its exact ‖h_L‖: the same method elsewhere (another
    network, another training) has no published group.
    """
    norms_of = {method: norms for method, (_, norms) in PUBLISHED.items()}
    known = np.isin(table.h_L, list(norms_of.values()))
    # one row tells whether to look further: a large table has none
    if not known.any():
        return {}
    found = {}
    for method, norms in norms_of.items():
        own = table.h_L[table.method == method]
        if len(own) and np.isin(own, norms).all():
            found[method] = PUBLISHED[method][0]
    return found


def split_groups(
    table: AuditTable,
    healthy: Sequence[str] | None = None,
    degenerate: Sequence[str] | None = None,
) -> tuple[Mask, Mask]:
    """Masks of the healthy and the degenerate runs; all others are in neither group.

    Args:
        table: n runs.
        healthy: method names; None takes the published group (`published_groups`).
        degenerate: the same for the other group.

    Raises:
        UsageError: a control, a method that is not in the table, or one in both groups.
    """
    named = [_known(table, names) for names in (healthy, degenerate)]
    taken = [set(names or ()) for names in named]
    if both := taken[0] & taken[1]:
        raise UsageError(f"{', '.join(sorted(both))} in both groups", hint="name a method once")
    published = published_groups(table)
    masks: list[Mask] = []
    for own, others, group in zip(named, reversed(taken), GROUPS, strict=True):
        chosen = own
        if chosen is None:
            members = [name for name, its_group in published.items() if its_group == group]
            chosen = [name for name in members if name not in others]
        masks.append(_is_one_of(table, chosen))
    return masks[0], masks[1]


def _is_one_of(table: AuditTable, methods: Sequence[str]) -> Mask:
    """Which runs are of some methods."""
    if not methods:
        # np.isin has no type to compare with
        return np.zeros(len(table), dtype=np.bool_)
    return np.isin(table.method, methods)


def controls_note(methods: Iterable[str]) -> tuple[str, ...]:
    """That the controls among some methods are in no group, and no claim that a rule could
    withdraw.

    >>> controls_note(["bp", "frozen", "random_init", "frozen"]), controls_note(["bp"])
    (('controls are in no group: frozen, random_init',), ())
    """
    found = [name for name in dict.fromkeys(methods) if name in CONTROLS]
    if found:
        return (f"controls are in no group: {', '.join(found)}",)
    return ()


def baseline_hint(table: AuditTable) -> str:
    """What to do where (d) was not measured; nothing without an accuracy, of which a baseline says
    nothing."""
    if np.isfinite(table.acc).any():
        return " (give a baseline with --frozen-baseline)"
    return ""


def _known(table: AuditTable, names: Sequence[str] | None) -> list[str] | None:
    """Canonical names of methods that the table holds."""
    if names is None:
        return None
    present = set(table.method.tolist())
    chosen = [canonical_method(name) for name in names]
    for name in chosen:
        if name in CONTROLS:
            raise UsageError(f"{name!r} is a control, which is in no group", hint="name a method")
        if name not in present:
            if present:
                hint = nearest(name, sorted(present))
            else:
                hint = "there is no run at all"
            raise UsageError(f"no run of method {name!r} here", hint=hint)
    return chosen


def varying_axes(table: AuditTable) -> tuple[str, ...]:
    """Names of the axes (λ, d, L, arch, …) that take more than one value, or are set on some runs
    only.

    A value that is missing counts as one of its own.
    """
    axes: list[dict[str, Any]] = table.axes.tolist()
    names = {name for row in axes for name in row}
    varying = []
    for name in sorted(names):
        values = {repr(row.get(name)) for row in axes}
        if len(values) > 1:
            varying.append(name)
    return tuple(varying)


def collections(table: AuditTable) -> tuple[str, ...]:
    """For each run, the file or folder whose runs are comparable with it (`home_of`)."""
    runs_in = Counter(table.source.tolist())
    return tuple(home_of(source, runs_in[source]) for source in table.source)


def run_names(table: AuditTable) -> tuple[str, ...]:
    """A short name per run, each different (see `fa_core.facts.run_names.run_names`)."""
    return names_of(table.key.tolist(), table.source.tolist())


SETUP = ("arch", "arch_args", "data", "data_hash")
"""Of a report's provenance: what else must agree when the axis belongs to the training recipe."""


class Family(Result, frozen=True, kw_only=True):
    """Runs of one method that agree on everything but one axis and the seed.

    Attributes:
        method: canonical name.
        axes: their other axes.
        rows: their places in the table.
        points: how many values of the axis they take; a missing one counts.
    """

    method: str
    axes: dict[str, Any]
    rows: tuple[int, ...]
    points: int


def families(table: AuditTable, axis: str) -> tuple[Family, ...]:
    """The families along an axis with two points or more, in order of first appearance.

    Runs belong together if they agree on collection, method, every other axis, and, where the
    report knows them, the recipe without this axis; for an axis of the recipe (the penalty λ) also
    on network and data. A network axis (width, say) changes what the recorded arguments are, so
    there the named axes decide.

    Args:
        table: n runs.
        axis: along which runs may differ.
    """
    found: dict[str, list[int]] = {}
    for i, home in enumerate(collections(table)):
        others = _without(table.axes[i], axis)
        key = repr((home, str(table.method[i]), others, _setup(table.report(i).provenance, axis)))
        found.setdefault(key, []).append(i)
    made = []
    for rows in found.values():
        first, points = rows[0], {repr(table.axes[i].get(axis)) for i in rows}
        if len(points) > 1:
            family = Family(
                method=str(table.method[first]),
                axes=_without(table.axes[first], axis),
                rows=tuple(rows),
                points=len(points),
            )
            made.append(family)
    return tuple(made)


def _setup(provenance: Mapping[str, Any], axis: str) -> list[Any]:
    recipe = provenance.get("recipe")
    if not isinstance(recipe, Mapping):
        return []
    setup: list[Any] = [_without(recipe, axis)]
    if axis in recipe:
        for name in SETUP:
            value = provenance.get(name)
            if isinstance(value, Mapping):
                value = _without(value, axis)
            setup.append(value)
    return setup


def _without(values: Mapping[str, Any], axis: str) -> dict[str, Any]:
    return {name: values[name] for name in sorted(values) if name != axis}
