import pytest

from fa_core.errors import UsageError
from fa_core.measure.diagnose import diagnose
from tests.fa_core.measure.nets import Residual, batches


@pytest.mark.parametrize("largest", [1, 7, 100])
def test_measuring_in_parts_changes_no_number(largest):
    net, data = Residual(kind="gelu", out_ln=True), batches(8, size=24)
    whole, parts = diagnose(net, data), diagnose(net, data, largest_pass=largest)
    for name in ("residual_norms", "bp_grad_norms", "error_norm"):
        assert getattr(parts, name) == pytest.approx(getattr(whole, name), rel=1e-5)
    assert parts.cross_batch_stability == pytest.approx(whole.cross_batch_stability, abs=1e-6)
    assert (parts.headline_acc, parts.batch_size, parts.n_batches) == (whole.headline_acc, 24, 8)


def test_no_pass_is_larger_than_asked_for_and_one_of_no_samples_is_refused():
    net, seen = Residual(), []
    net.register_forward_pre_hook(lambda module, inputs: seen.append(len(inputs[0])))
    diagnose(net, batches(8, size=24), largest_pass=10)
    assert set(seen) == {10, 4}
    with pytest.raises(UsageError, match="largest_pass is 0"):
        diagnose(net, batches(1), largest_pass=0)
