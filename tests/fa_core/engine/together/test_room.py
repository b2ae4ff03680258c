from __future__ import annotations

import pytest
import torch

from fa_core.engine import group_runner, loading, out_of_memory
from fa_core.engine.jobs import DeviceFull
from fa_core.engine.out_of_memory import check_fits, group_size
from fa_core.errors import MeasureError

from .hearing import alone, assert_same


class TestOutOfMemory:
    @pytest.fixture
    def holds(self, monkeypatch):
        """Lets at most so many networks into one pass."""

        def limit(most: int) -> None:
            real = group_runner.measure_together

            def measure_together(networks, *args, **kwargs):
                if len(networks) > most:
                    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
                return real(networks, *args, **kwargs)

            monkeypatch.setattr(group_runner, "measure_together", measure_together)

        return limit

    def test_halves_the_group_says_so_and_remembers_it(self, measurer, heard, jobs, holds):
        holds(2)
        measurer.measure(jobs[:4], heard, 4)
        assert heard.groups == [["a", "b", "c", "d"], ["a", "b"], ["c", "d"]]
        assert heard.notes == ["out of memory: measured in groups of 2 instead of 4"]
        assert_same(heard.reports["c"], alone(jobs[2]))
        measurer.measure(jobs[4:], heard, 4)
        assert heard.groups[3:] == [["e", "f"]]
        assert len(heard.reports) == 6

    def test_in_every_group_ends_with_one_by_one(self, measurer, heard, jobs, holds):
        holds(1)
        measurer.measure(jobs, heard, 6)
        assert len(heard.reports) == 6
        assert heard.reports["a"].to_dict() == alone(jobs[0]).to_dict()

    def test_while_the_samples_are_placed_fails_in_words(self, measurer, heard, jobs, monkeypatch):
        def full(plan, device):
            raise torch.OutOfMemoryError("CUDA out of memory.")

        monkeypatch.setattr(group_runner, "evaluation", full)
        monkeypatch.setattr("fa_core.engine.group_runner.evaluation", full)
        measurer.measure(jobs[:1], heard, 4)
        assert "do not fit on cpu" in str(heard.errors["a"])

    def test_on_a_device_that_others_have_filled_is_told_as_that(self, measurer, jobs, monkeypatch):
        full = DeviceFull("out of memory")
        monkeypatch.setattr(group_runner, "does_not_fit", lambda where, device: full)
        in_vain = MeasureError("out of memory, even with one sample at a time")
        in_vain.__cause__ = torch.OutOfMemoryError("CUDA out of memory.")
        assert measurer._explained(jobs[0], in_vain) is full
        monkeypatch.setattr(
            group_runner, "does_not_fit", lambda where, device: MeasureError("does not fit")
        )
        assert measurer._explained(jobs[0], in_vain) is in_vain


class TestRoom:
    def test_a_checkpoint_larger_than_memory_is_refused_before_it_is_read(self, jobs, monkeypatch):
        monkeypatch.setattr(out_of_memory, "free_memory", lambda device: 100)
        monkeypatch.setattr(loading, "load_checkpoint", lambda path: pytest.fail("it was read"))
        monkeypatch.setattr(loading, "input_hashes", lambda path: pytest.fail("it was hashed"))
        with pytest.raises(
            MeasureError, match=r"model\.safetensors: is larger than memory: .* GB are free on cpu"
        ):
            loading.load(jobs[0], "cpu")

    def test_one_that_fits_into_ram_may_be_too_large_for_the_device(self, tmp_path, monkeypatch):
        monkeypatch.setattr(out_of_memory, "free_memory", {"cpu": 1000, "cuda:1": 10}.get)
        path = tmp_path / "net.pt"
        path.write_bytes(b"x" * 50)
        check_fits(path, "cpu")
        with pytest.raises(MeasureError, match="free on cuda:1"):
            check_fits(path, "cuda:1")

    def test_a_group_is_what_fits_with_something_to_spare(self, monkeypatch):
        monkeypatch.setattr(out_of_memory, "free_memory", lambda device: 1000)
        assert group_size(100, "cuda:0") == 7
        assert group_size(5000, "cuda:0") == 1

    def test_memory_of_this_machine_is_known(self):
        assert 1 << 20 < (out_of_memory.free_memory("cpu") or 0) < 1 << 50

    @pytest.mark.parametrize(("free", "kind"), [(10, DeviceFull), (70, MeasureError)])
    def test_a_device_that_others_have_filled_is_told_from_a_network_that_is_too_large(
        self, monkeypatch, free, kind
    ):
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free << 30, 80 << 30))
        monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 5 << 30)
        error = out_of_memory.does_not_fit("/runs/dfa", "cuda:0")
        assert type(error) is kind
        assert "other processes hold" in str(error)
