"""`fa-tui audit` and `fa-tui verify` as a person runs them: real processes, real (small) networks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from safetensors.torch import save_file

from fa_core.errors import UsageError
from fa_core.formats.rows import AuditRow
from fa_core.report.manifest import CREDIT, MANIFEST, WEIGHTS, Manifest
from fa_core.zoo.methods import make_method
from fa_core.zoo.models import build
from fa_tui.commands.audit import in_part

ARGS = {"input_dim": 8, "d": 16, "L": 3, "num_classes": 10}
DATA = "synthetic:input=8,train=256,test=1280"


def fa_tui(*arguments: object, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", "import sys; from fa_tui.cli import main; sys.exit(main())"]
    return subprocess.run(
        [*command, *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=environment,
        check=False,
    )


def make_run(folder: Path, method: str, blow_up: float = 1.0) -> Path:
    folder.mkdir(parents=True)
    net = build("resmlp", **ARGS, seed=42)
    manifest = Manifest(method=method, arch="resmlp", arch_args=net.arch_args, data=DATA, seed=42)
    (folder / MANIFEST).write_text(json.dumps(msgspec.to_builtins(manifest)))
    state = {
        name: t * blow_up if name.startswith("blocks") else t
        for name, t in net.state_dict().items()
    }
    save_file(state, folder / WEIGHTS)
    feedback = dict(make_method(method, net, 42).state_dict())
    if feedback:
        save_file(feedback, folder / CREDIT)
    return folder


@pytest.fixture(scope="module")
def campaign(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three good runs and one with a broken file."""
    folder = tmp_path_factory.mktemp("campaign")
    for method, blow_up in (("bp", 1.0), ("dfa", 100.0), ("frozen", 1.0), ("fa", 1.0)):
        make_run(folder / "runs" / f"{method}_s42", method, blow_up)
    weights = folder / "runs" / "fa_s42" / WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-40])
    return folder


@pytest.fixture(scope="module")
def audited(campaign: Path) -> subprocess.CompletedProcess[str]:
    return fa_tui(
        "audit", "runs", "--out", "audit.json", "--device", "cpu", "--format", "json", cwd=campaign
    )


def test_audit_prints_the_rows_on_stdout_and_the_progress_on_stderr(audited):
    rows = {row["method"]: row for row in json.loads(audited.stdout)}
    assert list(rows) == ["bp", "dfa", "frozen"]
    assert rows["bp"]["coverage"] == "abcd"
    assert rows["frozen"]["coverage"] == "abc"
    assert "a" in rows["dfa"]["flags"]
    assert rows["bp"]["frozen_baseline_acc"] == rows["frozen"]["headline_acc"]
    assert "4 runs to measure" in audited.stderr
    assert re.search(
        r"bp seed 42: [✓✗][-a~][-b~][-c~]·", audited.stderr
    )  # (d) follows when all runs are measured


def test_audit_names_the_run_that_failed_in_one_line_and_exits_with_3(audited):
    assert audited.returncode == 3
    (line,) = [line for line in audited.stderr.splitlines() if line.startswith("fa-tui: ")]
    assert "fa_s42" in line
    assert "Traceback" not in audited.stderr


def test_audit_writes_a_table_that_show_reads(audited, campaign):
    shown = fa_tui("show", "audit.json", "--format", "json", cwd=campaign)
    printed, again = json.loads(audited.stdout), json.loads(shown.stdout)
    for row in (*printed, *again):
        row.pop("source")
        row.pop("recorded_verdict")
    assert again == printed


def test_a_resumed_audit_measures_only_what_is_missing(audited, campaign):
    resumed = fa_tui(
        "audit",
        "runs",
        "--out",
        "audit.json",
        "--device",
        "cpu",
        "--resume",
        "--format",
        "json",
        cwd=campaign,
    )
    assert "1 run to measure, 3 measured before" in resumed.stderr
    assert len(json.loads(resumed.stdout)) == 3


