from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from fa_core.engine.audit import Measuring, audit
from fa_core.engine.devices import Placement
from fa_core.engine.job_table import JobCancelled, JobFailed
from fa_core.engine.jobs import JobState
from fa_core.engine.ray_pool import RayPool
from fa_core.engine.verify import compare
from fa_core.formats import scan

from ..runs_for_tests import make_run
from .conftest import HERE

# one worker has the cluster: a second one would start another
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]


def on(cluster, **how):
    return Placement(engine="ray", address=cluster.address, **how)


@pytest.fixture
def pool(cluster, told, gate, tmp_path):
    with RayPool(on(cluster), told, measure="faults:measure_at_gate") as made:
        yield made


def reports(futures):
    return {future.result(180).method_name for future in futures}


def notes(told) -> str:
    return "; ".join({view.note for view in told.views if view.note})


def run_on(told, node: str):
    return told.wait_for(lambda view: view.total and view.device.startswith(f"{node}/")).job


def test_the_numbers_are_those_of_the_local_engine(cluster, tmp_path):
    for method in ("bp", "dfa", "fa"):
        make_run(tmp_path / "runs" / method, method)
    here = audit(scan([tmp_path / "runs"]).rows, how=Measuring(Placement(device="cpu")))
    command = [
        sys.executable,
        "-m",
        "fa_tui",
        "audit",
        str(tmp_path / "runs"),
        "--out",
        str(tmp_path / "there.json"),
    ]
    command += ["--engine", "ray", "--address", cluster.address]
    (tmp_path / "temporary").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    there = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert [*(tmp_path / "temporary").iterdir()] == []
    first, which, *done = there.stderr.splitlines()
    assert (there.returncode, first) == (0, "3 runs to measure")
    assert which.startswith(f"Ray cluster at {cluster.address}: 3 nodes, 2 cores")
    assert [line[:5] for line in done] == ["[1/3]", "[2/3]", "[3/3]"]
    measured = {row.method: row.report for row in scan([tmp_path / "there.json"]).rows}
    assert len(measured) == len(here.rows) == 3
    for row in here.rows:
        comparison = compare(row.report, measured[row.method])
        numbers = [each.name for each in comparison.differences if each.kind == "number"]
        assert comparison.compared > 20
        assert {*numbers} <= {"provenance.threads"}
        assert measured[row.method].provenance["node"].startswith(("a (", "b ("))


def test_a_node_that_is_killed_loses_nothing_and_doubles_nothing(cluster, node_c, pool, told, gate):
    futures = [pool.submit(gate.job(f"j{number}")) for number in range(7)]
    lost = run_on(told, "c")
    cluster.kill(node_c)
    gate.open()
    assert reports(futures) == {f"j{number}" for number in range(7)}
    pool.close()
    done = Counter(view.job.id for view in told.views if view.state is JobState.DONE)
    assert done == {f"j{number}": 1 for number in range(7)}
    assert Counter(gate.begun())[lost.id] == 2
    assert "lost on c (" in notes(told)


def test_what_a_frozen_node_holds_is_measured_elsewhere(cluster, node_c, told, gate):
    with RayPool(on(cluster, patience=2.0), told, measure="faults:measure_at_gate") as pool:
        futures = [pool.submit(gate.job(f"j{number}")) for number in range(7)]
        run_on(told, "c")
        cluster.freeze(node_c)
        try:
            gate.open()
            assert reports(futures) == {f"j{number}" for number in range(7)}
        finally:
            cluster.thaw(node_c)
    assert re.search(r"no word from [^;]*c \(", notes(told))


BLIND = {
    "PYTHONPATH": os.pathsep.join([str(HERE / "blindfold"), *filter(None, sys.path)]),
    "HIDDEN_FOLDER": "/",
}


@pytest.mark.parametrize("node_c", [BLIND], indirect=True)
def test_a_node_that_does_not_see_a_checkpoint_is_named_and_the_others_measure_it(
    node_c, pool, told, gate
):
    futures = [pool.submit(gate.job(f"j{number}")) for number in range(5)]
    note = told.wait_for(lambda view: "is not there on c (" in view.note).note
    assert str(gate.folder) in note
    gate.open()
    assert reports(futures) == {f"j{number}" for number in range(5)}


def test_a_checkpoint_that_no_node_sees_is_an_error_that_names_it_and_them(pool, gate):
    job = gate.job("gone")
    Path(job.checkpoint).unlink()
    with pytest.raises(
        JobFailed, match=r"gone.json: no node of the cluster sees it: .* a \(.*\), b \(.*every node"
    ):
        pool.submit(job).result(60)


def test_a_fault_on_a_node_is_told_with_its_traceback_in_the_log_here(pool, told, gate):
    gate.open()
    with pytest.raises(
        JobFailed,
        match=r"ZeroDivisionError: of this network \(on [ab] \(.*traceback in .*driver.log",
    ):
        pool.submit(gate.job("bad", error="of this network")).result(60)
    log = told.wait_for(lambda view: view.state is JobState.FAILED).log
    assert pool.submit(gate.job("good")).result(60).method_name == "good"
    pool.close()
    assert "Traceback" in Path(log).read_text()


