"""Intervals against SciPy, closed forms and code of the tests' own; what a report and its verdict say of them."""

import math
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from torch import nn

from fa_core import diagnose
from fa_core.errors import InvalidReport
from fa_core.measure.accumulator import bounds_of_medians, drift
from fa_core.measure.norms import lower_median
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.intervals import (
    LOOKS,
    at_reference_batch,
    drift_interval,
    growth_interval,
    median_ranks,
    noise_scale,
    packed,
    paired_margin,
    share_interval,
    t_quantile,
)
from fa_core.report.thresholds import DiagnosticThresholds


@pytest.mark.parametrize("n", [6, 7, 32, 128, 129, 360, 1000, 1001, 1280, 100_000])
def test_the_median_lies_between_the_ranks_at_least_as_often_as_said(n):
    ranks = median_ranks(n)
    assert ranks[0] == n - 1 - ranks[1]
    below = stats.binom.cdf(ranks[0], n, 0.5)
    assert 1 - 2 * below >= 0.95 - (1e-3 if n > 1000 else 0)
    # the next closer pair would not do; the normal approximation may be one place too careful
    assert 1 - 2 * stats.binom.cdf(ranks[0] + (2 if n > 1000 else 1), n, 0.5) < 0.95


def test_what_says_nothing_has_no_interval():
    for n in (0, 1, 5, 6, 19):
        assert (median_ranks(n) is None) is (n < 6)
        assert growth_interval([1.0, 2.0], [1.0, 2.0], [1.0, 2.0], [1.0], n) is None
    for deep in (math.nan, math.inf, 0.0, 1e-31):
        assert growth_interval([3.0, deep], [2.0, deep], [4.0, deep], [0.0], 128) is None
    for sums in ([1.0, math.nan, 1.0], [1.0, 1.0], []):
        assert drift_interval(0.5, sums) is None
    for other in ("", "3:BQ==", "x:BQ==", "10:?"):
        assert paired_margin(packed([True] * 10), other) is None


@pytest.mark.parametrize("freedom", [5, 7, 9, 19, 99])
def test_students_quantile(freedom):
    assert t_quantile(freedom) == pytest.approx(
        stats.t.ppf(0.975, freedom), abs=1e-3 if freedom < 7 else 2e-4
    )


def test_wilsons_interval():
    for hits, n in ((0, 10), (10, 10), (180, 360), (6200, 10_000)):
        expected = stats.binomtest(hits, n).proportion_ci(0.95, method="wilson")
        assert share_interval(hits, n) == pytest.approx((expected.low, expected.high), abs=1e-9)


def jackknife(gram, t):
    """The mean cosine over pairs and its jackknife, every batch left out once."""

    def mean_cosine(kept):
        return float(np.mean([gram[i, j] for i in kept for j in kept if i < j]))

    k = len(gram)
    whole = mean_cosine([*range(k)])
    without = np.array(
        [mean_cosine([i for i in range(k) if i != left_out]) for left_out in range(k)]
    )
    pseudo = k * whole - (k - 1) * without
    half = t * pseudo.std(ddof=1) / math.sqrt(k)
    return whole - half, whole + half


@pytest.mark.parametrize("signal", [0.0, 0.7])
def test_the_jackknife_of_the_drift_written_out(signal):
    units = np.random.default_rng(0).normal(size=(10, 6)) + signal
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    seen = units @ units.T
    one_more = np.zeros((11, 11))
    one_more[:10, :10] = seen
    t = stats.t.ppf(0.975, 9)
    ends = [jackknife(gram, t) for gram in (seen, one_more)]
    expected = min(low for low, _ in ends), max(high for _, high in ends)
    sums = seen.sum(axis=1) - 1
    assert drift_interval(sums.sum() / 90, sums.tolist()) == pytest.approx(expected, abs=1e-4)


def test_equal_batches_do_not_show_that_every_batch_is_alike():
    few, more = (drift_interval(1.0, [k - 1.0] * k) for k in (10, 40))
    assert few[1] == more[1] == 1.0
    assert 0.2 < few[0] < 0.6 < more[0] < 1.0


