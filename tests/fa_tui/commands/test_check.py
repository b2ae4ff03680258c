"""What `check` and `show` claim of runs: on what they are trustworthy, and what is no claim at all."""

import json
from xml.etree import ElementTree

import pytest

from fa_core.formats import load_audits
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.report_facts import DiagnosticThresholds
from fa_tui.cli import main
from fa_tui.session import Session
from fa_tui.views.filters import Filter
from tests.fa_tui.printing import complaint, printed, printed_json

QUIET = {"residual_norms": [1.0, 2.0], "bp_grad_norms": [1e-3, 1e-3]}
ALL = QUIET | {"credit": {"gamma": [0.4, 0.1]}}
ONLY_A = {"residual_norms": [1.0, 2.0]}
DEEP = {"headline_acc": 0.4, "frozen_baseline_acc": 0.3}
FIRES = {"residual_norms": [1.0, 100.0]}
BOUND = {"residual_norms": [30.0], "growth_bound": 8.2, "evidence": {"a": "bound"}}
PROVEN = {
    "residual_norms": [30.0],
    "growth_bound": 82.0,
    "evidence": {"a": "bound"},
}
PROXY = {"bp_grad_norms": [1e-3], "evidence": {"b": "proxy"}}
FROM_A_RUN = {"frozen_baseline_from": "frozen_s1", "arch": "resmlp"}
OPEN = {"cross_batch_stability": 0.25, "intervals": {"stability": [0.1, 0.4]}}
NOTHING = {"notes": "not measured", "headline_acc": 0.4}


def written(folder, **reports):
    path = folder / "table.json"
    known = {f"{key}_s1": {"method_name": key, **fields} for key, fields in reports.items()}
    path.write_text(json.dumps({"reports": known}))
    return str(path)


@pytest.mark.parametrize(
    ("reports", "options", "code", "says"),
    [
        ({"bp": QUIET | DEEP}, "", 0, "1 run: 1 trustworthy on a, b, d, 0 need walk-back"),
        (
            {"bp": ONLY_A | {"provenance": {"trained_on": "1", "data_hash": "2"}}},
            "",
            0,
            "bp seed 1: measured on other data than its manifest names",
        ),
        ({"bp": ONLY_A, "fa": QUIET}, "", 0, "2 trustworthy (1 on (a) alone; 1 on a, b), 0 need"),
        (
            {"bp": ONLY_A},
            "--require ab",
            4,
            "required and not measured: (b) not in the source [a measured]",
        ),
        ({"bp": PROXY | DEEP}, "--require b", 4, "(b) by proxy [d measured, b by proxy]"),
        (
            {"bp": QUIET | {"headline_acc": 0.4}},
            "--require d",
            4,
            "(d) no frozen baseline [ab measured]",
        ),
        (
            {"bp": QUIET | {"headline_acc": 0.4}},
            "--require d --frozen-baseline 0.3",
            4,
            "(d) by an assumed baseline [ab measured, d by a baseline of 0.3 assumed]",
        ),
        (
            {"bp": QUIET | DEEP | {"provenance": {"frozen_baseline_from": "given"}}},
            "--require d",
            4,
            "(d) by an assumed baseline [ab measured, d by a baseline of 0.3 given by hand]",
        ),
        *(
            (
                {"bp": DEEP | {"intervals": {"acc": [0.3, 0.5]}, "provenance": other}},
                "--require d",
                4,
                "(d) by a baseline without its samples, so not paired by them: measure the frozen",
            )
            for other in (
                FROM_A_RUN,
                FROM_A_RUN | {"frozen_baseline_rule": "bp"},
                {"frozen_baseline_from": "f.pt", "network": "mine"},
            )
        ),
        ({"bp": ALL | DEEP}, "--require ab --protocol v2", 0, "1 run: 1 PASS"),
        (
            {"bp": ALL | DEEP | {"evidence": {"b": "proxy"}}},
            "--require ab --protocol v2",
            4,
            "bp seed 1: PASS; required and not measured: (b) by proxy",
        ),
        ({"bp": BOUND}, "", 4, "bp seed 1: (a) undecided: only a lower bound is known"),
        (
            {"bp": BOUND | DEEP},
            "",
            4,
            "undecided on a [d measured, a by a bound]",
        ),
        ({"bp": PROVEN}, "", 1, "needs walk-back: residual stream exploded [a by a bound]"),
        ({"bp": NOTHING}, "", 4, "bp seed 1: not measured [nothing measured]"),
        ({"bp": OPEN, "fa": OPEN}, "", 4, "all 2 runs: (c) undecided: the 95% interval holds 0.3"),
        ({"bp": OPEN}, "--stability-drift-ceiling 0.9", 0, "1 trustworthy on (c) alone"),
        ({"bp": OPEN, "dfa": FIRES}, "", 1, "bp seed 1: (c) undecided: the 95% interval holds"),
        (
            {"frozen": FIRES, "bp": QUIET},
            "",
            0,
            "2 runs: 1 trustworthy on a, b, 0 need walk-back, 1 control",
        ),
        ({"frozen": FIRES | {"method_name": ""}, "bp": QUIET}, "", 1, "frozen seed 1: needs walk"),
        (
            {"random_targets": FIRES},
            "--require abd",
            4,
            "1 run: 0 trustworthy, 0 need walk-back, 1 control; nothing was judged",
        ),
    ],
)
def test_check_says_on_what_it_judges_and_exits_by_it(
    tmp_path, capsys, reports, options, code, says
):
    assert says in printed(
        capsys, "check", written(tmp_path, **reports), *options.split(), code=code
    )


