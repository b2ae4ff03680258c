"""Which runs count as healthy and which as degenerate; which belong together.

Which runs differ along one axis and in nothing else, so that a line between them compares like with like.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from fa_core.analysis import Result
from fa_core.baseline import CONTROLS
from fa_core.errors import UsageError
from fa_core.option_values import nearest
from fa_core.runs import canonical_method, home_of
from fa_core.runs import run_names as names_of
from fa_core.table import AuditTable, Mask

DEFAULT_HEALTHY = ("bp", "fa", "ep")
"""Methods that the protocol expects to be healthy."""


def split_groups(
    table: AuditTable, healthy: Sequence[str] | None = None, neither: Sequence[str] | None = None
) -> tuple[Mask, Mask]:
    """Masks of the healthy and the degenerate runs; controls are in neither, unless they are named.

    Args:
        table: n runs.
        healthy: method names; None takes those of bp, fa and ep that are present.
        neither: names of methods in neither group; None takes the controls.

    Raises:
        UsageError: a method that is not in the table.
    """
    methods = table.method
    if healthy is None:
        chosen = [name for name in DEFAULT_HEALTHY if name in set(methods.tolist())]
    else:
        chosen = [_known(canonical_method(name), set(methods.tolist())) for name in healthy]
    mask = np.isin(methods, chosen) if chosen else np.zeros(len(methods), dtype=np.bool_)
    left_out = CONTROLS if neither is None else [canonical_method(name) for name in neither]
    return mask, ~mask & ~np.isin(methods, left_out)


def controls_note(methods: Iterable[str]) -> tuple[str, ...]:
    """That the controls among some methods are in no group, and no claim that a rule could withdraw.

    >>> controls_note(["bp", "frozen", "random_init", "frozen"]), controls_note(["bp"])
    (('controls are in no group: frozen, random_init',), ())
    """
    found = [name for name in dict.fromkeys(methods) if name in CONTROLS]
    return (f"controls are in no group: {', '.join(found)}",) if found else ()


def baseline_hint(table: AuditTable) -> str:
    """What to do where (d) was not measured; nothing without an accuracy, of which a baseline says nothing."""
    return " (give a baseline with --frozen-baseline)" if np.isfinite(table.acc).any() else ""


def _known(name: str, present: set[str]) -> str:
    if name in present:
        return name
    hint = nearest(name, sorted(present)) if present else "there is no run at all"
    raise UsageError(f"no run of method {name!r} here", hint=hint)


def varying_axes(table: AuditTable) -> tuple[str, ...]:
    """Names of the axes (λ, d, L, arch, …) that take more than one value, or are set on some runs only.

    A value that is missing counts as one of its own.
    """
    axes: list[dict[str, Any]] = table.axes.tolist()
    names = {name for row in axes for name in row}
    return tuple(sorted(name for name in names if len({repr(row.get(name)) for row in axes}) > 1))


def collections(table: AuditTable) -> tuple[str, ...]:
    """For each run, the file or folder whose runs are comparable with it (`home_of`)."""
    runs_in = Counter(table.source.tolist())
    return tuple(home_of(source, runs_in[source]) for source in table.source)


def run_names(table: AuditTable) -> tuple[str, ...]:
    """A short name per run, each different (see `fa_core.runs.run_names`)."""
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
