"""Γ of a run as one number: its layers, its null, the layers that come free. Pure Python."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

from fa_core.decode import Json
from fa_core.facts.method_style import known_method
from fa_core.facts.run_names import canonical_method
from fa_core.judgement.intervals import t_quantile
from fa_core.judgement.judged_run import JudgedRun
from fa_core.numbers import as_float, median

Credit: TypeAlias = Json | None
"""A report's ``credit`` table."""

FREE_AT_L = frozenset({"bp", "fa", "state_bridge", "credit_bridge", "dtp", "local_loss"})
"""Methods whose credit at l = L comes free: from the head's true weights, or by matching the
gradient there."""


def free_layers(credit: Credit, method: str = "") -> list[int]:
    """The layers whose credit comes free: as a credit table records them, else l = L of the methods
    in `FREE_AT_L`.

    >>> (free_layers({"gamma": [0.9, 0.1, 0.3]}, "fa_penalty"), free_layers({"free_layers": []},
    ...     "fa"))
    ([2], [])
    """
    recorded = _entry(credit, "free_layers")
    if isinstance(recorded, list):
        return recorded
    layers = _entry(credit, "gamma")
    if known_method(canonical_method(method)) in FREE_AT_L and isinstance(layers, (list, tuple)):
        return [len(layers) - 1]
    return []


def aggregation(free: Sequence[int]) -> str:
    """How deep Γ is averaged, given the layers whose credit comes free.

    >>> aggregation([]), aggregation([4])
    ('mean over samples; deep = l >= 1', 'mean over samples; deep = l >= 1 without l = 4, whose
    credit comes free')
    """
    deep = "mean over samples; deep = l >= 1"
    if not free:
        return deep
    return f"{deep} without l = {', '.join(map(str, free))}, whose credit comes free"


def deep_gamma(credit: Credit, method: str = "", metric: str = "gamma") -> float:
    """Mean of a credit table's Γ_l over l ≥ 1 without the layers whose credit comes free; NaN where
    there is none.

    Args:
        credit: the table.
        method: its run's, for tables that do not record free layers; ``""`` leaves none out.
        metric: another series of the table.

    Source: docs/protocol.md §4.

    >>> deep_gamma({"gamma": [0.9, 0.1, 0.3]}), deep_gamma({"gamma": [0.9, 0.1, 0.3]}, "fa")
    (0.2, 0.1)
    """
    return _mean_over(credit, metric, {0, *free_layers(credit, method)})


def deep_layers(credit: Credit, method: str = "") -> list[int]:
    """The layers that deep Γ is the mean over.

    >>> deep_layers({"gamma": [0.9, 0.1, 0.3]}, "fa")
    [1]
    """
    free = free_layers(credit, method)
    gamma = _entry(credit, "gamma") or ()
    return [l for l in range(1, len(gamma)) if l not in free]


def mean_gamma(credit: Credit) -> float:
    """Mean of a credit table's Γ_l over all layers, layer 0 and free ones included: the number that
    papers report.

    >>> round(mean_gamma({"gamma": [0.9, 0.1, None, 0.2]}), 2)
    0.4
    """
    return _mean_over(credit, "gamma", ())


def aggregation_collapse(credit: Credit) -> float:
    """How far one end of the network carries the mean of Γ over the layers: max(|Γ_0|, |Γ_L|) / Σ_l
    |Γ_l|.

    1/(number of layers) where all layers have the same |Γ_l|, 1 where one end has it all; NaN of
    fewer than two layers with a finite Γ, and where all are 0. The successor text names the failure
    without a number: the definition is ours. Source: docs/protocol.md §4.

    >>> round(aggregation_collapse({"gamma": [0.42, 0.006, -0.015, -0.004, -0.004]}), 3)
    0.935
    >>> (aggregation_collapse({"gamma": [0.2, 0.2, 0.2, -0.2]}),
    ...     aggregation_collapse({"gamma": [0.2, None]}))
    (0.25, nan)
    """
    sizes = [abs(value) for value in _finite(_entry(credit, "gamma"))]
    if len(sizes) > 1 and any(sizes):
        return max(sizes[0], sizes[-1]) / sum(sizes)
    return math.nan


def _mean_over(credit: Credit, metric: str, left_out: Collection[int]) -> float:
    """Mean over the defined layers; NaN if none is."""
    known = _finite(_entry(credit, metric), left_out)
    if known:
        return sum(known) / len(known)
    return math.nan


def _finite(layers: object, left_out: Collection[int] = ()) -> list[float]:
    """The defined numbers of the layers that are not left out."""
    if not isinstance(layers, (list, tuple)):
        return []
    finite = []
    for l, value in enumerate(layers):
        if l in left_out or value is None:
            continue
        number = as_float(value)
        if math.isfinite(number):
            finite.append(number)
    return finite


def _entry(credit: Credit, name: str) -> Any:
    if credit is None:
        return None
    return credit.get(name)


def _null(credit: Credit) -> Json:
    null = _entry(credit, "null")
    if isinstance(null, dict):
        return null
    return {}


def null_gamma(credit: Credit, method: str = "") -> tuple[float, float]:
    """Mean and standard deviation of deep Γ over draws of fresh feedback, as a credit table has
    them; NaN without.

    A table that does not record the free layers has the two over all l ≥ 1: the mean is then taken
    from its layers.

    >>> null_gamma({"gamma": [0.5, 0.2, 0.8], "null": {"deep_gamma_mean": 0.4, "gamma": [0.0, 0.01,
    ...     0.79]}}, "fa")
    (0.01, nan)
    """
    null = _null(credit)
    recorded = _entry(credit, "free_layers")
    if null and not isinstance(recorded, list) and free_layers(credit, method):
        return deep_gamma(null, method), math.nan
    mean = _number(null, "deep_gamma_mean")
    return mean, _number(null, "deep_gamma_std")


