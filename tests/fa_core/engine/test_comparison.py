from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fa_core.engine.record_comparison import compare, excess, relative_tolerance
from fa_core.facts.measurements import ReferencePrecision
from fa_core.report import DiagnosticReport

FACTS = {
    "hashes": {"weights": "sha256:aa", "credit": "sha256:cc", "manifest": "sha256:bb"},
    "data_hash": "sha256:dd",
    "versions": {"torch": "2.13.0", "python": "3.11.7"},
    "device": "cpu",
    "fan_in": 256,
}


def precision(*cosine: float | None) -> ReferencePrecision:
    n = len(cosine)
    return ReferencePrecision(
        cosine=list(cosine), worst=list(cosine), norm_ratio=[1.0] * n, lost=[0] * n, samples=128
    )


RECORD = DiagnosticReport(
    method_name="dfa",
    residual_norms=[1.0, 2.0, 4.0],
    bp_grad_norms=[1e-3, 1e-4, 1e-30],
    cross_batch_stability=0.1,
    headline_acc=0.5,
    frozen_baseline_acc=0.3,
    error_norm=0.9,
    batch_size=128,
    dtype="float32",
    recorded_verdict="needs walk-back: BP grad at numerical floor",
    credit={"gamma": [1.0, None, 0.5]},
    reference_precision=precision(1.0, None, 1.0),
    provenance=FACTS,
)


def measured(**changes: Any) -> DiagnosticReport:
    facts = {**FACTS, **changes.pop("provenance", {})}
    return replace(RECORD, recorded_verdict=None, provenance=facts, **changes)


def deciding(record: DiagnosticReport, again: DiagnosticReport) -> list[str]:
    return [each.name for each in compare(record, again).differences if each.decides]


def test_the_same_numbers_agree_bit_for_bit():
    comparison = compare(RECORD, measured())
    assert comparison.agrees
    assert (comparison.compared, comparison.largest, comparison.differences) == (39, 0.0, [])


def test_rounding_is_allowed_and_its_share_is_told():
    tolerance = relative_tolerance(RECORD)
    comparison = compare(RECORD, measured(residual_norms=[1.0, 2.0, 4.0 * (1 + tolerance / 2)]))
    assert comparison.agrees
    assert comparison.largest == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"residual_norms": [1.0, 2.0, 4.01]}, "residual_norms[2]"),
        ({"bp_grad_norms": [1e-3, 1e-4, 2e-30]}, "bp_grad_norms[2]"),
        ({"bp_grad_norms": [1e-3, 1e-4, 0.0]}, "bp_grad_norms[2]"),
        ({"bp_grad_norms": [1e-3, math.nan, 1e-30]}, "bp_grad_norms[1]"),
        ({"residual_norms": [1.0, 2.0, math.inf]}, "residual_norms[2]"),
        ({"cross_batch_stability": 0.101}, "cross_batch_stability"),
        ({"headline_acc": 0.5001}, "headline_acc"),
        ({"frozen_baseline_acc": 0.3001}, "frozen_baseline_acc"),
        ({"error_norm": 0.91}, "error_norm"),
        ({"credit": {"gamma": [1.0, None, 0.51]}}, "credit.gamma[2]"),
        ({"residual_norms": [1.0, 2.0]}, "residual_norms[2]"),
    ],
)
def test_a_number_that_rounding_cannot_have_moved_is_named(changes, name):
    assert [each for each in deciding(RECORD, measured(**changes)) if each != "verdict"] == [name]


@pytest.mark.parametrize(
    ("provenance", "kind", "decides"),
    [
        ({"hashes": {**FACTS["hashes"], "weights": "sha256:ab"}}, "weights", True),
        ({"hashes": {**FACTS["hashes"], "credit": "sha256:ce"}}, "file", True),
        ({"hashes": {**FACTS["hashes"], "manifest": "sha256:bc"}}, "file", False),
        ({"data_hash": "sha256:de"}, "data", True),
        ({"versions": {"torch": "2.14.0", "python": "3.11.7"}}, "version", False),
        ({"device": "cuda:0"}, "device", False),
    ],
)
def test_what_went_in_is_compared_too_and_versions_only_told(provenance, kind, decides):
    comparison = compare(RECORD, measured(provenance=provenance))
    assert [difference.kind for difference in comparison.differences] == [kind]
    assert comparison.agrees is not decides


def test_a_verdict_that_comes_out_differently_decides():
    record = replace(RECORD, recorded_verdict="trustworthy")
    comparison = compare(record, measured())
    assert [difference.kind for difference in comparison.differences] == ["verdict"]
    assert not comparison.agrees


