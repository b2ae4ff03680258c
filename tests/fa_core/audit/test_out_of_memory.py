"""What is said where memory runs out; that the batch is halved: test_measuring."""

import pytest
import torch

from fa_core.audit import loading, measuring
from fa_core.audit.jobs import DeviceFull, Job, JobProgress
from fa_core.audit.measuring import measured
from fa_core.errors import FaError, MeasureError, UnreadableInput

from .runs_for_tests import make_run

FULL = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")
IN_VAIN = MeasureError("out of memory, even with one sample at a time")
IN_VAIN.__cause__ = FULL


def raising(error):
    def fail(*_):
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "others", "said"),
    [
        (FULL, MeasureError("does not fit"), "does not fit"),
        (FULL, DeviceFull("others hold it"), "others hold it"),
        (IN_VAIN, MeasureError("does not fit"), "even with one sample"),
        (IN_VAIN, DeviceFull("others hold it"), "others hold it"),
        (UnicodeError("of another kind"), DeviceFull("others hold it"), "of another kind"),
    ],
)
def test_the_reason_that_helps_most_is_said(monkeypatch, error, others, said):
    monkeypatch.setattr(measuring, "measure_run", raising(error))
    monkeypatch.setattr(loading, "does_not_fit", lambda where, device: others)
    with pytest.raises((FaError, UnicodeError), match=said):
        measured(Job(id="1", checkpoint="/runs/dfa"), "cuda:0", JobProgress())


def test_a_checkpoint_larger_than_memory_is_refused_before_it_is_read(monkeypatch, tmp_path):
    run = make_run(tmp_path / "dfa_s1", "dfa")
    with (run / "model.safetensors").open("r+b") as file:
        file.truncate(1 << 40)
    monkeypatch.setattr(loading, "load_checkpoint", lambda path: pytest.fail("it was read"))
    monkeypatch.setattr(loading, "input_hashes", lambda path: pytest.fail("it was hashed"))
    with pytest.raises(UnreadableInput, match=r"model\.safetensors: needs 1,048,576 MiB of memory"):
        loading.load(Job(id="1", checkpoint=str(run)), "cpu")


@pytest.mark.parametrize(("free", "kind"), [(10, DeviceFull), (70, MeasureError)])
def test_a_device_that_others_have_filled_is_told_from_a_network_that_is_too_large(
    monkeypatch, free, kind
):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (free << 30, 80 << 30))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 5 << 30)
    error = loading.does_not_fit("/runs/dfa", "cuda:0")
    assert type(error) is kind
    assert "other processes hold" in str(error)
