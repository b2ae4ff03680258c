"""`fa-tui audit` and `fa-tui verify` as a person runs them: real processes, real (small) networks."""

import json
import os
import subprocess
import sys

import pytest
from safetensors.torch import load_file, save_file

from fa_core.analysis.record_comparison import Comparison
from fa_core.audit.verify import Verification
from fa_core.errors import UsageError
from fa_core.report.diagnostic_report import DiagnosticReport
from fa_core.report.manifest import WEIGHTS
from fa_tui.cli import main
from fa_tui.commands.audit import in_part, verification_lines
from tests.fa_core.audit.runs_for_tests import make_run, small_net
from tests.fa_core.rows import row_of
from tests.json_files import json_of


def fa_tui(words, cwd):
    """Run the program in a folder, on the processor."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", "import sys; from fa_tui.cli import main; sys.exit(main())"]
    if words.startswith(("audit", "verify")) and "--device" not in words:
        words += " --device cpu"
    return subprocess.run(
        [*command, *words.split()], capture_output=True, text=True, cwd=cwd, env=environment
    )


@pytest.fixture(scope="module")
def campaign(tmp_path_factory):
    """Three good runs, one of which grows, and one with a broken file."""
    folder = tmp_path_factory.mktemp("campaign")
    _, dfa, _, fa = (
        make_run(folder / "runs" / f"{method}_s42", method) / WEIGHTS
        for method in ("bp", "dfa", "frozen", "fa")
    )
    grown = {
        name: tensor * (100.0 if name.startswith("blocks") else 1.0)
        for name, tensor in load_file(dfa).items()
    }
    save_file(grown, dfa)
    fa.write_bytes(fa.read_bytes()[:-40])
    return folder


@pytest.fixture(scope="module")
def audited(campaign):
    return fa_tui("audit runs --out audit.json --format json", campaign)


def test_audit_prints_the_rows_on_stdout_and_the_progress_on_stderr(audited):
    rows = {row["method"]: row for row in json.loads(audited.stdout)}
    assert list(rows) == ["bp", "dfa", "frozen"]
    assert rows["bp"]["coverage"] == "abcd"
    assert rows["frozen"]["coverage"] == "abc"
    assert "a" in rows["dfa"]["flags"]
    assert rows["bp"]["frozen_baseline_acc"] == rows["frozen"]["headline_acc"]
    assert "4 runs to measure" in audited.stderr
    # (d) follows when all runs are measured
    assert "bp seed 42: abc measured" in audited.stderr


def test_audit_names_the_run_that_failed_in_one_line_and_exits_with_3(audited):
    assert audited.returncode == 3
    (line,) = [line for line in audited.stderr.splitlines() if line.startswith("fa-tui: ")]
    assert "fa_s42" in line
    assert "Traceback" not in audited.stderr


def test_audit_writes_a_table_that_show_reads(audited, campaign):
    shown = fa_tui("show audit.json --format json", campaign)
    printed, again = json.loads(audited.stdout), json.loads(shown.stdout)
    for row in (*printed, *again):
        row.pop("source")
        row.pop("recorded_verdict")
    assert again == printed


def test_a_resumed_audit_measures_only_what_is_missing(audited, campaign):
    resumed = fa_tui("audit runs --out audit.json --resume --format json", campaign)
    assert "1 run to measure, 3 measured before" in resumed.stderr
    assert len(json.loads(resumed.stdout)) == 3


def test_verify_sees_one_changed_bit(audited, campaign):
    weights = campaign / "runs" / "bp_s42" / WEIGHTS
    content = weights.read_bytes()
    try:
        weights.write_bytes(content[:-4] + bytes([content[-4] ^ 1]) + content[-3:])
        verified = fa_tui("verify audit.json --format json", campaign)
    finally:
        weights.write_bytes(content)
    assert verified.returncode == 1
    outcome = {run["method"]: run for run in json.loads(verified.stdout)}
    assert [outcome[method]["agrees"] for method in ("bp", "dfa", "frozen")] == [False, True, True]
    assert outcome["bp"]["differences"][0]["name"] == "provenance.hashes.weights"


def test_notes_and_the_precision_go_into_the_table_and_a_verification(campaign):
    asked = "--precision --credit none --notes made-up --out firm.json"
    done = fa_tui(f"audit runs/bp_s42 runs/frozen_s42 {asked}", campaign)
    assert done.returncode == 0, done.stderr
    report = json_of(campaign / "firm.json")["reports"]["bp_s42"]
    assert report["notes"] == "made-up"
    assert len(report["reference_precision"]["cosine"]) == 4
    # the frozen run's accuracy came after bp was measured, and its margin has an interval all the same
    assert "margin_pp" in report["intervals"]
    verified = fa_tui("verify firm.json", campaign)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def test_verify_says_what_it_measured_unless_it_is_as_recorded_and_on_which_data(tmp_path):
    same = Comparison(differences=[], compared=3, largest=0.0, elsewhere=[], not_compared=[])
    out, here, old = map(str, (tmp_path / "a.json", tmp_path / "x.pt", tmp_path.with_name("x.pt")))
    for place, recorded, said in (
        (here, here, ""),
        (here, old, f", measured {here}"),
        (old, old, f", measured {old}"),
    ):
        facts = {"checkpoint": recorded, "trained_on": "1", "data_hash": "2"}
        row = row_of("x", out, place, report=DiagnosticReport(provenance=facts))
        assert [*verification_lines(Verification(row=row, comparison=same), "x")] == [
            f"x ({out}{said}): agrees: 3 values, bit for bit",
            "  measured on other data than its manifest names",
        ]


def test_a_users_own_network_is_measured_by_its_taps(tmp_path):
    (tmp_path / "my_lab.py").write_text(
        "import torch\n"
        "from torch import nn\n"
        "def net():\n"
        "    return nn.Sequential(nn.Linear(8, 16), nn.Sequential(nn.Linear(16, 16), nn.ReLU()), nn.Linear(16, 10))\n"
        "def data():\n"
        "    g = torch.Generator().manual_seed(0)\n"
        "    x, y = torch.randn(1280, 8, generator=g), torch.randint(0, 10, (1280,), generator=g)\n"
        "    return x, y, x, y\n"
        "def loss(z, y):\n"
        "    return (z - nn.functional.one_hot(y, 10)).abs().sum(1)\n"
        "def credit(model, x, y):\n"
        "    return [None, torch.eye(10)[y] @ torch.ones(10, 16).cumsum(0)]\n"
    )
    code = "import torch, my_lab; torch.save({'model': my_lab.net().state_dict()}, 'mine_s7.pt')"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)
    own = "--model my_lab:net --loss my_lab:loss --credit my_lab:credit"
    asked = "--data my_lab:data --format json --out"
    done = fa_tui(f"audit mine_s7.pt {own} --taps 0,1 {asked} out.json", tmp_path)
    (row,) = json.loads(done.stdout)
    assert (row["method"], row["seed"], row["coverage"]) == ("mine", 7, "abc")
    (report,) = json_of(tmp_path / "out.json")["reports"].values()
    assert report["credit"]["null"]["of"] == "samples shuffled"
    without = fa_tui(f"audit mine_s7.pt --model my_lab:net {asked} w.json", tmp_path)
    assert (without.returncode, "taps guessed: '0,1'" in without.stderr) == (0, True)
    again = fa_tui("verify out.json", tmp_path)
    assert (again.returncode, f"{own} --data my_lab:data" in again.stderr) == (3, True)
    typed = fa_tui(f"verify out.json {own} --data my_lab:data", tmp_path)
    assert (typed.returncode, "agrees" in typed.stdout) == (0, True)


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("audit runs", 2, "--out"),
        ("audit nowhere --out o.json", 3, "nowhere"),
        ("audit runs --out o.json --device cuda:9", 2, "devices here"),
        ("audit runs --out .", 2, "is a folder"),
        ("audit runs --out o.json --data nope", 2, "data set 'nope'"),
        ("audit runs --out o.json --loss bcee", 2, "loss 'bcee'; did you mean"),
        ("audit runs --out o.json --batches 0", 2, "--batches 0"),
        (
            "audit runs --out o.json --model json",
            2,
            "'json' is neither a known network nor module:callable",
        ),
        ("train --method bp --out bare_s1.safetensors --data synthetic", 2, "is a file, not a fol"),
        ("audit bare_s1.safetensors --out o.json", 2, "--data SPEC"),
        ("verify bare_s1.safetensors", 3, "nothing recorded"),
        ("verify without_norms.json", 3, "1 record with no checkpoint"),
    ],
)
def test_what_cannot_be_meant_is_one_line_and_an_exit_code(
    campaign, monkeypatch, capsys, words, code, said
):
    save_file(small_net(1).state_dict(), campaign / "bare_s1.safetensors")
    (campaign / "without_norms.json").write_text('{"reports": {"dfa_s1": {"headline_acc": 0.9}}}')
    monkeypatch.chdir(campaign)
    assert main(words.split()) == code
    out, err = capsys.readouterr()
    *before, last = err.splitlines()
    assert out == "" and said in last
    assert all("starting 1 run in" in line for line in before)


def test_the_prompt_says_why_drift_is_missing_and_that_batches_are_fewer(campaign):
    few = fa_tui("audit runs/bp_s42 --out few.json --batches 7 --norm-batches 99", campaign)
    assert "(c) not measured: only 7 eval batches, drift needs at least 8" in few.stdout
    assert "(a) and (b) use all 7 eval batches, not the 99 asked for" in few.stderr


def test_parts_of_an_audit_make_the_whole_when_they_are_opened_together(campaign):
    for out, asked in (("1.json", "--shard 1/2"), ("2.json", "--shard 2/2"), ("whole.json", "")):
        done = fa_tui(f"audit runs/bp_s42 runs/dfa_s42 --credit none --out {out} {asked}", campaign)
        assert done.returncode == 0, done.stderr
    shown, whole = (
        json.loads(fa_tui(f"show {files} --format json", campaign).stdout)
        for files in ("1.json 2.json", "whole.json")
    )
    for row in (*shown, *whole):
        del row["source"]
    assert [row["method"] for row in shown] == ["bp", "dfa"] and shown == whole


def test_runs_of_a_seed_stay_in_one_part_with_their_frozen_baseline():
    rows = [
        row_of(name, checkpoint=name)
        for name in ("bp_s1", "bp_s2", "bp_s3", "frozen_s1", "dfa_s1", "dfa_s2")
    ]
    parts = [[row.key for row in in_part(rows, f"{number}/2")] for number in (1, 2)]
    assert parts == [["bp_s1", "bp_s3", "frozen_s1", "dfa_s1"], ["bp_s2", "dfa_s2"]]
    assert in_part(rows, "1/1") == rows
    for wrong in ("0/2", "3/2", "x", "1/", "5/5", "1/" + "9" * 5000):
        with pytest.raises(UsageError, match="--shard"):
            in_part(rows, wrong)
