"""Training in workers of the pool: the runs of one process, and nothing lost with a worker."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from msgspec.structs import replace

from fa_core.engine.jobs import JobState
from fa_core.errors import FaError
from fa_core.facts.run_names import PROGRESS
from fa_core.formats import scan
from fa_core.run_progress import read_progress
from fa_core.training.runs import Order, train_runs

from .conftest import plan

pytestmark = pytest.mark.slow
TWO = ["cpu", "cpu"]


def orders(*methods, **changes):
    return [Order(plan=plan(method, **changes)) for method in methods]


def test_runs_are_those_of_one_process_and_frozen_ones_come_first(data, tmp_path):
    views = {"one": [], "two": []}
    for name, devices in (("one", ["cpu"]), ("two", TWO)):
        wanted = orders("frozen", "dfa", "bp") if name == "one" else orders("dfa", "bp", "frozen")
        train_runs(wanted, tmp_path / name, data, devices, 1, views[name].append)
        done = [view.job.method for view in views[name] if view.state is JobState.DONE]
        assert (done[0], len(done)) == ("frozen", 3)
        assert "epoch 4/4: loss " in " ".join(view.note for view in views[name])
        assert str(tmp_path / name / "frozen_s42") in views[name][-1].note or done[-1] != "frozen"
    alone, together = (
        {row.key: row.report for row in scan([tmp_path / name]).rows} for name in views
    )
    for key, report in alone.items():
        assert report.residual_norms == together[key].residual_norms
        assert report.frozen_baseline_acc == together[key].frozen_baseline_acc


def test_a_worker_that_dies_is_named_and_its_epochs_are_kept(data, tmp_path):
    def kill(view):
        if view.note.startswith("epoch") and view.state is JobState.RUNNING:
            os.kill(view.pid, signal.SIGKILL)

    with pytest.raises(FaError, match=r"dfa_s42: its worker on cpu was killed .*add --resume"):
        train_runs(orders("dfa"), tmp_path, data, TWO, 1, kill)
    (folder,) = tmp_path.iterdir()
    assert (folder / "trace.jsonl").read_text().startswith('{"epoch": 1')
    assert (folder / PROGRESS).exists()
    assert not read_progress(folder).is_at_work()


def test_what_cannot_be_trained_says_which_run_and_stops_the_others_in_order(data, tmp_path):
    long = replace(plan("dfa").recipe, epochs=500)
    wanted = [*orders("dfa"), *orders("bp", arch="no_such_network")]
    wanted[0] = replace(wanted[0], plan=replace(wanted[0].plan, recipe=long))
    with pytest.raises(FaError, match=r"bp_arch.*s42|bp_s42: unknown network"):
        train_runs(wanted, tmp_path, data, TWO, 1, lambda view: None)
    for folder in tmp_path.iterdir():
        assert read_progress(folder).ended == "stopped"