def test_verify_agrees_with_what_was_just_measured(audited, campaign):
    verified = fa_tui("verify", "audit.json", "--device", "cpu", cwd=campaign)
    assert verified.returncode == 0, verified.stderr
    assert verified.stdout.count("agrees") == 3


def test_verify_sees_one_changed_bit(audited, campaign, tmp_path):
    weights = campaign / "runs" / "bp_s42" / WEIGHTS
    content = weights.read_bytes()
    try:
        weights.write_bytes(content[:-4] + bytes([content[-4] ^ 1]) + content[-3:])
        verified = fa_tui(
            "verify", "audit.json", "--device", "cpu", "--format", "json", cwd=campaign
        )
    finally:
        weights.write_bytes(content)
    assert verified.returncode == 1
    outcome = {run["method"]: run for run in json.loads(verified.stdout)}
    assert [outcome[method]["agrees"] for method in ("bp", "dfa", "frozen")] == [False, True, True]
    assert outcome["bp"]["differences"][0]["name"] == "provenance.hashes.weights"


def test_notes_are_written_into_the_reports(campaign, tmp_path):
    out = tmp_path / "out.json"
    asked = ("--credit", "none", "--device", "cpu", "--notes", "made up")
    done = fa_tui("audit", "runs/bp_s42", "--out", out, *asked, cwd=campaign)
    assert done.returncode == 0, done.stderr
    (report,) = json.loads(out.read_text())["reports"].values()
    assert report["notes"] == "made up"


def test_the_precision_goes_into_the_table_and_a_verification(campaign, tmp_path):
    asked = ("--precision", "--credit", "none", "--device", "cpu")
    done = fa_tui(
        "audit",
        "runs/bp_s42",
        "runs/frozen_s42",
        "--out",
        tmp_path / "firm.json",
        *asked,
        cwd=campaign,
    )
    assert done.returncode == 0, done.stderr
    reports = json.loads((tmp_path / "firm.json").read_text())["reports"]
    assert len(reports["bp_s42"]["reference_precision"]["cosine"]) == 4
    # the frozen run's accuracy came after bp was measured, and bp's margin has an interval all the same
    assert "margin_pp" in reports["bp_s42"]["intervals"]
    verified = fa_tui("verify", tmp_path / "firm.json", "--device", "cpu", cwd=campaign)
    assert verified.returncode == 0, verified.stdout + verified.stderr


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
    options = ("--data", "my_lab:data", "--device", "cpu", "--out", "out.json", "--format", "json")
    own = ("--model", "my_lab:net", "--loss", "my_lab:loss", "--credit", "my_lab:credit")
    done = fa_tui("audit", "mine_s7.pt", *own, "--taps", "0,1", *options, cwd=tmp_path)
    (row,) = json.loads(done.stdout)
    assert (row["method"], row["seed"], row["coverage"]) == ("mine", 7, "abc")
    (report,) = json.loads((tmp_path / "out.json").read_text())["reports"].values()
    assert report["credit"]["null"]["of"] == "samples shuffled"
    without = fa_tui(
        "audit", "mine_s7.pt", "--model", "my_lab:net", *options, "--out", "w.json", cwd=tmp_path
    )
    assert without.returncode == 0
    assert "taps guessed: '0,1'" in without.stderr
    again = fa_tui("verify", "out.json", "--device", "cpu", cwd=tmp_path)
    assert again.returncode == 3
    assert " ".join([*own, "--data", "my_lab:data"]) in again.stderr
    typed = fa_tui(
        "verify",
        "out.json",
        "--device",
        "cpu",
        *own,
        "--data",
        "my_lab:data",
        cwd=tmp_path,
    )
    assert (typed.returncode, "agrees" in typed.stdout) == (0, True)


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["audit", "runs"], 2, "--out"),
        (["audit", "nowhere", "--out", "o.json"], 3, "nowhere"),
        (["audit", "runs", "--out", "o.json", "--device", "cuda:9"], 2, "devices here"),
        (["audit", "runs", "--out", "."], 2, "is a folder"),
        (["audit", "runs", "--out", "o.json", "--address", "auto"], 2, "add --engine ray"),
        (["audit", "runs", "--out", "o.json", "--jobs", "0", "--device", "cpu"], 2, "--jobs 0"),
        (["audit", "runs", "--out", "o.json", "--data", "nope"], 2, "data set 'nope'"),
        (["audit", "runs", "--out", "o.json", "--loss", "bcee"], 2, "loss 'bcee'; did you mean"),
        (["audit", "runs", "--out", "o.json", "--batches", "0"], 2, "--batches 0"),
        (
            ["audit", "runs", "--out", "o.json", "--model", "json"],
            2,
            "--model 'json' is not module:callable",
        ),
        (
            [
                "train",
                "--method",
                "bp",
                "--out",
                "bare_s1.safetensors",
                "--data",
                "synthetic:train=256,test=1280",
            ],
            2,
            "is a file, not a folder",
        ),
        (["audit", "bare_s1.safetensors", "--out", "o.json", "--device", "cpu"], 2, "--data SPEC"),
        (["verify", "bare_s1.safetensors"], 3, "nothing recorded"),
    ],
)
def test_what_cannot_be_meant_is_one_line_and_an_exit_code(campaign, arguments, code, words):
    save_file(build("resmlp", **ARGS, seed=1).state_dict(), campaign / "bare_s1.safetensors")
    done = fa_tui(*arguments, cwd=campaign)
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_the_prompt_says_why_drift_is_missing_and_that_batches_are_fewer(campaign, tmp_path):
    run, out = campaign / "runs" / "bp_s42", tmp_path / "few.json"
    few = fa_tui("audit", run, "--out", out, "--batches", "7", "--norm-batches", "99")
    assert "(c) not measured: only 7 eval batches, drift needs at least 8 (1 run)" in few.stdout
    assert "(a) and (b) use all 7 eval batches, not the 99 asked for" in few.stderr