def test_a_cancelled_job_leaves_its_place_to_others(pool, told, gate):
    futures = [pool.submit(gate.job(name)) for name in ("first", "second")]
    for name in ("first", "second"):
        told.wait_for(
            lambda view, name=name: view.job.id == name and view.state is JobState.RUNNING
        )
    assert pool.cancel("first")
    with pytest.raises(JobCancelled):
        futures[0].result(10)
    third = pool.submit(gate.job("third"))
    told.wait_for(lambda view: view.job.id == "third" and view.state is JobState.RUNNING)
    gate.open()
    assert reports([futures[1], third]) == {"second", "third"}


def test_a_driver_that_dies_fails_what_it_had_and_the_next_job_gets_another(pool, told, gate):
    future = pool.submit(gate.job("first"))
    told.wait_for(lambda view: view.state is JobState.RUNNING)
    os.kill(pool.pids()[0], signal.SIGKILL)
    with pytest.raises(
        JobFailed, match="the Ray cluster is lost: its driver was killed by SIGKILL"
    ):
        future.result(10)
    gate.open()
    assert pool.retry("first").result(60).method_name == "first"


def test_a_gpu_is_taken_for_each_job_where_there_is_one(cluster, told, gate, tmp_path):
    node = cluster.add("g", gpus=2)
    try:
        gate.open()
        with RayPool(on(cluster), told, measure="faults:measure_at_gate") as pool:
            report = pool.submit(gate.job("net")).result(60)
        assert report.notes == "cuda:0"
        assert told.wait_for(lambda view: view.state is JobState.DONE).device.startswith("g/cuda:")
    finally:
        cluster.remove(node)


def test_the_cluster_that_was_started_on_this_machine_is_joined_without_its_address(
    cluster, told, monkeypatch
):
    note = Path(cluster.folder, "ray", "ray_current_cluster")
    note.write_text(cluster.address)
    monkeypatch.setenv("RAY_TMPDIR", cluster.folder)
    notices: list[str] = []
    try:
        with RayPool(on_event=told, on_notice=notices.append) as pool:
            pool.connect()
    finally:
        note.unlink()
    assert notices[0].startswith(f"Ray cluster at {cluster.address}: ")


def test_without_an_address_and_a_cluster_ray_is_started_here_and_ends_with_the_pool(
    told, gate, monkeypatch
):
    pytest.importorskip("ray")
    import psutil

    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp") as folder:
        monkeypatch.setenv("RAY_TMPDIR", folder)
        monkeypatch.setenv("HOME", folder)
        monkeypatch.delenv("RAY_ADDRESS", raising=False)
        gate.open()
        notices: list[str] = []
        with RayPool(
            on_event=told, measure="faults:measure_at_gate", on_notice=notices.append
        ) as pool:
            assert pool.submit(gate.job("net")).result(60).method_name == "net"
            started = psutil.Process(pool.pids()[0]).children(recursive=True)
        assert notices[0].startswith("Ray started on this machine, until this ends: 1 node, ")
        assert started
        assert psutil.wait_procs(started, timeout=30)[1] == []


@contextmanager
def script(cluster, gate, *checkpoints: str) -> Iterator[subprocess.Popen[str]]:
    """An audit in a process of its own, ended by force should it hang."""
    arguments = [
        sys.executable,
        str(HERE / "audit_script.py"),
        cluster.address,
        str(gate.folder / "out.json"),
    ]
    process = subprocess.Popen(
        [*arguments, *checkpoints], stdout=-1, stderr=-1, text=True, cwd=HERE.parent
    )
    end = threading.Timer(60, process.kill)
    end.start()
    try:
        yield process
    finally:
        end.cancel()
        process.kill()
        process.communicate()


def heard(process: subprocess.Popen[str], *lines: str) -> None:
    """Wait until the script has said all of these."""
    missing = set(lines)
    assert process.stdout is not None
    while missing:
        line = process.stdout.readline()
        assert line, f"never said: {missing}"
        missing.discard(line.strip())


def written(gate) -> set[str]:
    return {row.report.method_name for row in scan([gate.folder / "out.json"]).rows}


def test_a_killed_audit_resumes_with_the_rest(cluster, gate):
    checkpoints = [gate.checkpoint(name, until="/") for name in ("one", "two")]
    checkpoints.append(gate.checkpoint("three"))
    with script(cluster, gate, *checkpoints) as audits:
        heard(audits, "done one", "done two", "running three")
        while written(gate) != {"one", "two"}:
            assert audits.poll() is None
        audits.kill()
    gate.open()
    with script(cluster, gate, *checkpoints) as again:
        heard(again, "todo 1 skipped 2", "done three", "finished 3")
    assert written(gate) == {"one", "two", "three"}
    assert Counter(gate.begun()) == {"one": 1, "two": 1, "three": 2}


def test_an_interrupted_audit_keeps_what_is_finished_and_ray_prints_nothing(cluster, gate):
    with script(cluster, gate, gate.checkpoint("one", until="/"), gate.checkpoint("two")) as audits:
        heard(audits, "done one", "running two")
        audits.send_signal(signal.SIGINT)
        heard(audits, "interrupted 1")
        assert audits.stderr.read() == ""
    assert written(gate) == {"one"}
