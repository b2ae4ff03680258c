"""How far a command says it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from fa_tui.commands.progress import AuditProgress, TrainingProgress
from fa_tui.jobs.listing import PROGRESS_FILE, ProgressFile, Reached, read_progress


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_it_tells_where_the_command_stands_but_is_not_written_for_every_batch(tmp_path: Path) -> None:
    path, clock = tmp_path / "train.progress", Clock()
    assert read_progress(path) is None
    file = ProgressFile(path, clock)
    file.note(Reached(0.25, 30, "first"))
    assert read_progress(path) == Reached(0.25, 30, "first")
    file.note(Reached(0.5, 30, "second"))
    assert read_progress(path) == Reached(0.25, 30, "first")
    file.note(Reached(0.5, 30, "second"), at_once=True)
    assert read_progress(path) == Reached(0.5, 30, "second")
    clock.now += 1.0
    file.note(Reached(0.75, 30, "third"))
    assert read_progress(path) == Reached(0.75, 30, "third")
    assert [each.name for each in tmp_path.iterdir()] == ["train.progress"]


def test_a_place_that_cannot_be_written_stops_no_training(tmp_path: Path) -> None:
    ProgressFile(tmp_path / "gone" / "train.progress").note(Reached(0.5, 30, "first"))


def test_nobody_is_told_who_did_not_ask(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PROGRESS_FILE, raising=False)
    monkeypatch.chdir(tmp_path)
    ProgressFile().note(Reached(0.5, 30, "first"))
    assert not list(tmp_path.iterdir())


def test_a_training_command_tells_of_its_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = pytest.importorskip("fa_core.train")
    path = tmp_path / "train.progress"
    monkeypatch.setenv(PROGRESS_FILE, str(path))
    with TrainingProgress(2) as progress:
        progress.update(train.Moment(run="dfa_s1", epoch=2, epochs=300, step=40, steps=400))
        assert read_progress(path) == Reached(1.1, 600, "dfa_s1: epoch 2, batch 40/400")
        entry = {"loss": 1.0, "test_acc": 0.5}
        progress.update(train.Moment(run="dfa_s1", epoch=300, epochs=300, step=400, steps=400, entry=entry))
        progress.finished("dfa_s1: trustworthy")
        assert read_progress(path) == Reached(300.0, 600, "dfa_s1: epoch 300, accuracy 0.5000")
        progress.update(train.Moment(run="dfa_s2", epoch=1, epochs=300, step=100, steps=400))
        progress.finished("dfa_s2: trustworthy")
        assert read_progress(path) == Reached(300.25, 600, "dfa_s2: epoch 1, batch 100/400")


def test_an_audit_tells_how_many_runs_are_done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.progress"
    monkeypatch.setenv(PROGRESS_FILE, str(path))
    with AuditProgress() as progress:
        progress.plan(3, 1)
    assert read_progress(path) == Reached(0, 3, "3 runs to measure, 1 measured before")
