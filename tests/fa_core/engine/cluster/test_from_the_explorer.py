"""The explorer's own measuring, on a real cluster."""

from __future__ import annotations

import threading

import pytest

from fa_core.engine.devices import Execution
from fa_core.engine.jobs import MeasureOptions
from fa_core.rows import AuditRow
from fa_tui.jobs.measuring import Measured, Measuring, Setup

# one worker has the cluster: a second one would start another
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]


def test_marked_runs_are_measured_there_and_a_cancelled_one_is_not(cluster, gate, told, tmp_path):
    measured: dict[int, Measured] = {}
    failed: list[str] = []
    notices: list[str] = []
    both = threading.Event()

    def arrived(run: Measured) -> None:
        measured[run.index] = run
        if len(measured) == 2:
            both.set()

    measuring = Measuring(
        Setup(
            Execution(engine="ray", address=cluster.address),
            MeasureOptions(data="synthetic"),
            out=tmp_path / "results.json",
        ),
        on_job=told,
        on_measured=arrived,
        on_failed=failed.append,
        on_notice=notices.append,
        on_saving=[].append,
    )
    rows = [
        AuditRow(source=name, key=name, method=name, checkpoint=gate.checkpoint(name))
        for name in ("one", "two", "bad")
    ]
    try:
        assert measuring.start(enumerate(rows)) == ["0", "1", "2"]
        gate.wait_for_begun(1)
        assert measuring.cancel("2")
        gate.open()
        assert both.wait(60)
    finally:
        measuring.close()
    assert {run.row.method: run.saved for run in measured.values()} == dict.fromkeys(
        ("one", "two"), str(tmp_path / "results.json")
    )
    assert notices[0].startswith(f"Ray cluster at {cluster.address}")
    assert failed == []
    assert [job.state for job in measuring.listed()] == ["done", "done", "cancelled"]
