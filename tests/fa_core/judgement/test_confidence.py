"""Resamples judged as their report is: shares, intervals, and that both follow thresholds and baseline."""

from __future__ import annotations

import json
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fa_core.errors import InvalidReport
from fa_core.facts.measurements import ReferencePrecision, Resampling
from fa_core.facts.thresholds import DiagnosticThresholds
from fa_core.judgement.confidence import confidence, interval
from fa_core.report import DiagnosticReport
from tests.fa_core.strategies import accuracies, broken, cosines, norms, thresholds

REPORT = DiagnosticReport(
    residual_norms=[1.0, 45.0],
    bp_grad_norms=[1.0, 1e-3],
    cross_batch_stability=0.1,
    headline_acc=0.5,
    frozen_baseline_acc=0.4,
)


@st.composite
def drawn(draw: st.DrawFn) -> Resampling:
    r = draw(st.integers(1, 6))

    def some(values: st.SearchStrategy[float]) -> list[float]:
        return draw(st.lists(values, min_size=r, max_size=r))

    # an accuracy is counted, so it is never NaN
    return Resampling(
        growth=some(norms | broken),
        g_L=some(norms | broken),
        stability=some(cosines | broken),
        headline_acc=some(accuracies),
    )


@given(drawn(), thresholds(), st.none() | accuracies)
def test_shares_are_those_of_reports_made_from_the_resamples(
    found: Resampling, limits: DiagnosticThresholds, baseline: float | None
) -> None:
    report = replace(REPORT, resampling=found, frozen_baseline_acc=baseline, thresholds=limits)
    slow = [
        replace(
            report,
            residual_norms=[1.0, growth],
            bp_grad_norms=[1.0, g],
            cross_batch_stability=stability,
            headline_acc=acc,
        )
        for growth, g, stability, acc in zip(
            found.growth, found.g_L, found.stability, found.headline_acc, strict=True
        )
    ]
    fast = confidence(report)
    assert fast is not None
    n = len(slow)
    assert fast.resamples == n
    assert fast.fired == {
        letter: sum(letter in one.flags for one in slow) / n for letter in report.coverage
    }
    assert fast.same_verdict == sum(one.verdict == report.verdict for one in slow) / n


@given(st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=40), st.floats(0.01, 0.99))
def test_intervals_are_numpys_linear_quantiles(values: list[float], level: float) -> None:
    expected = np.quantile(np.array(values), [(1 - level) / 2, (1 + level) / 2])
    assert interval(values, level) == pytest.approx(
        tuple(expected), rel=1e-9, abs=1e-9 * max(map(abs, values))
    )


def test_a_single_nan_leaves_the_interval_to_the_others_and_equal_infinities_stay_infinite() -> (
    None
):
    assert interval([1.0, math.nan]) == (1.0, 1.0)
    assert all(map(math.isnan, interval([math.nan])))
    assert interval([math.inf, math.inf]) == (math.inf, math.inf)


def test_without_resamples_there_is_no_confidence() -> None:
    assert confidence(REPORT) is None
    assert confidence(replace(REPORT, resampling=Resampling())) is None


def test_thresholds_and_a_baseline_that_came_later_count() -> None:
    found = Resampling(growth=[40.0, 60.0], headline_acc=[0.49, 0.51])
    report = replace(REPORT, resampling=found, frozen_baseline_acc=None)
    first = confidence(report)
    assert first is not None and first.fired == {"a": 0.5}
    later = confidence(
        report.with_frozen_baseline(0.48).with_thresholds(
            DiagnosticThresholds(h_norm_explosion_ratio=30)
        )
    )
    assert later is not None and later.fired == {"a": 1.0, "d": 0.5}
    assert later.intervals["margin_pp"] == pytest.approx((1.05, 2.95))


def test_a_diagnostic_that_was_not_resampled_stays_as_it_is() -> None:
    report = replace(REPORT, headline_acc=0.41, resampling=Resampling(growth=[40.0, 45.0]))
    found = confidence(report)
    assert found is not None
    assert found.fired == {"a": 0.0}
    assert found.same_verdict == 1.0
    assert "d" in report.flags


def test_resamples_and_precision_come_back_from_json_as_they_went() -> None:
    precision = ReferencePrecision(
        cosine=[None, 1.0],
        worst=[None, 0.5],
        norm_ratio=[None, 1.0],
        lost=[3, 0],
        samples=3,
        dtype="float16",
    )
    report = replace(
        REPORT, resampling=Resampling(growth=[1.0, math.inf], seed=7), reference_precision=precision
    )
    again = DiagnosticReport.from_dict(json.loads(json.dumps(report.to_dict())))
    assert again.resampling == report.resampling
    assert again.reference_precision == precision
    assert confidence(again) == confidence(report)


@pytest.mark.parametrize(
    "broken_part", [{"growth": [1.0], "g_L": [1.0, 2.0]}, {"growth": ["much"]}, [1.0]]
)
def test_resamples_that_cannot_be_are_refused_with_their_place(broken_part: object) -> None:
    with pytest.raises(InvalidReport, match=r"a\.json.*resampl"):
        DiagnosticReport.from_dict(
            {"residual_norms": [1.0, 2.0], "resampling": broken_part}, where="a.json"
        )


def test_confidence_and_cause_need_neither_numpy_nor_torch() -> None:
    code = "import sys, fa_core.judgement.confidence; print({'numpy', 'torch'} & set(sys.modules))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip()
        == "set()"
    )
