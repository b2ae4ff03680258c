"""`fa-tui diff A B`: which runs changed between two audits, and in what."""

import pytest

from fa_core.analysis.difference import NumberChange
from fa_core.report.quantities import BY_NAME
from fa_tui.cli import main
from fa_tui.views.differences import change_text
from tests.fa_tui.printing import printed, printed_json
from tests.json_files import put_json

DFA = {
    "method_name": "dfa",
    "residual_norms": [1.0, 100.0],
    "bp_grad_norms": [1e-3, 1e-9],
    "headline_acc": 0.31,
    "frozen_baseline_acc": 0.349,
}
BP = {
    "method_name": "bp",
    "provenance": {"hashes": {"weights": "1"}, "data_hash": "1"},
    "residual_norms": [1.0, 2.0],
    "bp_grad_norms": [1e-3, 1e-3],
    "headline_acc": 0.61,
}


def written(path, **reports):
    return str(put_json(path, {"reports": reports}))


@pytest.fixture
def old(tmp_path):
    return written(tmp_path / "old.json", dfa_s42=DFA, bp_s42=BP)


def test_letters_and_numbers_that_changed_are_shown_old_and_new(old, tmp_path, capsys):
    tamed = DFA | {"residual_norms": [1.0, 3.0], "bp_grad_norms": [1e-3, 1e-4]}
    new = written(tmp_path / "new.json", dfa_s42=tamed, bp_s42=BP)
    out = printed(capsys, "diff", old, new, code=1)
    (line,) = [line for line in out.splitlines() if line.startswith("dfa s42")]
    assert line.split()[2:4] == ["✗ab·d", "✗--·d"]
    assert "(a) growth 100 → 3, (b) ‖g_L‖ 1e-9 → 1e-4" in line
    assert "acc" not in line
    assert "bp s42" not in out
    assert "2 runs in both: 1 changed, 1 the same" in out


@pytest.mark.parametrize(
    ("dfa", "bp", "limit", "code", "said"),
    [
        ({}, {}, "50", 0, "2 runs in both: 0 changed, 2 the same\n"),
        ({}, {"residual_norms": [1.0, 99.0]}, "50", 1, "1 changed (1 verdict), 1 the same"),
        ({}, {"residual_norms": [1.0, 4.0]}, "3", 1, "1 changed (1 verdict)"),
        ({"residual_norms": [1.0, 100.00001]}, {}, "50", 0, "2 the same (1 but for rounding)"),
        ({}, {"headline_acc": 0.6100001}, "50", 1, "acc 0.61 → 0.6100001"),
        ({"axes": {"d": 256}}, {}, "50", 0, "2 the same"),
        ({}, {"provenance": {"hashes": {"weights": "2"}}}, "50", 1, "1 of other weights"),
        ({}, {"provenance": {"data_hash": "2"}}, "50", 1, "1 on other data, 1 the same"),
    ],
)
def test_what_changed_is_counted_by_the_given_thresholds_and_rounding_is_no_change(
    old, tmp_path, capsys, dfa, bp, limit, code, said
):
    new = written(tmp_path / "new.json", dfa_s42=DFA | dfa, bp_s42=BP | bp)
    assert said in printed(capsys, "diff", old, new, "--h-norm-explosion-ratio", limit, code=code)


def test_a_change_has_as_many_digits_as_show_it():
    numbers = (8.43896417e-4, 9.63930869e-4), (8.4389e-4, 8.4391e-4)
    assert [change_text(NumberChange(BY_NAME["null"], *pair)) for pair in numbers] == [
        "null Γ 8.44e-4 → 9.64e-4",
        "null Γ 8.4389e-4 → 8.4391e-4",
    ]


def test_runs_that_came_or_went_are_listed(old, tmp_path, capsys):
    new = written(tmp_path / "new.json", dfa_s42=DFA, fa_s42=DFA | {"method_name": "fa"})
    states = {
        run["method"]: run["state"]
        for run in printed_json(capsys, "diff", old, new, code=1)["runs"]
    }
    assert states == {"dfa": "same", "bp": "went", "fa": "came"}


def test_json_has_both_sides_with_every_digit(old, tmp_path, capsys):
    new = written(tmp_path / "new.json", dfa_s42=DFA | {"headline_acc": 0.3107}, bp_s42=BP)
    runs = printed_json(capsys, "diff", old, new, code=1)["runs"]
    (dfa,) = [run for run in runs if run["method"] == "dfa"]
    assert dfa["numbers"]["headline_acc"] == [0.31, 0.3107]
    assert (dfa["before"]["flags"], dfa["after"]["flags"]) == ("abd", "abd")


def test_a_filter_may_leave_runs_of_one_side(old, tmp_path, capsys):
    new = written(tmp_path / "new.json", dfa_s42=DFA)
    assert "0 runs in both: 0 changed, 0 the same, 1 only in A" in printed(
        capsys, "diff", old, new, "--filter", "method:bp", code=1
    )
    assert main(["diff", old, new, "--filter", "method:pb"]) == 2


def test_two_paths_are_needed(old):
    assert main(["diff", old]) == 2


def test_what_else_differs_is_said_before_the_numbers(tmp_path, capsys):
    d_lacks = {name: value for name, value in DFA.items() if name != "frozen_baseline_acc"}
    calm = {"residual_norms": [1.0, 2.0], "bp_grad_norms": [1e-3, 1e-3]}
    cases = (
        (d_lacks | calm, DFA | calm, " (1 verdict), 1 only because A lacks d", "data_hash"),
        (d_lacks, DFA, ", 1 where A lacks d", "growth"),
        (
            BP | {"provenance": {"data_hash": "1"}},
            BP | {"headline_acc": 0.6, "provenance": {}},
            ", 1 on data unknown in B",
            "verdict",
        ),
        (
            BP | {"batch_size": 64, "provenance": {"recipe": {"lam": 0.0, "epochs": 2}}},
            BP
            | {"batch_size": 128, "headline_acc": 0.6}
            | {"provenance": {"recipe": {"lam": 0.01, "epochs": 2, "lr": 1}}},
            ", 1 with λ 0 → 0.01, B 64 → 128",
            "epochs",
        ),
    )
    for before, after, said, unsaid in cases:
        paths = [
            written(tmp_path / name, dfa_s1=report | {"method_name": "dfa"})
            for name, report in (("a.json", before), ("b.json", after))
        ]
        out = printed(capsys, "diff", *paths, code=1)
        assert f"1 changed{said}, 0 the same" in out and unsaid not in out
        note = said.rpartition(", 1 ")[2]
        (line,) = [line for line in out.splitlines() if line.startswith("dfa s1")]
        assert f"  {note}, " in line