def test_a_verdict_worded_as_published_lists_do_is_no_other_verdict():
    assert compare(replace(RECORD, recorded_verdict="walk-back: (b)"), measured()).agrees
    assert not compare(replace(RECORD, recorded_verdict="walk-back: (a)"), measured()).agrees


def test_what_earlier_versions_measured_is_named_and_decides_nothing():
    credit = {**RECORD.credit, "nudge_relative": [0.1], "update": {"lr": 0.1}}
    settings = {**RECORD.provenance, "settings": {"resamples": 200}}
    comparison = compare(replace(RECORD, credit=credit, provenance=settings), measured())
    assert comparison.agrees
    assert comparison.outside == [
        "credit.nudge_relative",
        "credit.update.lr",
        "provenance.settings.resamples",
    ]


def test_nan_agrees_with_nan_only():
    record = replace(RECORD, residual_norms=[1.0, math.nan, math.inf])
    same = measured(residual_norms=[1.0, math.nan, math.inf])
    assert "residual_norms[1]" not in deciding(record, same)
    assert not compare(record, measured(residual_norms=[1.0, math.nan, -math.inf])).agrees


def test_a_record_that_lacks_what_was_measured_does_not_agree():
    record = replace(RECORD, provenance={}, headline_acc=None)
    assert deciding(record, measured()) == [
        "headline_acc",
        *(f"provenance.hashes.{name}" for name in ("weights", "credit")),
        "provenance.data_hash",
    ]


@pytest.mark.parametrize("nonsense", [3, "sha256", ["weights", "torch"], None])
def test_what_is_no_record_counts_as_not_recorded(nonsense: Any) -> None:
    facts = {**FACTS, "hashes": nonsense, "versions": nonsense}
    record = replace(RECORD, provenance=facts, credit={"gamma": ["x", nonsense, 0.5]})
    assert {"provenance.hashes.weights", "credit.gamma[0]"} <= {*deciding(record, measured())}


def test_records_of_older_formulas_lack_what_is_newer_and_are_not_failed_by_intervals():
    now = {"versions": {**FACTS["versions"], "formulas": "2"}}
    again = measured(provenance=now, credit={**RECORD.credit, "gamma_concatenated": 0.5})
    old = replace(RECORD, intervals={"growth": (1.0, 3.0)})
    comparison = compare(old, replace(again, intervals={"growth": (1.0, 2.0)}))
    assert (comparison.agrees, comparison.unchecked) == (True, 1)
    assert any("recorded with formulas 1, now 2" in line for line in comparison.lines())
    assert "1 NOT CHECKED" in comparison.headline


def test_more_layers_longer_sums_and_coarser_numbers_allow_more():
    def tolerance(layers: int, fan_in: int, dtype: str) -> float:
        report = DiagnosticReport(
            residual_norms=[1.0] * (layers + 1), dtype=dtype, provenance={"fan_in": fan_in}
        )
        return relative_tolerance(report)

    usual = tolerance(4, 256, "float32")
    assert tolerance(12, 256, "float32") > usual
    assert tolerance(4, 3072, "float32") > usual
    assert tolerance(4, 256, "float64") < 1e-6 * usual
    assert tolerance(4, 256, "bfloat16") > 1e4 * usual


@given(st.floats(allow_nan=False), st.floats(allow_nan=False), st.floats(0, 1e6))
def test_excess_is_symmetric_and_zero_only_for_equal_values(a, b, tolerance):
    assert excess(a, b, tolerance) == excess(b, a, tolerance)
    assert (excess(a, b, tolerance) == 0) == (a == b) or tolerance > 0


@pytest.mark.parametrize(("share", "unchecked"), [(0.0, 0), (0.46, 0), (0.97, 1)])
def test_whether_a_credit_is_mostly_lost_says_the_measurement_alone(
    share: float, unchecked: int
) -> None:
    claimed = {"gamma": [1.0, 0.2, 0.5], "zeros": [1.0, 1.0, 1.0]}
    found = {"gamma": [1.0, 0.25, 0.5], "zeros": [0.0, share, 0.0]}
    comparison = compare(replace(RECORD, credit=claimed), measured(credit=found))
    assert comparison.unchecked >= unchecked
    assert (
        "credit.gamma[1]" in [each.name for each in comparison.differences if each.decides]
    ) is (not unchecked)


def test_the_coarsest_arithmetic_that_ran_sets_the_tolerance() -> None:
    inside, plain = (
        relative_tolerance(replace(RECORD, dtype=name))
        for name in ("float32, bfloat16 inside", "float32")
    )
    assert (
        inside
        == relative_tolerance(replace(RECORD, dtype="bfloat16"))
        == pytest.approx(plain * 2**16)
    )
