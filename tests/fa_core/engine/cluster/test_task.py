"""What a node says of its jobs, without Ray around it."""

from __future__ import annotations

from pathlib import Path

import pytest

from fa_core.engine import messages, ray_task
from fa_core.engine.jobs import Job
from fa_core.engine.messages import UNSEEN, Placed, Setup
from fa_core.engine.ray_task import measure_here

FAULTS = Path(__file__).parent.parent


def setup(group: int | None) -> Setup:
    return Setup("", "cpu", "faults:measure", str(FAULTS), 60.0, group)


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """Everything that is said of jobs by these names; their checkpoints are there unless the name is ``gone``.

    As the driver does, what a task of several leaves is submitted again, each alone.
    """
    monkeypatch.setattr(ray_task, "_place", lambda setup: ("node-7", setup.device))
    monkeypatch.chdir(tmp_path)

    def run(*names: str) -> list[object]:
        for name in names:
            if name != "gone":
                (tmp_path / name).touch()
        jobs = [Job(id=name, checkpoint=str(tmp_path / name), method=name) for name in names]
        said = list(measure_here(jobs, setup(len(jobs))))
        for job in jobs if len(jobs) > 1 else []:
            said += [] if job.id in ends(said) else measure_here([job], setup(1))
        return said

    yield run
    ray_task._warm.end()


def ends(said) -> dict[str, object]:
    finals = (messages.Done, messages.Failed, messages.Stopped)
    return {message.job_id: message for message in said if isinstance(message, finals)}


def test_a_node_says_where_it_is_and_measures_in_the_folder_the_person_started_in(measured):
    said = measured("net")
    assert said[0] == Placed(["net"], "node-7", "cpu")
    assert ends(said)["net"].report["provenance"]["cwd"] == str(FAULTS)


def test_a_worker_serves_one_task_after_another(measured):
    pids = {ends(measured(name))[name].report["provenance"]["pid"] for name in ("one", "two")}
    assert len(pids) == 1


def test_no_file_of_a_worker_stays_where_ray_kills_both_processes(measured, monkeypatch, tmp_path):
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(ray_task.tempfile, "tempdir", str(tmp_path / "temporary"))
    said = measured("chatty")
    assert [*(tmp_path / "temporary").iterdir()] == []
    assert any(
        isinstance(message, messages.Note) and "must not reach" in message.text for message in said
    )


def test_a_worker_that_dies_under_several_jobs_costs_only_the_culprit(measured):
    said = measured("one", "killed", "two")
    found = ends(said)
    assert {type(found[name]) for name in ("one", "two")} == {messages.Done}
    assert "was killed by SIGKILL" in found["killed"].what
    assert "about to be killed" in found["killed"].hint
    assert found["killed"].device == ""
    assert any(
        isinstance(message, messages.Note) and "about to be killed" in message.text
        for message in said
    )


def test_a_lost_device_gets_a_new_worker_for_the_rest(measured):
    found = ends(measured("lost", "net"))
    assert found["lost"].device == "lost"
    assert isinstance(found["net"], messages.Done)


def test_a_worker_that_talks_gibberish_is_not_listened_to_any_more(measured):
    found = ends(measured("gibberish", "net"))
    assert isinstance(found["gibberish"], messages.Failed)
    assert isinstance(found["net"], messages.Done)


def test_a_file_that_is_not_on_this_node_is_said_so_and_costs_no_other(measured):
    found = ends(measured("gone", "net"))
    assert found["gone"].device == UNSEEN
    assert isinstance(found["net"], messages.Done)


def test_a_task_that_is_given_up_leaves_no_job_to_the_next(measured, tmp_path):
    (tmp_path / "stuck").touch()
    job = Job(id="stuck", checkpoint=str(tmp_path / "stuck"))
    task = measure_here([job], setup(None))
    next(message for message in task if isinstance(message, messages.Begun))
    task.close()
    assert isinstance(ends(measured("net"))["net"], messages.Done)
