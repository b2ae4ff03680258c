"""What becomes of a job as its tasks end or fall silent, without a cluster."""

from __future__ import annotations

import time

import pytest

from fa_core.engine import messages
from fa_core.engine.jobs import Job

pytest.importorskip("ray")

import ray

from fa_core.engine import ray_driver
from fa_core.engine.messages import UNSEEN, Placed
from fa_core.engine.ray_driver import LIVES, Jobs

JOB = Job(id="1", checkpoint="/nets/dfa.pt")
DONE = messages.Done("1", {"provenance": {"device": "cpu"}})
UNSEEN_THERE = messages.Failed("1", "/nets/dfa.pt is not there", device=UNSEEN)
SPOILT = messages.Failed("1", "CUDA error", "/nets/dfa.pt", device="lost")


class FakeNodes:
    """Nodes with the given ids, all of whose places are taken."""

    def __init__(self, living: str) -> None:
        self.living, self.departed = set(living), set()
        self.shunned: set[str] = set()
        self.quiet: set[str] = set()
        self.waiting = ""

    def able(self) -> set[str]:
        return set(self.living)

    def silent(self, seconds: float) -> set[str]:
        return self.quiet

    def heard(self, node_id: str) -> None:
        self.shunned.discard(node_id)

    def avoid(self, node_ids: set[str]) -> None:
        self.shunned.update(node_ids)

    def avoided(self) -> set[str]:
        return set(self.shunned)

    def name(self, node_id: str) -> str:
        return f"node {node_id}"

    def look(self, begun: dict[str, int]) -> set[str]:
        return self.departed

    def explain(self, unplaced: list[str]) -> None:
        pass


class Run:
    """Jobs on fake nodes; every task's generator is its number."""

    def __init__(
        self, nodes: str = "xy", patience: float = 60.0, jobs: tuple[Job, ...] = (JOB,)
    ) -> None:
        self.nodes = FakeNodes(nodes)
        self.said: list[object] = []
        self.started: list[tuple[list[str], set[str]]] = []
        self.stopped: list[int] = []
        self.jobs = Jobs(self.nodes, patience, self.said.append, self._start, self.stopped.append)
        self.jobs.begin(jobs)

    def _start(self, jobs, avoid) -> int:
        self.started.append(([job.id for job in jobs], set(avoid)))
        return len(self.started) - 1

    def on(self, node_id: str, number: int = -1):
        """The task of this number, now on this node."""
        task = self.jobs.tasks[number]
        self.jobs.hear(task, Placed([*task.jobs], node_id, "cpu"))
        return task

    def hear(self, node_id: str, message: object) -> None:
        self.jobs.hear(self.on(node_id), message)
        self.jobs.look()

    def lose(self, node_id: str, why: str = "the node died") -> None:
        self.jobs.lost(self.on(node_id), why)
        self.jobs.look()

    @property
    def avoided(self) -> list[set[str]]:
        """By each further task."""
        return [avoid for _, avoid in self.started[1:]]

    @property
    def notes(self) -> list[str]:
        return [message.text for message in self.said if isinstance(message, messages.Note)]

    @property
    def ends(self) -> list[object]:
        return [
            message
            for message in self.said
            if isinstance(message, (messages.Done, messages.Failed))
        ]


def test_the_report_says_which_node_measured():
    run = Run()
    run.hear("x", DONE)
    assert run.ends == [messages.Done("1", {"provenance": {"device": "cpu", "node": "node x"}})]
    assert (run.avoided, run.notes, run.stopped) == ([], [], [])


def test_a_job_whose_node_is_lost_is_submitted_again_to_another():
    run = Run()
    run.lose("x")
    assert run.said[-2:] == [
        messages.Note(["1"], "lost on node x: measured again (the node died)"),
        Placed(["1"], ""),
    ]
    run.hear("y", DONE)
    assert (len(run.ends), run.avoided) == (1, [{"x"}])


def test_a_job_that_takes_its_nodes_with_it_ends_some_time():
    run = Run()
    for _ in range(LIVES):
        run.lose("x")
    assert [end.what for end in run.ends] == [f"lost {LIVES} times, last on node x: the node died"]
    assert run.avoided == [{"x"}] * (LIVES - 1)


def test_what_a_node_has_that_fell_silent_is_lost_when_the_node_is_declared_dead():
    run = Run(jobs=(JOB, Job(id="2", checkpoint="/nets/2.pt")))
    run.hear("x", DONE)
    run.nodes.departed, run.nodes.living = {"x"}, {"y"}
    run.jobs.look()
    assert [jobs for jobs, _ in run.started] == [["1", "2"], ["2"]]
    assert run.notes == ["lost on node x: measured again (the node is gone)"]


