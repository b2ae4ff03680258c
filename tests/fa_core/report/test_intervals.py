"""Intervals against SciPy, closed forms and code of the tests' own; what a report and its verdict say of them."""

import math
import statistics
from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from scipy import stats
from torch import nn

from fa_core import diagnose
from fa_core.errors import InvalidReport
from fa_core.measure.accumulator import drift
from fa_core.measure.norms import growth_interval, lower_median
from fa_core.report.diagnostic_record import record_of
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.intervals import (
    LOOKS,
    Z_OF_LOOKS,
    Z_OF_ONE,
    drift_interval,
    is_on_a_line,
    median_ranks,
    noise_scale,
    packed,
    paired_margin,
    share_interval,
    t_quantile,
)
from fa_core.report.report_facts import DiagnosticThresholds


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
    for cosines in (np.full((3, 3), math.nan).tolist(), [[1.0, 0.5], [0.5, 1.0]], []):
        assert drift_interval(0.5, cosines) is None
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


def cosines_of(vectors):
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return (units @ units.T).tolist()


@pytest.mark.parametrize("z", [Z_OF_ONE, Z_OF_LOOKS])
@pytest.mark.parametrize("signal", [0.0, 0.7])
def test_the_two_terms_of_the_drifts_variance_written_out(signal, z):
    cosines = cosines_of(np.random.default_rng(0).normal(size=(10, 6)) + signal)
    pairs = [cosines[i][j] for i in range(10) for j in range(i)]
    means = [np.mean([cosines[i][j] for j in range(10) if j != i]) for i in range(10)]
    variance = 4 * 8 / 90 * np.var(means, ddof=1) + 2 / 90 * np.var(pairs, ddof=1)
    half, wider = (t_quantile(freedom, z) * math.sqrt(variance) for freedom in (9, 3))
    middle = float(np.mean(pairs))
    low, high = drift_interval(middle, cosines, z)
    stretched = np.tanh(np.arctanh(middle) - wider / (1 - middle**2))
    assert high == pytest.approx(middle + half, abs=1e-9)
    assert low == pytest.approx(min(middle - half, stretched), abs=1e-9)


def test_near_a_line_the_high_end_is_the_largest_drift_that_leaves_the_measured_one_possible():
    cosines = one_line(20, 8, noise=0.6)
    pairs = [cosines[i][j] for i in range(20) for j in range(i)]
    middle, root = float(np.mean(pairs)), math.sqrt(np.mean(np.square(pairs)))
    _, high = drift_interval(middle, cosines)
    assert 0.5 < root**2 < 0.8 and 0 < high < root
    own = 4 * 18 / 380 * high * (root - high) + 2 / 380 * np.var(pairs, ddof=1)
    assert high - middle == pytest.approx(t_quantile(19) * math.sqrt(own), abs=1e-9)


def one_line(batches, flipped, noise=0.0):
    """Cosines of batches that point along one line, some of them backwards."""
    units = np.random.default_rng(0).normal(size=(batches, 64)) * noise / 8
    units[:, 0] += np.where(np.arange(batches) < flipped, -1, 1)
    return cosines_of(units)


def mean_pair(cosines):
    return (np.sum(cosines) - len(cosines)) / (len(cosines) * (len(cosines) - 1))


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_batches_on_one_line_say_nothing_below_twenty_and_no_more_than_their_signs_above(noise):
    for batches, flipped in ((8, 0), (10, 3), (19, 0)):
        cosines = one_line(batches, flipped, noise)
        assert drift_interval(mean_pair(cosines), cosines) == (-1.0, 1.0)
    for batches, flipped in ((20, 0), (20, 2), (40, 20)):
        cosines = one_line(batches, flipped, noise)
        middle = mean_pair(cosines)
        low, high = drift_interval(middle, cosines)
        share = stats.binomtest(batches - flipped, batches).proportion_ci(0.95, method="wilson")
        least = 0 if share.low < 0.5 else (2 * share.low - 1) ** 2
        assert low <= least + 1e-9 and low <= middle <= high
    apart = cosines_of(np.random.default_rng(0).normal(size=(10, 64)) + 1.0)
    assert not is_on_a_line(apart) and drift_interval(mean_pair(apart), apart)[0] > 0.3


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
        pairs = combinations([32, 1000, 1000], 2)
        mixed = statistics.mean(math.sqrt(at[one] * at[other]) for one, other in pairs)
        for cosine, sizes in ((at[1000], [1000]), (at[32], [32]), (mixed, [32, 1000, 1000])):
            assert noise_scale(cosine, sizes) == pytest.approx(scale)


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


