"""A cluster whose head answers while nodes of it come and go."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from fa_core.engine import ray_pool
from fa_core.engine.devices import Placement
from fa_core.engine.job_table import JobFailed
from fa_core.engine.jobs import JobState
from fa_core.engine.ray_pool import RayPool
from fa_core.errors import MeasureError

from .nodes_for_tests import TestCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]


@pytest.fixture(scope="module")
def bare() -> Iterator[TestCluster]:
    """A cluster of nothing but its head, which cannot measure."""
    pytest.importorskip("ray")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAY_TMPDIR", "")  # put back afterwards
        running = TestCluster()
        yield running
        running.close()


def test_runs_wait_for_a_node_that_can_measure_and_it_is_said(bare, told, gate):
    notices: list[str] = []
    how = {"measure": "faults:measure_at_gate", "on_notice": notices.append}
    with RayPool(Placement(engine="ray", address=bare.address), told, **how) as pool:
        future = pool.submit(gate.job("one"))
        waiting = told.wait_for(lambda view: "no node of the cluster has a core" in view.note).note
        assert f"`ray start --address={bare.address}`" in waiting
        late = bare.add("late")
        assert told.wait_for(lambda view: view.state is JobState.RUNNING, 60).note == ""
        before = len(told.views)
        bare.kill(late)
        told.wait_for(lambda view: view.note == waiting and view in told.views[before:], 60)
        later = bare.add("later")
        gate.open()
        assert future.result(60).method_name == "one"
    bare.remove(later)
    first, *said, again = notices[:5]
    assert first == f"Ray cluster at {bare.address}: 1 node, 0 cores to measure on"
    assert (said[:2], again) == ([waiting, "going on: 1 core to measure on"], waiting)
    assert re.fullmatch(
        r"node late \(.*\) is gone; it had 1 run, to be measured elsewhere", said[2]
    )


def test_the_death_of_this_machines_node_ends_all_jobs_with_the_same_words_and_tries_none_again(
    bare, told, gate, monkeypatch
):
    last = bare.add("last")
    with RayPool(
        Placement(engine="ray", address=bare.address), told, measure="faults:measure_at_gate"
    ) as pool:
        futures = [pool.submit(gate.job(f"j{number}")) for number in range(20)]
        told.wait_for(lambda view: view.state is JobState.RUNNING)
        bare.behead()
        reasons = {str(future.exception(60)) for future in futures}
    join, go_on = (
        f"`ray start --address={bare.address}`",
        "the same command with --resume measures the rest",
    )
    assert reasons == {f"this machine's Ray node died; {join} starts another one, then {go_on}"}
    assert all(isinstance(future.exception(), JobFailed) for future in futures)
    assert gate.begun() == ["j0"]
    assert {view.state for view in told.views if view.state.final} == {JobState.CANCELLED}
    # a cluster that answers, and of which this machine is no node any more, is refused in one line, within the limit
    bare.kill(last)
    monkeypatch.setattr(ray_pool, "JOIN", 15.0)
    with (
        RayPool(Placement(engine="ray", address=bare.address), told) as pool,
        pytest.raises(MeasureError) as caught,
    ):
        pool.connect()
    assert re.search("cannot be joined|no Ray cluster answers at .* within 15 s", str(caught.value))
    assert join in str(caught.value)
