"""Formats 2 and 3: a single report, and a list of short audits."""

import math

import pytest

from fa_core.formats import scan
from fa_core.report.diagnostic_report import SOURCE_DRIFT, DiagnosticReport
from fa_core.report.diagnostics import recorded_flags
from tests.json_files import json_of, put_json


def read(path, value):
    return list(scan([put_json(path, value)]).rows)


def test_published_list_keeps_its_short_verdicts_and_they_agree(published_cnn):
    original = json_of(published_cnn)
    rows = scan([published_cnn]).rows
    assert [row.report.recorded_verdict for row in rows] == [entry["verdict"] for entry in original]
    for row, entry in zip(rows, original, strict=True):
        assert recorded_flags(entry["verdict"]) == row.report.flags
        assert row.report.coverage == "ab"
        assert row.report.max_per_block_growth == pytest.approx(entry["max_per_block"])


def test_other_spellings_and_axes_of_a_list(tmp_path):
    path = tmp_path / "a"
    path.write_text(
        '[{"method_name": "Credit Bridge", "seed": 7, "headline_acc": 0.4, "frozen_acc": 0.3, '
        '"g_L": 1e-3, "d": 64, "mood": {}}]'
    )
    (row,) = scan([path]).rows
    assert (row.key, row.method, row.axes) == ("credit_bridge_s7", "credit_bridge", {"d": 64})
    assert (row.report.margin_pp, row.report.g_L, row.report.coverage) == (10.0, 1e-3, "bd")
    assert "in the file, not used: mood" in row.report.notes


def test_growth_without_norms_is_what_the_list_says_it_is(tmp_path):
    (row,) = read(tmp_path / "a", [{"method": "dfa", "acc": 0.3, "max_per_block": 214.0}])
    assert row.report.max_per_block_growth == 214.0
    assert row.report.evidence == {}
    assert row.report.flags == {"a"}


FLAT = {"h_norms": [1.0, 1.0], "g_norms": [0.1, 0.1]}


@pytest.mark.parametrize(
    ("more", "refused"),
    [
        ({"g_L": 1e-12}, "g_L is 1e-12, its norms end in 0.1"),
        ({"g_L": math.nan}, "g_L is nan, its norms end in 0.1"),
        ({"h_L": 1e9}, "h_L is 1000000000.0, its norms end in 1"),
        ({"h_L": "x"}, "h_L is x, its norms end in 1"),
        ({"max_per_block": 200.0}, "growth_bound is above the growth of its norms"),
        ({"acc": 0.5}, "headline_acc is headline_acc, which has another value"),
        # rounded
        ({"g_L": 0.1004, "h_L": 1, "max_per_block": 1.001}, ""),
        ({"g_norms": [0.1, math.nan], "g_L": math.nan}, ""),
        ({"g_norms": [], "g_L": 0.1}, ""),
    ],
)
def test_an_entry_or_a_report_that_contradicts_itself_is_refused(tmp_path, more, refused):
    entry = {**FLAT, **more, "headline_acc": 0.6}
    put_json(tmp_path / "a.json", [{"method": "mine", **entry}, {"method": "bp", "acc": 0.5}])
    found = scan([tmp_path / "a.json"])
    assert refused in " ".join(problem.message for problem in found.problems)
    assert len(found.rows) == 2 - bool(refused)


def test_equal_runs_in_a_list_get_keys_of_their_own(tmp_path):
    rows = read(tmp_path / "a", [{"method": "bp", "seed": 1, "acc": 0.5}] * 3)
    assert [row.key for row in rows] == ["bp_s1", "bp_s1#2", "bp_s1#3"]


def test_a_report_of_this_program_is_an_entry_as_it_is_but_for_what_it_assumes(tmp_path):
    report = DiagnosticReport(method_name="dfa", seed=1, headline_acc=0.5).to_dict()
    drift = {"cross_batch_stability": math.nan, SOURCE_DRIFT: math.nan, "(what if)": 0.0}
    (row,) = read(tmp_path / "a", [{**report, **drift}])
    assert (row.report.margin_pp, row.report.assumed_baseline_acc) == (None, None)


def test_a_bad_entry_leaves_the_others(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(
        '[{"method": "bp", "acc": 0.5}, {"method": "bp", "acc": "x"}, 3, {"acc": 0.1}, '
        '{"method": "frozen", "method_name": "dfa", "acc": 1}, {"method": "bp", "acc": 1, "headline_acc": 0}, '
        '{"method": "dfa", "method_name": "dfa_bad", "acc": 1}]'
    )
    found = scan([path])
    assert len(found.rows) == 1
    places = " ".join(problem.message.partition("$")[2][:3] for problem in found.problems)
    assert places == "[1] [2] [3] [4] [5] [6]"


def test_a_control_of_a_list_or_a_report_has_its_rule_as_an_axis(tmp_path):
    listed = [{"method": "DFA-shallow", "acc": 0.4}, {"method": "frozen", "of": "bp", "acc": 0.4}]
    rows = read(tmp_path / "list.json", listed)
    report = {"method_name": "frozen_of_bp", "headline_acc": 0.4}
    rows += read(tmp_path / "table.json", {"reports": {"x": report}})
    assert [row.method for row in rows] == ["shallow", "frozen", "frozen"]
    assert [row.axes for row in rows] == [{"of": "dfa"}, {"of": "bp"}, {"of": "bp"}]


@pytest.mark.parametrize(
    ("file", "fields", "expected"),
    [
        ("dfa_pen_lam0.01_s42.json", {}, ("dfa", 42, {"lam": 0.01})),
        ("result.json", {"method_name": "State Bridge", "seed": 5}, ("state_bridge", 5, {})),
        ("ep_s7/audit.json", {}, ("ep", 7, {})),
        ("frozen_s42.json", {"method_name": "DFA", "seed": 7}, ("dfa", 7, {})),
        ("dfa_mine_s42.json", {"method_name": "dfa"}, ("dfa", 42, {})),
        ("dfa_s42.json", {"method_name": "dfa bad"}, ("dfa_bad", 42, {})),
        ("mine_s42.json", {"method_name": "other.rule"}, ("other.rule", 42, {})),
    ],
)
def test_a_single_report_is_named_by_itself_or_by_its_place(tmp_path, file, fields, expected):
    path = tmp_path / file
    path.parent.mkdir(exist_ok=True)
    (row,) = read(path, {**fields, "headline_acc": 0.2})
    assert (row.method, row.seed, row.axes) == expected
