import json
import math
from decimal import Decimal

import msgspec
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import astuple

from fa_core.errors import InvalidReport, UsageError
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.diagnostics import DIAGNOSTICS, LETTERS, NOT_MEASURED, TRUSTWORTHY
from fa_core.report.report_facts import DiagnosticThresholds
from tests.fa_core.strategies import accuracies, cosines, norms, reports, thresholds

report = DiagnosticReport


def test_all_four_phrases_stand_in_the_fixed_order():
    accuracies = {"headline_acc": 0.3, "frozen_baseline_acc": 0.349}
    norms = {"residual_norms": [1.0, 100.0], "bp_grad_norms": [1e-9, 1e-9]}
    assert report(**norms, **accuracies, cross_batch_stability=0.9).verdict == (
        "needs walk-back: residual stream exploded; BP grad at numerical floor; "
        "BP grad direction is drift-dominated; deep blocks fail to beat frozen-random baseline"
    )


def test_a_margin_equal_to_its_threshold_in_decimals_does_not_fire():
    assert report(headline_acc=0.369, frozen_baseline_acc=0.349).verdict == TRUSTWORTHY


def test_growth_is_per_block_and_not_relative_to_the_first_layer():
    healthy = report(residual_norms=[0.01, 0.4, 4.0, 30.0])
    assert healthy.max_per_block_growth == pytest.approx(40.0)
    assert not healthy.flags


@pytest.mark.parametrize(
    ("norms", "growth", "fires"),
    [
        ([3.5, 1.5, 0.0, 0.41, 0.36], 0.36 / 0.41, False),
        ([1.0, 60.0, 0.0, 2.0], 60.0, True),
        ([0.0, 2.0], 0.0, False),
        ([0.0, 0.0, 0.0], 0.0, False),
        ([1.0, 2.0, 1e-31], 2.0, False),
    ],
)
def test_a_dead_layer_is_named_and_leaves_growth_to_the_defined_blocks(norms, growth, fires):
    judged = report(residual_norms=norms)
    assert judged.max_per_block_growth == pytest.approx(growth)
    assert (judged.flags, judged.undecided) == (({"a"}, set()) if fires else (set(), {"a"}))
    for layer, norm in enumerate(norms):
        assert (f"‖h_{layer}‖" in judged.describe()[0]) is (norm < 1e-30)
    assert json.loads(json.dumps(judged.to_dict(), allow_nan=False))["residual_norms"] == norms


def test_only_the_deepest_gradient_is_judged():
    assert not report(bp_grad_norms=[1e-12, 1e-3]).flags
    assert report(bp_grad_norms=[1e-3, 1e-12]).flags == {"b"}


def test_nothing_measured_is_not_trustworthy():
    assert report().verdict == NOT_MEASURED
    assert report(headline_acc=0.9).verdict == NOT_MEASURED


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize(
    ("letter", "field"),
    [
        ("a", "residual_norms"),
        ("b", "bp_grad_norms"),
        ("c", "cross_batch_stability"),
        ("d", "headline_acc"),
        ("d", "frozen_baseline_acc"),
    ],
)
def test_a_non_finite_value_fires_its_diagnostic(letter, field, bad):
    broken = report(**{field: [1.0, bad, 1.0] if field.endswith("norms") else bad})
    assert broken.flags == {letter}
    assert letter in broken.coverage
    assert DIAGNOSTICS[letter].phrase in broken.verdict


@given(
    reports(nonfinite=True),
    thresholds(),
    st.fixed_dictionaries(
        {},
        optional={
            "residual_norms": st.lists(norms, min_size=2, max_size=4),
            "bp_grad_norms": st.lists(norms, min_size=1, max_size=4),
            "cross_batch_stability": cosines,
            "frozen_baseline_acc": accuracies,
            "headline_acc": accuracies,
        },
    ),
)
def test_measuring_more_never_turns_a_walk_back_into_trustworthy(measured, limits, more):
    missing = {name: value for name, value in more.items() if getattr(measured, name) in (None, [])}
    if measured.growth_bound is not None:
        missing.pop("residual_norms", None)  # replaces the bound, rather than adding to it
    before = measured.with_thresholds(limits)
    after = msgspec.structs.replace(before, **missing)
    assert before.flags <= after.flags
    assert set(before.coverage) <= set(after.coverage)
    assert not (before.flags and after.verdict == TRUSTWORTHY)


