"""What is said of nodes that come and go, without a cluster."""

from __future__ import annotations

import asyncio
import socket

import pytest

pytest.importorskip("ray")

from fa_core.engine.cluster import muster
from fa_core.engine.cluster.knocking import refusing
from fa_core.engine.cluster.muster import Muster
from fa_core.engine.cluster.nodes import Nodes
from fa_core.engine.cluster.wire import Capacity, Waiting, Word

NONE = (
    "no node of the cluster has a core to measure on; waiting for one to join "
    "(`ray start --address=head:6379`; Ctrl-C ends, and what is measured is kept)"
)


@pytest.fixture
def listed(monkeypatch):
    """What Ray says of the nodes: name → alive."""
    found: dict[str, bool] = {}

    def nodes():
        return [
            {
                "NodeID": name,
                "NodeName": name,
                "NodeManagerAddress": "10.0.0.1",
                "NodeManagerHostname": "host",
                "NodeManagerPort": 1,
                "Alive": alive,
                "Resources": {} if name == "head" else {"CPU": 1.0},
            }
            for name, alive in {"head": True, **found}.items()
        ]

    monkeypatch.setattr("ray.nodes", nodes)
    monkeypatch.setattr("ray.available_resources", lambda: {"CPU": 1.0})
    return found


@pytest.fixture
def looking(listed):
    """Looks while so many runs are not over; what was said."""
    nodes, said = Nodes("CPU"), []
    looks = Muster(nodes, "head:6379", said.append)

    def look(runs: int):
        said.clear()
        look.departed = asyncio.run(looks.look(runs))
        return [*said]

    look.nodes = nodes
    return look


def test_runs_that_no_node_can_measure_wait_and_it_is_said_once_and_again_for_the_next_time(looking, listed):
    assert looking(0) == [Capacity(0)]
    assert looking(2) == [Waiting(NONE)]
    assert looking(2) == []
    listed.update(a=True)
    assert looking(2) == [Capacity(1), Waiting(""), Word("going on: 1 core to measure on")]
    listed.update(a=False)
    assert looking(2) == [Capacity(0), Word("node a (10.0.0.1) is gone"), Waiting(NONE)]
    assert looking(0) == [Waiting("")]


def test_a_node_that_is_gone_is_named_once_with_the_runs_it_had(looking, listed):
    listed.update(a=True, b=True)
    looking.nodes.begun("a", ["1", "2", "3"])
    looking.nodes.over("3")
    assert looking(2) == [Capacity(2)]
    listed.update(a=False)
    assert looking(2) == [Capacity(1), Word("node a (10.0.0.1) is gone; its 2 runs are measured elsewhere")]
    assert looking.departed == ["a"]
    assert (looking(2), looking.departed) == ([], [])


def test_a_suspected_node_whose_machine_refuses_is_gone_before_ray_says_so(looking, listed, monkeypatch):
    listed.update(a=True, b=True)
    assert looking(1) == [Capacity(2)]
    monkeypatch.setattr("fa_core.engine.cluster.nodes.refusing", lambda doors: [True for _ in doors])

    async def lost() -> None:
        looking.nodes.suspect("a")
        looking.nodes.begun("a", ["1"])
        await looking.nodes.knock_at_suspects()

    asyncio.run(lost())
    assert looking(1) == [Capacity(1), Word("node a (10.0.0.1) is gone; its 1 run is measured elsewhere")]
    assert looking.nodes.able() == {"b"}
    assert "a" in looking.nodes.suspects


def test_runs_that_no_node_begins_because_others_have_it_all_are_said_to_wait(looking, listed, monkeypatch):
    listed.update(a=True)
    monkeypatch.setattr("ray.available_resources", dict)
    assert looking(1) == [Capacity(1)]
    monkeypatch.setattr(muster, "PLACED_WITHIN", 0.0)
    assert looking(1) == [Waiting("every core of the cluster is taken; waiting for one to be free")]
    looking.nodes.begun("a", ["1"])
    assert looking(1) == [Waiting(""), Word("going on: 1 core to measure on")]


def test_the_cluster_is_described_by_what_it_cannot_do(looking, listed, monkeypatch):
    monkeypatch.setattr("fa_core.engine.cluster.nodes.answering", lambda doors: [True for _ in doors])
    assert looking.nodes.describe() == "1 node, which cannot measure"
    listed.update(a=True)
    assert looking.nodes.describe() == "2 nodes, 1 core"
    assert Nodes("GPU").describe() == "2 nodes, 1 core, none of which can measure"


def test_a_door_that_nobody_keeps_is_refused_and_one_that_does_not_answer_is_not():
    with socket.create_server(("127.0.0.1", 0)) as there, socket.create_server(("127.0.0.1", 0)) as gone:
        doors = [there.getsockname(), gone.getsockname()]
        gone.close()
        assert refusing(doors) == [False, True]
    assert refusing([]) == []
