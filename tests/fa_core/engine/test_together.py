from __future__ import annotations

import json
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from msgspec.structs import replace
from safetensors.torch import load_file, save_file

from fa_core.engine import loading, room, together
from fa_core.engine.jobs import Job, MeasureOptions
from fa_core.engine.loading import Loader
from fa_core.engine.measuring import measure_run
from fa_core.engine.room import check_room, group_size
from fa_core.engine.together import Together
from fa_core.engine.watch import Cancelled, DeviceFull, Watch
from fa_core.errors import MeasureError, UsageError
from fa_core.report import DiagnosticReport
from fa_core.runs import MANIFEST, WEIGHTS

from .runs_for_tests import make_run, small_net

torch.set_num_threads(1)

DATA = "synthetic:input=8,train=64,test=320"


class Silent:
    def progress(self, done: int, total: int) -> None: ...

    def note(self, text: str) -> None: ...


class Heard:
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

    def begin(self, jobs) -> Watch:
        self.groups.append([job.id for job in jobs])
        heard, ids = self, {job.id for job in jobs}

        class Watching:
            def progress(self, done: int, total: int) -> None:
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


@pytest.fixture
def heard() -> Heard:
    return Heard()


@pytest.fixture
def measurer():
    measurer = Together("cpu")
    yield measurer
    measurer.close()


@pytest.fixture
def jobs(tmp_path) -> list[Job]:
    """Six runs of one network and several methods; the id is a letter."""
    methods = ["dfa", "bp", "fa", "dfa", "bp", "frozen"]
    options = MeasureOptions(data=DATA, batches=8, batch_size=32)
    return [
        Job(id=letter, checkpoint=str(make_run(tmp_path / f"{method}_s{seed}", method, seed)), options=options)
        for seed, (letter, method) in enumerate(zip("abcdef", methods, strict=True))
    ]


def alone(job: Job) -> DiagnosticReport:
    return measure_run(job, "cpu", Silent())


def assert_same(found: DiagnosticReport, expected: DiagnosticReport) -> None:
    """Numbers to what rounding can do, everything else exactly."""
    for name in ("residual_norms", "bp_grad_norms", "cross_batch_stability", "error_norm"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-5, nan_ok=True), name
    rounded = dict.fromkeys(("residual_norms", "bp_grad_norms", "cross_batch_stability", "error_norm"), 0)
    rest = [json.loads(json.dumps(report.to_dict())) for report in (found, expected)]
    for report in rest:
        report.update(rounded)
        report["provenance"].pop("group", None)
    assert rest[0] == rest[1]


def test_a_group_gives_the_reports_of_one_by_one(measurer, heard, jobs):
    jobs = [replace(job, options=replace(job.options, resamples=20, precision=True)) for job in jobs]
    measurer.measure(jobs, [], heard, 4)
    assert heard.groups == [["a", "b", "c", "d"], ["e", "f"]]
    for job in jobs:
        found, expected = heard.reports[job.id], alone(job)
        assert found.provenance["group"] == (4 if job.id in "abcd" else 2)
        assert (found.credit, found.flags) == (expected.credit, expected.flags)
        for report in (found, expected):
            assert report.resampling is not None and report.reference_precision is not None
        assert_same(*(replace(r, resampling=None, reference_precision=None) for r in (found, expected)))


def test_on_a_cpu_networks_are_measured_one_after_the_other(measurer, heard, jobs):
    measurer.measure(jobs[:2], jobs[2:], heard)
    assert heard.groups == [["a"], ["b"]]
    assert heard.reports["a"].to_dict() == alone(jobs[0]).to_dict()
    assert "group" not in heard.reports["a"].provenance


def test_jobs_on_other_samples_share_no_passes(measurer, heard, jobs):
    jobs = [replace(job, options=replace(job.options, eval_seed=n % 2)) for n, job in enumerate(jobs)]
    measurer.measure(jobs, [], heard, 6)
    assert heard.groups == [["a", "c", "e"], ["b", "d", "f"]]
    assert_same(heard.reports["b"], alone(jobs[1]))


