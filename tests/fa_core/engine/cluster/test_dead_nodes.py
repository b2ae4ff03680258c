"""Clusters whose head answers while nodes of it are gone."""

from __future__ import annotations

import re
import socket

import pytest

from fa_core.engine import JobFailed, JobState
from fa_core.engine.cluster import RayPool, line
from fa_core.engine.cluster.address import no_entry
from fa_core.engine.cluster.knocking import answering
from fa_core.engine.devices import Placement
from fa_core.errors import MeasureError

from .nodes_for_tests import TestCluster

ray = pytest.mark.xdist_group("ray")


@pytest.fixture
def lone(monkeypatch):
    """A cluster of nothing but its head, which measures."""
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_TMPDIR", "")  # put back afterwards
    running = TestCluster(cores_of_the_head=1)
    yield running
    running.close()


def test_only_a_node_that_accepts_a_connection_counts_as_there():
    with socket.create_server(("127.0.0.1", 0)) as there, socket.create_server(("127.0.0.1", 0)) as gone:
        doors = [there.getsockname(), gone.getsockname()]
        gone.close()
        assert answering(doors) == [True, False]
    assert answering([]) == []


def test_a_cluster_that_cannot_be_joined_says_so_and_how():
    words = str(no_entry("head:6379", 20))
    assert "head:6379 answers, but this machine could not join it within 20 s" in words
    assert "`ray start --address=head:6379`" in words
    assert "did not start on this machine" in str(no_entry("", 60))


@ray
@pytest.mark.slow
def test_a_cluster_without_a_live_node_says_so_before_ray_gives_up_on_it(lone, told, monkeypatch):
    lone.behead()
    monkeypatch.setattr(line, "JOIN", 600.0)
    with (
        RayPool(Placement(engine="ray", address=lone.address), told) as pool,
        pytest.raises(MeasureError, match="answers but has no live node; start one with `ray start --address="),
    ):
        pool.connect()


@ray
@pytest.mark.slow
def test_the_nodes_that_are_told_of_are_those_that_are_there(lone, told):
    lone.kill(lone.add("killed"))
    notices: list[str] = []
    with RayPool(Placement(engine="ray", address=lone.address), told, on_notice=notices.append) as pool:
        pool.connect()
    assert notices == [f"Ray cluster at {lone.address}: 1 node, 1 core"]


@ray
@pytest.mark.slow
def test_runs_wait_for_a_node_that_can_measure_and_it_is_said(told, gate, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_TMPDIR", "")  # put back afterwards
    running, notices = TestCluster(), []
    address = running.address
    how = {"measure": "remote:measure", "on_notice": notices.append}
    try:
        with RayPool(Placement(engine="ray", address=address), told, **how) as pool:
            future = pool.submit(gate.job("one"))
            waiting = told.wait_for(lambda view: "no node of the cluster has a core" in view.note).note
            assert f"`ray start --address={address}`" in waiting
            late = running.add("late")
            assert told.wait_for(lambda view: view.state is JobState.RUNNING, 60).note == ""
            before = len(told.views)
            running.kill(late)
            told.wait_for(lambda view: view.note == waiting and view in told.views[before:])
            running.add("later")
            gate.open()
            assert future.result(60).method_name == "one"
    finally:
        running.close()
    first, *said, again = notices[:5]
    assert first == f"Ray cluster at {address}: 1 node, which cannot measure"
    assert (said[:2], again) == ([waiting, "going on: 1 core to measure on"], waiting)
    assert re.fullmatch(r"node late \(.*\) is gone; its 1 run must be measured elsewhere", said[2])


@ray
@pytest.mark.slow
def test_the_death_of_this_machines_node_ends_all_jobs_with_the_same_words_and_tries_none_again(lone, told, gate):
    with RayPool(Placement(engine="ray", address=lone.address), told, measure="remote:measure") as pool:
        futures = [pool.submit(gate.job(f"j{number}")) for number in range(20)]
        told.wait_for(lambda view: view.state is JobState.RUNNING)
        lone.behead()
        reasons = {str(future.exception(60)) for future in futures}
    join, go_on = f"`ray start --address={lone.address}`", "the same command with --resume measures the rest"
    assert reasons == {f"this machine's Ray node died; {join} starts another one, then {go_on}"}
    assert all(isinstance(future.exception(), JobFailed) for future in futures)
    assert gate.begun() == ["j0"]
    assert {view.state for view in told.views if view.state.final} == {JobState.CANCELLED}
