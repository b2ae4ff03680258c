"""The published figures, computed from the published audits."""

import pytest

from fa_core.analysis.seeds import over_seeds
from fa_core.analysis.threshold_sweep import sensitivities, sensitivity
from fa_core.analysis.utility import decision_utility
from fa_core.formats import load_audits
from fa_core.report.diagnostics import LETTERS, TRUSTWORTHY
from tests.fa_core.strategies import assuming


@pytest.fixture(scope="module")
def resmlp(published_table):
    return load_audits([published_table])


def groups_of(runs):
    return {group.method: group for group in over_seeds(runs).groups}


def test_six_runs_are_trustworthy_and_every_verdict_equals_the_recorded_one(resmlp):
    verdicts = [row.report.verdict for row in resmlp.rows()]
    assert verdicts.count(TRUSTWORTHY) == 6
    assert verdicts == [row.report.recorded_verdict for row in resmlp.rows()]


def test_growth_and_gradient_norm_separate_by_the_published_gaps(resmlp):
    growth, gradient, *_ = found = sensitivities(resmlp)
    assert "".join(one.letter for one in found) == LETTERS
    ends = growth.healthy.max, growth.degenerate.min, *growth.plateau
    assert ends == pytest.approx((10.96098, 694.45754, 10.96098, 694.45754), abs=5e-6)
    ends = gradient.healthy.min, gradient.degenerate.max
    assert ends == pytest.approx((1.017407e-4, 4.180253e-9), rel=5e-7)
    assert growth.separable and gradient.separable
    assert (f"{growth.gap:.3f}", f"{gradient.gap:,.0f}") == ("63.357", "24,338")


def test_drift_is_not_separable(resmlp):
    found = sensitivity(resmlp, "c")
    assert (found.separable, found.gap, found.gap_interval) == (False, None, None)
    for group, expected in (
        (found.healthy, (-0.036, 0.12, 0.093)),
        (found.degenerate, (-0.005, 0.992, 0.352)),
    ):
        assert (group.min, group.max, group.median) == pytest.approx(expected, abs=5e-4)
    assert (found.degenerate.fired, found.degenerate.measured) == (5, 9)


def test_ep_fires_d_on_all_seeds_once_it_has_the_others_baseline(resmlp):
    given = assuming(resmlp, 0.349)
    assert given.margin_pp[given.method == "ep"].tolist() == [1.0, -5.66, -5.14]
    group = groups_of(given)["ep"]
    assert (group.fired["d"], group.verdict) == (3, "walk-back")


def test_utility_of_seed_42(resmlp):
    found = decision_utility(resmlp.select(resmlp.seed == 42))
    assert found.runs == 5
    caught = [len(one.walked_back) for one in found.strategies]
    assert caught == [0, 0, 3, 3, 2, 3, 3]
    drift = found.strategies[4]
    assert drift.walked_back == ("state_bridge_s42", "credit_bridge_s42")
    assert (drift.caught, drift.extra) == (pytest.approx(2 / 3), 0)


def test_seed_spread_is_the_published_sample_one(resmlp):
    group = groups_of(resmlp)["dfa"]
    acc = group.stats["headline_acc"]
    assert (acc.n, f"{acc.mean:.3f}", f"{acc.std:.3f}") == (3, "0.306", "0.008")
    assert (group.disagree, group.verdict) == ("c", "walk-back")