NORMS = st.floats(0, 1e308) | st.sampled_from(
    [0.0, 1e-310, 1e-45, 1e-30, 6e-8, 1.0, math.nan, math.inf]
)
ROWS = st.integers(1, 40).flatmap(
    lambda n: st.lists(st.lists(NORMS, min_size=n, max_size=n), min_size=2, max_size=4)
)


@given(ROWS, st.sampled_from([np.float16, np.float32, np.float64]))
def test_growth_lies_in_its_interval_whatever_was_measured(rows, arithmetic):
    with np.errstate(over="ignore"):
        h = torch.tensor(np.array(rows).astype(arithmetic).astype(np.float64))
    ends = growth_interval(h)
    growth = DiagnosticReport(residual_norms=lower_median(h).tolist()).max_per_block_growth
    assert ends is None or (math.isfinite(ends[1]) and ends[0] <= growth <= ends[1])
    if math.isfinite(growth) and growth > 0 and h.shape[1] >= 20:
        assert ends is not None


@given(
    st.integers(8, 12).flatmap(
        lambda k: st.lists(st.lists(NORMS, min_size=3, max_size=3), min_size=k, max_size=k)
    ),
    st.integers(1, 12),
)
def test_the_drift_lies_in_its_interval_whatever_was_measured(rows, equal):
    rows[:equal] = [rows[0]] * len(rows[:equal])
    found = drift(torch.tensor(rows, dtype=torch.float64))
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


def test_an_assumed_baseline_takes_the_interval_of_the_accuracy():
    report = DiagnosticReport(
        headline_acc=0.6,
        frozen_baseline_acc=0.5,
        intervals={"acc": (0.57, 0.63), "margin_pp": (9.0, 11.0)},
    )
    assert report.interval("d") == (9.0, 11.0)
    moved = replace(report, headline_acc=0.7)
    said = [record_of(run, "d").remarks for run in (report, moved)]
    assert said == [[], ["lies outside its own interval"]]
    # what the number and its interval decide differently is open
    limits = [DiagnosticThresholds(frozen_acc_margin_pp=limit) for limit in (8, 10, 15, 25)]
    states = [moved.with_thresholds(limit).states["d"] for limit in limits]
    assert states == ["passes", "undecided", "undecided", "fires"]
    assert report.with_assumed_baseline(0.58).interval("d") == pytest.approx((-1.0, 5.0))
    assert report.with_assumed_baseline(0.58).undecided == {"d"}
    assert report.with_frozen_baseline(0.58).interval("d") == pytest.approx((-1.0, 5.0))


def test_b_and_c_are_said_at_the_batch_size_of_their_thresholds():
    report = DiagnosticReport(
        bp_grad_norms=[1e-3, 2e-8], cross_batch_stability=0.68, batch_size=1000
    )
    text = str(report)
    assert "B = 1000, at B = 128 it would be about 1.56e-7" in text
    assert "B = 1000, at B = 128 it would be about +0.214" in text
    assert "at B = 128" not in str(DiagnosticReport(bp_grad_norms=[1e-3, 2e-8], batch_size=128))


@pytest.mark.parametrize("ends", [[2.0, 1.0], [math.nan, 1.0]])
def test_an_interval_out_of_order_is_refused_with_its_place(ends):
    with pytest.raises(InvalidReport, match=r"intervals\.growth is .*low end first"):
        DiagnosticReport.from_dict({"residual_norms": [1.0, 1.5], "intervals": {"growth": ends}})


def test_the_looks_of_sequential_stopping_share_five_percent():
    for k in LOOKS:
        shared = stats.t.ppf(1 - 0.05 / (2 * len(LOOKS)), k - 1)
        assert t_quantile(k - 1, Z_OF_LOOKS) == pytest.approx(shared, abs=1e-3)
