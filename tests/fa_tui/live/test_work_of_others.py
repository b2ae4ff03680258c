"""Runs that other processes train or measure: seen and followed, and left to their shells."""

import json
import subprocess
import sys
import time

import pytest

from fa_core.formats import scan
from fa_core.formats.run_folder import ProgressFiles
from fa_core.report.manifest import PROGRESS
from fa_tui.app import ExplorerApp
from fa_tui.follow import Folders
from fa_tui.session import Session, with_work
from fa_tui.views.epochs import cell_so_far, work_lines
from fa_tui.views.words import walk_back_words
from tests.fa_tui.looks import running
from tests.json_files import put_json

from ..waiting import until

TRACE = {"epoch": 1, "test_acc": 0.5, "residual_norms": [1, 99], "bp_grad_norms": [1, 1], "loss": 2}


@pytest.fixture
def run(tmp_path):
    """A run folder with one epoch, not measured."""
    folder = tmp_path / "runs" / "dfa_s1"
    folder.mkdir(parents=True)
    manifest = {"format": "fa-run/1", "method": "dfa", "arch": "resmlp", "seed": 1}
    put_json(folder / "manifest.json", manifest | {"data": "synthetic"})
    (folder / "model.safetensors").write_bytes(b"")
    (folder / "trace.jsonl").write_text(json.dumps(TRACE) + "\n")
    return folder


@pytest.fixture
def trainer(run):
    """Another process that claims to train the run until it is stopped."""
    code = (
        "import pathlib, sys, time; from fa_core.formats.run_folder import ProgressFiles\n"
        "with ProgressFiles() as files:\n"
        "    folder = pathlib.Path(sys.argv[1])\n"
        "    files.begin(folder, 'training'); files.update(folder, 2, 12, 50, 390)\n"
        "    time.sleep(600)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(run)])
    while not (run / PROGRESS).exists() or "390" not in (run / PROGRESS).read_text():
        time.sleep(0.01)
    yield process
    process.kill()
    process.wait()


def session_of(run):
    found = scan([run.parent])
    return Session(found.rows, traces=found.traces)


def follow(run):
    session, folders = session_of(run), Folders([run.parent], [str(run)])
    session = with_work(session, folders.look()[1])
    return session, folders


def test_a_run_in_training_shows_its_epoch_and_its_letters_so_far_and_is_not_measured(run, trainer):
    session, folders = follow(run)
    assert (len(session), session.problems, session.measurable([0])) == (1, (), [])
    assert folders.look() == ([], {}), "told once"
    assert cell_so_far(session, 0) == "▸a-··"
    assert walk_back_words(session) == "0 of 0 need walk-back, 1 training"
    lines = [text for text, _ in work_lines(session, 0)]
    assert lines[0] == "training, epoch 2 of 12, step 50 of 390"
    assert f"process {trainer.pid} here" in lines[1]
    assert lines[2] == "epoch 1  a-··  loss 2  acc 0.500"


def test_a_process_that_dies_is_noticed_without_an_event(run, trainer):
    session, folders = follow(run)
    trainer.kill()
    trainer.wait()
    (reading,), work = folders.look()
    session = with_work(session, work)
    ended = "training ended in epoch 2 of 12, step 50 of 390: its process died"
    assert next(text for text, _ in work_lines(session, 0)) == ended
    assert reading.rows[0].report.words == f"not measured: {ended}"
    assert walk_back_words(session) == "0 of 0 need walk-back, 1 not measured"


def test_a_finished_run_is_a_run_like_any_other(run):
    with ProgressFiles() as files:
        files.begin(run, "training")
        session, folders = follow(run)
        assert session.is_trained(0)
        files.end(run)
    session = with_work(session, folders.look()[1])
    assert session.work == {}


async def test_the_explorer_lists_it_and_does_not_stop_it(run, trainer):
    found = scan([run.parent])
    session = Session(found.rows, traces=found.traces)
    app = ExplorerApp(session, paths=[run.parent], since=time.time())
    async with running(app, (100, 30)) as pilot:
        await until(pilot, lambda: 0 in app.session.work)
        await pilot.press("J")
        await until(pilot, lambda: bool(app.jobs.listed()))
        (job,) = app.jobs.listed()
        assert (job.name, job.state, job.pid) == ("dfa s1", "running", trainer.pid)
        screen = app.screen
        await pilot.press("x", "X")
        await pilot.pause()
        assert app.screen is screen, "nothing of this explorer to end"
        assert trainer.poll() is None