def test_a_network_of_another_shape_is_measured_beside_the_group_and_says_so(measurer, heard, jobs, tmp_path):
    other = tmp_path / "other.safetensors"
    save_file({name: tensor.double() for name, tensor in small_net(7).state_dict().items()}, other)
    jobs[2] = replace(jobs[2], checkpoint=str(other), method="bp")
    measurer.measure(jobs, [], heard, 6)
    assert len(heard.reports) == 6
    assert heard.reports["c"].dtype == "float64"
    assert "group" not in heard.reports["c"].provenance
    assert any("not stacked with the others" in note for note in heard.notes)


def test_on_cuda_a_group_is_what_its_memory_holds(measurer, heard, jobs, monkeypatch):
    real, asked = together.evaluation, []
    monkeypatch.setattr(measurer, "_device", "cuda:3")
    monkeypatch.setattr(together, "evaluation", lambda plan, device: real(plan, "cpu"))
    monkeypatch.setattr(together, "group_size", lambda bytes_per_member, device: asked.append(bytes_per_member) or 4)
    monkeypatch.setattr("fa_core.engine.write_up._device_label", lambda device: "a card")
    measurer.measure(jobs, [], heard)
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
            save_file({**state, "head.weight": torch.zeros(10, 3)}, weights)
        elif how == "manifest":
            (Path(job.checkpoint) / MANIFEST).write_text("{")

    @pytest.mark.parametrize("how", ["truncated", "missing", "shape", "manifest"])
    @pytest.mark.parametrize("place", [0, 2])
    def test_fails_alone(self, measurer, heard, jobs, how, place):
        self.spoil(jobs[place], how)
        measurer.measure(jobs, [], heard, 6)
        assert list(heard.errors) == [jobs[place].id]
        assert jobs[place].checkpoint in str(heard.errors[jobs[place].id])
        assert len(heard.reports) == 5
        assert_same(heard.reports["b"], alone(jobs[1]))

    def test_that_is_not_finite_is_measured_as_such_and_leaves_the_others_as_they_are(self, measurer, heard, jobs):
        self.spoil(jobs[2], "nan")
        measurer.measure(jobs, [], heard, 6)
        assert not heard.errors
        assert "trustworthy" not in heard.reports["c"].verdict
        for job in jobs:
            assert_same(heard.reports[job.id], alone(job))

    def test_that_raises_while_it_is_written_up_fails_alone(self, measurer, heard, jobs, monkeypatch):
        real = together.written_up

        def written_up(loaded, *args):
            if loaded.job.id == "c":
                raise ZeroDivisionError("division by zero")
            return real(loaded, *args)

        monkeypatch.setattr(together, "written_up", written_up)
        measurer.measure(jobs, [], heard, 6)
        assert list(heard.errors) == ["c"]
        assert len(heard.reports) == 5


class TestCancelling:
    def test_one_of_a_group_drops_only_it(self, measurer, heard, jobs):
        heard.at = {3: "b"}
        measurer.measure(jobs, [], heard, 6)
        assert heard.stops == ["b"]
        assert sorted(heard.reports) == list("acdef")
        assert_same(heard.reports["a"], alone(jobs[0]))

    def test_one_that_waits_keeps_it_from_beginning(self, measurer, heard, jobs):
        heard.at = {3: "e"}
        measurer.measure(jobs, [], heard, 3)
        assert heard.stops == ["e"]
        assert heard.groups == [["a", "b", "c"], ["d", "f"]]

    def test_a_whole_group_stops_it_at_the_next_batch(self, measurer, heard, jobs):
        heard.at = {2: "a", 3: "bc"}
        measurer.measure(jobs[:3], [], heard, 3)
        assert sorted(heard.stops) == ["a", "b", "c"]
        assert heard.steps == 3


