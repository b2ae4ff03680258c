"""Groups of runs: healthy and degenerate methods; families that differ along one axis only."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from fa_core.analysis import Result
from fa_core.decode import Json
from fa_core.errors import UsageError
from fa_core.facts.controls import CONTROLS
from fa_core.facts.names import canonical_method, differing_axes, homes
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
    """Method → its published group, for methods with only published runs in the table.

    A run is recognised by its method and its exact ‖h_L‖. The method's runs of another network or
    training have no published group.
    """
    every_norm = [norms for _, norms in PUBLISHED.values()]
    # usually no run is published: one pass shows it
    if not np.isin(table.h_L, every_norm).any():
        return {}
    found = {}
    for method, (group, norms) in PUBLISHED.items():
        own = table.h_L[table.method == method]
        if len(own) and np.isin(own, norms).all():
            found[method] = group
    return found


def split_groups(
    table: AuditTable,
    healthy: Sequence[str] | None = None,
    degenerate: Sequence[str] | None = None,
) -> tuple[Mask, Mask]:
    """Masks of the healthy and of the degenerate runs.

    Args:
        table: n runs.
        healthy: method names; default: the published group (`published_groups`).
        degenerate: the same for the other group.

    Raises:
        UsageError: a control, a method that is not in the table, or one in both groups.
    """
    good = _known(table, healthy)
    bad = _known(table, degenerate)
    both = set(good or ()).intersection(bad or ())
    if both:
        raise UsageError(f"{', '.join(sorted(both))} in both groups", hint="name a method once")
    published = published_groups(table)
    return (
        _group_mask(table, HEALTHY, good, bad, published),
        _group_mask(table, DEGENERATE, bad, good, published),
    )


def _group_mask(
    table: AuditTable,
    group: str,
    chosen: Sequence[str] | None,
    others: Sequence[str] | None,
    published: Mapping[str, str],
) -> Mask:
    """Mask of a group's runs: the chosen methods, or the published ones outside the other group."""
    if chosen is None:
        members = [name for name in published if published[name] == group]
        chosen = [name for name in members if name not in (others or ())]
    if not chosen:
        # np.isin has no type to compare with
        return np.zeros(len(table), dtype=np.bool_)
    return np.isin(table.method, chosen)


def controls_note(methods: Iterable[str]) -> tuple[str, ...]:
    """The note that controls are in no group, if there are any.

    >>> controls_note(["bp", "frozen", "random_init", "frozen"]), controls_note(["bp"])
    (('controls are in no group: frozen, random_init',), ())
    """
    found = [name for name in dict.fromkeys(methods) if name in CONTROLS]
    if found:
        return (f"controls are in no group: {', '.join(found)}",)
    return ()


def baseline_hint(table: AuditTable) -> str:
    """The advice to give a baseline for (d); ``""`` without any accuracy."""
    if np.isfinite(table.acc).any():
        return " (give a baseline with --frozen-baseline)"
    return ""


def _known(table: AuditTable, names: Sequence[str] | None) -> list[str] | None:
    """Canonical names of the table's methods.

    Raises:
        UsageError: a control, or a method that is not in the table.
    """
    if names is None:
        return None
    present = set(table.method.tolist())
    chosen = [canonical_method(name) for name in names]
    for name in chosen:
        if name in CONTROLS:
            raise UsageError(f"{name!r} is a control, which is in no group", hint="name a method")
        if name not in present:
            hint = "there is no run at all"
            if present:
                hint = nearest(name, sorted(present))
            raise UsageError(f"no run of method {name!r} here", hint=hint)
    return chosen


def varying_axes(table: AuditTable) -> tuple[str, ...]:
    """Names of the axes (λ, d, L, arch, …) with more than one value; a missing value counts."""
    return tuple(sorted(differing_axes(("", axes) for axes in table.axes).get("", ())))


SETUP = ("arch", "arch_args", "data", "data_hash")
"""Provenance that must also agree if the axis belongs to the training recipe."""


class Family(Result, frozen=True, kw_only=True):
    """Runs of one method that agree on everything but one axis and the seed.

    Attributes:
        method: canonical name.
        axes: their other axes.
        rows: their indices in the table.
        points: number of their values on the axis; a missing one counts.
    """

    method: str
    axes: Json
    rows: tuple[int, ...]
    points: int


def families(table: AuditTable, axis: str) -> tuple[Family, ...]:
    """The families along an axis with two points or more, in order of first appearance.

    Runs of a family share collection, method, every other axis and, if recorded, the recipe without
    this axis; for an axis of the recipe (the penalty λ) also network and data. A network axis
    (width) changes the recorded arguments, so there the named axes decide.

    Args:
        table: n runs.
        axis: along which runs may differ.
    """
    members: dict[str, list[int]] = defaultdict(list)
    for i, home in enumerate(homes(table.source.tolist())):
        others = _without(table.axes[i], axis)
        setup = _setup(table.report(i).provenance, axis)
        members[repr((home, str(table.method[i]), others, setup))].append(i)
    found = []
    for rows in members.values():
        first = rows[0]
        points = {repr(table.axes[i].get(axis)) for i in rows}
        if len(points) > 1:
            family = Family(
                method=str(table.method[first]),
                axes=_without(table.axes[first], axis),
                rows=tuple(rows),
                points=len(points),
            )
            found.append(family)
    return tuple(found)


def _setup(provenance: Json, axis: str) -> list[object]:
    """The recorded recipe without the axis; if the axis is part of it, also network and data."""
    recipe = provenance.get("recipe")
    if not isinstance(recipe, Mapping):
        return []
    setup: list[object] = [_without(recipe, axis)]
    if axis in recipe:
        for name in SETUP:
            value = provenance.get(name)
            if isinstance(value, Mapping):
                value = _without(value, axis)
            setup.append(value)
    return setup


def _without(values: Mapping[str, object], axis: str) -> Json:
    return {name: values[name] for name in sorted(values) if name != axis}
