"""Equilibrium propagation: the energy, its free phase, and where the nudge points."""

from __future__ import annotations

import copy

import pytest
import torch

from fa_core.methods import make_method
from fa_core.methods.ep import energies, nudged_phase
from fa_core.models import StreamNet, build
from tests.fa_core.methods.conftest import Batch


@pytest.mark.parametrize("eta", [0.1, 0.3, 30.0])
def test_no_samples_energy_ever_rises(eta: float, net: StreamNet, batch: Batch) -> None:
    net = net.double()
    x, y = batch(net, 6)
    with torch.no_grad():
        _, free = net(x, return_hidden=True)
    before, _ = energies(net, free, free[0], y, beta=0.1)
    after, _ = energies(net, nudged_phase(net, free, y, 0.1, eta, steps=12), free[0], y, beta=0.1)
    assert (after < before).all()


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
