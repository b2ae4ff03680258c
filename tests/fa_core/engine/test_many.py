"""Many checkpoints through real workers, in groups and one by one."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from fa_core.engine.audit import Measuring, audit
from fa_core.engine.devices import Execution
from fa_core.engine.jobs import Job, JobState, JobView, MeasureOptions
from fa_core.engine.pool import WorkerPool
from fa_core.engine.verify import verify
from fa_core.formats import scan
from fa_core.models import build
from fa_core.report import DiagnosticReport

torch.set_num_threads(1)

MANY = 64
OPTIONS = MeasureOptions(data="synthetic:input=4,train=64,test=128", batches=8, batch_size=16)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """64 small untrained networks as bare checkpoints."""
    folder = tmp_path_factory.mktemp("nets")
    for seed in range(MANY):
        net = build("resmlp", input_dim=4, d=8, L=2, num_classes=10, seed=seed)
        save_file(net.state_dict(), folder / f"bp_s{seed}.safetensors")
    return folder


def audited(folder: Path, group: int) -> dict[int | None, DiagnosticReport]:
    result = audit(
        scan([folder]).rows,
        options=OPTIONS,
        how=Measuring(Execution(device="cpu", jobs=1, group=group)),
    )
    assert result.failures == []
    return {row.seed: row.report for row in result.rows}


def test_64_checkpoints_in_groups_of_16_give_the_reports_of_one_by_one(folder):
    together, alone = audited(folder, 16), audited(folder, 1)
    assert len(together) == len(alone) == MANY
    for seed, expected in alone.items():
        found = together[seed]
        assert found.residual_norms == pytest.approx(expected.residual_norms, rel=1e-5)
        assert found.bp_grad_norms == pytest.approx(expected.bp_grad_norms, rel=1e-5)
        assert found.cross_batch_stability == pytest.approx(
            expected.cross_batch_stability, rel=1e-5, abs=1e-7
        )
        assert (found.headline_acc, found.flags, found.verdict) == (
            expected.headline_acc,
            expected.flags,
            expected.verdict,
        )
        assert found.provenance == {**expected.provenance, "group": 16}
    # bit for bit the ordinary path
    assert "group" not in alone[0].provenance


def test_a_worker_killed_in_the_middle_of_a_group_loses_no_run_and_doubles_none(folder):
    killed: list[int] = []
    ends: list[str] = []

    def kill_once(view: JobView) -> None:
        if view.state.final:
            ends.append(view.job.id)
        if view.job.id == "20" and view.state is JobState.RUNNING and view.total and not killed:
            killed.extend(pool.pids())
            os.kill(killed[0], signal.SIGKILL)

    with WorkerPool(["cpu"], kill_once, group=16) as pool:
        paths = [folder / f"bp_s{seed}.safetensors" for seed in range(40)]
        futures = [
            pool.submit(Job(id=str(n), checkpoint=str(p), options=OPTIONS))
            for n, p in enumerate(paths)
        ]
        reports = [future.result(60) for future in futures]
    assert killed
    groups = [report.provenance.get("group") for report in reports]
    assert groups[:16] == [16] * 16
    assert groups.count(None) <= 16  # only those of the group that was lost are measured one by one
    assert sorted(ends, key=int) == [str(n) for n in range(40)]


def test_a_record_does_not_depend_on_how_many_were_measured_at_once(folder, tmp_path):
    out, rows = tmp_path / "audit.json", scan([folder]).rows[:6]
    audit(rows, out, OPTIONS, Measuring(Execution(device="cpu", group=3)))
    assert (
        audit(rows, out, OPTIONS, Measuring(Execution(device="cpu", group=1)), resume=True).skipped
        == 6
    )
    runs = verify(scan([out]).rows, Measuring(Execution(device="cpu"))).runs
    assert [run.comparison.agrees for run in runs] == [True] * 6
    assert {run.row.report.provenance["group"] for run in runs} == {3}
