from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from msgspec.structs import replace
from safetensors.torch import load_file, save_file
from torch import nn

from fa_core.engine import group_runner
from fa_core.engine.jobs import Job
from fa_core.errors import UsageError
from fa_core.facts.manifest import MANIFEST, WEIGHTS
from fa_core.measure.isolate import DREW

from ..runs_for_tests import small_net
from .hearing import Heard, alone, assert_same


def test_a_group_gives_the_reports_of_one_by_one(measurer, heard, jobs):
    jobs = [replace(job, options=replace(job.options, precision=True)) for job in jobs]
    measurer.measure(jobs, heard, 4)
    assert heard.groups == [["a", "b", "c", "d"], ["e", "f"]]
    for job in jobs:
        found, expected = heard.reports[job.id], alone(job)
        assert found.provenance["group"] == (4 if job.id in "abcd" else 2)
        assert (found.credit, found.flags) == (expected.credit, expected.flags)
        for report in (found, expected):
            assert report.reference_precision is not None
        assert_same(*(replace(r, reference_precision=None) for r in (found, expected)))


@pytest.mark.parametrize("dtype, samples", [(None, 320), ("as-is", 8 * 32 + 320)])
def test_a_group_runs_a_sample_once_unless_its_answer_may_depend_on_the_batch(
    measurer, heard, jobs, monkeypatch, dtype, samples
):
    real, ran = group_runner.measure_together, []

    def measure_together(networks, batches, test, **options):
        ran.append(sum(len(y) for _, y in [*batches, *test]))
        return real(networks, batches, test, **options)

    monkeypatch.setattr(group_runner, "measure_together", measure_together)
    jobs = [replace(job, options=replace(job.options, dtype=dtype)) for job in jobs]
    measurer.measure(jobs, heard, 6)
    assert ran == [samples]
    for job in jobs:
        assert_same(heard.reports[job.id], alone(job))


def test_on_a_cpu_networks_are_measured_one_after_the_other(measurer, heard, jobs):
    measurer.measure(jobs[:2], heard)
    assert heard.groups == [["a"], ["b"]]
    assert heard.reports["a"].to_dict() == alone(jobs[0]).to_dict()
    assert "group" not in heard.reports["a"].provenance


def test_jobs_on_other_samples_share_no_passes(measurer, heard, jobs):
    jobs = [
        replace(job, options=replace(job.options, eval_seed=n % 2)) for n, job in enumerate(jobs)
    ]
    measurer.measure(jobs, heard, 6)
    assert heard.groups == [["a", "c", "e"], ["b", "d", "f"]]
    assert_same(heard.reports["b"], alone(jobs[1]))


def test_a_network_of_another_shape_is_measured_beside_the_group_and_says_so(
    measurer, heard, jobs, tmp_path
):
    other = tmp_path / "other.safetensors"
    save_file({name: tensor.double() for name, tensor in small_net(7).state_dict().items()}, other)
    jobs[2] = replace(jobs[2], checkpoint=str(other), method="bp")
    measurer.measure(jobs, heard, 6)
    assert len(heard.reports) == 6
    assert heard.reports["c"].dtype == "float64"
    assert "group" not in heard.reports["c"].provenance
    assert any("not stacked with the others" in note for note in heard.notes)


def test_on_cuda_a_group_is_what_its_memory_holds(measurer, heard, jobs, monkeypatch):
    real, asked = group_runner.evaluation, []
    monkeypatch.setattr(measurer, "_device", "cuda:3")
    monkeypatch.setattr(group_runner, "evaluation", lambda plan, device: real(plan, "cpu"))
    monkeypatch.setattr(
        group_runner,
        "group_size",
        lambda bytes_per_member, device: asked.append(bytes_per_member) or 4,
    )
    monkeypatch.setattr(
        "fa_core.engine.group_runner._device_facts", lambda device: {"device": device}
    )
    measurer.measure(jobs, heard)
    assert heard.groups == [["a", "b", "c", "d"], ["e", "f"]]
    assert heard.reports["f"].provenance["device"] == "cuda:3"
    weights = sum(t.nbytes for t in small_net(0).state_dict().values())
    assert all(found > 2 * weights for found in asked)


