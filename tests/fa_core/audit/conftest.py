"""A pool of real worker processes that measure with `faults.measure`, and what it told."""

import threading
from pathlib import Path

import pytest

from fa_core.audit import messages
from fa_core.audit.pool import Pool
from fa_core.audit.worker import MEASURE

HERE = Path(__file__).parent


class Told:
    """Every event so far; waits for one of a job that answers a question."""

    def __init__(self):
        self.views = []
        self._changed = threading.Condition()

    def __call__(self, view):
        with self._changed:
            self.views.append(view)
            self._changed.notify_all()

    def views_of(self, job_id):
        return [view for view in self.views if view.job.id == job_id]

    def wait_for(self, job_id, question):
        def answer():
            return next(filter(question, self.views_of(job_id)), None)

        with self._changed:
            found = self._changed.wait_for(answer, 30)
        assert found is not None, f"never told; last: {self.views[-3:]}"
        return found

    def states(self, job_id):
        """What a job went through, once its end was told: its future has the result before."""
        self.wait_for(job_id, lambda view: view.state.final)
        seen = [view.state for view in self.views_of(job_id)]
        return [
            state
            for number, state in enumerate(seen)
            if number == 0 or state is not seen[number - 1]
        ]


@pytest.fixture
def told():
    return Told()


@pytest.fixture
def make_pool(monkeypatch, told, tmp_path):
    monkeypatch.chdir(HERE)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    pools = []

    def make(
        devices=("cpu",),
        *,
        grace=messages.GRACE,
        measure="faults:measure",
        **options,
    ):
        monkeypatch.setattr(messages, "GRACE", grace)
        monkeypatch.setenv(MEASURE, measure)
        pools.append(Pool(devices, told, **options))
        return pools[-1]

    yield make
    for each in pools:
        each.close()
