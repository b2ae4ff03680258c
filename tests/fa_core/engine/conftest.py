"""A pool of real worker processes that measure with `faults.measure`, and what it told."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fa_core.engine import pool
from fa_core.engine.jobs import JobState, JobView
from fa_core.engine.pool import WorkerPool
from fa_core.engine.worker import MEASURE

HERE = Path(__file__).parent


class Told:
    """Every event so far; waits for one that answers a question."""

    def __init__(self) -> None:
        self.views: list[JobView] = []
        self._changed = threading.Condition()

    def __call__(self, view: JobView) -> None:
        with self._changed:
            self.views.append(view)
            self._changed.notify_all()

    def wait_for(self, question: Callable[[JobView], bool], timeout: float = 30) -> JobView:
        def answer() -> JobView | None:
            return next((view for view in self.views if question(view)), None)

        with self._changed:
            found = self._changed.wait_for(answer, timeout)
        assert found is not None, f"never told; last: {self.views[-3:]}"
        return found

    def states(self, job_id: str) -> list[JobState]:
        """What a job went through, once its end was told: its future has the result before."""
        self.wait_for(lambda view: view.job.id == job_id and view.state.final)
        seen = [view.state for view in self.views if view.job.id == job_id]
        return [
            state
            for number, state in enumerate(seen)
            if number == 0 or state is not seen[number - 1]
        ]


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def make_pool(
    monkeypatch: pytest.MonkeyPatch, told: Told, tmp_path: Path
) -> Iterator[Callable[..., WorkerPool]]:
    monkeypatch.chdir(HERE)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    pools: list[WorkerPool] = []

    def make(
        devices: tuple[str, ...] = ("cpu",),
        *,
        grace: float = pool.GRACE,
        measure: str = "faults:measure",
        **options: Any,
    ) -> WorkerPool:
        monkeypatch.setattr(pool, "GRACE", grace)
        monkeypatch.setenv(MEASURE, measure)
        pools.append(WorkerPool(devices, told, **options))
        return pools[-1]

    yield make
    for each in pools:
        each.close()
