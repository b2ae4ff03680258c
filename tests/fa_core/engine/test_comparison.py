from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fa_core.engine.verify import compare, excess, relative_tolerance
from fa_core.report import DiagnosticReport, ReferencePrecision, Resampling

FACTS = {
    "hashes": {"weights": "sha256:aa", "credit": "sha256:cc", "manifest": "sha256:bb"},
    "data_hash": "sha256:dd",
    "versions": {"torch": "2.13.0", "python": "3.11.7"},
    "device": "cpu",
    "fan_in": 256,
}


def precision(*cosine: float | None) -> ReferencePrecision:
    n = len(cosine)
    return ReferencePrecision(cosine=list(cosine), worst=list(cosine), norm_ratio=[1.0] * n, lost=[0] * n, samples=128)


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


def test_the_same_numbers_agree_bit_for_bit():
    comparison = compare(RECORD, measured())
    assert comparison.agrees
    assert (comparison.compared, comparison.largest, comparison.differences) == (14, 0.0, [])


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
        ({"reference_precision": precision(1.0, None, 0.9)}, "reference_precision.cosine[2]"),
        ({"residual_norms": [1.0, 2.0]}, "number of residual_norms"),
    ],
)
def test_a_number_that_rounding_cannot_have_moved_is_named(changes, name):
    comparison = compare(RECORD, measured(**changes))
    assert not comparison.agrees
    assert [difference.name for difference in comparison.differences if difference.kind == "number"] == [name]


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


def test_resamples_are_left_to_the_numbers_that_they_follow_from():
    record = replace(RECORD, resampling=Resampling(growth=[1.0, 2.0]))
    comparison = compare(record, measured(resampling=Resampling(growth=[1.0, 9.0])))
    assert (comparison.agrees, comparison.differences) == (True, [])


def test_nan_agrees_with_nan_only():
    record = replace(RECORD, residual_norms=[1.0, math.nan, math.inf])
    assert compare(record, measured(residual_norms=[1.0, math.nan, math.inf])).largest == 0
    assert not compare(record, measured(residual_norms=[1.0, math.nan, -math.inf])).agrees


def test_what_the_record_does_not_hold_is_said():
    comparison = compare(replace(RECORD, provenance={}), measured())
    assert comparison.agrees
    assert comparison.unrecorded == ["hashes", "data_hash", "versions"]


@pytest.mark.parametrize("nonsense", [3, "sha256", ["weights", "torch"], None])
def test_what_is_no_record_counts_as_not_recorded(nonsense: Any) -> None:
    facts = {**FACTS, "hashes": nonsense, "versions": nonsense}
    comparison = compare(replace(RECORD, provenance=facts, credit={"gamma": ["x", nonsense, 0.5]}), measured())
    assert comparison.unrecorded == ["hashes", "versions"]
    assert comparison.agrees


def test_more_layers_longer_sums_and_coarser_numbers_allow_more():
    def tolerance(layers: int, fan_in: int, dtype: str) -> float:
        report = DiagnosticReport(residual_norms=[1.0] * (layers + 1), dtype=dtype, provenance={"fan_in": fan_in})
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


@pytest.mark.parametrize(("share", "agrees"), [(0.0, False), (0.46, False), (0.97, True)])
def test_the_gamma_of_a_credit_that_is_mostly_lost_is_not_compared(share: float, agrees: bool) -> None:
    old = replace(RECORD, credit={"gamma": [1.0, 0.2, 0.5], "zeros": [0.0, share, 0.0]})
    new = measured(credit={"gamma": [1.0, 0.25, 0.5], "zeros": [0.0, share, 0.0]})
    assert compare(old, new).agrees is agrees


def test_the_coarsest_arithmetic_that_ran_sets_the_tolerance() -> None:
    inside, plain = (
        relative_tolerance(replace(RECORD, dtype=name)) for name in ("float32, bfloat16 inside", "float32")
    )
    assert inside == relative_tolerance(replace(RECORD, dtype="bfloat16")) == pytest.approx(plain * 2**16)
