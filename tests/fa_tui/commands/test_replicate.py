"""The published experiments as commands."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from fa_core.training.plan import Experiment, experiments
from fa_tui import typer_app
from fa_tui.cli import main
from fa_tui.commands import replicate

PAGE = (Path(__file__).parents[3] / "docs" / "cifar.md").read_text(encoding="utf-8")


def test_the_list_names_every_experiment_and_an_unknown_one_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["replicate"]) == 0
    printed = capsys.readouterr().out
    assert all(one.name in printed and one.title in printed for one in experiments())
    assert main(["replicate", "pennalty"]) == 2
    assert "penalty" in capsys.readouterr().err


@pytest.mark.parametrize("chosen", experiments(), ids=lambda chosen: chosen.name)
def test_what_is_printed_are_commands_that_stand_on_the_page(
    chosen: Experiment, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replicate", chosen.name]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f"## {chosen.title}\n" in PAGE
    for line in lines:
        assert f"    {line}\n" in PAGE
        _, name, *words = shlex.split(line)
        command = typer_app.command_of([name]).commands[name]
        assert command.make_context(name, words).params["resume"]
    assert [line.split()[1] for line in lines[-2:]] == ["train", "audit"]


def test_run_trains_and_measures_and_ends_with_the_code_of_what_failed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    train = "train --method frozen,dfa --d 8 --L 2 --epochs 1 --seeds 1 --threads 1"
    steps = [f"{train} --data synthetic:train=200,test=1280 --out {{runs}}"]
    small = Experiment(
        name="small", title="", folder="runs", steps=[*steps, "audit {runs} --out {audit}"]
    )
    monkeypatch.setattr(replicate, "experiment", lambda _: small)
    given = ["--out", str(tmp_path), "--run", "--device", "cpu"]
    assert main(["replicate", "small", *given]) == 0
    reports = json.loads((tmp_path / "small.json").read_text())["reports"]
    assert set(reports) == {"frozen_s1", "dfa_s1"}
    monkeypatch.undo()
    missing = str(tmp_path / "no")
    assert main(["replicate", "cifar100", "--cifar100", missing, *given]) == 3
    assert missing in capfd.readouterr().err
    (tmp_path / "replication").symlink_to("runs")
    monkeypatch.chdir(tmp_path)
    assert main(["replicate", "cifar100", "--run"]) == 2
    assert "replication: is a link to runs, and is not followed" in capfd.readouterr().err