@given(reports(nonfinite=True))
def test_a_report_comes_back_from_json_as_it_went(measured):
    back = DiagnosticReport.from_dict(json.loads(json.dumps(measured.to_dict())))
    assert repr(back) == repr(msgspec.structs.replace(measured, recorded_verdict=measured.verdict))


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (
            {"residual_norms": [1.0, 2.0], "bp_grad_norms": [1.0], "layers": {"x": "1"}},
            "2 residual_norms, 1 bp_grad_norms",
        ),
        ({"residual_norms": [1.0], "credit": {"gamma": [0.1] * 2}}, "0 bp_grad_norms, 2 credit."),
        ({"residual_norms": [1.0, -2.0]}, "residual_norms[1] is -2.0"),
        ({"headline_acc": 31}, "headline_acc is 31.0; accuracies are fractions: divide by 100"),
        ({"axes": {"lam": "high"}}, "λ is 'high'"),
        ({"frozen_baseline_acc": -0.1}, "frozen_baseline_acc is -0.1"),
        ({"cross_batch_stability": 1.5}, "cross_batch_stability is 1.5"),
        ({"credit": {"gamma": [None, 0.1, 7.0]}}, "credit.gamma is 7.0; a mean cosine lies in"),
        ({"residual_norms": ["big"]}, "$.residual_norms[0]"),
        ({"evidence": {"d": "exact"}}, "Invalid enum value 'exact'"),
        ({"provenance": {"batch_sizes": [1] * 8}, "n_batches": 9}, "8 numbers; n_batches is 9"),
        ({"provenance": {"batch_sizes": [1] * 20_000}, "n_batches": 20_000}, "length <= 16384"),
        ({"thresholds": {"stability_drift_ceiling": math.nan}}, "stability_drift_ceiling is NaN"),
        (
            {"thresholds": {"h_norm_explosion_ratio": -3.0}},
            "$.thresholds: threshold h_norm_explosion_ratio is -3: growth per block is never",
        ),
    ],
)
def test_contradictory_numbers_are_refused_with_their_place(fields, said):
    with pytest.raises(InvalidReport) as refusal:
        DiagnosticReport.from_dict(fields, where="a.json: $")
    assert "a.json" in str(refusal.value)
    assert said in str(refusal.value)


@pytest.mark.parametrize("letter", LETTERS)
def test_the_report_in_words_says_why_a_diagnostic_is_missing(letter):
    words = str(report(unmeasured={letter: "the disk was full"}))
    assert f"({letter}) not measured: the disk was full" in words


def test_equal_thresholds_are_written_alike():
    minus_zero = DiagnosticThresholds(frozen_acc_margin_pp=-0.0)
    assert repr(minus_zero) == repr(DiagnosticThresholds(frozen_acc_margin_pp=0.0))


@pytest.mark.parametrize(("growth", "deepest"), [(2.0, 1e-3), (60.0, 1e-3), (2.0, 1e-9)])
def test_a_part_of_the_stream_fires_and_never_passes(growth, deepest):
    report = DiagnosticReport(
        residual_norms=[1.0, growth],
        bp_grad_norms=[1e-3, deepest],
        cross_batch_stability=0.1,
        partial_stream="blocks.1, blocks.2",
    )
    fired = {"a"} if growth > 50 else {"b"} if deepest < 1e-7 else set()
    assert report.flags == fired and report.undecided == {"a", "b"} - fired
    assert report.words.endswith("; left out of the stream: blocks.1, blocks.2")
    assert DiagnosticReport.from_dict(report.to_dict()).partial_stream == report.partial_stream
    assert "partial_stream" not in msgspec.structs.replace(report, partial_stream="").to_dict()


