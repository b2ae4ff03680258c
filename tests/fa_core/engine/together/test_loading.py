from __future__ import annotations

import sys
import threading
from types import ModuleType

import pytest
import torch
from msgspec.structs import replace
from safetensors.torch import save_file

from fa_core.engine import group_runner, loading
from fa_core.engine.loading import Loader

from ..runs_for_tests import small_net
from .hearing import alone


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

    def test_goes_one_group_ahead(self, measurer, heard, jobs, reads, monkeypatch):
        asked: list[list[str]] = []
        real = group_runner.measure_together

        def measure_together(networks, *args, **kwargs):
            asked.append(sorted(measurer._loader._asked))
            return real(networks, *args, **kwargs)

        monkeypatch.setattr(group_runner, "measure_together", measure_together)
        measurer.measure(jobs, heard, 2)
        assert asked == [["c", "d"], ["e", "f"], []]
        assert [job_id for job_id, _ in reads] == list("abcdef")
        assert len(heard.reports) == 6

    def test_of_a_job_that_was_cancelled_is_forgotten(self, measurer, heard, jobs):
        heard.at = {3: "c"}
        measurer.measure(jobs[:3], heard, 2)
        assert (heard.stops, sorted(heard.reports)) == (["c"], ["a", "b"])
        assert measurer._loader._asked == {}

    def test_leaves_the_number_of_threads_that_measure(self, jobs):
        torch.set_num_threads(2)
        try:
            loader = Loader("cpu")
            loader.get(jobs[0])
            assert torch.get_num_threads() == 2
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
        assert threads == [threading.current_thread().name]


@pytest.mark.parametrize("wide", [torch.float16, torch.float64])
def test_a_checkpoint_of_mixed_dtypes_is_measured_in_float32_and_says_what_it_holds(
    jobs, tmp_path, wide
):
    state = small_net(3).state_dict()
    first = next(iter(state))
    path = tmp_path / "mixed.safetensors"
    save_file({**state, first: state[first].to(wide)}, path)
    report = alone(replace(jobs[0], checkpoint=str(path), method="bp"))
    assert report.dtype == "float32"
    assert report.provenance["weights_dtype"] == "+".join(
        sorted(["float32", str(wide).removeprefix("torch.")])
    )