def test_jobs_whose_worker_died_are_measured_again_each_alone():
    run = Run(
        jobs=(JOB, Job(id="2", checkpoint="/nets/2.pt"), Job(id="3", checkpoint="/nets/3.pt"))
    )
    run.jobs.hear(run.on("x"), DONE)
    run.hear("x", messages.Failed("", "its worker on cpu was killed by SIGKILL"))
    assert [jobs for jobs, _ in run.started] == [["1", "2", "3"], ["2"], ["3"]]
    assert run.notes == 2 * [
        "lost on node x: measured again (its worker on cpu was killed by SIGKILL)"
    ]
    assert (len(run.ends), run.stopped) == (1, [])


def test_a_spoilt_device_sends_the_job_to_another_node_and_fails_it_on_the_last():
    run = Run()
    run.hear("x", SPOILT)
    assert run.notes == ["CUDA error (on node x): tried on another node"]
    run.hear("y", DONE)
    assert (run.avoided, type(run.ends[0])) == ([{"x"}], messages.Done)
    run = Run()
    run.hear("x", SPOILT)
    run.hear("y", SPOILT)
    assert run.ends[0].what == "CUDA error (on node y)"


def test_a_node_without_this_program_is_one_line_that_says_what_to_install():
    class Missing(ray.exceptions.RayTaskError, ImportError):
        def __init__(self) -> None:
            pass

        def __str__(self) -> str:
            return "ray::measure_here()\nModuleNotFoundError: No module named 'fa_core.engine'"

    why = ray_driver._why_lost(Missing())
    assert why == "fa-tui is not installed there; install it on every node, at the same version"
    assert ray_driver._why_lost(ValueError("odd\nbytes")) == "odd"


def test_a_file_that_no_node_sees_names_all_of_them():
    run = Run()
    run.hear("x", UNSEEN_THERE)
    run.hear("y", UNSEEN_THERE)
    assert "not there on node x, node y" in run.ends[0].what
    assert run.avoided == [{"x"}]


def test_a_job_does_not_wait_for_a_node_that_died_when_the_others_do_not_see_its_file():
    run = Run()
    run.hear("x", UNSEEN_THERE)
    run.nodes.living = {"x"}
    run.jobs.look()
    assert "not there on node x" in run.ends[0].what


def test_a_silent_task_is_raced_by_another_and_the_first_result_wins():
    run = Run(patience=0.0)
    silent = run.on("x")
    run.jobs.look()
    assert (run.avoided, run.notes) == (
        [{"x"}],
        ["no word from node x for 0 s: tried on another node"],
    )
    run.hear("y", DONE)
    assert run.stopped == [0]
    run.jobs.hear(silent, DONE)
    assert len(run.ends) == 1


def test_the_late_result_of_a_silent_task_counts_and_ends_the_other():
    run = Run(patience=0.0)
    silent = run.on("x")
    run.jobs.look()
    run.jobs.hear(silent, DONE)
    run.jobs.look()
    assert (len(run.ends), run.stopped) == (1, [1])


def test_a_slow_job_gets_twice_the_time_after_each_silence():
    run = Run(patience=0.01)
    run.on("x")
    time.sleep(0.02)
    run.jobs.look()
    assert len(run.avoided) == 1
    run.jobs.look()  # at once: not silent for 0.02 s
    assert len(run.avoided) == 1


def test_silence_is_told_also_where_no_other_node_can_measure():
    run = Run("x", patience=0.0)
    run.on("x")
    run.jobs.look()
    assert run.notes == ["no word from node x for 0 s, and no other node can measure it"]
    assert run.avoided == []


def test_a_job_that_a_frozen_node_keeps_from_being_placed_is_placed_elsewhere():
    run = Run(patience=0.0)
    run.nodes.quiet = {"x"}  # which seems to have a free place
    run.jobs.look()
    assert run.avoided == [{"x"}]
    run.on("y")
    run.jobs.look()
    assert run.stopped == [0]  # what waits behind the frozen node is given up
    run.jobs.hear(run.jobs.tasks[-1], DONE)
    assert len(run.ends) == 1


def test_a_job_waits_for_its_turn_on_a_busy_cluster_whose_nodes_answer():
    run = Run(patience=0.0)
    for _ in range(20):
        run.jobs.look()
    assert (run.avoided, run.notes) == ([], [])
    run.jobs.cancel("1")
    run.jobs.look()
    assert (run.stopped, run.said) == ([0], [])


def test_a_job_that_avoids_all_nodes_that_are_left_is_submitted_to_them_after_all():
    run = Run()
    run.lose("x")
    run.nodes.living = {"x"}
    run.jobs.look()
    assert (run.avoided, run.stopped) == ([{"x"}, set()], [1])


def test_messages_without_news_of_a_job_reach_the_client(capsys):
    run = Run()
    task = run.on("x")
    for message in (
        messages.Begun(["1"]),
        messages.Progress(["1"], 1, 2),
        messages.Note(["1"], "halved"),
    ):
        run.jobs.hear(task, message)
        assert run.said[-1] == message
    run.jobs.hear(task, messages.Note([], "a warning"))
    assert "node x said:\na warning" in capsys.readouterr().err