def test_a_control_is_what_the_record_calls_so_under_either_reading(tmp_path, capsys):
    path = written(tmp_path, frozen=FIRES | {"method_name": "Frozen-of_mine"})
    (row,) = load_audits([path]).rows()
    assert (row.method, row.is_control, row.report.claim) == ("frozen", True, "control")
    for protocol in ("v1", "v2"):
        for form, says in (("text", "nothing was"), ("junit", "<failure"), ("github", "::error")):
            options = ("--protocol", protocol, "--format", form)
            assert says in printed(capsys, "check", path, *options, code=4)


def test_weights_that_changed_are_not_hidden_by_a_later_record_that_finds_none(tmp_path):
    facts = {"checkpoint": "/gone/x.pt", "hashes": {"weights": "sha256:0"}}
    tables = []
    for name in "ab":
        (tmp_path / name).mkdir()
        tables.append(written(tmp_path / name, bp=QUIET | {"provenance": facts}))
    assert main(["check", *tables]) == 0
    (tmp_path / "a" / "x.pt").write_bytes(b"others")
    assert main(["check", *tables]) == 4


@pytest.mark.parametrize(("accuracies", "code"), [((0.3, 0.3), 0), ((0.1, 0.3), 4)])
def test_two_frozen_runs_of_which_the_accuracies_differ_pass_no_gate(
    tmp_path, capsys, accuracies, code
):
    net = {"arch": "resmlp", "data_hash": "1"}
    run = {**QUIET, "method_name": "dfa", "headline_acc": 0.4, "provenance": net}
    reports = {"dfa_s1": run}
    for name, acc in zip("ab", accuracies, strict=True):
        own = {**run, "method_name": "frozen", "headline_acc": acc}
        reports[f"frozen_s1@{name}"] = {**own, "provenance": {**net, "checkpoint": name}}
    path = str(tmp_path / "table.json")
    (tmp_path / "table.json").write_text(json.dumps({"reports": reports}))
    assert main(["check", path]) == code
    said = capsys.readouterr().out
    assert ("which fits as well, the accuracies differ" in said) is bool(code)
    assert main(["check", path, "--frozen-baseline", "dfa=0.2"]) == 0


def test_controls_claim_nothing(tmp_path, capsys):
    path = written(tmp_path, bp=QUIET, frozen=FIRES, random_init=QUIET)
    table = printed(capsys, "show", path)
    assert (
        table.count("▫") == 3
        and "3 runs: 1 trustworthy on a, b, 0 need walk-back, 2 controls" in table
    )
    assert not [
        line for line in table.splitlines() if "▫-" in line and not line.endswith("control")
    ]
    session = Session([*load_audits([path]).rows()])
    assert [session.cell(row) for row in range(3)] == ["✓--··", "▫a···", "▫--··"]
    for row in (1, 2):
        report = session.judged(row)
        assert {report.words, report.claim, session.judgement(row)} == {"control"}
    assert [
        Filter(f"is:{state}").rows(session) for state in ("trustworthy", "walkback", "control")
    ] == [
        [0],
        [],
        [1, 2],
    ]
    frozen = DiagnosticReport("frozen", **FIRES)
    assert (
        frozen.words == "control" and frozen.verdict == "needs walk-back: residual stream exploded"
    )


def test_a_recorded_verdict_is_explained_by_the_thresholds_it_was_judged_at(tmp_path, capsys):
    loose = DiagnosticReport(
        **QUIET | {"bp_grad_norms": [1e-3, 1e-9]}, thresholds=DiagnosticThresholds(1e-10)
    )
    stated, unstated = loose.to_dict(), {**loose.to_dict(), "thresholds": {}}
    unstated.pop("thresholds")
    path = written(tmp_path, dfa=stated, ep=unstated)
    for command in ("show", "check"):
        main([command, path])
        said = [line for line in capsys.readouterr().out.splitlines() if "recorded as" in line]
        assert ["judged there at deepest ‖g_L‖ < 1e-10" in line for line in said] == [True, False]


CLAIMS = """
[[claim]]
text = "DFA explodes"
method = "dfa"
metric = "growth"
at_least = 100.0

[[claim]]
method = "bp"
metric = "acc"
at_least = 0.99

[[claim]]
method = "ep"
metric = "margin"
at_least = 2.0
"""


