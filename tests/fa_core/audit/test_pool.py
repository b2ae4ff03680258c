import math
import os
import re
from pathlib import Path

import pytest

from fa_core.audit.jobs import Job, JobState
from fa_core.audit.pool import STRIKES, JobCancelled, JobFailed, Pool
from fa_core.audit.worker import MEASURE


def test_jobs_of_one_device_share_one_worker_and_run_in_order(make_pool, told):
    pool = make_pool()
    futures = [pool.submit(job(name)) for name in ("a", "b", "c")]
    reports = [future.result(30) for future in futures]
    (worker,) = {report.provenance["pid"] for report in reports}
    # on a CPU it lets whoever types go first
    mine = os.getpriority(os.PRIO_PROCESS, 0)
    assert os.getpriority(os.PRIO_PROCESS, worker) > mine or mine == 19
    assert (reports[0].method_name, reports[0].flags) == ("a", {"a"})
    assert math.isinf(reports[0].residual_norms[1])
    pool.close()
    assert not pool.log_dir.exists()
    done = [view.job.id for view in told.views if view.state is JobState.DONE]
    assert done == ["a", "b", "c"]
    assert told.states("c") == [JobState.QUEUED, JobState.RUNNING, JobState.DONE]


def test_two_devices_measure_at_the_same_time(make_pool, told, tmp_path):
    pool = make_pool(("cpu", "cuda:7"))
    gates = [tmp_path / str(number) / "gate" for number in range(2)]
    for gate in gates:
        gate.parent.mkdir()
        os.mkfifo(gate)
    futures = [pool.submit(Job(id=str(gate), checkpoint=str(gate))) for gate in gates]
    for gate in gates:
        told.wait_for(str(gate), lambda view: view.total == 2)
    for gate in gates:
        gate.write_bytes(b"go")
    assert {future.result(30).notes for future in futures} == {"cpu", "cuda:7"}


def test_a_killed_worker_fails_one_job_with_signal_and_last_words_and_is_replaced(make_pool, told):
    pool = make_pool()
    first, killed, after = (pool.submit(job(name)) for name in ("first", "killed", "after"))
    with pytest.raises(JobFailed, match=r"killed.*SIGKILL.*about to be killed.*log: "):
        killed.result(30)
    assert after.result(30).provenance["pid"] != first.result(30).provenance["pid"]
    view = told.wait_for("killed", lambda view: view.state is JobState.FAILED)
    assert Path(view.log).read_text().count("about to be killed") == 1
    assert done(pool, "chatty").method_name == "chatty"
    log = told.wait_for("chatty", lambda view: view.log).log
    assert "must not reach the client" in Path(log).read_text()
    done(pool, "smaller")
    assert "halved to 64" in told.wait_for("smaller", lambda view: view.note).note
    pool.close()
    assert pool.log_dir.exists()


def test_a_refused_file_keeps_its_what_where_and_hint_and_its_worker(make_pool):
    pool = make_pool()
    refused, after = pool.submit(job("refused")), pool.submit(job("after"))
    with pytest.raises(JobFailed, match=r"^/runs/refused: is empty; save it again$"):
        refused.result(30)
    assert after.result(30).method_name == "after"


def test_an_unexpected_error_is_one_line_and_its_traceback_is_in_the_log(make_pool, told):
    with pytest.raises(JobFailed, match="ZeroDivisionError: division by zero; ") as caught:
        make_pool().submit(job("bug")).result(30)
    log = told.wait_for("bug", lambda view: view.state is JobState.FAILED).log
    assert str(caught.value).endswith(f"; traceback in {log}")
    assert "Traceback" in Path(log).read_text()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("unsendable", "exited with status 1.*object"),
        ("gibberish", "sent what is no message"),
        ("lost", "the network failed"),
    ],
)
def test_a_worker_that_lost_its_device_or_cannot_make_itself_understood_is_replaced(
    make_pool, fault, words
):
    pool = make_pool()
    first, broken, after = (pool.submit(job(name)) for name in ("first", fault, "after"))
    with pytest.raises(JobFailed, match=words):
        broken.result(30)
    assert after.result(30).provenance["pid"] != first.result(30).provenance["pid"]


def test_a_worker_that_cannot_start_says_why(make_pool, monkeypatch, tmp_path):
    (tmp_path / "broken_import.py").write_text("raise ImportError(\"No module named 'torch'\")")
    pool = make_pool(measure="broken_import:measure")
    monkeypatch.chdir(tmp_path)
    errors = {
        str(pool.submit(job(name)).exception(30)).partition("log:")[0] for name in ("dfa", "bp")
    }
    assert len(errors) == 1, "the same words, without a run's path"
    words = r"^no worker could start on cpu \(.*No module named 'torch'; pip install torch; $"
    assert re.search(words, errors.pop())


@pytest.mark.parametrize(
    ("fault", "words"), [("gone", "the network failed"), ("filled", "others hold it")]
)
def test_the_work_of_a_device_that_spoils_its_jobs_goes_to_the_others(make_pool, fault, words):
    pool = make_pool(("cuda:0", "cuda:1"))
    futures = [pool.submit(job(f"{fault}-{number}")) for number in range(12)]
    errors = [str(error) for future in futures if (error := future.exception(30)) is not None]
    assert len(errors) <= STRIKES
    assert all(words in error for error in errors)
    measured = [future.result(0) for future in futures if future.exception(0) is None]
    assert {report.notes for report in measured} == {"cuda:1"}


