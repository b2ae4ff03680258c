"""The progress file of a run: who works on it, how far it is, and how it is known to have died."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec.structs import replace

from fa_core.audit.audit import _note_progress
from fa_core.audit.jobs import Job, JobState, JobView
from fa_core.formats import run_folder, scan
from fa_core.formats.run_folder import (
    STALE_SECONDS,
    ProgressFiles,
    look_at,
    read_progress,
    starting,
)
from fa_core.report.manifest import MANIFEST, PROGRESS


def test_what_this_process_works_on_is_at_work(tmp_path):
    with ProgressFiles() as files:
        files.begin(tmp_path, "training")
        files.update(tmp_path, 5, 12, 150, 390)
        found = read_progress(tmp_path)
        assert (found.pid, found.is_at_work()) == (os.getpid(), True)
        # the epoch is new, so that it was written at once, with the step of that moment
        assert found.place() == "epoch 5 of 12, step 150 of 390"
    assert not (tmp_path / PROGRESS).exists()


def test_a_training_that_starts_is_a_run_at_once_and_leaves_nothing_where_it_cannot(tmp_path):
    (there := tmp_path / "bp_s1").mkdir()
    with pytest.raises(ValueError), starting({tmp_path / "dfa_lam0.1_s42": 12, there: 12}):
        (row,) = scan([tmp_path]).rows
        assert (row.key, row.method, row.seed) == ("dfa_lam0.1_s42", "dfa", 42)
        assert row.report.unmeasured == {"training": "training, epoch 0 of 12"}
        raise ValueError
    assert list(tmp_path.rglob("*")) == [there]


def test_steps_wait_for_the_heartbeat(tmp_path, monkeypatch):
    monkeypatch.setattr(run_folder, "HEARTBEAT_SECONDS", 0.05)
    with ProgressFiles() as files:
        files.begin(tmp_path, "training")
        files.update(tmp_path, 1, 2, 10, 100)
        files.update(tmp_path, 1, 2, 60, 100)
        while (found := read_progress(tmp_path)) is None or found.step < 60:
            pass
    assert found.step == 60


@pytest.mark.parametrize(
    ("error", "ended"),
    [(ValueError("no room"), "failed: no room"), (KeyboardInterrupt(), "stopped")],
)
def test_an_error_says_why_a_run_is_not_finished_and_measuring_leaves_that(tmp_path, error, ended):
    with pytest.raises(type(error)), ProgressFiles() as files, files.of(tmp_path):
        raise error
    found = read_progress(tmp_path)
    assert (found.ended, found.is_at_work()) == (ended, False)
    with ProgressFiles() as files:
        files.begin(tmp_path, "measuring")
    assert read_progress(tmp_path) == found


def test_a_killed_process_is_known_at_once_on_its_own_machine(tmp_path):
    code = (
        "import os, pathlib, sys; from fa_core.formats.run_folder import ProgressFiles\n"
        "path = pathlib.Path(sys.argv[1])\n"
        "with ProgressFiles() as files:\n    files.begin(path, 'training')\n    os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert (tmp_path / PROGRESS).exists()
    assert look_at(tmp_path).text() == "training ended: its process died"


def test_another_process_of_the_same_number_is_another_one(tmp_path):
    with ProgressFiles() as files:
        files.begin(tmp_path, "training")
        found = read_progress(tmp_path)
    assert not replace(found, process_started=found.process_started - 60).is_at_work()


def test_on_another_machine_the_heartbeat_decides(tmp_path):
    with ProgressFiles() as files:
        files.begin(tmp_path, "measuring")
        found = read_progress(tmp_path)
    there = replace(found, host="another-machine")
    assert there.is_at_work()
    for heartbeat in (
        there.heartbeat - STALE_SECONDS,
        there.heartbeat + 2 * STALE_SECONDS,
        math.inf,
    ):
        assert not replace(there, heartbeat=heartbeat).is_at_work()


@pytest.mark.parametrize(
    "content", ["", "{}", "[1]", '{"doing": "rm -rf"}', '{"doing": 5, "pid": "x"}', "\0" * 100]
)
def test_no_file_and_what_is_no_progress_file_is_none(tmp_path, content):
    assert read_progress(tmp_path) is None
    (tmp_path / PROGRESS).write_text(content)
    assert read_progress(tmp_path) is None


@pytest.mark.parametrize("manifest", ['{"name": "app"}', '{"format": "fa-run/1"}'])
def test_a_measurement_puts_a_file_only_beside_the_manifest_of_a_run(tmp_path, manifest):
    (tmp_path / MANIFEST).write_text(manifest)
    job = Job(id="0", checkpoint=str(tmp_path))
    with ProgressFiles() as files:
        _note_progress(files, JobView(job=job, state=JobState.RUNNING))
        assert (tmp_path / PROGRESS).exists() == ("fa-run" in manifest)


def test_a_folder_that_cannot_be_written_costs_nothing(tmp_path):
    with ProgressFiles() as files:
        files.begin(Path("/proc/nowhere"), "training")
        files.update(Path("/proc/nowhere"), 1, 2)