@pytest.fixture
def claims(tmp_path):
    path = tmp_path / "claims.toml"
    path.write_text(CLAIMS)
    return path


def test_a_line_each_claim_and_one_that_does_not_hold_is_exit_code_1(
    published_table, claims, capsys
):
    given = ("check", published_table, "--methods", "bp,ep", "--claims", claims)
    lines = printed(capsys, *given, code=1).splitlines()
    assert lines[-4] == "DFA explodes: growth of dfa ≥ 100: not measured: no such run"
    assert "acc of bp ≥ 0.99: holds on 0 of 3; fails on s42, s123, s456 (" in lines[-3]
    assert "margin of ep ≥ 2: holds on 0 of 3; not measured on s42, s123, s456 (" in lines[-2]
    assert lines[-1].endswith("3 claims: 0 hold, 1 fail, 0 undecided, 2 not measured")


@pytest.mark.parametrize(
    ("metric", "limit", "code"), [("margin", 2.0, 4), ("acc", 0.99, 1), ("acc", 0.1, 0)]
)
def test_a_claim_alone_decides_the_exit_code(published_table, tmp_path, metric, limit, code):
    claims = tmp_path / "claims.toml"
    claims.write_text(f"[[claim]]\nmethod = 'bp'\nmetric = '{metric}'\nat_least = {limit}\n")
    given = ["check", str(published_table), "--claims", str(claims)]
    assert main([*given, "--only-claims"]) == code
    assert main(given) == 1, "runs of the table need walk-back"
    assert main([*given[:2], "--only-claims"]) == 2


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ("method = 'dfaa'\n", "claim 1: no run of method 'dfaa'; did you mean dfa?"),
        (
            "method = 'dfa'\naxes = {width = 42}\n",
            "claim 1: no run has an axis 'width'; known: none",
        ),
    ],
)
def test_a_claim_about_what_no_run_has_is_exit_code_2(
    published_table, tmp_path, capsys, fields, said
):
    claims = tmp_path / "claims.toml"
    claims.write_text(f"[[claim]]\nmetric = 'growth'\nat_most = 5.0\n{fields}")
    assert said in complaint(capsys, "check", published_table, "--claims", claims)


def test_json_holds_the_exit_code_every_run_and_every_claim(published_table, claims, capsys):
    found = printed_json(capsys, "check", published_table, "--claims", claims, code=1)
    assert found["exit_code"] == 1
    assert len(found["runs"]) == 15
    assert {run["outcome"] for run in found["runs"] if run["method"] == "dfa"} == {"failed"}
    assert [claim["outcome"] for claim in found["claims"]][:2] == ["holds", "fails"]


def test_junit_has_a_case_for_every_run_and_claim(published_table, claims, capsys):
    given = ("check", published_table, "--claims", claims, "--format", "junit")
    suites = ElementTree.fromstring(printed(capsys, *given, code=1))
    assert suites.get("tests") == "18" and len(suites.findall(".//testcase")) == 18
    failures = suites.findall(".//failure")
    assert suites.get("failures") == str(len(failures)) == "11"
    assert {failure.get("type") for failure in failures} == {"failed", "undecided"}


def test_a_file_that_cannot_be_read_is_an_error_in_every_form(tmp_path, capsys):
    written(tmp_path, bp=QUIET)
    (tmp_path / "broken.json").write_text('{"reports": ')
    (tmp_path / "broken.json").rename(tmp_path / "audit.json")
    given = ["check", str(tmp_path), str(tmp_path / "audit.json")]
    suites = ElementTree.fromstring(printed(capsys, *given, "--format", "junit", code=3))
    assert [error.get("message") for error in suites.findall(".//error")]
    assert printed(capsys, *given, "--format", "github", code=3).startswith("::error file=")
    assert printed_json(capsys, *given, code=3)["problems"]


def test_github_annotations_escape_names_from_files(tmp_path, capsys):
    report = {"residual_norms": [1, 900, 900], "method_name": "50%,title=x::error::y"}
    (tmp_path / "a.json").write_text(json.dumps({"reports": {"x": report}}))
    first = printed(capsys, "check", tmp_path, "--format", "github", code=1).splitlines()[0]
    head, _, message = first.partition("::")[2].partition("::")
    assert head.count("title=") == 2 and "%2Ctitle=x%3A%3Aerror%3A%3Ay" in head
    assert "50%25" in message


def test_strict_json_is_json_and_names_what_is_not_finite(tmp_path, capsys):
    (tmp_path / "a.json").write_text(
        '{"method_name": "x", "residual_norms": [1, Infinity], "bp_grad_norms": [1, 0.1]}'
    )

    def refuse(word):
        raise AssertionError(word)

    text = printed(capsys, "show", tmp_path, "--format", "json", "--strict-json")
    (run,) = json.loads(text, parse_constant=refuse)
    assert run["h_L"] is None and run["not_finite"]["h_L"] == "inf"
    assert "Infinity" in printed(capsys, "show", tmp_path, "--format", "json")