class TestOutOfMemory:
    @pytest.fixture
    def holds(self, monkeypatch):
        """Lets at most so many networks into one pass."""

        def limit(most: int) -> None:
            real = together.measure_together

            def measure_together(networks, *args, **kwargs):
                if len(networks) > most:
                    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
                return real(networks, *args, **kwargs)

            monkeypatch.setattr(together, "measure_together", measure_together)

        return limit

    def test_halves_the_group_says_so_and_remembers_it(self, measurer, heard, jobs, holds):
        holds(2)
        measurer.measure(jobs[:4], [], heard, 4)
        assert heard.groups == [["a", "b", "c", "d"], ["a", "b"], ["c", "d"]]
        assert heard.notes == ["out of memory: measured in groups of 2 instead of 4"]
        assert_same(heard.reports["c"], alone(jobs[2]))
        measurer.measure(jobs[4:], [], heard, 4)
        assert heard.groups[3:] == [["e", "f"]]
        assert len(heard.reports) == 6

    def test_in_every_group_ends_with_one_by_one(self, measurer, heard, jobs, holds):
        holds(1)
        measurer.measure(jobs, [], heard, 6)
        assert len(heard.reports) == 6
        assert heard.reports["a"].to_dict() == alone(jobs[0]).to_dict()

    def test_while_the_samples_are_placed_fails_in_words(self, measurer, heard, jobs, monkeypatch):
        def full(plan, device):
            raise torch.OutOfMemoryError("CUDA out of memory.")

        monkeypatch.setattr(together, "evaluation", full)
        monkeypatch.setattr("fa_core.engine.measuring.evaluation", full)
        measurer.measure(jobs[:1], [], heard, 4)
        assert "do not fit on cpu" in str(heard.errors["a"])

    def test_on_a_device_that_others_have_filled_is_told_as_that(self, measurer, jobs, monkeypatch):
        full = DeviceFull("out of memory")
        monkeypatch.setattr(together, "does_not_fit", lambda where, device: full)
        in_vain = MeasureError("out of memory, even with one sample at a time")
        in_vain.__cause__ = torch.OutOfMemoryError("CUDA out of memory.")
        assert measurer._in_words(jobs[0], in_vain) is full
        monkeypatch.setattr(together, "does_not_fit", lambda where, device: MeasureError("does not fit"))
        assert measurer._in_words(jobs[0], in_vain) is in_vain


def test_an_error_nobody_expected_has_the_group_measured_one_by_one(measurer, heard, jobs, monkeypatch, capsys):
    monkeypatch.setattr(together, "measure_together", lambda *args, **kwargs: 1 / 0)
    measurer.measure(jobs, [], heard, 6)
    assert len(heard.reports) == 6
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_a_lost_device_ends_the_worker_so_that_the_culprit_is_found_one_by_one(measurer, heard, jobs, monkeypatch):
    def lost(*args, **kwargs):
        raise RuntimeError("CUDA error: device-side assert triggered")

    monkeypatch.setattr(together, "measure_together", lost)
    with pytest.raises(RuntimeError, match="CUDA error"):
        measurer.measure(jobs, [], heard, 6)
    assert heard.outcomes == []


class TestReadingAhead:
    @pytest.fixture
    def reads(self, monkeypatch):
        """Ids in the order they are read, and the threads that read them."""
        found: list[tuple[str, str]] = []
        real = loading.read

        def read(job, device):
            found.append((job.id, threading.current_thread().name))
            return real(job, device)

        monkeypatch.setattr(loading, "read", read)
        return found

    def test_goes_one_group_ahead_also_into_what_probably_comes_next(self, measurer, heard, jobs, reads, monkeypatch):
        asked: list[list[str]] = []
        real = together.measure_together

        def measure_together(networks, *args, **kwargs):
            asked.append(sorted(measurer._loader._asked))
            return real(networks, *args, **kwargs)

        monkeypatch.setattr(together, "measure_together", measure_together)
        measurer.measure(jobs[:4], jobs[4:], heard, 2)
        assert asked == [["c", "d"], ["e", "f"]]
        measurer.measure(jobs[4:], [], heard, 2)
        assert [job_id for job_id, _ in reads] == list("abcdef")
        assert len(heard.reports) == 6

    def test_that_was_in_vain_is_forgotten(self, measurer, heard, jobs):
        measurer.measure(jobs[:2], jobs[2:4], heard, 2)
        measurer.measure(jobs[4:], [], heard, 2)
        assert sorted(heard.reports) == list("abef")
        assert measurer._loader._asked == {}

    def test_is_of_no_use_for_a_job_that_changed_its_settings(self, measurer, heard, jobs):
        changed = replace(jobs[2], options=replace(jobs[2].options, batches=9))
        measurer.measure(jobs[:2], [jobs[2]], heard, 2)
        measurer.measure([changed], [], heard, 2)
        assert heard.reports["c"].n_batches == 9

    def test_on_cuda_goes_up_to_the_device(self, jobs, monkeypatch):
        moved: list[str] = []
        monkeypatch.setattr(loading, "_move", lambda network, stream: moved.append(threading.current_thread().name))
        loader = Loader("cpu")
        monkeypatch.setattr(loader, "_stream", object())
        loader.ask([jobs[0]])
        assert loader.get(jobs[0]).network is not None
        loader.close()
        assert [name.startswith("loader") for name in moved] == [True]

    def test_leaves_the_number_of_threads_that_measure(self, jobs):
        torch.set_num_threads(2)
        try:
            loader = Loader("cpu")
            loader.get(jobs[0])
            assert torch.get_num_threads() == 2
            loader.close()
        finally:
            torch.set_num_threads(1)

    def test_runs_no_code_of_the_persons(self, jobs, monkeypatch):
        threads: list[str] = []

        def build():
            threads.append(threading.current_thread().name)
            return small_net(0)

        monkeypatch.setitem(sys.modules, "their_nets", ModuleType("their_nets"))
        monkeypatch.setattr("their_nets.build", build, raising=False)
        loader = Loader("cpu")
        job = replace(jobs[0], options=replace(jobs[0].options, model="their_nets:build"))
        loader.ask([job])
        loader.get(job)
        loader.close()
        assert threads == [threading.current_thread().name]


