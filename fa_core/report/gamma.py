"""Summaries of Γ over layers, and its null. Pure Python."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from fa_core.files.decode import Json
from fa_core.report.intervals import Z_OF_ONE, t_quantile
from fa_core.report.judged_run import JudgedRun
from fa_core.report.method_style import known_method
from fa_core.report.names import canonical_method
from fa_core.report.report_facts import as_float

Credit: TypeAlias = Json | None
"""A report's ``credit`` table."""

FREE_AT_L = frozenset({"bp", "fa", "state_bridge", "credit_bridge", "dtp", "local_loss"})
"""Methods whose credit at l = L is exact by construction: from the head's true weights, or by
matching the gradient."""


def per_layer(credit: Credit, metric: str = "gamma") -> Sequence[float | None]:
    """A metric of a credit table, layer by layer; empty without it."""
    values: Sequence[float | None] = (credit or {}).get(metric) or ()
    return values


def free_layers(credit: Credit, method: str = "") -> list[int]:
    """The layers with free credit: as recorded in the credit table, else l = L for the methods in
    `FREE_AT_L`.

    >>> (free_layers({"gamma": [0.9, 0.1, 0.3]}, "fa_penalty"), free_layers({"free_layers": []},
    ...     "fa"))
    ([2], [])
    """
    recorded = (credit or {}).get("free_layers")
    if isinstance(recorded, list):
        return recorded
    layers = per_layer(credit)
    name = canonical_method(method)
    # fa_weights, as earlier runs have it, is no variant of FA here: its head has feedback too
    free = known_method(name) in FREE_AT_L and name != "fa_weights"
    if free and layers:
        return [len(layers) - 1]
    return []


def aggregation(credit: Credit, method: str = "") -> str:
    """Description of the mean of deep Γ, with its layers.

    >>> aggregation({"gamma": [0.9, 0.1, 0.3]}), aggregation({"gamma": [0.9, 0.1, 0.3]}, "fa")
    ('mean over samples; deep = l >= 1', 'mean over samples; deep = l >= 1 without l = 2, whose
    credit comes free')
    >>> aggregation({"gamma": [0.9, None, None, 0.1], "zeros": [0.0, None, 1.0, 0.0]})
    'mean over samples; deep = l >= 1 without l = 1, which has no credit; undefined, as credit or
    gradient is 0 at l = 2'
    """
    text = "mean over samples; deep = l >= 1"
    free = free_layers(credit, method)
    lost = lost_layers(credit, method)
    deep = deep_layers(credit, method)
    known = {0, *free, *lost, *deep}
    without = [l for l in range(len(per_layer(credit))) if l not in known]
    if free:
        text += f" without l = {_listed(free)}, whose credit comes free"
    if without and deep:
        text += f" without l = {_listed(without)}, which has no credit"
    if lost:
        text += f"; undefined, as credit or gradient is 0 at l = {_listed(lost)}"
    return text


def _listed(layers: Sequence[int]) -> str:
    return ", ".join(map(str, layers))


def deep_gamma(credit: Credit, method: str = "", metric: str = "gamma") -> float:
    """Deep Γ: mean of a credit table's Γ_l over `deep_layers`.

    NaN without any, and if one of them is not finite or lost: otherwise the mean would rise where
    credit is lost.

    Args:
        credit: the table.
        method: the run's method, for tables without recorded free layers; ``""`` leaves none out.
        metric: the series to average.

    Source: docs/protocol.md §4.

    >>> deep_gamma({"gamma": [0.9, 0.1, 0.3]}), deep_gamma({"gamma": [0.9, 0.1, 0.3]}, "fa")
    (0.2, 0.1)
    >>> deep_gamma({"gamma": [0.9, None, 0.3], "zeros": [0.0, 1.0, 0.0]})
    nan
    """
    layers = deep_layers(credit, method)
    values = per_layer(credit, metric)
    if lost_layers(credit, method) or len(values) <= max(layers, default=0):
        return math.nan
    return _mean([values[l] for l in layers])


def deep_over_epochs(gammas: Sequence[Sequence[float | None]], method: str = "") -> list[float]:
    """Deep Γ at every epoch, over the layers that have Γ at some epoch; NaN where one of them has
    none.

    >>> deep_over_epochs([[0.9, 0.5, 0.1], [0.9, None, 0.1]])
    [0.3, nan]
    """
    tables = [{"gamma": list(layers)} for layers in gammas]
    found = [deep_layers(table, method) for table in tables]
    whole = {l for layers in found for l in layers}
    return [
        deep_gamma(table, method) if whole == set(layers) else math.nan
        for table, layers in zip(tables, found, strict=True)
    ]


def deep_layers(credit: Credit, method: str = "") -> list[int]:
    """The layers of deep Γ: l ≥ 1 with credit, without those whose credit comes free.

    >>> deep_layers({"gamma": [0.9, 0.1, None, 0.3]}, "fa")
    [1]
    """
    free = free_layers(credit, method)
    gamma = per_layer(credit)
    return [l for l, value in enumerate(gamma) if l and l not in free and value is not None]


def lost_layers(credit: Credit, method: str = "") -> list[int]:
    """The layers l ≥ 1 that have credit, and no Γ: credit or gradient is 0 in every sample.

    A table that does not record ``zeros`` shows none.

    >>> lost_layers({"gamma": [None, None, 0.3], "zeros": [1.0, 1.0, 0.0]})
    [1]
    """
    free = free_layers(credit, method)
    gamma = per_layer(credit)
    zeros = per_layer(credit, "zeros")
    return [
        l
        for l, (cosine, share) in enumerate(zip(gamma, zeros, strict=False))
        if l and l not in free and cosine is None and share is not None
    ]


