"""What is said of nodes that come and go, without a cluster."""

from __future__ import annotations

import pytest

pytest.importorskip("ray")

from fa_core.engine import ray_driver
from fa_core.engine.messages import Capacity, Note
from fa_core.engine.ray_driver import Nodes

NONE = (
    "no node of the cluster has a core to measure on; waiting for one to join "
    "(`ray start --address=head:6379`; Ctrl-C ends, and what is measured is kept)"
)


def notice(text: str) -> Note:
    """What is said of no single run."""
    return Note([], text)


def waiting(*runs: str, why: str) -> list[Note]:
    """Runs wait, or (no reason) do no longer."""
    return [Note([*runs], why), *([notice(why)] if why else [])]


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
    """Looks while so many runs are not over, some of them begun by nodes that live; what was said."""
    said = []
    nodes = Nodes("cpu", "head:6379", said.append)

    def look(runs: int, **begun: int):
        said.clear()
        look.departed = nodes.look(begun)
        at_work = sum(begun[name] for name in nodes.able() & begun.keys())
        nodes.explain([str(run) for run in range(runs - at_work)])
        return [*said]

    look.nodes = nodes
    return look


def test_runs_that_no_node_can_measure_wait_and_it_is_said_once_and_again_for_the_next_time(
    looking, listed
):
    assert looking(0) == [Capacity(0, "cpu")]
    assert looking(2) == waiting("0", "1", why=NONE)
    assert looking(2) == []
    listed.update(a=True)
    assert looking(2) == [
        Capacity(1, "cpu"),
        *waiting("0", "1", why=""),
        notice("going on: 1 core to measure on"),
    ]
    listed.update(a=False)
    assert looking(2) == [
        Capacity(0, "cpu"),
        notice("node a (10.0.0.1) is gone"),
        *waiting("0", "1", why=NONE),
    ]
    assert looking(0) == []


def test_a_node_that_is_gone_is_named_once_with_the_runs_it_had(looking, listed):
    listed.update(a=True, b=True)
    assert looking(2, a=2) == [Capacity(2, "cpu")]
    listed.update(a=False)
    assert looking(2, a=2) == [
        Capacity(1, "cpu"),
        notice("node a (10.0.0.1) is gone; it had 2 runs, to be measured elsewhere"),
    ]
    assert looking.departed == {"a"}
    assert (looking(2), looking.departed) == ([], set())


def test_a_node_that_is_avoided_is_so_until_it_is_heard_of_or_for_a_while(listed, monkeypatch):
    listed.update(a=True, b=True)
    nodes = Nodes("cpu", "head:6379", print)
    nodes.avoid(["a", "b"])
    nodes.heard("a")
    assert nodes.avoided() == {"b"}
    monkeypatch.setattr(ray_driver, "AVOIDED_FOR", 0.0)
    nodes.avoid(["b"])
    assert nodes.avoided() == set()
    assert (nodes.silent(60.0), nodes.silent(-1.0)) == ({"b"}, {"a", "b"})


def test_the_cluster_is_described_by_what_it_can_measure_on(looking, listed):
    assert looking.nodes.describe() == "1 node, 0 cores to measure on"
    listed.update(a=True)
    assert looking.nodes.describe() == "2 nodes, 1 core to measure on"
    assert Nodes("cuda:0", "", print).describe() == "2 nodes, 0 GPUs to measure on"
