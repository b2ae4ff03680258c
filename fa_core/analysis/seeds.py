"""Statistics over seeds: mean, spread, verdict counts, and differences between conditions."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from itertools import combinations, islice, product
from operator import attrgetter
from typing import NamedTuple, TypeAlias

import numpy as np
from msgspec import structs

from fa_core.analysis import Result
from fa_core.analysis.method_groups import baseline_hint, collections, varying_axes
from fa_core.decode import Json
from fa_core.errors import UsageError
from fa_core.facts.controls import CONTROLS
from fa_core.facts.measurements import Interval
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.judgement.baseline import why_no_baseline
from fa_core.judgement.diagnostics import BIT, LETTERS, LOGARITHMIC
from fa_core.judgement.gamma import CREDIT
from fa_core.judgement.intervals import exact_share_interval
from fa_core.judgement.verdict import CONTROL, NOT_MEASURED, TRUSTWORTHY, UNDECIDED, WALKS_BACK
from fa_core.option_values import listed
from fa_core.table import AuditTable, Bits, Floats, Mask

MIXED = "MIXED"


class SeedNumber(NamedTuple):
    """A number that is averaged over seeds.

    Attributes:
        of: the table's column.
        letter: the diagnostic whose mark says that a value is non-finite, or ``""``.
        heading: of its column in a report.
    """

    of: Callable[[AuditTable], Floats]
    letter: str
    heading: str


NUMBERS = {
    "headline_acc": SeedNumber(attrgetter("acc"), "d", "acc"),
    "growth": SeedNumber(attrgetter("growth"), "a", "(a) growth"),
    "h_L": SeedNumber(attrgetter("h_L"), "a", "‖h_L‖"),
    "g_L": SeedNumber(attrgetter("g_L"), "b", "(b) ‖g_L‖"),
    "stability": SeedNumber(attrgetter("stability"), "c", "(c) drift"),
    "margin_pp": SeedNumber(attrgetter("margin_pp"), "d", "(d) pp"),
}
NUMBERS |= {name: SeedNumber(attrgetter(name), "", heading) for name, heading in CREDIT.items()}


class Stat(Result, frozen=True, kw_only=True):
    """Statistics of a number over seeds.

    Attributes:
        n: seeds with a finite value.
        nonfinite: seeds measured as NaN or ±inf; not in mean and std.
        mean: None without a finite value.
        std: standard deviation √(Σ(x−mean)²/(n−ddof)); None for fewer than two values.
        min: smallest finite value.
        max: largest finite value.
        geometric_mean: exp of the mean of log x, for `LOGARITHMIC` numbers; None unless all finite
            values are positive.
        factor: exp of the standard deviation of log x: seeds lie within about ×/÷ this.
    """

    n: int
    nonfinite: int = 0
    mean: float | None = None
    std: float | None = None
    min: float | None = None
    max: float | None = None
    geometric_mean: float | None = None
    factor: float | None = None


class Condition(Result, frozen=True, kw_only=True):
    """One method at one value of each second axis.

    Attributes:
        method: canonical name.
        axes: second axes, e.g. ``{"lam": 0.01}``; None for an axis that is not set.
        collection: the runs' file or folder, if several hold the same runs; else ``""``.
    """

    method: str
    axes: Json
    collection: str


class SeedGroup(Condition, frozen=True, kw_only=True):
    """A condition over its seeds.

    Attributes:
        seeds: in table order; None for a run without a seed.
        stats: number of `NUMBERS` → `Stat`.
        verdicts: verdict text → runs.
        fired: letter → runs it fires on.
        measured: letter → runs it was measured on.
        fired_share: measured letter → 95 % interval (exact binomial) of the share of all seeds it
            fires on.
        undecided: letter → runs on which it is undecided.
        verdict: ``trustworthy`` or ``walk-back`` (``PASS``, ``FAIL``), ``undecided``, ``control``,
            ``not measured``; ``MIXED`` when seeds disagree.
        disagree: letters that fire on some of the runs they were measured on and pass others.
        evidence: letter → ``"bound"``, ``"proxy"`` or ``"assumed"``, if a number is inexact.
        notes: missing results, and why.
    """

    seeds: tuple[int | None, ...]
    stats: dict[str, Stat]
    verdicts: dict[str, int]
    fired: dict[str, int]
    measured: dict[str, int]
    fired_share: dict[str, Interval]
    undecided: dict[str, int]
    verdict: str
    disagree: str
    evidence: dict[str, str] = {}
    notes: tuple[str, ...] = ()


class Difference(Result, frozen=True, kw_only=True):
    """The effect of one factor on a condition's numbers, or the interaction of two factors.

    Attributes:
        factors: ``method`` or a second axis; two of them for an interaction.
        conditions: x and y of the effect x − y; x, y, z, w of the interaction (x − y) − (z − w).
        seeds: common to all conditions, by which the runs are paired; empty if there are none.
        stats: number of `NUMBERS` → `Stat` of the differences; for `LOGARITHMIC` numbers of the
            ratios (``geometric_mean`` and ``factor``).
    """

    factors: tuple[str, ...]
    conditions: tuple[Condition, ...]
    seeds: tuple[int, ...]
    stats: dict[str, Stat]


class SeedTable(Result, frozen=True, kw_only=True):
    """All groups, in order of first appearance.

    Attributes:
        by: names of the second axes.
        groups: one per method × second axes.
        notes: what was left out or assumed, and why.
        ddof: 1 = sample standard deviations, 0 = population ones.
    """

    by: tuple[str, ...]
    groups: tuple[SeedGroup, ...]
    notes: tuple[str, ...] = ()
    ddof: int = 1


def over_seeds(
    table: AuditTable,
    thresholds: DiagnosticThresholds | None = None,
    by: Sequence[str] | None = None,
    ddof: int = 1,
    most: int | None = None,
) -> SeedTable:
    """Means, spreads, verdict counts and disagreement per method.

    Args:
        table: n runs.
        thresholds: default: the protocol's.
        by: second axes to group by; default: every axis that varies; ``()``: none.
        ddof: 1 for sample standard deviations, as published; 0 for population ones.
        most: number of groups to average (default: all); a note counts the others.

    Raises:
        UsageError: an axis that no run has.

    Source: docs/protocol.md §9, seeds.
    """
    axes, members = _members(table, by)
    t = thresholds or DiagnosticThresholds()
    groups: list[SeedGroup] = []
    for (home, *_), rows in islice(members.items(), most):
        groups.append(_group(table.select(rows), axes, home, t, ddof))
    notes = [*table.assumed_notes, *table.uneven_notes]
    if len(groups) < len(members):
        shown = f"the first {len(groups)} of {len(members):,} groups"
        notes.append(f"{shown}; a filter chooses others")
    elif not groups:
        notes.append("no runs: nothing to average")
    return SeedTable(by=axes, groups=tuple(groups), notes=tuple(notes), ddof=ddof)


_Key: TypeAlias = tuple[str, ...]
"""A condition: collection, method, and the values of the second axes as text."""


def _members(
    table: AuditTable, by: Sequence[str] | None
) -> tuple[tuple[str, ...], dict[_Key, list[int]]]:
    """The second axes, and the rows of every condition."""
    axes = varying_axes(table) if by is None else tuple(by)
    known = sorted(set().union(*table.axes))
    for name in axes:
        if name not in known:
            hint = f"axes here: {', '.join(known) or 'none'}"
            raise UsageError(f"no run has an axis {name!r}", where="--by", hint=hint)
    homes = collections(table)
    names: list[_Key] = []
    for method, row in zip(table.method, table.axes, strict=True):
        levels = [repr(row.get(axis)) for axis in axes]
        names.append((str(method), *levels))
    # collections are distinguished only if a run is in two of them
    runs = set(zip(names, table.seed, strict=True))
    runs_by_home = set(zip(names, table.seed, homes, strict=True))
    if len(runs_by_home) == len(runs):
        homes = ("",) * len(table)
    members: dict[_Key, list[int]] = defaultdict(list)
    for i, (home, condition) in enumerate(zip(homes, names, strict=True)):
        key = (home, *condition)
        members[key].append(i)
    return axes, members


def differences(table: AuditTable, by: Sequence[str] | None = None) -> tuple[Difference, ...]:
    """The effect of every factor of every condition, and the interaction of every two factors.

    The reference of the method is BP, else the first method; of an axis no value, else its smallest
    number or first value. Let x(c) be a number of condition c, and c_f the condition with factor f
    at its reference. The effect of f is x(c) − x(c_f). The interaction of f and g is (x(c) −
    x(c_g)) − (x(c_f) − x(c_fg)), if all four were run. A method whose reference was not run at its
    axes is compared with the reference without them. `LOGARITHMIC` numbers are compared by their
    logarithms. Conditions are paired by seed: mean and sample deviation over the n common seeds.
    Without a common seed: the difference of means and √(Σ s²) of the conditions' deviations.
    Controls are left out: see (d).

    Args:
        table: n runs.
        by: as for `over_seeds`.

    Source: docs/protocol.md §9, differences. Factorial contrasts: Box, Hunter & Hunter 2005,
    chapter 5.
    """
    axes, members = _members(table, by)
    names = ("", "method", *axes)
    by_home: dict[str, list[_Key]] = defaultdict(list)
    for key in members:
        home, method, *_ = key
        if method not in CONTROLS:
            by_home[home].append(key)
    found = []
    for keys in by_home.values():
        reference = _reference(keys)
        present = set(keys)
        for key in keys:
            moved = [place for place in range(1, len(key)) if key[place] != reference[place]]
            for places in (*combinations(moved, 1), *combinations(moved, 2)):
                terms = _terms(key, reference, places)
                if places == (1,) and terms[1] not in present:
                    terms[1] = reference
                if present.issuperset(terms):
                    factors = tuple(names[place] for place in places)
                    rows = {term: members[term] for term in terms}
                    found.append(_difference(table, axes, factors, rows))
    return tuple(found)


def _reference(keys: Sequence[_Key]) -> _Key:
    """The reference level of every factor: BP, an unset axis, else `_lowest`."""
    reference = []
    for place, levels in enumerate(zip(*keys, strict=True)):
        level = "None"
        if place == 1:
            level = "bp"
        if level not in levels:
            level = _lowest(levels)
        reference.append(level)
    return tuple(reference)


def _lowest(levels: Sequence[str]) -> str:
    """The smallest number, or the first level if some are no numbers."""
    try:
        return min(levels, key=float)
    except ValueError:
        return levels[0]


def _terms(key: _Key, reference: _Key, places: Sequence[int]) -> list[_Key]:
    """The conditions of a contrast: no factor at its reference, the last one, the first, both."""
    terms = []
    choices = [(key[place], reference[place]) for place in places]
    for levels in product(*choices):
        term = list(key)
        for place, level in zip(places, levels, strict=True):
            term[place] = level
        terms.append(tuple(term))
    return terms


def _difference(
    table: AuditTable, axes: tuple[str, ...], factors: tuple[str, ...], terms: dict[_Key, list[int]]
) -> Difference:
    runs = [table.select(rows) for rows in terms.values()]
    seeds = _common_seeds(runs)
    if seeds:
        runs = [_in_order_of(part, seeds) for part in runs]
    stats: dict[str, Stat] = {}
    for name, number in NUMBERS.items():
        parts = list(map(number.of, runs))
        stats[name] = _contrast(parts, name in LOGARITHMIC, bool(seeds))
    conditions = []
    for (home, *_), part in zip(terms, runs, strict=True):
        conditions.append(_condition(part, axes, home))
    return Difference(factors=factors, conditions=tuple(conditions), seeds=seeds, stats=stats)


def _common_seeds(runs: Sequence[AuditTable]) -> tuple[int, ...]:
    """The seeds of all conditions; none if a condition has a seed twice."""
    common = set(runs[0].seed)
    for part in runs:
        seeds = set(part.seed)
        if len(seeds) < len(part):
            return ()
        common &= seeds
    return tuple(sorted(common - {None}))


def _in_order_of(runs: AuditTable, seeds: Sequence[int]) -> AuditTable:
    """The runs of some seeds, in the order of the seeds."""
    present = runs.seed.tolist()
    return runs.select(list(map(present.index, seeds)))


def _contrast(parts: Sequence[Floats], geometric: bool, paired: bool) -> Stat:
    """x − y, or (x − y) − (z − w), of paired values or of means."""
    with np.errstate(all="ignore"):
        terms = []
        for sign, part in zip((1, -1, -1, 1), parts, strict=False):
            if geometric:
                part = np.where(part > 0, np.log(part), np.nan)
            terms.append(sign * part)
        if paired:
            terms = [np.sum(terms, axis=0)]
        terms = [term[np.isfinite(term)] for term in terms]
        n = min(map(len, terms))
        if not n:
            return Stat(n=0)
        mean = float(sum(term.mean() for term in terms))
        std = factor = None
        if n > 1:
            std = math.sqrt(sum(term.var(ddof=1) for term in terms))
            factor = float(np.exp(std))
        if geometric:
            return Stat(n=n, geometric_mean=float(np.exp(mean)), factor=factor)
        return Stat(n=n, mean=mean, std=std)


def _group(
    runs: AuditTable, axes: tuple[str, ...], home: str, thresholds: DiagnosticThresholds, ddof: int
) -> SeedGroup:
    fired = _counts(runs.flags(thresholds))
    measured = _counts(runs.coverage)
    undecided = _counts(runs.undecided(thresholds))
    stats = {}
    for name, number in NUMBERS.items():
        marked = (runs.nonfinite & BIT.get(number.letter, 0)) != 0
        stats[name] = stat_of(number.of(runs), name in LOGARITHMIC, marked, ddof)
    shares = {}
    for letter, n in measured.items():
        if n:
            shares[letter] = exact_share_interval(fired[letter], n)
    return SeedGroup(
        **structs.asdict(_condition(runs, axes, home)),
        seeds=tuple(runs.seed),
        stats=stats,
        verdicts=dict(Counter(runs.verdicts(thresholds))),
        fired=fired,
        measured=measured,
        fired_share=shares,
        undecided={letter: count for letter, count in undecided.items() if count},
        verdict=_verdict(runs.standings(thresholds)),
        disagree="".join(x for x in LETTERS if 0 < fired[x] < measured[x]),
        evidence=runs.kinds,
        notes=_notes(runs, measured),
    )


def _counts(bits: Bits) -> dict[str, int]:
    """Letter → number of runs with its bit."""
    counts = {}
    for letter, bit in BIT.items():
        counts[letter] = int(np.count_nonzero(bits & bit))
    return counts


def _condition(runs: AuditTable, axes: tuple[str, ...], home: str) -> Condition:
    return Condition(
        method=str(runs.method[0]),
        axes={name: runs.axes[0].get(name) for name in axes},
        collection=home,
    )


def stat_of(values: Floats, geometric: bool, marked: Mask | bool = False, ddof: int = 1) -> Stat:
    """Statistics of a number over seeds.

    Args:
        values: (n,); not finite if not measured.
        geometric: whether it spans decades.
        marked: (n,), whether a non-finite value was measured.
        ddof: 1 for sample standard deviations, 0 for population ones.
    """
    finite = values[np.isfinite(values)]
    nonfinite = int((~np.isfinite(values) & marked).sum())
    if not len(finite):
        return Stat(n=0, nonfinite=nonfinite)
    lowest = float(finite.min())
    highest = float(finite.max())
    logs = finite[:0]
    if geometric and lowest > 0:
        logs = np.log(finite)
    # scaled to about 1 by an exact power of two: squares of 1e200 overflow, of 1e-200 vanish
    exponent = int(np.frexp(max(abs(lowest), abs(highest)))[1])
    scaled = np.ldexp(finite, -exponent, out=finite)
    mean = float(np.ldexp(scaled.mean(), exponent))
    std = geometric_mean = factor = None
    if len(finite) > 1:
        std = float(np.ldexp(scaled.std(ddof=ddof), exponent))
    if len(logs):
        geometric_mean = float(np.exp(logs.mean()))
    if len(logs) > 1:
        factor = float(np.exp(logs.std(ddof=ddof)))
    return Stat(
        n=len(finite),
        nonfinite=nonfinite,
        mean=mean,
        std=std,
        min=lowest,
        max=highest,
        geometric_mean=geometric_mean,
        factor=factor,
    )


def _verdict(standings: Counter[str]) -> str:
    """The standing of the measured runs, `MIXED` if they disagree; undecided runs outweigh
    trustworthy ones.

    >>> _verdict(Counter({"trustworthy": 2, "undecided": 1}))
    'undecided'
    """
    found = set(standings) - {NOT_MEASURED}
    if WALKS_BACK in found and len(found) > 1:
        return MIXED
    for word in (WALKS_BACK, CONTROL, UNDECIDED, TRUSTWORTHY):
        if word in found:
            return word
    return NOT_MEASURED


def _notes(runs: AuditTable, measured: dict[str, int]) -> tuple[str, ...]:
    n = len(runs)
    unmeasured = n - int(np.count_nonzero(runs.coverage))
    notes = []
    if n == 1:
        notes.append("one seed: no spread, and seeds cannot disagree")
    counts = Counter(runs.seed)
    counts.pop(None, None)
    repeated = sorted(seed for seed, count in counts.items() if count > 1)
    if repeated:
        notes.append(f"seed {listed(repeated)} more than once: are these the same runs?")
    nonfinite = int(np.count_nonzero(runs.nonfinite))
    if nonfinite:
        notes.append(f"NaN or inf in {nonfinite} of {n} runs: not in the means")
    if unmeasured:
        notes.append(f"{unmeasured} of {n} runs not measured")
    for letter, known in measured.items():
        is_excused = letter == "d" and why_no_baseline(runs.method[0])
        if known == n - unmeasured or is_excused:
            continue
        note = f"({letter}) not measured on any run"
        if known:
            note = f"({letter}) not measured on {n - known} of {n} runs"
        if letter == "d":
            note += baseline_hint(runs)
        notes.append(note)
    return tuple(notes)