def _number(table: Json, name: str) -> float:
    value: float | None = table.get(name)
    if value is None:
        return math.nan
    return value


def null_band(credit: Credit, method: str, provenance: Json) -> tuple[float, float] | None:
    """Mean and standard deviation of deep Γ under feedback that knows nothing of the network, at
    any epoch.

    As drawn afresh where that was measured; else in closed form 0 and 1/√(d·(C−1)·m), m the layers
    that deep Γ is over: a_l,i = e_i·B_l with B_l drawn has E Γ_l = 0 and Var Γ_l = (1/(d·n²))·Σ_ij
    cos(e_i, e_j)·cos(g_i, g_j), which is 1/(d·(C−1)) where gradients are spread as the errors are,
    in C−1 dimensions; layers are drawn independently.

    Args:
        credit: the run's credit table.
        method: canonical name.
        provenance: of its report, with ``arch_args`` (``d``) and ``classes`` (C); else None where
            nothing was drawn.

    Source: docs/protocol.md §4.

    >>> null_band({"gamma": [0.4, 0.1, 0.2]}, "dfa", {"arch_args": {"d": 50},
    ...     "classes": 10})[1] == 1 / 30
    True
    """
    mean, std = null_gamma(credit, method)
    if math.isfinite(std):
        return mean, std
    arch_args = provenance.get("arch_args") or {}
    d = arch_args.get("d")
    classes = provenance.get("classes")
    if not isinstance(d, int) or not isinstance(classes, int):
        return None
    directions = d * (classes - 1) * len(deep_layers(credit, method))
    if d <= 0 or directions <= 0:
        return None
    return 0.0, 1 / math.sqrt(directions)


def within_null(report: JudgedRun) -> bool | None:
    """Whether deep Γ is what feedback that knows nothing of the network gives, too.

        |Γ − m| ≤ t_{R−1}·s·√(1 + 1/R),  m and s the mean and standard deviation of R fresh draws

    This is the 95 % prediction interval of one more draw, of a normal null, with t as near as
    `t_quantile` is: five draws are judged by a wider one than two hundred. Where no feedback was
    drawn, m and s are `null_band`'s closed form and R = ∞; R = ∞ also where a record does not say
    of how many draws its s is.

    A Γ far below its null is not within it either.

    Args:
        report: with a ``credit`` table.

    Returns:
        None where deep Γ or its null is not known, or not finite.

    Source: docs/protocol.md §4; Hahn & Meeker, Statistical Intervals, 1991, §4.7.

    >>> from fa_core.judgement.judged_run import JudgedRun
    >>> null = {"deep_gamma_mean": 0.0, "deep_gamma_std": 0.02, "draws": 5}
    >>> [within_null(JudgedRun(credit={"gamma": [0.9, x], "null": null})) for x in (0.05,
    ...     0.07, -0.07)]
    [True, False, False]
    """
    credit = report.credit
    method = report.method_name
    deep = deep_gamma(credit, method)
    band = null_band(credit, method, report.provenance)
    if band is None or not math.isfinite(deep):
        return None
    mean, std = band
    _, drawn_std = null_gamma(credit, method)
    draws = null_draws(credit)
    if math.isfinite(drawn_std) and draws > 1:
        reach = t_quantile(draws - 1) * math.sqrt(1 + 1 / draws)
    else:
        reach = t_quantile(math.inf)
    return abs(deep - mean) <= reach * std


def null_draws(credit: Credit) -> int:
    """How many fresh feedbacks a credit table's null is of; 0 where that is not recorded.

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
    "collapse": "collapse",
}
"""A run's credit as single numbers: name → heading.

*Deep* is the mean over l ≥ 1 without layers whose credit comes free; the null is with fresh
feedback; *collapse* is how far one end carries the mean of Γ.
Source: docs/protocol.md §4.
"""


def credit_numbers(credit: Credit, method: str = "") -> list[float]:
    """The numbers of `CREDIT` in its order; NaN for a missing one.

    >>> [round(x, 2) for x in credit_numbers({"gamma": [0.9, 0.1, 0.3], "rho": [0.8, 0.2, 0.4]},
    ...     "dfa")]
    [0.43, 0.2, nan, 0.3, nan, 0.69]
    """
    mean_null, _ = null_gamma(credit, method)
    return [
        mean_gamma(credit),
        deep_gamma(credit, method),
        mean_null,
        deep_gamma(credit, method, "rho"),
        deep_gamma(credit, method, "nudge"),
        aggregation_collapse(credit),
    ]


AGGREGATIONS = (
    "mean, all l",
    "mean, l ≥ 1",
    "median, all l",
    "batch means, l ≥ 1",
    "concatenated, l ≥ 1",
)
"""Five ways in which Γ is given as one number (docs/protocol.md §12.5)."""


def aggregations(credit: Credit) -> list[float]:
    """Γ by each of `AGGREGATIONS`; NaN for what the credit table does not hold.

    >>> aggregations({"gamma": [0.75, 0.5, -0.5, None], "gamma_concatenated": 0.125})
    [0.25, 0.0, 0.5, nan, 0.125]
    """
    layers = _finite(_entry(credit, "gamma"))
    numbers = [mean_gamma(credit), _mean_over(credit, "gamma", {0}), math.nan]
    if layers:
        numbers[2] = median(sorted(layers))
    for name in ("gamma_of_batch_means", "gamma_concatenated"):
        numbers += _finite([_entry(credit, name)]) or [math.nan]
    return numbers
