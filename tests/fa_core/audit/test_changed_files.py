"""Weights that change on disk: while they are measured, and afterwards."""

import os

import msgspec
import pytest

from fa_core.audit import measuring
from fa_core.audit.jobs import Job, changed_since
from fa_core.audit.measuring import measure_run
from fa_core.errors import MeasureError
from fa_core.report.manifest import WEIGHTS
from tests.fa_core.rows import row_of

from .runs_for_tests import make_run


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "dfa_s42", "dfa")


def measured(run):
    report = measure_run(Job(id="0", checkpoint=str(run)), "cpu", measuring.JobProgress())
    return row_of("dfa_s42", "audit.json", run, report=report)


def test_weights_that_change_after_they_were_measured_are_said_on_opening(run):
    row = measured(run)
    assert list(changed_since([row])) == []
    weights = run / WEIGHTS
    os.utime(weights, (1, 1))
    assert list(changed_since([row])) == []
    content = bytearray(weights.read_bytes())
    content[-1] ^= 1
    weights.write_bytes(content)
    # what is too large to be hashed leaves room for others
    with run.with_name("large.pt").open("wb") as file:
        file.truncate(1 << 40)
    large = msgspec.structs.replace(row, checkpoint=file.name)
    (problem,) = changed_since([large, row])
    assert problem.message.startswith(f"dfa_s42: {run} changed since")
    old = msgspec.structs.replace(row.report, provenance={})
    assert list(changed_since([msgspec.structs.replace(row, report=old)])) == []


def test_weights_that_change_while_they_are_measured_give_no_report(run, monkeypatch):
    real = measuring.run_diagnosis

    def meanwhile(*args, **given):
        os.utime(run / WEIGHTS, (1, 1))
        return real(*args, **given)

    monkeypatch.setattr(measuring, "run_diagnosis", meanwhile)
    with pytest.raises(MeasureError, match="changed while they were measured"):
        measured(run)
