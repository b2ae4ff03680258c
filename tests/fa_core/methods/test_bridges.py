"""The two learned methods: what their nets minimise, and what they may not touch."""

from __future__ import annotations

import copy

import pytest
import torch
from torch.nn import functional as F

from fa_core.methods import make_method
from fa_core.methods.bridge import (
    BridgeMethod,
    CreditBridge,
    prediction_loss,
    soft_values,
)
from fa_core.models import StreamNet
from tests.fa_core.methods.conftest import Batch
from tests.fa_core.methods.lq_toy import costate_cosine


def bridge(name: str, net: StreamNet, **args: object) -> BridgeMethod:
    method = make_method(name, net, seed=0, **args)
    assert isinstance(method, BridgeMethod)
    return method


@pytest.mark.parametrize("name", ["state_bridge", "credit_bridge"])
def test_the_bridge_learns_on_a_fixed_stream_and_the_network_stays(
    name: str, net: StreamNet, batch: Batch
) -> None:
    x, y = batch(net, 32)
    method = bridge(name, net)
    _, info = method.loss(net, x, y)
    before = copy.deepcopy(net.state_dict())
    losses = [method.extra_step(net, info) for _ in range(60)]
    assert losses[0] is not None and losses[-1] is not None
    assert losses[-1] < 0.7 * losses[0]
    assert all(torch.equal(value, before[key]) for key, value in net.state_dict().items())
    assert all(p.grad is None for p in net.parameters())


def test_a_perfect_state_prediction_costs_nothing_and_a_zero_one_costs_one() -> None:
    h = [torch.randn(4, 3) for _ in range(3)]
    assert prediction_loss(lambda l, _: h[-1], h, h[-1]) == 0
    assert prediction_loss(lambda l, _: torch.zeros(4, 3), h, h[-1]) == pytest.approx(1)


def test_state_bridge_credit_is_the_gradient_through_the_prediction(
    net: StreamNet, batch: Batch
) -> None:
    net = net.double()
    x, y = batch(net, 4)
    method = bridge("state_bridge", net).double()
    logits, stream = net(x, return_hidden=True)
    credit = method.credit(net, stream, logits, y)
    s = (logits.softmax(1) - F.one_hot(y, 10)).detach()
    for l, h in enumerate(stream):
        leaf = h.detach().requires_grad_()
        t = torch.full((4, 1), l / net.n_blocks, dtype=torch.float64)
        layers = method.bridge
        u = F.gelu(layers.inputs["16"](torch.cat([leaf, t, s], 1)))
        predicted = layers.output(F.gelu(layers.hidden(u)))
        ce = F.cross_entropy(net.head(net.out_ln(predicted)), y, reduction="sum")
        expected = torch.autograd.grad(ce, leaf)[0]
        a = credit[l]
        assert a is not None and torch.allclose(a, expected)


def test_soft_values_equal_the_formula_drawn_by_hand() -> None:
    h = [torch.zeros(2, 3, dtype=torch.float64), torch.ones(2, 3, dtype=torch.float64)]
    s = torch.tensor([[1.0], [2.0]], dtype=torch.float64)

    def value(l: int, state: torch.Tensor, error: torch.Tensor) -> torch.Tensor:
        return l * (state.square().sum(1, keepdim=True) * error)

    (soft,) = soft_values(value, h, s, 0.1, 0.5, 4, torch.Generator().manual_seed(3))
    xi = torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    noisy = (h[1] + 0.1 * xi).square().sum(2) * s.T
    assert torch.allclose(soft, -0.5 * torch.exp(-noisy / 0.5).mean(0).log())


def test_the_terminal_targets_are_the_loss_and_its_gradient_per_sample(
    net: StreamNet, batch: Batch
) -> None:
    x, y = batch(net, 6)
    _, info = bridge("credit_bridge", net).loss(net, x, y)
    logits, stream = net(x, return_hidden=True)
    g_L = make_method("bp", net).credit(net, stream, logits, y)[-1]
    assert g_L is not None
    assert torch.allclose(info.targets["ce"], F.cross_entropy(logits, y, reduction="none"))
    assert torch.allclose(info.targets["g_L"], g_L, atol=1e-6)


@pytest.mark.parametrize(("variant", "weight"), [("published", 1.0), ("stable", 10.0)])
def test_credit_bridge_minimises_value_gradient_and_bridge_errors(
    variant: str, weight: float, net: StreamNet, batch: Batch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(CreditBridge, "SIGMA", 0.0)
    net = net.double()
    x, y = batch(net, 6)
    method = bridge("credit_bridge", net, variant=variant).double()
    _, info = method.loss(net, x, y)
    s = (info.logits.softmax(1) - F.one_hot(y, 10)).detach()
    value = method.bridge
    h_L = info.stream[-1].clone().requires_grad_()
    terminal = value(3, h_L, s)[:, 0]
    (gradient,) = torch.autograd.grad(terminal.sum(), h_L)
    g_L = info.targets["g_L"]
    matching = (gradient - g_L).norm(dim=1).square().mean() / g_L.norm(dim=1).square().mean()
    steps = [value(l, info.stream[l], s) - value(l + 1, info.stream[l + 1], s) for l in range(3)]
    expected = (
        (terminal - info.targets["ce"]).square().mean()
        + weight * matching
        + torch.stack(steps).square().mean()
    )
    assert torch.allclose(method.bridge_loss(info, s), expected)


def test_the_average_value_net_follows_slowly(net: StreamNet, batch: Batch) -> None:
    method = make_method("credit_bridge", net)
    assert isinstance(method, CreditBridge)
    before = method.value.output.weight.detach().clone()
    _, info = method.loss(net, *batch(net, 6))
    method.extra_step(net, info)
    moved = method.value.output.weight.detach() - before
    assert torch.allclose(method.value_ema.output.weight - before, 0.01 * moved, atol=1e-8)


@pytest.mark.slow
@pytest.mark.parametrize(("method", "least"), [("state_bridge", 0.9), ("credit_bridge", 0.8)])
def test_the_bridges_recover_the_costate_of_the_linear_quadratic_toy(
    method: str, least: float
) -> None:
    assert costate_cosine(method, steps=600) > least
