"""What measuring several networks tells, and how it compares with measuring one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from fa_core.engine.group_runner import measure_run
from fa_core.engine.jobs import Cancelled, Job, JobProgress
from fa_core.engine.worker import WorkerEvents
from fa_core.report import DiagnosticReport


class Silent:
    def update(self, done: int, total: int) -> None: ...

    def note(self, text: str) -> None: ...


class Heard(WorkerEvents):
    """An outlet that writes down; jobs in ``cancelled`` are, and ``at`` may cancel more while batches are measured."""

    def __init__(self) -> None:
        self.reports: dict[str, DiagnosticReport] = {}
        self.errors: dict[str, Exception] = {}
        self.stops: list[str] = []
        self.groups: list[list[str]] = []
        self.notes: list[str] = []
        self.cancelled: set[str] = set()
        self.at: dict[int, str] = {}
        self.steps = 0

    def begin(self, jobs) -> JobProgress:
        self.groups.append([job.id for job in jobs])
        heard, ids = self, {job.id for job in jobs}

        class Watching:
            def update(self, done: int, total: int) -> None:
                heard.steps += 1
                heard.cancelled.update(heard.at.get(heard.steps, ""))
                if ids <= heard.cancelled:
                    raise Cancelled

            def note(self, text: str) -> None:
                heard.notes.append(text)

        return Watching()

    def note(self, job: Job, text: str) -> None:
        self.notes.append(text)

    def is_cancelled(self, job: Job) -> bool:
        return job.id in self.cancelled

    def done(self, job: Job, report: dict[str, Any]) -> None:
        assert job.id not in self.outcomes
        self.reports[job.id] = DiagnosticReport.from_dict(report)

    def failed(self, job: Job, error: Exception) -> None:
        assert job.id not in self.outcomes
        self.errors[job.id] = error

    def stopped(self, job: Job) -> None:
        assert job.id not in self.outcomes
        self.stops.append(job.id)

    @property
    def outcomes(self) -> list[str]:
        return [*self.reports, *self.errors, *self.stops]


def alone(job: Job) -> DiagnosticReport:
    return measure_run(job, "cpu", Silent())


def assert_same(found: DiagnosticReport, expected: DiagnosticReport) -> None:
    """Numbers to what rounding can do, everything else exactly."""
    for name in ("residual_norms", "bp_grad_norms", "cross_batch_stability", "error_norm"):
        assert getattr(found, name) == pytest.approx(
            getattr(expected, name), rel=1e-5, nan_ok=True
        ), name
    rounded = dict.fromkeys(
        ("residual_norms", "bp_grad_norms", "cross_batch_stability", "error_norm"), 0
    )
    rest = [json.loads(json.dumps(report.to_dict())) for report in (found, expected)]
    for report in rest:
        report.update(rounded)
        report["provenance"].pop("group", None)
    assert rest[0] == rest[1]
