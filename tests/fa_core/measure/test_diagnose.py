import copy
import math

import pytest
import torch
from torch import nn

from fa_core import DiagnosticThresholds, diagnose
from fa_core.errors import UsageError
from fa_core.report.beside import deepest_gain
from tests.fa_core.measure import four_passes
from tests.fa_core.measure.nets import OUTSIDE, Residual, batches


def close(expected, rel=1e-5):
    # the default abs would pass a 1e-30 that reads 0
    return pytest.approx(expected, rel=rel, abs=0)


def medians(rows):
    return float(rows.detach().double().norm(dim=1).median())


@pytest.mark.parametrize("kind", ["linear", "gelu"])
@pytest.mark.parametrize("out_ln", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_fused_pass_equals_four_separate_passes(kind, out_ln, dtype):
    net = Residual(kind=kind, out_ln=out_ln).to(dtype)
    data = [(x.to(dtype), y) for x, y in batches()]
    exact = copy.deepcopy(net).double()
    data64 = [(x.double(), y) for x, y in data]
    report = diagnose(net, data)
    rel = 1e-5 if dtype == torch.float32 else 1e-11
    assert report.residual_norms == close(four_passes.residual_norms(exact, data64[0][0]), rel)
    assert report.bp_grad_norms == close(four_passes.bp_grad_norms(exact, *data64[0]), rel)
    assert report.cross_batch_stability == pytest.approx(
        four_passes.stability(exact, data64, 1), abs=10 * rel
    )
    assert report.headline_acc == four_passes.accuracy(exact, data64)
    assert report.stability_layer == 1
    assert report.headline_acc_source == "measured on 160 eval samples"


def test_batchnorm_runs_on_its_running_statistics():
    norm = nn.BatchNorm1d(5, affine=False)
    net = nn.Sequential(norm, nn.Linear(5, 4)).train()
    norm.running_mean.fill_(0.5)
    norm.running_var.fill_(4.0)
    x, y = batches(1)[0]
    report = diagnose(net, [(x, y)], taps="0")
    assert report.residual_norms == close([medians((x - 0.5) / math.sqrt(4.0 + norm.eps))])


def test_tied_weights_are_a_tap_at_every_call():
    block = nn.Linear(5, 5, bias=False)
    net = nn.Sequential(block, block, nn.Linear(5, 4, bias=False)).double()
    x, y = batches(1)[0]
    x = x.double()
    report = diagnose(net, [(x, y)], taps="0")
    W, V = block.weight, net[2].weight
    h = [x @ W.T, x @ W.T @ W.T]
    g_L = (torch.softmax(h[1] @ V.T, 1) - nn.functional.one_hot(y, 4)) @ V / len(y)
    assert report.residual_norms == close(list(map(medians, h)), 1e-12)
    assert report.bp_grad_norms == close([medians(g_L @ W), medians(g_L)], 1e-12)
    assert report.tap_names == ["0", "0 (call 2)"]


def test_a_gradient_of_1e_30_does_not_read_zero_and_a_stream_of_1e30_not_inf():
    net = Residual()
    with torch.no_grad():
        net.head.weight.mul_(1e-30)
    report = diagnose(net, batches(10))
    assert 0 < report.g_L < 1e-30
    reference = copy.deepcopy(net).double()
    x, y = batches(1)[0]
    assert report.bp_grad_norms == close(four_passes.bp_grad_norms(reference, x.double(), y))
    assert abs(report.cross_batch_stability) <= 1
    with torch.no_grad():
        net.embed.weight.mul_(1e30)
    assert all(1e28 < h < 1e34 for h in diagnose(net, batches(1)).residual_norms)


def test_a_smaller_last_batch_does_not_shift_the_gradient_norms():
    net = Residual(kind="gelu").double()
    data = [(x.double(), y) for x, y in batches(2)]
    whole = diagnose(net, data, norm_batches=2)
    parts = zip(data[1][0].split(4), data[1][1].split(4), strict=True)
    report = diagnose(net, [data[0], *parts], norm_batches=5)
    assert report.bp_grad_norms == close(whole.bp_grad_norms, 1e-12)
    assert len(report.batch_sizes) == report.n_batches and report.batch_sizes[1] == 4
    assert len(whole.batch_sizes) == 1


def test_drift_is_unmeasured_below_eight_batches_or_where_a_mean_gradient_is_zero():
    net = Residual()
    report = diagnose(net, batches(7))
    assert report.cross_batch_stability is None
    assert report.unmeasured["c"] == "only 7 eval batches, drift needs at least 8"
    assert report.coverage == "ab" and diagnose(net, batches(8)).coverage == "abc"
    nn.init.zeros_(net.head.weight)
    report = diagnose(net, batches(8))
    assert (report.coverage, report.g_L, report.flags) == ("ab", 0.0, {"b"})
    assert "mean gradient of eval batch 0 is zero" in report.unmeasured["c"]


def test_a_nan_in_a_late_batch_is_never_trustworthy():
    data = batches(5)
    data[4][0][0, 0] = math.nan
    report = diagnose(Residual(), data)
    assert report.flags == {"c"}


@pytest.mark.parametrize("half", [torch.float16, torch.bfloat16])
def test_half_precision_is_measured_in_float32_on_a_copy(half):
    net = Residual(kind="gelu").to(half)
    widened = copy.deepcopy(net).float()
    report = diagnose(net, batches(8))
    assert report.dtype == "float32"
    assert report.to_dict() == diagnose(widened, batches(8)).to_dict()
    assert all(p.dtype == half for p in net.parameters())


def test_as_is_shows_that_float16_flushes_what_float32_keeps():
    net = Residual().half()
    with torch.no_grad():
        net.head.weight.fill_(1e-7)
        net.head.weight[0] = 2e-7
    assert diagnose(net, batches(1), dtype="as-is").g_L == 0.0
    assert diagnose(net, batches(1)).g_L > 0.0


def test_what_the_caller_knows_goes_into_the_report():
    thresholds = DiagnosticThresholds(h_norm_explosion_ratio=1.0001)
    report = diagnose(
        Residual(),
        batches(1),
        headline_acc=0.5,
        frozen_baseline_acc=0.4,
        method_name="DFA",
        notes="n",
        thresholds=thresholds,
    )
    assert (report.method_name, report.notes) == ("DFA", f"n; {OUTSIDE}")
    assert (report.headline_acc, report.headline_acc_source) == (0.5, "given")
    assert report.margin_pp == 10.0
    assert report.thresholds == thresholds
    assert report.coverage == "abd"


def test_the_stability_layer_can_be_chosen():
    net = Residual(kind="gelu").double()
    data = [(x.double(), y) for x, y in batches(8)]
    report = diagnose(net, data, stability_layer=3)
    assert report.stability_layer == 3
    assert report.cross_batch_stability == pytest.approx(
        four_passes.stability(net, data, 3), abs=1e-11
    )
    with pytest.raises(UsageError, match=r"layers 0\.\.3"):
        diagnose(net, data, stability_layer=4)


def test_it_measures_under_no_grad_inference_mode_and_autocast():
    net = Residual(kind="gelu")
    expected = diagnose(net, batches(8)).to_dict()
    autocast = torch.autocast("cpu", dtype=torch.bfloat16)
    for mode in (torch.no_grad(), torch.inference_mode(), autocast):
        with mode:
            assert diagnose(net, batches(8)).to_dict() == expected


@pytest.mark.parametrize(
    ("accs", "norm_batches"), [((31.0, None), 1), ((None, -0.1), 1), ((None, None), 0)]
)
def test_arguments_that_cannot_be_meant_are_refused(accs, norm_batches):
    with pytest.raises(UsageError):
        diagnose(Residual(), batches(1), *accs, norm_batches=norm_batches)


def test_gain_is_free_of_batch_size_and_loss():
    # with equal samples every median is the sample's own value: γ_L = ‖e·W‖/‖e‖ whatever B is
    net, [(x, y)] = Residual().double(), batches(1, size=1)
    e = torch.softmax(net(x.double()), 1) - nn.functional.one_hot(y, 4)
    exact = float((e @ net.head.weight).norm() / e.norm())
    for n in (1, 4, 32):
        gain = deepest_gain(diagnose(net, [(x.repeat(n, 1), y.repeat(n))]))
        assert gain == pytest.approx(exact, rel=1e-12)
