"""Groups of runs: healthy and degenerate methods; families that differ in the penalty λ alone."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from fa_core.errors import UsageError
from fa_core.files.decode import Json, table_beside, without
from fa_core.formats.rows import AuditRow, recipe_of
from fa_core.formats.table import AuditTable, Mask, objects
from fa_core.option_values import nearest
from fa_core.report.baseline import rule_of
from fa_core.report.diagnostics import ASSUMED
from fa_core.report.method_style import CONTROLS
from fa_core.report.names import canonical_method, differing_axes, homes, short_paths
from fa_core.report.numbers import is_number
from fa_core.report.provenance import TRAINED_ON

Members: TypeAlias = Sequence[str] | None
"""Methods of a group; None = the published ones."""

HEALTHY, DEGENERATE = "healthy", "degenerate"
"""The group that should pass and the group that should fire."""

PUBLISHED = table_beside(__file__, dict[str, tuple[str, tuple[float, ...]]])
"""Method → its group in the published 5 × 3 audit, and ‖h_L‖ of its three runs there."""


def published_groups(table: AuditTable) -> dict[str, str]:
    """Method → its published group, for methods with only published runs in the table.

    A run is recognised by its method and its exact ‖h_L‖. The method's runs of another network or
    training have no published group.
    """
    found = {}
    for method, (group, norms) in PUBLISHED.items():
        own = table.h_L[table.method == method]
        if len(own) and np.isin(own, norms).all():
            found[method] = group
    return found


def split_groups(
    table: AuditTable,
    healthy: Members,
    degenerate: Members,
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
    groups = published_groups(table)
    for group, chosen in ((HEALTHY, good), (DEGENERATE, bad)):
        if chosen is not None:
            others = {name: own for name, own in groups.items() if own != group}
            groups = others | dict.fromkeys(chosen, group)
    of_run = objects(list(map(groups.get, table.method)))
    return of_run == HEALTHY, of_run == DEGENERATE


def _known(table: AuditTable, names: Members) -> list[str] | None:
    """Canonical names of the table's methods.

    Raises:
        UsageError: a control, or a method that is not in the table.
    """
    if names is None:
        return None
    present = set(table.methods)
    chosen = list(map(canonical_method, names))
    for name in chosen:
        if name in CONTROLS:
            raise UsageError(f"{name!r} is a control, which is in no group", hint="name a method")
        if name not in present:
            hint = nearest(name, sorted(present))
            raise UsageError(f"no run of method {name!r} here", hint=hint)
    return chosen


class Condition(NamedTuple):
    """What runs that are seeds of one method share (`conditions`).

    Attributes:
        method: canonical name.
        axes: their second axes, and what else tells them from the method's other runs: a part of
            the network, the data or the recipe, ``layers``, ``source`` (``audit``, ``record``,
            ``log``).
        collection: their file or folder, if several hold the same runs, as short as tells them
            apart; else ``""``.
    """

    method: str
    axes: Json
    collection: str

    @property
    def all_axes(self) -> Json:
        """The axes, with the file or folder as one of them."""
        return {**self.axes, "from": self.collection or None}


def conditions(table: AuditTable, but: str = "") -> list[tuple[Condition, list[int]]]:
    """Conditions with the rows of their seeds, in order of first appearance.

    Runs are seeds of one method if source kind, network, taps, data, training and axes agree. A
    fact that a run does not record is that of the runs that agree with it in everything before, if
    they have one.

    Args:
        table: n runs.
        but: an axis that does not part runs.

    Source: docs/protocol.md §9, seeds.
    """
    methods = table.method.tolist()
    columns = {}
    for axis in differing_axes(("", axes) for axes in table.axes).get("", []):
        columns[axis] = [_text(own.get(axis)) for own in table.axes]
    names = list(zip(methods, *columns.values(), strict=True))
    places = collections(names, table.seed.tolist(), table.source.tolist())
    columns.pop(but, None)
    facts = [without(_setup(row), but) for row in table.rows()]
    keys = list(zip(methods, places, *columns.values(), strict=True))
    groups, parting = _grouped(keys, facts)
    found = []
    for rows in groups:
        # facts that only some runs record are those of all
        known: Json = {}
        for row in reversed(rows):
            known |= facts[row]
        first = rows[0]
        values = {x: known.get(x) for x in (*columns, *parting[keys[first]])}
        found.append((Condition(methods[first], values, places[first]), rows))
    return found


def collections(
    names: Sequence[Hashable], seeds: Sequence[object], sources: Sequence[str]
) -> list[str]:
    """The file or folder of every run (`homes`), as short as tells them apart, if the same run is
    in two of them; else ``""``.

    >>> collections(["dfa", "dfa"], [1, 1], ["old/dfa_s1", "new/dfa_s1"])
    ['old', 'new']
    >>> collections(["dfa", "dfa"], [1, 1], ["old/runs/dfa_s1", "new/runs/dfa_s1"])
    ['old/runs', 'new/runs']
    >>> collections(["dfa", "dfa"], [1, 2], ["old/dfa_s1", "new/dfa_s2"])
    ['', '']
    """
    places = homes(sources)
    runs = list(zip(names, seeds, strict=True))
    if len(set(zip(runs, places, strict=True))) == len(set(runs)):
        return [""] * len(runs)
    short = short_paths(places)
    return [short[place] for place in places]


def _text(value: object) -> str:
    """A value as text; 1 is 1.0."""
    return repr(float(value) if is_number(value) else value)


def _grouped(
    keys: Sequence[Hashable], facts: Sequence[Json]
) -> tuple[list[list[int]], defaultdict[Hashable, dict[str, None]]]:
    """Places that agree in their keys and in every fact; and key → the facts that part its places.

    A place without a fact stays with the only ones of its group that have it, if they agree.
    """
    numbers: dict[Hashable, int] = {}
    group = [numbers.setdefault(key, len(numbers)) for key in keys]
    texts: defaultdict[str, dict[int, str]] = defaultdict(dict)
    for place, known in enumerate(facts):
        for fact, value in known.items():
            texts[fact][place] = _text(value)
    parting: defaultdict[Hashable, dict[str, None]] = defaultdict(dict)
    for turn, (fact, known_texts) in enumerate(texts.items(), 1):
        parts: defaultdict[int, dict[str, int]] = defaultdict(dict)
        for place, text in known_texts.items():
            parts[group[place]].setdefault(text, turn * len(keys) + place)
        for place, text in known_texts.items():
            own = parts[group[place]]
            if len(own) > 1:
                group[place] = own[text]
                parting[keys[place]][fact] = None
    members: dict[int, list[int]] = defaultdict(list)
    for place, number in enumerate(group):
        members[number].append(place)
    return list(members.values()), parting


_SHARED = ("arch", "network", "fan_in", "data", "data_hash", TRAINED_ON, "epochs_done")
"""Facts of a report's provenance that seeds of one method share, beside those with parts."""


def _setup(row: AuditRow) -> Json:
    """A run's axes, and what its report tells of its network and its states, its data, its training
    and its own kind."""
    report = row.report
    facts = report.provenance
    inexact = set(report.kinds.values()) - {ASSUMED}
    found = facts.get("arch_args", {}) | recipe_of(row)
    found |= {name: facts.get(name) for name in _SHARED}
    settings = facts.get("settings", {})
    found["model"] = settings.get("model")
    found["taps"] = settings.get("taps") or report.tap_names or None
    if "method_args" in facts:
        found["rule"] = rule_of(row.method, without(facts["method_args"], "lam"))
    if report.coverage:
        found["source"] = "log" if inexact else "audit" if facts else "record"
    if report.residual_norms and not inexact:
        found["layers"] = len(report.residual_norms) - 1
    found |= row.axes
    return {name: value for name, value in found.items() if value is not None}


def families(table: AuditTable) -> list[tuple[Condition, list[int]]]:
    """Runs of one method that share everything but seed and λ, of which they have two values or
    more (none is a value), with their rows, in order of first appearance.
    """
    found = []
    for one, rows in conditions(table, but="lam"):
        if len({repr(table.axes[row].get("lam")) for row in rows}) > 1:
            found.append((one, rows))
    return found
