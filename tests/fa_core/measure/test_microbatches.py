import pytest
import torch

from fa_core.errors import UsageError
from fa_core.measure.diagnose import diagnose
from fa_core.models import build


@pytest.fixture
def batches():
    generator = torch.Generator().manual_seed(0)
    return [
        (torch.randn(24, 8, generator=generator), torch.randint(0, 3, (24,), generator=generator))
        for _ in range(8)
    ]


@pytest.mark.parametrize("largest", [1, 7, 100])
def test_measuring_in_parts_changes_no_number(batches, largest):
    net = build("resmlp", input_dim=8, d=16, L=3, num_classes=3, seed=1)
    whole, parts = diagnose(net, batches), diagnose(net, batches, largest_pass=largest)
    assert parts.residual_norms == pytest.approx(whole.residual_norms, rel=1e-6)
    assert parts.bp_grad_norms == pytest.approx(whole.bp_grad_norms, rel=1e-5)
    assert parts.cross_batch_stability == pytest.approx(whole.cross_batch_stability, abs=1e-6)
    assert parts.error_norm == pytest.approx(whole.error_norm, rel=1e-6)
    assert (parts.headline_acc, parts.batch_size, parts.n_batches) == (whole.headline_acc, 24, 8)


def test_no_pass_is_larger_than_asked_for(batches):
    net = build("resmlp", input_dim=8, d=16, L=2, num_classes=3, seed=1)
    seen = []
    net.register_forward_pre_hook(lambda module, inputs: seen.append(len(inputs[0])))
    diagnose(net, batches, largest_pass=10)
    assert set(seen) == {10, 4}


def test_a_pass_of_no_samples_is_refused(batches):
    net = build("resmlp", input_dim=8, d=16, L=2, num_classes=3, seed=1)
    with pytest.raises(UsageError, match="largest_pass is 0"):
        diagnose(net, batches, largest_pass=0)
