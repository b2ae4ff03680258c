"""Groups of runs: healthy and degenerate methods; families that differ in the penalty λ alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from fa_core.errors import UsageError
from fa_core.files.decode import Json
from fa_core.formats.table import AuditTable, Mask
from fa_core.option_values import nearest
from fa_core.report.controls import CONTROLS
from fa_core.report.names import canonical_method, differing_axes, homes

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
"""Provenance of the network and the data."""


class Family(NamedTuple):
    """Runs of one method that agree on everything but the penalty λ and the seed.

    Attributes:
        method: canonical name.
        axes: their other axes.
        rows: their indices in the table.
    """

    method: str
    axes: Json
    rows: tuple[int, ...]


def families(table: AuditTable) -> list[Family]:
    """The families with two values of λ or more, in order of first appearance; none is a value.

    Runs of a family share collection, method, every other axis and, if recorded, the recipe but λ,
    the network and the data.
    """
    members: dict[str, list[int]] = defaultdict(list)
    for i, home in enumerate(homes(table.source.tolist())):
        parts = [home, str(table.method[i]), _without_penalty(table.axes[i])]
        provenance = table.report(i).provenance
        if isinstance(provenance.get("recipe"), Mapping):
            parts += [_without_penalty(provenance.get(name)) for name in ("recipe", *SETUP)]
        members[repr(parts)].append(i)
    found = []
    for rows in members.values():
        first = rows[0]
        if len({repr(table.axes[i].get("lam")) for i in rows}) > 1:
            axes = {name: value for name, value in table.axes[first].items() if name != "lam"}
            found.append(Family(str(table.method[first]), axes, tuple(rows)))
    return found


def _without_penalty(value: object) -> object:
    """A mapping's entries but λ, in order; another value as it is."""
    if isinstance(value, Mapping):
        return sorted((name, each) for name, each in value.items() if name != "lam")
    return value
