"""Equilibrium propagation: the energy, its free phase, and where the nudge points."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from fa_core.methods import make_method
from fa_core.methods.ep import energies, nudged_phase
from fa_core.models import StreamNet, build
from tests.fa_core.methods.conftest import Batch


def train(net: StreamNet, method: str, steps: int) -> tuple[Tensor, Tensor]:
    """Train on a linearly separable task; returns its samples."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(512, net.input_shape[0], generator=generator)
    y = (x @ torch.randn(net.input_shape[0], 10, generator=generator)).argmax(1)
    rule = make_method(method, net)
    optimizer = torch.optim.AdamW(rule.trained_parameters(net), lr=6e-3)
    for step in range(steps):
        part = slice(64 * (step % 8), 64 * (step % 8) + 64)
        loss, info = rule.loss(net, x[part], y[part])
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        rule.extra_step(net, info)
    return x, y


def test_the_forward_pass_is_the_equilibrium_at_beta_zero(net: StreamNet, batch: Batch) -> None:
    net = net.double()
    x, y = batch(net, 6)
    with torch.no_grad():
        logits, stream = net(x, return_hidden=True)
    energy, gradients = energies(net, stream, stream[0], y, beta=0.0)
    assert float(energy.max()) < 1e-25
    assert all(float(g.abs().max()) < 1e-12 for g in gradients)
    nudged, _ = energies(net, stream, stream[0], y, beta=0.1)
    assert torch.allclose(nudged, 0.1 * F.cross_entropy(logits, y, reduction="none"))


@pytest.mark.parametrize("eta", [0.1, 0.3, 30.0])
def test_no_samples_energy_ever_rises(eta: float, net: StreamNet, batch: Batch) -> None:
    net = net.double()
    x, y = batch(net, 6)
    with torch.no_grad():
        _, free = net(x, return_hidden=True)
    before, _ = energies(net, free, free[0], y, beta=0.1)
    after, _ = energies(net, nudged_phase(net, free, y, 0.1, eta, steps=12), free[0], y, beta=0.1)
    assert (after < before).all()


def test_measuring_in_float32_gives_the_credit_of_float64(net: StreamNet, batch: Batch) -> None:
    x, y = batch(net, 6)
    logits, stream = net(x, return_hidden=True)
    single = make_method("ep", net).credit(net, stream, logits, y)
    precise = net.double()
    with torch.no_grad():
        logits, stream = precise(x.double(), return_hidden=True)
    double = make_method("ep", precise).credit(precise, stream, logits, y)
    for a, b in zip(single, double, strict=True):
        assert a is not None and b is not None
        assert torch.allclose(a.double(), b, rtol=1e-4, atol=1e-7)


def test_its_float64_copy_follows_the_networks_weights_statistics_and_mode(batch: Batch) -> None:
    net = build("smallcnn", image=8, width=4, d=12, seed=0).train()
    x, y = batch(net, 6)
    rule = make_method("ep", net)
    loss, _ = rule.loss(net, x, y)
    loss.backward()  # type: ignore[no-untyped-call]
    torch.optim.SGD(net.parameters(), lr=1.0).step()
    for training in (False, True):
        net.train(training)
        with torch.no_grad():
            h_0 = net.embed_input(x)
        stream = [h_0] * (net.n_blocks + 1)
        expected = make_method("ep", net).credit(
            copy.deepcopy(net).double(), [h.double() for h in stream], x, y
        )
        for a, b in zip(rule.credit(net, stream, x, y), expected, strict=True):
            assert a is not None and b is not None
            assert torch.allclose(a.double(), b, rtol=1e-5, atol=0)
