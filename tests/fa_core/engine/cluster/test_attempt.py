"""How an attempt ends, without a cluster."""

from __future__ import annotations

import asyncio

import pytest

from fa_core.engine import Job

pytest.importorskip("ray")

from fa_core.engine.cluster.attempt import Attempt, Lost
from fa_core.engine.cluster.nodes import Nodes
from fa_core.engine.cluster.patience import Patience
from fa_core.engine.cluster.wire import Here

JOBS = [Job(id="1", checkpoint="/nets/1.pt"), Job(id="2", checkpoint="/nets/2.pt")]


def test_what_a_node_has_that_fell_silent_is_lost_when_the_node_is_declared_dead(monkeypatch):
    monkeypatch.setattr(Nodes, "name", lambda nodes, node_id: f"node {node_id}")

    async def messages():
        for message in (Here("x", "cpu"), messages.Done("1", {})):
            heard: asyncio.Future[object] = asyncio.Future()
            heard.set_result(message)
            yield heard
        await asyncio.Event().wait()

    async def main():
        attempt = Attempt(JOBS, messages(), Nodes("CPU"), Patience(), lambda message: None)
        assert await asyncio.wait_for(attempt.ends["1"], 30) == messages.Done("1", {})
        assert (attempt.node_id, attempt.ends["2"].done()) == ("x", False)
        attempt.node_died()
        return attempt.ends["1"].result(), await asyncio.wait_for(attempt.ends["2"], 30)

    assert asyncio.run(main()) == (messages.Done("1", {}), Lost("the node is gone"))
