import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fa_core.formats import load_audits, report_object, scan
from fa_core.formats.audit_table import write_audit_table
from fa_core.report.diagnostic_report import DiagnosticReport
from tests.fa_core.rows import row_of
from tests.fa_core.strategies import audit_rows
from tests.json_files import json_of, put_json

REPORT = {"method_name": "BP", "residual_norms": [1.0, 2.0], "bp_grad_norms": [1e-3, 1e-3]}
M = "m" * 60  # of a longer name
COLLAPSED = {**REPORT, "residual_norms": [1.0, 200.0]}


@pytest.mark.parametrize(
    ("key", "fields", "said"),
    [
        ("dfa_s1", {"seed": 1}, "the key names method dfa, its report names bp"),
        ("frozen_s1", {}, "the key names method frozen, its report names bp"),
        ("bp_s7", {"seed": 42}, "the key names seed 7, its report names 42"),
        ("mine_s1", {}, "the key names method mine, its report names bp"),
        *(
            ("mine_s1", {"method_name": own}, f"the key names method mine, its report names {own}")
            for own in ("other.rule", "dfa+", "2fa", "mine+")
        ),
        ("dfa_s1", {"method_name": "DFA-bad"}, "key names method dfa, its report names dfa_bad"),
        ("bp_penalty_s1", {}, "the key names method bp_penalty, its report names bp"),
        ("bp_lam0.1_s1", {"axes": {"lam": 0.2}}, "the key names lam 0.1, its report names 0.2"),
        ("dfa_s1", {"method_name": "m" * 5000}, f"the key names method dfa, its report names {M}"),
        ("m" * 5000 + "_s1", {}, f"the key names method {M}, its report names bp"),
    ],
)
def test_a_key_and_its_report_name_the_same_run(tmp_path, key, fields, said):
    path = put_json(
        tmp_path / "table.json", {"reports": {key: {**REPORT, **fields}, "bp_s2": REPORT}}
    )
    table = load_audits(path)
    assert table.key.tolist() == ["bp_s2"]
    message = table.problems[0].message
    assert message.startswith(f"{path}: $.reports.{key[:100]}: ")
    assert f"{said}; both must" in message


def test_a_key_may_say_more_than_its_report(tmp_path):
    path = tmp_path / "table.json"
    own = {"first": {"seed": 4}, "BP_lam0.1_s3": {"seed": 3}}
    own["bp_lam0.0_s5"] = {"axes": {"lam": 0.0}}
    put_json(path, {"reports": {key: REPORT | more for key, more in own.items()}})
    assert [(row.method, row.seed) for row in scan([path]).rows] == [
        ("bp", 4),
        ("bp", 3),
        ("bp", 5),
    ]


def test_a_verdict_kept_next_to_the_own_one_goes_before_it(tmp_path):
    report = {**REPORT, "verdict": "trustworthy", "recorded_verdict": "as published"}
    put_json(tmp_path / "a.json", {"reports": {"bp_s2": report}})
    assert load_audits(tmp_path).report(0).recorded_verdict == "as published"


@pytest.mark.parametrize(
    "field", [field.encode_name for field in msgspec.structs.fields(DiagnosticReport)]
)
def test_a_field_of_the_wrong_type_is_a_problem_of_its_row_alone(tmp_path, field):
    path = put_json(
        tmp_path / "bad.json", {"reports": {"bp_s1": REPORT, "bp_s2": {**REPORT, field: [{}]}}}
    )
    table = load_audits(path)
    assert table.key.tolist() == ["bp_s1"]
    assert f"bad.json: $.reports.bp_s2.{field}" in table.problems[0].message


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e400"])
def test_non_finite_numbers_are_read_and_walked_back(tmp_path, literal):
    path = tmp_path / "diverged.json"
    path.write_text(
        json.dumps({"reports": {"bp_s1": REPORT, "bp_s2": COLLAPSED}}).replace("200.0", literal)
    )
    rows = scan([path]).rows
    assert rows[0].report.verdict == "trustworthy"
    assert rows[1].report.verdict == "needs walk-back: residual stream exploded"
    assert "layer 1" in rows[1].report.nonfinite["a"]


