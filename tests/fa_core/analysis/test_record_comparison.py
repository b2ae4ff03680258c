import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from fa_core.analysis.record_comparison import MOST_NAMED, compare, excess, relative_tolerance
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.intervals import packed

FACTS = {
    "hashes": {"weights": "sha256:aa", "credit": "sha256:cc", "manifest": "sha256:bb"},
    "data_hash": "sha256:dd",
    "versions": {"torch": "2.13.0", "python": "3.11.7"},
    "device": "cpu",
    "fan_in": 256,
}
RECORD = DiagnosticReport(
    method_name="dfa",
    seed=2**62,
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
    provenance=FACTS,
)


def measured(**changes):
    facts = {**FACTS, **changes.pop("provenance", {})}
    return replace(RECORD, recorded_verdict=None, provenance=facts, **changes)


def deciding(record, again):
    return [each.name for each in compare(record, again).differences if each.decides]


def test_the_same_numbers_agree_bit_for_bit_and_what_is_not_compared_is_named():
    # a summary repeats its report
    comparison = compare(RECORD, measured(), ({"acc": 0.5}, {"acc": 0.5}))
    assert comparison.headline == "agrees: 21 values, bit for bit"
    assert comparison.not_compared == ["thresholds", "provenance.versions", "provenance.device"]
    nameless = replace(RECORD, method_name="")
    assert "method_name" in compare(nameless, nameless).not_compared


def test_rounding_is_allowed_and_its_share_is_told():
    tolerance = relative_tolerance(RECORD)
    comparison = compare(RECORD, measured(residual_norms=[1.0, 2.0, 4.0 * (1 + tolerance / 2)]))
    assert comparison.agrees
    assert comparison.largest == pytest.approx(0.5, rel=1e-3)


@pytest.mark.parametrize(
    ("changes", "name", "kind"),
    [
        ({"residual_norms": [1.0, 2.0, 4.01]}, "residual_norms[2]", "number"),
        ({"bp_grad_norms": [1e-3, math.nan, 1e-30]}, "bp_grad_norms[1]", "number"),
        ({"credit": {"gamma": [1.0, 0.2, 0.5]}}, "credit.gamma[1]", "lacking"),
        ({"provenance": {"hashes": {"weights": "x"}}}, "provenance.hashes.weights", "fact"),
        ({"seed": 2**62 + 1}, "seed", "number"),
    ],
)
def test_what_rounding_cannot_have_changed_is_named(changes, name, kind):
    found = compare(RECORD, measured(**changes)).differences
    assert (name, kind, True) in {(each.name, each.kind, each.decides) for each in found}


def test_single_samples_are_counted_never_printed_and_never_first():
    record = replace(RECORD, right=packed([True] * 1000))
    again = measured(right=packed([True] * 997 + [False] * 3), headline_acc=0.4999999999999)
    assert compare(record, again).lines()[:2] == [
        "≠ headline_acc 0.5 → 0.4999999999999",
        "≠ right: 3 of 1000 samples differ",
    ]


def test_nan_agrees_with_nan_only():
    record = replace(RECORD, residual_norms=[1.0, math.nan, math.inf])
    assert "residual_norms[1]" not in deciding(record, measured(residual_norms=[1.0, math.nan]))
    assert not compare(record, measured(residual_norms=[1.0, math.nan, -math.inf])).agrees


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"recorded_verdict": "trustworthy"}, "verdict"),
        ({"recorded_verdict": "walk-back: (a)"}, "verdict"),
        ({"recorded_verdict": "walk-back: (b)"}, ""),
        (
            {
                "recorded_verdict": "trustworthy",
                "thresholds": replace(RECORD.thresholds, g_norm_floor=1e-99),
            },
            "verdict by the protocol's thresholds",
        ),
        # a what-if
        ({"assumed_baseline_acc": 0.6}, ""),
    ],
)
def test_the_verdict_is_that_of_the_numbers_and_of_the_protocols_thresholds(changes, name):
    assert deciding(replace(RECORD, **changes), measured()) == [name] * bool(name)