def test_growth_takes_the_pairing_of_samples_into_account():
    bounds = ([1.0, 40.0], [0.8, 32.0], [1.25, 50.0])
    apart, alike = (growth_interval(*bounds, [r], 128) for r in (0.0, 0.99))
    assert apart[0] < alike[0] < 40.0 < alike[1] < apart[1]
    # independent medians: the errors of the logarithms add in squares
    spread = (
        math.sqrt(2) * math.log(1.25) * 1.96 / stats.norm.ppf(1 - stats.binom.cdf(52, 128, 0.5))
    )
    assert apart[1] == pytest.approx(40 * math.exp(spread), rel=1e-3)


def test_a_growth_interval_beyond_all_floats_ends_at_the_largest():
    low, high = growth_interval([1e-20, 1e280], [1e-29, 1e200], [1e-10, 1e308], [0.0], 128)
    assert low <= 1e300 <= high == sys.float_info.max
    assert growth_interval([1e-30, 1e300], [1e-30, 1e290], [1e-20, 1e308], [0.0], 128) is None


def score_of(difference, b, c, n):
    """(b − c − n·δ) over its standard error at the likeliest shares that differ by δ, found on a fine grid."""
    shares = np.linspace(max(0.0, -difference), (1 - difference) / 2, 200_001)[1:-1]
    likelihood = (
        b * np.log(shares + difference)
        + c * np.log(shares)
        + (n - b - c) * np.log1p(-2 * shares - difference)
    )
    likeliest = shares[likelihood.argmax()]
    gap = b - c - n * difference
    beyond = math.copysign(max(abs(gap) - 0.5, 0.0), gap)
    return float(beyond / math.sqrt(n * (2 * likeliest + difference * (1 - difference))))


@pytest.mark.parametrize(("b", "c", "n"), [(9, 3, 360), (12, 4, 100), (20, 20, 60), (1, 7, 30)])
def test_the_ends_of_a_paired_margin_are_where_the_score_is_z(b, c, n):
    alike = n - b - c
    found = paired_margin(
        packed([True] * b + [False] * c + [True] * alike), packed([False] * b + [True] * (n - b))
    )
    low, high = found
    assert score_of(low / 100, b, c, n) == pytest.approx(1.96, abs=0.01)
    assert score_of(high / 100, b, c, n) == pytest.approx(-1.96, abs=0.01)


def test_the_drift_at_another_batch_size_follows_the_noise_scale():
    for scale in (20.0, 364.0, 5000.0):
        at = {b: 1 / (1 + scale / b) for b in (32, 128, 1000)}
        assert at_reference_batch(at[1000], 1000) == pytest.approx(at[128])
        assert at_reference_batch(at[32], 32) == pytest.approx(at[128])
        assert noise_scale(at[1000], 1000) == pytest.approx(scale)
    assert math.isinf(noise_scale(-0.1, 128)) and math.isinf(noise_scale(0.0, 128))


def measured(growth=4.0):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3))
    batches = [(torch.randn(64, 8), torch.randint(3, (64,))) for _ in range(8)]
    return diagnose(net, batches, taps="0,1", frozen_baseline_acc=0.3)


def test_every_number_of_an_audit_has_an_interval_around_it():
    report = measured()
    for letter, value in report.numbers.items():
        ends = report.interval(letter)
        assert ends[0] <= value <= ends[1], letter
    assert report.intervals["acc"] == share_interval(round(report.headline_acc * 512), 512)
    assert report == DiagnosticReport.from_dict(report.to_dict()) or "verdict" in report.to_dict()


NORMS = st.floats(0, 1e308) | st.sampled_from(
    [0.0, 1e-310, 1e-45, 1e-30, 6e-8, 1.0, math.nan, math.inf]
)
ROWS = st.integers(1, 40).flatmap(
    lambda n: st.lists(st.lists(NORMS, min_size=n, max_size=n), min_size=2, max_size=4)
)


@given(ROWS, st.sampled_from([np.float16, np.float32, np.float64]))
def test_growth_and_gradient_lie_in_their_intervals_whatever_was_measured(rows, arithmetic):
    with np.errstate(over="ignore"):
        h = torch.tensor(np.array(rows).astype(arithmetic).astype(np.float64))
    medians = lower_median(h)
    lows, highs, agreement = bounds_of_medians(h, h[-1])
    ends = growth_interval(medians.tolist(), lows[:-1], highs[:-1], agreement, h.shape[1])
    growth = DiagnosticReport(residual_norms=medians.tolist()).max_per_block_growth
    assert ends is None or (math.isfinite(ends[1]) and ends[0] <= growth <= ends[1])
    assert (
        median_ranks(h.shape[1]) is None
        or math.isnan(medians[-1])
        or lows[-1] <= medians[-1] <= highs[-1]
    )