class TestABadMember:
    def spoil(self, job: Job, how: str) -> None:
        weights = Path(job.checkpoint) / WEIGHTS
        state = load_file(weights)
        if how == "nan":
            save_file({name: tensor * float("nan") for name, tensor in state.items()}, weights)
        elif how == "truncated":
            weights.write_bytes(weights.read_bytes()[:-100])
        elif how == "missing":
            weights.unlink()
        elif how == "shape":
            save_file({**state, "out_head.weight": torch.zeros(10, 3)}, weights)
        elif how == "manifest":
            (Path(job.checkpoint) / MANIFEST).write_text("{")

    @pytest.mark.parametrize("how", ["truncated", "missing", "shape", "manifest"])
    @pytest.mark.parametrize("place", [0, 2])
    def test_fails_alone(self, measurer, heard, jobs, how, place):
        self.spoil(jobs[place], how)
        measurer.measure(jobs, heard, 6)
        assert list(heard.errors) == [jobs[place].id]
        assert jobs[place].checkpoint in str(heard.errors[jobs[place].id])
        assert len(heard.reports) == 5
        assert_same(heard.reports["b"], alone(jobs[1]))

    def test_that_is_not_finite_is_measured_as_such_and_leaves_the_others_as_they_are(
        self, measurer, heard, jobs
    ):
        self.spoil(jobs[2], "nan")
        measurer.measure(jobs, heard, 6)
        assert not heard.errors
        assert "trustworthy" not in heard.reports["c"].verdict
        for job in jobs:
            assert_same(heard.reports[job.id], alone(job))

    def test_that_raises_while_it_is_written_up_fails_alone(
        self, measurer, heard, jobs, monkeypatch
    ):
        real = group_runner.build_report

        def build_report(loaded, *args):
            if loaded.job.id == "c":
                raise ZeroDivisionError("division by zero")
            return real(loaded, *args)

        monkeypatch.setattr(group_runner, "build_report", build_report)
        measurer.measure(jobs, heard, 6)
        assert list(heard.errors) == ["c"]
        assert len(heard.reports) == 5


class TestCancelling:
    def test_one_of_a_group_drops_only_it(self, measurer, heard, jobs):
        heard.at = {3: "b"}
        measurer.measure(jobs, heard, 6)
        assert heard.stops == ["b"]
        assert sorted(heard.reports) == list("acdef")
        assert_same(heard.reports["a"], alone(jobs[0]))

    def test_one_that_waits_keeps_it_from_beginning(self, measurer, heard, jobs):
        heard.at = {3: "e"}
        measurer.measure(jobs, heard, 3)
        assert heard.stops == ["e"]
        assert heard.groups == [["a", "b", "c"], ["d", "f"]]

    def test_a_whole_group_stops_it_at_the_next_batch(self, measurer, heard, jobs):
        heard.at = {2: "a", 3: "bc"}
        measurer.measure(jobs[:3], heard, 3)
        assert sorted(heard.stops) == ["a", "b", "c"]
        assert heard.steps == 3


def test_an_error_nobody_expected_has_the_group_measured_one_by_one(
    measurer, heard, jobs, monkeypatch, capsys
):
    monkeypatch.setattr(group_runner, "measure_together", lambda *args, **kwargs: 1 / 0)
    measurer.measure(jobs, heard, 6)
    assert len(heard.reports) == 6
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_lost_device_ends_the_worker_so_that_the_culprit_is_found_one_by_one(
    measurer, heard, jobs, monkeypatch
):
    def lost(*args, **kwargs):
        raise RuntimeError("CUDA error: device-side assert triggered")

    monkeypatch.setattr(group_runner, "measure_together", lost)
    with pytest.raises(RuntimeError, match="CUDA error"):
        measurer.measure(jobs, heard, 6)
    assert heard.outcomes == []


def test_data_that_nobody_knows_fail_each_job_in_words(measurer, heard, jobs):
    jobs = [replace(job, options=replace(job.options, data="nothing:1")) for job in jobs[:2]]
    measurer.measure(jobs, heard, 2)
    assert set(heard.errors) == {"a", "b"}
    assert all(isinstance(error, UsageError) for error in heard.errors.values())


@pytest.mark.parametrize("group", [1, 2])
def test_a_network_that_draws_in_eval_mode_says_so_and_gives_the_same_numbers_again(
    jobs, measurer, monkeypatch, group
):
    class Drawing(nn.Module):
        def __init__(self):
            super().__init__()
            self.net = small_net(0)

        def forward(self, x, return_hidden=False):
            return self.net(nn.functional.dropout(x, training=True), return_hidden=return_hidden)

    monkeypatch.setitem(sys.modules, "their_nets", ModuleType("their_nets"))
    monkeypatch.setattr("their_nets.Drawing", Drawing, raising=False)
    saved = Path(jobs[0].checkpoint).parent / "net.safetensors"
    save_file(Drawing().state_dict(), saved)
    options = replace(jobs[0].options, model="their_nets:Drawing")
    drawing = [replace(job, checkpoint=str(saved), options=options) for job in jobs[:group]]
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        heard = Heard()
        measurer.measure(drawing, heard, group)
        assert heard.errors == {} and heard.notes.count(DREW) == group
        found += heard.reports.values()
    assert all(report.notes == DREW for report in found)
    assert all(report.residual_norms == found[0].residual_norms for report in found)
    assert all(report.headline_acc == found[0].headline_acc for report in found)
