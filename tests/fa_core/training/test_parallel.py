"""Training in several processes: the same runs to the last bit, and nothing lost with a process."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

from fa_core.errors import FaError
from fa_core.facts.manifest import PROGRESS
from fa_core.formats import scan
from fa_core.run_progress import read_progress
from fa_core.training.parallel import TrainingProcesses
from fa_core.training.train import EpochProgress, train_run

from .conftest import plan


def plans(*methods: str) -> list:
    return [plan(method) for method in methods]


def ignore(moment: EpochProgress) -> None:
    """Nothing is shown."""


@pytest.mark.slow
def test_runs_are_those_of_one_process_and_frozen_ones_come_first(data, tmp_path: Path) -> None:
    with TrainingProcesses(["cpu", "cpu"], tmp_path / "two", 1, {}) as processes:
        done = list(processes.train(plans("dfa", "bp", "frozen"), ignore))
    assert ("/frozen" in done[0], len(done)) == (True, 3)
    together = {row.key: row.report for row in scan([tmp_path / "two"]).rows}
    for one in plans("frozen", "dfa"):
        train_run(one, data, tmp_path / "one" / one.name)
        alone = scan([tmp_path / "one" / one.name]).rows[0].report
        assert alone.residual_norms == together[one.name].residual_norms
        assert alone.frozen_baseline_acc == together[one.name].frozen_baseline_acc


@pytest.mark.slow
def test_what_cannot_be_trained_says_which_run(tmp_path: Path) -> None:
    bad = [replace(one, arch="no_such_network") for one in plans("dfa")]
    with TrainingProcesses(["cpu"], tmp_path, 1, {}) as processes, pytest.raises(FaError) as caught:
        list(processes.train(bad, ignore))
    assert bad[0].name in str(caught.value)


@pytest.mark.slow
def test_a_process_that_dies_is_noticed_and_its_epochs_are_kept(tmp_path: Path) -> None:
    def kill(moment: EpochProgress) -> None:
        if moment.entry is not None:
            os.kill(processes.children[0].pid, signal.SIGKILL)

    with (
        TrainingProcesses(["cpu"], tmp_path, 1, {}) as processes,
        pytest.raises(FaError, match="the training process on cpu died"),
    ):
        list(processes.train(plans("dfa"), kill))
    (folder,) = tmp_path.iterdir()
    assert (folder / "trace.jsonl").read_text().startswith('{"epoch": 1')
    assert (folder / PROGRESS).exists()
    progress = read_progress(folder)
    assert progress is not None and not progress.is_at_work()


@pytest.mark.slow
def test_leaving_early_stops_the_processes_and_says_so(tmp_path: Path) -> None:
    with TrainingProcesses(["cpu"], tmp_path, 1, {}) as processes:
        moments: list[EpochProgress] = []

        def leave(moment: EpochProgress) -> None:
            moments.append(moment)
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            list(processes.train([replace(one, recipe=LONG) for one in plans("dfa")], leave))
    (folder,) = tmp_path.iterdir()
    progress = read_progress(folder)
    assert progress is not None and progress.ended == "stopped"


LONG = replace(plan("dfa").recipe, epochs=500)
