"""A Ray cluster for the session, and jobs that wait at a gate."""

import time
from pathlib import Path

import pytest

from fa_core.audit.jobs import Job
from fa_core.audit.worker import MEASURE
from tests.json_files import put_json

from .nodes_for_tests import TestCluster

HERE = Path(__file__).parent


@pytest.fixture(scope="session")
def cluster():
    """A head and the nodes a and b."""
    pytest.importorskip("ray")
    running = TestCluster()
    for name in ("a", "b"):
        running.add(name)
    yield running
    running.close()


@pytest.fixture
def node_c(cluster, request):
    """One more node, which the test may harm; parametrized indirectly with its environment."""
    node = cluster.add("c", **getattr(request, "param", {}))
    yield node
    cluster.remove(node)


class Gate:
    """Checkpoints whose measuring begins, says so, and ends once the gate is open."""

    def __init__(self, folder):
        self.folder = folder
        self._begun, self._open = folder / "begun", folder / "open"

    def job(self, name, **described):
        return Job(id=name, method=name, checkpoint=self.checkpoint(name, **described))

    def checkpoint(self, name, **described):
        path = self.folder / f"{name}.json"
        return str(
            put_json(path, {"begun": str(self._begun), "until": str(self._open), **described})
        )

    def open(self):
        self._open.touch()

    def begun(self):
        return self._begun.read_text().split() if self._begun.exists() else []

    def wait_for_begun(self, count):
        """Wait until so many have begun."""
        limit = time.monotonic() + 120
        while len(self.begun()) < count:
            assert time.monotonic() < limit, f"begun: {self.begun()}"
            self.pause()

    def pause(self):
        time.sleep(0.05)


@pytest.fixture
def gate(tmp_path, monkeypatch):
    monkeypatch.chdir(HERE.parent)  # workers import `faults` from there
    monkeypatch.setenv(MEASURE, "faults:measure_at_gate")
    return Gate(tmp_path)
