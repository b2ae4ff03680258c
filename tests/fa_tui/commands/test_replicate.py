"""The published experiments: every command of them runs, on made-up CIFAR files in the true layouts."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import msgspec
import numpy as np
import pytest

from fa_core.facts.manifest import Manifest
from fa_core.training.experiments import document, experiment, experiments
from fa_core.training.plan import Recipe
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
    for command in chosen.commands(
        str(cifar / "ten"), str(cifar / "hundred"), str(out), quick=True
    ):
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
    quick = json.loads(capsys.readouterr().out)
    assert quick["figures"] == [] and "nothing is compared" in quick["notes"][0]
    # the same runs, taken for those of the experiment
    assert main(["replicate", name, "--out", str(out), "--format", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["commands"] == [
        " ".join(["fa-tui", *command]) for command in chosen.commands("DIR", "DIR", str(out))
    ]
    assert {figure["outcome"] for figure in printed["figures"]} <= {"no figure yet"}
    trained = {path.name for path in Path(chosen.runs(str(out))).iterdir()} & set(chosen.plans())
    assert sorted(note.split(" is not compared: ")[0] for note in printed["notes"]) == sorted(
        trained
    )


def test_a_figure_is_compared_once_all_its_seeds_are_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def outcomes() -> dict[str, str]:
        main(["replicate", "random-init", "--out", str(tmp_path), "--format", "json"])
        return {
            one["number"]: one["outcome"] for one in json.loads(capsys.readouterr().out)["figures"]
        }

    for seed, h_L in ((42, 8.0), (123, 9.0), (456, 8.5)):
        assert "agrees" not in outcomes().values()
        folder = tmp_path / "resmlp" / f"random_init_s{seed}"
        folder.mkdir(parents=True)
        write_manifest(folder, seed)
        write_report(folder, h_L)
    assert outcomes() == dict.fromkeys(("acc", "h_L", "g_L", "drift", "fires of ab"), "agrees")
    write_report(folder, float("nan"))
    assert {number for number, outcome in outcomes().items() if outcome == "differs"} == {
        "h_L",
        "fires of ab",
    }
    assert main(["replicate", "random-init", "--out", str(tmp_path)]) == 1
    assert "8/9/nan" in capsys.readouterr().out


def write_manifest(folder: Path, seed: int) -> None:
    recipe = msgspec.to_builtins(Recipe(epochs=0))
    size = {"d": 256, "L": 4}
    manifest = Manifest(
        method="random_init",
        arch="resmlp",
        arch_args=size,
        data="cifar10:/x",
        seed=seed,
        recipe=recipe,
    )
    (folder / "manifest.json").write_bytes(msgspec.json.encode(manifest))


def write_report(folder: Path, h_L: float) -> None:
    report = {
        "residual_norms": [8.7, h_L],
        "bp_grad_norms": [8e-3, 8e-3],
        "headline_acc": 0.1,
        "cross_batch_stability": 0.13,
    }
    (folder / "audit.json").write_text(json.dumps(report))


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
        main(
            [
                "replicate",
                "cifar100",
                "--cifar100",
                str(tmp_path / "no"),
                "--out",
                str(tmp_path / "o"),
                "--run",
            ]
        )
        == 3
    )
    assert f"{tmp_path}/no" in capfd.readouterr().err


def test_the_evidence_holds_every_claim_with_its_command_and_what_came_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "evidence.md"
    assert main(["replicate", "--evidence", str(file), "--out", str(tmp_path / "none")]) == 0
    assert capsys.readouterr().out == f"{file}\n"
    text = file.read_text()
    first, second = text.split("## What training gives")
    rows = [line.strip("| ").split(" | ") for line in first.splitlines() if "fa-tui " in line]
    assert [row[0] for row in rows] == [claim.text for claim in document().claim]
    assert {row[-1] for row in rows} == {"agrees"}, first
    monkeypatch.chdir(tmp_path)  # as shown, from anywhere
    printed = {}
    for claim, (_, command, where, _, here, _) in zip(document().claim, rows, strict=True):
        if command not in printed:
            assert main(shlex.split(command)[1:]) == 0
            printed[command] = capsys.readouterr().out
        if where == "the table":
            assert f" {here}/" in printed[command]
        else:
            found = claim.found_in(json.loads(printed[command]))
            assert where == claim.place and float(here) == pytest.approx(found, rel=1e-6)
    commands = [line for line in second.splitlines() if line.startswith("fa-tui ")]
    assert commands == [
        f"fa-tui replicate {one.name} --out {tmp_path / 'none'}" for one in experiments()
    ]
    command = f"fa-tui replicate penalty --out {tmp_path / 'none'}"
    assert main(shlex.split(command)[1:]) == 0
    assert "0.5320 ± 0.0060" in capsys.readouterr().out