def test_parts_of_an_audit_make_the_whole_when_they_are_opened_together(campaign, tmp_path):
    runs = ("runs/bp_s42", "runs/dfa_s42")
    options = ("--device", "cpu", "--credit", "none")
    parts = [tmp_path / f"part-{number}.json" for number in (1, 2)]
    for number, part in enumerate(parts, 1):
        assert (
            fa_tui(
                "audit", *runs, "--shard", f"{number}/2", "--out", part, *options, cwd=campaign
            ).returncode
            == 0
        )
    shown = json.loads(fa_tui("show", *parts, "--format", "json", cwd=campaign).stdout)
    fa_tui("audit", *runs, "--out", tmp_path / "whole.json", *options, cwd=campaign)
    whole = json.loads(fa_tui("show", tmp_path / "whole.json", "--format", "json").stdout)
    for row in (*shown, *whole):
        del row["source"]
    assert [row["method"] for row in shown] == ["bp", "dfa"] and shown == whole


def test_runs_of_a_seed_stay_in_one_part_with_their_frozen_baseline():
    rows = [
        AuditRow(
            source=name,
            key=name,
            method=name.partition("_")[0],
            seed=int(name[-1]),
            checkpoint=name,
        )
        for name in ("bp_s1", "bp_s2", "bp_s3", "frozen_s1", "dfa_s1", "dfa_s2")
    ]
    parts = [[row.key for row in in_part(rows, f"{number}/2")] for number in (1, 2)]
    assert parts == [["bp_s1", "bp_s3", "frozen_s1", "dfa_s1"], ["bp_s2", "dfa_s2"]]
    assert in_part(rows, "1/1") == rows
    for wrong in ("0/2", "3/2", "x", "1/", "5/5"):
        with pytest.raises(UsageError, match="--shard"):
            in_part(rows, wrong)