@given(
    st.integers(3, 12).flatmap(
        lambda k: st.lists(st.lists(NORMS, min_size=3, max_size=3), min_size=k, max_size=k)
    ),
    st.integers(1, 12),
)
def test_the_drift_lies_in_its_interval_whatever_was_measured(rows, equal):
    rows[:equal] = [rows[0]] * len(rows[:equal])
    found = drift(torch.tensor(rows, dtype=torch.float64), least=3)
    if found.interval is not None:
        assert -1 <= found.interval[0] <= found.value <= found.interval[1] <= 1


@given(st.integers(1, 60).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))), st.data())
def test_accuracy_and_margin_lie_in_their_intervals_whatever_was_counted(counted, data):
    hits, n = counted
    low, high = share_interval(hits, n)
    assert 0 <= low <= hits / n <= high <= 1 and low < high
    ours, theirs = (data.draw(st.lists(st.booleans(), min_size=n, max_size=n)) for _ in range(2))
    report = DiagnosticReport(headline_acc=sum(ours) / n, frozen_baseline_acc=sum(theirs) / n)
    low, high = paired_margin(packed(ours), packed(theirs))
    assert -100 <= low <= report.margin_pp <= high <= 100 and low < high


def test_a_threshold_within_the_interval_is_undecided_and_leaves_the_verdict_text_alone():
    report = measured()
    low, high = report.interval("c")
    for ceiling, undecided in ((low - 0.01, ""), ((low + high) / 2, "c"), (high + 0.01, "")):
        judged = report.with_thresholds(
            DiagnosticThresholds(stability_drift_ceiling=ceiling, frozen_acc_margin_pp=-90)
        )
        assert "".join(sorted(judged.undecided)) == undecided
        assert "undecided" not in judged.verdict
        assert ("undecided on c" in str(judged)) is bool(undecided)


def test_a_number_that_is_not_finite_fires_and_is_never_undecided():
    report = DiagnosticReport(cross_batch_stability=math.nan, intervals={"stability": (0.1, 0.5)})
    assert (report.flags, report.undecided) == ({"c"}, frozenset())


def test_an_assumed_baseline_takes_the_interval_of_the_accuracy():
    report = DiagnosticReport(
        headline_acc=0.6,
        frozen_baseline_acc=0.5,
        intervals={"acc": (0.57, 0.63), "margin_pp": (9.0, 11.0)},
    )
    assert report.interval("d") == (9.0, 11.0)
    assert report.with_assumed_baseline(0.58).interval("d") == pytest.approx((-1.0, 5.0))
    assert report.with_assumed_baseline(0.58).undecided == {"d"}
    assert report.with_frozen_baseline(0.58).interval("d") == pytest.approx((-1.0, 5.0))


def test_b_and_c_are_said_at_the_batch_size_of_their_thresholds():
    report = DiagnosticReport(
        bp_grad_norms=[1e-3, 2e-8], cross_batch_stability=0.68, batch_size=1000
    )
    text = str(report)
    assert "B = 1000, at B = 128 it is 1.56e-7" in text
    assert "B = 1000, at B = 128 it is +0.214" in text
    assert "at B = 128" not in str(DiagnosticReport(bp_grad_norms=[1e-3, 2e-8], batch_size=128))


@pytest.mark.parametrize("ends", [[2.0, 1.0], [math.nan, 1.0]])
def test_an_interval_out_of_order_is_refused_with_its_place(ends):
    with pytest.raises(InvalidReport, match=r"intervals\.growth is .*low end first"):
        DiagnosticReport.from_dict({"residual_norms": [1.0, 1.5], "intervals": {"growth": ends}})


def test_the_looks_of_sequential_stopping_share_five_percent():
    for k, t in LOOKS.items():
        assert t == pytest.approx(stats.t.ppf(1 - 0.05 / (2 * len(LOOKS)), k - 1), abs=1e-4)
