"""Intervals against SciPy, closed forms and code of the tests' own; what a report and its verdict say of them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch import nn

from fa_core import diagnose
from fa_core.diagnostics import DiagnosticThresholds
from fa_core.errors import InvalidReport
from fa_core.intervals import (
    at_reference_batch,
    drift_interval,
    exact_share_interval,
    growth_interval,
    median_ranks,
    noise_scale,
    packed,
    paired_margin,
    share_interval,
    t_quantile,
)
from fa_core.report import DiagnosticReport


@pytest.mark.parametrize("n", [6, 7, 32, 128, 129, 360, 1000, 1001, 1280, 100_000])
def test_the_median_lies_between_the_ranks_at_least_as_often_as_said(n: int) -> None:
    ranks = median_ranks(n)
    assert ranks is not None and ranks[0] == n - 1 - ranks[1]
    below = stats.binom.cdf(ranks[0], n, 0.5)
    assert 1 - 2 * below >= 0.95 - (1e-3 if n > 1000 else 0)
    # the next closer pair would not do; the normal approximation may be one place too careful
    assert 1 - 2 * stats.binom.cdf(ranks[0] + (2 if n > 1000 else 1), n, 0.5) < 0.95


@pytest.mark.parametrize("n", range(6))
def test_too_few_samples_have_no_interval(n: int) -> None:
    assert median_ranks(n) is None
    assert growth_interval([1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [1.0], n) is None


@pytest.mark.parametrize("freedom", [5, 7, 9, 19, 99])
def test_students_quantile(freedom: int) -> None:
    assert t_quantile(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), abs=1e-3 if freedom < 7 else 2e-4)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 40])
def test_exact_bounds_of_a_share(n: int) -> None:
    for hits in range(n + 1):
        expected = stats.binomtest(hits, n).proportion_ci(0.95, method="exact")
        assert exact_share_interval(hits, n) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_wilsons_interval() -> None:
    for hits, n in ((0, 10), (10, 10), (180, 360), (6200, 10_000)):
        expected = stats.binomtest(hits, n).proportion_ci(0.95, method="wilson")
        assert share_interval(hits, n) == pytest.approx((expected.low, expected.high), abs=1e-9)


def test_the_jackknife_of_the_drift_written_out() -> None:
    units = np.random.default_rng(0).normal(size=(10, 6)) + 0.7
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    gram = units @ units.T

    def mean_cosine(kept: list[int]) -> float:
        return float(np.mean([gram[i, j] for i in kept for j in kept if i < j]))

    everyone = list(range(10))
    whole = mean_cosine(everyone)
    without = np.array([mean_cosine([i for i in everyone if i != k]) for k in everyone])
    pseudo = 10 * whole - 9 * without
    half = stats.t.ppf(0.975, 9) * pseudo.std(ddof=1) / math.sqrt(10)
    found = drift_interval((gram.sum(axis=1) - 1).tolist())
    assert found == pytest.approx((whole - half, whole + half), abs=1e-4)


@pytest.mark.parametrize("sums", [[1.0, math.nan, 1.0], [1.0, 1.0], []])
def test_a_drift_that_says_nothing_has_no_interval(sums: list[float]) -> None:
    assert drift_interval(sums) is None


def test_equal_batches_have_an_interval_without_width() -> None:
    assert drift_interval([9.0] * 10) == pytest.approx((1.0, 1.0))


def test_growth_takes_the_pairing_of_samples_into_account() -> None:
    bounds = ([1.0, 40.0], [0.8, 32.0], [1.25, 50.0])
    apart, alike = (growth_interval(*bounds, [r], 128) for r in (0.0, 0.99))
    assert apart is not None and alike is not None
    assert apart[0] < alike[0] < 40.0 < alike[1] < apart[1]
    # independent medians: the errors of the logarithms add in squares
    spread = math.sqrt(2) * math.log(1.25) * 1.96 / stats.norm.ppf(1 - stats.binom.cdf(52, 128, 0.5))
    assert apart[1] == pytest.approx(40 * math.exp(spread), rel=1e-3)


@pytest.mark.parametrize("broken", [math.nan, math.inf])
def test_a_norm_that_is_not_finite_leaves_growth_without_an_interval(broken: float) -> None:
    assert growth_interval([1.0, broken], [1.0, broken], [1.0, broken], [1.0], 128) is None


def test_zero_norms_are_bounded_as_the_growth_ratio_is() -> None:
    found = growth_interval([0.0, 1.0], [0.0, 1.0], [0.0, 1.0], [0.0], 128)
    assert found == pytest.approx((1e30, 1e30))


def test_a_growth_beyond_all_floats_is_bounded_by_the_largest() -> None:
    low, high = growth_interval([1e-30, 1e300], [1e-30, 1e290], [1e-20, 1e308], [0.0], 128) or (0.0, 0.0)
    assert 1e290 < low <= high < math.inf


def test_a_paired_margin_knows_which_samples_differ() -> None:
    generator = np.random.default_rng(1)
    ours, theirs = generator.random(360) < 0.99, generator.random(360) < 0.97
    found = paired_margin(packed(ours.tolist()), packed(theirs.tolist()))
    difference = ours.astype(float) - theirs.astype(float)
    half = stats.norm.ppf(0.975) * difference.std() / math.sqrt(360)
    assert found == pytest.approx((100 * (difference.mean() - half), 100 * (difference.mean() + half)), abs=1e-9)


@pytest.mark.parametrize("other", ["", "3:BQ==", "x:BQ==", "10:?"])
def test_samples_that_do_not_pair_have_no_margin(other: str) -> None:
    assert paired_margin(packed([True] * 10), other) is None


def test_equal_answers_still_leave_a_doubt() -> None:
    low, high = paired_margin(packed([True] * 100), packed([True] * 100)) or (0.0, 0.0)
    assert -2.0 < low < 0.0 < high < 2.0


def test_the_drift_at_another_batch_size_follows_the_noise_scale() -> None:
    for scale in (20.0, 364.0, 5000.0):
        at = {b: 1 / (1 + scale / b) for b in (32, 128, 1000)}
        assert at_reference_batch(at[1000], 1000) == pytest.approx(at[128])
        assert at_reference_batch(at[32], 32) == pytest.approx(at[128])
        assert noise_scale(at[1000], 1000) == pytest.approx(scale)
    assert math.isinf(noise_scale(-0.1, 128)) and math.isinf(noise_scale(0.0, 128))


def measured(growth: float = 4.0) -> DiagnosticReport:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))
    batches = [(torch.randn(64, 8), torch.randint(3, (64,))) for _ in range(8)]
    return diagnose(net, batches, taps="0,1", frozen_baseline_acc=0.3)


def test_every_number_of_an_audit_has_an_interval_around_it() -> None:
    report = measured()
    for letter, value in report.numbers.items():
        ends = report.interval(letter)
        assert ends is not None and value is not None and ends[0] <= value <= ends[1], letter
    assert report.intervals["acc"] == share_interval(round(report.headline_acc * 512), 512)
    assert report == DiagnosticReport.from_dict(report.to_dict()) or "verdict" in report.to_dict()


def test_a_threshold_within_the_interval_is_undecided_and_leaves_the_verdict_text_alone() -> None:
    report = measured()
    low, high = report.interval("c") or (0.0, 0.0)
    for ceiling, undecided in ((low - 0.01, ""), ((low + high) / 2, "c"), (high + 0.01, "")):
        judged = report.with_thresholds(DiagnosticThresholds(stability_drift_ceiling=ceiling, frozen_acc_margin_pp=-90))
        assert "".join(sorted(judged.undecided)) == undecided
        assert "undecided" not in judged.verdict
        assert ("undecided on c" in str(judged)) is bool(undecided)


def test_a_report_without_intervals_is_decided_by_its_points() -> None:
    report = DiagnosticReport(residual_norms=[1.0, 50.1], bp_grad_norms=[1e-3, 1e-7], cross_batch_stability=0.3)
    assert not report.undecided
    assert report.flags == {"a"}


def test_a_number_that_is_not_finite_fires_and_is_never_undecided() -> None:
    report = DiagnosticReport(cross_batch_stability=math.nan, intervals={"stability": (0.1, 0.5)})
    assert (report.flags, report.undecided) == ({"c"}, frozenset())


def test_an_assumed_baseline_takes_the_interval_of_the_accuracy() -> None:
    report = DiagnosticReport(
        headline_acc=0.6, frozen_baseline_acc=0.5, intervals={"acc": (0.57, 0.63), "margin_pp": (9.0, 11.0)}
    )
    assert report.interval("d") == (9.0, 11.0)
    assert report.with_assumed_baseline(0.58).interval("d") == pytest.approx((-1.0, 5.0))
    assert report.with_assumed_baseline(0.58).undecided == {"d"}
    assert report.with_frozen_baseline(0.58).interval("d") == pytest.approx((-1.0, 5.0))


def test_b_and_c_are_said_at_the_batch_size_of_their_thresholds() -> None:
    report = DiagnosticReport(bp_grad_norms=[1e-3, 2e-8], cross_batch_stability=0.68, batch_size=1000)
    text = str(report)
    assert "B = 1000, at B = 128 it is 1.56e-7" in text
    assert "B = 1000, at B = 128 it is +0.214" in text
    assert "at B = 128" not in str(DiagnosticReport(bp_grad_norms=[1e-3, 2e-8], batch_size=128))


@pytest.mark.parametrize("ends", [[2.0, 1.0], [math.nan, 1.0]])
def test_an_interval_out_of_order_is_refused_with_its_place(ends: list[float]) -> None:
    with pytest.raises(InvalidReport, match=r"intervals\.growth is .*low end first"):
        DiagnosticReport.from_dict({"residual_norms": [1.0, 1.5], "intervals": {"growth": ends}})