class TestRoom:
    def test_a_checkpoint_larger_than_memory_is_refused_before_it_is_read(self, jobs, monkeypatch):
        monkeypatch.setattr(room, "free_memory", lambda device: 100)
        monkeypatch.setattr(loading, "load_checkpoint", lambda path: pytest.fail("it was read"))
        monkeypatch.setattr(loading.provenance, "input_hashes", lambda path: pytest.fail("it was hashed"))
        with pytest.raises(MeasureError, match=r"model\.safetensors: is larger than memory: .* GB are free on cpu"):
            loading.load(jobs[0], "cpu")

    def test_one_that_fits_into_ram_may_be_too_large_for_the_device(self, tmp_path, monkeypatch):
        monkeypatch.setattr(room, "free_memory", {"cpu": 1000, "cuda:1": 10}.get)
        path = tmp_path / "net.pt"
        path.write_bytes(b"x" * 50)
        check_room(path, "cpu")
        with pytest.raises(MeasureError, match="free on cuda:1"):
            check_room(path, "cuda:1")

    def test_a_group_is_what_fits_with_something_to_spare(self, monkeypatch):
        monkeypatch.setattr(room, "free_memory", lambda device: 1000)
        assert group_size(100, "cuda:0") == 7
        assert group_size(5000, "cuda:0") == 1

    def test_memory_of_this_machine_is_known(self):
        assert 1 << 20 < (room.free_memory("cpu") or 0) < 1 << 50

    @pytest.mark.parametrize(("free", "kind"), [(10, DeviceFull), (70, MeasureError)])
    def test_a_device_that_others_have_filled_is_told_from_a_network_that_is_too_large(self, monkeypatch, free, kind):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free << 30, 80 << 30))
        monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 5 << 30)
        error = room.does_not_fit("/runs/dfa", "cuda:0")
        assert type(error) is kind
        assert "other processes hold" in str(error)


@pytest.mark.parametrize("wide", [torch.float16, torch.float64])
def test_a_checkpoint_of_mixed_dtypes_is_measured_in_float32_and_says_what_it_holds(jobs, tmp_path, wide):
    state = small_net(3).state_dict()
    first = next(iter(state))
    path = tmp_path / "mixed.safetensors"
    save_file({**state, first: state[first].to(wide)}, path)
    report = alone(replace(jobs[0], checkpoint=str(path), method="bp"))
    assert report.dtype == "float32"
    assert report.provenance["weights_dtype"] == "+".join(sorted(["float32", str(wide).removeprefix("torch.")]))


def test_data_that_nobody_knows_fail_each_job_in_words(measurer, heard, jobs):
    jobs = [replace(job, options=replace(job.options, data="nothing:1")) for job in jobs[:2]]
    measurer.measure(jobs, [], heard, 2)
    assert set(heard.errors) == {"a", "b"}
    assert all(isinstance(error, UsageError) for error in heard.errors.values())
