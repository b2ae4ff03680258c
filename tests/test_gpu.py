"""A GPU changes the time and nothing else."""

import copy
import subprocess
import sys

import pytest
import torch

from fa_core import diagnose, load_audits
from fa_core.errors import FaError
from tests.fa_core.measure.nets import Residual, batches
from tests.field import reference
from tests.field.test_field import TABLE, named

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def fa_tui(*words):
    return subprocess.run(
        [sys.executable, "-m", "fa_tui", *map(str, words)], capture_output=True, text=True
    )


def said(network, data, options):
    """A report's numbers, or the refusal."""
    try:
        report = diagnose(network, data, **options)
    except FaError as error:
        return str(error), []
    numbers = [*report.residual_norms, *report.bp_grad_norms, report.cross_batch_stability]
    return report.verdict, [*numbers, *((report.credit or {}).get("gamma") or [])]


def test_the_networks_of_the_field_have_the_same_reports():
    different = []
    for row in TABLE:
        kind, options, *_ = row
        torch.manual_seed(0)
        network = kind().double().eval()
        data = reference.batches(network.x)
        words, numbers = said(copy.deepcopy(network).cuda(), data, options)
        if "move the network to one device" in words or "cudnn.enabled" in words:
            continue  # it holds tensors of its own on the CPU, or cuDNN has no gradient of it
        expected, wanted = said(network, data, options)
        if words != expected or numbers != pytest.approx(wanted, rel=1e-9, abs=1e-12):
            different.append((named(row), words, expected, numbers, wanted))
    assert not different


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_a_network_of_any_precision_is_near_itself_in_float64(dtype):
    network = Residual(kind="gelu").to(dtype)
    exact = diagnose(copy.deepcopy(network).double(), batches())
    found = diagnose(network.cuda(), batches(), dtype="as-is")
    assert found.residual_norms == pytest.approx(exact.residual_norms, rel=2e-2)
    assert found.bp_grad_norms == pytest.approx(exact.bp_grad_norms, rel=1e-1)


def test_batches_of_the_same_samples_are_refused():
    first, *others = batches()
    with pytest.raises(FaError, match="eval batches 0 and 10 hold the same samples"):
        diagnose(Residual().cuda(), iter([first, *others, first]))


def test_recorded_runs_agree(sample_runs):
    for run in ("dfa_s42", "bp_s42"):
        done = fa_tui("verify", sample_runs / "main" / run, "--device", "cuda")
        assert "agrees: " in done.stdout and "DIFFERS" not in done.stdout, done.stdout


def test_two_workers_on_one_gpu_measure_what_one_does(sample_runs, tmp_path):
    runs = [sample_runs / "main" / f"dfa_s{seed}" for seed in (42, 123, 456)]
    found = []
    for jobs in (1, 2):
        out = tmp_path / f"{jobs}.json"
        done = fa_tui("audit", *runs, "--device", "cuda", "--jobs", jobs, "--out", out)
        assert out.exists(), done.stdout + done.stderr
        found.append(load_audits(out).growth.tolist())
    assert found[0] == found[1] and len(found[0]) == 3