@settings(deadline=None, max_examples=50)
@given(rows=st.lists(audit_rows(), max_size=6))
def test_written_rows_are_read_again_as_they_were(tmp_path_factory, rows):
    path = tmp_path_factory.getbasetemp() / "round_trip.json"
    write_audit_table(path, rows)
    back = scan([path]).rows
    assert [(r.method, r.seed, r.axes, r.checkpoint) for r in back] == [
        (r.method, r.seed, r.axes, r.checkpoint) for r in rows
    ]
    for original, again in zip(rows, back, strict=True):
        assert repr(again.report.residual_norms) == repr(original.report.residual_norms)
        assert repr(again.report.margin_pp) == repr(original.report.margin_pp)
        assert again.report.verdict == original.report.verdict == again.report.recorded_verdict
    assert len({row.key for row in back}) == len(back)


@settings(deadline=None, max_examples=200)
@given(
    name=st.text(min_size=1, max_size=8)
    | st.sampled_from(["net_d64", "-2+3", "frozen_of_mine", "a_s1", "x@y", "dfa_shallow", "bp#2"]),
    seed=st.none() | st.integers(0, 99),
)
def test_a_written_table_agrees_with_its_keys_whatever_the_method_is_called(
    tmp_path_factory, name, seed
):
    path = tmp_path_factory.getbasetemp() / "names.json"
    report = DiagnosticReport(method_name=name, seed=seed, residual_norms=[1.0, 2.0])
    method = report_object.row_of("", "", report, "").method
    row = row_of("x", method=method, seed=seed, report=report)
    write_audit_table(path, [row])
    assert scan([path]).problems == []


def test_the_record_that_a_journal_ends_in_is_named_where_it_is_cut_off(tmp_path):
    report = {"method_name": "dfa", "seed": 1, "headline_acc": 0.5}
    lines = [{"journal": "fa-audit/1", "pid": 1}, {"key": "dfa", "report": report}]
    whole = "".join(json.dumps(line) + "\n" for line in [*lines, lines[1]])
    path = tmp_path / "a.json"
    for text, runs, said in ((whole, 2, []), (whole[:-20], 1, [f"{path}: line 3: cut off; "])):
        path.write_text(text)
        found = scan([path])
        assert len(found.rows) == runs
        assert [problem.message.partition("`")[0] for problem in found.problems] == said


def test_runs_told_apart_by_folders_named_like_other_seeds_keep_their_own(tmp_path):
    report = DiagnosticReport(method_name="bp", seed=1, residual_norms=[1.0, 2.0])
    folders = ("bp_s100", "bp_s104", "a/bp_s1", "b/bp_s1", "x-seed_8")
    rows = [row_of("bp_s1", "", folder, report=report) for folder in folders]
    write_audit_table(tmp_path / "audit.json", rows)
    back = scan([tmp_path / "audit.json"]).rows
    assert [(row.method, row.seed, row.checkpoint) for row in back] == [
        ("bp", 1, folder) for folder in folders
    ]


def test_the_published_summary_comes_out_as_published(tmp_path, published_table):
    write_audit_table(tmp_path / "out.json", scan([published_table]).rows)
    written = json_of(tmp_path / "out.json")
    published = json_of(published_table)
    assert written["summary"] == published["summary"]
    assert list(written["reports"]) == list(published["reports"])


def test_runs_that_are_too_many_to_be_compared_on_all_axes_are_refused_as_a_whole(tmp_path):
    for count in (300, 1500):
        runs = [{"method": "bp", "acc": 0.5, "axes": {f"a{at}": at}} for at in range(count)]
        put_json(tmp_path / f"{count}.json", runs)
    found = scan([tmp_path])
    assert [len(found.rows), len(found.problems)] == [300, 1]
    assert "1500.json: 1,800 runs with 1,500 axes are too many" in found.problems[0].message
