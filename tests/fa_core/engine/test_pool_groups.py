"""Workers that hold several jobs: what waits, what is cancelled, and whose fault a death is."""

from __future__ import annotations

import json

import pytest

from fa_core.engine.job_table import JobCancelled, JobFailed
from fa_core.engine.jobs import Job, JobState
from fa_core.engine.pool import STRIKES

HEADER = json.dumps({"w": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}}).encode()


@pytest.fixture
def job(tmp_path):
    """Makes jobs that look alike; the name says what goes wrong."""

    def make(name: str) -> Job:
        path = tmp_path / name
        path.write_bytes(len(HEADER).to_bytes(8, "little") + HEADER)
        return Job(id=name, checkpoint=str(path), method=name)

    return make


def test_jobs_that_wait_in_a_worker_are_queued_there_and_say_so(make_pool, told, job):
    pool = make_pool(group=3, grace=60.0)
    futures = [pool.submit(job(name)) for name in ("endless", "second", "third", "fourth")]
    told.wait_for(lambda view: view.job.id == "endless" and view.done > 0)
    seen = [(view.job.id, view.state.value, view.device) for view in pool.jobs()]
    assert seen == [
        ("endless", "running", "cpu"),
        ("second", "queued", "cpu"),
        ("third", "queued", "cpu"),
        ("fourth", "queued", ""),
    ]
    pool.cancel("endless")
    assert len({future.result(30).provenance["pid"] for future in futures[1:]}) == 1
    assert told.states("second") == [JobState.QUEUED, JobState.RUNNING, JobState.DONE]


def test_cancelling_a_job_that_waits_in_a_worker_drops_only_it_and_at_once(make_pool, told, job):
    pool = make_pool(group=3, grace=60.0)
    endless, second, third = (pool.submit(job(name)) for name in ("endless", "second", "third"))
    told.wait_for(lambda view: view.job.id == "endless" and view.done > 0)
    assert pool.cancel("second")
    with pytest.raises(JobCancelled):
        second.result(0)
    assert not pool.cancel("second")
    pool.cancel("endless")
    assert third.result(30).method_name == "third"
    assert endless.exception(30) is not None
    assert told.states("second") == [JobState.QUEUED, JobState.CANCELLED]


def test_a_job_cancelled_in_a_worker_can_be_retried_while_that_goes_on(make_pool, told, job):
    pool = make_pool(group=2, grace=60.0)
    pool.submit(job("endless"))
    pool.submit(job("second"))
    told.wait_for(lambda view: view.job.id == "endless" and view.done > 0)
    pool.cancel("second")
    again = pool.retry("second")
    pool.cancel("endless")
    assert again.result(30).method_name == "second"


def test_one_that_kills_the_worker_fails_alone_and_nothing_is_reported_twice(make_pool, told, job):
    pool = make_pool(group=4)
    names = ["first", "killed", "third", "fourth", "fifth"]
    futures = {name: pool.submit(job(name)) for name in names}
    with pytest.raises(JobFailed, match=r"killed.*SIGKILL.*about to be killed.*log: "):
        futures["killed"].result(30)
    for name in ("first", "third", "fourth", "fifth"):
        assert futures[name].result(30).method_name == name
    pool.close()
    for name in names:
        ends = [view.state for view in told.views if view.job.id == name and view.state.final]
        assert len(ends) == 1
    assert (
        "measured again, alone"
        in told.wait_for(lambda view: view.job.id == "third" and view.note != "").note
    )
    assert told.states("first") == [JobState.QUEUED, JobState.RUNNING, JobState.DONE]


def test_one_that_does_not_stop_costs_those_that_wait_behind_it_nothing(make_pool, told, job):
    pool = make_pool(group=3, grace=0.05)
    stuck, second, third = (pool.submit(job(name)) for name in ("stuck", "second", "third"))
    told.wait_for(lambda view: view.job.id == "stuck" and view.total == 2)
    pool.cancel("stuck")
    with pytest.raises(JobCancelled):
        stuck.result(30)
    assert second.result(30).method_name == "second"
    assert third.result(30).method_name == "third"


def test_closing_cancels_what_waits_in_a_worker(make_pool, told, job):
    pool = make_pool(group=2)
    futures = [pool.submit(job(name)) for name in ("stuck", "second", "third")]
    told.wait_for(lambda view: view.job.id == "stuck" and view.total == 2)
    pool.close()
    assert all(
        future.cancelled() or isinstance(future.exception(0), JobCancelled) for future in futures
    )


@pytest.mark.parametrize(
    ("fault", "words"), [("gone", "the network failed"), ("filled", "others hold it")]
)
def test_the_work_of_a_device_that_spoils_its_jobs_goes_to_the_others(
    make_pool, told, job, fault, words
):
    pool = make_pool(("cuda:0", "cuda:1"), group=1)
    futures = [pool.submit(job(f"{fault}-{number}")) for number in range(12)]
    errors = [str(error) for future in futures if (error := future.exception(30)) is not None]
    assert len(errors) <= STRIKES
    assert all(words in error and "\n" not in error for error in errors)
    assert {future.result(0).notes for future in futures if future.exception(0) is None} == {
        "cuda:1"
    }


def test_a_device_that_is_gone_and_was_the_last_fails_what_is_queued_at_once(
    make_pool, job, tmp_path
):
    pool = make_pool(("cuda:0",), group=1)
    futures = [pool.submit(job(f"gone-{number}")) for number in range(8)]
    errors = [str(future.exception(30)) for future in futures]
    assert all(
        str(tmp_path / f"gone-{number}: the network failed") in error
        for number, error in enumerate(errors)
    )
    assert [f"{STRIKES} times in a row" in error for error in errors] == [False] * STRIKES + [
        True
    ] * 5
    assert len(list(pool.log_dir.iterdir())) == STRIKES
    assert pool.submit(job("later")).result(30).notes == "cuda:0"


def test_a_device_whose_worker_cannot_start_costs_no_job_where_another_can(make_pool, told, job):
    pool = make_pool(("cuda:9", "cpu"), group=1)
    futures = [pool.submit(job(f"run-{number}")) for number in range(6)]
    assert {future.result(30).notes for future in futures} == {"cpu"}


def test_workers_that_cannot_start_are_not_tried_for_every_job(make_pool, job, tmp_path):
    pool = make_pool(("cuda:9",))
    futures = [pool.submit(job(f"run-{number}")) for number in range(8)]
    assert all("no worker could start on cuda:9" in str(future.exception(30)) for future in futures)
    assert all("there is no such card" in str(future.exception(30)) for future in futures)
    assert len(list(pool.log_dir.iterdir())) == STRIKES
