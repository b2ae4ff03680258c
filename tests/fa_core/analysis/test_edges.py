"""What every analysis answers where the data cannot support it: what is missing, and never a number made of nothing."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from fa_core.analysis.partial_audits import margins_to_flip
from fa_core.analysis.seeds import over_seeds
from fa_core.analysis.threshold_sweep import plateau, sensitivities, verdict_curve
from fa_core.analysis.utility import decision_utility
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.judgement.diagnostics import LETTERS
from fa_core.table import AuditTable
from tests.fa_core.analysis.runs import row, table

T = DiagnosticThresholds()
USUAL = {"growth": 2.0, "g_L": 1e-3, "cosine": 0.1, "acc": 0.5, "baseline": 0.3}


def runs(**changed: float | None) -> AuditTable:
    """A healthy run and a degenerate one, two seeds each, with all of these numbers equal."""
    return table(
        *(row(method, seed, **{**USUAL, **changed}) for method in ("bp", "dfa") for seed in (1, 2))
    )


CASES = {
    "ordinary": runs(),
    "NaN": runs(**dict.fromkeys(USUAL, math.nan)),
    "infinite": runs(**dict.fromkeys(USUAL, math.inf)),
    "zero": runs(**dict.fromkeys(USUAL, 0.0)),
    "huge": runs(growth=1.5e308, g_L=1.5e308),
    "tiny": runs(growth=5e-324, g_L=5e-324),
    "no baseline": runs(baseline=None),
    "nothing measured": runs(**dict.fromkeys(USUAL)),
    "one seed": table(row("bp", 1, **USUAL)),
    "no seed": table(row("bp", None, **USUAL)),
    "no run": table(),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Iterator[AuditTable]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield CASES[request.param]


def numbers(value: Any) -> Iterator[float]:
    """Every number in a result, however deep."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from numbers(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from numbers(inner)
    elif isinstance(value, float):
        yield value


def test_no_analysis_makes_a_nan_or_an_infinity_of_any_table(case: AuditTable) -> None:
    for result in (over_seeds(case), decision_utility(case), *sensitivities(case)):
        assert all(map(math.isfinite, numbers(result.to_dict()))), result
    for letter in LETTERS:
        curve = verdict_curve(case, letter, T)
        assert all(map(math.isfinite, curve.points)) and len(curve.walk_backs)
        low, high = plateau(case, letter, T.h_norm_explosion_ratio)
        assert low <= high


def test_every_run_has_a_margin_for_all_four(case: AuditTable) -> None:
    for i in range(len(case)):
        margins, report = margins_to_flip(case.report(i)), case.report(i)
        assert [margin.letter for margin in margins] == list(LETTERS)
        for margin in margins:
            assert (margin.fires is None) is (margin.letter not in report.coverage)
            assert bool(margin.fires) is (margin.letter in report.flags)
            assert (margin.room is None) is (
                margin.letter not in report.coverage or margin.letter in report.nonfinite
            )


def test_what_was_not_measured_has_no_statistics(case: AuditTable) -> None:
    for group in over_seeds(case).groups:
        for letter, name in zip(LETTERS, ("growth", "g_L", "stability", "margin_pp"), strict=True):
            stat = group.stats[name]
            assert stat.n + stat.nonfinite == group.measured[letter]
            assert (stat.mean is None) is (stat.n == 0)
            assert (stat.std is None) is (stat.n < 2)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1.0, 1e160, 1e300])
def test_mean_and_spread_lose_nothing_at_any_scale(scale: float) -> None:
    (group,) = over_seeds(table(*(row(seed=n, g_L=n * scale) for n in (1, 2, 3, 6)))).groups
    assert group.stats["g_L"].mean == pytest.approx(3 * scale, rel=1e-14)
    assert group.stats["g_L"].std == pytest.approx(math.sqrt(14 / 3) * scale, rel=1e-14)
