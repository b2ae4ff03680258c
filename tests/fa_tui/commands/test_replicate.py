"""The published experiments: every command of them runs, on made-up CIFAR files in the true layouts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fa_core.replication import claims, experiment, experiments
from fa_tui.cli import main

SMALL = {"256": "8", "512": "8", "2,4,8,12": "1,2"}
"""Widths and depths of the published runs → those of the tests."""


@pytest.fixture(scope="module")
def cifar(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both data sets with 48 test samples: too few batches for (c), which would cost minutes."""
    folder, rng = tmp_path_factory.mktemp("cifar"), np.random.default_rng(0)
    for name, files, labels in (
        ("ten", [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"], 1),
        ("hundred", ["train.bin", "test.bin"], 2),
    ):
        (folder / name).mkdir()
        for file in files:
            records = rng.integers(0, 10, (48, labels + 3072), dtype=np.uint8)
            (folder / name / file).write_bytes(records.tobytes())
    return folder


@pytest.mark.parametrize("name", [one.name for one in experiments()])
def test_every_command_of_an_experiment_trains_and_leaves_runs_to_compare(
    name: str, cifar: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = experiment(name)
    out = tmp_path / "quick"
    for command in chosen.commands(str(cifar / "ten"), str(cifar / "hundred"), str(out), quick=True):
        small = [
            SMALL.get(word, word) if before in ("--d", "--L") else word
            for before, word in zip(["", *command], command, strict=False)
        ]
        extra = ["--batch-size", "32"]
        if "synthetic" in small:
            small[small.index("synthetic")] = "synthetic:train=200,test=50"
        if "vit_mini" in small or "smallcnn" in small:
            small[small.index("--method") + 1] = "frozen,dfa"
        if "resnet20" in small or "resnet56" in small:
            extra += ["--L", "3", "--arch-arg", "width=4"]
        assert main([*small, *extra, "--threads", "1"]) == 0
    capsys.readouterr()
    assert main(["replicate", name, "--out", str(tmp_path), "--quick", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["figures"] == []
    code = main(["replicate", name, "--out", str(out), "--format", "json"])
    printed = json.loads(capsys.readouterr().out)
    assert printed["commands"] == [
        " ".join(["fa-tui", *command]) for command in chosen.commands("DIR", "DIR", str(out))
    ]
    judged = [figure["agrees"] for figure in printed["figures"]]
    assert code == (1 if False in judged else 0)
    # one figure of each run that was trained
    trained = {path.name.split("_s42")[0] for path in Path(chosen.runs(str(out))).iterdir()}
    for figure in printed["figures"]:
        if figure["run"].replace(" lam=", "_lam") in trained:
            assert figure["agrees"] is not None or figure["number"].startswith(("drift", "margin_pp")), figure


def test_the_list_names_every_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replicate"]) == 0
    printed = capsys.readouterr().out
    assert all(one.name in printed and one.title in printed for one in experiments())


def test_an_unknown_experiment_names_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replicate", "pennalty"]) == 2
    assert "penalty" in capsys.readouterr().err


def test_run_trains_what_is_missing_and_ends_with_the_code_of_what_failed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert (
        main(["replicate", "cifar100", "--cifar100", str(tmp_path / "no"), "--out", str(tmp_path / "o"), "--run"]) == 3
    )
    assert f"{tmp_path}/no" in capfd.readouterr().err


def test_the_evidence_holds_every_claim_with_its_command_and_what_came_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "evidence.md"
    assert main(["replicate", "--evidence", str(file), "--out", str(tmp_path / "none")]) == 0
    assert capsys.readouterr().out == f"{file}\n"
    text = file.read_text()
    first, second = text.split("## What training gives")
    lines = [line.split(" | ") for line in first.splitlines() if line.startswith("| ") and "fa-tui " in line]
    assert [line[0].removeprefix("| ") for line in lines] == [claim.text for claim in claims()]
    assert all(line[-1] == "agrees |" for line in lines), first
    assert all(f"fa-tui replicate {one.name} --run" in second for one in experiments() if one.published or one.table)