def test_the_text_has_every_layer_and_the_notes():
    text = str(DiagnosticReport("dfa", "width 256", [1.0, 2.5, 1e9], [0.5, 0.25, 1e-12]))
    assert "‖h_l‖: 0: 1, 1: 2.5, 2: 1e9" in text and "‖g_l‖: 0: 0.5, 1: 0.25, 2: 1e-12" in text
    assert (
        text.splitlines()[0].startswith("dfa: needs walk-back")
        and text.splitlines()[-1].strip() == "width 256"
    )


SCALARS = ("cross_batch_stability", "headline_acc", "frozen_baseline_acc", "growth_bound")
NUMBER_TYPES = {
    "float32": np.float32,
    "tensor": torch.tensor,
    "decimal": Decimal,
    "int": lambda value: int(min(value, 10**6)) if math.isfinite(value) else np.float16(value),
}


def with_numbers(measured, limits, of):
    """The report with every number and threshold as this function gives it."""
    fields = msgspec.structs.asdict(measured)
    for name in ("residual_norms", "bp_grad_norms"):
        fields[name] = list(map(of, fields[name]))
    for name in SCALARS:
        fields[name] = None if fields[name] is None else of(fields[name])
    fields["thresholds"] = DiagnosticThresholds(*map(of, astuple(limits)))
    return DiagnosticReport(**fields)


@pytest.mark.filterwarnings("ignore:overflow encountered")
@given(reports(nonfinite=True), thresholds(), st.sampled_from(sorted(NUMBER_TYPES)))
def test_numbers_of_every_type_are_judged_and_written_alike(measured, limits, kind):
    typed = NUMBER_TYPES[kind]
    found = with_numbers(measured, limits, typed)
    expected = with_numbers(measured, limits, lambda value: float(typed(value)))
    assert found.flags == expected.flags
    assert json.dumps(found.to_dict()) == json.dumps(expected.to_dict())


def test_a_list_of_norms_may_be_an_array_or_a_tensor():
    for norms_of in (np.array, torch.tensor, tuple):
        exploded = report(
            residual_norms=norms_of([1.0, 100.0]),
            seed=np.int64(3),
            credit={"gamma": [np.float32(0.5)]},
        )
        assert exploded.flags == {"a"}
        assert json.loads(json.dumps(exploded.to_dict()))["seed"] == 3
        assert DiagnosticReport.from_dict({"residual_norms": norms_of([1.0, 100.0])}).flags == {"a"}


@pytest.mark.parametrize(
    "fields",
    [
        {"headline_acc": "0.3"},
        {"headline_acc": True},
        {"cross_batch_stability": np.bool_(True)},
        {"residual_norms": 3.0},
        {"residual_norms": [[1.0, 2.0]]},
        {"batch_size": 2.5},
    ],
)
def test_what_is_no_number_is_refused_in_one_line(fields):
    with pytest.raises(UsageError, match=f"^{next(iter(fields))}.* is .*; give a .*number"):
        report(**fields)


def test_what_assigns_a_threshold_is_told_how_to_judge_by_another():
    measured = report(residual_norms=[1.0, 2.0])
    with pytest.raises(AttributeError, match=r"report\.with_thresholds"):
        measured.thresholds = DiagnosticThresholds()
    with pytest.raises(AttributeError, match=r"report\.with_thresholds"):
        measured.thresholds.g_norm_floor = 1e-6


def test_what_fires_by_its_name_and_none_where_it_was_not_measured():
    norms = {"residual_norms": [1.0, 100.0], "bp_grad_norms": [0.5, 0.25]}
    one = report(**norms, headline_acc=0.3, frozen_baseline_acc=0.349)
    assert (one.residual_stream_exploded, one.bp_grad_at_floor) == (True, False)
    assert (one.reference_drift_dominated, one.frozen_baseline_undercut) == (None, True)
