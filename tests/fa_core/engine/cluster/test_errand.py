"""What becomes of a job as its attempts end, without a cluster."""

from __future__ import annotations

import asyncio
import time

import pytest

from fa_core.engine import Job, messages

pytest.importorskip("ray")

from fa_core.engine.cluster.attempt import Lost
from fa_core.engine.cluster.errand import LIVES, Errand
from fa_core.engine.cluster.patience import Patience
from fa_core.engine.cluster.wire import Unseen

JOB = Job(id="1", checkpoint="/nets/dfa.pt")
DONE = messages.Done("1", {"provenance": {"device": "cpu"}})
SPOILT = messages.Failed("1", "CUDA error", "/nets/dfa.pt", device="lost")


class FakeNodes:
    """Two nodes, x and y; those of ``deaf`` do not answer."""

    def __init__(self, deaf: str = "") -> None:
        self.suspects: frozenset[str] = frozenset()
        self._deaf = deaf

    def able(self) -> set[str]:
        return {"x", "y"}

    def name(self, node_id: str) -> str:
        return f"node {node_id}"

    def names(self, node_ids: set[str]) -> str:
        return ", ".join(map(self.name, sorted(node_ids)))

    def suspect(self, node_id: str) -> None:
        self.suspects |= {node_id}

    async def roll_call(self) -> None:
        self.suspects |= frozenset(self._deaf)


class FakeAttempt:
    """On a node, with an end that has come already; None = it says nothing."""

    def __init__(self, node_id: str, end: object = None) -> None:
        self.node_id, self.heard, self.abandoned = node_id, time.monotonic(), False
        self.ends = {"1": asyncio.get_running_loop().create_future()}
        if end is not None:
            self.ends["1"].set_result(end)

    def abandon(self, job_id: str) -> None:
        self.abandoned = True


def run(*attempts: tuple[str, object], deaf: str = "", patience: float = 60.0):
    """How the job ends, the nodes that each further attempt had to avoid, and the notes."""
    avoided: list[frozenset[str]] = []
    told: list[object] = []

    async def main() -> object:
        prepared = iter([FakeAttempt(*attempt) for attempt in attempts])

        def another(job: Job, avoid: frozenset[str]) -> FakeAttempt:
            avoided.append(avoid)
            return next(prepared)

        errand = Errand(JOB, next(prepared), another, FakeNodes(deaf), Patience(patience), told.append)
        return await asyncio.wait_for(errand.run(), 30)

    return asyncio.run(main()), avoided, [note.text for note in told if isinstance(note, messages.Note)]


def test_the_report_says_which_node_measured():
    end, avoided, notes = run(("x", DONE))
    assert end.report["provenance"] == {"device": "cpu", "node": "node x"}
    assert (avoided, notes) == ([], [])


def test_a_job_that_takes_its_nodes_with_it_ends_some_time():
    end, avoided, _ = run(*[("x", Lost("the node died"))] * LIVES)
    assert end.what == f"lost {LIVES} times, last on node x: the node died"
    assert avoided == [{"x"}] * (LIVES - 1)


def test_a_spoilt_device_sends_the_job_to_another_node_and_fails_it_on_the_last():
    end, avoided, notes = run(("x", SPOILT), ("y", DONE))
    assert isinstance(end, messages.Done)
    assert avoided == [{"x"}]
    assert notes == ["CUDA error (on node x): tried on another node"]
    end, _, _ = run(("x", SPOILT), ("y", SPOILT))
    assert end.what == "CUDA error (on node y)"


def test_a_file_that_no_node_sees_names_all_of_them():
    end, avoided, _ = run(("x", Unseen("1")), ("y", Unseen("1")))
    assert "not there on node x, node y" in end.what
    assert avoided == [{"x"}]


def test_a_job_does_not_wait_for_a_node_that_died_when_the_others_do_not_see_its_file(monkeypatch):
    monkeypatch.setattr("fa_core.engine.cluster.errand.LOOK_AGAIN", 0.01)
    living = iter([{"x", "y"}])
    monkeypatch.setattr(FakeNodes, "able", lambda nodes: next(living, {"x"}))
    end, _, _ = run(("x", Unseen("1")), ("", None))
    assert "not there on node x" in end.what


def test_a_silent_attempt_is_raced_by_another_on_a_node_that_answers():
    end, avoided, notes = run(("x", None), ("y", DONE), deaf="x", patience=0.05)
    assert isinstance(end, messages.Done)
    assert avoided == [{"x"}]
    assert notes[0].startswith("no word from node x for 0 s")


def test_silence_is_told_also_where_no_other_node_can_measure(monkeypatch):
    monkeypatch.setattr(FakeNodes, "able", lambda nodes: {"x"})
    told: list[object] = []

    async def main() -> None:
        errand = Errand(JOB, FakeAttempt("x"), lambda *_: FakeAttempt(""), FakeNodes("x"), Patience(0.01), told.append)
        running = asyncio.create_task(errand.run())
        while not told:
            await asyncio.sleep(0.01)
        errand.cancel()
        await running

    asyncio.run(asyncio.wait_for(main(), 30))
    assert told[0].text == "no word from node x for 0 s, and no other node can measure it"


def test_a_job_that_a_frozen_node_keeps_from_being_placed_is_placed_elsewhere():
    end, avoided, _ = run(("", None), ("y", DONE), deaf="x", patience=0.05)
    assert isinstance(end, messages.Done)
    assert avoided == [{"x"}]


def test_a_job_waits_for_its_turn_on_a_busy_cluster_whose_nodes_answer():
    async def main() -> int:
        waiting, others = FakeAttempt(""), []
        errand = Errand(JOB, waiting, lambda *_: others.append(1), FakeNodes(), Patience(0.01), lambda _: None)
        running = asyncio.create_task(errand.run())
        for _ in range(20):
            await asyncio.sleep(0.01)
        errand.cancel()
        assert await running == messages.Stopped("1")
        assert waiting.abandoned
        return len(others)

    assert asyncio.run(main()) == 0
