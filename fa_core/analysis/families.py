"""Which runs differ along one axis and in nothing else, so that a line between them compares like with like."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fa_core.analysis.groups import collections
from fa_core.analysis.result import Result
from fa_core.table import AuditTable

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

    Runs belong together if they agree on collection, method, every other axis, and, where the report knows
    them, the recipe without this axis; for an axis of the recipe (the penalty λ) also on network and data.
    A network axis (width, say) changes what the recorded arguments are, so there the named axes decide.

    Args:
        table: n runs.
        axis: along which runs may differ.
    """
    found: dict[str, list[int]] = {}
    for i, home in enumerate(collections(table)):
        others = _without(table.axes[i], axis)
        key = repr((home, str(table.method[i]), others, _setup(table.report(i).provenance, axis)))
        found.setdefault(key, []).append(i)
    made = (
        Family(
            method=str(table.method[rows[0]]),
            axes=_without(table.axes[rows[0]], axis),
            rows=tuple(rows),
            points=len({repr(table.axes[i].get(axis)) for i in rows}),
        )
        for rows in found.values()
    )
    return tuple(family for family in made if family.points > 1)


def _setup(provenance: Mapping[str, Any], axis: str) -> list[Any]:
    recipe = provenance.get("recipe")
    if not isinstance(recipe, Mapping):
        return []
    fixed = [provenance.get(name) for name in SETUP] if axis in recipe else []
    return [_without(recipe, axis), *(_without(one, axis) if isinstance(one, Mapping) else one for one in fixed)]


def _without(values: Mapping[str, Any], axis: str) -> dict[str, Any]:
    return {name: values[name] for name in sorted(values) if name != axis}
