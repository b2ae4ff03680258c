"""What every analysis answers where the data cannot support it: what is missing, and never a number made of nothing."""

import math
import warnings

import pytest

from fa_core.analysis.seeds import over_seeds
from fa_core.analysis.threshold_sweep import sensitivities
from fa_core.analysis.utility import decision_utility
from fa_core.report.diagnostics import LETTERS
from tests.fa_core.analysis.runs import row, table

USUAL = {"growth": 2.0, "g_L": 1e-3, "cosine": 0.1, "acc": 0.5, "baseline": 0.3}


def runs(**changed):
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
def case(request):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield CASES[request.param]


def numbers(value):
    """Every number in a result, however deep."""
    if isinstance(value, dict):
        for inner in value.values():
            yield from numbers(inner)
    elif isinstance(value, (list, tuple)):
        for inner in value:
            yield from numbers(inner)
    elif isinstance(value, float):
        yield value


def test_no_analysis_makes_a_nan_or_an_infinity_of_any_table(case):
    for result in (over_seeds(case), decision_utility(case), *sensitivities(case)):
        assert all(map(math.isfinite, numbers(result.to_dict()))), result


def test_what_was_not_measured_has_no_statistics(case):
    for group in over_seeds(case).groups:
        for letter, name in zip(LETTERS, ("growth", "g_L", "stability", "margin_pp"), strict=True):
            stat = group.stats[name]
            assert stat.n + stat.nonfinite == group.measured[letter]
            assert (stat.mean is None) is (stat.n == 0)
            assert (stat.std is None) is (stat.n < 2)


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1.0, 1e160, 1e300])
def test_mean_and_spread_lose_nothing_at_any_scale(scale):
    (group,) = over_seeds(table(*(row(seed=n, g_L=n * scale) for n in (1, 2, 3, 6)))).groups
    assert group.stats["g_L"].mean == pytest.approx(3 * scale, rel=1e-14)
    assert group.stats["g_L"].std == pytest.approx(math.sqrt(14 / 3) * scale, rel=1e-14)