def test_a_device_that_is_gone_and_was_the_last_fails_what_is_queued_at_once(make_pool):
    pool = make_pool(("cuda:0",))
    futures = [pool.submit(job(f"gone-{number}")) for number in range(8)]
    errors = [str(future.exception(30)) for future in futures]
    for number, error in enumerate(errors):
        assert f"/runs/gone-{number}: the network failed" in error
        assert (f"{STRIKES} times in a row" in error) == (number >= STRIKES)
    assert len(list(pool.log_dir.iterdir())) == STRIKES
    assert done(pool, "later").notes == "cuda:0"


def test_workers_that_cannot_start_are_not_tried_for_every_job(make_pool):
    both = make_pool(("cuda:9", "cpu"))
    futures = [both.submit(job(f"run-{number}")) for number in range(6)]
    assert {future.result(30).notes for future in futures} == {"cpu"}


def test_a_queued_job_is_cancelled_at_once(make_pool, told, tmp_path):
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    pool = make_pool()
    pool.submit(Job(id="busy", checkpoint=str(gate)))
    told.wait_for("busy", lambda view: view.total == 2)
    waiting = pool.submit(job("waiting"))
    with pytest.raises(ValueError, match="running already"):
        pool.submit(job("busy"))
    assert pool.cancel("waiting")
    assert isinstance(waiting.exception(0), JobCancelled)
    gate.write_bytes(b"go")
    told.wait_for("busy", lambda view: view.state is JobState.DONE)
    assert told.states("waiting") == [JobState.QUEUED, JobState.CANCELLED]


def test_a_running_job_stops_at_its_next_batch_and_its_worker_lives_on(make_pool, told):
    pool = make_pool(grace=60.0)
    pid = done(pool, "first").provenance["pid"]
    endless = pool.submit(job("endless"))
    told.wait_for("endless", lambda view: view.done > 0)
    assert pool.cancel("endless")
    with pytest.raises(JobCancelled):
        endless.result(30)
    assert done(pool, "after").provenance["pid"] == pid
    assert told.states("endless")[-1] is JobState.CANCELLED


def test_a_job_that_does_not_stop_is_killed_after_the_grace_time(make_pool, told):
    pool = make_pool(grace=0.05)
    stuck = pool.submit(job("stuck"))
    told.wait_for("stuck", lambda view: view.total == 2)
    pool.cancel("stuck")
    with pytest.raises(JobCancelled):
        stuck.result(30)
    assert done(pool, "after").method_name == "after"


def test_a_failed_job_and_a_cancelled_one_can_be_retried(make_pool, told):
    pool = make_pool()
    for submit in (pool.submit, lambda again: pool.retry(again.id)):
        with pytest.raises(JobFailed):
            submit(job("refused")).result(30)
        endless = submit(job("endless"))
        told.wait_for("endless", lambda view: view.done > 0)
        assert pool.cancel("endless")
        with pytest.raises(JobCancelled):
            endless.result(30)
        told.wait_for("endless", lambda view: view.state is JobState.CANCELLED)
        told.views.clear()
    assert not pool.cancel("endless")
    assert [view.job.id for view in pool.jobs()] == ["refused", "endless"]


def test_closing_ends_the_workers_and_cancels_what_is_not_over(make_pool, told):
    pool = make_pool()
    pid = done(pool, "first").provenance["pid"]
    stuck, queued = pool.submit(job("stuck")), pool.submit(job("queued"))
    told.wait_for("stuck", lambda view: view.total == 2)
    pool.close()
    for future in (queued, stuck):
        assert isinstance(future.exception(0), JobCancelled)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_a_listener_may_call_back_into_the_pool(make_pool, monkeypatch):
    monkeypatch.chdir(Path(__file__).parent)
    seen = []
    monkeypatch.setenv(MEASURE, "faults:measure")
    with Pool(["cpu"], lambda view: seen.append(len(pool.jobs()))) as pool:
        done(pool, "a")
    assert seen and set(seen) == {1}


def test_a_worker_measures_in_the_clients_folder_and_no_file_there_shadows_a_library(
    make_pool, monkeypatch, tmp_path
):
    folder = tmp_path / "users"
    folder.mkdir()
    (folder / "msgspec.py").write_text("raise SystemExit('shadowed')")
    (folder / "faults.py").write_text((Path(__file__).parent / "faults.py").read_text())
    pool = make_pool()
    monkeypatch.chdir(folder)
    assert done(pool, "dfa").provenance["cwd"] == str(folder)


def test_code_of_the_user_that_changed_is_read_again_and_the_job_waits(
    make_pool, monkeypatch, tmp_path
):
    (tmp_path / "faults.py").write_text((Path(__file__).parent / "faults.py").read_text())
    monkeypatch.chdir(tmp_path)
    pool, found = make_pool(), []
    for name in ("one", "another"):
        (tmp_path / "own_code.py").write_text(f"def name(): return {name!r}")
        found += [done(pool, f"users-{name}-{number}").method_name for number in range(2)]
    assert found == ["one", "one", "another", "another"]


def done(pool, name):
    """The report of a job."""
    return pool.submit(job(name)).result(30)


def job(name):
    return Job(id=name, checkpoint=f"/runs/{name}", method=name)
