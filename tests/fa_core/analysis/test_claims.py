"""Claims over seeds: against SciPy's intervals, and what cannot be decided says why."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from fa_core.analysis.claims import (
    FAILS,
    HOLDS,
    UNDECIDED,
    Claim,
    check_claim,
    check_claims,
    read_claims,
)
from fa_core.analysis.student import student_cdf, student_quantile
from fa_core.errors import UnreadableInput
from fa_core.formats import load_audits
from fa_core.report import DiagnosticReport
from fa_core.rows import AuditRow


def rows(method: str, accs: list[float], first_seed: int = 1, **axes: float) -> list[AuditRow]:
    found = []
    for seed, acc in enumerate(accs, first_seed):
        report = DiagnosticReport(method_name=method, headline_acc=acc)
        found.append(
            AuditRow(
                source="a",
                key=f"{method}{seed}",
                method=method,
                seed=seed,
                report=report,
                axes=axes,
            )
        )
    return found


def grown(method: str, growths: list[float]) -> list[AuditRow]:
    return [
        AuditRow(
            source="a",
            key=f"{method}{seed}",
            method=method,
            seed=seed,
            report=DiagnosticReport(residual_norms=[1.0, growth]),
        )
        for seed, growth in enumerate(growths)
    ]


@pytest.mark.parametrize("freedom", [1, 2, 3, 4, 5, 9, 10, 31, 100])
def test_quantiles_are_scipys(freedom):
    for share in (0.01, 0.5, 0.8, 0.975, 0.9995):
        expected = stats.t.ppf(share, freedom)
        assert student_quantile(share, freedom) == pytest.approx(expected, rel=1e-12, abs=1e-12)
        assert student_cdf(expected, freedom) == pytest.approx(share, rel=1e-12)


def test_the_interval_of_a_mean_is_students():
    accs = [0.31, 0.33, 0.30]
    found = check_claim(Claim(method="dfa", metric="acc", at_least=0.2), rows("dfa", accs))
    low, high = stats.t.interval(0.95, 2, np.mean(accs), stats.sem(accs))
    assert (found.outcome, found.runs) == (HOLDS, 3)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.estimate == pytest.approx(np.mean(accs))


def test_the_smallest_effect_is_that_of_so_many_seeds():
    accs = [0.31, 0.33, 0.30, 0.35]
    found = check_claim(Claim(method="dfa", metric="acc", at_least=0.2), rows("dfa", accs))
    expected = (stats.t.ppf(0.975, 3) + stats.t.ppf(0.8, 3)) * stats.sem(accs)
    assert found.smallest_effect == pytest.approx(expected)


@pytest.mark.parametrize(("limit", "outcome"), [(0.2, HOLDS), (0.31, UNDECIDED), (0.4, FAILS)])
def test_at_least_holds_fails_or_is_undecided_by_the_whole_interval(limit, outcome):
    claim = Claim(method="dfa", metric="acc", at_least=limit)
    found = check_claim(claim, rows("dfa", [0.31, 0.33, 0.30]))
    assert found.outcome == outcome
    assert bool(found.why) == (outcome == UNDECIDED)


@pytest.mark.parametrize(
    ("middle", "within", "outcome"),
    [(0.31, 0.1, HOLDS), (0.31, 0.01, UNDECIDED), (0.9, 0.1, FAILS), (0.1, 0.1, FAILS)],
)
def test_equivalence_needs_the_whole_interval_inside(middle, within, outcome):
    claim = Claim(method="dfa", metric="acc", equivalent_to=middle, within=within)
    assert check_claim(claim, rows("dfa", [0.31, 0.33, 0.30])).outcome == outcome


def test_two_methods_are_compared_seed_by_seed():
    dfa, bp = [0.31, 0.33, 0.30], [0.61, 0.64, 0.60]
    claim = Claim(method="bp", versus="dfa", metric="acc", at_least=0.25)
    found = check_claim(claim, [*rows("bp", bp), *rows("dfa", dfa)])
    differences = np.subtract(bp, dfa)
    low, high = stats.t.interval(0.95, 2, differences.mean(), stats.sem(differences))
    assert (found.is_paired, found.outcome) == (True, HOLDS)
    assert (found.low, found.high) == pytest.approx((low, high))


def test_without_common_seeds_they_are_independent():
    claim = Claim(method="bp", versus="dfa", metric="acc", at_least=0.1)
    bp, dfa = [0.61, 0.64, 0.60], [0.31, 0.33]
    found = check_claim(claim, [*rows("bp", bp), *rows("dfa", dfa, first_seed=10)])
    error = math.hypot(stats.sem(bp), stats.sem(dfa))
    width = stats.t.ppf(0.975, 1) * error
    assert not found.is_paired
    assert found.high == pytest.approx(np.mean(bp) - np.mean(dfa) + width)


def test_ratios_have_geometric_means_and_are_compared_by_their_ratio():
    growths = [10.0, 1000.0, 100.0]
    found = check_claim(Claim(method="dfa", metric="growth", at_least=1.0), grown("dfa", growths))
    assert found.estimate == pytest.approx(100.0)
    logs = np.log(growths)
    low, high = stats.t.interval(0.95, 2, logs.mean(), stats.sem(logs))
    assert (found.low, found.high) == pytest.approx((math.exp(low), math.exp(high)))
    both = [*grown("dfa", growths), *grown("bp", [1.0, 100.0, 10.0])]
    claim = Claim(method="dfa", versus="bp", metric="growth", equivalent_to=10.0, within=1.5)
    ratio = check_claim(claim, both)
    assert (ratio.estimate, ratio.outcome) == (pytest.approx(10.0), HOLDS)


def test_one_seed_decides_nothing():
    found = check_claim(Claim(method="dfa", metric="acc", at_least=0.2), rows("dfa", [0.31]))
    assert (found.outcome, found.estimate, found.low) == (UNDECIDED, 0.31, None)
    assert "one run has no spread" in found.why


def test_equal_seeds_have_an_interval_of_no_width():
    found = check_claim(Claim(method="dfa", metric="acc", at_least=0.5), rows("dfa", [0.5, 0.5]))
    assert (found.outcome, found.low, found.high) == (HOLDS, 0.5, 0.5)


@pytest.mark.parametrize("growth", [float("nan"), float("inf"), 0.0])
def test_what_is_not_finite_decides_nothing_and_is_counted(growth):
    claim = Claim(method="dfa", metric="growth", at_most=50.0)
    found = check_claim(claim, grown("dfa", [2.0, growth]))
    assert found.outcome == UNDECIDED
    assert "in 1 run" in found.why


def test_what_was_not_measured_is_named():
    claim = Claim(method="dfa", metric="g_L", at_most=1.0)
    assert check_claim(claim, rows("dfa", [0.3, 0.4])).why == "no run of dfa with g_L"
    claim = Claim(method="dfa", versus="bp", metric="acc", at_most=1.0)
    assert check_claim(claim, rows("dfa", [0.3, 0.4])).why == "no run of bp; there are dfa"


def test_seeds_and_axes_choose_the_runs():
    every = [*rows("dfa", [0.3, 0.3, 0.9], lam=0.0), *rows("dfa", [0.1, 0.1], lam=0.01)]
    claim = Claim(method="dfa", metric="acc", at_least=0.2, seeds=[1, 2], axes={"lam": 0.0})
    found = check_claim(claim, every)
    assert (found.runs, found.estimate) == (2, pytest.approx(0.3))


def test_runs_of_two_recipes_with_one_seed_decide_nothing():
    every = [*rows("dfa", [0.3, 0.3], d=64), *rows("dfa", [0.9, 0.9], d=128)]
    found = check_claim(Claim(method="dfa", metric="acc", at_least=0.2), every)
    assert (found.outcome, found.estimate) == (UNDECIDED, None)
    assert found.why.startswith("seed 1 of dfa is there twice")
    chosen = Claim(method="dfa", metric="acc", at_least=0.2, axes={"d": 64})
    assert check_claim(chosen, every).outcome == HOLDS


def test_the_published_claims_hold_on_the_published_runs(sample_runs, published_table):
    claims = read_claims(sample_runs / "claims.toml")
    found = check_claims(claims, list(load_audits(published_table).rows()))
    outcomes = {result.claim.text: result.outcome for result in found}
    assert outcomes["BP's residual stream does not explode"] == HOLDS
    assert outcomes["DFA does not beat frozen blocks by 2 points"] == HOLDS
    assert outcomes["BP is more accurate than DFA by 20 points"] == HOLDS
    assert FAILS not in outcomes.values()


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", r"no \[\[claim\]\]"),
        ("claim = 3", r"no \[\[claim\]\]"),
        ("claim = [1]", "claim 1: not a table"),
        ("[[claim", "not TOML"),
        ("[[claim]]\nmethod='dfa'", "missing required field `metric`"),
        ("[[claim]]\nmethod='dfa'\nmetric='acc'", "needs one finite number"),
        ("[[claim]]\nmethod='dfa'\nmetric='accc'\nat_least=1", "did you mean acc"),
        ("[[claim]]\nmethod='dfa'\nmetric='acc'\nat_least=nan", "needs one finite number"),
        ("[[claim]]\nmethod='dfa'\nmetric='acc'\nat_least=1\nat_most=2", "needs one finite number"),
        ("[[claim]]\nmethod='dfa'\nmetric='acc'\nequivalent_to=1", "belong together"),
        ("[[claim]]\nmethod='dfa'\nmetric='growth'\nat_most=-1", "must be above 0"),
        ("[[claim]]\nmethod='dfa'\nmetric='growth'\nequivalent_to=1\nwithin=0.5", "within must"),
        ("[[claim]]\nmethod='dfa'\nmetric='acc'\nat_least='x'", "at_least"),
        ("[[claim]]\nmethod='dfa'\nmetric='acc'\nat_least=1\nd=[1]", "an axis has one value"),
    ],
)
def test_a_claim_that_cannot_be_meant_says_which_and_why(text, says, tmp_path: Path):
    path = tmp_path / "claims.toml"
    path.write_text(text)
    with pytest.raises(UnreadableInput, match=says):
        read_claims(path)


def test_a_seed_that_the_claim_names_and_no_run_has_leaves_it_undecided(
    published_table: Path,
) -> None:
    rows = load_audits([published_table]).rows()
    claim = Claim(method="bp", metric="growth", at_most=5.0, seeds=[42, 123, 7])
    result = check_claim(claim, list(rows))
    assert (result.outcome, result.why) == (UNDECIDED, "no run of bp with seed 7")