def test_intervals_of_other_formulas_and_a_baseline_from_elsewhere_are_not_checked():
    record = replace(RECORD, intervals={"growth": (1.0, 3.0)})
    again = measured(intervals={"growth": (1.0, 2.0)})
    assert deciding(record, again) == ["intervals.growth[1]"]
    newer = replace(again, provenance={**FACTS, "versions": {"torch": "9.0"}})
    assert "1 NOT CHECKED" in compare(record, newer).headline
    given = {**FACTS, "frozen_baseline_from": "given"}
    for facts, why in ((FACTS, "not verified with it"), (given, "by hand")):
        record = replace(RECORD, provenance=facts)
        alone = compare(record, measured(provenance=facts, frozen_baseline_acc=None))
        assert (alone.agrees, alone.unchecked) == (True, 1) and why in alone.lines()[0]
    assert deciding(RECORD, measured(frozen_baseline_acc=0.31)) == ["frozen_baseline_acc"]
    before = replace(RECORD, cross_batch_stability=None, unmeasured={"c": "one batch"})
    assert "≠ unmeasured.c one batch → measured now" in compare(before, measured()).lines()


def test_a_value_below_its_tolerance_is_not_checked_but_a_falsified_one_is_found():
    half = {"dtype": "float16", "credit": {"gamma": [1.0, None, 0.1]}}
    record = replace(RECORD, **half)
    comparison = compare(record, measured(**{**half, "credit": {"gamma": [1.0, None, -0.1]}}))
    assert (comparison.agrees, comparison.unchecked) == (True, 1)
    assert deciding(record, measured(**{**half, "credit": {"gamma": [1.0, None, -0.9]}}))
    # each cosine by its own size: a small one of a deep network is none
    facts = {"fan_in": 1 << 18}
    gamma = {"gamma": [0.9, 0.03, 0.03]}
    record = replace(RECORD, credit=gamma, provenance=facts)
    again = measured(credit={"gamma": [g + 1e-3 for g in gamma["gamma"]]}, provenance=facts)
    found = [each.name for each in compare(record, again).differences if "may" in each.why]
    assert found == ["credit.gamma[1]", "credit.gamma[2]"]
    # an interval may differ by fifty times as much: of long sums by most of its value
    for fan_in, unchecked in ((256, 0), (1 << 18, 1)):
        facts = {"fan_in": fan_in}
        again = measured(intervals={"growth": [1.0, 2.0]}, provenance=facts)
        wide = {"growth": [1.0, 2.0 + 50 * relative_tolerance(again)]}
        record = measured(intervals=wide, provenance={**facts, "device": "cuda:0"})
        assert compare(record, again).unchecked == unchecked


@pytest.mark.parametrize("nonsense", [3, "sha256", ["weights", "torch"], None])
def test_what_is_no_record_counts_as_not_recorded(nonsense):
    facts = {**FACTS, "hashes": nonsense, "versions": nonsense}
    record = replace(RECORD, provenance=facts, credit={"gamma": ["x", nonsense, 0.5]})
    assert {"provenance.hashes.weights", "credit.gamma[0]"} <= {*deciding(record, measured())}


def test_a_credit_that_cannot_be_measured_any_more_is_one_line():
    again = measured(credit={"missing": {"gamma": "method 'dfa' is not built in"}})
    (line,) = [line for line in compare(RECORD, again).lines() if "credit" in line]
    assert line.startswith("≠ credit 2 values in the record → not measured (method 'dfa'")


def test_a_record_of_very_many_names_is_printed_in_bounds():
    many = {f"name{place}": place for place in range(10_000)}
    record = replace(RECORD, provenance={**FACTS, **many}, residual_norms=[1.0] * 10_000)
    lines = compare(record, measured()).lines()
    assert len(lines) < MOST_NAMED + 5
    assert max(map(len, lines)) < 1_000


def test_more_layers_longer_sums_and_coarser_numbers_allow_more():
    def tolerance(layers, fan_in, dtype):
        norms = [1.0] * (layers + 1)
        facts = {"fan_in": fan_in}
        return relative_tolerance(
            DiagnosticReport(residual_norms=norms, dtype=dtype, provenance=facts)
        )

    usual = tolerance(4, 256, "float32")
    assert tolerance(12, 256, "float32") > usual
    assert tolerance(4, 3072, "float32") > usual
    assert tolerance(4, 256, "float64") < 1e-6 * usual
    # the coarsest arithmetic that ran
    inside = tolerance(4, 256, "float32, bfloat16 inside")
    assert inside == tolerance(4, 256, "bfloat16") == pytest.approx(usual * 2**16)


@given(st.floats(allow_nan=False), st.floats(allow_nan=False), st.floats(0, 1e6))
def test_excess_is_symmetric_and_zero_only_for_equal_values(a, b, tolerance):
    assert excess(a, b, tolerance) == excess(b, a, tolerance)
    assert (excess(a, b, tolerance) == 0) == (a == b) or tolerance > 0
