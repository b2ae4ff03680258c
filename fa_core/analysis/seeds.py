"""Statistics over seeds: mean, spread and verdict counts; and runs compared layer by layer."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import zip_longest

import numpy as np

from fa_core.analysis import Result
from fa_core.analysis.method_groups import Condition, conditions
from fa_core.files.decode import Json
from fa_core.formats.table import AuditTable, Bits, Floats, Mask, having
from fa_core.report.diagnostics import (
    CONTROL,
    LETTERS,
    TRUSTWORTHY,
    UNDECIDED,
    common_judgement,
)
from fa_core.report.gamma import CREDIT
from fa_core.report.numbers import listed
from fa_core.report.provenance import BASELINE_RULE
from fa_core.report.quantities import named
from fa_core.report.report_facts import PROTOCOL, DiagnosticThresholds

AVERAGED = named("acc", "growth", "h_L", "g_L", "drift", "margin")
"""The numbers that are averaged over seeds, beside those of `CREDIT`."""


class Stat(Result, frozen=True, kw_only=True):
    """Statistics of a number over seeds.

    Attributes:
        n: seeds with a finite value.
        nonfinite: seeds measured as NaN or ±inf; not in mean and std.
        mean: None without a finite value.
        std: standard deviation √(Σ(x−mean)²/(n−1)); None for fewer than two values.
        min: smallest finite value.
        max: largest finite value.
        geometric_mean: exp of the mean of log x of norms and growth; None unless all finite
            values are positive.
        factor: exp of the standard deviation of log x: seeds lie within about this factor.
    """

    n: int
    nonfinite: int
    mean: float | None = None
    std: float | None = None
    min: float | None = None
    max: float | None = None
    geometric_mean: float | None = None
    factor: float | None = None


class SeedGroup(Result, frozen=True, kw_only=True):
    """One method under one condition (`fa_core.analysis.method_groups.conditions`), over its
    seeds.

    Attributes:
        method: canonical name.
        axes: second axes, e.g. ``{"lam": 0.01}``, and what else tells it from the method's other
            conditions; None for what is not set.
        collection: the runs' file or folder, if several hold the same runs; else ``""``.
        seeds: in table order; None for a run without a seed.
        stats: column of `AuditTable`, of `AVERAGED` and `CREDIT` → `Stat`.
        verdicts: judgement → runs.
        fired: letter → runs it fires on.
        measured: letter → runs it was measured on.
        undecided: letter → runs on which it is undecided.
        verdict: the judgement of all (`common_judgement`); ``MIXED`` when seeds disagree; undecided
            in place of trustworthy where no diagnostic was measured on every seed.
        disagree: letters that fire on some of the runs they were measured on and pass others.
        evidence: letter → ``"bound"``, ``"proxy"`` or ``"assumed"``, if a number is inexact.
        notes: what is not averaged, and seeds that are there twice.
    """

    method: str
    axes: Json
    collection: str
    seeds: tuple[int | None, ...]
    stats: dict[str, Stat]
    verdicts: dict[str, int]
    fired: dict[str, int]
    measured: dict[str, int]
    undecided: dict[str, int]
    verdict: str
    disagree: str
    evidence: dict[str, str]
    notes: tuple[str, ...]


class SeedTable(Result, frozen=True, kw_only=True):
    """All groups, in order of first appearance.

    Attributes:
        groups: one per method × second axes.
        thresholds: what judged the runs.
        notes: what was left out or assumed, and why.
    """

    groups: tuple[SeedGroup, ...]
    thresholds: DiagnosticThresholds
    notes: tuple[str, ...]


def over_seeds(
    table: AuditTable,
    thresholds: DiagnosticThresholds = PROTOCOL,
) -> SeedTable:
    """Means, spreads, verdict counts and disagreement per method.

    Args:
        table: n runs.
        thresholds: default: the protocol's.

    Source: docs/protocol.md §9, seeds.
    """
    table, left_out = table.claiming(but=("", CONTROL))
    groups = [_group(table.select(rows), one, thresholds) for one, rows in conditions(table)]
    notes = [*table.assumed_notes, *table.uneven_notes, *left_out]
    if not groups:
        notes.append("no runs: nothing to average")
    return SeedTable(groups=tuple(groups), thresholds=thresholds, notes=tuple(notes))


def _group(runs: AuditTable, condition: Condition, thresholds: DiagnosticThresholds) -> SeedGroup:
    judgements = runs.judgements(thresholds)
    fired = _counts(runs.flags(thresholds))
    measured = _counts(runs.coverage)
    undecided = _counts(runs.undecided(thresholds))
    verdict = common_judgement(judgements)
    if verdict == TRUSTWORTHY and len(runs) not in measured.values():
        verdict = UNDECIDED
    stats = {}
    for number in AVERAGED:
        marked = having(runs.nonfinite, number.marks)
        stats[number.stat] = stat_of(runs.column(number), number.log, marked)
    pooled = not uneven_layers(runs)
    for name, values in zip(CREDIT, runs.credit.T, strict=True):
        stats[name] = stat_of(values if pooled else values[:0], geometric=False)
    return SeedGroup(
        method=condition.method,
        axes=condition.axes,
        collection=condition.collection,
        seeds=tuple(runs.seed),
        stats=stats,
        verdicts=dict(judgements),
        fired=fired,
        measured=measured,
        undecided={letter: count for letter, count in undecided.items() if count},
        verdict=verdict,
        disagree="".join(x for x in LETTERS if 0 < fired[x] < measured[x] - undecided[x]),
        evidence=runs.kinds,
        notes=_notes(runs),
    )


def uneven_layers(runs: AuditTable) -> str:
    """How runs differ in the layers of their Γ, so that no mean of them is one number; else ""."""
    lists = [deep for known, deep in runs.credit_layers if known]
    if all(layers == lists[0] for layers in lists):
        lists = [known for known, _ in runs.credit_layers if known]
    texts = dict.fromkeys(",".join(map(str, layers)) or "none" for layers in lists)
    if len(texts) < 2:
        return ""
    return f"Γ not averaged: its layers are l = {' / '.join(texts)}"


def _counts(bits: Bits) -> dict[str, int]:
    """Letter → number of runs with its bit."""
    return {letter: int(having(bits, letter).sum()) for letter in LETTERS}


def stat_of(values: Floats, geometric: bool, marked: Mask | bool = False) -> Stat:
    """Statistics of a number over seeds.

    Args:
        values: (n,); not finite if not measured.
        geometric: whether it spans decades.
        marked: (n,), whether a non-finite value was measured.
    """
    finite = values[np.isfinite(values)]
    nonfinite = int((~np.isfinite(values) & marked).sum())
    if not len(finite):
        return Stat(n=0, nonfinite=nonfinite)
    lowest = float(finite.min())
    highest = float(finite.max())
    std = geometric_mean = factor = None
    if geometric and lowest > 0:
        logs = np.log(finite)
        geometric_mean = float(np.exp(logs.mean()))
        if len(logs) > 1:
            factor = float(np.exp(logs.std(ddof=1)))
    # scaled to about 1 by an exact power of two: squares of 1e200 overflow, of 1e-200 vanish
    exponent = int(np.frexp(max(abs(lowest), abs(highest)))[1])
    scaled = np.ldexp(finite, -exponent, out=finite)
    mean = float(np.ldexp(scaled.mean(), exponent))
    if len(finite) > 1:
        std = float(np.ldexp(scaled.std(ddof=1), exponent))
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


def _notes(runs: AuditTable) -> tuple[str, ...]:
    notes = list(filter(None, [uneven_layers(runs)]))
    rules = {str(row.report.provenance.get(BASELINE_RULE, "")) for row in runs.rows()} - {""}
    if rules:
        notes.append(f"(d) over frozen blocks trained by {listed(sorted(rules))}")
    counts = Counter(runs.seed)
    counts.pop(None, None)
    repeated = sorted(seed for seed, count in counts.items() if count > 1)
    if repeated:
        notes.append(f"seed {listed(repeated)} more than once: are these the same runs?")
    return tuple(notes)


PARTS_AT = 10.0
"""Runs diverge where the largest value exceeds ten times the smallest: more than seed noise."""


class LayerSpread(Result, frozen=True, kw_only=True):
    """One layer's norm (or growth) in several runs.

    Attributes:
        layer: l.
        values: one per run, in the order given; None where a run has no such layer.
        ratio: largest over smallest; inf if some are finite and others NaN or ±inf, or if the
            smallest is 0; None with fewer than two values, or with no finite one.
    """

    layer: int
    values: tuple[float | None, ...]
    ratio: float | None

    def stat(self, geometric: bool) -> Stat:
        """Mean and spread of the values, as over seeds; meaningful for runs of one network."""
        known = [value for value in self.values if value is not None]
        return stat_of(np.array(known), geometric, marked=True)


def across_runs(curves: Sequence[Sequence[float]]) -> tuple[LayerSpread, ...]:
    """The runs' values per layer, with their ratio r_l = max_i x_il / min_i x_il.

    Args:
        curves: per run, one value ≥ 0 per layer; runs may differ in depth: a layer is compared
            among the runs that have it.

    Returns:
        One entry per layer of the deepest run.

    >>> [layer.ratio for layer in across_runs([[8.0, 10.0, 20.0], [8.0, 500.0]])]
    [1.0, 50.0, None]
    """
    return tuple(
        LayerSpread(layer=layer, values=values, ratio=ratio_of(values))
        for layer, values in enumerate(zip_longest(*curves))
    )


def first_parting(layers: Iterable[LayerSpread]) -> LayerSpread | None:
    """The first layer l with r_l > `PARTS_AT`; None if there is none.

    Args:
        layers: from `across_runs`.

    >>> first_parting(across_runs([[8.0, 10.0, 20.0], [8.0, 500.0, 30.0]])).layer
    1
    """
    return next((layer for layer in layers if (layer.ratio or 0.0) > PARTS_AT), None)


def ratio_of(values: Sequence[float | None]) -> float | None:
    """The `ratio` of a `LayerSpread`."""
    known = [value for value in values if value is not None]
    finite = [value for value in known if math.isfinite(value)]
    if len(known) < 2 or not finite:
        return None
    low = min(finite)
    high = max(finite)
    if len(finite) < len(known) or high > low <= 0:
        return math.inf
    return high / low if low else 1.0
