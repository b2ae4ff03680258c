"""Training in workers of the pool: the runs of one process, and nothing lost with a worker."""

import os
import signal

import pytest

from fa_core.audit.jobs import JobState
from fa_core.errors import FaError
from fa_core.formats import scan
from fa_core.formats.run_folder import read_progress
from fa_core.report.manifest import PROGRESS
from fa_core.training.plan import Order
from fa_core.training.runs import train_runs

from .conftest import plan

pytestmark = pytest.mark.slow
TWO = ["cpu", "cpu"]


def orders(*methods, **changes):
    return [Order(plan=plan(method, **changes)) for method in methods]


def test_runs_are_those_of_one_process_and_frozen_ones_come_first(data, tmp_path):
    views = []
    train_runs(orders("frozen", "dfa", "bp"), tmp_path / "one", data, ["cpu"], 1, views.append)
    train_runs(orders("dfa", "bp", "frozen"), tmp_path / "two", data, TWO, 1, views.append)
    done = [view for view in views if view.state is JobState.DONE]
    assert [done[0].job.method, done[3].job.method, len(done)] == ["frozen", "frozen", 6]
    assert all(view.note.startswith(f"{view.job.checkpoint}: ") for view in done)
    assert "epoch 4/4: loss " in " ".join(view.note for view in views)
    alone, together = ({row.key: row.report for row in scan([folder]).rows}
                       for folder in sorted(tmp_path.iterdir()))  # fmt: skip
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
    wanted = [*orders("dfa", recipe={"epochs": 500}), *orders("bp", arch="no_such_network")]
    with pytest.raises(FaError, match="bp_s42: unknown network"):
        train_runs(wanted, tmp_path, data, TWO, 1, lambda view: None)
    for folder in tmp_path.iterdir():
        assert read_progress(folder).ended == "stopped"
