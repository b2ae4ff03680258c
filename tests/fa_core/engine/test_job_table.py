from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from fa_core.engine.job_table import HORIZON, JobQueue, share
from fa_core.engine.jobs import Job, MeasureOptions, group_key
from fa_core.facts.manifest import MANIFEST, WEIGHTS

from .runs_for_tests import make_run


def queue_of(text: str) -> JobQueue:
    """Jobs such as ``x1``, whose letter is what they may be grouped by; ``-1`` is measured alone."""
    queue = JobQueue()
    for job_id in text.split():
        queue.append(job_id)
        queue.keys[job_id] = None if job_id[0] == "-" else job_id[0]
    return queue


def taken(queue: JobQueue, most: int, takers: int = 1) -> str:
    return " ".join(queue.take(most, takers))


def test_those_that_go_with_the_first_go_with_it():
    queue = queue_of("x1 y1 y2 x2 y3 -1")
    assert [taken(queue, 8) for _ in range(4)] == ["x1 x2", "y1 y2 y3", "-1", ""]


def test_those_that_go_together_with_nobody_keep_their_order():
    assert [taken(queue, 8) for queue in [queue_of("-1 x1 -2")] for _ in range(3)] == [
        "-1",
        "x1",
        "-2",
    ]


def test_one_at_a_time_they_go_as_they_were_put_in():
    queue = queue_of("x1 y1 y2")
    assert [taken(queue, 1) for _ in range(3)] == ["x1", "y1", "y2"]


def test_shares_shrink_towards_the_end_so_that_the_faster_takes_more():
    queue = queue_of(" ".join(f"x{n}" for n in range(200)))
    sizes = []
    while queue.ids:
        sizes.append(len(queue.take(64, 2)))
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 50 and sizes[-1] <= 8


@pytest.mark.parametrize("takers", [1, 2, 3, 8])
def test_a_share_is_never_more_than_a_fair_one_is_for_few(takers):
    assert all(
        1 <= share(queued, takers, 64) <= max(8, -(-queued // takers)) or takers == 1
        for queued in range(1, 99)
    )


def test_what_is_put_back_goes_first_and_alone():
    queue = queue_of("x1 x2 x3 x4")
    queue.put_first(queue.take(2, 1), alone=True)
    assert [taken(queue, 8) for _ in range(3)] == ["x1", "x2", "x3 x4"]


def test_no_further_than_the_horizon_is_looked():
    queue = queue_of(" ".join(f"x{n}" for n in range(HORIZON)))
    queue.append("far")
    assert queue.unknown() == []
    queue.take(1, 1)
    assert queue.unknown() == ["far"]


class TestGroupKey:
    def of(self, path: Path, **options) -> object:
        return group_key(Job(id="1", checkpoint=str(path), options=MeasureOptions(**options)))

    def test_of_runs_is_their_arch_and_its_arguments(self, tmp_path):
        one, other = make_run(tmp_path / "a", "dfa", 1), make_run(tmp_path / "b", "bp", 2)
        assert self.of(one) == self.of(other) == self.of(other / WEIGHTS) is not None
        manifest = json.loads((other / MANIFEST).read_text())
        for change in ({"arch_args": {"L": 9}}, {"arch": "smallcnn"}):
            (other / MANIFEST).write_text(json.dumps({**manifest, **change}))
            assert self.of(other) != self.of(one)

    def test_of_the_users_own_network_is_its_name(self, tmp_path):
        run = make_run(tmp_path / "a", "dfa", 1)
        assert (
            self.of(run, model="lab:net")
            == self.of(tmp_path / "b.pt", model="lab:net")
            != self.of(run)
        )

    def test_of_bare_files_is_left_to_the_worker_which_reads_them(self, tmp_path):
        os.mkfifo(tmp_path / "pipe.safetensors")
        assert (
            self.of(tmp_path / "pipe.safetensors") == self.of(tmp_path / "nowhere.pt") is not None
        )

    def test_of_a_run_that_cannot_be_read_is_none(self, tmp_path):
        (tmp_path / "folder").mkdir()
        run = make_run(tmp_path / "run", "bp")
        (run / MANIFEST).write_text("{")
        assert [self.of(tmp_path / name) for name in ("folder", "run")] == [None, None]
