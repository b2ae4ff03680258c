import os
import signal
import subprocess
import sys
from collections import Counter

import pytest

from fa_core.audit.audit import Measuring, audit
from fa_core.audit.cluster import ClusterPool
from fa_core.audit.devices import Execution
from fa_core.audit.jobs import JobState
from fa_core.audit.pool import JobCancelled, JobFailed
from fa_core.audit.verify import compare
from fa_core.formats import scan

from ..runs_for_tests import make_run

# one worker has the cluster: a second one would start another
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]


def on(cluster, **how):
    return Execution(engine="ray", address=cluster.address, **how)


@pytest.fixture
def pool(cluster, told, gate):
    with ClusterPool(on(cluster), told) as made:
        yield made


def reports(futures):
    return {future.result(180).method_name for future in futures}


def test_the_numbers_are_those_of_the_local_engine(cluster, tmp_path):
    for method in ("bp", "dfa"):
        make_run(tmp_path / "runs" / method, method)
    how = Measuring(Execution(device="cpu"))
    here = audit(scan([tmp_path / "runs"]).rows, tmp_path / "here.json", how=how)
    words = f"-m fa_tui audit {tmp_path}/runs --out {tmp_path}/there.json --engine ray --address"
    command = [sys.executable, *words.split(), cluster.address]
    (tmp_path / "temporary").mkdir()
    environment = {**os.environ, "TMPDIR": str(tmp_path / "temporary")}
    there = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert [*(tmp_path / "temporary").iterdir()] == []
    first, which, *done = there.stderr.splitlines()
    assert (there.returncode, first) == (0, "2 runs to measure")
    assert which.startswith(f"Ray cluster at {cluster.address}: 3 nodes, 2 × CPU")
    assert [line[:5] for line in done] == ["[1/2]", "[2/2]"]
    measured = {row.method: row.report for row in scan([tmp_path / "there.json"]).rows}
    assert len(measured) == len(here.rows) == 2
    for row in here.rows:
        comparison = compare(row.report, measured[row.method])
        numbers = [each.name for each in comparison.differences if each.kind == "number"]
        assert comparison.compared > 20
        assert {*numbers} <= {"provenance.threads"}
        assert "(" in measured[row.method].provenance["node"]


def test_a_node_that_is_killed_loses_nothing_and_doubles_nothing(cluster, node_c, pool, told, gate):
    futures = [pool.submit(gate.job(f"j{number}")) for number in range(7)]
    gate.wait_for_begun(3)
    cluster.kill(node_c)
    gate.open()
    assert reports(futures) == {f"j{number}" for number in range(7)}
    pool.close()
    done = Counter(view.job.id for view in told.views if view.state is JobState.DONE)
    assert done == {f"j{number}": 1 for number in range(7)}
    assert sorted(Counter(gate.begun()).values()) == [1] * 6 + [2]


def test_a_fault_of_a_job_is_its_own_and_says_where(pool, gate):
    gate.open()
    with pytest.raises(JobFailed, match=r"ZeroDivisionError: of this network \(on .*\(.*\)\)"):
        pool.submit(gate.job("bad", error="of this network")).result(60)
    assert pool.submit(gate.job("good")).result(60).method_name == "good"


def test_a_child_that_dies_is_replaced_and_what_it_had_is_measured(pool, gate):
    future = pool.submit(gate.job("first"))
    gate.wait_for_begun(1)
    pool.submit(gate.job("second"))
    os.kill(pool.jobs()[0].pid, signal.SIGKILL)
    with pytest.raises(JobFailed, match="its worker on ray was killed by SIGKILL"):
        future.result(30)
    gate.open()
    assert pool.retry("first").result(60).method_name == "first"


def test_a_cancelled_job_leaves_its_place_to_others(pool, gate):
    futures = [pool.submit(gate.job(name)) for name in ("first", "second", "third")]
    gate.wait_for_begun(2)
    assert pool.cancel("first")
    with pytest.raises(JobCancelled):
        futures[0].result(10)
    gate.wait_for_begun(3)
    gate.open()
    assert reports(futures[1:]) == {"second", "third"}
