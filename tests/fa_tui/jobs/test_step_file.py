"""How far a training command is within its epoch."""

from __future__ import annotations

from pathlib import Path

import pytest

from fa_tui.commands.progress import TrainingProgress
from fa_tui.jobs.pace import STEP_FILE, StepFile, Steps, read_steps


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_it_tells_where_the_command_stands_but_is_not_written_for_every_batch(tmp_path: Path) -> None:
    path, clock = tmp_path / "train.steps", Clock()
    assert read_steps(path) is None
    file = StepFile(path, clock)
    file.note(Steps("dfa_s1", 1, 1, 400))
    assert read_steps(path) == Steps("dfa_s1", 1, 1, 400)
    file.note(Steps("dfa_s1", 1, 2, 400))
    assert read_steps(path) == Steps("dfa_s1", 1, 1, 400)
    clock.now += 1.0
    file.note(Steps("dfa_s1", 1, 90, 400))
    assert read_steps(path) == Steps("dfa_s1", 1, 90, 400)
    assert [each.name for each in tmp_path.iterdir()] == ["train.steps"]


def test_a_place_that_cannot_be_written_stops_no_training(tmp_path: Path) -> None:
    StepFile(tmp_path / "gone" / "train.steps").note(Steps("dfa_s1", 1, 1, 400))


def test_nobody_is_told_who_did_not_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(STEP_FILE, raising=False)
    monkeypatch.chdir(tmp_path)
    StepFile().note(Steps("dfa_s1", 1, 1, 400))
    assert not list(tmp_path.iterdir())


def test_the_part_of_an_epoch_counts_for_that_epoch_alone() -> None:
    steps = Steps("dfa_s1", 3, 100, 400)
    assert [steps.part_of_epoch(done) for done in (1, 2, 3)] == [0.0, 0.25, 0.0]
    assert Steps("dfa_s1", 1, 0, 0).part_of_epoch(0) == 0.0


def test_a_training_command_tells_of_its_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = pytest.importorskip("fa_core.train")
    path = tmp_path / "train.steps"
    monkeypatch.setenv(STEP_FILE, str(path))
    with TrainingProgress(1) as progress:
        progress.update(train.Moment(run="dfa_s1", epoch=2, epochs=300, step=40, steps=400))
    assert read_steps(path) == Steps("dfa_s1", 2, 40, 400)