def deep_entries(credit: Json) -> Json:
    """The entries of a credit table that say what deep Γ is, and over which layers."""
    entries: Json = {"deep_gamma": _deep_or_none(credit), "deep_layers": deep_layers(credit)}
    if free_layers(credit):
        # FA is published so (docs/cifar.md)
        entries["deep_gamma_with_free"] = _deep_or_none({**credit, "free_layers": []})
    return {**entries, "aggregation": aggregation(credit)}


def _deep_or_none(credit: Json) -> float | None:
    if not deep_layers(credit) or lost_layers(credit):
        return None
    return deep_gamma(credit)


def mean_gamma(credit: Credit) -> float:
    """Mean of a credit table's Γ_l over all layers, including layer 0 and free ones, as in papers;
    NaN where one of them has none.

    >>> round(mean_gamma({"gamma": [0.9, 0.1, 0.2]}), 2), mean_gamma({"gamma": [0.9, None]})
    (0.4, nan)
    """
    return _mean(per_layer(credit))


def _mean(values: Sequence[float | None]) -> float:
    """NaN of none, and where one is not there."""
    numbers = [math.nan if value is None else as_float(value) for value in values]
    return sum(numbers) / len(numbers) if numbers else math.nan


def _null(credit: Credit) -> Json:
    null: Json = (credit or {}).get("null") or {}
    return null


def null_gamma(credit: Credit, method: str = "") -> tuple[float, float]:
    """Mean and standard deviation of deep Γ over draws of fresh feedback, from a credit table; NaN
    without.

    A table without recorded free layers has both over all l ≥ 1; the mean is then computed from its
    layers.

    >>> null_gamma({"gamma": [0.5, 0.2, 0.8], "null": {"deep_gamma_mean": 0.4, "gamma": [0.0, 0.01,
    ...     0.79]}}, "fa")
    (0.01, nan)
    """
    null = _null(credit)
    recorded = (credit or {}).get("free_layers")
    if null and not isinstance(recorded, list) and free_layers(credit, method):
        return deep_gamma(null, method), math.nan
    found = (null.get(f"deep_gamma_{name}") for name in ("mean", "std"))
    mean, std = (math.nan if value is None else value for value in found)
    return mean, std


def null_of(credit: Credit) -> str:
    """What was drawn for a credit table's null, e.g. ``samples shuffled``; "" for fresh feedback.

    >>> null_of({"null": {"of": "samples shuffled"}}), null_of({"null": {"draws": 5}})
    ('samples shuffled', '')
    """
    drawn = _null(credit).get("of")
    if isinstance(drawn, str):
        return drawn
    return ""


def within_null(report: JudgedRun) -> bool | None:
    """Whether deep Γ lies within the null of random feedback.

        |Γ − m| ≤ t_{R−1}·s·√(1 + 1/R),  m and s the mean and standard deviation of R fresh draws

    This is the 95 % prediction interval of one more draw, of a normal null, with t as near as
    `t_quantile` is: five draws are judged by a wider one than two hundred. R = ∞ where a record
    does not say of how many draws its s is.

    A Γ far below its null is not within it either.

    Args:
        report: with a ``credit`` table.

    Returns:
        None if deep Γ or its null is unknown or not finite.

    Source: docs/protocol.md §4; Hahn & Meeker, Statistical Intervals, 1991, §4.7.

    >>> from fa_core.report.judged_run import JudgedRun
    >>> null = {"deep_gamma_mean": 0.0, "deep_gamma_std": 0.02, "draws": 5}
    >>> [within_null(JudgedRun(credit={"gamma": [0.9, x], "null": null})) for x in (0.05,
    ...     0.07, -0.07)]
    [True, False, False]
    """
    deep = deep_gamma(report.credit, report.method_name)
    mean, std = null_gamma(report.credit, report.method_name)
    if not math.isfinite(deep + mean + std):
        return None
    draws = null_draws(report.credit)
    reach = Z_OF_ONE
    if draws > 1:
        reach = t_quantile(draws - 1) * math.sqrt(1 + 1 / draws)
    return abs(deep - mean) <= reach * std


def null_draws(credit: Credit) -> int:
    """Number of draws of a credit table's null; 0 if not recorded.

    >>> (null_draws({"null": {"draws": 5}}), null_draws({"null": {"deep_gamma_mean": 0.0}}),
    ...     null_draws(None))
    (5, 0, 0)
    """
    draws = _null(credit).get("draws")
    if type(draws) is int and draws > 0:
        return draws
    return 0


CREDIT: Mapping[str, str] = {
    "mean_gamma": "Γ, all l",
    "deep_gamma": "deep Γ",
    "null_gamma": "null Γ",
    "deep_rho": "deep ρ",
    "deep_nudge": "deep nudge",
}
"""Summary numbers of a run's credit: name → heading.

*Deep* is the mean over l ≥ 1 without layers of free credit; the null is with fresh feedback.

Source: docs/protocol.md §4.
"""


def credit_numbers(credit: Credit, method: str) -> list[float]:
    """The numbers of `CREDIT`, in order; NaN for missing ones.

    >>> [round(x, 2) for x in credit_numbers({"gamma": [0.9, 0.1, 0.3], "rho": [0.8, 0.2, 0.4]},
    ...     "dfa")]
    [0.43, 0.2, nan, 0.3, nan]
    """
    mean_null, _ = null_gamma(credit, method)
    return [
        mean_gamma(credit),
        deep_gamma(credit, method),
        mean_null,
        deep_gamma(credit, method, "rho"),
        deep_gamma(credit, method, "nudge"),
    ]
