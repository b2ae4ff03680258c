"""The published figures, computed from the published audits."""

import numpy as np
import pytest

from fa_core.analysis.partial_audits import unmeasured_letters
from fa_core.analysis.seeds import over_seeds
from fa_core.analysis.threshold_sweep import sensitivities, sensitivity, verdict_curve
from fa_core.analysis.utility import decision_utility
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.formats import load_audits
from fa_core.judgement.diagnostics import LETTERS
from fa_core.judgement.verdict import TRUSTWORTHY
from tests.fa_core.strategies import assuming


@pytest.fixture(scope="module")
def resmlp(published_table):
    return load_audits([published_table])


@pytest.fixture(scope="module")
def cnn(published_cnn):
    return load_audits([published_cnn])


def test_six_runs_are_trustworthy_and_every_verdict_equals_the_recorded_one(
    resmlp,
):
    verdicts = resmlp.verdicts()
    assert verdicts.count(TRUSTWORTHY) == 6
    assert verdicts == resmlp.recorded_verdict.tolist()


def test_growth_separates_by_63_357_with_the_published_plateau(resmlp):
    found = sensitivity(resmlp, "a")
    assert found.separable is True
    assert found.healthy.max == pytest.approx(10.96098, abs=5e-6)
    assert found.degenerate.min == pytest.approx(694.45754, abs=5e-6)
    assert f"{found.gap:.3f}" == "63.357"
    assert found.plateau is not None
    assert [round(end, 3) for end in found.plateau if end is not None] == [10.961, 694.458]


def test_gradient_norm_separates_by_24338(resmlp):
    found = sensitivity(resmlp, "b")
    assert found.healthy.min == pytest.approx(1.017407e-4, rel=5e-7)
    assert found.degenerate.max == pytest.approx(4.180253e-9, rel=5e-7)
    assert f"{found.gap:,.0f}" == "24,338"


def test_drift_is_not_separable(resmlp):
    found = sensitivity(resmlp, "c")
    assert found.separable is False
    assert found.gap is None and found.gap_interval is None
    assert any("not separable" in note for note in found.skipped)
    healthy, degenerate = found.healthy, found.degenerate
    rounded = [
        None if v is None else round(v, 3) for v in (healthy.min, healthy.max, healthy.median)
    ]
    assert rounded == [-0.036, 0.12, 0.093]
    rounded = [
        None if v is None else round(v, 3)
        for v in (degenerate.min, degenerate.max, degenerate.median)
    ]
    assert rounded == [-0.005, 0.992, 0.352]
    assert (degenerate.fired, degenerate.measured) == (5, 9)
    assert verdict_curve(resmlp, "c", DiagnosticThresholds()).at(0.5)[0] == 3


def test_margin_fires_on_all_nine_runs_with_a_baseline_and_has_no_gap(resmlp):
    found = sensitivity(resmlp, "d")
    assert (found.degenerate.fired, found.degenerate.measured) == (9, 9)
    assert found.healthy.measured == 0
    assert found.separable is None and found.gap is None
    assert any("--frozen-baseline" in note for note in found.skipped)


def test_ep_fires_d_on_all_seeds_once_it_has_the_others_baseline(resmlp):
    given = assuming(resmlp, 0.349)
    ep = given.method == "ep"
    assert given.margin_pp[ep].tolist() == [1.0, -5.66, -5.14]
    group = next(g for g in over_seeds(given).groups if g.method == "ep")
    assert (group.fired["d"], group.verdict) == (3, "walk-back")


def test_utility_of_seed_42(resmlp):
    found = decision_utility(resmlp.select(resmlp.seed == 42))
    caught = {one.name: len(one.walked_back) for one in found.strategies}
    assert found.runs == 5
    assert caught == {"S0": 0, "S1": 0, "S2": 3, "S3": 3, "S4": 2, "S5": 3, "S_full": 3}
    drift = next(one for one in found.strategies if one.name == "S4")
    assert drift.walked_back == ("state_bridge_s42", "credit_bridge_s42")
    assert drift.agreement == pytest.approx(2 / 3)
    assert found.smallest_sets == ("a", "b", "d")


def test_cnn_mean_growth_and_fires(cnn):
    groups = {group.method: group for group in over_seeds(cnn).groups}
    mean = {method: group.stats["growth"].mean for method, group in groups.items()}
    shown = {method: float(f"{value:.3g}") for method, value in mean.items() if value is not None}
    assert shown == {"bp": 1.31, "state_bridge": 2.4, "ep": 11.6, "credit_bridge": 96.4, "dfa": 237}
    assert {method: group.fired["a"] for method, group in groups.items()} == {
        "bp": 0,
        "dfa": 3,
        "state_bridge": 0,
        "credit_bridge": 3,
        "ep": 0,
    }
    assert all(group.fired[letter] == 0 for group in groups.values() for letter in "bcd")
    assert unmeasured_letters(cnn) == dict.fromkeys(cnn.methods, "cd")


def test_seed_spread_is_the_published_sample_one(resmlp):
    group = next(g for g in over_seeds(resmlp).groups if g.method == "dfa")
    acc = group.stats["headline_acc"]
    assert acc.n == 3
    assert f"{acc.mean:.3f}" == "0.306"
    assert acc.std == pytest.approx(np.std(resmlp.acc[resmlp.method == "dfa"], ddof=1))
    assert f"{acc.std:.3f}" == "0.008"
    assert group.disagree == "c"
    assert group.verdict == "walk-back"


def test_all_four_diagnostics_are_swept_in_order(resmlp):
    assert "".join(one.letter for one in sensitivities(resmlp)) == LETTERS
