"""Γ, ρ, nudge and the null of Γ: against slow loops and closed forms."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fa_core.errors import MeasureError, UsageError
from fa_core.measure.credit import credit_quality, null_gamma
from fa_core.measure.credit_metrics import NullGamma, ce_change, rho
from fa_core.measure.passes import PassOptions
from fa_core.zoo.methods import make_method
from fa_core.zoo.models import build
from tests.fa_core.measure.nets import Hookable, Residual, batches, encoder

BATCH = batches(1)[0]


class Tailed(Residual):
    def tail(self, l, h):
        for block in self.blocks[l:]:
            h = block(h)
        return self.readout(h)


def gradients(net, x, y):
    logits, hidden = net(x, return_hidden=True)
    return list(torch.autograd.grad(F.cross_entropy(logits, y, reduction="sum"), hidden))


def random_credit():
    return [torch.randn(16, 6) for _ in range(4)]


def healthy():
    return Tailed(width=32, kind="gelu", out_ln=True)


def collapsed():
    net = healthy()
    with torch.no_grad():
        net.blocks[0].f[3].weight.mul_(7e5)
        net.blocks[0].f[3].bias.mul_(7e5)
    return net


@pytest.mark.parametrize("make", [healthy, collapsed])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_gradient_itself_is_perfect_credit_and_its_opposite_raises_the_loss(make, sign):
    net = make().double()
    x, y = batches(1, size=32)[0]
    found = credit_quality(net, [sign * g for g in gradients(net, x.double(), y)], (x, y))
    assert found["gamma"] == pytest.approx([sign] * 4, abs=1e-12)
    assert found["rho"] == pytest.approx([sign] * 4, abs=5e-3)
    assert [math.copysign(1, change) for change in found["nudge"]] == [-sign] * 4
    assert found["deep_gamma"] == found["gamma_L"] == pytest.approx(sign)


def test_every_number_equals_the_slow_way():
    """One direction, one sample at a time, by subtracting two cross entropies."""
    net = Tailed(kind="gelu", out_ln=True).double()
    x, y = batches(1, size=5)[0]
    x = x.double()
    credit = [torch.randn(5, 6, dtype=torch.float64) for _ in range(4)]
    found = credit_quality(net, credit, (x, y), directions=7)
    hidden = net(x, return_hidden=True)[1]
    draws = torch.Generator().manual_seed(0)

    @torch.no_grad()
    def ce(l, i, state):
        return float(F.cross_entropy(net.tail(l, state[None]), y[i : i + 1]))

    for l, (a, h, g) in enumerate(zip(credit, hidden, gradients(net, x, y), strict=True)):
        v = torch.randn(7, 5, 6, generator=draws, dtype=torch.float64)
        means = torch.zeros(3, dtype=torch.float64)
        for i in range(5):
            steps = [1e-3 * v[m, i] / v[m, i].norm() for m in range(7)]
            pairs = [[float(a[i] @ s), ce(l, i, h[i] + s) - ce(l, i, h[i])] for s in steps]
            means[0] += a[i] @ g[i] / a[i].norm() / g[i].norm() / 5
            means[1] += torch.corrcoef(torch.tensor(pairs).double().T)[0, 1] / 5
            means[2] += (ce(l, i, h[i] - 0.01 * a[i] / a[i].norm()) - ce(l, i, h[i])) / 5
        assert found["gamma"][l] == pytest.approx(float(means[0]), abs=1e-12)
        assert found["rho"][l] == pytest.approx(float(means[1]), abs=1e-7)
        assert found["nudge"][l] == pytest.approx(float(means[2]), abs=1e-10)


def test_directions_run_in_parts_where_memory_is_short_with_the_same_numbers(
    monkeypatch,
):
    net = Tailed(kind="gelu")
    credit = random_credit()
    calls = []
    net.head.register_forward_hook(lambda module, args, output: calls.append(len(output)))
    whole = credit_quality(net, credit, BATCH)
    # the pass, three trials, and the directions
    assert calls == [16] * 4 + [*([32 * 16, 16] * 4)]
    monkeypatch.setattr("fa_core.measure.credit.LARGEST", 1)
    parts = credit_quality(net, credit, BATCH)
    assert parts["rho"] == pytest.approx(whole["rho"], abs=1e-6)
    assert parts["nudge"] == whole["nudge"]


def test_module_taps_run_the_tail_by_replacing_an_output():
    net = Tailed(kind="gelu", out_ln=True)
    credit = random_credit()
    own = credit_quality(net, credit, BATCH)
    hooked = credit_quality(Hookable(net), credit, BATCH, PassOptions("embed, blocks.*"))
    for name in ("gamma", "rho", "nudge"):
        assert hooked[name] == pytest.approx(own[name])


def test_without_a_tail_rho_and_nudge_are_missing_with_the_reason():
    net = Residual()
    found = credit_quality(net, random_credit(), BATCH)
    assert all(value is not None for value in found["gamma"])
    assert found["rho"] == found["nudge"] == [None] * 4
    assert "tail" in found["missing"]["rho, nudge"]


def test_missing_zero_and_non_finite_credit_is_undefined_or_nan_and_not_a_number():
    broken, ones = torch.full((16, 6), math.nan), torch.ones(16, 6)
    found = credit_quality(Tailed(), [None, torch.zeros(16, 6), ones, broken], BATCH)
    for series in (found["gamma"], found["rho"], found["nudge"]):
        assert [value is None for value in series] == [True, True, False, False]
        assert math.isfinite(series[2]) and math.isnan(series[3])
    found = credit_quality(Tailed(), [None] * 4, BATCH)
    assert found["deep_gamma"] is None
    assert found["missing"] == {"gamma, rho, nudge": "the method gives no credit signal"}


def test_a_token_stream_is_moved_at_its_cls_token():
    net = encoder(nn.Linear(8, 4)).double()
    x, y = torch.randint(11, (8, 3)), torch.randint(4, (8,))
    found = credit_quality(net, gradients(net, x, y), (x, y), PassOptions("embed, blocks.*"))
    assert found["gamma"] == pytest.approx([1.0] * 3)
    assert found["rho"] == pytest.approx([1.0] * 3, abs=1e-2)


def test_credit_of_another_shape_is_refused():
    for credit in ([torch.ones(16, 6)] * 3, [torch.ones(16, 5)] * 4, [torch.ones(6)] * 4):
        with pytest.raises(MeasureError):
            credit_quality(Tailed(), credit, BATCH)


def test_ce_change_equals_the_difference_at_every_size():
    z, y = torch.randn(4, 5, dtype=torch.float64), torch.randint(5, (4,))
    for scale in (1e-6, 0.1, 10.0, 1000.0):
        d = scale * torch.randn(3, 4, 5, dtype=torch.float64)
        slow = [F.cross_entropy(z + step, y, reduction="none") for step in d]
        expected = torch.stack(slow) - F.cross_entropy(z, y, reduction="none")
        assert torch.allclose(ce_change(z, z + d, y), expected, rtol=1e-8, atol=1e-14)


def test_rho_survives_every_scale_and_is_undefined_without_a_variance():
    x = torch.tensor([[1.0], [2.0], [4.0]], dtype=torch.float64)
    for scale in (1e-250, 1.0, 1e250):
        assert round(rho(x * scale, -x), 12) == -1.0
    assert rho(torch.full((3, 1), 0.1), torch.arange(3.0)[:, None]) is None


def test_a_null_with_a_nan_has_no_spread_and_no_rank():
    null = NullGamma([0.1, math.nan], observed=0.5)
    assert math.isnan(null.std) and null.rank is None
    assert NullGamma([0.1, 0.2], observed=math.nan).rank is None


def test_a_rule_that_draws_nothing_has_no_null():
    net = build("resmlp", input_dim=5, d=6, L=2, num_classes=4, seed=0)
    with pytest.raises(UsageError, match="draws no feedback"):
        null_gamma(net, make_method("bp", net), BATCH)
