"""The two learned methods: what their nets minimise, and what they may not touch."""

import pytest
import torch
from torch.nn import functional as F

from fa_core.zoo.methods import make_method
from fa_core.zoo.methods.bridge import CreditBridge, soft_values
from tests.fa_core.zoo.methods.credits import batch, credit_of, same, weights_now
from tests.fa_core.zoo.methods.lq_toy import costate_cosine


@pytest.mark.parametrize("name", ["state_bridge", "credit_bridge"])
def test_the_bridge_learns_on_a_fixed_stream_and_the_network_stays(name, net):
    method = make_method(name, net)
    _, info = method.loss(net, *batch(net, 32))
    before = weights_now(net)
    losses = [method.extra_step(net, info) for _ in range(60)]
    assert losses[-1] < 0.7 * losses[0]
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    assert all(p.grad is None for p in net.parameters())


def test_state_bridge_credit_is_the_gradient_through_the_prediction(net):
    net = net.double()
    x, y = batch(net, 4)
    method = make_method("state_bridge", net).double()
    logits, stream = net(x, return_hidden=True)
    s = (logits.softmax(1) - F.one_hot(y, 10)).detach()
    layers, expected = method.bridge, []
    for l, h in enumerate(stream):
        leaf = h.detach().requires_grad_()
        t = torch.full((4, 1), l / net.n_blocks, dtype=torch.float64)
        u = F.gelu(layers.inputs["16"](torch.cat([leaf, t, s], 1)))
        predicted = layers.output(F.gelu(layers.hidden(u)))
        ce = F.cross_entropy(net.head(net.out_ln(predicted)), y, reduction="sum")
        expected += torch.autograd.grad(ce, leaf)
    same(credit_of(method, net, x, y), expected)


def test_soft_values_equal_the_formula_drawn_by_hand():
    h = [torch.zeros(2, 3, dtype=torch.float64), torch.ones(2, 3, dtype=torch.float64)]
    s = torch.tensor([[1.0], [2.0]], dtype=torch.float64)

    def value(l, state, error):
        return l * (state.square().sum(1, keepdim=True) * error)

    (soft,) = soft_values(value, h, s, 0.1, 0.5, 4, torch.Generator().manual_seed(3))
    xi = torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    noisy = (h[1] + 0.1 * xi).square().sum(2) * s.T
    assert torch.allclose(soft, -0.5 * torch.exp(-noisy / 0.5).mean(0).log())


@pytest.mark.parametrize(("variant", "weight"), [("published", 1.0), ("stable", 10.0)])
def test_credit_bridge_minimises_value_gradient_and_bridge_errors(
    variant, weight, net, monkeypatch
):
    monkeypatch.setattr(CreditBridge, "SIGMA", 0.0)
    net = net.double()
    x, y = batch(net)
    method = make_method("credit_bridge", net, variant=variant).double()
    _, info = method.loss(net, x, y)
    s = (info.logits.softmax(1) - F.one_hot(y, 10)).detach()
    value = method.bridge
    h_L = info.stream[-1].clone().requires_grad_()
    terminal = value(3, h_L, s)[:, 0]
    (gradient,) = torch.autograd.grad(terminal.sum(), h_L)
    ce = F.cross_entropy(net(x), y, reduction="none")
    g_L = credit_of(make_method("bp", net), net, x, y)[-1]
    same([info.targets["ce"], info.targets["g_L"]], [ce, g_L])
    matching = (gradient - g_L).norm(dim=1).square().mean() / g_L.norm(dim=1).square().mean()
    steps = [value(l, info.stream[l], s) - value(l + 1, info.stream[l + 1], s) for l in range(3)]
    bridged = torch.stack(steps).square().mean()
    expected = (terminal - ce).square().mean() + weight * matching + bridged
    assert torch.allclose(method.bridge_loss(info, s), expected)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "least"), [("state_bridge", 0.9), ("credit_bridge", 0.8)])
def test_the_bridges_recover_the_costate_of_the_linear_quadratic_toy(method, least):
    assert costate_cosine(method) > least
