"""A cluster whose head answers while nodes of it come and go."""

import pytest

from fa_core.audit.cluster import ClusterPool
from fa_core.audit.devices import Execution

from .nodes_for_tests import TestCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]


@pytest.fixture(scope="module")
def bare():
    """A cluster of nothing but its head, which cannot measure."""
    pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAY_TMPDIR", "")  # put back afterwards
        running = TestCluster()
        yield running
        running.close()


def test_runs_wait_for_a_node_that_can_measure_and_it_is_said(bare, told, gate):
    notices = []
    there = Execution(engine="ray", address=bare.address)
    with ClusterPool(there, told, on_notice=notices.append) as pool:
        future = pool.submit(gate.job("one"))
        while len(notices) < 2:
            gate.pause()
        late = bare.add("late")
        gate.wait_for_begun(1)
        bare.kill(late)
        later = bare.add("later")
        gate.wait_for_begun(2)
        gate.open()
        assert future.result(60).method_name == "one"
    bare.remove(later)
    first, waiting, *_ = notices
    assert first == f"Ray cluster at {bare.address}: 1 nodes, 0 × CPU to measure on"
    assert waiting.startswith("no node of the cluster has a CPU; waiting for one to join")
    assert f"`ray start --address={bare.address}`" in waiting
